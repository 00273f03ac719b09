"""Fresh rows: each row of a source is given once, first to find a potential with, then to certify with."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor

from ..sources import Source, SourceExhausted

BATCH_ELEMENTS = 1 << 20  # numbers in a batch of samples: 8 MiB in float64
BATCH_ROWS = (256, 1 << 16)


class FreshRows:
    """Rows of a source, none of them twice.

    A distribution, a callable and weighted rows give independent samples for ever. Any other source is read once:
    a table in random order, a loader or iterator in its own.

    Args:
        source: where the rows come from.
        device: where they are wanted.
        generator: where the random numbers come from.
    """

    def __init__(self, source: Source, device: torch.device, generator: Generator) -> None:
        self._source, self._device, self._generator = source, device, generator
        self.endless = source.endless or source.weighted
        self._left: list[Tensor] = []
        self._pass: Iterator[tuple[Tensor, Tensor | None]] | None = None
        self.size = None if self.endless else source.size

    def share(self, count: int) -> int:
        """How many of the next `count` rows are this process's own."""
        return count

    def take(self, count: int) -> Tensor:
        """The next rows (count, d), detached; fewer, possibly none of shape (0, 0), where the source ends."""
        return self._taken(count)

    def _taken(self, count: int) -> Tensor:
        if self.endless:
            return self._source.draw(count, self._generator).detach().to(self._device)
        pieces, missing = [], count
        while missing > 0 and (rows := self._next(missing)) is not None:
            pieces.append(rows[:missing])
            if len(rows) > missing:
                self._left.append(rows[missing:])
            missing -= len(pieces[-1])
        return torch.cat(pieces).to(self._device) if pieces else torch.empty(0, 0, device=self._device)

    def put_back(self, rows: Tensor) -> None:
        """Return rows that were taken and not looked at; they come next."""
        if len(rows):
            self._left.append(rows)

    def batches(self, count: int) -> Iterator[Tensor]:
        """The next rows, at most `count` in all, in batches of bounded size."""
        rows = self._taken(min(count, BATCH_ROWS[0]))
        while len(rows):
            yield rows
            count -= len(rows)
            fitting = min(max(BATCH_ELEMENTS // rows.shape[1], BATCH_ROWS[0]), BATCH_ROWS[1])
            rows = self._taken(min(count, fitting)) if count > 0 else rows[:0]

    def _next(self, wanted: int) -> Tensor | None:
        if self._left:
            return self._left.pop()
        self._pass = self._pass or self._source.batches(min(max(wanted, BATCH_ROWS[0]), BATCH_ROWS[1]), self._generator)
        try:
            return next(self._pass)[0].detach()
        except (StopIteration, SourceExhausted):
            return None
