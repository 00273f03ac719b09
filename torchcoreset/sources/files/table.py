"""The door for tables: from whatever holds one to its features, labels, weights, ids, and what was taken for what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import warn_user
from ...names import DateUnit, WeightsAre
from ...tensors import check_finite, check_name
from ..layout import Key
from ..tables import RandomAccessSource, RepeatedRows, TensorSource, fingerprint_of
from .arrays import ArrayReader, InMemory, NamedArrays, held_by_name, is_lazy_array
from .arrow import in_memory, is_lazy, lazy_reader, memory_reader
from .columns import NOT_CHOSEN, OneHot, Roles, choose, counting, is_key, plain_array, rows_of, titles_of
from .dialect import Dialect
from .formats import is_path, is_text, reader_of
from .reader import Reader
from .source import FileSource

SHOWN = 6  # names in a note; of more the number is said
PLAIN = Dialect()


@dataclass(frozen=True)
class Table:
    """A table, read as it is needed, and what its columns were taken for.

    Attributes:
        name: of the file or type.
        source: its rows of features, (d,) each, with their weights.
        columns: (d,) names of the columns of these rows.
        features: names of the columns of the table that they are made of.
        categories: of text that became columns of numbers, by the name of its column.
        labels, ids: (rows,) numbers or text, or None.
        label, weights, id: names of these columns, or None.
        left_out: columns that serve nothing, and why.
        counting: features that count the rows, and may be ids that were not named.
        findings: what had to be guessed to read it, in words.
    """

    name: str
    source: RandomAccessSource
    columns: tuple[str, ...]
    features: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: NDArray[Any] | None = None
    ids: NDArray[Any] | None = None
    label: str | None = None
    weights: str | None = None
    id: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    counting: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Number of rows in the table; rows with counts count once."""
        return self.source.distinct if isinstance(self.source, RepeatedRows) else self.source.size

    @cached_property
    def fingerprint(self) -> str | None:
        """By which `certify` notices that its rows have built the coreset."""
        return fingerprint_of(self.source)

    @property
    def note(self) -> str:
        """What was taken for what, in one line."""
        count = len(self.columns)
        names = f" ({', '.join(self.columns)})" if count <= SHOWN else ""
        said = [f"{self.rows:,} rows, {count:,} feature{'' if count == 1 else 's'}{names}"]
        said += [f"{role}: {name}" for role in ("label", "weights", "id") if (name := getattr(self, role)) is not None]
        left = [f"{name or 'unnamed'} ({why})" for name, why in self.left_out.items() if why != NOT_CHOSEN]
        if len(left) < len(self.left_out):
            said.append(f"{len(self.left_out) - len(left)} of its columns not chosen")
        if left:
            said.append(f"left out: {', '.join(left[:SHOWN])}{f' and {len(left) - SHOWN} more' * (len(left) > SHOWN)}")
        if self.counting:
            said.append(f"{', '.join(self.counting)} counts the rows: if it is an id, name it so")
        return "; ".join(said)


