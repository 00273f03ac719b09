"""The table that a command works on: from a file, its features, labels, weights and the names of its columns.

Nothing in a file is executed: arrays are read without pickle, tensors with weights_only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...coresets import load_npz, load_tensors
from ...errors import nearest
from ...sources import RepeatedRows, Source, as_source, fingerprint_of
from ...sources.files import FORMATS, column_named, format_of, mapped, read_column, schema_of, usable
from ..settings import Common, UsageError, argument, option
from .examples import PREFIX, example_table

Key = int | str
ARRAYS = (".npz", ".pt", ".pth")  # files of several arrays by name
USUAL = ("X", "x", "features", "data", "points")  # names of the table among several arrays


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSettings(Common):
    """What is read of a table."""

    data: str = argument("table: .csv, .tsv, .parquet, .npy, .npz or .pt; or example:ring, example:digits")
    columns: str | list[str | int] | None = option(
        "columns of the features, by name or number from 0: a,b,c (all but label and weights)", None, metavar="NAMES"
    )
    label: str | int | None = option("column of labels; they are not used as features", None, metavar="NAME")
    weights: str | int | None = option("column of row weights; they are not used as features", None, metavar="NAME")
    weights_are: Literal["importance", "counts"] | None = option(
        "what they mean: importance, or counts of rows alike (importance)", None
    )
    key: str | None = option("which array of an .npz or .pt file is the table", None)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of features, read as it is needed if it is a large file.

    Attributes:
        name: of the file, for people.
        source: rows of features, weighted if weights were named.
        columns: names of the features.
        labels: (rows,) numbers or text, or None.
        label: name of their column, or None.
        weights: name of the column of weights, or None.
        fingerprint: of the rows, so that `certify` notices when they built the coreset.
    """

    name: str
    source: Source
    columns: tuple[str, ...]
    labels: NDArray[Any] | None
    label: str | None
    weights: str | None
    fingerprint: str | None

    @property
    def rows(self) -> int:
        """Number of rows in the file."""
        rows = self.source.distinct if isinstance(self.source, RepeatedRows) else self.source.size
        assert rows is not None
        return rows


def read_table(settings: DataSettings) -> Table:
    """Open the table that the settings name."""
    if settings.weights is None and settings.weights_are is not None:
        raise UsageError("--weights-are: given without --weights; expected it with the column that it speaks of.")
    if settings.data.startswith(PREFIX):
        rows, names, label = example_table(settings.data.removeprefix(PREFIX))
        table = _from_arrays(settings, settings.data, rows, names, {"label": label})
    else:
        path = Path(settings.data)
        if not path.is_file():
            raise UsageError(f"DATA: there is no file {settings.data!r}.")
        if format_of(path) in ARRAYS:
            arrays = load_arrays(path)
            rows = arrays.pop(_main_array(arrays, settings.key, path))
            table = _from_arrays(settings, path.name, rows, _numbered(path, rows), arrays)
        elif format_of(path) in FORMATS:
            table = _from_file(settings, path)
        else:
            raise UsageError(
                f"DATA: got {path.name!r}; expected a file that ends in .csv, .tsv, .parquet, .npy, .npz or .pt."
            )
    if table.labels is not None and len(table.labels) != table.rows:
        raise UsageError(f"--label: got {len(table.labels)} labels for {table.rows} rows; expected one for each row.")
    return table


def header(data: str) -> list[str] | None:
    """Names of the columns of a table that has names: CSV, TSV, Parquet; else None."""
    path = Path(data)
    if data.startswith(PREFIX) or format_of(path) not in FORMATS or format_of(path) == ".npy" or not path.is_file():
        return None
    return list(schema_of(path).names)


def _from_file(settings: DataSettings, path: Path) -> Table:
    """A table of which only parts are read at a time; labels are read whole."""
    array = mapped(path) if format_of(path) == ".npy" else None
    if array is not None and settings.key is not None:
        raise UsageError(f"--key: {path.name} holds one array; expected --key with .npz and .pt files only.")
    schema = None if array is not None else schema_of(path)
    names = list(schema.names) if schema is not None else _numbered(path, array)
    label, weights = (
        None if key is None else _name(names, key, flag, path.name)
        for key, flag in ((settings.label, "--label"), (settings.weights, "--weights"))
    )
    features = _features(settings, names, label, weights, path.name)
    if array is not None:
        places = [names.index(name) for name in features] if array.ndim == 2 else None
        source = _source(settings, path, None if weights is None else names.index(weights), places)
        labels = None if label is None else array[:, names.index(label)]
    else:
        _check_numbers(path.name, features, label, schema)
        source = _source(settings, path, weights, features)
        labels = None if label is None else _text_or_numbers(path, label)
    if source.dimension != len(features):  # columns of vectors
        features = [f"x{k}" for k in range(source.dimension or 0)]
    return _table(path.name, source, features, labels, label, weights)


def _from_arrays(
    settings: DataSettings, name: str, rows: NDArray[Any], names: Sequence[str], others: Mapping[str, Any]
) -> Table:
    """A table in memory; labels and weights are columns of it, or arrays of their own beside it."""
    rows = rows if rows.ndim == 2 else rows[:, None]

    def column(key: Key | None, flag: str) -> tuple[str | None, Any]:
        if key is None or (isinstance(key, str) and key in others):
            return key, None if key is None else others[key]
        found = _name(names, key, flag, name)
        return found, rows[:, names.index(found)]

    (label, labels), (weights, mass) = column(settings.label, "--label"), column(settings.weights, "--weights")
    features = _features(settings, names, label, weights, name)
    if len(features) < len(names):
        rows = rows[:, [names.index(feature) for feature in features]]
    return _table(name, _source(settings, rows, mass), features, labels, label, weights)


