"""Mass in wrong cells: the part of all mass by which a potential's cells differ from the weights of their points.

How much of it there is decides whether a potential is corrected, annealed anew, or left to a flow.
"""

from __future__ import annotations

import math

from torch import Tensor

from ..passes import LaguerreCells
from ..problem import Problem
from .limits import has_short_flow
from .state import SolveState, marginal_error

NEAR_ERROR = 0.05  # of a warm start, below which it is corrected on all samples at once
LOST_ERROR = 0.3  # of a warm start, above which it is discarded
FAILED_ERROR = 0.1  # of a warm start after all corrections, above which it is discarded; above it, none is near
MOVED_PER_POINT = 4  # samples a point above which another correction is tried before the flow
MOVE_COST = 1e4  # of moving one sample by the flow, in elements of a pass: 1e3 and 1e4 do as well (measured)
MOVE_COST_PAIRS = 0.02  # the same for each pair of points, where they are many: 0.5 ms with 10,000 (measured)


def grain(problem: Problem) -> float:
    """Mass of one sample a point: cells hold whole samples, so that as much in wrong ones says nothing."""
    return len(problem.x) / problem.count


def is_far(problem: Problem, cells: LaguerreCells) -> bool:
    """Whether more is in wrong cells than where a potential is near, and than cells of whole samples may have there."""
    return marginal_error(cells, problem) > max(FAILED_ERROR, grain(problem))


def few_are_wrong(problem: Problem, cells: LaguerreCells) -> bool:
    """Whether so few samples are in wrong cells that moving them is worth no more passes."""
    n, m = len(problem.x), problem.count
    move_cost = max(MOVE_COST, MOVE_COST_PAIRS * n * n)
    return marginal_error(cells, problem) * m <= min(m * n / move_cost, MOVED_PER_POINT * n)


def start_error(state: SolveState) -> float:
    """Mass in wrong cells of the potential to start from; infinite without one."""
    return math.inf if state.first is None else marginal_error(state.first, state.problem)


def starts_by_flow(state: SolveState, start: Tensor | None) -> bool:
    """Whether a flow on all pairs is made from a potential at once: it is neither near nor lost, and nor is zero then.

    With the cells of an earlier plan none is lost.
    """
    problem, error = state.problem, start_error(state)
    least = near_error(problem) if has_short_flow(problem) else FAILED_ERROR
    if state.earlier is not None:
        return error > least
    if start is not None and error > LOST_ERROR:
        error = marginal_error(state.evaluate(state.zero), problem)
    return least < error <= LOST_ERROR


def near_error(problem: Problem) -> float:
    """The same up to which a start is corrected on all samples at once."""
    return max(NEAR_ERROR, min(FAILED_ERROR, MOVED_PER_POINT * grain(problem)))
