"""Moments of a stream of weighted numbers, in one pass and constant memory.

    m numbers f_k      w_k > 0 their weights, 1 if there are none      r_k = f_k - mean, mean = sum w f / sum w

To first order the error of the mean is sum w_k (f_k - E f) / sum w, a mean of independent numbers. So its spread comes
from sum w^2 r^2, and its skewness from sum w^3 r^3. These and the lower powers sum w^j r^k are kept around the mean so
far, and moved when that moves, by the binomial theorem (without weights: Chan, Golub and LeVeque 1983; Pebay 2008), so
that nothing cancels as in sums of raw powers. Numbers are counted in units of about the largest, since cubes of 1e110
are beyond float64, and squares of 1e-170 are 0.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...transport.ranks import Ranks

Extreme = tuple[float, float]  # a weight, and a number
NONE: Extreme = (0.0, 0.0)


@dataclass
class WeightedMoments:
    """Central moments of the numbers seen so far, float64."""

    unit: float = 1.0  # what the numbers below are counted in, a power of two: `size_of` the largest
    count: int = 0  # how many, m
    mass: float = 0.0  # sum of their weights
    centre: float = 0.0  # their weighted mean
    spread: float = 0.0  # sum w r^2
    squares: tuple[float, ...] = (0.0,) * 3  # sums w^2 r^k, k = 0, 1, 2
    cubes: tuple[float, ...] = (0.0,) * 4  # sums w^3 r^k, k = 0, 1, 2, 3
    heaviest: float = 0.0  # the largest weight
    # Weight and number where w r is largest and least
    high: Extreme = NONE
    low: Extreme = NONE

    def add(self, values: Tensor, weights: Tensor) -> None:
        """Count in a batch: numbers and weights, (k,) each."""
        if not len(values):
            return
        unit = size_of(values)
        values, w = values.double() / unit, weights.double()
        mass = float(w.sum())
        centre = float(w @ values) / mass
        r = values - centre
        moved = w * r
        ends = torch.stack((moved.argmax(), moved.argmin()))
        high, low = zip(w[ends].tolist(), values[ends].tolist(), strict=True)
        powers = [r**0, r, r.square(), r**3]
        squares, cubes = w.square(), w**3
        batch = WeightedMoments(
            unit=unit,
            count=len(values),
            mass=mass,
            centre=centre,
            spread=float(w @ powers[2]),
            squares=tuple(float(squares @ power) for power in powers[:3]),
            cubes=tuple(float(cubes @ power) for power in powers),
            heaviest=float(w.max()),
            high=high,
            low=low,
        )
        self.merge(batch)

    def merge(self, other: WeightedMoments) -> None:
        """Count in all that `other` has seen."""
        if not other.count:
            return
        if not self.count:
            self.__dict__.update(other.__dict__)
            return
        unit = max(self.unit, other.unit)
        self.__dict__.update(self._counted_in(unit).__dict__)
        other = other._counted_in(unit)
        mass = self.mass + other.mass
        centre = self.centre + (other.centre - self.centre) * other.mass / mass
        own, others = self.centre - centre, other.centre - centre
        self.spread += own**2 * self.mass + other.spread + others**2 * other.mass
        self.squares = _added(_shifted(self.squares, own), _shifted(other.squares, others))
        self.cubes = _added(_shifted(self.cubes, own), _shifted(other.cubes, others))
        self.count, self.mass, self.centre = self.count + other.count, mass, centre
        self.heaviest = max(self.heaviest, other.heaviest)
        self.high = max(self.high, other.high, key=self._leverage)
        self.low = min(self.low, other.low, key=self._leverage)

    def joined(self, ranks: Ranks) -> WeightedMoments:
        """Those of all ranks together, the same on each."""
        own = (self.unit, self.count, self.mass, self.centre, self.spread, *self.squares, *self.cubes, self.heaviest)
        row = torch.tensor([*own, *self.high, *self.low], dtype=torch.float64, device="cpu")
        whole = WeightedMoments()
        for unit, count, mass, centre, spread, *sums in ranks.table(row).tolist():
            squares, cubes, (heaviest, *ends) = tuple(sums[:3]), tuple(sums[3:7]), sums[7:]
            high, low = (ends[0], ends[1]), (ends[2], ends[3])
            whole.merge(WeightedMoments(unit, int(count), mass, centre, spread, squares, cubes, heaviest, high, low))
        return whole

    @property
    def mean(self) -> float:
        """Weighted mean."""
        return self.unit * self.centre

    @property
    def standard_error(self) -> float:
        """Standard deviation of the mean, sqrt(m / (m - 1) sum w^2 r^2) / sum w; 0 for one number."""
        if not self.count:
            return math.inf
        unbiased = self.count / (self.count - 1) if self.count > 1 else 0.0
        return self.unit * math.sqrt(unbiased * max(self.squares[2], 0.0)) / self.mass

    @property
    def asymmetry(self) -> float:
        """Skewness of the mean, sum w^3 r^3 / (sum w^2 r^2)^1.5; 0 if all numbers are alike."""
        return self.cubes[3] / self.squares[2] ** 1.5 if self.squares[2] > 0 else 0.0

    @property
    def size(self) -> float:
        """Numbers of equal weight that are worth as much where weights say nothing of the numbers (Kish 1965)."""
        return self.mass**2 / self.squares[0] if self.count else 0.0

    @property
    def size_for_spread(self) -> float:
        """Numbers of equal weight and the same spread whose mean is as sure as this one: sum w r^2 / sum w^2 r^2."""
        return self.mass * self.spread / self.squares[2] if self.squares[2] > 0 else self.size

    @property
    def tail_share(self) -> float:
        """Part of the variance of the mean that is due to a single number, in [0, 1]."""
        if not self.squares[2] > 0:
            return 0.0
        return min(1.0, max(self._leverage(self.high) ** 2, self._leverage(self.low) ** 2) / self.squares[2])

    def _leverage(self, extreme: Extreme) -> float:
        return extreme[0] * (extreme[1] - self.centre)

    def _counted_in(self, unit: float) -> WeightedMoments:
        """The same in a larger unit."""
        by = self.unit / unit
        return replace(
            self,
            unit=unit,
            centre=by * self.centre,
            spread=by**2 * self.spread,
            squares=tuple(by**k * part for k, part in enumerate(self.squares)),
            cubes=tuple(by**k * part for k, part in enumerate(self.cubes)),
            high=(self.high[0], by * self.high[1]),
            low=(self.low[0], by * self.low[1]),
        )


def size_of(values: Tensor) -> float:
    """The largest size among finite numbers, rounded down to a power of two: dividing by it loses no digits."""
    largest = float(values.abs().max())
    return float(2.0 ** (math.frexp(max(largest, sys.float_info.min))[1] - 1))


def _shifted(sums: tuple[float, ...], by: float) -> tuple[float, ...]:
    """sum w (r + by)^k for every k, from sum w r^k."""
    return tuple(math.fsum(math.comb(k, i) * by ** (k - i) * sums[i] for i in range(k + 1)) for k in range(len(sums)))


def _added(first: tuple[float, ...], second: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(a + b for a, b in zip(first, second, strict=True))
