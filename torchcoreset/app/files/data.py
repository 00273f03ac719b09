"""The table that a command works on: from a file, its features, labels, weights and the names of its columns.

Nothing in a file is executed: arrays are read without pickle, tensors with weights_only.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...coresets import load_npz, load_tensors
from ...sources import RepeatedRows, Source, as_source, fingerprint_of
from ...sources.files import Dialect, csv_options, dialect_of, open_blocks, pyarrow, usable
from ..settings import Common, UsageError, argument, nearest, option
from .examples import PREFIX, example_table

Key = int | str
ARROW = (".csv", ".tsv", ".parquet", ".pq")
COMPRESSED = (".gz", ".bz2")
USUAL = ("X", "x", "features", "data", "points")  # names of the table among several arrays


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataSettings(Common):
    """What is read of a table."""

    data: str = argument("table: .csv, .tsv, .parquet, .npy, .npz or .pt; or example:ring, example:digits")
    columns: str | list[str | int] | None = option(
        "columns of the features, by name or number from 0: a,b,c (all but label and weights)", None, metavar="NAMES"
    )
    label: str | int | None = option("column of labels, which are no features", None, metavar="NAME")
    weights: str | int | None = option("column of row weights, which are no features", None, metavar="NAME")
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
        mark: by which the rows are known again.
    """

    name: str
    source: Source
    columns: tuple[str, ...]
    labels: NDArray[Any] | None
    label: str | None
    weights: str | None
    mark: str | None

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
        columns = example_table(settings.data.removeprefix(PREFIX))
        if settings.label is None and settings.columns is None:  # nobody means the label as a feature here
            columns.pop("label")
        table = _from_columns(settings, columns)
    else:
        path = Path(settings.data)
        if not path.is_file():
            raise UsageError(f"DATA: there is no file {settings.data!r}.")
        kind = _kind(path)
        if kind in ARROW:
            table = _from_arrow(settings, path, kind)
        elif kind in (".npy", ".npz", ".pt", ".pth"):
            table = _from_arrays(settings, path, kind)
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
    if data.startswith(PREFIX) or _kind(path) not in ARROW or not path.is_file():
        return None
    return list(_arrow_schema(path, _kind(path))[0].names)


def _kind(path: Path) -> str:
    """The suffix that says what a file holds."""
    suffixes = [suffix.lower() for suffix in path.suffixes] or [""]
    return suffixes[-2] if suffixes[-1] in COMPRESSED and len(suffixes) > 1 else suffixes[-1]


def _source(settings: DataSettings, rows: Any, weights: Any, features: list[Key] | None = None) -> Source:
    """A table with its weights, which mean what the settings say."""
    return as_source(rows, weights, weights_are=settings.weights_are or "importance", features=features)


def _keys(named: str | list[str | int] | None) -> list[Key] | None:
    """The columns that were asked for; text is split at commas."""
    if named is None:
        return None
    return [_number(part.strip()) for part in named.split(",")] if isinstance(named, str) else [*map(_number, named)]


def _number(key: Key) -> Key:
    return int(key) if isinstance(key, str) and key.isdecimal() else key


def _resolve(key: Key, names: list[str], flag: str, where: str) -> str:
    """The name of a column that is given by name or number; a column may itself be called 7."""
    if str(key) in names:
        return str(key)
    if isinstance(_number(key), int) and 0 <= int(key) < len(names):
        return names[int(key)]
    raise UsageError(f"{flag}: {key!r} is no column of {where}{nearest(str(key), names)}")


@dataclasses.dataclass(frozen=True)
class _Chosen:
    """Names of columns: features, and label and weights if there are any."""

    features: list[str]
    label: str | None
    weights: str | None


