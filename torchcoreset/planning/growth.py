"""How the distance falls with the number of points: W = C n^(-1/s), fitted to a few certificates.

s is the intrinsic dimension: for a density on an s-dimensional set the best W_p falls as n^(-1/s) (Zador 1982; Graf and
Luschgy 2000, theorem 6.2), with exponent at most 1 for uniform weights on the line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Growth:
    """W = constant * n^(-1/dimension).

    Attributes:
        constant: C, in the unit of the data.
        dimension: s; infinite if the distance does not fall.
    """

    constant: float
    dimension: float

    def distance(self, size: float) -> float:
        """The distance expected of this many points."""
        return self.constant * math.exp(-math.log(size) / self.dimension)

    def size(self, epsilon: float) -> float:
        """Points expected to reach epsilon; infinite if none do."""
        if self.constant <= epsilon:
            return 1.0
        exponent = self.dimension * math.log(self.constant / epsilon)
        return math.exp(exponent) if exponent < 700 else math.inf


def fit_growth(sizes: Sequence[int], distances: Sequence[float]) -> Growth:
    """Least squares of log W in log n, in which later sizes weigh more, because the law holds for large n.

    Args:
        sizes: at least two different numbers of points.
        distances: W_p at each, positive.

    Example:
        >>> found = fit_growth([10, 20, 40], [1 / 10**0.5, 1 / 20**0.5, 1 / 40**0.5])
        >>> round(found.constant, 6), round(found.dimension, 6), round(found.size(0.1), 3)
        (1.0, 2.0, 100.0)
    """
    # polyfit multiplies residuals, not their squares, by its weights.
    slope, height = np.polyfit(np.log(sizes), np.log(distances), 1, w=np.sqrt(sizes)).tolist()
    return Growth(math.exp(height), -1 / slope if slope < 0 else math.inf)
