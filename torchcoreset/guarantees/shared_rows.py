"""Fresh rows of several ranks: what all need is taken in turn, and each then certifies with rows of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import torch
from torch import Generator, Tensor

from ..errors import RankError
from ..sources import Source
from ..tensors import FLOATS
from ..transport.ranks import Ranks
from .fresh import FreshRows

WHY = "Give every rank rows that can be used, or leave that rank out of the group."


def generator_of(ranks: Ranks, seed: Generator) -> Generator:
    """A generator for this rank: equal seeds must not give all ranks the same samples."""
    numbers = torch.randint(2**62, (ranks.size,), generator=seed, device=seed.device)
    return Generator().manual_seed(int(numbers[ranks.rank]))


class SharedRows(FreshRows):
    """Rows that several ranks draw from a source each, none of them twice.

    `take` gives all ranks the same rows: the next of every rank in turn, as if one source had been dealt out to the
    ranks like cards, which is how `torch.utils.data.DistributedSampler` does it. They come in the type that holds those
    of all ranks. `batches` gives this rank's own.

    Args:
        ranks: who takes part.
        source, device, generator: of this rank, as for `FreshRows`.
    """

    def __init__(self, ranks: Ranks, source: Source, device: torch.device, generator: Generator) -> None:
        super().__init__(source, device, generator)
        self._ranks, self._turn = ranks, 0
        sizes = ranks.table(torch.tensor([-1 if self.size is None else self.size], device="cpu")).flatten().tolist()
        self.size = None if min(sizes) < 0 else sum(sizes)

    def take(self, count: int) -> Tensor:
        ranks, place = self._ranks, self._place()

        def prepare() -> tuple[Tensor, Sequence[float]]:
            rows = self._own(count)
            return rows, (len(rows), rows.shape[1], FLOATS.index(rows.dtype))

        rows, facts = ranks.agree("certify", prepare, 3, WHY)
        filled = [(int(d), FLOATS[int(at)]) for length, d, at in facts.tolist() if length]
        dimensions = {d for d, _ in filled}
        if len(dimensions) > 1:
            raise RankError(
                f"source: the ranks have samples of dimensions {sorted(dimensions)}; expected one. Give all of them "
                "the same columns."
            )
        if not dimensions:
            return rows
        # Rows travel as bytes: those of one rank have to be as long as those of another, also where it has none.
        rows = rows.to(reduce(torch.promote_types, (dtype for _, dtype in filled)))
        rows = rows if len(rows) else rows.new_empty(0, dimensions.pop())
        turns = torch.arange(len(rows), device="cpu") * ranks.size + place
        parts = ranks.gather(rows, turns)
        everyones, order = (torch.cat(columns) for columns in zip(*parts, strict=True))
        self._turn = (self._turn + count) % ranks.size
        return everyones[torch.argsort(order).to(everyones.device)]

    def put_back(self, rows: Tensor) -> None:
        super().put_back(rows[self._ranks.rank :: self._ranks.size])

    def batches(self, count: int) -> Iterator[Tensor]:
        return super().batches(self.share(count))

    def _own(self, count: int) -> Tensor:
        """This rank's next rows of `count` in all."""
        share = self.share(count)
        return self._taken(share) if share else torch.empty(0, 0, device=self._device)

    def share(self, count: int) -> int:
        return (count - self._place() + self._ranks.size - 1) // self._ranks.size

    def _place(self) -> int:
        """How many other ranks come before this one."""
        return (self._ranks.rank - self._turn) % self._ranks.size
