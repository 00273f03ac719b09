"""Kernel thinning by `goodpoints`: rows are halved again and again so that a kernel mean changes little.

It thins random rows, as many as size times a power of two up to 4,096, since it keeps their kernel matrix.

Source: Dwivedi, Mackey (2024), Kernel thinning; package goodpoints.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

LARGEST = 4096


def missing() -> str | None:
    """Why it cannot be used, if it cannot."""
    return None if find_spec("goodpoints") else "kernel thinning is left out: pip install goodpoints"


def thinning(
    X: NDArray[np.floating], size: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows and equal weights, with a Gaussian kernel as wide as the median distance between rows."""
    from goodpoints import kt
    from sklearn.metrics import pairwise_distances

    halvings = max(0, int(np.log2(min(LARGEST, len(X)) / size)))
    rows = generator.choice(len(X), size * 2**halvings, replace=False).astype(np.int64)
    squares = pairwise_distances(X[rows].astype(np.float64), metric="sqeuclidean")
    np.fill_diagonal(squares, 0)
    kernel = np.exp(-squares / (2 * np.median(squares)))
    kept = kt.thin_K(kernel, kernel, halvings, seed=int(generator.integers(2**31)), unique=True)
    return rows[kept], np.full(size, 1 / size)
