"""Tables that Arrow reads: Parquet and Feather files, pyarrow and Dask data, lazy frames, Hugging Face datasets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...archives import pyarrow
from .reader import NUMBERS, Kind, Reader

LAZY_ROWS = 1 << 14  # of a block, where the library leaves the choice


class ParquetReader(Reader):
    """A .parquet file, one row group at a time.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: it is not a Parquet file.
    """

    def __init__(self, path: Path) -> None:
        self.name, self._path = path.name, path
        with self._opened() as file:
            self.kinds, self.index = kinds_of(file.schema_arrow), index_of(file.schema_arrow)
            groups = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
        self._groups = [group for group, rows in enumerate(groups) if rows > 0]  # others would be read for nothing
        self._lengths = [groups[group] for group in self._groups]

    @property
    def lengths(self) -> Sequence[int]:
        return self._lengths

    def blocks(self, wanted: Sequence[int], columns: Sequence[str]) -> Iterator[Any]:
        with self._opened() as file:
            for block in wanted:
                yield file.read_row_group(self._groups[block], columns=columns)

    def small(self, columns: Sequence[str], most: float) -> bool:
        whole = [name for name in columns if self.kinds[name] in ("whole", "vector")]
        if not whole:
            return True
        with self._opened() as file:
            for group in self._groups:
                parts = [file.metadata.row_group(group).column(k) for k in range(file.metadata.num_columns)]
                for part in parts:
                    name = part.path_in_schema if part.path_in_schema in whole else part.path_in_schema.split(".")[0]
                    if name not in whole or part.physical_type in ("FLOAT", "DOUBLE"):
                        continue
                    found = part.statistics
                    if found is None or not found.has_min_max or not -most <= found.min <= found.max <= most:
                        return False
        return True

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        parquet, arrow = pyarrow("pyarrow.parquet", self.name), pyarrow("pyarrow", self.name)
        try:
            with parquet.ParquetFile(self._path) as file:
                yield file
        except (arrow.ArrowException, OSError) as error:
            raise ValueError(f"source: {self.name} is not a whole Parquet file. Write it again.") from error


class FeatherReader(Reader):
    """A .feather or .arrow file, mapped into memory, one record batch at a time."""

    def __init__(self, path: Path) -> None:
        self.name, self._path = path.name, path
        with self._opened() as batches:
            self._schema = batches[0]
            self._numbers = [number for number, batch in enumerate(batches[1]) if batch.num_rows]
            self._lengths = [batch.num_rows for batch in batches[1] if batch.num_rows]
        self.kinds, self.index = kinds_of(self._schema), index_of(self._schema)

    @property
    def lengths(self) -> Sequence[int]:
        return self._lengths

    def blocks(self, wanted: Sequence[int], columns: Sequence[str]) -> Iterator[Any]:
        with self._opened(columns) as (_, batches):
            for block in wanted:
                yield batches[self._numbers[block]].select(columns)

    @contextmanager
    def _opened(self, columns: Sequence[str] | None = None) -> Iterator[tuple[Any, Sequence[Any]]]:
        """The schema, and the record batches, of which only these columns are read."""
        arrow, ipc = pyarrow("pyarrow", self.name), pyarrow("pyarrow.ipc", self.name)
        some = None if columns is None else [self._schema.get_field_index(name) for name in columns]
        options = ipc.IpcReadOptions(included_fields=some)
        try:
            with arrow.memory_map(str(self._path)) as mapped:
                if mapped.read(6) == b"ARROW1":
                    file = ipc.open_file(mapped, options=options)
                    yield file.schema, _Batches(file)
                else:  # the format of streams, in which Hugging Face keeps its tables
                    mapped.seek(0)
                    stream = ipc.open_stream(mapped, options=options)
                    yield stream.schema, list(stream)
        except (arrow.ArrowException, OSError) as error:
            raise ValueError(f"source: {self.name} is not a whole Feather or Arrow file. Write it again.") from error


class _Batches(Sequence[Any]):
    """The record batches of a file, each read when it is asked for."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __len__(self) -> int:
        return int(self._file.num_record_batches)

    def __getitem__(self, number: Any) -> Any:
        if number >= len(self):
            raise IndexError(number)
        return self._file.get_batch(number)


