"""The solver: from points and samples to an optimal plan by eps_scaling on subsamples, correct on all, and balance.

    v (n,) potential      g (n,) gradient b - mass of the cells      D(v) semi-dual

1. Coarse: Newton with shrinking smoothing carries v most of the way, on few points, then on all with 5 n, 20 n and
   100 n samples; a potential of nearby points is blurred and annealed, or taken as it is.
2. Fine: a few passes over all samples; the gradient is theirs, the curvature that of the last subsample, corrected
   by each step. After the first pass only samples that may have left their cell are evaluated.
3. Balance: excess mass of the cells is moved explicitly, which gives a feasible plan.

With few samples in total or per point, the flow alone solves the problem, on the costs of all pairs. With some more it
takes over where a start is far off, or a few Newton steps do not do, as between clusters.

Each pass over all samples yields a lower bound D(v), each plan an upper bound, and the loop ends when they meet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from . import dual
from .costs import Cost, EuclideanPower
from .direct import balance_all, cells_and_excess
from .dual import Curvature, LazyHessian
from .flow import (
    MASS_TOLERANCE,
    CandidateArcs,
    Floats,
    balance,
    boundary_samples,
    candidate_arcs,
    north_west_corner,
    priced_samples,
)
from .passes import RESOLUTION, Engine, EngineChoice, LaguerreCells, make_engine, unresolved
from .problem import Problem
from .reductions import FEWEST
from .result import Coupling, Status, Transport

# Direct solves: no approach, all samples are balanced.
FEW = 2048  # samples up to which a solve is direct: approaches take some milliseconds however small a problem is
FEW_PER_POINT = 30  # the same for each point: Newton is of little use where cells hold so few
WARM_PER_POINT = 60  # the same with a potential to start from
SMALL_PER_POINT = 300  # the same with a potential and no more than SMALL pairs of a sample and a point
SMALL = 1 << 20
FEWEST_PAIRS = 1 << 18  # of a sample and a point, up to which any solve with a potential is direct
FEWEST_NUMBERS = 1 << 20  # coordinates of samples up to which it is: with 784 columns it took four times as long
# Pairs of a sample and a point up to which a flow on all is made where few corrections do not do: between clusters it
# takes a third of the time of Newton's steps; beyond, no less (measured).
FEW_PAIRS = 3 << 20
FEW_NUMBERS = 1 << 22  # coordinates of samples up to which it is made: several ranks send each other all of them for it
# The same from a start, and for up to so many samples a point: clusters take half of the time, smooth clouds as long.
WARM_PAIRS, FLOW_PER_POINT = 12 << 20, 1000
MOST_PAIRS = 1 << 25  # of any direct solve: 256 MiB of costs
DIFFERENCES = 1 << 17  # coordinates times points up to which costs come from differences: 0.1 ms, and less in all
COMPILED_DIFFERENCES = 1 << 24  # the same where these are compiled: 1.5 ms
LINE_PAIRS = 1 << 15  # pairs of a sample and a point from which a potential is looked for along a line
LINE_SHARE = 0.75  # of the variance along that line, above which it halves the time of the flow at least (measured)
# Approach.
FINE = 100  # samples a point in the last subsample: the curvature of fewer is too noisy for the steps on all samples
MOST = 1 << 18  # most samples in it; beyond, their lists fill more than some hundred MiB
SORTED = 1 << 26  # samples on the line beyond which they are not sorted: 1 GiB with their weights
BLUNT_ETA = 1.5  # least smoothings, within which a potential is as sharp as it needs to be
FEWEST_STEPS = 10  # passes below which no approach is begun, and much excess is not moved along paths
# Relative rise of the dual below which the masses on that subsample are not made right: all samples correct them, too.
WORTH = 1e-3
# Mass errors: the part of all mass that lies in wrong cells.
NEAR_ERROR = 0.05  # of a warm start, below which it is corrected on all samples at once
BALANCED_ERROR = 0.12  # at zero, up to which a flow from there takes no longer than an approach; a half to a quarter
LEFT_ERROR = 0.01  # after all corrections, above which all samples are balanced, if their costs can be held
LOST_ERROR = 0.3  # of a warm start, above which it is discarded
FAILED_ERROR = 0.1  # of a warm start after all corrections, above which it is discarded; above it, none is near
BLURRED = 0.4  # softness at which a warm start that is not near begins
# Corrections on all samples.
CORRECTIONS = 12  # most Newton steps on all samples; what is left over is moved by the flow
FEW_CORRECTIONS = 3  # the same up to FEW_PAIRS
# Most of them that have to be damped, where the flow may offer all samples, and these are so few a point. With heavy
# tails and 200 to 700 samples a point it would take three times as long (measured).
DAMPED, DAMPED_PER_POINT = 1, 50
MOVE_COST = 1e4  # of moving one sample by the flow, in elements of a pass: 1e3 and 1e4 do as well (measured)
MOVE_COST_PAIRS = 0.02  # the same for each pair of points, where they are many: 0.5 ms with 10,000 (measured)
MOVED_PER_POINT = 4  # samples a point above which another correction is tried before the flow
GOOD_RISE = 0.1  # part of the predicted rise below which the step was too long for its curvature
TRUST_CUT = 8.0  # what the trust radius is divided by then
TRUST_FEW = 2.0  # trust in etas below which no step is tried, if few samples are in wrong cells
TRUST_MANY = 0.1  # the same if many are
REST = 0.1  # tolerances by which the dual may stay below its predicted maximum, where the curvature is at hand
# The same where a curvature would have to be made first: the flow makes up for it. Up to FEW_PAIRS no limit: moving the
# few samples that are in wrong cells takes less than the curvature (builds 0.65 of the time, measured).
LEFT = 1.0
# Parts of the samples on which a potential is found first where they are in clusters: from each to four times as many.
FEWER_SAMPLES = (64, 16, 4)
FEW_CROSSING = 20  # samples a point, at least, of such a part
MANY_PAIRS = 1 << 22  # of a sample and a point, from which that pays: a flow on all of them takes seconds
PRICED_FROM_FEW = 4  # times as many priced samples as otherwise, from the first round on
# Flow.
ROUNDS = 8  # most rounds, each with four times as many boundary samples as the one before
# A second round takes 3 to 10 s with 1,000 points and 331,000 samples, a first one 1 s (measured).
FEW_ROUNDS = 2  # most rounds where a near-optimal plan is accepted
ROUGH = 3.0  # tolerances within which such a plan is
# Lists of candidate arcs are 1.5 to 5 times faster than all arcs beyond DENSE_BALANCE points (measured).
DENSE_BALANCE = 256
LISTED_PAIRS = 1 << 20  # of a sample and a point, below which a direct solve on all of them takes no longer (measured)
# Points up to which all arcs are taken nevertheless, where much has to move far or lists did not do, if there is room:
# with 2,000 points and 100,000 samples, all arcs of a third of the samples left mass without a path in every round, and
# wide lists of all samples proved the best plan in 2 s (measured).
MOST_DENSE = 4096
# Most that lists are widened by: with 2,000 points in clusters they hold 140 points a sample then (measured).
WIDEST = 16
ROW_ELEMENTS = 256  # float64 numbers that a boundary sample with its list takes, roughly
BALANCED_ELEMENTS = 1 << 26  # of the cost block of all boundary samples, float64: 512 MiB
# The same in the first round, held twice: 256 MiB. Beyond, lists take a tenth of that, and lead to better plans.
DENSE_ELEMENTS = 1 << 24
# Rounding.
ROUNDED = 0.05  # tolerances that rounding may take from a lower bound, and from the costs that mass is moved by
BLUNT = 1e-10  # part of the mean cost that rounding may take from the bound that is returned, where it costs little


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
            cells = dual.coarse_sample(self.engine).hard(self._zero())
        self.mean = cells.mean
        return self.below_rounding(cells)

    def below_rounding(self, cells: LaguerreCells) -> bool:
        """Whether float32 hides more than half the gap allowed: of the semi-dual, or of the costs that guide Newton."""
        if self.problem.x.dtype == torch.float64:
            return False
        return max(cells.error, 4 * self.problem.rounding) > 0.5 * self.tolerance * cells.mean

    def is_small(self, start: Tensor | None) -> bool:
        """Whether the flow can do without an approach, and all samples are here."""
        n, m = len(self.problem.x), self.problem.count
        few = start is not None and n * m <= FEWEST_PAIRS and self.problem.y.numel() <= FEWEST_NUMBERS
        return n > 1 and (few or is_direct(n, m, start is not None)) and self._may_hold_all_pairs() and not self.sorts

    @property
    def sorts(self) -> bool:
        """Whether sorting solves the problem."""
        problem = self.problem
        return problem.x.shape[1] == 1 and problem.cost.sorts_on_line and problem.count <= SORTED

    def _may_hold_all_pairs(self) -> bool:
        """Whether there is room for the costs of all pairs of a sample and a point, and work is not limited."""
        problem = self.problem
        room = len(problem.y) == problem.count and problem.count * len(problem.x) <= MOST_PAIRS
        return room and self.max_steps >= FEWEST_STEPS

    def _prefers_flow(self) -> bool:
        """Whether a flow on all pairs takes no longer than Newton where that is of little use, between clusters."""
        (n, d), m = self.problem.x.shape, self.problem.count
        starts = self.first is not None and n * m <= WARM_PAIRS and m <= FLOW_PER_POINT * n
        return (starts or is_for_one_rank((n, d, m))) and self._may_hold_all_pairs() and not self.sorts

    def _solve_with_all_pairs(self) -> bool:
        """Balance all samples from the best potential so far, where some of them did not do.

        Between groups that exchange no mass a potential may have jumps that cost it the digits for an exact gap: from
        zero it has none.
        """
        if not self._may_hold_all_pairs():
            return False
        return self._balance_all(self.highest.potential) or (self.exact and self._balance_all())

    def solve_directly(self, start: Tensor | None) -> bool:
        """Solve without an approach, from the cells of a potential or of one found at once; whether the bounds meet."""
        if start is not None:
            return self._solve_along_lists(start) or self._balance_all(start)
        guess = self._line_potential()
        return self._balance_all(guess) or (guess is not None and self._balance_all())

    def _line_potential(self) -> Tensor | None:
        """The potential (n,) that sorting finds along the direction in which samples vary most; None if they do not.

        About a line, all cells are neighbours of two others, and from zero the flow sends mass along chains of them: it
        takes up to a hundred times as long.
        """
        problem = self.problem
        if not problem.cost.sorts_on_line or len(problem.x) * problem.count < LINE_PAIRS:
            return None
        direction, share = dual.widest_direction(problem)
        if share < LINE_SHARE:
            return None
        x, y = (rows.double() @ direction for rows in (problem.x, problem.y))
        v, _ = dual.sorted_transport(replace(problem, x=x[:, None], y=y[:, None]))
        return v - problem.b @ v

    def _balance_all(self, guess: Tensor | None = None) -> bool:
        """Balance all samples on the costs of all pairs, from the cells of a potential; whether the bounds meet.

        From those of zero if less mass is in wrong cells there: where points moved far, one cell may hold nearly all.
        However high its semi-dual, such a start takes 2 to 40 times as long (measured: clusters, heavy tails).
        """
        problem, device = self.problem, self.problem.b.device
        a, b = problem.a.cpu().numpy(), problem.b.cpu().numpy()
        v = np.zeros(len(b))
        is_float64 = problem.x.dtype == torch.float64
        by_differences = is_float64 and problem.y.numel() * len(b) <= DIFFERENCES
        exact = problem.cost.pairwise_exact(problem.y, problem.x) if by_differences else None
        costs = (self.engine.costs() if exact is None else exact).cpu().numpy()
        cell, excess = cells_and_excess(costs, v, a, b)
        if guess is not None:
            other = guess.cpu().numpy()
            other_cell, other_excess = cells_and_excess(costs, other, a, b)
            if np.abs(other_excess).sum() <= np.abs(excess).sum():
                v, cell, excess = other, other_cell, other_excess
        if by_differences:
            self.engine.meter.spent += 1
            found = balance_all(costs[None], a[None], b[None], v[None], problem.cost.roundoffs(problem.x.shape[1]))
            self.keep_plan(next(found.plans(device)), float(found.found.value[0]))
            self._keep(found.only_cells(device))
            return self.gap <= self.tolerance
        if is_float64:
            mean = float(a @ costs[np.arange(len(a)), cell])
            if unresolved(problem, min(mean, self.value), ROUNDED * self.tolerance):
                costs = problem.cost.pairwise_exact(problem.y, problem.x).cpu().numpy()
                cell, excess = cells_and_excess(costs, v, a, b)
        balanced = balance(costs, cell, a, excess, v)
        rows, cols, mass = balanced.rows, balanced.cols, balanced.mass
        entries = [torch.from_numpy(array).to(device) for array in (rows, cols, mass)]
        plan = Coupling(entries[0], entries[1], entries[2], costs.shape)
        self.keep_plan(plan, plan_cost(self.engine, plan))
        self.evaluate(torch.from_numpy(balanced.potential - b @ balanced.potential).to(device))
        return self.gap <= self.tolerance

    def _solve_along_lists(self, start: Tensor) -> bool:
        """Balance along lists of candidates, if a potential is near; whether the bounds meet, as they mostly do."""
        n = len(self.problem.x)
        if n <= DENSE_BALANCE or n * self.problem.count < LISTED_PAIRS:
            return False
        self.engine.hold()
        cells = self.evaluate(start)
        if _marginal_error(cells, self.problem) > max(FAILED_ERROR, self.grain):
            return False
        self.evaluate(self._balance(cells, 1, 0), cells)
        return self.gap <= self.tolerance

    def run(self, start: Tensor | None) -> Transport:
        """Ascend and balance until the bounds meet, which they may have done already."""
        prefers_flow = self._prefers_flow()
        if self.gap > self.tolerance and prefers_flow and self._flow_error < self._error_of(start) <= LOST_ERROR:
            self._balance_all(start)
        if self.gap > self.tolerance:
            left = math.inf if prefers_flow else REST if start is None else LEFT
            cells, curvature = self.ascend(start, left, briefly=prefers_flow)
        if self.gap <= self.tolerance:
            return self._result(Status.CONVERGED)
        error = _marginal_error(cells, self.problem)
        limited = self.max_steps < FEWEST_STEPS or self.steps >= self.max_steps
        if limited and error > max(FAILED_ERROR, self.grain):
            # Moving so much along cheapest paths takes far longer than the passes that were not allowed.
            order = torch.argsort(cells.margin)
            shape = (len(order), len(self.problem.x))
            self.keep_plan(Coupling(order, cells.cell[order], self.problem.a[order], shape), math.inf)
            return self._result(Status.MAX_STEPS)
        if (
            (error > LEFT_ERROR or (prefers_flow and not self._few(cells)))
            and self._may_hold_all_pairs()
            and (self._balance_from_few() or self.solve_directly(self.highest.potential))
        ):
            return self._result(Status.CONVERGED)
        return self._result(self._balance_in_rounds(cells, curvature))

    def _balance_from_few(self) -> bool:
        """Carry a potential from few samples to all of them, a flow each; whether the bounds meet.

        Where much is left in wrong cells, clusters are so far apart that no sample joins their cells, and Newton sees
        no curvature between them. What it costs to cross is nearly the same on few samples as on all.
        """
        n, m = len(self.problem.x), self.problem.count
        sizes = [m // part for part in FEWER_SAMPLES if m // part >= FEW_CROSSING * n]
        if n > DENSE_BALANCE or m * n < MANY_PAIRS or not sizes:
            return False
        v = self.highest.potential
        for size in sizes:
            few = Solver(self.engine.subsample(size).problem, self.settings)
            v = few._balance(few.evaluate(v), 1, PRICED_FROM_FEW)
            v = v - self.problem.b @ v
        cells = self.evaluate(v)
        for widen in (1, PRICED_FROM_FEW, PRICED_FROM_FEW**2):
            v = self._balance(cells, widen, max(widen, PRICED_FROM_FEW))
            cells = self.evaluate(v, cells)
            if self.gap <= self.tolerance:
                return True
        return False

    def _balance_in_rounds(self, cells: LaguerreCells, curvature: Curvature | LazyHessian | None) -> Status:
        """Balance more samples in each round, until the bounds meet; why no further one was made if they do not."""
        rounds = FEW_ROUNDS if self.accept_near_optimal else ROUNDS
        for round_ in range(rounds):
            gap = self.gap
            if round_:  # exact margins show better than bounds of them which samples may move
                cells = self.evaluate(cells.potential)
            v = self._balance(cells, min(4**round_, WIDEST), 4**round_ if round_ else 0)
            if self.gap <= self.tolerance or self.steps >= self.max_steps:
                return Status.MAX_STEPS
            cells = self.evaluate(v, cells)
            nearly = self.accept_near_optimal and self.gap <= ROUGH * self.tolerance
            if self.gap <= self.tolerance or nearly:
                break
            seldom_helps = round_ or len(self.problem.x) > DENSE_BALANCE or self._prefers_flow()
            if seldom_helps and self._solve_with_all_pairs():
                break
            if round_ + 1 == rounds or (round_ > 1 and self.gap > 0.9 * gap):
                break
            if cells.dual < self.lower and (len(self.problem.x) <= DENSE_BALANCE or self._lists_all):
                cells = self.highest  # the wrong samples were offered, and have spoilt the potential
            elif curvature is not None and cells.dual < self.lower:
                cells = self._correct(cells, curvature)
                if cells.dual < self.lower:
                    cells = self._correct(self.highest, curvature)
        return Status.STALLED

    def ascend(
        self, start: Tensor | None, left: float = REST, *, briefly: bool = False
    ) -> tuple[LaguerreCells, Curvature | LazyHessian | None]:
        """Approach and correct: the cells of a potential near the best, and the curvature there if it can be needed.

        No curvature is made for a potential that is certainly within `left` tolerances of the best, by that very model.
        `briefly` gives up after a few corrections, where a flow on all pairs does the rest.
        """
        cells, curvature = self._approach(start)
        if curvature is not None:
            cells = self._correct(cells, curvature, left, FEW_CORRECTIONS if briefly else CORRECTIONS)
            if (
                start is not None
                and self._start_error <= LOST_ERROR  # beyond, it was not begun from
                and not briefly
                and _marginal_error(cells, self.problem) > max(FAILED_ERROR, self.grain)
            ):
                return self.ascend(None, min(left, REST))
        return cells, curvature

    @property
    def grain(self) -> float:
        """Mass of one sample a point: cells hold whole samples, so that as much in wrong ones says nothing."""
        return len(self.problem.x) / self.problem.count

    @property
    def _start_error(self) -> float:
        """Mass in wrong cells of the potential to start from; infinite without one."""
        return math.inf if self.first is None else _marginal_error(self.first, self.problem)

    def _error_of(self, start: Tensor | None) -> float:
        """Mass in wrong cells of a potential to start from, or of zero where that is lost; infinite without one."""
        if start is None or self._start_error <= LOST_ERROR:
            return self._start_error
        return _marginal_error(self.evaluate(self._zero()), self.problem)

    @property
    def _flow_error(self) -> float:
        """The same above which a flow on all pairs is made from a start at once."""
        return self._near_error if len(self.problem.x) * self.problem.count <= FEW_PAIRS else FAILED_ERROR

    @property
    def _near_error(self) -> float:
        """The same up to which a start is corrected on all samples at once."""
        return max(NEAR_ERROR, min(FAILED_ERROR, MOVED_PER_POINT * self.grain))

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
        return self.highest.cost - self.highest.potential.index_select(0, self.highest.cell)

    def evaluate(self, v: Tensor, near: LaguerreCells | None = None) -> LaguerreCells:
        """One pass over all samples, or those that may have left the cells of a potential nearby; keeps the best."""
        return self._keep(self.engine.hard(v, near))

    def _keep(self, cells: LaguerreCells) -> LaguerreCells:
        """Keep a pass if it is the best."""
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
        if self.sorts:
            v, plan = dual.sorted_transport(engine.subsample(SORTED).problem)  # all of them
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
        least = max(64 * problem.rounding, 0.1 * self.tolerance * mean)
        engine.meter.limit = self.max_steps / 2
        if start is not None and first is not None and self._start_error <= LOST_ERROR:
            return self._approach_from(first, least)
        if self.max_steps < FEWEST_STEPS:
            return first or self.evaluate(self._zero()), None
        v, soft, eta = dual.coarse_potential(engine, least)
        # With heavy tails the smoothing allowed leaves most samples undecided: more of them tell no more (measured).
        blunt = eta <= BLUNT_ETA * least and soft.softness > BLURRED
        lost = self._lists_all and (blunt or dual.has_failed(soft, problem.b))  # the flow takes it from here
        if dual.coarse_sample(engine) is not engine and not engine.exhausted() and not lost:
            sample = self._fine_sample()
            lists = sample.candidates(v, eta)
            if lists is sample:  # lists for a sharper softmin than v is right for would hold too little
                eta = max(least, dual.next_eta(eta, soft.softness, dual.target_softness(sample)))
            worth = max(least, min(self.tolerance, WORTH) * mean)
            v, soft, eta = dual.eps_scaling(lists, v, eta, least, least_increase=worth)
        return self.evaluate(v), dual.LazyHessian(
            lambda: dual.curvature_of(soft, eta, problem.b), problem.b * soft.softness, eta
        )

    def _fine_sample(self) -> Engine:
        return self.engine.subsample(min(FINE * len(self.problem.x), MOST))

    def _approach_from(self, first: LaguerreCells, least: float) -> tuple[LaguerreCells, Curvature | LazyHessian]:
        """The same from the cells of a potential of nearby points."""
        b, m, start = self.problem.b, self.problem.count, first.potential
        sample = self._fine_sample()
        far = self._start_error > self._near_error
        # Between its two nearest points a sample is undecided if its margin is below eta.
        undecided = max(1, math.ceil((BLURRED if far else dual.target_softness(sample)) * m))
        eta = max(float(self.engine.kth_smallest(first.margin, undecided)), least)
        if not far:

            def settled() -> Curvature:
                return dual.tune_eta(sample.candidates(start, eta), start, eta, least)

            return first, LazyHessian(settled, b * (undecided / m), eta)
        v, soft, eta = dual.eps_scaling(sample.candidates(start, eta), start, eta, least)
        return self.evaluate(v), dual.curvature_of(soft, eta, b)

    def _correct(
        self, cells: LaguerreCells, curvature: Curvature | LazyHessian, left: float = REST, most: int = CORRECTIONS
    ) -> LaguerreCells:
        """Newton steps with the gradient of all samples, while they pay: a pass costs less than moving many samples."""
        trust, correction, damped = self.engine.trust, dual.LimitedMemory(curvature), 0
        few_a_point = self.problem.count <= DAMPED_PER_POINT * len(self.problem.x)
        most_damped = DAMPED if self._lists_all and few_a_point else most
        for _ in range(most):
            g, lacking = self.problem.b - cells.mass, self.tolerance * cells.dual
            few = self._few(cells)
            if few and correction.predicted_increase(g) <= left * lacking:
                break
            direction = correction.solve(g, trust)
            damped += correction.is_damped
            if damped > most_damped:  # far from the best a dozen steps gain less than one flow
                break
            expected_rise = float(g @ direction) / 2
            good = few and expected_rise <= REST * lacking
            if good or self.steps >= self.max_steps or trust < (TRUST_FEW if few else TRUST_MANY):
                break
            trial = self.evaluate(cells.potential + direction, cells)
            rise = trial.dual - cells.dual
            correction.learn(direction, trial.mass - cells.mass)
            if rise > 0:
                cells = trial
                if rise <= REST * lacking and self._few(cells):  # few wrong points may predict a rise without end
                    break
            if rise < GOOD_RISE * expected_rise:
                trust = min(trust, float(direction.abs().max()) / correction.eta) / TRUST_CUT
        return cells

    @property
    def _lists_all(self) -> bool:
        """Whether a flow along lists may offer all samples: far from the best it takes less than Newton's steps."""
        n, m = len(self.problem.x), self.problem.count
        return n > DENSE_BALANCE and m <= BALANCED_ELEMENTS // ROW_ELEMENTS

    def _few(self, cells: LaguerreCells) -> bool:
        """Whether so few samples are in wrong cells that moving them is worth no more passes."""
        n, m = len(self.problem.x), self.problem.count
        move_cost = max(MOVE_COST, MOVE_COST_PAIRS * n * n)
        return _marginal_error(cells, self.problem) * m <= min(m * n / move_cost, MOVED_PER_POINT * n)

    def _balance(self, cells: LaguerreCells, widen: int, priced: int) -> Tensor:
        """A feasible plan from cells; keeps the best upper bound; returns the potential that goes with it.

        Of the samples near the boundary of each cell `widen` times as many are offered as for a potential that is
        nearly right, and `priced` times as many of those that leave for each other cell at the least price.
        """
        problem, v = self.problem, cells.potential
        n = len(problem.x)
        excess = cells.mass - problem.b
        limit = max(n, BALANCED_ELEMENTS // min(n, ROW_ELEMENTS))  # more than that in a block are offered by lists
        boundary = boundary_samples(self.engine, cells, excess, widen, limit)
        if n <= DENSE_BALANCE and priced:
            boundary = priced_samples(self.engine, cells, boundary, priced)
        arguments = tuple(t.cpu().numpy() for t in (boundary.cell, boundary.a, excess, v))
        # At a potential far from the best, samples may lie in cells that cost far more than the plan does.
        mean = min(cells.mean, self.value)
        hidden = unresolved(problem, mean, ROUNDED * self.tolerance, torch.float64)
        near = widen == 1 and _marginal_error(cells, problem) <= max(FAILED_ERROR, self.grain)
        large = len(boundary.y) * n > (DENSE_ELEMENTS if widen == 1 else BALANCED_ELEMENTS)
        if n > MOST_DENSE or ((near or large) and n > DENSE_BALANCE):
            few = Problem(x=problem.x, b=problem.b, y=boundary.y, a=boundary.a, equal=problem.equal, cost=problem.cost)
            part = (self.engine.finer(few) if hidden else None) or self.engine.picked(
                few, boundary.number
            )  # not counted as a pass
            costs: CandidateArcs | Floats = candidate_arcs(part, boundary.cell, boundary.margin, v, -excess, widen)
        else:
            exact = hidden or (self.exact and problem.cost.amplifies_rounding)
            block = problem.cost.pairwise_exact if exact else problem.cost.pairwise
            costs = block(boundary.y.double(), problem.x.double()).cpu().numpy()
        balanced = balance(costs, *arguments)
        rows, cols, mass = (
            torch.from_numpy(array).to(v.device) for array in (balanced.rows, balanced.cols, balanced.mass)
        )
        moved = self.engine.own(Coupling(boundary.number[rows], cols, mass, (problem.count, n)))
        fixed = torch.ones(len(problem.y), dtype=torch.bool, device=v.device)
        fixed[moved.rows] = False
        still = fixed.nonzero()[:, 0]
        value = float(self.engine.total(problem.a[still] @ cells.cost[still])[0])
        value += float(mass @ problem.cost.at(boundary.y, problem.x, rows, cols))
        plan = Coupling(
            torch.cat((still, moved.rows)),
            torch.cat((cells.cell[still], moved.cols)),
            torch.cat((problem.a[still], moved.mass)),
            moved.shape,
        )
        self.keep_plan(plan, value)
        return torch.from_numpy(balanced.potential).to(v)

    def keep_plan(self, plan: Coupling, value: float) -> None:
        """Keep the plan if it is better; excess without a path is first moved by the north-west corner rule."""
        received = plan.column_sums()
        excess = self.engine.total(received)[0] - self.problem.b
        if float(excess.abs().max()) > 10 * MASS_TOLERANCE / len(excess):
            excess = self.engine.own_excess(received, excess)
            widest = int((self.problem.x.amax(0) - self.problem.x.amin(0)).argmax())
            of_samples, of_points = (t[:, widest].double().cpu().numpy() for t in (self.problem.y, self.problem.x))
            rows, cols, mass, left = (t.cpu().numpy() for t in (plan.rows, plan.cols, plan.mass, excess))
            arrays = north_west_corner(rows, cols, mass, left, (of_samples, of_points))
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
            weights=self.problem.b,
            marginal_error=_marginal_error(best, self.problem),
            steps=self.steps,
            status=Status.CONVERGED if self.gap <= self.tolerance else otherwise,
        )


