"""Parquet files: row groups that can be read in any order, and only the columns that are needed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...tensors import exact_up_to
from ..layout import PLAIN, Layout
from .columns import check_numbers, choose_columns, is_whole, pyarrow, rows_of_columns
from .source import FileSource


class ParquetSource(FileSource):
    """A table in a .parquet file, read one row group at a time.

    Rows are float64 if a column holds whole numbers that torch's default dtype cannot hold, or if the file does not say
    how large they are.

    Args:
        path: of the file.
        weights: name or number of a column, or (rows,) values; None for equal weights.
        layout: `features` are names or numbers of columns, of numbers or of vectors of one length; None for all but
            the weights.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: the file is not a Parquet file, or has no rows or not such columns; on reading, NaN, inf or missing
            values.
    """

    def __init__(self, path: Path, weights: Any = None, layout: Layout = PLAIN) -> None:
        self._layout = layout
        with opened(path) as file:
            self._columns, weight = choose_columns(path, file.schema_arrow.names, weights, layout)
            check_numbers(path, file.schema_arrow, self._columns, weight)
            self._titles = self._columns
            groups = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
            # Empty row groups would be read for nothing.
            self._groups = [group for group, rows in enumerate(groups) if rows > 0]
            starts = torch.tensor([0, *(groups[group] for group in self._groups)], device="cpu").cumsum(0)
            if weight is not None:
                weights = rows_of_columns(path, file.read([weight]).columns, [weight]).flatten()
            dimension = 1
            if self._groups:
                head = self._read_group(file, path, self._groups[0])
                dimension, self._dtype = head.shape[1], head.dtype
                if not self._small_numbers(file):
                    self._dtype = torch.float64
        super().__init__(path, starts, dimension, weights)

    def _small_numbers(self, file: Any) -> bool:
        """Whether torch's default dtype holds all whole numbers of the file, as far as its metadata say."""
        most = exact_up_to(torch.get_default_dtype())
        schema, metadata = file.schema_arrow, file.metadata
        whole = [name for name in self._columns if is_whole(schema.field(name).type)]
        for group in self._groups:
            parts = [metadata.row_group(group).column(k) for k in range(metadata.num_columns)]
            for part in parts:
                name = part.path_in_schema if part.path_in_schema in whole else part.path_in_schema.split(".")[0]
                found = part.statistics
                known = found is not None and found.has_min_max
                if name in whole and not (known and -most <= found.min and found.max <= most):
                    return False
        return True

    def _blocks(self, wanted: list[int]) -> Iterator[Tensor]:
        with opened(self.path) as file:
            for block in wanted:
                yield self._read_group(file, self.path, self._groups[block]).to(self._dtype)

    def _read_group(self, file: Any, path: Path, group: int) -> Tensor:
        # Columns come in the order of the file, whatever order is asked for.
        table = file.read_row_group(group, columns=self._columns)
        return rows_of_columns(path, [table.column(name) for name in self._columns], self._columns)


def opened(path: Path) -> Any:
    """The file, as a context manager; it is closed at the end."""
    try:
        return pyarrow("pyarrow.parquet", path).ParquetFile(path)
    except pyarrow("pyarrow", path).ArrowInvalid as error:
        raise ValueError(f"source: {path} is not a Parquet file ({error}).") from error
