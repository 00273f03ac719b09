"""Several flows until the bounds meet, on more and more of the samples near boundaries."""

from __future__ import annotations

from ..dual import Curvature, LazyHessian
from ..passes import LaguerreCells
from ..result import Status
from .all_pairs import solve_with_all_pairs
from .approach import correct
from .balance import balance_boundary, may_list_all, takes_lists
from .limits import ends_by_flow
from .state import SolveState

ROUNDS = 8  # most rounds, each with four times as many boundary samples as the one before
# A second round takes 3 to 10 s with 1,000 points and 331,000 samples, a first one 1 s (measured).
FEW_ROUNDS = 2  # most rounds where a near-optimal plan is accepted
ROUGH = 3.0  # tolerances within which such a plan is
# Most that lists are widened by: with 2,000 points in clusters they hold 140 points a sample then (measured).
WIDEST = 16


def balance_in_rounds(state: SolveState, cells: LaguerreCells, curvature: Curvature | LazyHessian | None) -> Status:
    """Balance more samples in each round, until the bounds meet; why no further one was made if they do not."""
    rounds = FEW_ROUNDS if state.accept_near_optimal else ROUNDS
    for round_ in range(rounds):
        gap = state.gap
        if round_:  # exact margins show better than bounds of them which samples may move
            cells = state.evaluate(cells.potential)
        v = balance_boundary(state, cells, min(4**round_, WIDEST), 4**round_ if round_ else 0)
        if state.gap <= state.tolerance or state.steps >= state.max_steps:
            return Status.MAX_STEPS
        cells = state.evaluate(v, cells)
        nearly = state.accept_near_optimal and state.gap <= ROUGH * state.tolerance
        if state.gap <= state.tolerance or nearly:
            break
        seldom_helps = round_ or takes_lists(state.problem) or ends_by_flow(state)
        if seldom_helps and solve_with_all_pairs(state):
            break
        if round_ + 1 == rounds or (round_ > 1 and state.gap > 0.9 * gap):
            break
        if cells.dual < state.lower and (not takes_lists(state.problem) or may_list_all(state.problem)):
            cells = state.highest  # the wrong samples were offered, and have spoilt the potential
        elif curvature is not None and cells.dual < state.lower:
            cells = correct(state, cells, curvature)
            if cells.dual < state.lower:
                cells = correct(state, state.highest, curvature)
    return Status.STALLED
