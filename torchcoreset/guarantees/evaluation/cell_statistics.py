"""What one pass over fresh samples leaves behind: cells, costs, and the samples that could change cell.

    x (n, d) points, b (n,) weights      v (n,) potential, fixed      T(y) the cell of y
    y samples, m of them, of equal weight or not; masses are sums of their weights

A feasible plan sends every sample to its cell T(y), except that cells with too many samples give some away. Which ones
is known only at the end, but not who is a candidate: the samples of each cell that lose least by leaving. So a pass
keeps these, a few hundred a cell, and of all others no more than their mass and the sum of their costs. Memory does
not grow with m.

Should a cell have to give away more than its candidates, it gives a share of all its other samples alike: by
Minkowski's inequality their mean cost to another point x_j is at most ((mean cost to x_i)^(1/p) + |x_i - x_j|)^p. So
the plan is feasible, and its cost an upper bound, whatever v is; a good v only makes it tight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ...deterministic import mass_by_cell
from ...transport.flow import within_limits
from ...transport.passes import LaguerreCells
from ...transport.ranks import Ranks

PER_CELL = 16  # candidates of every cell
SPREADS = 4.0  # standard deviations of a cell's excess that its candidates should cover
MOST_ELEMENTS = 1 << 25  # of the float64 costs of all candidates to all points: 256 MiB
MANY = 2048  # points beyond which costs to all of them are too many
MOST_LISTED = 1 << 18  # candidates where the costs are listed instead


@dataclass(frozen=True)
class Candidates:
    """Samples that could change cell.

    Attributes:
        y: (k, d) samples.
        mass: (k,) their weights.
        cell: (k,) their cells.
        margin: (k,) what each loses by leaving for the second nearest point.
        cost: (k,) cost to the point of the cell.
        image: (k, d') what a map makes of the samples, or (k, 0).
        image_cost: (k,) cost between the images, 0 without a map.
    """

    y: Tensor
    mass: Tensor
    cell: Tensor
    margin: Tensor
    cost: Tensor
    image: Tensor
    image_cost: Tensor

    def picked(self, index: Tensor) -> Candidates:
        """Some of these."""
        return Candidates(*(part[index] for part in self.parts()))

    def parts(self) -> tuple[Tensor, ...]:
        """All columns."""
        return (self.y, self.mass, self.cell, self.margin, self.cost, self.image, self.image_cost)


def candidates(
    y: Tensor, mass: Tensor, cells: LaguerreCells, image: Tensor | None = None, image_cost: Tensor | None = None
) -> Candidates:
    """All samples of a batch, with the cells of the potential."""
    if image is None or image_cost is None:
        image, image_cost = y.new_empty(len(y), 0), torch.zeros_like(cells.cost)
    return Candidates(y, mass, cells.cell, cells.margin.double(), cells.cost, image, image_cost)


def joined(several: list[Candidates]) -> Candidates:
    """Those of several batches."""
    return Candidates(*(torch.cat(parts) for parts in zip(*(one.parts() for one in several), strict=True)))


class CellStatistics:
    """Masses, cost sums and candidates of the cells.

    Args:
        b: (n,) weights of the points.
        expected: samples that will come.
        fitted: samples that the potential comes from, which says how far the cells may be off.
        uneven: samples over as many of equal weight as are worth as much; 1 for equal weights. Masses of cells then
            vary as those of fewer samples do, and more of them have to be moved.

    Attributes:
        count: (n,) samples of each cell.
        mass: (n,) their mass.
        cost: (n,) mass times cost, summed over them.
        image_cost: (n,) the same for the costs between their images.
        short: whether there is no room, or too little time, for all candidates that cells may have to give away.
    """

    def __init__(self, b: Tensor, expected: int, fitted: int, uneven: float = 1.0) -> None:
        n = len(b)
        self.b = b
        self.count, self.mass = b.new_zeros(n), b.new_zeros(n)
        self.cost, self.image_cost = b.new_zeros(n), b.new_zeros(n)
        self._held: list[Candidates] = []  # put together when they are pruned: a copy for every batch took longest
        spread = (expected * b).sqrt() + expected * (b / fitted).sqrt()
        per_cell = PER_CELL + SPREADS * math.sqrt(uneven) * spread
        most = MOST_LISTED if n > MANY else MOST_ELEMENTS // n
        self.short = n > MANY or float(per_cell.sum()) > most
        self._per_cell = per_cell * min(1.0, most / float(per_cell.sum()))
        self._threshold = torch.full_like(b, math.inf)  # margin beyond which a sample is no candidate

    @property
    def total(self) -> float:
        """Mass of the samples so far."""
        return float(self.mass.sum())

    def add(self, batch: Candidates) -> None:
        """Enter a batch of samples."""
        n, cell = len(self.b), batch.cell
        self.count += torch.bincount(cell, minlength=n)
        self.mass += mass_by_cell(cell, batch.mass, n)
        self.cost += mass_by_cell(cell, batch.mass * batch.cost, n)
        self.image_cost += mass_by_cell(cell, batch.mass * batch.image_cost, n)
        self._held.append(batch.picked((batch.margin <= self._threshold[cell]).nonzero()[:, 0]))
        if sum(len(one.cell) for one in self._held) > 2 * float(self._per_cell.sum()):
            self._prune()

    def join(self, ranks: Ranks) -> None:
        """Take in the statistics of all ranks, of the same points; each has kept as many as all samples need."""
        sums = (self.count, self.mass, self.cost, self.image_cost)
        self.count, self.mass, self.cost, self.image_cost = ranks.total(*sums)
        columns = zip(*ranks.gather(*self.finish().parts()), strict=True)
        self._held = [Candidates(*(torch.cat(parts) for parts in columns))]

    def finish(self) -> Candidates:
        """The candidates within the limits of their cells, after the last batch."""
        self._prune()
        return self._held[0]

    def _prune(self) -> None:
        """Keep as many of each cell as its limit says: those with the least margin."""
        held = joined(self._held)
        order = torch.argsort(held.margin)
        order = order[torch.argsort(held.cell[order], stable=True)]
        held = held.picked(order[within_limits(held.cell[order], self._per_cell)])
        full = torch.bincount(held.cell, minlength=len(self.b)) + 1 > self._per_cell
        largest = torch.full_like(self.b, -math.inf).scatter_reduce_(0, held.cell, held.margin, "amax")
        self._threshold = torch.where(full, largest, math.inf)
        self._held = [held]

    def others(self, candidates: Candidates) -> tuple[Tensor, Tensor, Tensor]:
        """Of the samples that are no candidates, in each cell: mass, mean cost and mean cost of images, (n,) each."""
        n, cell, held = len(self.b), candidates.cell, candidates.mass
        some = self.count > torch.bincount(cell, minlength=n)  # what is left of a mass may be rounding
        mass = torch.where(some, (self.mass - mass_by_cell(cell, held, n)).clamp(min=0), 0.0)
        cost = self.cost - mass_by_cell(cell, held * candidates.cost, n)
        image_cost = self.image_cost - mass_by_cell(cell, held * candidates.image_cost, n)
        share = mass.where(mass > 0, 1.0)
        return mass, (cost / share).clamp(min=0), (image_cost / share).clamp(min=0)
