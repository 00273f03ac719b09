"""How far a mean of independent numbers may be from its expectation, on one side.

    m numbers f_k      s standard deviation      g skewness      B range      delta probability of being wrong

clt        s / sqrt(m) (z + |g| (2 z^2 + 1) / (6 sqrt(m))), z the normal quantile of 1 - delta: the central limit
           theorem with the first term of Edgeworth's expansion of Student's ratio (Hall 1983). The term is used where
           skewness makes the plain interval too short, which is above a mean of positive skewness and below one of
           negative; never to shorten. Asymptotic in m.
bernstein  sqrt(2 s^2 log(2/delta) / m) + 7 B log(2/delta) / (3 (m - 1)) (Maurer and Pontil 2009, theorem 4). Holds
           for every m.
mcdiarmid  B sqrt(log(1/delta) / (2 m)) (Hoeffding 1963; McDiarmid 1989). Holds for every m, and needs no s.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from .moments import Moments


def clt(moments: Moments, delta: float, *, above: bool) -> float:
    """What to add above, or subtract below, the mean; asymptotic."""
    z = NormalDist().inv_cdf(1 - delta)
    skewness = moments.skewness if above else -moments.skewness
    correction = max(skewness, 0.0) * (2 * z * z + 1) / (6 * math.sqrt(moments.count))
    return moments.standard_error * (z + correction)


def bernstein(moments: Moments, delta: float, bound: float) -> float:
    """What to subtract below the mean of numbers within a range of length `bound`."""
    log = math.log(2 / delta)
    return math.sqrt(2 * moments.variance * log / moments.count) + 7 * bound * log / (3 * (moments.count - 1))


def mcdiarmid(count: int, delta: float, bound: float) -> float:
    """What to add above the mean of `count` numbers within a range of length `bound`."""
    return bound * math.sqrt(math.log(1 / delta) / (2 * count))