class LazyReader(Reader):
    """A table that another library reads in blocks.

    Args:
        name: of its type.
        schema: of Arrow.
        lengths: rows of each block; some may be empty.
        read: gives the Arrow table of one block, by its number and the names of columns. None if `stream` is given.
        stream: gives all blocks in their order, for tables that can only be read from their beginning.
    """

    def __init__(
        self,
        name: str,
        schema: Any,
        lengths: Sequence[int],
        read: Callable[[int, list[str]], Any] | None = None,
        stream: Callable[[list[str]], Iterator[Any]] | None = None,
    ) -> None:
        self.name, self._read, self._stream = name, read, stream
        self.kinds, self.index, self.any_order = kinds_of(schema), index_of(schema), read is not None
        self._numbers = [number for number, rows in enumerate(lengths) if rows]
        self._lengths = [rows for rows in lengths if rows]

    @property
    def lengths(self) -> Sequence[int]:
        return self._lengths

    def blocks(self, wanted: Sequence[int], columns: Sequence[str]) -> Iterator[Any]:
        if self._read is not None:
            for block in wanted:
                yield self._read(self._numbers[block], list(columns))
            return
        assert self._stream is not None
        yield from chosen(self._stream(list(columns)), [self._numbers[block] for block in wanted])


def in_memory(data: Any) -> bool:
    """Whether this is a table of named columns in memory: of pyarrow, pandas, polars, DuckDB, ..."""
    if isinstance(data, type) or type(data).__name__ in ("Series", "RecordBatchReader") or find_spec("pyarrow") is None:
        return False
    return hasattr(data, "__arrow_c_stream__") or _is_pandas(data)


