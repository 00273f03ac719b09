"""One pass over batches, checked; rows of a batch that a draw does not need are kept for the next."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Generator, Tensor

from ..layout import PLAIN, Layout, rows_of
from ..randomness import isolated
from ..rows import check_dimension

_END = object()


class Reader:
    """One pass over an iterable of batches.

    Args:
        batches: what is iterated.
        dimension: that the rows must have; None for that of the first batch.
        layout: where in a batch the features are.
        batched: whether batches of one dimension are known to hold numbers, one a row.

    Attributes:
        count: batches read so far.
        dimension: d of the batches, or None before the first.
    """

    def __init__(
        self, batches: Iterable[Any], dimension: int | None = None, layout: Layout = PLAIN, *, batched: bool = False
    ) -> None:
        self._batches = batches
        self._layout, self._batched = layout, batched
        self._iterator: Iterator[Any] | None = None
        self._rest: Tensor | None = None
        self.count = 0
        self.dimension = dimension

    def read(self, generator: Generator) -> Tensor | None:
        """The next rows as they come, (rows, d), what is left of a batch first; None at the end."""
        if self._rest is not None:
            rest, self._rest = self._rest, None
            return rest
        with isolated(generator):
            if self._iterator is None:
                self._iterator = iter(self._batches)
            batch = next(self._iterator, _END)
        if batch is _END:
            return None
        name = f"samples, batch {self.count}"
        rows = rows_of(batch, name, self._layout, batched=self._batched or self.dimension is not None)
        self.dimension = check_dimension(rows, self.dimension, name)
        self.count += 1
        # The iterator may fill the same buffer again.
        return rows.clone(memory_format=torch.contiguous_format)

    def peek(self, generator: Generator) -> int | None:
        """d, of the next rows, which are still to be read; None at the end."""
        self._rest = self.read(generator)
        return None if self._rest is None else self._rest.shape[1]

    def read_all(self, generator: Generator) -> Iterator[Tensor]:
        """The remaining batches as they come, (rows, d) each."""
        while (rows := self.read(generator)) is not None:
            yield rows

    def take(self, count: int | None, generator: Generator) -> Tensor | None:
        """The next `count` rows, (count, d), or all of them; fewer where the pass ends, None at its end."""
        pieces: list[Tensor] = []
        held = 0
        while (count is None or held < count) and (rows := self.read(generator)) is not None:
            if count is not None and len(rows) > count - held:
                rows, self._rest = rows[: count - held], rows[count - held :]
            pieces.append(rows)
            held += len(rows)
        return torch.cat(pieces) if pieces else None
