"""How a solve is put together, in the order in which its parts are tried.

1. Where Newton is of little use, as between clusters: a flow on all pairs, from a start that is neither near nor lost.
2. Newton, from the start or from zero, to a potential near the best.
3. If that leaves much in wrong cells, and all pairs may be held: a flow on all pairs.
4. Flows on the samples near boundaries, in rounds.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..result import Coupling, Status, Transport
from .all_pairs import balance_all_pairs, solve_directly
from .approach import REST, ascend
from .limits import FEWEST_STEPS, ends_by_flow, may_hold_all_pairs, prefers_flow
from .rounds import balance_in_rounds
from .state import SolveState, marginal_error
from .wrong_mass import few_are_wrong, is_far, starts_by_flow

LEFT_ERROR = 0.01  # mass in wrong cells after all corrections, above which all samples are balanced, if there is room
# Tolerances by which the dual may stay below its predicted maximum, where a curvature would have to be made first: the
# flow makes up for it. No limit where all pairs may take a flow: moving the few samples that are in wrong cells takes
# less than the curvature (builds 0.65 of the time, measured).
LEFT = 1.0


def find_transport(state: SolveState, start: Tensor | None) -> Transport:
    """Ascend and balance until the bounds meet, which a direct solve may have made them do already."""
    by_flow = prefers_flow(state)
    to_flow = ends_by_flow(state)
    if state.gap > state.tolerance and by_flow and starts_by_flow(state, start):
        balance_all_pairs(state, start)
    if state.gap > state.tolerance:
        left = math.inf if to_flow else REST if start is None else LEFT
        cells, curvature = ascend(state, start, left, briefly=by_flow)
    if state.gap <= state.tolerance:
        return state.result(Status.CONVERGED)
    error = marginal_error(cells, state.problem)
    limited = state.max_steps < FEWEST_STEPS or state.steps >= state.max_steps
    if limited and is_far(state.problem, cells):
        # Moving so much along cheapest paths takes far longer than the passes that were not allowed.
        order = torch.argsort(cells.margin)
        shape = (len(order), len(state.problem.x))
        state.keep_plan(Coupling(order, cells.cell[order], state.problem.a[order], shape), math.inf)
        return state.result(Status.MAX_STEPS)
    much_is_left = error > LEFT_ERROR or (to_flow and not few_are_wrong(state.problem, cells))
    if much_is_left and may_hold_all_pairs(state) and solve_directly(state, state.highest.potential):
        return state.result(Status.CONVERGED)
    return state.result(balance_in_rounds(state, cells, curvature))
