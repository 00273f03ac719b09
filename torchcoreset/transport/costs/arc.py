"""The p-th power of the distance along a sphere, between places in the space around it.

    R radius      s = |y - x| chord      2 R asin(s / 2R) arc

Coordinates may be shifted together: the arc is a function of the chord. Costs of pairs that are nearly antipodal, at a
chord of almost 2R, are known to the root of the unit roundoff only, since there an arc changes far more than its chord.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .cost import Cost, Number
from .euclidean import EuclideanPower

STEEPEST = 1e-6  # least cosine of half the angle: the slope of an arc in its chord is infinite between antipodes
AMPLIFIED = 64  # by which an arc may multiply relative rounding errors of its chord, but for antipodes


class ArcPower(EuclideanPower):
    """arc(y, x)^p on a sphere of this radius, p >= 1."""

    def __init__(self, p: float, radius: float) -> None:
        super().__init__(p)
        follows = {
            "mean_is_best": False, "sorts_on_line": False, "amplifies_rounding": True, "omits_square": False,
            "kernel": None, "lazy": False, "geomloss": None, "radius": float(radius),
        }  # fmt: skip
        for name, value in follows.items():
            object.__setattr__(self, name, value)

    radius: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArcPower) and (self.p, self.radius) == (other.p, other.radius)

    def __hash__(self) -> int:
        return hash((self.p, self.radius))

    def __repr__(self) -> str:
        return f"ArcPower(p={self.p:g}, radius={self.radius:g})"

    @property
    def metric(self) -> Cost:
        return ArcPower(1.0, self.radius)

    @property
    def spread_share(self) -> float:
        """2^-p: by the triangle inequality and convexity, d(X, X')^p <= 2^(p-1) (d(X, x)^p + d(x, X')^p)."""
        return float(0.5**self.p)

    def keops(self, rows: Any, cols: Any) -> Any:
        raise NotImplementedError("KeOps is refused for such costs by name before it is asked.")

    def slope(self, cost: Tensor) -> Tensor:
        return self.weight_from_cost(cost).mul_(self.p)

    def weight(self, distance: Tensor) -> Tensor:
        return self._weight(distance, self._arc(distance))

    def weight_from_cost(self, cost: Tensor) -> Tensor:
        arc = cost.clamp(min=0).pow(1 / self.p)
        chord = 2 * self.radius * (arc / (2 * self.radius)).clamp(max=math.pi / 2).sin()
        return self._weight(chord, arc)

    def roundoffs(self, d: int) -> float:
        return AMPLIFIED * super().roundoffs(d)

    def _weight(self, chord: Tensor, arc: Tensor) -> Tensor:
        """By how much the gradient in a place at this chord exceeds p times the difference, and 0 where that is 0/0."""
        cosine = (1 - (chord / (2 * self.radius)).square()).clamp(min=0).sqrt().clamp(min=STEEPEST)
        apart = chord > 0
        ratio = torch.where(apart, arc / chord.where(apart, 1.0), 1.0)
        at_once = 1.0 if self.p >= 2 else 0.0
        length = torch.where(apart, arc.where(apart, 1.0).pow(self.p - 2), at_once if self.p == 2 else 0.0)
        return ratio * length / cosine

    def _arc(self, chord: Tensor) -> Tensor:
        return (chord / (2 * self.radius)).clamp(max=1).asin().mul_(2 * self.radius)

    def _square_error(self, length: Number, error: Number) -> Number:
        """That of the square of an arc: an arc is at most pi/2 chords, and the square of one up to a quarter of the
        circle changes at most pi/2 times as much as that of its chord; for longer ones the arc errs by that of the
        root of the error."""
        steep = math.pi / 2
        far = steep * (2 * length * error**0.5) + steep**2 * error
        near = steep * error
        quarter = steep * self.radius
        if isinstance(length, Tensor):
            return torch.where(length <= quarter, near, far)
        return near if length <= quarter else far

    def _slope_from_square(self, square: Tensor) -> Tensor:
        return self.weight(square.sqrt()).mul_(self.p)

    def _from_square_(self, square: Tensor) -> Tensor:
        arc = square.sqrt_().div_(2 * self.radius).clamp_(max=1).asin_().mul_(2 * self.radius)
        return arc if self.p == 1 else arc.pow_(self.p)