def memory_reader(frame: Any) -> LazyReader:
    """A reader of a table in memory, as one block."""
    arrow, name = pyarrow("pyarrow", f"a {type(frame).__name__}"), type(frame).__name__
    if not _is_pandas(frame):
        try:
            held = arrow.table(frame)
        except arrow.ArrowException as error:
            raise ValueError(f"source: the {name} has no columns, or of a type that Arrow lacks; cast them.") from error
    else:
        columns = {}
        for place, column in enumerate(frame.columns):
            values = frame.iloc[:, place]
            values = values.sparse.to_dense() if hasattr(values, "sparse") else values
            try:
                columns[str(column)] = arrow.Array.from_pandas(values)
            except (arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
                kinds = sorted({type(value).__name__ for value in values})[:4]
                raise ValueError(
                    f"features: column {column!r} holds several kinds ({', '.join(kinds)}); expected numbers. "
                    "Encode it or leave it out: choose columns by features."
                ) from error
        names = [str(column) for column in frame.columns]
        held = arrow.Table.from_arrays(
            [columns[name] for name in names], schema=arrow.schema([(name, columns[name].type) for name in names])
        )
    return LazyReader(name, held.schema, [held.num_rows], lambda _, columns: held.select(columns))


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.startswith("pandas") and type(data).__name__ == "DataFrame"


def is_lazy(data: Any) -> bool:
    """Whether this is another library's table of which parts are read when they are needed."""
    library = _library(data)
    if library == ("datasets", "Dataset"):  # images, and rows that a function transforms, are read row by row instead
        plain = "other" not in map(kind_of, data.features.arrow_schema.types)
        return bool(plain and data.format["type"] != "custom")
    return library in _LAZY


def lazy_reader(data: Any) -> LazyReader:
    """A reader of such a table."""
    return _LAZY[_library(data)](data)


def _library(data: Any) -> tuple[str, str]:
    library, kind = type(data).__module__.partition(".")[0], type(data).__name__
    if library == "pyarrow" and kind.endswith("Dataset"):
        return "pyarrow", "Dataset"
    return "dask" if library.startswith("dask") else library, kind


def _of_dataset(dataset: Any) -> LazyReader:
    """Fragments, of Parquet files their row groups; a filtered dataset can only be read from its beginning."""
    name, schema = type(dataset).__name__, dataset.schema
    try:
        fragments = [
            part
            for fragment in dataset.get_fragments()
            for part in (fragment.split_by_row_group() if hasattr(fragment, "split_by_row_group") else [fragment])
        ]
    except ValueError:
        first = schema.names[:1]
        lengths = [batch.num_rows for batch in dataset.to_batches(columns=first)]
        return LazyReader(name, schema, lengths, stream=lambda columns: dataset.to_batches(columns=columns))
    return LazyReader(
        name,
        schema,
        [_rows_of(fragment) for fragment in fragments],
        lambda block, columns: fragments[block].to_table(schema=schema, columns=columns),
    )


def _rows_of(fragment: Any) -> int:
    groups = getattr(fragment, "row_groups", None)
    return int(fragment.count_rows() if groups is None else sum(group.num_rows for group in groups))


def _of_lazy_frame(frame: Any) -> LazyReader:
    """Batches of the streaming engine, in order and of one size, so that each reading gives the same."""

    def stream(columns: list[str]) -> Iterator[Any]:
        for batch in frame.select(columns).collect_batches(chunk_size=LAZY_ROWS, maintain_order=True):
            yield batch.to_arrow()

    schema = frame.head(0).collect().to_arrow().schema
    lengths = [batch.num_rows for batch in stream(schema.names[:1])]
    return LazyReader("LazyFrame", schema, lengths, stream=stream)


def _of_hugging_face(dataset: Any) -> LazyReader:
    """Slices, which its own tables give without copying."""
    arrow = dataset.with_format("arrow")

    def read(block: int, columns: list[str]) -> Any:
        return arrow[block * LAZY_ROWS : (block + 1) * LAZY_ROWS].select(columns)

    starts = range(0, len(dataset), LAZY_ROWS)
    lengths = [min(LAZY_ROWS, len(dataset) - start) for start in starts]
    return LazyReader("Dataset", dataset.features.arrow_schema, lengths, read)


def _of_dask(frame: Any) -> LazyReader:
    """Its partitions, each computed when it is read."""
    arrow = pyarrow("pyarrow", "a Dask DataFrame")

    def read(block: int, columns: list[str]) -> Any:
        return arrow.Table.from_pandas(frame.partitions[block][columns].compute(), preserve_index=False)

    lengths = frame.map_partitions(len).compute().tolist()
    return LazyReader("DataFrame", arrow.Schema.from_pandas(frame._meta, preserve_index=False), lengths, read)


_LAZY: dict[tuple[str, str], Callable[[Any], LazyReader]] = {
    ("pyarrow", "Dataset"): _of_dataset,
    ("polars", "LazyFrame"): _of_lazy_frame,
    ("datasets", "Dataset"): _of_hugging_face,
    ("dask", "DataFrame"): _of_dask,
}


def chosen(blocks: Iterator[Any], wanted: Sequence[int]) -> Iterator[Any]:
    """Of blocks that come one after another, those of these numbers, ascending; no more is read than is needed."""
    ahead = iter(wanted)
    block = next(ahead, None)
    for number, found in enumerate(blocks):
        if block is None:
            return
        if number == block:
            yield found
            block = next(ahead, None)


def kinds_of(schema: Any) -> dict[str, Kind]:
    """What each column of an Arrow schema holds."""
    names = schema.names
    doubled = [name for name, count in Counter(names).items() if count > 1]
    if doubled:
        places = [k for k, name in enumerate(names) if name == doubled[0]]
        raise ValueError(
            f"source: the columns {' and '.join(map(str, places))} (counted from 0) are both called {doubled[0]!r}; "
            "expected different names. Rename one of them."
        )
    return {field.name: kind_of(field.type) for field in schema}


def kind_of(kind: Any) -> Kind:
    """What a column of this Arrow type holds."""
    types = import_module("pyarrow.types")
    if types.is_dictionary(kind):
        return kind_of(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return "vector" if kind_of(kind.value_type) in NUMBERS else "other"
    for found, tests in _KINDS.items():
        if any(getattr(types, test, lambda _: False)(kind) for test in tests):
            return found
    return "other"


# A column of CSV whose first block has no values has the type null: reading says which row is empty.
_KINDS: dict[Kind, tuple[str, ...]] = {
    "whole": ("is_integer",),
    "number": ("is_floating", "is_decimal", "is_null"),
    "bool": ("is_boolean",),
    "date": ("is_temporal",),
    "text": ("is_string", "is_large_string", "is_string_view"),
}


def index_of(schema: Any) -> tuple[str, ...]:
    """Columns that pandas has written as the index of a frame, by the metadata of the file."""
    try:
        found = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
    except (ValueError, AttributeError, RecursionError):
        return ()
    return tuple(name for name in found if isinstance(name, str) and name in schema.names)