def _table(
    name: str, source: Source, features: Sequence[str], labels: Any, label: str | None, weights: str | None
) -> Table:
    found = None if labels is None else whole(labels)
    return Table(name, source, tuple(features), found, label, weights, fingerprint_of(source))


def _source(settings: DataSettings, rows: Any, weights: Any, features: Sequence[Key] | None = None) -> Source:
    """A table with its weights, which mean what the settings say."""
    return as_source(rows, weights, weights_are=settings.weights_are or "importance", features=features)


def _name(names: Sequence[str], key: Key, flag: str, where: str) -> str:
    """The name of a column that is given by name or number; a column may itself be called 7."""
    return column_named(names, str(key) if str(key) in names else _number(key), flag, where)


def _number(key: Key) -> Key:
    return int(key) if isinstance(key, str) and key.isdecimal() else key


def _features(
    settings: DataSettings, names: Sequence[str], label: str | None, weights: str | None, where: str
) -> list[str]:
    """Names of the columns that were asked for, or of all but label and weights."""
    keys: Any = settings.columns
    if keys is None:
        features = [name for name in names if name not in (label, weights)]
    else:
        keys = [part.strip() for part in keys.split(",")] if isinstance(keys, str) else keys
        features = [_name(names, key, "--columns", where) for key in keys]
    if not features:
        raise UsageError(f"--columns: {where} has no columns but label and weights; expected features.")
    if label is not None and label in features:
        raise UsageError(f"--columns: {label!r} is the label too; expected it once. Leave it out of one of the two.")
    return features


def _numbered(path: Path, array: Any) -> list[str]:
    """Names for the columns of an array."""
    if array.ndim not in (1, 2):
        raise UsageError(f"DATA: {path.name} holds an array of shape {array.shape}; expected (rows, columns).")
    return [f"x{k}" for k in range(array.shape[1] if array.ndim == 2 else 1)]


def _check_numbers(name: str, features: Sequence[str], label: str | None, schema: Any) -> None:
    """Raise if some of the columns hold text: say which, and what may have been meant."""
    text = [column for column in features if not usable(schema.field(column).type)]
    if not text:
        return
    said = f"--columns: {name} has columns that are not numbers: {', '.join(text)}."
    # None of those that were asked for: say which there are.
    others = [column for column in features if column not in text] or [
        column for column in schema.names if usable(schema.field(column).type)
    ]
    if not others:
        raise UsageError(f"{said} Columns are separated by commas, semicolons or tabs, the same in every line.")
    quote = '"' if any(" " in column for column in others) else ""
    hint = f" A column of classes is named apart: --label {text[0]}." if label is None else ""
    raise UsageError(f"{said} Choose others, such as --columns {quote}{','.join(others)}{quote}.{hint}")


def _text_or_numbers(path: Path, label: str) -> NDArray[Any]:
    column = read_column(path, label)
    if column.null_count:
        raise UsageError(
            f"--label: {column.null_count} rows of {path.name} have no value in {label!r}. Drop them first."
        )
    return np.asarray(column)


def load_arrays(path: Path) -> dict[str, Any]:
    """The arrays of an .npz file, or the tensors of a .pt file, by name; nothing in it is executed."""
    if path.suffix.lower() == ".npz":
        try:
            return load_npz(path)
        except Exception as error:  # zip, zlib, numpy and its parser raise errors of many kinds for a damaged file
            raise UsageError(f"{path} is not a .npz file of plain arrays ({error}).") from error
    try:
        held = load_tensors(path)
    except Exception as error:  # torch raises pickle, zip and its own errors; none of them says more than this
        raise UsageError(f"{path} is not a .pt file of plain tensors; save a tensor, or a dict of tensors.") from error
    if isinstance(held, Tensor):
        return {"data": _as_array(held)}
    if not isinstance(held, dict):
        raise UsageError(f"{path} holds a {type(held).__name__}; expected a tensor or a dict of tensors.")
    return {str(name): _as_array(part) if isinstance(part, Tensor) else part for name, part in held.items()}


def _as_array(tensor: Tensor) -> NDArray[Any]:
    tensor = tensor.detach()
    array: NDArray[Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()  # numpy has none
    return array


def _main_array(arrays: dict[str, Any], key: str | None, path: Path) -> str:
    tables = [name for name, array in arrays.items() if isinstance(array, np.ndarray) and array.ndim > 0]
    if key is not None:
        if key not in tables:
            raise UsageError(f"--key: {key!r} is not an array of {path.name}{nearest(key, tables)}")
        return key
    usual = [name for name in USUAL if name in tables]
    if usual or len(tables) == 1:
        return (usual or tables)[0]
    raise UsageError(f"DATA: {path.name} holds the arrays {', '.join(tables) or 'none'}; say which with --key.")


def whole(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as whole numbers where a table of floats holds them."""
    labels = np.asarray(labels)
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == np.round(labels)).all():
        return labels.astype(np.int64)
    return labels