def _choose(settings: DataSettings, names: list[str], where: str) -> _Chosen:
    label, weights = (
        None if key is None else _resolve(key, names, flag, where)
        for key, flag in ((settings.label, "--label"), (settings.weights, "--weights"))
    )
    keys = _keys(settings.columns)
    if keys is None:
        features = [name for name in names if name not in (label, weights)]
    else:
        features = [_resolve(key, names, "--columns", where) for key in keys]
    if not features:
        raise UsageError(f"--columns: {where} has no columns but label and weights; expected features.")
    if label is not None and label in features:
        raise UsageError(f"--columns: {label!r} is the label too; expected it once. Leave it out of one of the two.")
    return _Chosen(features, label, weights)


def _from_columns(settings: DataSettings, columns: dict[str, NDArray[Any]]) -> Table:
    chosen = _choose(settings, list(columns), settings.data)
    rows = np.stack([columns[name] for name in chosen.features], axis=1)
    weights = None if chosen.weights is None else columns[chosen.weights]
    source = _source(settings, rows, weights)
    labels = None if chosen.label is None else whole(columns[chosen.label])
    named = (chosen.label, chosen.weights)
    return Table(settings.data, source, tuple(chosen.features), labels, *named, fingerprint_of(source))


def _from_arrow(settings: DataSettings, path: Path, kind: str) -> Table:
    schema, dialect = _arrow_schema(path, kind)
    chosen = _choose(settings, list(schema.names), path.name)
    text = [name for name in chosen.features if not usable(schema.field(name).type)]
    if text:
        raise UsageError(f"--columns: {_no_numbers(path.name, text, chosen, schema)}")
    source = _source(settings, path, chosen.weights, list(chosen.features))
    columns = chosen.features
    if source.dimension != len(columns):  # columns of vectors
        columns = [f"x{k}" for k in range(source.dimension or 0)]
    labels = None if chosen.label is None else _arrow_column(path, chosen.label, dialect)
    return Table(path.name, source, tuple(columns), labels, chosen.label, chosen.weights, fingerprint_of(source))


def _no_numbers(name: str, text: list[str], chosen: _Chosen, schema: Any) -> str:
    """What is wrong with columns of text, and what may have been meant."""
    said = f"{name} has columns that are no numbers: {', '.join(text)}."
    others = [column for column in chosen.features if column not in text]
    if not others:  # none of those that were asked for: say which there are
        others = [column for column in schema.names if usable(schema.field(column).type)]
    if not others:
        return f"{said} Columns are separated by commas, semicolons or tabs, the same in every line."
    quote = '"' if any(" " in column for column in others) else ""
    label = f" A column of classes is named apart: --label {text[0]}." if chosen.label is None else ""
    return f"{said} Choose others, such as --columns {quote}{','.join(others)}{quote}.{label}"


def _arrow_schema(path: Path, kind: str) -> tuple[Any, Dialect | None]:
    """Names and types of the columns, and how a CSV file holds them."""
    if kind in (".parquet", ".pq"):
        arrow, parquet = pyarrow("pyarrow", path), pyarrow("pyarrow.parquet", path)
        try:
            return parquet.read_schema(path), None
        except arrow.ArrowInvalid as error:
            raise UsageError(f"DATA: {path.name} is no Parquet file ({error}).") from error
    dialect = dialect_of(path)
    with open_blocks(path, dialect, None) as reader:
        return reader.schema, dialect


def _arrow_column(path: Path, name: str, dialect: Dialect | None) -> NDArray[Any]:
    """One column of labels, of any type."""
    if dialect is None:
        column = pyarrow("pyarrow.parquet", path).read_table(path, columns=[name]).column(name)
    else:
        options = csv_options(path, dialect, include_columns=[name], strings_can_be_null=True)
        column = pyarrow("pyarrow.csv", path).read_csv(path, *options).column(name)
    if column.null_count:
        raise UsageError(
            f"--label: {column.null_count} rows of {path.name} have no value in {name!r}. Drop them first."
        )
    return whole(np.asarray(column))


