"""Reductions over all samples: what the solver asks of c - v, and what it gets back.

    x (n, d) points, y (m, d) samples, a (m,) weights      v (n,) potential      eta smoothing      c cost

`Engine` is the interface. For a potential, `hard` finds the nearest point of each sample in c - v, and `soft` how mass
is shared when the minimum is smoothed; results have size m, n or n x n. Engines differ only in how they reduce the n x
m numbers c - v. What they share is here; `choose` makes the one that a problem asks for.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeVar

import torch
from torch import Tensor

from ...deterministic import kth_smallest, mass_by_cell
from ..problem import Problem
from ..result import Coupling
from .rounding import EXACT_MASS, RESOLUTION, SUMMED, doubtful, doubtful_margin, of_sums

# Elements of one block of work: 2 MiB in float32, which stays in cache (measured: larger blocks are up to twice
# slower on CPUs, smaller ones are bound by launch time).
CHUNK_ELEMENTS = {"cpu": 1 << 19, "cuda": 1 << 26}
PICKED = 1 << 23  # numbers of samples that are picked out at once: 32 MiB in float32
SHARPENED = 1 << 27  # differences that are worth a sharper bound in the end
# Points that rise by far more than all others are compared with every sample, from as many pairs (16 ms) on, if that
# takes less than this part of the time; looked at for it are some samples.
RISEN_PAIRS, RISEN_PAYS, RISEN_SHOWN = 1 << 26, 0.9, 1 << 15
HUGE = 1 << 24  # samples beyond which a subsample is not the head of a shuffle of all
# 2^-46 is 1e-14, below what a sum of float32 shares resolves, and its square times a weight of 1e-9 is still
# a normal float32. Denormals are 10 times slower on CPUs.
LOWEST_POWER = -46.0

Rows = TypeVar("Rows")


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


@dataclass(frozen=True)
class SmoothedCells:
    """The smoothed semi-dual at a potential."""

    dual: float  # its value
    mass: Tensor  # (n,) float64 mass received by each point under the softmin
    find_gram: Callable[[], Tensor]  # what computes `gram`, which many a pass is not asked for
    softness: float  # mean mass that a sample sends anywhere but to its first point, in [0, 1)

    @cached_property
    def gram(self) -> Tensor:
        """(n, n) float64 sum_k a_k chi_ki chi_kj over undecided samples; its off-diagonal part makes the Hessian."""
        return self.find_gram()


@dataclass(frozen=True)
class SoftSums:
    """What a soft reduction sums over all samples, in float64."""

    minimum: Tensor  # 0-d, sum_k a_k of the softmin of c - v
    largest_share: Tensor  # 0-d, sum_k a_k of the share of its first point
    mass: Tensor  # (n,) as in `SmoothedCells`
    find_gram: Callable[[], Tensor]  # as in `SmoothedCells`


Entries = tuple[Tensor, Tensor, Tensor]  # samples, points and costs of the entries of lists


@dataclass
class Meter:
    """Work done by an engine and by all that were made from it."""

    unit: int  # elements of c - v in one pass over all samples and points
    spent: float = 0.0  # passes so far; one over a part of the samples or points counts by its share
    limit: float = math.inf  # passes after which loops should stop


class SoftEngine(ABC):
    """Soft passes over the samples of a problem, on its device and in its dtype, counted by a meter."""

    trust = 100.0  # etas by which a potential may move between two passes

    def __init__(self, problem: Problem, meter: Meter | None = None) -> None:
        self.problem = problem
        self.meter = meter or Meter(len(problem.x) * problem.count)

    def exhausted(self) -> bool:
        """Whether no more passes are allowed."""
        return self.meter.spent >= self.meter.limit

    def renew(self, v: Tensor, eta: float) -> bool:
        """Get ready for passes about v; whether this has changed what they give."""
        return False

    def soft(self, v: Tensor, eta: float) -> SmoothedCells:
        """Value, gradient and curvature of the smoothed semi-dual, in one pass."""
        self._count()
        offset = v.mean()
        sums = self._soft_sums(v - offset, eta)
        dual = float(sums.minimum - offset + self.problem.b @ v)
        return SmoothedCells(dual, sums.mass, sums.find_gram, 1 - float(sums.largest_share))

    def _count(self) -> None:
        self.meter.spent += self._size() / self.meter.unit

    def _size(self) -> int:
        """Elements of c - v in one pass."""
        return len(self.problem.x) * self.problem.count

    @abstractmethod
    def _soft_sums(self, v: Tensor, eta: float) -> SoftSums:
        """The softmin -eta log sum_i b_i exp((v_i - c)/eta) of every sample, and its derivatives, summed."""


class Engine(SoftEngine):
    """Hard and soft passes over all points."""

    accuracy = 1e-6  # part of the mean cost that rounding may take from a bound before samples are looked at again
    value = math.inf  # cost of a plan, if one is known: cells of a poor potential may cost far more

    def __init__(self, problem: Problem, meter: Meter | None = None) -> None:
        super().__init__(problem, meter)
        self._elements = chunk_elements(problem.x.device)

    @property
    def rounding(self) -> float:
        """Size of the rounding error of one cost, roughly."""
        return self.problem.rounding

    def subsample(self, count: int) -> Engine:
        """An engine on the first `count` samples of a fixed shuffle; weights follow the samples."""
        problem = self.problem
        if count >= len(problem.y):
            return self
        index = shuffled(len(problem.y), count).to(problem.y.device)
        a = problem.a.index_select(0, index)
        total = a.sum()
        if not bool(total > 0):
            return self
        return self.on(replace(problem, y=problem.y.index_select(0, index), a=a / total))

    def on(self, problem: Problem) -> Engine:
        """An engine of the same kind for another problem, on the same meter."""
        return type(self)(problem, self.meter)

    @abstractmethod
    def finer(self, problem: Problem) -> Engine | None:
        """An engine that rounds less, for some of the samples and on a meter of its own; None if there is none."""

    def apart(self, problem: Problem) -> Engine:
        """The same with a meter of its own."""
        return type(self)(problem)

    def picked(self, problem: Problem, index: Tensor) -> Engine:
        """The same for the samples (k,) with these indices, of this problem."""
        return self.apart(problem)

    def hold(self) -> None:
        """Keep what several hard passes have in common, where that takes most of their time: n x m numbers."""
        return

    # Reductions over all samples. This engine holds every one of them; an engine that holds a part overrides these.

    def total(self, *sums: Tensor) -> tuple[Tensor, ...]:
        """Sums over all samples, from those over the samples held."""
        return sums

    def least(self, values: Tensor) -> Tensor:
        """Each entry's minimum over all samples, from that over the samples held."""
        return values

    def kth_smallest(self, values: Tensor, k: int) -> Tensor:
        """The k-th smallest of the non-negative values (m,) of all samples, counted from 1; 0-d."""
        return kth_smallest(values, k)

    def gathered(self, rows: Rows, per_cell: Tensor) -> Rows:
        """`BoundarySamples` of all samples, the first `per_cell` (n,) of each cell, from those of the samples held."""
        return rows

    def own(self, plan: Coupling) -> Coupling:
        """The entries of the samples held, of a plan of all samples."""
        return plan

    def own_excess(self, received: Tensor, excess: Tensor) -> Tensor:
        """What the samples held, from which points receive `received` (n,), have to move of an excess (n,)."""
        return excess

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

    def costs(self) -> Tensor:
        """Costs of all samples here at all points, (m, n) float64, rounded as in passes."""
        return self.problem.cost.pairwise(self.problem.y, self.problem.x).double()

    def sharpened(self, cells: LaguerreCells) -> LaguerreCells:
        """The same cells, with less in doubt where looking at it again takes no longer than a second or so."""
        cell, cost, margin = cells.cell.clone(), cells.cost.clone(), cells.margin.clone()
        return self._summed(cells.potential, cell, cost, margin, None, 0, SHARPENED)

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
        lost = self._settled(centred, cell, cost, margin, among, affordable)
        held, costs, lost, count = self.total(self._held(cell), problem.a @ cost, lost, problem.a.new_tensor(looked))
        self.meter.spent += float(count) * len(v) / self.meter.unit
        mass, mean = self._mass(held), float(costs)
        turnover = (mass + problem.b) @ centred.abs() * (EXACT_MASS if problem.equal else SUMMED)
        roundoffs = problem.cost.roundoffs(problem.x.shape[1])
        error = float(lost + of_sums(roundoffs, mean, turnover))
        dual = mean + float(centred @ (problem.b - mass)) - (error if error > RESOLUTION * mean else 0.0)
        return LaguerreCells(v, cell, cost, margin, mass, mean, error, dual)

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
    ) -> Tensor:
        """How far the mean of the minima of c - v may lie below what was found, 0-d.

        Where that matters, or takes no more than the `affordable` number of differences, samples whose cell is in doubt
        are looked at again, in float64 and then from differences: their entries of `cell`, `cost` and `margin` (m,) are
        overwritten.
        """
        problem = self.problem
        if among is None:
            index, loss = self._doubts(v, cell, cost, margin, problem.squares)
        else:
            among = among[margin.index_select(0, among) <= self._doubtful_margin(v, cost)]
            index, loss = self._doubts(v, cell[among], cost[among], margin[among], problem.squares[among])
            index = among[index]
        lost = problem.a[index] @ loss
        if not len(index):
            return lost
        most = self.accuracy * (problem.a @ cost).clamp(max=self.value)
        if len(index) * problem.x.numel() > affordable and not bool(lost > most):
            return lost
        finer = self.finer(replace(problem, y=problem.y[index], a=problem.a[index]))
        if finer is None:
            return lost
        finer.accuracy, finer.value = self.accuracy, self.value
        cells, gap = finer._two_nearest(v)
        costs = finer._cost_to(cells)
        lost = finer._settled(v, cells, costs, gap, None, affordable)
        cell[index], cost[index], margin[index] = cells, costs, gap.to(margin.dtype)
        return lost

    def _doubts(self, v: Tensor, cell: Tensor, cost: Tensor, margin: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
        """As `doubtful`, for passes of this engine."""
        return doubtful(self.problem, v, cell, cost, margin, squares)

    def _doubtful_margin(self, v: Tensor, cost: Tensor) -> float:
        """The margin from which on nothing is."""
        return doubtful_margin(self.problem, v, cost, self.problem.squares)

    def nearest(self, v: Tensor) -> Tensor:
        """Index of the point nearest in c - v to each sample here, (m,) int64, for a centred v: `hard` without sums."""
        self._count()
        return self._nearest(v)

    def assigned(self, v: Tensor, cell: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The samples here in the cells (m,) of a centred v, which are those of `nearest` if None.

        Returned are the cells; c - v there, (m,) float64 from differences; the mass of each cell, (n,) float64; the
        gradient in the points of the mean cost, (n, d) float64; and the means of c - v and of its square, (2,) float64.
        """
        problem = self.problem
        cell = self.nearest(v) if cell is None else cell
        cost, gradient = problem.cost.assigned(problem.y, problem.x, problem.a, cell, self.rows, each=problem.each)
        transform = cost.sub_(v.index_select(0, cell))
        moments = torch.stack((problem.mean(transform), problem.mean(transform * transform)))
        return cell, transform, self.cell_mass(cell), gradient, moments

    def softmin(self, v: Tensor, eta: float) -> Tensor:
        """Smoothed c-transform -eta log sum_i b_i exp((v_i - c)/eta) of every sample, (m,) float64."""
        self._count()
        offset = v.mean()
        return self._softmins(v - offset, eta) - offset

    def moments(self, height: Tensor, eta: float) -> tuple[Tensor, float]:
        """Mass and mean of the smoothed cells, and about the mean cost: that of the nearest points in c - v.

        For the height v + eta log b of each point, (n,), whatever its weight b here: sums of a (y, 1) over the samples
        times the share of each point, (n, d + 1) float64; and the cost, were the mass of the nearest points that of the
        smoothed cells.
        """
        self._count()
        height = height - height.mean()  # digits would go to an offset
        sums, minimum = self.total(*self._moments(height, eta))
        return sums, max(0.0, float(minimum + sums[:, -1] @ height))

    @abstractmethod
    def _moments(self, height: Tensor, eta: float) -> tuple[Tensor, Tensor]:
        """The sums over the samples here, and the mean of the lowest c - height of each, 0-d float64."""

    @abstractmethod
    def lists(self, v: Tensor, within: Tensor, supply: Tensor) -> Entries:
        """Of each sample the points whose c - v is within a distance (m,) of that of the nearest.

        `supply` (n,) is the mass of samples that should list each point, even if from farther away. The entries are
        (e,) int32 samples, ascending, (e,) int32 points, and their (e,) costs in the dtype of the points.
        """

    @abstractmethod
    def candidates(self, v: Tensor, eta: float) -> SoftEngine:
        """Soft passes over the points that matter to each sample while v and eta change little, or self."""

    @abstractmethod
    def _two_nearest(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Index of the point nearest to each sample in c - v, (m,) int64; its margin to the second nearest, (m,)."""

    def _nearest(self, v: Tensor) -> Tensor:
        """The first of these, where it alone is asked for."""
        return self._two_nearest(v)[0]

    @abstractmethod
    def _softmins(self, v: Tensor, eta: float) -> Tensor:
        """The softmin of every sample, (m,) float64."""

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

    @property
    def rows(self) -> int:
        """Samples of one block of work of size samples x dimension."""
        return max(16, self._elements // max(self.problem.x.shape))


def exponential_(above: Tensor, eta: float) -> Tensor:
    """exp(-above / eta) of numbers >= 0, in place; powers of two, which torch takes 3 times faster (measured)."""
    return above.mul_(-1 / (eta * math.log(2))).clamp_(min=LOWEST_POWER).exp2_()


@lru_cache(maxsize=8)
def shuffled(m: int, count: int) -> Tensor:
    """`count` different numbers of range(m), in random order and always the same, (count,); not to be written to."""
    generator = torch.Generator().manual_seed(m)
    if m <= HUGE or 16 * count > m:
        return torch.randperm(m, generator=generator, device="cpu")[:count].clone()
    # A shuffle of 10^9 numbers would take 8 GB. Of an eighth more draws than needed, at most a 25th repeat others.
    chosen: Tensor = torch.unique(torch.randint(m, (count + count // 8 + 64,), generator=generator, device="cpu"))
    return chosen[torch.randperm(len(chosen), generator=generator, device="cpu")[:count]]


def chunk_elements(device: torch.device) -> int:
    """Elements of one block of work on a device."""
    return CHUNK_ELEMENTS.get(device.type, CHUNK_ELEMENTS["cpu"])
