"""Where a solve may begin: points that nearly coincide, solved as one, or groups that are far apart, each by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from ..problem import Problem
from ..reductions import Group, group_problem, median_spread, near_places, restrict_start
from ..result import Coupling, Dual, Transport
from ..solving import Settings, SolveState, plan_cost

# Distance of points that are one at first, in tolerances, and in the lesser of the length that costs what the nearest
# point costs and of the points' median spread: squares of such lengths change by a tenth of the tolerance.
NEAR = 0.05
NEAR_TOLERANCE = 1e-4  # beyond which no tolerance makes points one: next to far outliers all others would be near

# Solves the smaller problem with these settings, from a potential if there is one: with a plan, or the dual side alone.
SolvePart = Callable[[Problem, Settings, Tensor | None], Transport | Dual]


def begin_with_places(state: SolveState, start: Tensor | None, solve_part: SolvePart) -> None:
    """Give a state the potential, and the plan if there is one, of the problem whose near points are one."""
    problem, settings = state.problem, state.settings
    scale = min(problem.cost.root(state.mean), median_spread(problem.x))
    places = near_places(problem.x, NEAR * min(settings.tolerance, NEAR_TOLERANCE) * scale)
    if places is None:
        return
    settings = replace(settings, tolerance=settings.tolerance / 2)
    found = solve_part(places.merged(problem), settings, places.start(start))
    if isinstance(found, Transport):
        plan = places.expanded(found, problem).plan
        state.keep_plan(plan, plan_cost(state.engine, plan))
    state.evaluate(found.potential[places.of])


def begin_with_groups(state: SolveState, groups: list[Group], start: Tensor | None, solve_part: SolvePart) -> None:
    """Give a state the potential that its groups have by themselves, and their plan if there is one."""
    problem, settings = state.problem, state.settings
    v, plans = torch.zeros_like(problem.b), []
    for points, samples in groups:
        found = solve_part(group_problem(problem, points, samples), settings, restrict_start(start, points))
        if isinstance(found, Transport):
            plan = found.plan
            plans.append((samples[plan.rows], points[plan.cols], plan.mass * problem.a[samples].sum()))
        v[points] = found.potential
    if plans:
        rows, cols, mass = (torch.cat(columns) for columns in zip(*plans, strict=True))
        whole = Coupling(rows, cols, mass, (len(problem.y), len(problem.x)))
        state.keep_plan(whole, plan_cost(state.engine, whole))
    state.evaluate(v)
