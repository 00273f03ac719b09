"""Map-style datasets: one row for each index."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from ...tensors import check_finite
from ..labels import part_of, without
from ..layout import PLAIN, Layout, beside, row_of
from ..randomness import isolated
from ..rows import check_dimension, shaped_rows
from .random_access import RandomAccessSource

_CHUNK = 4096  # rows packed into one tensor at once: each row is a tensor of its own before


class DatasetSource(RandomAccessSource):
    """A map-style dataset, read row by row when rows are needed.

    Random transforms that use torch's random numbers follow the generator of each call; those that use
    NumPy's or Python's must be seeded by their author.

    Args:
        dataset: has `__len__` and `__getitem__`; a row is a number, (d,), or a tuple, list or dict with one
            of them as in a batch: the first element of a tuple holds the features. `__getitems__` is used
            where it exists.
        weights: (size,), of any scale; None for equal weights.
        layout: where in a row the features are.

    Raises:
        ValueError: no rows, or unusable weights; on reading, rows that cannot be used.
    """

    def __init__(self, dataset: Any, weights: Any = None, layout: Layout = PLAIN) -> None:
        if len(dataset) == 0:
            raise ValueError(f"samples: got an empty {type(dataset).__name__}; expected at least one row.")
        super().__init__(len(dataset), weights)
        self._dataset = dataset
        self._layout = layout

    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        chunks = index.split(_CHUNK)  # type: ignore[no-untyped-call]
        return torch.cat([self._read_chunk(chunk.tolist(), generator) for chunk in chunks])

    def _read_all(self, generator: Generator) -> Tensor:
        return self._read(torch.arange(self.size, device="cpu"), generator)

    def _read_chunk(self, index: list[int], generator: Generator) -> Tensor:
        with isolated(generator):
            if hasattr(self._dataset, "__getitems__"):
                values = self._dataset.__getitems__(index)
            else:
                values = [self._dataset[i] for i in index]
        rows = shaped_rows(stack_rows(values, index, self._layout), "samples", self._layout.flatten)
        check_finite(rows, "samples", index)
        self.dimension = check_dimension(rows, self.dimension, "samples")
        return rows


def stack_rows(values: Sequence[Any], index: Sequence[int], layout: Layout) -> Tensor:
    """Stack the features of single rows, each 0-d, (d,) or an image, into one new tensor, (rows, ...).

    Where the layout has labels, their columns stand after the features, (rows, d + t).
    """
    names = [f"samples, row {i}" for i in index]
    if layout.labels is not None:
        labels = [part_of(value, layout.label, name) for value, name in zip(values, names, strict=True)]
        rest = [without(value, layout.label, name) for value, name in zip(values, names, strict=True)]
        features = shaped_rows(stack_rows(rest, index, layout.of_features), "samples", layout.flatten)
        return beside(features, layout.labels.columns(labels, "samples"), "samples")
    rows = [row_of(value, name, layout) for value, name in zip(values, names, strict=True)]
    for row, name in zip(rows, names, strict=True):
        if row.shape != rows[0].shape:
            raise ValueError(f"{name}: got shape {tuple(row.shape)} after {tuple(rows[0].shape)}; expected one shape.")
    return torch.stack(rows)
