"""CSV files: text that can only be read from its beginning, block after block."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .file_columns import choose_columns, pyarrow, rows_of_columns
from .file_source import FileSource
from .layout import PLAIN, Key, Layout


class CsvSource(FileSource):
    """A table in a .csv or .tsv file, possibly compressed, read in blocks of about a megabyte.

    The first line names the columns, unless all it holds are numbers; then they are f0, f1, ... Numbers are read in
    float64. The file is read once here, to count its rows. Blocks come in their own order: `batches` of a sorted file
    that is larger than the pool stay sorted.

    Args:
        path: of the file; columns are separated by commas, in a .tsv file by tabs.
        weights: name or number of a column, or (rows,) values; None for equal weights.
        layout: `features` are names or numbers of columns; None for all but the weights.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: the file has no rows or not such columns, or they hold text; on reading, NaN, inf or missing values.
    """

    _any_order = False

    def __init__(self, path: Path, weights: Any = None, layout: Layout = PLAIN) -> None:
        self._titled = has_titles(path)
        column: Key | None = weights if isinstance(weights, (str, int)) and not isinstance(weights, bool) else None
        with open_blocks(path, self._titled, None) as reader:
            self._columns, weight = choose_columns(path, reader.schema, column, layout)
        counted = weight or self._columns[0]
        lengths, values = [0], []
        with open_blocks(path, self._titled, [counted]) as reader:
            for batch in reader:
                lengths.append(batch.num_rows)
                if weight is not None:
                    values.append(rows_of_columns(path, batch.columns, [weight]).flatten())
        super().__init__(
            path, torch.tensor(lengths).cumsum(0), len(self._columns), torch.cat(values) if values else weights
        )

    def _blocks(self, wanted: list[int]) -> Iterator[Tensor]:
        ahead = iter(wanted)
        block = next(ahead, None)
        with open_blocks(self.path, self._titled, self._columns) as reader:
            for number, batch in enumerate(reader):
                if number == block:
                    yield rows_of_columns(self.path, batch.columns, self._columns)
                    block = next(ahead, None)
                if block is None:
                    return


@contextmanager
def open_blocks(path: Path, titled: bool, columns: list[str] | None) -> Iterator[Any]:
    """A reader of these columns as float64, or, for None, of the types of all columns."""
    arrow, csv = pyarrow("pyarrow", path), pyarrow("pyarrow.csv", path)
    how = csv.ReadOptions(autogenerate_column_names=not titled)
    convert = csv.ConvertOptions(include_columns=columns, column_types=dict.fromkeys(columns or [], arrow.float64()))
    try:
        with csv.open_csv(path, how, csv.ParseOptions(delimiter=_delimiter(path)), convert) as reader:
            yield reader
    except arrow.ArrowInvalid as error:
        raise ValueError(f"source: {path} cannot be read as a table of numbers ({error}).") from error


def has_titles(path: Path) -> bool:
    """Whether the first line holds anything that is no number."""
    arrow, csv = pyarrow("pyarrow", path), pyarrow("pyarrow.csv", path)
    try:
        with csv.open_csv(path, parse_options=csv.ParseOptions(delimiter=_delimiter(path))) as reader:
            return not all(_is_number(name) for name in reader.schema.names)
    except arrow.ArrowInvalid as error:
        raise ValueError(f"source: {path} has no rows that can be read ({error}).") from error


def _delimiter(path: Path) -> str:
    return "\t" if ".tsv" in path.suffixes else ","


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
