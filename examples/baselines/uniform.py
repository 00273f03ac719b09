"""Uniform sampling: what a coreset has to be better than."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def uniform(rows: int, size: int, generator: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """`size` different rows of `rows`, all equally likely, with weights 1 / size."""
    return generator.choice(rows, size, replace=False).astype(np.int64), np.full(size, 1 / size)
