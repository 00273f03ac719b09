"""How large a problem may be for each way of solving it, in points, samples and dimensions.

    n points, m samples, d dimensions

A direct solve balances all samples on the costs of all pairs, without an approach.
"""

from __future__ import annotations

from torch import Tensor

from ..costs import Cost, EuclideanPower
from ..problem import Problem
from ..reductions import FEWEST
from .state import Settings, SolveState

FEW = 2048  # samples up to which a solve is direct: approaches take some milliseconds however small a problem is
FEW_PER_POINT = 30  # the same for each point: Newton is of little use where cells hold so few
WARM_PER_POINT = 60  # the same with a potential to start from
SMALL_PER_POINT = 300  # the same with a potential and no more than SMALL pairs of a sample and a point
SMALL = 1 << 20
FEWEST_PAIRS = 5 << 17  # of a sample and a point, up to which any solve with a potential is direct
FEWEST_NUMBERS = 1 << 20  # coordinates of samples up to which it is: with 784 columns it took four times as long
# Pairs of a sample and a point up to which a flow on all is made where few corrections do not do: between clusters it
# takes half of the time of all of Newton's steps. Of 300 points of 18,000 samples it takes 1.2 times as long.
FEW_PAIRS = 12 << 20
FEW_NUMBERS = 1 << 22  # coordinates of samples up to which it is made: several ranks send each other all of them for it
SHORT_FLOW_PAIRS = 3 << 20  # up to which such a flow takes no longer than corrections of a start that is nearly near
# Samples a point up to which a flow on all pairs starts from the cells of an earlier plan, however many pairs there is
# room for: clusters and heavy tails take 0.6 to 0.75 of the time.
FLOW_PER_POINT = 1000
MOST_PAIRS = 1 << 25  # of any direct solve: 256 MiB of costs
DIFFERENCES = 1 << 17  # coordinates times points up to which costs come from differences: 0.1 ms, and less in all
COMPILED_DIFFERENCES = 1 << 25  # the same where these are compiled: 3 ms
# Pairs up to which a solve without a start is made in one call. Measured beside Newton's steps: 0.2 to 0.6 of the time
# on clusters and heavy tails; with as many pairs 0.7 to 1.2 times on smooth clouds, 1.7 on a square in the plane.
COLD_PAIRS = 1 << 21
SORTED = 1 << 26  # samples on the line beyond which they are not sorted: 1 GiB with their weights
FEWEST_STEPS = 10  # passes below which no approach is begun, and much excess is not moved along paths


def is_small(state: SolveState, start: Tensor | None) -> bool:
    """Whether the flow can do without an approach, and all samples are here."""
    problem, warm = state.problem, start is not None
    n, m = len(problem.x), problem.count
    few = warm and n * m <= FEWEST_PAIRS and problem.y.numel() <= FEWEST_NUMBERS
    return n > 1 and (few or is_direct(n, m, warm)) and may_hold_all_pairs(state) and not sorts(problem)


def sorts(problem: Problem) -> bool:
    """Whether sorting solves the problem."""
    return problem.x.shape[1] == 1 and problem.cost.sorts_on_line and problem.count <= SORTED


def may_hold_all_pairs(state: SolveState) -> bool:
    """Whether there is room for the costs of all pairs of a sample and a point, and work is not limited."""
    problem = state.problem
    room = len(problem.y) == problem.count and problem.count * len(problem.x) <= MOST_PAIRS
    return room and state.max_steps >= FEWEST_STEPS


def prefers_flow(state: SolveState) -> bool:
    """Whether a flow on all pairs takes no longer than Newton where that is of little use, between clusters."""
    (n, d), m = state.problem.x.shape, state.problem.count
    starts = state.first is not None and state.earlier is not None and m <= FLOW_PER_POINT * n
    return (starts or is_for_one_rank((n, d, m))) and may_hold_all_pairs(state) and not sorts(state.problem)


def ends_by_flow(state: SolveState) -> bool:
    """Whether it takes less than the last corrections, too, as where pairs are few, or from a start."""
    n, m = len(state.problem.x), state.problem.count
    warm = state.first is not None and m <= FLOW_PER_POINT * n
    return prefers_flow(state) and (warm or has_short_flow(state.problem))


def is_direct(n: int, m: int, warm: bool) -> bool:
    """Whether m samples are so few, or so few for each of n points, that they are solved directly."""
    most = max(FEW, FEW_PER_POINT * n)
    if warm:
        most = max(most, WARM_PER_POINT * n, min(SMALL_PER_POINT * n, SMALL // n))
    return m <= most and n * m <= MOST_PAIRS


def has_short_flow(problem: Problem) -> bool:
    """Whether pairs are so few that a flow on all of them takes no longer than a few corrections."""
    return len(problem.x) * problem.count <= SHORT_FLOW_PAIRS


def is_for_one_rank(shape: tuple[int, int, int]) -> bool:
    """Whether n points in d dimensions and m samples, (n, d, m), may take a flow on all pairs, as no rank can alone."""
    n, d, m = shape
    return n * m <= FEW_PAIRS and m * d <= FEW_NUMBERS


def may_start_from_cells(m: int, n: int) -> bool:
    """Whether m samples and n points can take a flow on all pairs, which alone starts from cells of an earlier plan."""
    return n * m <= (MOST_PAIRS if m <= FLOW_PER_POINT * n else FEW_PAIRS)


def differences_are_cheap(n: int, m: int, d: int) -> bool:
    """Whether the costs of all pairs take next to no time from differences."""
    return n * m * d <= DIFFERENCES


def is_one_call(shape: tuple[int, int, int], cost: Cost, settings: Settings, warm: bool, differ_on_cpu: bool) -> bool:
    """Whether a problem is solved in one call, on costs from differences.

    The problem is of n points and m samples in d dimensions, (n, m, d), with a potential to start from if it is warm.
    Samples may be more if they `differ_on_cpu`, each from all others.
    """
    n, m, d = shape
    if settings.max_steps < FEWEST_STEPS or settings.engine != "auto":
        return False
    if n == 1 or (d == 1 and cost.sorts_on_line):
        return False
    if m < FEWEST and differences_are_cheap(n, m, d) and is_direct(n, m, warm):
        return True
    most = FEWEST_PAIRS if warm else COLD_PAIRS
    return differ_on_cpu and isinstance(cost, EuclideanPower) and n * m <= most and n * m * d <= COMPILED_DIFFERENCES
