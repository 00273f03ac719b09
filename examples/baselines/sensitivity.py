"""Sensitivity sampling for k-means: rows are drawn as often as some choice of centres might need them.

With rough centres B from D^2-sampling (k-means++), B(x) the cluster of x, c = (1/N) sum_x d(x, B)^2 and
alpha = 16 (log2 k + 2), the sensitivity of a row is bounded by

    s(x) = alpha d(x, B)^2 / c + 2 alpha sum_{x' in B(x)} d(x', B)^2 / (|B(x)| c) + 4 N / |B(x)|

and q(x) is proportional to s(x). The bounds add up to N (3 alpha + 4 k).

Source: Bachem, Lucic, Krause (2017), Practical coreset constructions for machine learning, Algorithm 2.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .importance import draw


def sensitivities(X: NDArray[np.floating], centres: NDArray[np.floating]) -> NDArray[np.float64]:
    """(N,) bounds s for rough centres (k, d), each of which is nearest to some row."""
    from sklearn.metrics import pairwise_distances_argmin_min

    data = X.astype(np.float64)
    place, distance = pairwise_distances_argmin_min(data, centres.astype(np.float64))
    squares = distance**2
    mean = squares.mean()
    alpha = 16 * (math.log2(len(centres)) + 2)
    count = np.bincount(place, minlength=len(centres))
    cost = np.bincount(place, weights=squares, minlength=len(centres))
    own: NDArray[np.float64] = 4 * len(data) / count[place]
    if mean == 0:
        return own
    bounds: NDArray[np.float64] = alpha * squares / mean + 2 * alpha * cost[place] / (count[place] * mean) + own
    return bounds


def sensitivity(
    X: NDArray[np.floating], size: int, clusters: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows and weights of a coreset for k-means with `clusters` centres."""
    from sklearn.cluster import kmeans_plusplus

    # One D^2 sample at a time: the greedy trials of scikit-learn's default are not what the bound is proved for.
    centres, _ = kmeans_plusplus(X, clusters, n_local_trials=1, random_state=int(generator.integers(2**31)))
    s = sensitivities(X, centres)
    return draw(s / s.sum(), size, generator)
