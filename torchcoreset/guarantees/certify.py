"""`certify`: how far points are from the distribution itself, not from a sample of it.

    x_i points, b_i weights: nu      Y, Y_1 .. Y_m independent samples of mu      mu_m the empirical measure of the Y_k
    c(y, x) = |y - x|^p              v a potential with sum b v = 0               f_v(y) = min_i c(y, x_i) - v_i
    D(v) = E f_v(Y)                  D_m(v) = (1/m) sum_k f_v(Y_k)                W = W_p^p(nu, mu) = max_v D(v) = D(v*)

Below, v was found from other samples, so that D_m(v) is a mean of m independent numbers with expectation D(v) <= W.
With probability 1 - delta, delta = (1 - confidence) / 2, it exceeds that by no more than the e of `interval`:

    D_m(v) - e <= D(v) <= W.                                                                                    (1)

Above, U_m is the cost of any plan between mu_m and nu, however it was found. By duality

    U_m >= W_p^p(mu_m, nu) = max_v D_m(v) >= D_m(v*),      E D_m(v*) = D(v*) = W,

and v* does not depend on the samples. So D_m(v*) is again a mean of independent numbers, which with probability
1 - delta falls short of its expectation by no more than some e*:

    W <= D_m(v*) + e* <= U_m + e*.                                                                              (2)

Both hold at once with the confidence (Bonferroni), and so do their p-th roots for W_p, which are taken last. How v and
the plan were found only decides how far the ends are apart. The documentation's page on mathematics has the proof in
full, with what is asymptotic, and weighted rows.

With `bound` = B nothing is asymptotic: |f_v(y) - f_v(y')| <= max_i |c(y, x_i) - c(y', x_i)| <= B for every v, v* among
them. Else e* is computed with the deviation of f_v in place of f_v*, which is off by at most max |v - v*|, and v tends
to v* up to a constant (del Barrio, Gonzalez-Sanz, Loubes 2024).

A table is read in random order, each row once. If mu is the table itself, its rows are not independent, but their mean
is at least as close to its expectation as with replacement (Hoeffding 1963, section 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from ..errors import warn_user
from ..modes import solver_modes
from ..sources import Source, as_source, make_generator, row_shape
from ..tensors import check_count, is_real
from ..transport import Cost, Problem, as_cost, check_trim, make_problem
from ..transport.costs import Embedded, check_euclidean
from ..transport.passes import EngineName, LaguerreCells, check_engine, chunk_elements, make_engine
from ..transport.ranks import Ranks, agree, as_ranks, fingerprint, told_to
from .bounds import WeightedMoments, bernstein, clt, hoeffding, warn_of_weights
from .certificate import ASYMPTOTIC, OF_DATA, UNSEEN, Certificate
from .evaluation import (
    WHY,
    CellRows,
    CellStatistics,
    Fitted,
    FreshRows,
    Plan,
    Rows,
    SharedRows,
    cell_rows,
    feasible_plan,
    fit_potential,
    generator_of,
    joined,
    near_optimal_plan,
)
from .points import Points, check_dimension, read_points, saw_the_source, with_labels_of
from .trimmed import TrimmedPass, trimmed_pass

TAILS = 0.25  # part of the variance from one sample; beyond it a warning says that the interval may be too short
FEWEST = 30  # fresh samples; with fewer there is no interval
KEPT = 1 << 24  # numbers of all fresh samples, 128 MiB; beyond it they are not kept to solve their transport
SAME = ("number of points", "dimension", "dtype of the points", "points", "weights")  # equal on all ranks

SEEN = (
    "source: these rows built the coreset, so the interval speaks of the table, not of the population behind it, to "
    "which the distance is larger. Split first: build, fresh = tc.hold_out(data), build on the one and certify on the "
    "other. For the table alone, tc.transport is exact."
)


RESAMPLED = (
    "source: the sampler of this DataLoader draws rows with replacement, or some more likely than others. They are not "
    "fresh samples, and an interval from them would be too short; expected each row once. Give the dataset itself: "
    "as_source(dataset, weights) takes the weights of a WeightedRandomSampler. If the dataset makes new independent "
    "samples at every reading, give iter(loader)."
)


def certify(
    coreset: Any,
    source: Any,
    p: float = 2,
    confidence: float = 0.95,
    samples: int = 100_000,
    *,
    bound: float | None = None,
    trim: float = 0.0,
    seed: int | Generator = 0,
    engine: EngineName = "auto",
    group: Any = None,
    cost: Any = None,
) -> Certificate:
    """An interval for the distance W_p between a coreset and the distribution that a source samples from.

    The lower end is the mean over fresh samples of the semi-dual at a potential from other samples, the upper end the
    cost of a feasible plan on the fresh ones; e is the allowance for their fluctuation:

        mean_k f_v(Y_k) - e  <=  W_p^p(nu, mu)  <=  sum_ki pi_ki |Y_k - x_i|^p + e.

    The proof is on the documentation's page on mathematics. Samples are read once, in batches, and not kept.

    Args:
        coreset: a `Coreset`, a `BuildResult`, anything with .points (n, d) and .weights (n,), or points (n, d) of
            equal weight. Of points built with `scale=` the distance is in those units.
        source: anything that `as_source` reads, or a `joint_source` for distances that count labels or targets too. A
            distribution or callable has no end. A table or loader is split into rows for the potential and rows for the
            interval, each of which is used once; for a statement on the population its rows must not have built the
            coreset: see `hold_out`. A loader or iterator is read in its own order: shuffle it. A callable has to give
            independent samples, not rows of a table drawn with replacement. Weights of rows are "importance" or
            "counts": see `as_source`.
        p: power of the cost, p >= 1.
        confidence: probability with which both ends hold together, in (0, 1).
        samples: most fresh samples for the interval, whose width falls with their square root; a source that ends
            earlier gives fewer. Others are used for the potential.
        bound: a number B with |y - x_i|^p <= B for every possible sample y and every point; makes the confidence hold
            for any number of samples, with a wider interval, provided that no weight exceeds the largest that was
            given. None: central limit theorem.
        trim: share of the distribution, in [0, 1), that stays unmatched: the interval is for the distance to the rest,
            as `transport(trim=...)` measures it. Fresh samples are kept then. Not with a `bound` or a `group`.
        seed: int or generator.
        engine: as in `transport`.
        group: None for the samples of this process; "world" or a `torch.distributed.ProcessGroup` for those that its
            ranks draw from a source each. Every rank calls with the same points and settings and gets the certificate
            of all samples together, of which each reads its share. Equal seeds give the ranks different samples. The
            weights of their rows are on one scale.
        cost: the distance of which p is the power: one of `tc.costs`, or a function of two tensors of rows. None for
            that which the coreset was built for. Only distances of coordinates go with a group.

    Returns:
        `Certificate`: the interval, rooted, and what it comes from.

    Raises:
        TypeError, ValueError: invalid arguments or samples, with the name of the argument; a sample that exceeds
            `bound`; a loader whose sampler draws with replacement, whose rows are not fresh samples.
        RankError: another rank failed, has other points or settings, or did not call within the group's timeout.

    Warns:
        UserWarning: the coreset was built on this table; a single sample dominates the variance; weights are too
            uneven.

    Example:
        >>> import torch, torchcoreset as tc
        >>> normal = torch.distributions.Normal(0.0, 1.0)
        >>> found = tc.certify(torch.tensor([[-0.8], [0.8]]), normal, samples=20_000)
        >>> found.lower < 0.6028 < found.upper, round(found.upper, 1)
        (True, 0.6)

    Source: the bounds are those of semi-discrete duality (Claici, Genevay, Solomon 2020, section 4); the fluctuation is
        that of del Barrio, Gonzalez-Sanz, Loubes (2024).
    """
    ranks = as_ranks(group)
    with told_to(ranks, "certify"):
        as_cost(p)
        check_settings(confidence, samples, engine)
        check_bound(bound)
        if check_trim(trim) and (bound is not None or ranks is not None):
            name = "bound" if bound is not None else "group"
            raise ValueError(f"trim: got {trim!r} with a {name}; expected only one of them. Leave the other out.")
    settings = {"p": p, "confidence": confidence, "samples": samples, "bound": bound, "engine": engine}
    points, read = inputs(ranks, "certify", coreset, source, settings, cost)
    with solver_modes():
        with told_to(ranks, "certify"):
            if ranks is not None:
                check_euclidean(points.metric, "a group")
            points, read = points.in_units(read)
            power = points.cost(p)
        if trim:
            trimmed = trimmed_pass(points, read, power, trim, samples, make_generator(seed), engine)
            return replace(make_certificate(trimmed, power, confidence, None, unit=points.unit), trim=float(trim))
        passed = one_pass(points, read, power, samples, make_generator(seed), engine, bound=bound, ranks=ranks)
    return make_certificate(passed, power, confidence, bound, unit=points.unit)


@dataclass(frozen=True)
class Pass:
    """What one pass over fresh samples has found."""

    moments: WeightedMoments  # of f_v
    plan: Plan  # a feasible plan
    fitted: Fitted  # the potential
    weights: Tensor | None  # (k,) of all rows that were used, on all ranks; None if the source has none


# From a batch of fresh rows and their cells; with a map: what it makes of the samples, (k, d'), and the costs to the
# image of each one's point, (k,).
Visit = Callable[[Rows, LaguerreCells], "tuple[Tensor, Tensor] | None"]
Look = Callable[[Fitted, FreshRows], Visit]


def inputs(
    ranks: Ranks | None, call: str, coreset: Any, source: Any, settings: Mapping[str, Any], cost: Any = None
) -> tuple[Points, Source]:
    """Points and the source; the points and the settings have to be the same on all ranks.

    Of a `cost` the points are for that distance, and images are vectors where a network takes them.

    Warns:
        UserWarning: these very rows built the coreset.
    """

    def prepare() -> tuple[tuple[Points, Source], tuple[float, ...]]:
        points = read_points(coreset).by(cost)
        images = isinstance(points.metric, Embedded) and len(row_shape(source) or ()) > 1
        read = as_source(source, flatten=True) if images else as_source(source)
        if (joint := with_labels_of(coreset, read)) is not coreset:
            points = read_points(joint).by(cost)
        if read.resampled:
            raise ValueError(RESAMPLED)
        facts = (*points.x.shape, torch.finfo(points.x.dtype).eps, fingerprint(points.x), fingerprint(points.b))
        return (points, read), facts

    (points, read), _ = agree(ranks, call, prepare, same=SAME, why=WHY, settings=settings)
    if saw_the_source(points, read):
        warn_user(UserWarning(SEEN))
    return points, points.in_our_codes(read)


def one_pass(
    points: Points,
    source: Source,
    cost: Cost,
    samples: int,
    generator: Generator,
    engine: str,
    *,
    bound: float | None = None,
    image: Tensor | None = None,
    look: Look | None = None,
    ranks: Ranks | None = None,
) -> Pass:
    """Find a potential, then go once through fresh samples.

    `image` (n, d') is what a map makes of the points; `look`, given the potential and the rows to come, says what to do
    with each batch. All else as for `certify`.
    """
    fresh = (
        FreshRows(source, points.x.device, generator)
        if ranks is None
        else SharedRows(ranks, source, points.x.device, generator_of(ranks, generator))
    )
    fitted = fit_potential(points, fresh, cost, samples, engine)
    left = fresh.expected(samples)
    uneven = fitted.rows.size * float(fitted.rows.w.square().sum() / fitted.rows.w.sum() ** 2)
    statistics, moments = CellStatistics(points.b, max(left, 1), fitted.samples, uneven), WeightedMoments()
    weights = [fitted.rows.w]
    visit = look(fitted, fresh) if look is not None else None
    keep = statistics.short and left * points.x.shape[1] <= KEPT
    kept: list[CellRows] = []

    def read() -> tuple[CellStatistics, tuple[()]]:
        for seen in _seen(points, fresh.batches(samples), fitted.v, cost, engine, bound, moments, visit):
            statistics.add(seen)
            if fresh.weighted:
                weights.append(seen.mass)
            if keep:
                kept.append(seen)
        if ranks is not None and not moments.count:
            raise ValueError("source: no rows were left to certify with on this rank; expected some. Give it more.")
        return statistics, ()

    if ranks is None:
        read()
    else:
        agree(ranks, "certify", read, why=WHY)
        statistics.join(ranks)
        moments = moments.joined(ranks)
        if fresh.weighted:
            weights = [fitted.rows.w, *(part for (part,) in ranks.gather(torch.cat(weights[1:])))]
    if moments.count < FEWEST:
        raise ValueError(
            f"source: {moments.count} rows were left to certify with, after {fitted.seen} for the potential; expected "
            f"at least {FEWEST}. Give more rows, or more `samples`."
        )
    x = points.x.double()
    error = moments.standard_error
    if keep:
        plan = near_optimal_plan(
            statistics, joined(kept), x, fitted.v, cost, engine, image, error, ranks, weighted=fresh.weighted
        )
    else:
        plan = feasible_plan(statistics, x, fitted.v, cost, image)
    return Pass(moments, plan, fitted, torch.cat(weights) if fresh.weighted else None)


def _seen(
    points: Points,
    batches: Iterator[Rows],
    v: Tensor,
    cost: Cost,
    engine: str,
    bound: float | None,
    moments: WeightedMoments,
    visit: Visit | None,
) -> Iterator[CellRows]:
    """The samples of each batch with their cells, after f_v of them has entered the moments."""
    for rows in batches:
        check_dimension(points, rows.y)
        # In float64: a cell that float32 takes for the nearest one would put the lower end too high.
        problem = make_problem(points.x, rows.y, cost, points.b, dtype=torch.float64)
        cells = make_engine(problem, engine).hard(v)
        if bound is not None:
            check_costs(problem, bound)
        moments.add(cells.cost - v[cells.cell], rows.w)
        found = visit(rows, cells) if visit is not None else None
        yield cell_rows(rows.y.double(), rows.w, cells, *(found or ()))


def make_certificate(
    passed: Pass | TrimmedPass, cost: Cost, confidence: float, bound: float | None, unit: str = OF_DATA
) -> Certificate:
    """The interval from what a pass has found."""
    moments, plan, delta = passed.moments, passed.plan, (1 - confidence) / 2
    if passed.weights is not None:
        warn_of_weights(passed.weights, moments)
    if bound is None:
        below, above = clt(moments, delta, above=False), clt(moments, delta, above=True)
    else:
        heaviest = moments.heaviest if passed.weights is None else float(passed.weights.max())
        below, above = bernstein(moments, delta, bound, heaviest), hoeffding(moments, delta, bound, heaviest)
    method = "clt" if bound is None else "bernstein"
    if method == "clt" and moments.tail_share > TAILS:
        message = (
            f"source: one of {moments.count} samples makes {moments.tail_share:.0%} of the variance: the tails decide, "
            "and the interval may be too short. Take more samples, scale or clip the features, or use p=1."
        )
        warn_user(UserWarning(message))
    value = max(plan.value, moments.mean)  # equal up to rounding where they cross
    share = plan.cost_share.sort(descending=True).values
    return Certificate(
        lower=cost.root(max(moments.mean - below, 0.0)),
        upper=cost.root(value + above),
        p=cost.p,
        confidence=confidence,
        dual=moments.mean,
        value=value,
        standard_error=moments.standard_error,
        samples=moments.count,
        potential_samples=passed.fitted.samples,
        method=method,
        effective_samples=moments.size,
        asymptotic=ASYMPTOTIC[method] + (UNSEEN if method == "bernstein" and passed.weights is not None else ""),
        tail_share=moments.tail_share,
        concentration=float(share[: math.ceil(len(share) / 10)].sum()),
        potential=passed.fitted.v,
        cell_mass=plan.cell_mass,
        moved=plan.moved,
        unit=unit,
    )


def check_costs(problem: Problem, bound: float) -> None:
    """Raise ValueError if a cost exceeds the bound that the user gave."""
    largest = 0.0
    for rows in torch.split(problem.y, max(16, chunk_elements(problem.x.device) // len(problem.x))):
        largest = max(largest, float(problem.cost.pairwise(rows, problem.x).max()))
    if largest > bound * (1 + 1e-9):
        raise ValueError(
            f"bound: got {bound:g}, and a sample is at a cost |y - x|^p of {largest:g} from a point; expected a bound "
            "on all of them. Give a true bound, or None for the central limit theorem."
        )


def check_settings(confidence: float, samples: int, engine: str, lipschitz: float | None = None) -> None:
    """Raise ValueError unless these can be settings of a certificate; a Lipschitz constant may be unknown."""
    check_confidence(confidence)
    check_count(samples, "samples")
    check_engine(engine)
    if lipschitz is not None and not (is_real(lipschitz) and 0 <= lipschitz < math.inf):
        raise ValueError(f"lipschitz: got {lipschitz!r}; expected a finite constant >= 0, or None.")


def check_confidence(confidence: float) -> None:
    """Raise ValueError unless 0 < confidence < 1."""
    if not is_real(confidence) or not 0 < confidence < 1:
        raise ValueError(f"confidence: got {confidence!r}; expected a probability in (0, 1), such as 0.95.")


def check_bound(bound: float | None) -> None:
    """Raise ValueError unless the bound is None or a positive number."""
    if bound is not None and not (is_real(bound) and 0 < bound < math.inf):
        raise ValueError(
            f"bound: got {bound!r}; expected the largest possible cost |y - x|^p, a positive number, or None."
        )