def read_table(
    data: Any,
    features: Key | Sequence[Key] | None = None,
    *,
    label: Key | None = None,
    weights: Any = None,
    weights_are: WeightsAre = "importance",
    id: Key | None = None,
    one_hot: OneHot | None = None,
    dates: DateUnit | None = None,
    key: str | None = None,
    flatten: bool = False,
    separator: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    quote: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
) -> Table:
    """Open a table, and tell its features from labels, weights, ids and what is none of them.

    Reads .csv and .tsv (plain, .gz, .bz2, .zst), .parquet, .feather and .arrow, .npy, .npz, .pt and .safetensors files;
    a folder of such files, also with hive partitions, a pattern such as "data/*.parquet", or a list of paths, as one
    table; a pyarrow Table or Dataset, a pandas or polars DataFrame, a polars LazyFrame, a Hugging Face Dataset, a Dask
    DataFrame or array, and h5py and zarr arrays. What is on disk or lazy is read in blocks and never held whole; arrays
    of .npz, .pt and .safetensors files, and frames in memory, are.

    Columns that a file's own metadata call an index are left out, and so are columns without a name, which pandas and R
    write for row labels. Booleans are 0 and 1. Text and dates are errors that name the column, unless `one_hot` or
    `dates` says what to make of them. Missing values, NaN and infinity are errors when their row is read.

    Args:
        data: any of the above.
        features: names or numbers of columns, of numbers or of vectors of one length. None for all that have no other
            role.
        label, weights, id: name or number of the column of labels, of row weights, and of what names the rows; of .npz,
            .pt and .safetensors files also the name of another array. Weights may be values, (rows,), too.
        weights_are: what a weight means: see `as_source`.
        one_hot: text columns that become a column for each category, sorted, in which rows have one_hot / sqrt(2) or 0,
            so that two categories are one_hot apart. True for all of text and a distance of 1; a float; names; or a
            dict from names to distances, in the unit of the other columns.
        dates: "seconds", "hours", "days" or "years": dates become numbers of these since 1970.
        key: which array of an .npz, .pt or .safetensors file is the table.
        flatten: read images (rows, ...) as vectors.
        separator, decimal, thousands, quote, encoding, header: of text (see `Dialect`); None for what its first lines
            show.

    Returns:
        The table. Nothing but its metadata, first rows, labels, ids and weights has been read; of text all rows have
        been counted.

    Raises:
        TypeError: `data` is none of the above.
        FileNotFoundError, ImportError: no such file, or reading it needs a package that is not installed.
        ValueError: a column is not there or cannot be what it is asked to be, or the file cannot be read as a table.

    Warns:
        UserWarning: something had to be guessed that may be wrong: a header of numbers, an encoding, row labels.

    Example:
        >>> import numpy, tempfile, torchcoreset as tc
        >>> path = tempfile.mkdtemp() + "/data.npz"
        >>> numpy.savez(path, x=numpy.zeros((3, 2)), y=numpy.array(["a", "b", "a"]))
        >>> table = tc.read_table(path, label="y")
        >>> table.note, table.labels.tolist()
        ('3 rows, 2 features (x0, x1); label: y', ['a', 'b', 'a'])
        >>> tc.as_source(table)
        TensorSource(size=3, dimension=2)
    """
    dialect = Dialect(
        separator=separator, decimal=decimal, thousands=thousands, quote=quote, encoding=encoding, header=header
    )
    check_name(weights_are, "weights_are", get_args(WeightsAre))
    if weights is None and weights_are == "counts":
        raise ValueError("weights_are: got 'counts' without weights; expected them, one for each row.")
    column, mass = (weights, None) if is_key(weights) else (None, weights)
    roles = Roles(features=features, label=label, weights=column, id=id, one_hot=one_hot, dates=dates)
    table = table_of(data, roles, mass, dialect, key, flatten=flatten, counts=weights_are == "counts")
    for said in table.findings:
        warn_user(UserWarning(f"{said}."))
    return table


def is_table(data: Any) -> bool:
    """Whether this is a path, a table of named columns, in memory or lazy, or an array that is not in memory."""
    return is_path(data) or in_memory(data) or is_lazy(data) or is_lazy_array(data)


def table_of(
    data: Any,
    roles: Roles,
    mass: Any = None,
    dialect: Dialect = PLAIN,
    key: str | None = None,
    *,
    flatten: bool = False,
    counts: bool = False,
) -> Table:
    """As `read_table`, without its warnings: for callers that say in their own way what was found.

    `mass` (rows,) are weights that are no column.
    """
    named = NamedArrays.of(data)
    if named is None and key is not None:
        raise ValueError(
            "key: given with a single table; expected it with .npz, .pt and .safetensors files of several."
        )
    if dialect.given and not is_text(data):
        raise ValueError("separator, ..., header: given with a table that is no text; expected them with CSV files.")
    beside: dict[str, tuple[str, Any]] = {}
    if named is None:
        reader = _reader(data, dialect)
    else:
        reader = named.reader(key)
        for role in ("label", "weights", "id"):
            column = getattr(roles, role)
            if isinstance(column, str) and column in named.names:
                beside[role] = column, named[column]
                roles = replace(roles, **{role: None})
    return _table(reader, roles, mass, beside, flatten, counts, held=named is not None or in_memory(data))


