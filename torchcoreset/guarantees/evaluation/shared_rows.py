"""Fresh rows of several ranks: rows that all need are taken in turn; each rank certifies with its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import torch
from torch import Generator

from ...errors import RankError
from ...sources import Source
from ...tensors import FLOATS
from ...transport.ranks import Ranks, agree
from .fresh import FreshRows, Rows, put_together

WHY = "Give every rank rows that can be used, or leave that rank out of the group."


def generator_of(ranks: Ranks, seed: Generator) -> Generator:
    """A generator for this rank: equal seeds must not give all ranks the same samples."""
    numbers = torch.randint(2**62, (ranks.size,), generator=seed, device=seed.device)
    return Generator().manual_seed(int(numbers[ranks.rank]))


class SharedRows(FreshRows):
    """Rows that several ranks draw from a source each, none of them twice.

    `take` gives all ranks the same rows: the next of every rank in turn, as if one source had been dealt out to the
    ranks like cards, which is how `torch.utils.data.DistributedSampler` does it. They come in the type that holds those
    of all ranks. `batches` gives this rank's own. Weights are on the scale of those that the sources were made with, so
    that rows of one table may be dealt out; a row without a weight has that of one.
    """

    def __init__(self, ranks: Ranks, source: Source, device: torch.device, generator: Generator) -> None:
        super().__init__(source, device, generator)
        self._ranks, self._turn = ranks, 0
        # Of order one again, as powers of weights are to be formed.
        heaviest = float(ranks.table(torch.tensor([source.mass], dtype=torch.float64, device="cpu")).max())
        self.weighted = heaviest > 0
        self._scale, self._unit = source.mass / (heaviest or 1.0), 1 / (heaviest or 1.0)

    def expected(self, count: int) -> int:
        return int(self._ranks.total(torch.tensor(super().expected(self.share(count)), device="cpu"))[0])

    def ahead(self, count: int) -> int:
        """Rows that the ranks can give in turn before one of them has no more."""

        def prepare() -> tuple[int, Sequence[float]]:
            share = self.share(count)
            own = self._own_ahead(share)
            return own, (own, own == share)

        _, facts = agree(self._ranks, "certify", prepare, why=WHY)
        return count if bool(facts[:, 1].all()) else int(facts[:, 0].min()) * self._ranks.size

    def take(self, count: int) -> Rows:
        ranks, place = self._ranks, self._place()

        def prepare() -> tuple[Rows, Sequence[float]]:
            rows = self._own(count)
            return rows, (rows.size, rows.y.shape[1], FLOATS.index(rows.y.dtype))

        rows, facts = agree(ranks, "certify", prepare, why=WHY)
        filled = [(int(d), FLOATS[int(at)]) for length, d, at in facts[:, :3].tolist() if length]
        dimensions = {d for d, _ in filled}
        if len(dimensions) > 1:
            raise RankError(
                f"source: the ranks have samples of dimensions {sorted(dimensions)}; expected one. Give all of them "
                "the same columns."
            )
        if not dimensions:
            return rows
        # Rows travel as bytes: those of one rank have to be as long as those of another, also where it has none.
        y = rows.y.to(reduce(torch.promote_types, (dtype for _, dtype in filled)))
        y = y if len(y) else y.new_empty(0, dimensions.pop())
        turns = torch.arange(len(y), device="cpu") * ranks.size + place
        parts = ranks.gather(y, rows.w, turns)
        everyones, weights, order = (torch.cat(columns) for columns in zip(*parts, strict=True))
        self._turn = (self._turn + count) % ranks.size
        order = torch.argsort(order).to(everyones.device)
        return Rows(everyones[order], weights[order])

    def put_back(self, rows: Rows) -> None:
        super().put_back(rows.part(slice(self._ranks.rank, None, self._ranks.size)))

    def batches(self, count: int) -> Iterator[Rows]:
        return super().batches(self.share(count))

    def _own(self, count: int) -> Rows:
        """This rank's next rows of `count` in all."""
        share = self.share(count)
        return self._taken(share) if share else put_together()

    def share(self, count: int) -> int:
        return (count - self._place() + self._ranks.size - 1) // self._ranks.size

    def _place(self) -> int:
        """How many other ranks come before this one."""
        return (self._ranks.rank - self._turn) % self._ranks.size
