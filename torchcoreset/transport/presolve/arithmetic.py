"""The choice of arithmetic: float64 where float32 cannot tell the gap that is asked for from its own rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from ..problem import Problem, as_float64, within_range
from ..reductions import far_groups
from ..solving import Settings, SolveState, is_small, solve_directly
from .parts import SolvePart, begin_with_groups, begin_with_places

FLOAT64 = 1 << 28  # coordinates times points up to which a direct solve is in float64: some 50 ms (one core)

Found = TypeVar("Found")


def in_enough_digits(
    problem: Problem,
    settings: Settings,
    start: Tensor | None,
    run: Callable[[SolveState, Tensor | None], Found],
    solve_part: SolvePart,
    earlier: Tensor | None = None,
) -> tuple[Found, SolveState]:
    """What `run` finds, and the state then: in float64, if the problem's dtype cannot tell a gap of the tolerance.

    Groups that are far apart are solved one by one first, and points that nearly coincide as one; what `run` then finds
    is at least as good. `solve_part` solves these; where it returns a plan, `run` begins with that of the whole, too.
    """
    problem = within_range(problem)
    state = SolveState(problem, settings, earlier)
    if is_small(state, start):
        if problem.y.numel() * len(problem.x) <= FLOAT64:
            state = SolveState(as_float64(problem), settings, earlier)
        if solve_directly(state, start) and not state.below_rounding(state.highest):
            return run(state, start), state
    elif problem.x.dtype != torch.float64 and not state.needs_float64(start):
        begin_with_places(state, start, solve_part)
        found = run(state, start)
        if not state.below_rounding(state.highest):
            return found, state
    if state.problem.x.dtype != torch.float64:
        state = SolveState(as_float64(problem), settings, earlier)
        if is_small(state, start) and solve_directly(state, start):
            return run(state, start), state
    state.needs_float64(start)
    groups = far_groups(state.problem, state.mean)
    if groups:
        begin_with_groups(state, groups, start, solve_part)
    else:
        begin_with_places(state, start, solve_part)
    return run(state, start), state
