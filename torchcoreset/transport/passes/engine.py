"""Reductions over all samples: what the solver asks of c - v, and what it gets back.

    x (n, d) points, y (m, d) samples, a (m,) weights      v (n,) potential      eta smoothing      c cost

`Engine` is the interface. For a potential, `hard` finds the nearest point of each sample in c - v, and `soft` how mass
is shared when the minimum is smoothed; results have size m, n or n x n. Engines differ only in how they reduce the n x
m numbers c - v. What they share is in `soft`, in `cells` and here; `choose` makes the one that a problem asks for.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

import torch
from torch import Tensor

from ...deterministic import kth_smallest
from ..problem import Problem
from ..result import Coupling
from .cells import CellEngine
from .soft import Meter, SoftEngine

# Elements of one block of work: 2 MiB in float32, which stays in cache (measured: larger blocks are up to twice
# slower on CPUs, smaller ones are bound by launch time).
CHUNK_ELEMENTS = {"cpu": 1 << 19, "cuda": 1 << 26}
HUGE = 1 << 24  # samples beyond which a subsample is not the head of a shuffle of all

Rows = TypeVar("Rows")
Entries = tuple[Tensor, Tensor, Tensor]  # samples, points and costs of the entries of lists


class Engine(CellEngine):
    """Hard and soft passes over all points, subsamples, and sums over the samples of all ranks."""

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

    def costs(self) -> Tensor:
        """Costs of all samples here at all points, (m, n) float64, rounded as in passes."""
        return self.problem.cost.pairwise(self.problem.y, self.problem.x).double()

    def nearest(self, v: Tensor) -> Tensor:
        """Index of the point nearest in c - v to each sample here, (m,) int64, for a centred v: `hard` without sums."""
        self._count()
        return self._nearest(v)

    def two_nearest(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """The same, and the margin (m,) to the second nearest."""
        self._count()
        return self._two_nearest(v)

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

    def _nearest(self, v: Tensor) -> Tensor:
        """The first of these, where it alone is asked for."""
        return self._two_nearest(v)[0]

    @abstractmethod
    def _softmins(self, v: Tensor, eta: float) -> Tensor:
        """The softmin of every sample, (m,) float64."""

    @property
    def rows(self) -> int:
        """Samples of one block of work of size samples x dimension."""
        return max(16, self._elements // max(self.problem.x.shape))


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
