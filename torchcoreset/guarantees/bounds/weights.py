"""Whether the weights of rows are too heavy for any interval that comes from them.

Rows drawn from something narrower than the population hardly ever lie where the largest weights would be. What can be
seen of it is a heavy upper tail of the weights that did come. If they fall off like w^(-1/k), a mean of w f has a
variance only for k < 1/2, and the skewness that an interval is corrected for only for k < 1/3; the limit of 0.7 that is
usual for point estimates is far too high for intervals.

Source: k by Zhang and Stephens (2009), as in Pareto-smoothed importance sampling (Vehtari et al. 2024), but without
the prior that draws it to 1/2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ...errors import warn_user
from .moments import WeightedMoments

HEAVIEST = 1 / 3  # k; beyond it the mean has no third moment, by which intervals are corrected
UNLIKE = 0.5  # part of Kish's size that the numbers are worth; below it heavy rows also differ most
FEWEST = 15.0  # effective sample size; below it a tenth of the intervals were too short (measured)
LEAST = 5  # weights; to fewer no tail is fitted


def pareto_shape(weights: Tensor) -> float:
    """The k of the largest of positive weights (m,): their tail falls off like w^(-1/k). -inf if it has no length.

    The tail is the largest fifth of them or 3 sqrt(m), whichever is less.
    """
    w = weights.double().sort().values
    count = math.ceil(min(0.2 * len(w), 3 * math.sqrt(len(w))))
    if len(w) <= count:
        return -math.inf
    x = w[-count:] - w[-count - 1]
    x = x[x > 1e-12 * w[-1]]  # ties with the threshold say nothing of a tail
    if len(x) < LEAST:
        return -math.inf
    n = len(x)
    grid = 30 + math.isqrt(n)
    j = torch.arange(1, grid + 1, dtype=torch.float64, device=x.device)
    quartile = x[int(n / 4 + 0.5) - 1]
    theta = 1 / x[-1] + (1 - torch.sqrt(grid / (j - 0.5))) / (3 * quartile)
    shape = torch.log1p(-theta[:, None] * x).mean(1)
    likelihood = n * (torch.log(-theta / shape) - shape - 1)
    posterior = torch.softmax(likelihood, 0)
    return float(torch.log1p(-(posterior @ theta) * x).mean())


def warn_of_weights(weights: Tensor, moments: WeightedMoments) -> None:
    """Warn where the weights of all rows that were read are so heavy that an interval may be too short."""
    k, size = pareto_shape(weights), moments.size
    if k > HEAVIEST:
        why = f"they fall off like w^(-1/k) with k = {k:.2f}, and an interval needs k < 1/3"
    elif moments.size_for_spread < UNLIKE * size:
        why = (
            f"the heavy rows are also those that differ most, so that {moments.count:,} rows are worth "
            f"{moments.size_for_spread:.3g} of equal weight, where the weights alone would make it {size:.3g}"
        )
    elif size < FEWEST:
        why = f"{moments.count:,} rows are worth {size:.3g} of equal weight, and an interval needs {FEWEST:.0f}"
    else:
        return
    message = (
        f"source: the weights of its rows are too uneven to rely on the interval: {why}. It may be far too short. Take "
        "more rows, and draw them from something wider than the population. Rows drawn from something narrower never "
        "show their heaviest weights, so that no warning proves nothing either."
    )
    warn_user(UserWarning(message))
