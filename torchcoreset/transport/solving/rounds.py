"""Several flows until the bounds meet: on more and more of the samples near boundaries, or on few samples first."""

from __future__ import annotations

from ..dual import Curvature, LazyHessian
from ..passes import LaguerreCells
from ..result import Status
from .all_pairs import solve_with_all_pairs
from .approach import correct
from .balance import balance_boundary, may_list_all, takes_lists
from .limits import prefers_flow
from .state import SolveState

# Parts of the samples on which a potential is found first where they are in clusters: from each to four times as many.
FEWER_SAMPLES = (64, 16, 4)
FEW_CROSSING = 20  # samples a point, at least, of such a part
MANY_PAIRS = 1 << 22  # of a sample and a point, from which that pays: a flow on all of them takes seconds
PRICED_FROM_FEW = 4  # times as many priced samples as otherwise, from the first round on
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
        seldom_helps = round_ or takes_lists(state.problem) or prefers_flow(state)
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


def balance_from_few(state: SolveState) -> bool:
    """Carry a potential from few samples to all of them, a flow each; whether the bounds meet.

    Where much is left in wrong cells, clusters are so far apart that no sample joins their cells, and Newton sees
    no curvature between them. What it costs to cross is nearly the same on few samples as on all.
    """
    n, m = len(state.problem.x), state.problem.count
    sizes = [m // part for part in FEWER_SAMPLES if m // part >= FEW_CROSSING * n]
    if takes_lists(state.problem) or m * n < MANY_PAIRS or not sizes:
        return False
    v = state.highest.potential
    for size in sizes:
        few = SolveState(state.engine.subsample(size).problem, state.settings)
        v = balance_boundary(few, few.evaluate(v), 1, PRICED_FROM_FEW)
        v = v - state.problem.b @ v
    cells = state.evaluate(v)
    for widen in (1, PRICED_FROM_FEW, PRICED_FROM_FEW**2):
        v = balance_boundary(state, cells, widen, max(widen, PRICED_FROM_FEW))
        cells = state.evaluate(v, cells)
        if state.gap <= state.tolerance:
            return True
    return False
