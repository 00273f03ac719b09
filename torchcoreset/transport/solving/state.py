"""The state of a solve: the engine, and the best bounds found so far with what attains them.

    v (n,) potential      D(v) semi-dual

Each pass over all samples yields a lower bound D(v), each plan an upper bound; a solve ends when they meet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import dual
from ..flow import MASS_TOLERANCE, north_west_corner
from ..passes import RESOLUTION, Engine, EngineChoice, LaguerreCells, make_engine
from ..problem import Problem
from ..result import Coupling, Status, Transport

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


class SolveState:
    """One solve: what is asked for, the engine, and the best bounds found so far."""

    def __init__(self, problem: Problem, settings: Settings, earlier: Tensor | None = None) -> None:
        self.problem, self.settings = problem, settings
        self.earlier = earlier  # (m,) the point to which an earlier plan of nearby points sent each sample
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
            cells = dual.coarse_sample(self.engine).hard(self.zero)
        self.mean = cells.mean
        return self.below_rounding(cells)

    def below_rounding(self, cells: LaguerreCells) -> bool:
        """Whether float32 hides more than half the gap allowed: of the semi-dual, or of the costs that guide Newton."""
        if self.problem.x.dtype == torch.float64:
            return False
        return max(cells.error, 4 * self.problem.rounding) > 0.5 * self.tolerance * cells.mean

    def evaluate(self, v: Tensor, near: LaguerreCells | None = None) -> LaguerreCells:
        """One pass over all samples, or those that may have left the cells of a potential nearby; keeps the best."""
        return self.keep(self.engine.hard(v, near))

    def keep(self, cells: LaguerreCells) -> LaguerreCells:
        """Keep a pass if it is the best."""
        if self.best is None or cells.dual > self.best.dual:
            self.best = cells
        return cells

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

    @property
    def zero(self) -> Tensor:
        """The potential to begin with, (n,)."""
        return torch.zeros_like(self.problem.b)

    def result(self, otherwise: Status) -> Transport:
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
            marginal_error=marginal_error(best, self.problem),
            steps=self.steps,
            status=Status.CONVERGED if self.gap <= self.tolerance else otherwise,
        )


def marginal_error(cells: LaguerreCells, problem: Problem) -> float:
    """Mass that would have to change cells for each to hold the weight of its point, as a part of all mass."""
    return float((cells.mass - problem.b).abs().sum()) / 2


def plan_cost(engine: Engine, plan: Coupling) -> float:
    """Cost of a plan, sum pi c, a block of entries at a time."""
    problem = engine.problem
    total = problem.a.new_zeros(())
    for rows, cols, mass in plan.blocks(problem.x.shape[1]):
        total += mass @ problem.cost.at(problem.y, problem.x, rows, cols)
    return float(engine.total(total)[0])
