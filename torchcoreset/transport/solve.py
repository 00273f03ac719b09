"""Checked problems, as `problem` and `batched` make them: one, all of a batch, or the dual side of one alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any

import torch
from torch import Tensor

from ..tensors import real_tensor
from .batched import ProblemBatch, TransportBatch, check_starts
from .passes import EngineChoice, EngineName
from .presolve import reduce_and_ascend, reduce_and_solve, solve_small
from .problem import Problem
from .reductions import Distinct, distinct, may_coincide, places_of
from .relaxed import solve_relaxed
from .result import Dual, Transport
from .solving import Settings


def solve(
    problem: Problem | Distinct,
    *,
    tolerance: float,
    exact: bool,
    start: Tensor | None,
    max_steps: int,
    engine: EngineChoice = "auto",
    accept_near_optimal: bool = False,
    earlier: Tensor | None = None,
) -> Transport:
    """Solve a checked problem, from a potential (n,), and from the cells (m,) of an `earlier` plan of nearby points.

    Balancing gives a plan in its first round, and further rounds are what takes long where that is not as good as was
    asked for. `accept_near_optimal` makes few of them, and none after a plan within ROUGH tolerances.

    Equal samples become one, whose mass is divided among them afterwards, and equal points of fixed weights do. Points
    of weight zero are left out and given their potential. If float32 cannot tell a gap of the tolerance from its own
    rounding, the problem is solved in float64.
    """
    whole = problem if isinstance(problem, Distinct) else distinct(problem)
    inner, repeats = whole.merged, whole.repeats
    start = None if start is None else check_start(start, inner)
    if inner.marginals is not None:
        return whole.expanded(
            solve_relaxed(inner, inner.marginals, tolerance=tolerance, max_steps=max_steps, engine=engine, start=start)
        )
    if earlier is not None and repeats is not None:
        earlier = earlier[repeats.first]
    settings = Settings(tolerance, exact, max_steps, engine, accept_near_optimal)
    return whole.expanded(reduce_and_solve(inner, settings, start, earlier))


def solve_batch(
    problems: ProblemBatch, *, tolerance: float, exact: bool, start: Any, max_steps: int, engine: EngineName = "auto"
) -> TransportBatch:
    """Solve a batch of checked problems, from potentials (B, n), or (n,) for all, or None; else as `solve`.

    Small problems are solved together; those whose bounds do not meet then, those with equal points, and larger ones,
    one after the other.
    """
    starts = None if start is None else check_starts(start, problems)
    settings = Settings(tolerance, exact, max_steps, engine, False)
    found: Iterator[Transport | None] = repeat(None, len(problems))
    if problems.rounds_nothing:
        tables = (problems.x, problems.y, problems.b, problems.a)
        found = solve_small(
            problems.cost, tables, max(problems.largest), min(problems.largest), starts, settings, samples_differ=False
        )
    run = partial(solve, tolerance=tolerance, exact=exact, max_steps=max_steps, engine=engine)
    return TransportBatch(
        tuple(
            run(problems.problem(i), start=None if starts is None else starts[i])
            if result is None or (alike and places_of(problems.problem(i).x) is not None)
            else result
            for i, (result, alike) in enumerate(zip(found, may_coincide(problems.x).tolist(), strict=False))
        )
    )


def solve_dual(
    problem: Problem, *, tolerance: float, start: Tensor | None, max_steps: int, engine: EngineChoice = "auto"
) -> Dual:
    """The dual side of a checked problem alone, without a plan and so without a proof of how good it is.

    Newton's model expects the semi-dual to be within a tenth of the tolerance of its maximum. Where samples are few,
    it is balancing a plan that takes most of the time of `solve`.
    """
    start = None if start is None else check_start(start, problem)
    whole = distinct(problem)
    found = reduce_and_ascend(whole.merged, Settings(tolerance, False, max_steps, engine, False), start)
    return found if whole.repeats is None else replace(found, transform=found.transform[whole.repeats.of])


def check_start(start: Tensor, problem: Problem) -> Tensor:
    """The starting potential as float64 on the problem's device, or ValueError."""
    v = real_tensor(start, "start").to(problem.b)
    finite = bool(torch.isfinite(v).all())
    if v.shape != problem.b.shape or not finite:
        raise ValueError(
            f"start: got shape {tuple(v.shape)}{'' if finite else ' with NaN or inf'}; "
            f"expected {len(problem.b)} finite numbers, one for each point. "
            "Pass the potential of an earlier result with as many points, or None."
        )
    return v
