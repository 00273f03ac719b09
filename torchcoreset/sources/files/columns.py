"""Columns of CSV and Parquet files, as pyarrow reads them: which to take, and how they become rows of numbers."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import nearest
from ...tensors import check_whole
from ..layout import Key, Layout
from ..rows import float_tensor


def pyarrow(module: str, path: Path) -> Any:
    """A module of pyarrow, such as "pyarrow.csv", or an ImportError that says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"source: reading {path.name} needs pyarrow: pip install 'torchcoreset[files]'.") from error


def is_key(weights: Any) -> bool:
    """Whether weights are given as the name or number of a column."""
    return isinstance(weights, (str, int)) and not isinstance(weights, bool)


def column_named(names: Sequence[str], key: Key, argument: str, where: str) -> str:
    """The name of the column that is given by name or number; ValueError if there is none."""
    if isinstance(key, int) and 0 <= key < len(names):
        return names[key]
    if key in names:
        return str(key)
    raise ValueError(f"{argument}: {key!r} is not a column of {where}{nearest(str(key), names)}")


def choose_columns(path: Path, names: list[str], weights: Any, layout: Layout) -> tuple[list[str], str | None]:
    """Names of the feature columns, and of the column of weights.

    Args:
        path: for messages.
        names: of all columns.
        weights: name or number of a column; anything else is not a column.
        layout: `features` are names or numbers of columns; None for all columns but the weights.

    Raises:
        ValueError: there are no such columns.
    """
    if len(set(names)) < len(names):
        raise ValueError(f"source: {path.name} has columns of the same name: {names}. Rename them.")
    weight = column_named(names, weights, "weights", path.name) if is_key(weights) else None
    if layout.features is not None:
        keys = layout.features if isinstance(layout.features, tuple) else (layout.features,)
        return [column_named(names, key, "features", path.name) for key in keys], weight
    chosen = [name for name in names if name != weight]
    if not chosen:
        raise ValueError(f"source: {path.name} has no columns but the weights; expected features.")
    return chosen, weight


def check_numbers(path: Path, schema: Any, chosen: list[str], weight: str | None) -> None:
    """Raise ValueError if one of the chosen columns holds no numbers, and name columns that do."""
    other = {name: str(schema.field(name).type) for name in chosen if not usable(schema.field(name).type)}
    if not other:
        return
    found = ", ".join(f"{name!r} ({_in_words(kind)})" for name, kind in other.items())
    numbers = [name for name in schema.names if name != weight and usable(schema.field(name).type)]
    remedy = (
        f"Choose columns of numbers with `as_source(..., features=[...])`, such as {numbers[:6]}."
        if numbers
        else "Columns are separated by commas, semicolons or tabs, the same in every line."
    )
    raise ValueError(f"source: {path.name} has columns that are not numbers: {found}. {remedy}")


def _in_words(kind: str) -> str:
    """A type of pyarrow for people."""
    if kind in ("string", "large_string", "string_view") or kind.startswith("dictionary<values=string"):
        return "text"
    return "dates" if kind.startswith(("date", "timestamp")) else kind


def rows_of_columns(path: Path, columns: Sequence[Any], names: Sequence[str]) -> Tensor:
    """Put pyarrow columns side by side as rows, (rows, d), in the widest of their dtypes; a missing value becomes NaN.

    Raises:
        ValueError: a column holds no numbers, whole ones that float64 cannot hold, or lists of several lengths.
    """
    parts = [
        float_tensor(_array(path, column, name), f"source: {path.name}, column {name!r}")
        for column, name in zip(columns, names, strict=True)
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _array(path: Path, column: Any, name: str) -> np.ndarray[Any, Any]:
    """One column as (rows, 1), or (rows, k) for a column of vectors."""
    kind, values = column.type, column
    if _is_vector(kind):
        compute = pyarrow("pyarrow.compute", path)
        lengths = compute.unique(compute.list_value_length(column)).to_pylist()
        if len(lengths) != 1 or lengths[0] is None:
            raise ValueError(f"source: {path.name} has lists of several lengths in column {name!r}; expected vectors.")
        kind, values = kind.value_type, compute.list_flatten(column)
    if not _is_number(kind):
        raise ValueError(
            f"source: {path.name} has {kind} in column {name!r}; expected numbers. Encode or leave it out."
        )
    # Decimals become objects in NumPy, and so do bits with gaps.
    if kind == "bool" or "decimal" in str(kind):
        values = values.cast("uint8" if kind == "bool" else "float64")
    array = np.asarray(values)
    if is_whole(kind) and array.dtype.kind == "f" and array.size:  # of a column with gaps, which are NaN
        check_whole(torch.from_numpy(np.nan_to_num(array)), f"source: {path.name}, column {name!r}")
    return array.reshape(len(column), -1)


def usable(kind: Any) -> bool:
    """Whether a column of this pyarrow type holds numbers, or vectors of them."""
    # A CSV column has no type where its first block has no values; reading says which row that is.
    return kind == "null" or _is_number(kind.value_type if _is_vector(kind) else kind)


def _is_number(kind: Any) -> bool:
    return str(kind).startswith(("int", "uint", "float", "double", "halffloat", "decimal", "bool"))


def is_whole(kind: Any) -> bool:
    """Whether a column of this type holds whole numbers, or vectors of them."""
    return str(kind.value_type if _is_vector(kind) else kind).startswith(("int", "uint"))


def _is_vector(kind: Any) -> bool:
    return str(kind).startswith(("list<", "large_list<", "fixed_size_list<"))