def is_direct(n: int, m: int, warm: bool) -> bool:
    """Whether m samples are so few, or so few for each of n points, that they are solved directly."""
    most = max(FEW, FEW_PER_POINT * n)
    if warm:
        most = max(most, WARM_PER_POINT * n, min(SMALL_PER_POINT * n, SMALL // n))
    return m <= most and n * m <= MOST_PAIRS


def is_for_one_rank(shape: tuple[int, int, int]) -> bool:
    """Whether n points in d dimensions and m samples, (n, d, m), may take a flow on all pairs, as no rank can alone."""
    n, d, m = shape
    return n * m <= FEW_PAIRS and m * d <= FEW_NUMBERS


def one_call_error(
    shape: tuple[int, int, int], cost: Cost, settings: Settings, warm: bool, differ_on_cpu: bool
) -> float:
    """Mass in wrong cells at the start up to which a problem is solved in one call, on costs from differences; 0: none.

    The problem is of n points and m samples in d dimensions, (n, m, d), with a potential to start from if it is warm.
    Samples may be more if they `differ_on_cpu`, each from all others.
    """
    n, m, d = shape
    if settings.max_steps < FEWEST_STEPS or settings.engine != "auto":
        return 0.0
    if n == 1 or (d == 1 and cost.sorts_on_line):
        return 0.0
    if m < FEWEST and n * m * d <= DIFFERENCES and is_direct(n, m, warm):
        return 1.0
    if (
        differ_on_cpu
        and isinstance(cost, EuclideanPower)
        and n * m <= FEWEST_PAIRS
        and n * m * d <= COMPILED_DIFFERENCES
    ):
        return 1.0 if warm else BALANCED_ERROR
    return 0.0


def _marginal_error(cells: LaguerreCells, problem: Problem) -> float:
    return float((cells.mass - problem.b).abs().sum()) / 2


def plan_cost(engine: Engine, plan: Coupling) -> float:
    """Cost of a plan, sum pi c, a block of entries at a time."""
    problem = engine.problem
    total = problem.a.new_zeros(())
    for rows, cols, mass in plan.blocks(problem.x.shape[1]):
        total += mass @ problem.cost.at(problem.y, problem.x, rows, cols)
    return float(engine.total(total)[0])
