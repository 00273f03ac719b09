"""Optimal transport whose marginals are not fixed: a flow on the samples near boundaries, and a pass that proves it.

1. Free weights need no flow: every sample goes to its nearest point, and of those, the farthest stay unmatched.
2. Elsewhere a potential is carried from few samples to four times as many, and again, each time by one flow.
3. On all samples, more of them take part in the flow in each round, until its plan and the semi-dual at its potential
   meet; in the end all, where their costs can be held.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ...deterministic import running_sum
from ..flow import MASS_TOLERANCE, cheapest_moves, least_margin, north_west_corner
from ..marginals import Marginals
from ..passes import RESOLUTION, Engine, EngineChoice, make_engine, unresolved
from ..problem import Problem, as_float64, within_range
from ..result import Coupling, Status, Transport
from .cells import RelaxedCells, relaxed_cells
from .network import balance_relaxed

FLOAT64 = 1 << 28  # coordinates times points up to which all is in float64: some 50 ms a pass (one core)
FEWEST, FEW_PER_POINT = 1024, 20  # samples, and samples a point, of the first flow
GROWTH = 4  # times as many samples in the next
DIRECT = 1 << 19  # pairs of a sample and a point up to which all samples take part in the first flow on all
DIFFERENCES = 1 << 20  # coordinates times points up to which costs come from differences: some milliseconds
MOST_PAIRS = 1 << 25  # up to which all may: 256 MiB of costs
PRICED_POINTS = 256  # up to which samples are priced between all pairs of cells
ROUNDS = 6  # of flows on all samples, each with GROWTH times as many near boundaries
PER_CELL = 16  # samples of every cell that take part, beyond what its own excess asks for
TIED = 1e-9  # mean costs by which the potential of a point may differ from the level, if its weight is between bounds
FAR = 1e6  # largest costs of samples that are matched, at which those of others are cut off
PART = 1e-9  # of a sample: a smaller part of one is rounding, which would cost much where that is far away
ROUNDED = 0.05  # tolerances that rounding may take from costs by expanded squares


def solve_relaxed(
    problem: Problem,
    marginals: Marginals,
    *,
    tolerance: float,
    start: Tensor | None,
    max_steps: int,
    engine: EngineChoice,
) -> Transport:
    """Solve a checked problem whose marginals are these; arguments as in `solve`.

    If float32 cannot tell a gap of the tolerance from its own rounding, the problem is solved in float64.
    """
    problem = within_range(problem)
    if problem.y.numel() * len(problem.x) <= FLOAT64:
        problem = as_float64(problem)
    settings = (marginals, tolerance, max_steps, engine)
    found = _Solver(problem, *settings).run(start)
    if found.status is not Status.CONVERGED and problem.x.dtype != torch.float64:
        found = _Solver(as_float64(problem), *settings).run(found.potential)
    return found


class _Plan(NamedTuple):
    entries: tuple[Tensor, Tensor, Tensor]  # samples, points and masses, of those that are matched
    weights: Tensor  # (n,) of the points
    value: float


@dataclass
class _Solver:
    """One solve: the best bounds found so far, with what attains them."""

    problem: Problem
    marginals: Marginals
    tolerance: float
    max_steps: int
    choice: EngineChoice

    def __post_init__(self) -> None:
        self.engine = make_engine(self.problem, self.choice)
        self.problem = self.engine.problem
        self.engine.accuracy = ROUNDED * self.tolerance
        self.best: RelaxedCells | None = None
        self.plan: _Plan | None = None

    def run(self, start: Tensor | None) -> Transport:
        if self.marginals.free:
            self._assign()
            return self._result(Status.STALLED)
        v = self._from_few_samples() if start is None else start.to(self.problem.b)
        return self._result(self._balance_in_rounds(v))

    def _assign(self) -> None:
        """Every sample to its nearest point, in the order of the costs until the mass is used up."""
        problem, marginals = self.problem, self.marginals
        cells = relaxed_cells(self.engine, marginals, torch.zeros_like(problem.b))
        rows = torch.arange(len(cells.cell), device=cells.cell.device)
        mass = problem.a
        if marginals.trim:
            rows = cells.cost.argsort(stable=True)
            left = (marginals.matched - (running_sum(problem.a[rows]) - problem.a[rows])).clamp(min=0)
            mass = problem.a[rows].minimum(left) / marginals.matched
            held = mass > PART / len(mass)
            rows, mass = rows[held], mass[held] / mass[held].sum()
            farthest = float(cells.cost[rows[-1]])
            cells = relaxed_cells(self.engine, marginals, torch.full_like(problem.b, farthest))
        self._keep_cells(cells)
        self._keep_plan((rows, cells.nearest[rows], mass), float(mass @ cells.cost[rows]))

    def _from_few_samples(self) -> Tensor:
        """A potential from part of the samples: from few, then from more, each by one flow."""
        problem, n = self.problem, len(self.problem.x)
        count = max(FEWEST, FEW_PER_POINT * n)
        v = self._level(self.engine.subsample(count))
        while count < len(problem.y) // 2:
            part = self.engine.subsample(count)
            cells = relaxed_cells(part, self.marginals, v)
            v, _ = self._flow(part, cells, self._offered(cells, part.problem, 1))
            count *= GROWTH
        return v

    def _level(self, engine: Engine) -> Tensor:
        """The potential, the same for all points, at which about the mass wanted stays unmatched, (n,): the lowest."""
        zero = torch.zeros_like(self.problem.b)
        if not self.marginals.trim:
            return zero
        costs = relaxed_cells(engine, self.marginals, zero).cost
        order = costs.argsort(stable=True)
        below = running_sum(engine.problem.a[order]) < self.marginals.matched * (1 - PART)
        return zero + costs[order[below.sum().clamp(max=len(order) - 1)]]  # of the sample that completes it

    def _balance_in_rounds(self, v: Tensor) -> Status:
        problem = self.problem
        pairs = len(problem.y) * len(problem.x)
        for round_ in range(ROUNDS):
            if round_ == 1 and self.plan is None:  # much was in wrong cells
                v = self._from_few_samples()
            cells = relaxed_cells(self.engine, self.marginals, v)
            self._keep_cells(cells)
            if self.gap <= self.tolerance:
                break
            if self.engine.meter.spent >= self.max_steps:
                return Status.MAX_STEPS
            everyone = pairs <= (MOST_PAIRS if round_ > 1 else DIRECT)
            offered = self._everyone() if everyone else self._offered(cells, problem, GROWTH**round_)
            v, plan = self._flow(self.engine, cells, offered)
            if plan is not None:
                self._keep_plan(*plan)
            if everyone and round_ > 1:
                self._keep_cells(relaxed_cells(self.engine, self.marginals, v))
                break
        return Status.STALLED

    def _everyone(self) -> Tensor:
        return (self.problem.a > 0).nonzero()[:, 0]

    def _offered(self, cells: RelaxedCells, problem: Problem, widen: int) -> Tensor:
        """Samples near the boundary of their cell, more where its mass is far from what it may hold; (k,)."""
        m, n = len(cells.cell), len(cells.potential)
        if n * m <= DIRECT:
            return (problem.a > 0).nonzero()[:, 0]
        marginals, mass = self.marginals, cells.mass
        v, tied = cells.potential - cells.level, TIED * cells.mean
        least = torch.where(v < -tied, marginals.high, marginals.low)  # what a point should hold, by its potential
        most = torch.where(v > tied, marginals.low, marginals.high)
        excess = torch.maximum(mass[:n] - most, least - mass[:n]).clamp(min=0)
        excess = torch.cat((excess, (mass[n:] - marginals.trim / marginals.matched).abs()))
        per_cell = widen * (PER_CELL + 4 * excess * m + 2 * float(excess.sum()) * m / n)
        per_cell *= min(1.0, MOST_PAIRS / n / float(per_cell.sum()))
        offered = least_margin(cells.cell, cells.margin, per_cell)
        if widen > 1 and n <= PRICED_POINTS:  # between clusters, who should move lies deep in a cell
            offered = torch.unique(torch.cat((offered, cheapest_moves(problem, cells.nearest, widen))))
        return offered[problem.a[offered] > 0]

    def _flow(
        self, engine: Engine, cells: RelaxedCells, offered: Tensor
    ) -> tuple[Tensor, tuple[tuple[Tensor, Tensor, Tensor], float] | None]:
        """The potential of a flow on these samples, and the plan on all, with its cost, if it keeps its marginals."""
        problem, marginals, n = engine.problem, self.marginals, len(cells.potential)
        y, a = problem.y[offered].double(), problem.a / marginals.matched
        hidden = unresolved(problem, cells.mean, ROUNDED * self.tolerance, torch.float64)
        exact = hidden or len(y) * problem.x.numel() <= DIFFERENCES
        block = problem.cost.pairwise_exact if exact else problem.cost.pairwise
        costs = block(y, problem.x.double())
        matched = costs[cells.cell[offered] < n]
        if marginals.trim and matched.numel() and float(matched.max()) > 0:
            costs.clamp_(max=FAR * float(matched.max()))  # those of outliers would take the digits of all others
        found = balance_relaxed(
            costs.cpu().numpy(), cells.cell[offered], a[offered], cells.mass, marginals, cells.potential, cells.level
        )
        none = (PART * a[offered[found.rows]]).clamp(max=MASS_TOLERANCE / n)  # which a light point may need
        goes = (found.cols < n) & (found.mass > none)
        moved = (offered[found.rows[goes]], found.cols[goes], found.mass[goes])
        still = cells.cell < n
        still[offered] = False
        rest = still.nonzero()[:, 0]
        entries = [torch.cat(pair) for pair in zip((rest, cells.cell[rest], a[rest]), moved, strict=True)]
        rows, cols, mass = entries
        received = torch.bincount(cols, mass, minlength=n)
        allowed = 10 * MASS_TOLERANCE / n
        kept = (received >= marginals.low - allowed) & (received <= marginals.high + allowed)
        if not bool(kept.all()) or abs(float(received.sum()) - 1) > 10 * MASS_TOLERANCE:
            return found.potential, None
        value = float(mass @ problem.cost.at(problem.y, problem.x, rows, cols))
        return found.potential, ((rows, cols, mass), value)

    def _rough_plan(self, cells: RelaxedCells) -> _Plan:
        """A plan that keeps its marginals, where no flow has found one: what is too much goes wherever it is taken."""
        problem, marginals, n = self.problem, self.marginals, len(self.problem.x)
        order = (cells.cost - cells.potential[cells.nearest]).argsort(stable=True)
        a = problem.a[order]
        left = (marginals.matched - (running_sum(a) - a)).clamp(min=0)
        mass = a.minimum(left) / marginals.matched
        cols = cells.nearest[order]
        received = torch.bincount(cols, mass, minlength=n)
        weights = marginals.nearest(received)
        given = [t.cpu().numpy() for t in (order, cols, mass, received - weights)]
        arrays = north_west_corner(given[0], given[1], given[2], given[3])
        rows, cols, mass = (torch.from_numpy(array).to(cells.cost.device) for array in arrays)
        value = float(mass @ problem.cost.at(problem.y, problem.x, rows, cols))
        self._keep_plan((rows, cols, mass), value)
        assert self.plan is not None, "it is the first"
        return self.plan

    @property
    def gap(self) -> float:
        """Relative distance of the bounds; 0 when they agree to RESOLUTION."""
        if self.plan is None or self.best is None:
            return math.inf
        difference = self.plan.value - max(self.best.dual, 0.0)
        return difference / self.plan.value if difference > RESOLUTION * self.plan.value else 0.0

    def _keep_cells(self, cells: RelaxedCells) -> None:
        if self.best is None or cells.dual > self.best.dual:
            self.best = cells

    def _keep_plan(self, entries: tuple[Tensor, Tensor, Tensor], value: float) -> None:
        if self.plan is None or value < self.plan.value:
            weights = torch.bincount(entries[1], entries[2], minlength=len(self.problem.x))
            self.plan = _Plan(entries, weights, value)

    def _result(self, otherwise: Status) -> Transport:
        assert self.best is not None, "every run makes a pass"
        plan, best, n = self.plan or self._rough_plan(self.best), self.best, len(self.problem.x)
        rows, cols, mass = plan.entries
        return Transport(
            value=plan.value,
            lower=min(max(best.dual, 0.0), plan.value),
            gap=self.gap,
            potential=best.potential,
            transform=best.transform,
            plan=Coupling(rows, cols, mass, (len(self.problem.y), n)),
            cell_mass=best.mass[:n],
            marginal_error=float((best.mass[:n] - plan.weights).abs().sum()) / 2,
            steps=math.ceil(self.engine.meter.spent - 1e-9),
            status=Status.CONVERGED if self.gap <= self.tolerance else otherwise,
            weights=self.marginals.low if self.marginals.fixed else plan.weights,
        )
