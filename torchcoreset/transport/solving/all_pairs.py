"""Direct solves, where samples are few in total or per point: the flow alone, on the costs of all pairs.

With some more samples it takes over where a start is far off, or a few Newton steps do not do, as between clusters.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from .. import dual
from ..direct import balance_all, plans_of
from ..flow import Floats, nearest_cells, solve_pairs
from ..passes import unresolved
from ..problem import Problem
from .balance import balance_boundary, takes_lists
from .limits import differences_are_cheap, may_hold_all_pairs
from .state import ROUNDED, SolveState, plan_cost
from .wrong_mass import is_far

LINE_PAIRS = 1 << 15  # pairs of a sample and a point from which a potential is looked for along a line
LINE_SHARE = 0.75  # of the variance along that line, above which it halves the time of the flow at least (measured)
LISTED_PAIRS = 1 << 20  # of a sample and a point, below which a direct solve on all of them takes no longer (measured)


def solve_directly(state: SolveState, start: Tensor | None) -> bool:
    """Solve without an approach, from the cells of a potential or of one found at once; whether the bounds meet."""
    if start is not None:
        return solve_along_lists(state, start) or balance_all_pairs(state, start)
    guess = line_potential(state.problem)
    return balance_all_pairs(state, guess) or (guess is not None and balance_all_pairs(state))


def solve_with_all_pairs(state: SolveState) -> bool:
    """Balance all samples from the best potential so far, where some of them did not do.

    Between groups that exchange no mass a potential may have jumps that cost it the digits for an exact gap: from
    zero it has none.
    """
    if not may_hold_all_pairs(state):
        return False
    return balance_all_pairs(state, state.highest.potential) or (state.exact and balance_all_pairs(state))


def line_potential(problem: Problem) -> Tensor | None:
    """The potential (n,) that sorting finds along the direction in which samples vary most; None if they do not.

    About a line, all cells are neighbours of two others, and from zero the flow sends mass along chains of them: it
    takes up to a hundred times as long.
    """
    if not problem.cost.sorts_on_line or len(problem.x) * problem.count < LINE_PAIRS:
        return None
    direction, share = dual.widest_direction(problem)
    if share < LINE_SHARE:
        return None
    x, y = (rows.double() @ direction for rows in (problem.x, problem.y))
    v, _ = dual.sorted_transport(replace(problem, x=x[:, None], y=y[:, None]))
    return v - problem.b @ v


def balance_all_pairs(state: SolveState, guess: Tensor | None = None) -> bool:
    """Balance all samples on the costs of all pairs, from the cells of a potential; whether the bounds meet.

    Where points moved far, one cell of it may hold nearly all, and however high its semi-dual, such a start takes 2 to
    40 times as long (measured: clusters, heavy tails). Then the flow starts from the cells of an earlier plan; without
    one from those of zero, if less mass is in wrong cells there.
    """
    problem, device = state.problem, state.problem.b.device
    a, b = problem.a.cpu().numpy()[None], problem.b.cpu().numpy()[None]
    v = np.zeros_like(b) if guess is None else guess.cpu().numpy()[None]
    earlier = None if state.earlier is None else state.earlier.cpu().numpy()[None]
    is_float64, (n, d) = problem.x.dtype == torch.float64, problem.x.shape
    if is_float64 and differences_are_cheap(n, problem.count, d):
        costs = exact_costs(problem)
        state.engine.meter.spent += 1
        direct = balance_all(costs, a, b, v, problem.cost.roundoffs(d), earlier)
        state.keep_plan(next(plans_of(direct.found, device)), float(direct.found.value[0]))
        state.keep(direct.only_cells(device))
        return state.gap <= state.tolerance
    costs = state.engine.costs().cpu().numpy()[None]
    if is_float64:
        cell, _ = nearest_cells(costs[0], v[0])
        mean = float(a[0] @ costs[0][np.arange(problem.count), cell])
        if unresolved(problem, min(mean, state.value), ROUNDED * state.tolerance):
            costs = exact_costs(problem)
    found = solve_pairs(costs, a, b, v, earlier)
    plan = next(plans_of(found, device))
    state.keep_plan(plan, plan_cost(state.engine, plan))
    state.evaluate(torch.from_numpy(found.potential[0]).to(device))
    return state.gap <= state.tolerance


def exact_costs(problem: Problem) -> Floats:
    """Costs (1, m, n) of all pairs from differences in float64."""
    costs: Floats = problem.cost.pairwise_exact(problem.y, problem.x).cpu().numpy()[None]
    return costs


def solve_along_lists(state: SolveState, start: Tensor) -> bool:
    """Balance along lists of candidates, if a potential is near; whether the bounds meet, as they mostly do."""
    problem = state.problem
    if not takes_lists(problem) or len(problem.x) * problem.count < LISTED_PAIRS:
        return False
    state.engine.hold()
    cells = state.evaluate(start)
    if is_far(state.problem, cells):
        return False
    state.evaluate(balance_boundary(state, cells, 1, 0), cells)
    return state.gap <= state.tolerance
