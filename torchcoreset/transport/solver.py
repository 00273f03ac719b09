"""The way from points and samples to an optimal plan: eps_scaling on subsamples, correct on all samples, balance.

    v (n,) potential      g (n,) gradient b - mass of the cells      D(v) semi-dual

1. Coarse: Newton with shrinking smoothing carries v most of the way, on few points, then on all with 5 n, 20 n and
   100 n samples; a potential of nearby points is blurred and annealed, or taken as it is.
2. Fine: a few passes over all samples; the gradient is theirs, the curvature that of the last subsample, which learns
   from each step. After the first of them only samples that may have left their cell are looked at.
3. Balance: what the cells hold too much or too little of is moved explicitly, which gives a feasible plan.

Each pass over all samples yields a lower bound D(v), each plan an upper bound, and the loop ends when they meet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .dual import (
    Curvature,
    LazyHessian,
    LimitedMemory,
    coarse_potential,
    coarse_sample,
    curvature_of,
    eps_scaling,
    next_eta,
    sorted_transport,
    target_softness,
    tune_eta,
)
from .flow import MASS_TOLERANCE, balance, balance_lists, boundary_samples, candidate_arcs, spread
from .passes import RESOLUTION, Engine, EngineChoice, LaguerreCells, make_engine, unresolved
from .problem import Problem
from .result import Coupling, Status, Transport

FINE = 100  # samples a point in the last subsample
MOST = 1 << 18  # samples in it: their lists fill some hundred MiB
SORTED = 1 << 26  # samples on the line beyond which they are not sorted in one place: 1 GiB with their weights
# Of moving one sample explicitly, in elements of a pass. Measured: between 1e3 and 1e4 it hardly matters.
MOVE_COST = 1e4
FEWEST_STEPS = 10  # with which an approach is begun; below, and without steps left, much excess is not moved by paths
SURPLUS = 4  # samples a point that may have to be moved explicitly, if more passes can avoid it
# Part of the promised rise below which a step was too long for its curvature; what the trust is divided by then; and
# the least trust, in etas, with which a step is still tried, where few samples are in wrong cells and where many are.
POOR, CAUTION, CLOSE, CLOSEST = 0.1, 8.0, 2.0, 0.1
CORRECTIONS = 12  # Newton steps on all samples before the excess is moved
# Mass errors: a warm start with less than the first is corrected on all samples at once, and one with more than the
# second is worth no more than none; nor is a potential with more than the third after all corrections. A start with
# more than the third is never near, however few samples a point there are.
NEAR, LOST, ASTRAY = 0.02, 0.3, 0.1
BLURRED = 0.4  # part of the samples that a start which is not near is blurred over, to be annealed from there
ROUNDS = 8  # of balancing, each with four times as many boundary samples
# The same where a plan that is not as good as hoped does as well, and the tolerances within which that of the first
# round does: with 1,000 points and 331,000 samples a second round takes 3 to 10 seconds, a first one 1.
FEW_ROUNDS, ROUGH = 2, 3.0
# Points up to which boundary samples know their costs to all of them: the first, since lists are 1.5 to 5 times faster
# beyond (measured); the second where much has to move far, or lists led nowhere.
DENSE_BALANCE, MOST_DENSE = 256, 4096
# Tolerances that a potential may lack, by Newton's model, and what balancing alone makes up for where no curvature is
# at hand yet.
REST, LEFT = 0.1, 1.0
BUDGET = 0.5  # tolerances that balancing may waste: the rest is for what potential and samples out of its sight lack
BY_WAY_OF = (1e-3, 1e-5)  # parts of the value that may be wasted on the way to an exact plan: up to twice as fast
# Tolerances that rounding may take from a lower bound before samples in doubt are looked at again, and from the costs
# that mass is moved by.
ROUNDED = 0.05
BLUNT = 1e-10  # part of the mean cost that rounding may take from the bound that is returned, where it costs little
ROW_ELEMENTS = 256  # of a boundary sample with its list and what is made of it, roughly, where there are lists
BALANCED_ELEMENTS = 1 << 26  # of the float64 cost block of the samples that may move: 512 MiB
# The same in the first round, held twice: 256 MiB. Beyond, lists take a tenth of that, and what they lead to is better.
DENSE_ELEMENTS = 1 << 24


@dataclass(frozen=True)
class Settings:
    """Of a solve; as in `solve`."""

    tolerance: float
    exact: bool
    max_steps: int
    engine: EngineChoice
    accept_near_optimal: bool


class Solver:
    """One solve: the engine, and the best bounds found so far with what attains them."""

    def __init__(self, problem: Problem, settings: Settings) -> None:
        self.problem, self.settings = problem, settings
        self.tolerance, self.exact = settings.tolerance, settings.exact
        self.max_steps, self.accept_near_optimal = settings.max_steps, settings.accept_near_optimal
        self.engine = make_engine(problem, settings.engine)
        self.engine.accuracy = ROUNDED * self.tolerance
        self.least_eta = 64 * problem.rounding
        self.value = math.inf
        self.mean = math.nan  # cost to the nearest point, roughly
        self.first: LaguerreCells | None = None
        self.best: LaguerreCells | None = None
        self.plan: Coupling | None = None

    def needs_float64(self, start: Tensor | None) -> bool:
        """Whether float32 rounds by more than half the gap allowed, judged by a first look at the value."""
        if start is not None:
            self.first = self.evaluate(start)
            cells = self.first
        else:
            cells = coarse_sample(self.engine).hard(self._zero())
        self.mean = cells.mean
        return self.below_rounding(cells)

    def below_rounding(self, cells: LaguerreCells) -> bool:
        """Whether float32 hides more than half the gap allowed: of the semi-dual, or of the costs that guide Newton."""
        hidden = max(cells.error, 4 * self.problem.rounding)
        return self.problem.x.dtype != torch.float64 and hidden > 0.5 * self.tolerance * cells.mean

    def run(self, start: Tensor | None) -> Transport:
        """Ascend and balance until the bounds meet, which they may have done already."""
        if self.gap > self.tolerance:
            cells, curvature = self.ascend(start, LEFT)
        if self.gap <= self.tolerance:
            return self._result(Status.CONVERGED)
        limited = self.max_steps < FEWEST_STEPS or self.steps >= self.max_steps
        if limited and _marginal_error(cells, self.problem) > max(ASTRAY, self.grain):
            # Moving so much along cheapest paths takes far longer than the passes that were not allowed.
            order = torch.argsort(cells.margin)
            shape = (len(order), len(self.problem.x))
            self.keep_plan(Coupling(order, cells.cell[order], self.problem.a[order], shape), math.inf)
            return self._result(Status.MAX_STEPS)
        rounds = FEW_ROUNDS if self.accept_near_optimal else ROUNDS
        for round_ in range(rounds):
            gap = self.gap
            if round_:  # who may move is better known from margins that are not bounds any more
                cells = self.evaluate(cells.potential)
            v = self._balance(cells, widen=4**round_)
            if self.gap <= self.tolerance:
                return self._result(Status.CONVERGED)
            if self.steps >= self.max_steps:
                return self._result(Status.MAX_STEPS)
            cells = self.evaluate(v, cells)
            if self.gap <= self.tolerance:
                return self._result(Status.CONVERGED)
            nearly = self.accept_near_optimal and self.gap <= ROUGH * self.tolerance
            if nearly or round_ + 1 == rounds or (round_ > 1 and self.gap > 0.9 * gap):
                break
            if curvature is not None and cells.dual < self.lower:  # moving samples has spoilt the potential
                cells = self._correct(cells, curvature)
                if cells.dual < self.lower:
                    cells = self._correct(self.highest, curvature)
        return self._result(Status.STALLED)

    def ascend(self, start: Tensor | None, left: float = REST) -> tuple[LaguerreCells, Curvature | LazyHessian | None]:
        """Approach and correct: the cells of a potential near the best, and the curvature there if it can be needed.

        No curvature is made for a potential that is certainly within `left` tolerances of the best, by that very model.
        """
        cells, curvature = self._approach(start)
        if curvature is not None:
            cells = self._correct(cells, curvature, left)
            if start is not None and _marginal_error(cells, self.problem) > max(ASTRAY, self.grain):
                return self.ascend(None, left)
        return cells, curvature

    @property
    def grain(self) -> float:
        """Mass of one sample a point: cells hold whole samples, so that as much in wrong ones says nothing."""
        return len(self.problem.x) / self.problem.count

    @property
    def highest(self) -> LaguerreCells:
        """The pass whose semi-dual is the highest so far."""
        assert self.best is not None, "every run looks"
        return self.best

    @property
    def lower(self) -> float:
        """The highest semi-dual so far; no distance is below 0."""
        return 0.0 if self.best is None else max(self.best.dual, 0.0)

    @property
    def gap(self) -> float:
        """Relative distance of the bounds; 0 when they agree to RESOLUTION, to which they are known."""
        if self.plan is None:
            return math.inf
        difference = self.value - self.lower
        return difference / self.value if difference > RESOLUTION * self.value else 0.0

    @property
    def steps(self) -> int:
        """Passes over all samples so far, rounded up; one over some samples or points counts by its share."""
        return math.ceil(self.engine.meter.spent - 1e-9)

    @property
    def transform(self) -> Tensor:
        """Of each sample the least c - v at the best potential, (m,)."""
        return self.highest.cost - self.highest.potential[self.highest.cell]

    def evaluate(self, v: Tensor, near: LaguerreCells | None = None) -> LaguerreCells:
        """One pass over all samples, or those that may have left the cells of a potential nearby; keeps the best."""
        cells = self.engine.hard(v, near)
        if self.best is None or cells.dual > self.best.dual:
            self.best = cells
        return cells

    def _zero(self) -> Tensor:
        """The potential to begin with, (n,)."""
        return torch.zeros_like(self.problem.b)

    def _approach(self, start: Tensor | None) -> tuple[LaguerreCells, Curvature | LazyHessian | None]:
        """The cells of a potential near the optimum of all samples, and the curvature there."""
        problem, engine = self.problem, self.engine
        if len(problem.x) == 1:
            return self.evaluate(self._zero()), None
        if problem.x.shape[1] == 1 and problem.count <= SORTED:  # sorting solves it, whatever the power
            v, plan = sorted_transport(engine.subsample(SORTED).problem)  # all of them
            plan = engine.own(plan)
            self.keep_plan(plan, plan_cost(engine, plan))
            return self.evaluate(v), None
        first = self.first
        if self.mean == 0:
            first = first or self.evaluate(self._zero())
            self.mean = first.mean
            if self.mean == 0:  # every sample lies on a point: all that is left is to share them
                return first, None
        mean = self.mean
        # A finer smoothing than the gap asked for gains nothing.
        least = max(self.least_eta, 0.1 * self.tolerance * mean)
        engine.meter.limit = self.max_steps / 2
        if start is not None and first is not None and _marginal_error(first, problem) <= LOST:
            return self._approach_from(first, least)
        if self.max_steps < FEWEST_STEPS:
            return first or self.evaluate(self._zero()), None
        v, soft, eta = coarse_potential(engine, least)
        if coarse_sample(engine) is not engine and not engine.exhausted():
            sample = self._fine_sample()
            lists = sample.candidates(v, eta)
            if lists is sample:  # lists for a sharper softmin than v is right for would hold too little
                eta = max(least, next_eta(eta, soft.softness, target_softness(sample)))
            v, soft, eta = eps_scaling(lists, v, eta, least)
        return self.evaluate(v), curvature_of(soft, eta, problem.b)

    def _fine_sample(self) -> Engine:
        return self.engine.subsample(min(FINE * len(self.problem.x), MOST))

    def _approach_from(self, first: LaguerreCells, least: float) -> tuple[LaguerreCells, Curvature | LazyHessian]:
        """The same from the cells of a potential of nearby points."""
        b, m, start = self.problem.b, self.problem.count, first.potential
        sample = self._fine_sample()
        far = _marginal_error(first, self.problem) > max(NEAR, min(ASTRAY, SURPLUS * self.grain))
        # Between its two nearest points a sample is undecided if its margin is below eta.
        undecided = max(1, math.ceil((BLURRED if far else target_softness(sample)) * m))
        eta = max(float(self.engine.kth_smallest(first.margin, undecided)), least)
        if not far:

            def settled() -> Curvature:
                return tune_eta(sample.candidates(start, eta), start, eta, least)

            return first, LazyHessian(settled, b * (undecided / m), eta)
        v, soft, eta = eps_scaling(sample.candidates(start, eta), start, eta, least)
        return self.evaluate(v), curvature_of(soft, eta, b)

    def _correct(self, cells: LaguerreCells, curvature: Curvature | LazyHessian, left: float = REST) -> LaguerreCells:
        """Newton steps with the gradient of all samples, while they pay: a pass costs less than moving many samples."""
        trust, learning = self.engine.trust, LimitedMemory(curvature)
        for _ in range(CORRECTIONS):
            g, lacking = self.problem.b - cells.mass, self.tolerance * cells.dual
            few = self._few(cells)
            if few and learning.predicted_increase(g) <= left * lacking:
                break
            direction = learning.solve(g, trust)
            expected_rise = float(g @ direction) / 2
            good = few and expected_rise <= REST * lacking
            if good or self.steps >= self.max_steps or trust < (CLOSE if few else CLOSEST):
                break
            trial = self.evaluate(cells.potential + direction, cells)
            rise = trial.dual - cells.dual
            learning.learn(direction, trial.mass - cells.mass)
            if rise > 0:
                cells = trial
                if rise <= REST * lacking and self._few(cells):  # a few points that it has wrong may promise for ever
                    break
            if rise < POOR * expected_rise:
                trust = min(trust, float(direction.abs().max()) / learning.eta) / CAUTION
        return cells

    def _few(self, cells: LaguerreCells) -> bool:
        """Whether so few samples are in wrong cells that moving them is worth no more passes."""
        n, m = len(self.problem.x), self.problem.count
        return _marginal_error(cells, self.problem) * m <= min(m * n / MOVE_COST, SURPLUS * n)

    def _balance(self, cells: LaguerreCells, widen: int) -> Tensor:
        """A feasible plan from cells; keeps the best upper bound; returns the potential that goes with it."""
        problem, v = self.problem, cells.potential
        n = len(problem.x)
        excess = cells.mass - problem.b
        limit = max(n, BALANCED_ELEMENTS // (n if n <= MOST_DENSE else ROW_ELEMENTS))
        boundary = boundary_samples(self.engine, cells, excess, widen, limit)
        arguments = tuple(t.cpu().numpy() for t in (boundary.cell, boundary.a, excess, v))
        parts = (*BY_WAY_OF, 0.0) if self.exact else (BUDGET * self.tolerance / widen,)
        # At a potential far from the best, samples may lie in cells that cost far more than the plan does.
        mean = min(cells.mean, self.value)
        suboptimality = [part * mean for part in parts]
        hidden = unresolved(problem, mean, ROUNDED * self.tolerance, torch.float64)
        arc_tolerance = 16 * problem.rounding
        near = widen == 1 and _marginal_error(cells, problem) <= max(NEAR, self.grain)
        large = widen == 1 and len(boundary.y) * n > DENSE_ELEMENTS
        if n > MOST_DENSE or ((near or large) and n > DENSE_BALANCE):
            few = Problem(x=problem.x, b=problem.b, y=boundary.y, a=boundary.a, equal=problem.equal, cost=problem.cost)
            part = (self.engine.finer(few) if hidden else None) or self.engine.apart(few)  # not counted as a pass
            lists = candidate_arcs(part, boundary.cell, boundary.margin, v, -excess, widen)
            balanced = balance_lists(lists, *arguments, arc_tolerance=arc_tolerance, suboptimality=suboptimality)
        else:
            exact = hidden or (self.exact and problem.cost.amplifies_rounding)
            block = problem.cost.pairwise_exact if exact else problem.cost.pairwise
            cost = block(boundary.y.double(), problem.x.double()).cpu().numpy()
            balanced = balance(cost, *arguments, arc_tolerance=arc_tolerance, suboptimality=suboptimality)
        rows, cols, mass = (
            torch.from_numpy(array).to(v.device) for array in (balanced.rows, balanced.cols, balanced.mass)
        )
        moved = self.engine.own(Coupling(boundary.index[rows], cols, mass, (problem.count, n)))
        fixed = torch.ones(len(problem.y), dtype=torch.bool, device=v.device)
        fixed[moved.rows] = False
        still = fixed.nonzero()[:, 0]
        value = float(self.engine.total(problem.a[still] @ cells.cost[still])[0])
        value += float(mass @ problem.cost.paired(boundary.y[rows], problem.x[cols]))
        plan = Coupling(
            torch.cat((still, moved.rows)),
            torch.cat((cells.cell[still], moved.cols)),
            torch.cat((problem.a[still], moved.mass)),
            moved.shape,
        )
        self.keep_plan(plan, value)
        return torch.from_numpy(balanced.potential).to(v)

    def keep_plan(self, plan: Coupling, value: float) -> None:
        """Keep the plan if it is better; what no path could move is first spread over whoever lacks it."""
        received = plan.column_sums()
        excess = self.engine.total(received)[0] - self.problem.b
        if float(excess.abs().max()) > 10 * MASS_TOLERANCE / len(excess):
            excess = self.engine.own_excess(received, excess)
            widest = int((self.problem.x.amax(0) - self.problem.x.amin(0)).argmax())
            of_samples, of_points = (t[:, widest].double().cpu().numpy() for t in (self.problem.y, self.problem.x))
            rows, cols, mass, left = (t.cpu().numpy() for t in (plan.rows, plan.cols, plan.mass, excess))
            arrays = spread(rows, cols, mass, left, (of_samples, of_points))
            moved = [torch.from_numpy(array).to(excess.device) for array in arrays]
            plan = Coupling(moved[0], moved[1], moved[2], plan.shape)
            value = plan_cost(self.engine, plan)
        if value < self.value:
            self.value, self.plan = value, plan
            self.engine.value = value

    def _result(self, otherwise: Status) -> Transport:
        """What was found, with this status if the bounds have not met."""
        assert self.plan is not None, "every run balances"
        if not self.accept_near_optimal and self.highest.error > BLUNT * min(self.highest.mean, self.value):
            self.best = self.engine.sharpened(self.highest)
        best = self.highest
        shift = self.problem.b @ best.potential
        return Transport(
            value=self.value,
            lower=min(self.lower, self.value),
            gap=self.gap,
            potential=best.potential - shift,
            transform=self.transform + shift,
            plan=self.plan,
            cell_mass=best.mass,
            marginal_error=_marginal_error(best, self.problem),
            steps=self.steps,
            status=Status.CONVERGED if self.gap <= self.tolerance else otherwise,
        )


def _marginal_error(cells: LaguerreCells, problem: Problem) -> float:
    return float((cells.mass - problem.b).abs().sum()) / 2


def plan_cost(engine: Engine, plan: Coupling) -> float:
    """Cost of a plan, sum pi c, a block of entries at a time."""
    problem = engine.problem
    total = problem.a.new_zeros(())
    for rows, cols, mass in plan.blocks():
        total += mass @ problem.cost.paired(problem.y[rows], problem.x[cols])
    return float(engine.total(total)[0])
