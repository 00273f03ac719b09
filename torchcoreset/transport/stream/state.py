"""The state of a stream: a running potential and its curvature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..costs import Cost, EuclideanPower
from ..dual import LEAST_DEGREE, Factorised

GAIN = 3.0  # the gain is GAIN / (age + GAIN - 1): averages in which later batches weigh more, as age^(GAIN - 1)
TIED = 4.0  # samples are tied within this times gain times eta, about as far as the potential steps
FEW = 128  # points up to which a product with an inverse, a fifth of the time of a solve, is worth the inversion


class Counters(NamedTuple):
    """The numbers among what is remembered."""

    p: float  # power of the cost
    batches: float  # all that came
    samples: float  # the number of equally weighted samples that all batches are worth
    age: float  # batches remembered; one of average size counts as 1
    eta: float  # smoothing of the curvature
    softness: float  # running mean mass that a sample sends beyond its first point at that eta
    renewed: float  # age at which the curvature was last renewed
    noise: float  # variance of the mean `residual`, in units of that of one sample
    # Running means of the samples' part in the semi-dual, and of its square
    mean: float
    square: float
    mean_noise: float  # variance of `mean`, in units of that of one sample
    lagged: float  # number of the last batch that showed the potential to be behind, or 0
    forgetting: float  # least weight of a batch of average size
    # Mass of the samples that were repeated when the curvature was last renewed; 0 where hardly any were, and in the
    # states of earlier versions.
    atoms: float = 0.0

    def to_tensor(self, like: Tensor) -> Tensor:
        """All of them, float64 on a device."""
        # From an array in a third of the time that torch takes to read a tuple.
        return torch.from_numpy(np.array(self, dtype=np.float64)).to(like.device)

    @classmethod
    def from_tensor(cls, tensor: Tensor) -> Counters:
        """The same back, in one transfer."""
        return cls(*tensor.tolist())

    @property
    def typical(self) -> float:
        """Samples of an average batch."""
        return self.samples / self.batches

    @property
    def gain(self) -> float:
        """Weight of a batch of average size."""
        return max(GAIN / (self.age + GAIN - 1), self.forgetting)

    @property
    def width(self) -> float:
        """By how much c - v differs across a cell, roughly: the softness is proportional to eta."""
        return self.eta / max(self.softness, 1e-3)

    @property
    def tie_tolerance(self) -> float:
        """Differences in c - v up to here are ties; 0 where the stream has no atoms."""
        return TIED * self.gain * self.eta if self.atoms else 0.0


@dataclass(frozen=True, kw_only=True)
class StreamState:
    """The state of a stream: float64 tensors, which are replaced and never written to."""

    potential: Tensor  # (n,) v, centred
    curvature: Tensor  # (n, n) running average of gram / eta, with max(b, q) / eta on the diagonal
    # (n, n) and (n, d): how the cells' boundaries move with the points, see `boundaries_of`
    coupling: Tensor
    pull: Tensor
    anchor: Tensor  # (n, d) the points that v belongs to
    residual: Tensor  # (n,) running mean of b - q
    overdue: Tensor  # (n,) samples that a cell should have received since it last received one
    counters: Tensor  # see `Counters`

    @cached_property
    def numbers(self) -> Counters:
        """The counters by name."""
        return Counters.from_tensor(self.counters)

    @cached_property
    def cost(self) -> Cost:
        """The cost that the potential is of, which never changes."""
        return EuclideanPower(self.numbers.p)

    @cached_property
    def solver(self) -> Callable[[Tensor], Tensor]:
        """Solves with the curvature: a function of the curvature alone, so that a copy goes on bit by bit."""
        factor = Factorised(self.curvature, 1.0, LEAST_DEGREE * self.curvature.diagonal())
        return factor.inverse().mv if len(self.potential) <= FEW else factor.solution

    def changed(self, **changes: Any) -> StreamState:
        """The same with other tensors and `numbers`; the solver is kept where the curvature is."""
        known = {**self.__dict__, **changes}
        if "curvature" in changes:
            known.pop("solver", None)
        after: StreamState = object.__new__(StreamState)
        after.__dict__.update(known)  # `dataclasses.replace` takes five times as long, as much as a product
        return after

    def fits(self, points: Tensor, cost: Cost) -> bool:
        """Whether it is of as many points, and of this dimension and cost."""
        n = len(points)
        return (
            self.anchor.shape == points.shape
            and self.potential.shape == self.residual.shape == self.overdue.shape == (n,)
            and self.curvature.shape == self.coupling.shape == (n, n)
            and self.pull.shape == points.shape
            and len(Counters._fields) - len(Counters._field_defaults) <= len(self.counters) <= len(Counters._fields)
            and self.cost == cost
        )
