"""Samples held in memory: tensors, arrays, DataFrames and lists of numbers."""

from typing import Any

from torch import Generator, Tensor

from ..layout import PLAIN, Layout, rows_of
from .random_access import RandomAccessSource


class TensorSource(RandomAccessSource):
    """A table of samples, one a row.

    Args:
        points: samples, (size, d) or (size,) for d = 1: tensor, array, DataFrame or lists of numbers. Tensors
            and writable arrays are shared, not copied, and never written to.
        weights: (size,), of any scale; None for equal weights.
        layout: which columns of a DataFrame, or tensor of a tuple, are the samples.

    Raises:
        TypeError: `points` is none of these.
        ValueError: no rows, more than two dimensions, NaN or inf, or unusable weights.
    """

    dimension: int

    def __init__(self, points: Any, weights: Any = None, layout: Layout = PLAIN) -> None:
        self._points = rows_of(points, "samples", layout)
        super().__init__(len(self._points), weights)
        self.dimension = self._points.shape[1]

    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        return self._points[index.to(self._points.device)]

    def _read_all(self, generator: Generator) -> Tensor:
        return self._points
