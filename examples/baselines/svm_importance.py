"""Importance sampling for support vector machines: rows are drawn by how much of the objective they can be.

The objective of weights w, offset b and penalty C over N rows z = (x, y), y = +-1, is

    F(w, b) = |w|^2 / 2 + C sum_z h(z),   h(z) = max(0, 1 - y (w . x + b)),

and the sensitivity of a row is the largest part of F that it holds, with its share |w|^2 / (2 N) of the first term.
Each class is clustered. For a row at distance delta from the mean of its cluster, which has M rows,

    h(row) <= h(mean) + delta |w|                      (h is 1-Lipschitz in w . x, and the labels agree)
    C h(mean) <= (F - |w|^2 / 2) / M                   (Jensen)

so that its part of F is at most 1 / M + max_r (C delta r - beta r^2) / max(F*, r^2 / 2), where r = |w|,
beta = (1 / M - 1 / N) / 2 and F* is the least value of F. With r* = min(C delta / (2 beta), sqrt(2 F*)) that is

    s(row) = 1 / M + (C delta r* - beta r*^2) / F*.

Source: the algorithm of Baykal, Liebenwein, Schwarting (2017), Training support vector machines using coresets, and of
Tukan, Baykal, Feldman, Rus (2020), On coresets for support vector machines; the constants are those of the proof above.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .importance import draw


def svm_sensitivities(
    X: NDArray[np.floating], cluster: NDArray[np.int64], penalty: float, least: float
) -> NDArray[np.float64]:
    """(N,) bounds s.

    Args:
        X: (N, d) rows.
        cluster: (N,) the cluster of each row, 0, 1, ...; all rows of a cluster are of one class.
        penalty: C, of each row.
        least: F*, or a lower bound of it.
    """
    data = X.astype(np.float64)
    count = np.bincount(cluster)
    means = np.stack([np.bincount(cluster, weights=column) / count for column in data.T], axis=1)
    push = penalty * np.linalg.norm(data - means[cluster], axis=1)
    share = 1 / count[cluster]
    beta = (share - 1 / len(data)) / 2
    bend = np.divide(push, 2 * beta, out=np.full_like(push, np.inf), where=beta > 0)
    r = np.minimum(bend, math.sqrt(2 * least))
    s: NDArray[np.float64] = np.minimum(1, share + (push * r - beta * r**2) / least)
    return s


def clusters_of_classes(
    X: NDArray[np.floating], y: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.int64]:
    """(N,) clusters of each class by k-means, about log N of them, as the authors advise."""
    from sklearn.cluster import KMeans

    found, used = np.zeros(len(X), np.int64), 0
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        model = KMeans(
            min(len(own), math.ceil(math.log(len(X)))), n_init=1, random_state=int(generator.integers(2**31))
        )
        _, found[own] = np.unique(model.fit_predict(X[own]), return_inverse=True)
        found[own] += used
        used = int(found[own].max()) + 1
    return found


def svm_importance(
    X: NDArray[np.floating],
    y: NDArray[np.int64],
    size: int,
    penalty: float,
    least: float,
    generator: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows and weights of a coreset for a support vector machine with the penalty C of each row."""
    s = svm_sensitivities(X, clusters_of_classes(X, y, generator), penalty, least)
    return draw(s / s.sum(), size, generator)
