"""A certificate for the distance to all but the farthest share of a distribution.

    x (n, d) points, b (n,) weights      v (n,) potential      s share that stays unmatched
    f_v(y) = min(0, min_i [c(y, x_i) - v_i]) / (1 - s) + b @ v

Both arguments of the untrimmed certificate carry over. E f_v(Y) is at most the trimmed cost for any v that never saw
Y; and the trimmed cost of fresh samples is, on average, at least that of the distribution, in which it is convex. All
fresh rows are kept, and their transport is solved.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..sources import Source
from ..transport import Cost, Problem, Transport, make_problem, solve
from ..transport.passes import make_engine
from ..transport.relaxed import relaxed_cells
from .bounds import WeightedMoments
from .evaluation import Fitted, FreshRows, Plan, Rows, put_together
from .points import Points, check_dimension

HELD = 1 << 27  # numbers of all fresh samples, 1 GiB in float64
FIRST_SHARE = 0.25  # of the samples of the interval: for the potential, up to half of a source that ends
FIRST_PER_POINT = 50  # samples a point, at least, for the same
FITTED = 1e-4  # relative gap of the potential
SHARP = 1e-4  # relative gap of the plan on the fresh samples
FEWEST = 30  # fresh samples; with fewer there is no interval


@dataclass(frozen=True)
class TrimmedPass:
    """What one pass over fresh samples has found."""

    moments: WeightedMoments  # of f_v
    plan: Plan  # a feasible plan
    fitted: Fitted  # the potential
    weights: Tensor | None  # (k,) of all rows that were used; None if the source has none


def trimmed_pass(
    points: Points, source: Source, cost: Cost, trim: float, samples: int, generator: Generator, engine: str
) -> TrimmedPass:
    """Find a potential on some rows, then the moments of f_v and a plan on others; arguments as for `certify`."""
    fresh = FreshRows(source, points.x.device, generator)
    wanted = max(int(FIRST_SHARE * samples), FIRST_PER_POINT * len(points.x))
    rows = fresh.take(max(1, min(wanted, fresh.ahead(2 * wanted) // 2)))
    if rows.size:
        check_dimension(points, rows.y)
    most = HELD // points.x.shape[1]
    if min(samples, fresh.expected(samples)) > most:
        raise ValueError(
            f"samples: got {samples} with trim={trim}, for which all rows are kept; expected at most {most} of this "
            "dimension. Pass fewer."
        )
    others = put_together(*fresh.batches(samples))
    if others.size < FEWEST or not rows.size:
        raise ValueError(
            f"source: {others.size} rows were left to certify with, after {rows.size} for the potential; expected at "
            f"least {FEWEST}. Give more rows, or more `samples`."
        )
    found = _solved(_problem(points, rows, cost, trim), FITTED, None, engine)
    fitted = Fitted(found.potential, rows.size, rows.size, rows)
    problem = _problem(points, others, cost, trim)
    assert problem.marginals is not None, "some mass is trimmed"
    cells = relaxed_cells(make_engine(problem, engine), problem.marginals, fitted.v)
    moments = WeightedMoments()
    moments.add(cells.transform + points.b @ fitted.v, others.w)
    plan = _solved(problem, SHARP, fitted.v, engine)
    rows_, cols, mass = plan.plan.rows, plan.plan.cols, plan.plan.mass
    costs = mass * cost.at(problem.y, problem.x, rows_, cols)
    share = torch.zeros_like(points.b).index_add_(0, cols, costs)
    moved = float(mass[cols != cells.cell[rows_]].sum())
    return TrimmedPass(
        moments=moments,
        plan=Plan(plan.value, 0.0, moved, cells.mass[:-1], share / share.sum().clamp(min=1e-300)),
        fitted=fitted,
        weights=torch.cat((rows.w, others.w)) if fresh.weighted else None,
    )


def _problem(points: Points, rows: Rows, cost: Cost, trim: float) -> Problem:
    return make_problem(points.x, rows.y, cost, points.b, rows.w, trim=trim, dtype=torch.float64)


def _solved(problem: Problem, tolerance: float, start: Tensor | None, engine: str) -> Transport:
    return solve(problem, tolerance=tolerance, exact=False, start=start, max_steps=100, engine=engine)
