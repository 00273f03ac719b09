"""k-medoids by `kmedoids`: the rows whose sum of squared distances to all rows is least, up to swaps.

FasterPAM holds all distances, so that it chooses among random rows, at most 4,096; the weights are those of all rows.

Source: Schubert, Rousseeuw (2021), Fast and eager k-medoids clustering; package kmedoids.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from .d_squared import cell_masses

LARGEST = 4096  # rows; a matrix of 64 MiB


def missing() -> str | None:
    """Why it cannot be used, if it cannot."""
    return None if find_spec("kmedoids") else "k-medoids are left out: pip install kmedoids"


def medoids(
    X: NDArray[np.floating], size: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows, and the shares of all rows that are nearest to them."""
    import kmedoids
    from sklearn.metrics import pairwise_distances

    rows = generator.choice(len(X), min(LARGEST, len(X)), replace=False).astype(np.int64)
    squares = pairwise_distances(X[rows], metric="sqeuclidean").astype(np.float32)
    found = kmedoids.fasterpam(squares, size, init="build" if size <= 20 else "random", random_state=0, n_cpu=1)
    chosen = rows[np.asarray(found.medoids, np.int64)]
    return chosen, cell_masses(X, X[chosen])
