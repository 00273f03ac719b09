"""Mean, variance and skewness of a stream of numbers, in one pass and constant memory.

M_r = sum (t - mean)^r of a batch is merged into that of all before (Chan, Golub and LeVeque 1983; Pebay 2008), so that
nothing cancels as it would in sums of raw powers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..transport.ranks import Ranks


@dataclass
class Moments:
    """Central moments of the numbers seen so far, float64.

    Attributes:
        count: how many.
        mean: their mean.
        second, third: sums of the second and third powers of their distance from the mean.
        least, largest: the extremes.
    """

    count: int = 0
    mean: float = 0.0
    second: float = 0.0
    third: float = 0.0
    least: float = math.inf
    largest: float = -math.inf

    def add(self, values: Tensor) -> None:
        """Count in a batch (k,)."""
        if not len(values):
            return
        values = values.double()
        mean = float(values.mean())
        centred = values - mean
        square = centred.square()
        batch = Moments(
            len(values),
            mean,
            float(square.sum()),
            float((square * centred).sum()),
            float(values.min()),
            float(values.max()),
        )
        self.merge(batch)

    def merge(self, other: Moments) -> None:
        """Count in all that `other` has seen."""
        if not other.count:
            return
        k, m = self.count, other.count
        total, gap = k + m, other.mean - self.mean
        self.third += other.third + gap**3 * k * m * (k - m) / total**2
        self.third += 3 * gap * (k * other.second - m * self.second) / total
        self.second += other.second + gap**2 * k * m / total
        self.mean += gap * m / total
        self.count = total
        self.least, self.largest = min(self.least, other.least), max(self.largest, other.largest)

    def joined(self, ranks: Ranks) -> Moments:
        """Those of all ranks together, the same on each."""
        own = (self.count, self.mean, self.second, self.third, self.least, self.largest)
        whole = Moments()
        for count, *others in ranks.table(torch.tensor(own, dtype=torch.float64, device="cpu")).tolist():
            whole.merge(Moments(int(count), *others))
        return whole

    @property
    def variance(self) -> float:
        """The unbiased variance of one number; 0 with fewer than two."""
        return self.second / (self.count - 1) if self.count > 1 else 0.0

    @property
    def standard_error(self) -> float:
        """Standard deviation of the mean."""
        return math.sqrt(self.variance / self.count) if self.count else math.inf

    @property
    def skewness(self) -> float:
        """Third standardised moment of one number; 0 if all are alike."""
        return math.sqrt(self.count) * self.third / self.second**1.5 if self.second > 0 else 0.0

    @property
    def tail_share(self) -> float:
        """Part of the variance that is due to the single most extreme number, in [0, 1]."""
        extreme = max(self.largest - self.mean, self.mean - self.least)
        return min(1.0, extreme**2 / self.second) if self.second > 0 else 0.0
