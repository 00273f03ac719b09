"""A bound for the distribution behind the rows, at a confidence, for points of equal weight.

    Y, Y' independent samples of mu      r, w functions of a row      c(y, y') = k |y - y'|^p + w(y) - w(y')

What is sent to point i is a measure pi_i <= mu of mass t = 1/n, so that, as in `pairs` and `free`, for every r and w

    W_p^p(mu) >= E h(Y, Y'),     h(y, y') = r(y) - (1/t) (r(y) - c(y, y'))+.

Its mean over all pairs of fresh rows is a U-statistic, unbiased, with the fluctuation of the mean of 2 h_1(Y_k), where
h_1 averages h(Y_k, .) and h(., Y_k). r and w come from other rows: w(y) is the mean of k |y - y'|^p over the mass t of
these that is nearest to y, and r(y) the largest c(y, y') among the mass t for which c is least.

Source: Hoeffding (1948) for the fluctuation of a U-statistic.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from ...deterministic import column_medians
from ...errors import warn_user
from ...modes import solver_modes
from ...sources import Source, make_generator, once
from ...tensors import check_finite
from ...transport import Cost, as_cost
from ..bounds import WeightedMoments, clt
from ..certify import TAILS
from .pairs import least
from .rows import BLOCK

FEWEST = 30  # rows on either side; with fewer there is no bound


def fewest_points(
    epsilon: float,
    source: Source,
    p: float,
    most: int,
    *,
    share: float = 1.0,
    confidence: float,
    samples: int,
    seed: int | Generator,
) -> int:
    """The fewest points that may be within epsilon of a distribution: no fewer are, at the confidence.

    It is most + 1 where `most` points are none. What rules out n points does so for fewer, whose cells are larger. The
    sizes that are tried share the confidence (Bonferroni).

    Args:
        epsilon: distance W_p, rooted.
        source: of independent rows, as for `optimality_bound` with a confidence.
        p: power of the distance.
        most: points to try at most.
        share: least weight of a point, in equal ones.
        confidence: in (0, 1).
        samples: most rows to draw.
        seed: int or generator.
    """
    cost = as_cost(p)
    fit, fresh = halves(source, samples, make_generator(seed))
    delta = (1 - confidence) / math.ceil(math.log2(most + 1))
    out, possible = 0, most + 1
    with solver_modes():
        while possible - out > 1:
            size = (out + possible) // 2
            moments = pair_moments(fit, fresh, cost, share / size)
            if moments.mean - clt(moments, delta, above=False) > cost.of_length(epsilon):
                out = size
            else:
                possible = size
    return possible


def halves(source: Source, samples: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Independent rows, to find r and w and to use them on."""
    if source.weighted or source.resampled:
        why = "rows with weights of their own" if source.weighted else "a loader that draws rows with replacement"
        raise ValueError(
            f"source: got {why} with a confidence; expected independent rows of equal weight. Without a confidence the "
            "bound is for the rows themselves."
        )
    y, _ = once(source, samples, generator)
    check_finite(y, "source")
    if len(y) < 2 * FEWEST:
        raise ValueError(
            f"source: got {len(y)} rows for a bound with a confidence; expected at least {2 * FEWEST}. Give more rows, "
            "or more `samples`."
        )
    return y[: len(y) // 2], y[len(y) // 2 :]


def warn_of_tails(moments: WeightedMoments) -> None:
    """Warn where one low number decides the spread; a high one makes the bound too low, not too high."""
    if moments.tail_share > TAILS and moments.asymmetry < 0:
        message = (
            f"source: one of {moments.count} samples makes {moments.tail_share:.0%} of the variance: the tails decide, "
            "and the bound may be too high. Take more samples, scale or clip the features, or use p=1."
        )
        warn_user(UserWarning(message))


def pair_moments(fit: Tensor, fresh: Tensor, cost: Cost, mass: float) -> WeightedMoments:
    """Moments of 2 h_1 - (mean of h), whose mean is that of h over all pairs of fresh rows.

    Args:
        fit: (m', d) rows from which r and w come.
        fresh: (m, d) other rows.
        cost: c.
        mass: t, that each point has at least.
    """
    centre = column_medians(fit.double())
    seen, y = fit.double() - centre, fresh.double() - centre
    share = cost.spread_share
    w_seen = _nearest(seen, seen, cost, mass, apart=True)
    w, r = _nearest(y, seen, cost, mass), torch.empty_like(y[:, 0])
    for some in _blocks(len(y), len(seen)):
        c = cost.pairwise_below(y[some], seen).mul_(share).sub_(w_seen)
        values, _, part = least(c, _equal(seen), mass)
        r[some] = w[some] + values.where(part > 0, -torch.inf).amax(1)
    m = len(y)
    sums = torch.zeros_like(r)
    for some in _blocks(m, m):
        c = cost.pairwise_below(y[some], y).mul_(share).sub_(w).add_(w[some, None])
        h = r[some, None] - (r[some, None] - c).clamp_(min=0).div_(mass)
        h.diagonal(some.start).zero_()
        sums[some] += h.sum(1)
        sums += h.sum(0)
    both = sums / (m - 1)  # 2 h_1
    moments = WeightedMoments()
    moments.add(both - both.mean() / 2, torch.ones_like(both))
    return moments


def _nearest(rows: Tensor, seen: Tensor, cost: Cost, mass: float, *, apart: bool = False) -> Tensor:
    """Mean cost k c of each row (m,) to the mass nearest to it, without itself if these are the same rows, `apart`."""
    found = torch.empty_like(rows[:, 0])
    for some in _blocks(len(rows), len(seen)):
        c = cost.pairwise_below(rows[some], seen).mul_(cost.spread_share)
        if apart:
            c.diagonal(some.start).fill_(torch.inf)
        values, _, part = least(c, _equal(seen), mass)
        found[some] = (part * values.where(values.isfinite(), 0.0)).sum(1)
    return found


def _equal(rows: Tensor) -> Tensor:
    return rows.new_full((len(rows),), 1 / len(rows))


def _blocks(count: int, across: int) -> list[slice]:
    step = max(1, BLOCK // across)
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]
