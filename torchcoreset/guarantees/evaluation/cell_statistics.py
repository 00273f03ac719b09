"""What is kept of one pass over fresh samples: mass and cost of each cell, and its boundary samples.

    x (n, d) points, b (n,) weights      v (n,) potential, fixed      T(y) the cell of y
    y samples, m of them, of equal weight or not; masses are sums of their weights

A feasible plan sends every sample to its cell T(y), except that a cell with excess gives some away. How much is known
only at the end of the pass, so of each cell the few hundred samples are kept that lose least by leaving it, and of all
others their mass and the sum of their costs: memory does not grow with m.

If a cell has to give away more, it gives the same share of each of its other samples. By Minkowski's inequality their
mean cost to another point x_j is at most ((mean cost to x_i)^(1/p) + |x_i - x_j|)^p. So the plan is feasible and its
cost an upper bound for every v.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...deterministic import mass_by_cell
from ...transport.flow import within_limits
from ...transport.passes import LaguerreCells
from ...transport.ranks import Ranks

PER_CELL = 16  # boundary samples kept of every cell, whatever its excess may be
SPREADS = 4.0  # standard deviations of a cell's excess that its boundary samples should cover
MOST_ELEMENTS = 1 << 25  # float64 costs of boundary samples to all points, 256 MiB; beyond it each cell keeps fewer
MANY = 2048  # points; beyond it costs are computed to the nearest ones only
MOST_LISTED = 1 << 18  # boundary samples where there are more than MANY points


class CellRows(NamedTuple):
    """Samples, each with its cell."""

    y: Tensor  # (k, d) samples
    mass: Tensor  # (k,) their weights
    cell: Tensor  # (k,) their cells
    margin: Tensor  # (k,) what each loses by leaving for the second nearest point
    cost: Tensor  # (k,) cost to the point of the cell
    image: Tensor  # (k, d') what a map makes of the samples, or (k, 0)
    image_cost: Tensor  # (k,) cost between the images, 0 without a map

    def picked(self, index: Tensor) -> CellRows:
        """Some of these."""
        return CellRows(*(column[index] for column in self))


def cell_rows(
    y: Tensor, mass: Tensor, cells: LaguerreCells, image: Tensor | None = None, image_cost: Tensor | None = None
) -> CellRows:
    """All samples of a batch, with the cells of the potential."""
    if image is None or image_cost is None:
        image, image_cost = y.new_empty(len(y), 0), torch.zeros_like(cells.cost)
    return CellRows(y, mass, cells.cell, cells.margin.double(), cells.cost, image, image_cost)


def joined(several: Sequence[tuple[Tensor, ...]]) -> CellRows:
    """Those of several batches."""
    return CellRows(*(torch.cat(columns) for columns in zip(*several, strict=True)))


class CellStatistics:
    """Masses, cost sums and boundary samples of the cells.

    Args:
        b: (n,) weights of the points.
        expected: samples that will come.
        fitted: samples that the potential comes from: the fewer, the larger the excess of a cell may be.
        uneven: samples over their effective sample size, 1 for equal weights. Masses of cells vary more where it is
            large, and more of them has to be moved.
    """

    def __init__(self, b: Tensor, expected: int, fitted: int, uneven: float = 1.0) -> None:
        n = len(b)
        self.b = b
        # Of each cell its samples, their mass, and mass times cost, of them and of their images, summed.
        self.count, self.mass, self.cost, self.image_cost = (b.new_zeros(n) for _ in range(4))
        self._held: list[CellRows] = []  # concatenated only when pruned: once a batch took most of the time
        spread = (expected * b).sqrt() + expected * (b / fitted).sqrt()
        per_cell = PER_CELL + SPREADS * math.sqrt(uneven) * spread
        most = MOST_LISTED if n > MANY else MOST_ELEMENTS // n
        # Whether those that the cells may have to give away are too many to be kept or moved.
        self.short = n > MANY or float(per_cell.sum()) > most
        self._per_cell = per_cell * min(1.0, most / float(per_cell.sum()))
        self._threshold = torch.full_like(b, math.inf)  # margin beyond which a sample is not kept

    @property
    def total(self) -> float:
        """Mass of the samples so far."""
        return float(self.mass.sum())

    def add(self, batch: CellRows) -> None:
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
        self._held = [joined(ranks.gather(*self.finish()))]

    def finish(self) -> CellRows:
        """The boundary samples within the limits of their cells, after the last batch."""
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

    def others(self, kept: CellRows) -> tuple[Tensor, Tensor, Tensor]:
        """Of the samples that are not kept, in each cell: mass, mean cost and mean cost of images, (n,) each."""
        n, cell, held = len(self.b), kept.cell, kept.mass
        some = self.count > torch.bincount(cell, minlength=n)  # what is left of a mass may be rounding
        mass = torch.where(some, (self.mass - mass_by_cell(cell, held, n)).clamp(min=0), 0.0)
        cost = self.cost - mass_by_cell(cell, held * kept.cost, n)
        image_cost = self.image_cost - mass_by_cell(cell, held * kept.image_cost, n)
        share = mass.where(mass > 0, 1.0)
        return mass, (cost / share).clamp(min=0), (image_cost / share).clamp(min=0)
