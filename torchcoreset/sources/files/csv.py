"""CSV files: text that can only be read from its beginning, block after block."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...tensors import check_whole
from ..layout import PLAIN, Layout
from .columns import check_numbers, choose_columns, is_whole, pyarrow, rows_of_columns
from .source import FileSource

HEAD = 1 << 16  # bytes of the file from which its dialect is guessed


@dataclass(frozen=True)
class Dialect:
    """How a file of text holds its table.

    Attributes:
        separator: between columns.
        decimal: the mark within numbers, a point or a comma.
        titled: whether the first line names the columns.
    """

    separator: str
    decimal: str
    titled: bool


class CsvSource(FileSource):
    """A table in a .csv or .tsv file, possibly compressed, read in blocks of about a megabyte.

    Columns are separated by commas, or, where the first line has none, by semicolons or tabs; numbers may then have a
    decimal comma. The first line names the columns, unless all it holds are numbers; then they are f0, f1, ... Numbers
    are read in float64, whole ones too. The file is read once here, to count its rows. Blocks come in their own order:
    `batches` of a sorted file that is larger than the pool stay sorted.

    Args:
        path: of the file; in a .tsv file columns are separated by tabs.
        weights: name or number of a column, or (rows,) values; None for equal weights.
        layout: `features` are names or numbers of columns; None for all but the weights.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: the file has no rows or not such columns, or they hold text; on reading, NaN, inf or missing values.
    """

    _any_order = False

    def __init__(self, path: Path, weights: Any = None, layout: Layout = PLAIN) -> None:
        self._dialect = dialect_of(path)
        with open_blocks(path, self._dialect, None) as reader:
            self._columns, weight = choose_columns(path, reader.schema.names, weights, layout)
            check_numbers(path, reader.schema, self._columns, weight)
            self._whole = [k for k, name in enumerate(self._columns) if is_whole(reader.schema.field(name).type)]
        self._titles = self._columns
        counted = weight or self._columns[0]
        lengths, values = [0], []
        with open_blocks(path, self._dialect, [counted]) as reader:
            for batch in reader:
                lengths.append(batch.num_rows)
                if weight is not None:
                    values.append(rows_of_columns(path, batch.columns, [weight]).flatten())
        super().__init__(
            path,
            torch.tensor(lengths, device="cpu").cumsum(0),
            len(self._columns),
            torch.cat(values) if values else weights,
        )

    def _blocks(self, wanted: list[int]) -> Iterator[Tensor]:
        ahead = iter(wanted)
        block = next(ahead, None)
        with open_blocks(self.path, self._dialect, self._columns) as reader:
            for number, batch in enumerate(reader):
                if number == block:
                    rows = rows_of_columns(self.path, batch.columns, self._columns)
                    for k in self._whole:  # read as floats, which may have lost their digits
                        check_whole(rows[:, k].nan_to_num(), f"source: {self.path.name}, column {self._columns[k]!r}")
                    yield rows
                    block = next(ahead, None)
                if block is None:
                    return


@contextmanager
def open_blocks(path: Path, dialect: Dialect, columns: list[str] | None) -> Iterator[Any]:
    """A reader of these columns as float64, or, for None, of the types of all columns."""
    arrow, csv = pyarrow("pyarrow", path), pyarrow("pyarrow.csv", path)
    types = dict.fromkeys(columns or [], arrow.float64())
    try:
        with csv.open_csv(path, *csv_options(path, dialect, include_columns=columns, column_types=types)) as reader:
            yield reader
    except arrow.ArrowInvalid as error:
        raise ValueError(f"source: {path} cannot be read as a table of numbers ({error}).") from error


def csv_options(path: Path, dialect: Dialect, **convert: Any) -> tuple[Any, Any, Any]:
    """What pyarrow takes to read this dialect: options of reading, parsing and converting."""
    csv = pyarrow("pyarrow.csv", path)
    return (
        csv.ReadOptions(autogenerate_column_names=not dialect.titled),
        csv.ParseOptions(delimiter=dialect.separator),
        csv.ConvertOptions(decimal_point=dialect.decimal, **convert),
    )


def dialect_of(path: Path) -> Dialect:
    """How the file holds its table, from its first lines.

    Raises:
        ValueError: it holds nothing that could be a table.
    """
    arrow, csv = pyarrow("pyarrow", path), pyarrow("pyarrow.csv", path)
    try:
        with arrow.input_stream(str(path)) as stream:  # which also decompresses
            lines = (stream.read(HEAD) or b"").decode("utf-8-sig", errors="replace").splitlines()
    except (arrow.ArrowInvalid, OSError) as error:
        raise ValueError(f"source: {path} has no rows that can be read ({error}).") from error
    separator = _separator(path, lines[0] if lines else "")
    decimal = "," if separator != "," and _decimal_commas(lines[:100], separator) else "."
    options = csv_options(path, Dialect(separator, decimal, titled=True))
    try:
        with csv.open_csv(path, *options) as reader:
            titled = not all(_is_number(name.replace(decimal, ".")) for name in reader.schema.names)
    except arrow.ArrowInvalid as error:
        raise ValueError(f"source: {path} has no rows that can be read ({error}).") from error
    return Dialect(separator, decimal, titled)


def _separator(path: Path, line: str) -> str:
    """The separator of the first line: a comma, unless there is another one and no comma outside numbers."""
    if ".tsv" in path.suffixes:
        return "\t"
    plain = re.sub('"[^"]*"', "", line)
    for separator in (";", "\t"):
        # Of "1,5;2,5" the commas are decimal commas.
        if separator in plain and ("," not in plain or _decimal_commas([plain], separator)):
            return separator
    return ","


def _decimal_commas(lines: list[str], separator: str) -> bool:
    """Whether numbers are written with a comma, and none with a point."""
    fields = [field.strip(' "') for line in lines for field in line.split(separator)]
    commas = any(re.fullmatch(r"[+-]?\d+,\d+([eE][+-]?\d+)?", field) for field in fields)
    return commas and not any(re.fullmatch(r"[+-]?\d*\.\d+([eE][+-]?\d+)?", field) for field in fields)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