def names_of(data: Any, dialect: Dialect = PLAIN) -> list[str] | None:
    """Names of the columns of a table that has names; None for arrays."""
    if NamedArrays.of(data) is not None:
        return None
    reader = _reader(data, dialect)
    return None if isinstance(reader, ArrayReader) else list(reader.kinds)


def _reader(data: Any, dialect: Dialect) -> Reader:
    if is_path(data):
        return reader_of(data, dialect)
    if in_memory(data):
        return memory_reader(data)
    if is_lazy(data):
        return lazy_reader(data)
    if is_lazy_array(data):
        return ArrayReader(type(data).__name__, InMemory(data), by_row=False)
    raise TypeError(
        f"data: got {type(data).__name__}; expected a path, a DataFrame, or another table of columns; "
        f"`as_source` takes tensors, arrays and lists.{held_by_name(data)}"
    )


def _table(
    reader: Reader,
    roles: Roles,
    mass: Any,
    beside: Mapping[str, tuple[str, Any]],
    flatten: bool,
    counts: bool,
    *,
    held: bool,
) -> Table:
    """The table of a reader; `beside` are names and values of label, weights and id that are no columns of it."""
    if isinstance(reader, ArrayReader) and len(reader.shape) > 2 and roles.features is not None:
        raise ValueError(f"features: {reader.name} has shape {reader.shape}; columns are chosen of (rows, d) only.")
    chosen = choose(reader, roles)
    found = dict(beside)
    for role in ("label", "weights", "id"):
        if (name := getattr(chosen, role)) is not None:
            found[role] = name, reader.numbers(name) if role == "weights" else reader.column(name)
    if "weights" in found:
        mass = np.asarray(found["weights"][1])
        if mass.dtype.kind not in "iufb":
            raise ValueError(f"weights: {found['weights'][0]!r} holds {mass.dtype}; expected numbers.")
    if not reader.lengths:
        raise ValueError(f"source: {reader.name} has no rows; expected at least one.")
    source: RandomAccessSource
    names = [feature.name for feature in chosen.features]
    if held:
        blocks = reader.blocks(range(len(reader.lengths)), names)
        rows = torch.cat([rows_of(block, chosen.features, reader.name, flatten) for block in blocks])
        columns = titles_of(reader, chosen.features, rows.shape[1])
        check_finite(rows, reader.name, columns=columns)
        source = TensorSource(rows, mass)
    else:
        source = FileSource(reader, chosen.features, mass, flatten=flatten)
        columns = source.columns
    return Table(
        reader.name,
        RepeatedRows.of(source) if counts else source,
        columns,
        tuple(names),
        {one.name: one.categories for one in chosen.features if one.categories is not None},
        labels=_values(found, "label", reader),
        ids=_values(found, "id", reader),
        **{role: name for role, (name, _) in found.items()},
        left_out=chosen.left_out,
        counting=counting(reader, chosen.features) if roles.features is None else (),
        findings=reader.findings,
    )


def _values(found: Mapping[str, tuple[str, Any]], role: str, reader: Reader) -> NDArray[Any] | None:
    """Labels or ids, one for each row."""
    if role not in found:
        return None
    name, values = found[role]
    missing, rows = getattr(values, "null_count", 0), sum(reader.lengths)
    if missing:
        raise ValueError(f"{role}: {missing} rows of {reader.name} have no value in {name!r}. Drop them first.")
    array = plain_array(values)
    if len(array) != rows:
        raise ValueError(f"{role}: got {len(array)} values for {rows} rows; expected one for each row.")
    return array
