"""Kernel thinning of all rows by `goodpoints`: rows are halved again and again so that a kernel mean changes little.

Compress halves bins of 1,024 rows until at most 8,192 rows are left in all, whose kernel matrix is kept. Of these, as
many as size times a power of two are halved, and the result is refined against the kernel mean of all that Compress
left.

Source: Dwivedi, Mackey (2024), Kernel thinning; Shetty, Dwivedi, Mackey (2022), Distribution compression in near-linear
time; package goodpoints.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

LARGEST = 8192  # rows; a matrix of 512 MiB
BIN = 1024  # rows of a bin, a power of four


def missing() -> str | None:
    """Why it cannot be used, if it cannot."""
    return None if find_spec("goodpoints") else "kernel thinning is left out: pip install goodpoints"


def thinning(
    X: NDArray[np.floating], size: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows and equal weights, with a Gaussian kernel as wide as the median distance between rows."""
    from goodpoints import kt
    from sklearn.metrics import pairwise_distances

    order = generator.permutation(len(X)).astype(np.int64)
    few = X[order[:1000]].astype(np.float64)
    width = float(np.median(pairwise_distances(few, metric="sqeuclidean")[np.triu_indices(len(few), 1)]))
    rows = compressed(X, order, 2 * width, generator)
    kernel = pairwise_distances(X[rows].astype(np.float64), metric="sqeuclidean")
    np.exp(np.divide(kernel, -2 * width, out=kernel), out=kernel)
    np.fill_diagonal(kernel, 1)
    mean = kernel.mean(1)
    halvings = max(0, int(np.log2(len(rows) / size)))
    part = size * 2**halvings
    kernel = np.ascontiguousarray(kernel[:part, :part])
    halves = kt.split_K(kernel, halvings, seed=int(generator.integers(2**31)))
    kept = kt.swap_K(kernel, halves, meanK=mean[:part], unique=True)
    return rows[kept], np.full(size, 1 / size)


def compressed(
    X: NDArray[np.floating], order: NDArray[np.int64], width: float, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Numbers of at most `LARGEST` rows, in random order, that have nearly the kernel mean of all."""
    from goodpoints import compress

    if len(order) <= LARGEST:
        return order
    bins = len(order) // BIN
    # 2^g sqrt(rows bins) rows are left. More oversampling is better, and g = 5 would leave all of them.
    g = int(np.log2(LARGEST / (bins * BIN**0.5)))
    data = X[order].astype(np.float64)
    kept = compress.compress_kt(data, b"gaussian", k_params=np.array([width]), g=g, num_bins=bins,
                                seed=int(generator.integers(2**31)))  # fmt: skip
    rows: NDArray[np.int64] = order[generator.permutation(kept)]
    return rows
