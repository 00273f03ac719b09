"""Finite sources whose rows can be read in any order: tables and datasets."""

import abc
from collections.abc import Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from ...tensors import check_count, normalised, real_tensor
from ..randomness import permutation, proportional, subset
from ..source import Source

POOL_ELEMENTS = 1 << 25  # numbers of rows held while files are read: 128 MiB in float32
MASSES = (1e-200, 1e200)  # sums of weights; beyond them 1 serves as their scale, as products would overflow


class RandomAccessSource(Source):
    """A finite source of `size` rows, with weights or without, that subclasses read by index."""

    size: int

    def __init__(self, size: int, weights: Any = None) -> None:
        self.size, self.weighted = size, weights is not None
        self.weights_are = "importance" if self.weighted else None
        self._weights: Tensor | None = None
        self._cumulative: Tensor | None = None
        if weights is not None:
            self._weights = normalised(weights, size, "weights")
            self.weightless = int((self._weights == 0).sum())
            mass = float(real_tensor(weights, "weights").double().sum())
            self.mass = mass if MASSES[0] < mass < MASSES[1] else 1.0
            cumulative = self._weights.cumsum(dim=0)
            self._cumulative = cumulative / cumulative[-1]  # ends in exactly 1

    @property
    def row_numbers(self) -> Tensor:
        """Numbers of the rows that `materialize(None)` gives, in the table that the source was made from, (rows,)."""
        return self.numbers_of(torch.arange(self.size, device="cpu"))

    def numbers_of(self, index: Tensor) -> Tensor:
        """Numbers of the rows at `index`, (rows,), in the table that the source was made from."""
        return index

    @property
    def near(self) -> int:
        """How many of the first rows can be read without reading what comes before them."""
        return self.size

    @abc.abstractmethod
    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        """The rows at `index`, (rows, d), in a new tensor."""

    @abc.abstractmethod
    def _read_all(self, generator: Generator) -> Tensor:
        """All rows in their own order, (size, d)."""

    def draw(self, count: int, generator: Generator) -> Tensor:
        check_count(count, "count")
        if self._cumulative is not None:
            return self._read(proportional(count, self._cumulative, generator), generator)
        return self._read(subset(min(count, self.size), self.size, generator), generator)

    def batches(self, batch_size: int, generator: Generator) -> Iterator[tuple[Tensor, Tensor | None]]:
        check_count(batch_size, "batch_size")
        for index in permutation(self.size, generator).split(batch_size):  # type: ignore[no-untyped-call]
            points = self._read(index, generator)
            yield points, None if self._weights is None else self._weights[index].to(points.device)

    def materialize(self, limit: int | None, generator: Generator) -> tuple[Tensor, Tensor | None]:
        return self._rows_at(self._pick(limit, generator), generator)

    def numbered(self, limit: int | None, generator: Generator) -> tuple[Tensor, Tensor | None, Tensor]:
        index = self._pick(limit, generator)
        return *self._rows_at(index, generator), self.row_numbers if index is None else self.numbers_of(index)

    def _pick(self, limit: int | None, generator: Generator) -> Tensor | None:
        """Which rows `materialize` gives, (rows,); None for all."""
        if limit is not None:
            check_count(limit, "limit")
        if limit is None or limit >= self.size:
            return None
        if self._cumulative is not None:
            return proportional(limit, self._cumulative, generator)
        return subset(limit, self.size, generator).sort().values

    def _rows_at(self, index: Tensor | None, generator: Generator) -> tuple[Tensor, Tensor | None]:
        """These rows, without weights, or all rows and their weights."""
        if index is not None:
            return self._read(index, generator), None
        points = self._read_all(generator)
        return points, None if self._weights is None else self._weights.to(points.device, copy=True)

    def _parts(self) -> tuple[str, ...]:
        return ("weighted",) if self.weighted else ()
