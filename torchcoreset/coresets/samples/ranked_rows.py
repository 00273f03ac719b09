"""The samples of several ranks as one table, from which every rank can read any rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor

from ...sources import Source
from ...sources.tables import RandomAccessSource
from ...transport.ranks import Ranks, total_of

WHY = "Give every rank samples that can be used, or leave that rank out of the group."


class RankedRows(RandomAccessSource):
    """The rows of all ranks, in the order of the ranks. Every rank has to request the same rows.

    `rows` (m, d) and `weights` (m,) are those of this rank; weights have one scale on all ranks, and are equal if None.
    """

    def __init__(self, ranks: Ranks, rows: Tensor, weights: Tensor | None) -> None:
        counts = ranks.table(torch.tensor([len(rows)], device="cpu")).flatten()
        everyones = None
        if weights is not None:  # which row is drawn depends on the weights of all
            everyones = torch.cat([part for (part,) in ranks.gather(weights.double())])
        super().__init__(int(counts.sum()), everyones)
        self._ranks, self._rows, self._start = ranks, rows, int(counts[: ranks.rank].sum())
        self.dimension = rows.shape[1]

    def _read(self, index: Tensor, generator: Generator) -> Tensor:
        here = ((index >= self._start) & (index < self._start + len(self._rows))).nonzero()[:, 0]
        own = self._rows[(index[here] - self._start).to(self._rows.device)]
        parts = self._ranks.gather(here, own)
        place, rows = (torch.cat(columns) for columns in zip(*parts, strict=True))
        return rows[torch.argsort(place).to(rows.device)]

    def _read_all(self, generator: Generator) -> Tensor:
        return torch.cat([part for (part,) in self._ranks.gather(self._rows)])


def share_of(ranks: Ranks, source: Source, samples: int | None, weights: Any) -> int | None:
    """This rank's share of `samples`: in proportion to its rows or weight, or equal if a rank does not know these."""
    size = -1.0 if source.size is None else float(source.size)
    mass = size if weights is None else total_of(weights)
    masses = ranks.table(torch.tensor([mass if size >= 0 else -1.0], dtype=torch.float64, device="cpu")).flatten()
    if samples is None:
        return None
    part = 1 / ranks.size if bool((masses < 0).any()) else float(masses[ranks.rank] / masses.sum())
    return max(1, round(samples * part))


def generator_of(ranks: Ranks, seed: Generator) -> Generator:
    """A generator for this rank, so that ranks with equal seeds draw different samples; `seed` is not advanced."""
    copy = Generator(seed.device)
    copy.set_state(seed.get_state())
    numbers = torch.randint(2**62, (ranks.size,), generator=copy, device=copy.device)
    return Generator().manual_seed(int(numbers[ranks.rank]))
