"""A potential from other samples than those of the interval, which must be independent of it.

    x (n, d) points, b (n,) their weights      v (n,) potential      D semi-dual      m samples that will certify

How good v is shows on a separate set: there the best D minus D(v) is what v loses, and that falls as n over the number
of samples that v comes from. If it is more than a part of the standard error that the certificate will have, as many
samples are taken as this rule asks for, and v is solved again on all of them together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from ...transport import Cost, Problem, make_problem, solve_dual
from ...transport.passes import make_engine
from ..bounds import WeightedMoments
from ..points import Points, check_dimension
from .fresh import FreshRows, Rows, put_together

FIRST_SHARE = 0.1  # of the samples of the interval: for the first potential, and as many to test it
FIRST_PER_POINT = 20  # samples a point, at least, for the same
LOOSE = 0.5  # standard errors of the certificate; a potential that loses more is solved again on more samples
MOST_SHARE = 0.5  # of a finite source, at most, for the potential
ROUGH = 1e-2  # relative gap of the first solution, from which the standard error is estimated
MOST_ELEMENTS = 1 << 25  # numbers held for the potential, 256 MiB in float64; no more samples are taken


@dataclass(frozen=True)
class Fitted:
    """A potential, and what it comes from."""

    v: Tensor  # (n,) float64, centred
    samples: int  # how many samples it comes from
    seen: int  # how many were used up, for it and for looking at it
    rows: Rows  # the samples that it comes from


def fit_potential(points: Points, fresh: FreshRows, cost: Cost, samples: int, engine: str) -> Fitted:
    """A potential for points, from rows that are taken from `fresh` and not given to anyone else.

    At most MOST_SHARE of the rows are taken. How good the potential has to be depends on how many `samples` will
    certify.

    Raises:
        ValueError: the source has too few rows to be split, or of another dimension.
    """
    n = len(points.x)
    first = max(math.ceil(FIRST_SHARE * samples), FIRST_PER_POINT * n)
    first = min(first, math.floor(MOST_SHARE * fresh.ahead(math.ceil(2 * first / MOST_SHARE)) / 2))
    rows, look = fresh.take(max(first, 1)), fresh.take(max(first, 1))
    if not rows.size or not look.size:
        raise ValueError(
            "source: it ended after fewer than 4 rows; expected some to find a potential with and others to certify "
            "with. Give more rows, a distribution or a callable."
        )
    check_dimension(points, rows.y)
    v, mean, error = _solved(points, rows, cost, None, samples, engine)
    if n == 1:
        fresh.put_back(look)
        return Fitted(v, rows.size, rows.size, rows)
    problem = _problem(points, look, cost)
    found = solve_dual(problem, tolerance=_tolerance(mean, error), start=v, max_steps=100, engine=engine)
    loss, seen = found.lower - make_engine(problem, engine).hard(v).dual, rows.size + look.size
    if loss > LOOSE * error:
        most = min(samples, MOST_ELEMENTS // rows.y.shape[1])
        wanted = min(most, math.ceil(seen * loss / (LOOSE * max(error, 1e-300))))
        if wanted > seen:
            wanted = min(wanted, math.floor(MOST_SHARE * (seen + fresh.ahead(math.ceil(wanted / MOST_SHARE) - seen))))
        more = fresh.take(wanted - seen) if wanted > seen else rows.part(slice(0))
        seen += more.size
        rows = put_together(rows, look, more)
        v, _, _ = _solved(points, rows, cost, v, samples, engine)
    return Fitted(v, rows.size, seen, rows)


def _tolerance(mean: float, error: float) -> float:
    """Relative gap to solve to: a quarter of the relative error that the certificate will have."""
    return min(max(0.25 * error / mean, 1e-5), 1e-2) if mean > 0 else 1e-3


def _solved(
    points: Points, rows: Rows, cost: Cost, start: Tensor | None, samples: int, engine: str
) -> tuple[Tensor, float, float]:
    """The potential of these rows, the value, and the standard error that `samples` others will have."""
    problem = _problem(points, rows, cost)
    found = solve_dual(problem, tolerance=ROUGH, start=start, max_steps=100, engine=engine)
    error = math.inf
    if rows.size > 1:
        moments = WeightedMoments()
        moments.add(found.transform, rows.w)
        error = moments.standard_error * math.sqrt(rows.size / samples)
    tolerance = _tolerance(found.lower, error)
    if tolerance < min(ROUGH, found.gap):
        start = found.potential
        found = solve_dual(problem, tolerance=tolerance, start=start, max_steps=100, engine=engine)
    return found.potential, found.lower, error


def _problem(points: Points, rows: Rows, cost: Cost) -> Problem:
    return make_problem(points.x, rows.y, cost, points.b, rows.w)
