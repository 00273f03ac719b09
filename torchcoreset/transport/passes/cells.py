"""Laguerre cells: the nearest point of each sample in c - v, at a potential or from the cells of one near it.

    x (n, d) points, y (m, d) samples, a (m,) weights      v (n,) potential      c cost

An engine finds the two nearest points of each sample in its own precision. Costs then come from differences, and
samples whose cell rounding leaves in doubt are looked at again where that matters; what is left is taken off the bound.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...deterministic import mass_by_cell
from ..problem import Problem
from .rounding import EXACT_MASS, RESOLUTION, SUMMED, doubtful, doubtful_margin, of_sums
from .soft import SoftEngine

PICKED = 1 << 23  # numbers of samples that are picked out at once: 32 MiB in float32
SHARPENED = 1 << 27  # differences that are worth a sharper bound in the end
LOOKED = 1 << 10  # samples of which those that are not in doubt are left out by their margins alone, which takes longer
# Points that rise by far more than all others are compared with every sample, from as many pairs (16 ms) on, if that
# takes less than this part of the time; looked at for it are some samples.
RISEN_PAIRS, RISEN_PAYS, RISEN_SHOWN = 1 << 26, 0.9, 1 << 15


@dataclass(frozen=True)
class LaguerreCells:
    """The Laguerre cells of a potential."""

    potential: Tensor  # (n,)
    cell: Tensor  # (m,) int64 index of the point nearest to each sample in c - v
    cost: Tensor  # (m,) float64 cost c to that point
    margin: Tensor  # (m,) distance in c - v from the nearest to the second nearest point (infinite when n = 1), or less
    mass: Tensor  # (n,) float64 mass of each cell
    mean: float  # of the cost over all samples
    error: float  # how far the semi-dual may lie below what the costs sum up to, by rounding
    dual: float  # semi-dual value less that error, a lower bound of W_p^p
    doubts: Tensor | None = None  # (k,) the samples whose cell rounding leaves in doubt; None where that is not known


class CellEngine(SoftEngine):
    """Hard passes over all points: what every engine makes of the two nearest points of each sample."""

    accuracy = 1e-6  # part of the mean cost that rounding may take from a bound before samples are looked at again
    value = math.inf  # cost of a plan, if one is known: cells of a poor potential may cost far more

    def hard(self, v: Tensor, near: LaguerreCells | None = None) -> LaguerreCells:
        """Nearest point in c - v of every sample, its cost, and the margin to the second nearest.

        Given the pass at a potential near v, only samples that may have another cell now are looked at, and the margin
        of the others is what is certainly left of it.
        """
        if near is None:
            cell, margin = self._two_nearest(self._centred(v))
            return self._summed(v, cell, self._cost_to(cell), margin, None, len(cell))
        cell, cost, margin, close = self._renewed(v, near)
        return self._summed(v, cell, cost, margin, close, len(close))

    def sharpened(self, cells: LaguerreCells) -> LaguerreCells:
        """The same cells, with less in doubt where looking at it again takes no longer than a second or so."""
        cell, cost, margin = cells.cell.clone(), cells.cost.clone(), cells.margin.clone()
        return self._summed(cells.potential, cell, cost, margin, cells.doubts, 0, SHARPENED)

    def _centred(self, v: Tensor) -> Tensor:
        return v - self.problem.b @ v  # an offset moves no cell, but digits would go to it

    def _summed(
        self,
        v: Tensor,
        cell: Tensor,
        cost: Tensor,
        margin: Tensor,
        among: Tensor | None,
        looked: int,
        affordable: int = 0,
    ) -> LaguerreCells:
        """The pass that has found these, which are overwritten where rounding leaves doubts.

        Only the samples `among` which doubts may be, or all, are looked at for them; `looked` have been looked at.
        """
        problem, centred = self.problem, self._centred(v)
        lost, doubts = self._settled(centred, cell, cost, margin, among, affordable)
        held, costs, lost, count = self.total(self._held(cell), problem.a @ cost, lost, problem.a.new_tensor(looked))
        self.meter.spent += float(count) * len(v) / self.meter.unit
        mass, mean = self._mass(held), float(costs)
        turnover = (mass + problem.b) @ centred.abs() * (EXACT_MASS if problem.equal else SUMMED)
        roundoffs = problem.cost.roundoffs(problem.x.shape[1])
        error = float(lost + of_sums(roundoffs, mean, turnover))
        dual = mean + float(centred @ (problem.b - mass)) - (error if error > RESOLUTION * mean else 0.0)
        return LaguerreCells(v, cell, cost, margin, mass, mean, error, dual, doubts)

    def _renewed(self, v: Tensor, near: LaguerreCells) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Cells, costs and margins at v, (m,), from those at a potential near it, and which samples were looked at.

        No sample stays farther behind its second nearest point than the largest rise is above that of its own cell. The
        few points that rise by far more than all others are compared with every sample.
        """
        rise, centred = v - near.potential, self._centred(v)
        risen = self._risen(rise, near)
        most = rise.index_fill(0, risen, -math.inf).max()
        margin = near.margin - (most - rise).to(near.margin.dtype).index_select(0, near.cell)
        cell, cost = near.cell.clone(), near.cost.clone()
        if len(risen):
            margin = torch.minimum(margin, self._margin_to(risen, centred, cell, cost).to(margin.dtype))
        return cell, cost, margin, self._look_again(centred, cell, cost, margin)

    def _look_again(self, v: Tensor, cell: Tensor, cost: Tensor, margin: Tensor) -> Tensor:
        """Which samples may have another cell at v than these, (k,); their entries, of (m,), are overwritten."""
        problem = self.problem
        close, _ = self._doubts(v, cell, cost, margin, problem.squares)
        for some in torch.split(close, max(1, PICKED // problem.x.shape[1])) if len(close) else ():
            part = self.apart(replace(problem, y=problem.y.index_select(0, some), a=problem.a.index_select(0, some)))
            cells, gaps = part._two_nearest(v)
            cell[some], margin[some], cost[some] = cells, gaps, part._cost_to(cells)
        return close

    def _risen(self, rise: Tensor, near: LaguerreCells) -> Tensor:
        """The points, by how far they have risen (n,), whose comparison with all samples saves most others."""
        n, m = len(rise), self.problem.count
        order = rise.argsort(descending=True, stable=True)
        if n * m < RISEN_PAIRS:
            return order[:0]
        numbers = rise.new_tensor([0, *(2**k for k in range(n.bit_length() - 2))])  # up to a quarter of them
        some = slice(None, None, max(1, len(near.cell) // RISEN_SHOWN))
        kept_to = near.margin[some] + rise.index_select(0, near.cell[some])  # the rise of others that changes the cell
        most = rise[order[numbers.long()]]
        close, seen = self.total((kept_to[:, None] <= most).sum(0).double(), rise.new_tensor(len(kept_to)))
        work = numbers / n + close / seen
        least = int(work.argmin())
        return order[: int(numbers[least]) if work[least] < RISEN_PAYS * work[0] else 0]

    def _margin_to(self, points: Tensor, v: Tensor, cell: Tensor, cost: Tensor) -> Tensor:
        """How much farther than its cell in c - v the nearest of some points is from each sample, (m,) float64."""
        problem = self.problem
        self.meter.spent += len(points) * problem.count / self.meter.unit
        heights = v[points]
        part = self.apart(replace(problem, x=problem.x[points], b=problem.b[points]))
        nearest, gap = part._two_nearest(heights)
        beyond = (part._cost_to(nearest) - heights.index_select(0, nearest)) - (cost - v.index_select(0, cell))
        return torch.where(points.index_select(0, nearest) == cell, gap.double(), beyond)

    def _settled(
        self, v: Tensor, cell: Tensor, cost: Tensor, margin: Tensor, among: Tensor | None, affordable: int
    ) -> tuple[Tensor, Tensor]:
        """How far the mean of the minima of c - v may lie below what was found, 0-d; and the samples that are in doubt.

        Where that matters, or takes no more than the `affordable` number of differences, samples whose cell is in doubt
        are looked at again, in float64 and then from differences: their entries of `cell`, `cost` and `margin` (m,) are
        overwritten.
        """
        problem = self.problem
        if among is None:
            index, loss = self._doubts(v, cell, cost, margin, problem.squares)
        else:
            if len(among) > LOOKED:
                among = among[margin.index_select(0, among) <= self._doubtful_margin(v, cost)]
            index, loss = self._doubts(v, cell[among], cost[among], margin[among], problem.squares[among])
            index = among[index]
        lost = problem.a[index] @ loss
        if not len(index):
            return lost, index
        if len(index) * problem.x.numel() > affordable:
            most = self.accuracy * (problem.a @ cost).clamp(max=self.value)
            if not bool(lost > most):
                return lost, index
        finer = self.finer(replace(problem, y=problem.y[index], a=problem.a[index]))
        if finer is None:
            return lost, index
        finer.accuracy, finer.value = self.accuracy, self.value
        cells, gap = finer._two_nearest(v)
        costs = finer._cost_to(cells)
        lost, _ = finer._settled(v, cells, costs, gap, None, affordable)
        cell[index], cost[index], margin[index] = cells, costs, gap.to(margin.dtype)
        return lost, index

    def _doubts(self, v: Tensor, cell: Tensor, cost: Tensor, margin: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
        """As `doubtful`, for passes of this engine."""
        return doubtful(self.problem, v, cell, cost, margin, squares)

    def _doubtful_margin(self, v: Tensor, cost: Tensor) -> float:
        """The margin from which on nothing is."""
        return doubtful_margin(self.problem, v, cost, self.problem.squares)

    @abstractmethod
    def _two_nearest(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Index of the point nearest to each sample in c - v, (m,) int64; its margin to the second nearest, (m,)."""

    @abstractmethod
    def apart(self, problem: Problem) -> CellEngine:
        """The same with a meter of its own."""

    @abstractmethod
    def finer(self, problem: Problem) -> CellEngine | None:
        """An engine that rounds less, for some of the samples and on a meter of its own; None if there is none."""

    @abstractmethod
    def total(self, *sums: Tensor) -> tuple[Tensor, ...]:
        """Sums over all samples, from those over the samples held."""

    def _cost_to(self, cell: Tensor) -> Tensor:
        """Cost of sending each sample to its point, (m,) float64."""
        return self.problem.cost.at(self.problem.y, self.problem.x, None, cell)

    def cell_mass(self, cell: Tensor) -> Tensor:
        """Mass of the samples here in each cell, (n,)."""
        return self._mass(self._held(cell))

    def _held(self, cell: Tensor) -> Tensor:
        """What the cells hold: numbers of samples where all weights are equal, for these are exact, and else mass."""
        n = len(self.problem.x)
        return torch.bincount(cell, minlength=n) if self.problem.equal else mass_by_cell(cell, self.problem.a, n)

    def _mass(self, held: Tensor) -> Tensor:
        return held.double() / self.problem.count if self.problem.equal else held
