"""A table with columns of labels after its features."""

from torch import Generator, Tensor

from ..layout import beside
from .random_access import RandomAccessSource


class LabeledRows(RandomAccessSource):
    """Joint rows of a table, read from it when needed.

    Args:
        whole: the features; its weights are those of the joint rows.
        columns: (rows, t) what stands after them.
    """

    def __init__(self, whole: RandomAccessSource, columns: Tensor) -> None:
        super().__init__(whole.size, None if whole._weights is None else whole._weights * whole.mass)
        self._whole, self._columns = whole, columns
        self.dimension = None if whole.dimension is None else whole.dimension + columns.shape[1]

    def numbers_of(self, index: Tensor) -> Tensor:
        return self._whole.numbers_of(index)

    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        return self._joint(self._whole._read(index, generator), self._columns[index.cpu()])

    def _read_all(self, generator: Generator) -> Tensor:
        return self._joint(self._whole._read_all(generator), self._columns)

    def _joint(self, features: Tensor, columns: Tensor) -> Tensor:
        rows = beside(features, columns, "samples")
        self.dimension = rows.shape[1]
        return rows
