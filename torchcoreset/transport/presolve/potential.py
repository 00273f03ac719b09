"""The dual side alone: a potential that is nearly the best, without a plan."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from ..problem import Problem
from ..reductions import c_transform, extend, places_of, restrict, restrict_start
from ..result import Dual
from ..solving import Settings, SolveState, ascend, find_transport
from .arithmetic import in_enough_digits


def reduce_and_ascend(problem: Problem, settings: Settings, start: Tensor | None) -> Dual:
    """The dual side of a problem of distinct samples, from a potential (n,); points as in `reduce_and_solve`."""
    places = places_of(problem.x)
    if places is not None:
        found = reduce_and_ascend(places.merged(problem), settings, places.start(start))
        return replace(found, potential=found.potential[places.of])
    support = problem.b > 0
    inner = problem if bool(support.all()) else restrict(problem, support)
    _, state = in_enough_digits(inner, settings, restrict_start(start, support), _ascend, reduce_and_ascend)
    if state.mean == 0:  # every sample lies on a point, and Newton has nothing to say of how to share them
        find_transport(state, None)
    best = state.highest.potential
    shift = inner.b @ best
    transform = state.transform + shift
    potential = extend(best - shift, support, c_transform(problem, transform, ~support))
    return Dual(potential, state.lower, transform, state.gap)


def _ascend(state: SolveState, start: Tensor | None) -> None:
    """Ascend, unless a direct solve has found the best potential."""
    if state.gap > state.tolerance:
        ascend(state, start)
