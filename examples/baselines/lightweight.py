"""Lightweight coresets: one pass for the mean, one for the distances to it.

    q(x) = 1 / (2 N) + d(x, mean)^2 / (2 sum_x' d(x', mean)^2)

Source: Bachem, Lucic, Krause (2018), Scalable k-means clustering via lightweight coresets, Algorithm 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .importance import draw


def lightweight_probabilities(X: NDArray[np.floating]) -> NDArray[np.float64]:
    """(N,) probabilities q of the rows of X, at least 1 / (2 N) each."""
    data = X.astype(np.float64)
    squares = ((data - data.mean(0)) ** 2).sum(1)
    total = squares.sum()
    # Rows that are all the same are equally far from their mean.
    far = squares / total if total > 0 else np.full(len(data), 1 / len(data))
    q: NDArray[np.float64] = 0.5 / len(data) + 0.5 * far
    return q


def lightweight(
    X: NDArray[np.floating], size: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows and weights of a lightweight coreset."""
    return draw(lightweight_probabilities(X), size, generator)
