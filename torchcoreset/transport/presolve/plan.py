"""An optimal plan: small problems in one call, equal points as one, points without weight left out."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from ..passes import Engine
from ..problem import Problem
from ..reductions import c_transform, extend, places_of, restrict, restrict_start
from ..result import Coupling, Transport
from ..solving import Settings, find_transport
from .arithmetic import in_enough_digits
from .small import solve_small


def reduce_and_solve(
    problem: Problem, settings: Settings, start: Tensor | None, earlier: Tensor | None = None
) -> Transport:
    """Solve a problem of distinct samples, from a potential (n,) and the cells (m,) of an `earlier` plan.

    Equal points become one. Small problems are then solved as they are; of others points of weight zero are left out.
    """
    places = places_of(problem.x)
    if places is not None:
        return places.expanded(reduce_and_solve(places.merged(problem), settings, places.start(start)), problem)
    if len(problem.y) == problem.count:
        tables = (problem.x[None], problem.y[None], problem.b[None], problem.a[None])
        guess, cells = (None if values is None else values[None] for values in (start, earlier))
        size = problem.largest
        found = next(solve_small(problem.cost, tables, size, size, guess, settings, cells, samples_differ=True))
        if found is not None:
            return found
    support = problem.b > 0
    if bool(support.all()):
        return in_enough_digits(problem, settings, start, find_transport, reduce_and_solve, earlier)[0]
    inner = restrict(problem, support)
    guess = restrict_start(start, support)
    result, state = in_enough_digits(inner, settings, guess, find_transport, reduce_and_solve)
    return _extended(result, problem, state.engine, support)


def _extended(result: Transport, problem: Problem, engine: Engine, support: Tensor) -> Transport:
    """Put points of weight zero back: no mass, and the highest potential that leaves their cells empty."""
    used = support.nonzero()[:, 0]
    plan = Coupling(result.plan.rows, used[result.plan.cols], result.plan.mass, (len(problem.y), len(problem.x)))
    highest = engine.least(c_transform(problem, result.transform, ~support))
    potential = extend(result.potential, support, highest)
    return replace(
        result, plan=plan, potential=potential, cell_mass=extend(result.cell_mass, support, 0.0), weights=problem.b
    )
