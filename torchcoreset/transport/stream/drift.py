"""A test for changes of the distribution of a stream, which does not depend on the points.

    y (m, d) a batch, a (m,)      f (m, 2 d) features of its samples: y - o and its square, o the first batch's mean

The mean of each feature over the last batches is compared with that over all batches remembered, in standard errors.
The larger of both variances is taken, so that one outlier does not look like a change. Shifts of a mean or a spread are
seen. A change that keeps those of every column is not; `update.chi_square` sees it in the masses of the cells, and it
is shown as a lag. Samples that depend on each other, such as a Markov chain's, look like a drift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..compiled import TYPES, call, function

RECENT = 1 / 32  # least weight of a batch in the recent mean
NESTED = 4.0  # least ratio of that to its weight in the long mean; closer, the two means could not be told apart
FEWEST = 8.0  # batches of the long mean below which no test is made
SAMPLES = 30.0  # samples of the recent mean below which none is made
EVERY = 4.0  # batches from one test to the next
LEVEL = 30.0  # squared standard errors, beyond 2 log(features), above which the stream has moved: 1e-7 of the tests do
REMAINS = 1 / RECENT / 2  # batches that the long mean counts as after a drift


@dataclass(frozen=True, kw_only=True)
class FeatureMoments:
    """What the test remembers, float64; tensors are replaced and never written to."""

    origin: Tensor  # (d,) from which features are measured
    long: Tensor  # (2, 2 d) means of features and of their squares over all that is remembered
    recent: Tensor  # (2, 2 d) the same over the last batches
    spans: Tensor  # (3,) batches of the long mean, and the variances of both means in units of that of one sample


def features(samples: Tensor, a: Tensor, origin: Tensor) -> Tensor:
    """Means of features and of their squares, (2, 2 d): what samples (m, d) of weights (m,) contribute to them."""
    if samples.is_cpu and samples.dtype in TYPES:
        means = origin.new_empty(2, 2 * samples.shape[1])
        powers = function(f"powers_{TYPES[samples.dtype]}", "nn****")
        call(powers, *samples.shape, samples.contiguous(), a.contiguous(), origin, means)
        return means
    offset = samples.to(origin) - origin
    square = offset * offset
    first, second, fourth = (a @ power for power in (offset, square, square * square))
    return torch.cat((first, second, second, fourth)).view(2, -1)


def first_moments(origin: Tensor, means: Tensor, size: float) -> FeatureMoments:
    """What a first batch leaves behind: its mean (d,), and its `features` about that."""
    spans = origin.new_tensor([1.0, 1 / size, 1 / size])
    return FeatureMoments(origin=origin.clone(), long=means.clone(), recent=means.clone(), spans=spans)


def watched(
    moments: FeatureMoments, means: Tensor, size: float, share: float, forgetting: float
) -> tuple[FeatureMoments, bool]:
    """What is remembered after a batch, and whether the stream has moved.

    `means` are the `features` of a batch of effective sample size `size`, which is a `share` of that of an average
    batch. An average batch weighs no less than `forgetting` in what is remembered; the long mean goes further back.
    """
    age, long_noise, recent_noise = moments.spans.tolist()
    age += share
    slow = min(1.0, max(share / age, share * forgetting / NESTED))  # remembered longer, to be told apart
    fast = min(1.0, max(share * RECENT, NESTED * slow))
    long, recent = moments.long.lerp(means, slow), moments.recent.lerp(means, fast)
    long_noise = (1 - slow) ** 2 * long_noise + slow**2 / size
    recent_noise = (1 - fast) ** 2 * recent_noise + fast**2 / size
    due = age // EVERY > (age - share) // EVERY
    has_moved = due and age >= FEWEST and recent_noise * SAMPLES <= 1 and far_apart(long, recent, recent_noise)
    if has_moved:  # what was long ago says nothing any more
        long, long_noise, age = recent.clone(), recent_noise, min(age, REMAINS)
    spans = torch.from_numpy(np.array([age, long_noise, recent_noise])).to(moments.spans.device)
    return FeatureMoments(origin=moments.origin, long=long, recent=recent, spans=spans), has_moved


def far_apart(long: Tensor, recent: Tensor, noise: float) -> bool:
    """Whether a mean has left the other by more than its `noise`, the variance of a mean of unit variance, explains."""
    difference = (recent[0] - long[0]).square()
    variance = torch.maximum(*(means[1] - means[0].square() for means in (long, recent))).clamp(min=0)
    limit = (LEVEL + 2 * math.log(len(difference))) * noise
    # Rounding of a column that hardly varies is no motion.
    return bool((difference > limit * variance + 1e-12 * long[1]).any())
