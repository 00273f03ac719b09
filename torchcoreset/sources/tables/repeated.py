"""Rows with counts, each of which stands for several equal rows (frequency weights)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from ...tensors import check_count
from ..randomness import permutation
from .random_access import POOL_ELEMENTS, RandomAccessSource

MOST = 1 << 40  # rows, counted with their copies; more are refused: a permutation of their numbers needs 8 TiB


class RepeatedRows(RandomAccessSource):
    """A table in which row k comes counts_k times, of which each distinct row is held once.

    It is a table of `size` = sum of the counts rows without weights: copies are drawn, split and passed over as rows of
    their own. Only `materialize` packs them, into distinct rows with weights.

    Args:
        whole: the distinct rows; its own weights are not used.
        counts: (rows,) int64, non-negative, not all zero.
    """

    def __init__(self, whole: RandomAccessSource, counts: Tensor) -> None:
        self._whole, self._counts, self._ends = whole, counts, counts.cumsum(0)
        super().__init__(int(self._ends[-1]))
        # Distinct rows usually come sorted. A split of sorted rows by one seed takes the same ranks of every sample, so
        # its halves are not independent: rounded normals, seed 0, 400 rows, had 75 of 100 intervals hold for 95.
        seed = int.from_bytes(hashlib.sha256(counts.contiguous().numpy().tobytes()).digest()[:7], "little")
        self._order = permutation(self.size, Generator().manual_seed(seed))
        self.weights_are = "counts"
        self.dimension, self.on_disk = whole.dimension, whole.on_disk

    @classmethod
    def of(cls, weighted: RandomAccessSource) -> RepeatedRows:
        """From a source whose weights are counts.

        Raises:
            ValueError: they are not whole numbers.
        """
        assert weighted._weights is not None
        given = weighted._weights * weighted.mass  # to the last digits, as they came
        counts = given.round()
        wrong = ((given - counts).abs() > 1e-9 * counts.clamp(min=1)).nonzero().flatten()
        if len(wrong):
            raise ValueError(
                f"weights: got {float(given[wrong[0]]):.6g} at row {int(wrong[0])} with weights_are='counts'; expected "
                "whole numbers, how often each row was seen. Weights of another kind are 'importance', the default."
            )
        if not float(counts.sum()) < MOST:
            raise ValueError(
                f"weights: got counts that sum to {float(counts.sum()):.3g}; expected less than {MOST:.1e} rows in all."
            )
        return cls(weighted, counts.long())

    def picked(self, index: Tensor) -> RepeatedRows:
        """Some of the rows, by their numbers among all copies."""
        return RepeatedRows(self._whole, torch.bincount(self._distinct(index), minlength=len(self._counts)))

    def over(self, whole: RandomAccessSource) -> RepeatedRows:
        """The same counts of other rows."""
        return RepeatedRows(whole, self._counts)

    @property
    def whole(self) -> RandomAccessSource:
        """The distinct rows."""
        return self._whole

    @property
    def distinct(self) -> int:
        """How many rows the counts are given for."""
        return len(self._counts)

    @property
    def row_numbers(self) -> Tensor:
        return self._whole.numbers_of((self._counts > 0).nonzero().flatten())

    def numbers_of(self, index: Tensor) -> Tensor:
        return self._whole.numbers_of(self._distinct(index))

    def batches(self, batch_size: int, generator: Generator) -> Iterator[tuple[Tensor, Tensor | None]]:
        check_count(batch_size, "batch_size")
        order = permutation(self.size, generator)
        # A file is gone through for every pool of rows, not for every batch.
        rows = max(batch_size, POOL_ELEMENTS // (self._whole.dimension or 1)) if self.on_disk else batch_size
        for pool in order.split(rows):  # type: ignore[no-untyped-call]
            for part in self._read(pool, generator).split(batch_size):  # type: ignore[no-untyped-call]
                yield part, None

    def _pick(self, limit: int | None, generator: Generator) -> Tensor | None:
        distinct = int((self._counts > 0).sum())
        return None if limit is not None and distinct <= limit < self.size else super()._pick(limit, generator)

    def _rows_at(self, index: Tensor | None, generator: Generator) -> tuple[Tensor, Tensor | None]:
        """These rows, or all distinct rows, weighted by their counts."""
        if index is not None:
            return super()._rows_at(index, generator)
        some = (self._counts > 0).nonzero().flatten()
        rows = self._whole._read(some, generator)
        self.dimension = self._whole.dimension
        weights = self._counts[some].to(rows.device, torch.float64) / self.size
        return rows, None if len(some) == self.size else weights

    def _distinct(self, index: Tensor) -> Tensor:
        """Numbers of the distinct rows."""
        return torch.searchsorted(self._ends, self._order[index.cpu()], right=True)

    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        rows = self._whole._read(self._distinct(index), generator)
        self.dimension = self._whole.dimension
        return rows

    def _read_all(self, generator: Generator) -> Tensor:
        return self._read(torch.arange(self.size, device="cpu"), generator)

    def _parts(self) -> tuple[str, ...]:
        return (*super()._parts(), f"distinct={self.distinct}")
