"""Importance sampling: rows drawn with chosen probabilities, with the weights that make their sums unbiased."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def draw(
    probabilities: NDArray[np.float64], size: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows i_1 .. i_n, drawn independently from q, and weights w_j = 1 / (n N q_{i_j}).

    For every function, sum_j w_j f(x_{i_j}) has the expectation (1/N) sum_i f(x_i). The weights add up to 1 on average,
    not in every draw.

    Args:
        probabilities: (N,) q, positive where f may differ from 0, sum 1.
        size: n.
        generator: of random numbers.

    Returns:
        (n,) rows, which may repeat, and (n,) weights.
    """
    rows = generator.choice(len(probabilities), size, p=probabilities / probabilities.sum())
    return rows.astype(np.int64), 1 / (size * len(probabilities) * probabilities[rows])
