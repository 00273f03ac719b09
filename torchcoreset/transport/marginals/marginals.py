"""Marginals that a plan may choose, and what they add to the semi-dual.

    b (n,) weights of the points, low <= b <= high, sum 1      s share of the mass that stays unmatched
    a (m,) weights of the samples, sum 1      v (n,) potential      t_k = min_i [c(y_k, x_i) - v_i]

The plan has column sums b and row sums of at most a / (1 - s), so that it moves a mass of 1. Its dual is

    max_v  sum_k a_k / (1 - s) phi(t_k) + h(v),      h(v) = min { b @ v : low <= b <= high, sum b = 1 },

with phi(t) = min(t, 0) where mass may stay unmatched, and t elsewhere. h is a fractional knapsack: the points of lowest
potential are filled up first. Fixed weights have low = high = b, and free ones low = 0, high = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...tensors import is_real, normalised

FREE = "free"


@dataclass(frozen=True)
class Marginals:
    """Bounds on the weights of n points, and the share of the mass that stays unmatched."""

    low: Tensor  # (n,) float64 least weights, of sum <= 1
    high: Tensor  # (n,) float64 largest weights, of sum >= 1, each at most 1
    trim: float  # share s of the mass of the samples, in [0, 1)
    fixed: bool  # whether low = high, the weights of the points

    @property
    def free(self) -> bool:
        """Whether a point may have any weight."""
        return not self.fixed and float(self.low.max()) == 0 and float(self.high.min()) >= 1

    @property
    def matched(self) -> float:
        """Share of the mass of the samples that the plan moves."""
        return 1 - self.trim

    def cheapest(self, v: Tensor) -> tuple[float, float]:
        """h(v), and the potential up to which points are filled: lambda, where weights are not fixed, else 0."""
        if self.fixed:
            return float(self.low @ v), 0.0
        order = torch.argsort(v)
        room = (self.high - self.low)[order]
        filled = room.cumsum(0)
        left = 1 - float(self.low.sum())
        taken = (left - (filled - room)).clamp(min=0).minimum(room)
        last = min(int(torch.searchsorted(filled, left)), len(v) - 1)
        return float(self.low @ v + taken @ v[order]), float(v[order[last]])

    def transform(self, t: Tensor) -> Tensor:
        """From minima t of c - v, (m,), their part in the semi-dual for a weight of 1."""
        return t.clamp(max=0) / self.matched if self.trim else t

    def nearest(self, mass: Tensor) -> Tensor:
        """Weights within the bounds, of sum 1, near the masses (n,) of some cells."""
        weights = mass.clamp(self.low, self.high)
        excess = float(weights.sum()) - 1
        room = weights - self.low if excess > 0 else self.high - weights
        total = float(room.sum())
        return weights - room * (excess / total) if total > 0 else weights


def as_marginals(
    weights: Any, count: int, name: str, trim: float = 0.0, device: torch.device | None = None
) -> Marginals | None:
    """What `weights` of `count` points and a share to `trim` say; None if the plan may choose nothing.

    Args:
        weights: "free"; a tuple (low, high) of bounds in equal shares, 0 <= low <= 1 <= high; or weights (count,) in
            any other form, such as a list, equal if None.
        count: number of points n.
        name: of the argument, for messages.
        trim: share of the mass of the samples.
        device: of the bounds; None for the CPU.

    Raises:
        ValueError: another word, bounds that no weights of sum 1 keep, or unusable weights.
    """
    trim = check_trim(trim)
    if isinstance(weights, str):
        if weights != FREE:
            raise ValueError(
                f"{name}: got {weights!r}; expected 'free', bounds (low, high) in equal shares, or one weight a point."
            )
        return _bounded(0.0, math.inf, count, trim, device)
    if is_choice(weights):
        low, high = (float(bound) for bound in weights)
        if not 0 <= low <= 1 <= high:
            raise ValueError(
                f"{name}: got the bounds {weights!r}; expected 0 <= low <= 1 <= high, in equal shares: (0.5, 2) keeps "
                "each weight between 0.5 / n and 2 / n. For weights of two points pass a list or a tensor."
            )
        if low == high:
            weights = None
        else:
            return _bounded(low, high, count, trim, device)
    if not trim:
        return None
    b = normalised(weights, count, name, device)
    return Marginals(b, b, trim, fixed=True)


def is_choice(weights: Any) -> bool:
    """Whether these are "free", or a tuple of bounds: weights that the plan chooses."""
    return isinstance(weights, str) or (
        isinstance(weights, tuple) and len(weights) == 2 and all(is_real(bound) for bound in weights)
    )


def _bounded(low: float, high: float, count: int, trim: float, device: torch.device | None) -> Marginals | None:
    device = device or torch.device("cpu")
    if count == 1:  # its weight is 1
        one = torch.ones(1, dtype=torch.float64, device=device)
        return Marginals(one, one, trim, fixed=True) if trim else None
    bounds = (min(bound / count, 1.0) for bound in (low, high))
    least, most = (torch.full((count,), bound, dtype=torch.float64, device=device) for bound in bounds)
    return Marginals(least, most, trim, fixed=False)


def check_trim(trim: Any) -> float:
    """The share of the mass that stays unmatched; ValueError unless it is in [0, 1)."""
    if not is_real(trim) or not 0 <= trim < 1:
        raise ValueError(
            f"trim: got {trim!r}; expected a share in [0, 1) of the mass of the samples, such as 0.01 for the farthest "
            "hundredth."
        )
    return float(trim)
