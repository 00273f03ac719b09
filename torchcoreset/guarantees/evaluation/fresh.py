"""Fresh rows: each row of a source is given once, either for the potential or for the interval."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from ...sources import Source, SourceExhausted

BATCH_ELEMENTS = 1 << 20  # numbers in a batch of samples: 8 MiB in float64
BATCH_ROWS = (256, 1 << 16)  # fewest and most rows of a batch


class Rows(NamedTuple):
    """Rows and what they weigh."""

    y: Tensor  # (k, d)
    w: Tensor  # (k,) float64, positive, of any scale: all ones without weights

    @property
    def size(self) -> int:
        """How many rows, k."""
        return len(self.y)

    def part(self, rows: slice | Tensor) -> Rows:
        """Some of them."""
        return Rows(self.y[rows], self.w[rows])


def put_together(*several: Rows) -> Rows:
    """Rows of several sets, those without any left out; (0, 0) if none has."""
    filled = [rows for rows in several if rows.size]
    if not filled:
        return Rows(torch.empty(0, 0, device="cpu"), torch.empty(0, dtype=torch.float64, device="cpu"))
    return Rows(torch.cat([rows.y for rows in filled]), torch.cat([rows.w for rows in filled]))


class FreshRows:
    """Rows of a source, none of them twice, on a device.

    A distribution or a callable gives independent samples for ever. Any other source is read once: a table in random
    order, with weights or without, a loader or iterator in its own. Rows of weight zero are left out.
    """

    def __init__(self, source: Source, device: torch.device, generator: Generator) -> None:
        self._source, self._device, self._generator = source, device, generator
        self.endless, self.weighted = source.endless, source.weighted
        # How many are still to come; None if that is unknown.
        self.left = None if source.endless or source.size is None else source.size - source.weightless
        self._scale = float(self.left or 1)  # so that weights are of order one, and one if they are equal
        self._unit = 1.0  # what a row without a weight weighs
        self._held: deque[Rows] = deque()
        self._pass: Iterator[tuple[Tensor, Tensor | None]] | None = None

    def share(self, count: int) -> int:
        """How many of the next `count` rows are this process's own."""
        return count

    def expected(self, count: int) -> int:
        """How many of `count` rows will come, as far as is known."""
        return count if self.left is None else min(count, self.left)

    def ahead(self, count: int) -> int:
        """How many rows there are, up to `count`; an iterator is read so far, and what it gives is held."""
        return self._own_ahead(count)

    def _own_ahead(self, count: int) -> int:
        if self.endless:
            return count
        while self.left is None and (held := sum(rows.size for rows in self._held)) < count:
            rows = self._read(count - held)
            if rows is not None:
                self._held.append(rows)
        return count if self.left is None else min(count, self.left)

    def take(self, count: int) -> Rows:
        """The next rows, detached; fewer, possibly none of shape (0, 0), where the source ends."""
        return self._taken(count)

    def _taken(self, count: int) -> Rows:
        if self.endless:
            y = self._source.draw(count, self._generator).detach().to(self._device)
            return self._equal(y)
        pieces, missing, known = [], count, self.left is not None
        while missing > 0 and (rows := self._next(missing)) is not None:
            pieces.append(rows.part(slice(missing)))
            if rows.size > missing:
                self._held.appendleft(rows.part(slice(missing, None)))
            missing -= pieces[-1].size
        if known and self.left is not None:
            self.left -= count - missing
        y, w = put_together(*pieces)
        return Rows(y.to(self._device), w.to(self._device))

    def put_back(self, rows: Rows) -> None:
        """Return rows that were taken and not looked at; they come next."""
        if rows.size:
            self._held.appendleft(rows)
            if self.left is not None:
                self.left += rows.size

    def batches(self, count: int) -> Iterator[Rows]:
        """The next rows, at most `count` in all, in batches of bounded size."""
        rows = self._taken(min(count, BATCH_ROWS[0]))
        while rows.size:
            yield rows
            count -= rows.size
            fitting = min(max(BATCH_ELEMENTS // rows.y.shape[1], BATCH_ROWS[0]), BATCH_ROWS[1])
            rows = self._taken(min(count, fitting)) if count > 0 else rows.part(slice(0))

    def _next(self, wanted: int) -> Rows | None:
        return self._held.popleft() if self._held else self._read(wanted)

    def _read(self, wanted: int) -> Rows | None:
        """The rows that the source gives next; None at its end, where `left` becomes known."""
        self._pass = self._pass or self._source.batches(min(max(wanted, BATCH_ROWS[0]), BATCH_ROWS[1]), self._generator)
        try:
            y, weights = next(self._pass)
        except (StopIteration, SourceExhausted):
            if self.left is None:
                self.left = sum(rows.size for rows in self._held)
            return None
        if weights is None:
            return self._equal(y.detach())
        rows = Rows(y.detach(), weights * self._scale)
        return rows if bool((weights > 0).all()) else rows.part(weights > 0)

    def _equal(self, y: Tensor) -> Rows:
        return Rows(y, torch.full((len(y),), self._unit, dtype=torch.float64, device=y.device))
