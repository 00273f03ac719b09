"""D^2 sampling: each row is drawn in proportion to its squared distance to the rows drawn before, as in k-means++.

The rows weigh what is nearest to them: the coreset of StreamKM++ without its tree, which only saves time.

Source: Arthur, Vassilvitskii (2007), k-means++: the advantages of careful seeding; Ackermann and others (2012),
StreamKM++: a clustering algorithm for data streams.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def cell_masses(X: NDArray[np.floating], points: NDArray[np.floating]) -> NDArray[np.float64]:
    """(n,) shares of the rows of X (N, d) that are nearest to each of the points (n, d); sum 1."""
    from sklearn.metrics import pairwise_distances_argmin

    nearest = pairwise_distances_argmin(X.astype(np.float64), points.astype(np.float64))
    share: NDArray[np.float64] = np.bincount(nearest, minlength=len(points)) / len(X)
    return share


def d_squared(
    X: NDArray[np.floating], size: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows, and the shares of all rows that are nearest to them."""
    from sklearn.cluster import kmeans_plusplus

    # Each row from one draw: the best of several, scikit-learn's default, is a start for k-means, not a sample.
    _, rows = kmeans_plusplus(X, size, n_local_trials=1, random_state=int(generator.integers(2**31)))
    return rows.astype(np.int64), cell_masses(X, X[rows])