def _from_arrays(settings: DataSettings, path: Path, kind: str) -> Table:
    """A table among named arrays; labels and weights are columns of it or arrays of their own."""
    if kind == ".npy":  # mapped: only what is needed is read
        if settings.key is not None:
            raise UsageError(f"--key: {path.name} holds one array; expected --key with .npz and .pt files only.")
        main: Any = path
        shape: tuple[int, ...] = _npy_shape(path)
        others: dict[str, NDArray[Any]] = {}
    else:
        arrays = load_arrays(path)
        name = _main_array(arrays, settings.key, path)
        main = arrays.pop(name)
        shape, others = main.shape, arrays
    if len(shape) not in (1, 2):
        raise UsageError(f"DATA: {path.name} holds an array of shape {shape}; expected (rows, columns).")
    names = [f"x{k}" for k in range(shape[1] if len(shape) == 2 else 1)]
    apart: dict[str, NDArray[Any]] = {}
    for flag, key in (("label", settings.label), ("weights", settings.weights)):
        if isinstance(key, str) and key in others:
            apart[flag] = others[key]
    of_table: dict[str, Any] = dict.fromkeys(apart)  # what is not to be looked for among the columns
    chosen = _choose(dataclasses.replace(settings, **of_table), names, path.name)
    places = [names.index(name) for name in chosen.features]
    column = {name: names.index(name) for name in (chosen.label, chosen.weights) if name is not None}
    weights: Any = apart.get("weights")
    if isinstance(main, Path):
        labels = None if chosen.label is None else np.load(main, mmap_mode="r")[:, column[chosen.label]]
        weights = weights if chosen.weights is None else column[chosen.weights]
        source = _source(settings, main, weights, None if len(shape) == 1 else list(places))
    else:
        whole_table = main if main.ndim == 2 else main[:, None]
        labels = apart.get("label") if chosen.label is None else whole_table[:, column[chosen.label]]
        weights = weights if chosen.weights is None else whole_table[:, column[chosen.weights]]
        source = _source(settings, whole_table if len(places) == len(names) else whole_table[:, places], weights)
    label, weight = (
        str(key) if flag in apart else found
        for flag, key, found in (("label", settings.label, chosen.label), ("weights", settings.weights, chosen.weights))
    )
    found = None if labels is None else whole(labels)
    return Table(path.name, source, tuple(chosen.features), found, label, weight, fingerprint_of(source))


def load_arrays(path: Path) -> dict[str, Any]:
    """The arrays of an .npz file, or the tensors of a .pt file, by name; nothing in it is executed."""
    if path.suffix.lower() == ".npz":
        try:
            return load_npz(path)
        except Exception as error:  # zip, zlib, numpy and its parser raise errors of many kinds for a damaged file
            raise UsageError(f"{path} is no .npz file of plain arrays ({error}).") from error
    try:
        held = load_tensors(path)
    except Exception as error:  # torch raises pickle, zip and its own errors; none of them says more than this
        raise UsageError(f"{path} is no .pt file of plain tensors; save a tensor, or a dict of tensors.") from error
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
            raise UsageError(f"--key: {key!r} is no array of {path.name}{nearest(key, tables)}")
        return key
    usual = [name for name in USUAL if name in tables]
    if usual or len(tables) == 1:
        return (usual or tables)[0]
    raise UsageError(f"DATA: {path.name} holds the arrays {', '.join(tables) or 'none'}; say which with --key.")


def _npy_shape(path: Path) -> tuple[int, ...]:
    try:
        return tuple(np.load(path, mmap_mode="r", allow_pickle=False).shape)
    except Exception as error:  # a damaged header is parsed as Python's literals, whose errors are of many kinds
        raise UsageError(f"DATA: {path.name} is no .npy file of numbers ({error}).") from error


def whole(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as whole numbers where a table of floats holds them."""
    labels = np.asarray(labels)
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == np.round(labels)).all():
        return labels.astype(np.int64)
    return labels
