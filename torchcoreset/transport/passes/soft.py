"""Soft passes: how mass is shared when the minimum of c - v is smoothed.

    x (n, d) points, y (m, d) samples      v (n,) potential      eta smoothing      c cost

`SoftEngine` is what all engines are, also those over lists that hold a few points for each sample.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from ..problem import Problem

# 2^-46 is 1e-14, below what a sum of float32 shares resolves, and its square times a weight of 1e-9 is still
# a normal float32. Denormals are 10 times slower on CPUs.
LOWEST_POWER = -46.0


@dataclass(frozen=True)
class SmoothedCells:
    """The smoothed semi-dual at a potential."""

    dual: float  # its value
    mass: Tensor  # (n,) float64 mass received by each point under the softmin
    find_gram: Callable[[], Tensor]  # what computes `gram`, which many a pass is not asked for
    softness: float  # mean mass that a sample sends anywhere but to its first point, in [0, 1)

    @cached_property
    def gram(self) -> Tensor:
        """(n, n) float64 sum_k a_k chi_ki chi_kj over undecided samples; its off-diagonal part makes the Hessian."""
        return self.find_gram()


@dataclass(frozen=True)
class SoftSums:
    """What a soft reduction sums over all samples, in float64."""

    minimum: Tensor  # 0-d, sum_k a_k of the softmin of c - v
    largest_share: Tensor  # 0-d, sum_k a_k of the share of its first point
    mass: Tensor  # (n,) as in `SmoothedCells`
    find_gram: Callable[[], Tensor]  # as in `SmoothedCells`


@dataclass
class Meter:
    """Work done by an engine and by all that were made from it."""

    unit: int  # elements of c - v in one pass over all samples and points
    spent: float = 0.0  # passes so far; one over a part of the samples or points counts by its share
    limit: float = math.inf  # passes after which loops should stop


class SoftEngine(ABC):
    """Soft passes over the samples of a problem, on its device and in its dtype, counted by a meter."""

    trust = 100.0  # etas by which a potential may move between two passes

    def __init__(self, problem: Problem, meter: Meter | None = None) -> None:
        self.problem = problem
        self.meter = meter or Meter(len(problem.x) * problem.count)

    def exhausted(self) -> bool:
        """Whether no more passes are allowed."""
        return self.meter.spent >= self.meter.limit

    def renew(self, v: Tensor, eta: float) -> bool:
        """Get ready for passes about v; whether this has changed what they give."""
        return False

    def soft(self, v: Tensor, eta: float) -> SmoothedCells:
        """Value, gradient and curvature of the smoothed semi-dual, in one pass."""
        self._count()
        offset = v.mean()
        sums = self._soft_sums(v - offset, eta)
        dual = float(sums.minimum - offset + self.problem.b @ v)
        return SmoothedCells(dual, sums.mass, sums.find_gram, 1 - float(sums.largest_share))

    def _count(self) -> None:
        self.meter.spent += self._size() / self.meter.unit

    def _size(self) -> int:
        """Elements of c - v in one pass."""
        return len(self.problem.x) * self.problem.count

    @abstractmethod
    def _soft_sums(self, v: Tensor, eta: float) -> SoftSums:
        """The softmin -eta log sum_i b_i exp((v_i - c)/eta) of every sample, and its derivatives, summed."""


def exponential_(above: Tensor, eta: float) -> Tensor:
    """exp(-above / eta) of numbers >= 0, in place; powers of two, which torch takes 3 times faster (measured)."""
    return above.mul_(-1 / (eta * math.log(2))).clamp_(min=LOWEST_POWER).exp2_()
