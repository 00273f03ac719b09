"""The result of a solve: bounds, potential, plan, and why the solver stopped; or the dual side alone."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..deterministic import mass_by_cell
from ..html import card, draw_interval
from ..tensors import described
from .compiled import TYPES, call, function
from .labels import whole_labels

LEVEL = 1e-9  # of the largest transform, below which it is 0 but for rounding
NUMBERS = 1 << 16  # in the rows that a block of entries picks out: of many at once each takes ten times as long


class Status(enum.Enum):
    """Why a solver stopped; `remedy` says what to do about it. Set only by the loop that stopped."""

    CONVERGED = "converged"
    MAX_STEPS = "max_steps"
    STALLED = "stalled"

    @property
    def remedy(self) -> str:
        """What to do, in one sentence."""
        return _REMEDIES[self]


_REMEDIES = {
    Status.CONVERGED: "Nothing to do: the gap is within the tolerance.",
    Status.MAX_STEPS: "Allow more steps (max_steps), or ask for a looser tolerance.",
    Status.STALLED: (
        "Neither bound moves any further, and both hold: allow a looser gap, or rescale features and groups whose "
        "sizes differ by many powers of ten."
    ),
}


@dataclass(frozen=True)
class Coupling:
    """A transport plan as a list of entries: sample `rows[e]` sends `mass[e]` to point `cols[e]`.

    Attributes:
        rows: (entries,) int64, sample indices in no particular order; every matched sample occurs.
        cols: (entries,) int64, point indices.
        mass: (entries,) float64, non-negative; the row sums are the sample weights, the column sums the point weights.
            If a share s stays unmatched, the row sums are at most the sample weights divided by 1 - s.
        shape: (m, n).
    """

    rows: Tensor
    cols: Tensor
    mass: Tensor
    shape: tuple[int, int]

    def to_sparse(self) -> Tensor:
        """The plan as a coalesced sparse COO tensor of shape (m, n), float64."""
        return torch.sparse_coo_tensor(
            torch.stack((self.rows, self.cols)), self.mass, self.shape, device=self.mass.device, check_invariants=False
        ).coalesce()

    def blocks(self, width: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Rows, columns and masses, in blocks for work on `width` numbers an entry."""
        count = max(16, NUMBERS // width)
        for start in range(0, len(self.rows), count):
            part = slice(start, start + count)
            yield self.rows[part], self.cols[part], self.mass[part]

    def cells(self) -> Tensor:
        """One of the points to which each sample is sent, (m,) int64."""
        return self.cols.new_zeros(self.shape[0]).scatter_(0, self.rows, self.cols)

    def column_sums(self) -> Tensor:
        """Mass received by each point, (n,) float64."""
        return mass_by_cell(self.cols, self.mass, self.shape[1])

    def bias(self, points: Tensor, samples: Tensor) -> float:
        """Root mean square distance of the points (n, d) from the means of the samples (m, d) that they receive.

        It is 0 if every point is the mean of the samples that it receives, and at most the root mean square distance
        over which the plan moves mass. Points without mass do not count.
        """
        received = self.column_sums()
        squares = self.displacement(points, samples, self.mass).square().sum(1) / received.where(received > 0, 1.0)
        return math.sqrt(float(squares.sum()))

    def displacement(self, points: Tensor, samples: Tensor, weight: Tensor) -> Tensor:
        """Sum of weight (y - x) over the entries of each point, (n, d) float64.

        Args:
            points, samples: x (n, d) and y (m, d).
            weight: (entries,) float64.
        """
        x, y, rows, cols = points.double(), samples, self.rows, self.cols
        moved = torch.zeros_like(x)
        if y.is_cpu and y.dtype in TYPES:
            of_pairs = function(f"displacement_{TYPES[y.dtype]}", "nn******")
            arrays = (each.contiguous() for each in (y, x, rows, cols, weight))
            call(of_pairs, len(rows), y.shape[1], *arrays, moved)
            return moved
        size = max(16, NUMBERS // y.shape[1])
        for some, of, by in zip(*(torch.split(each, size) for each in (rows, cols, weight)), strict=True):
            moved.index_add_(0, of, by[:, None] * (y[some].double() - x[of]))
        return moved


@dataclass(frozen=True, repr=False)
class Transport:
    """Optimal transport between n points and m samples: an upper and a lower bound, and the plan and potential.

    Attributes:
        value: the cost of `plan`, an upper bound of W_p^p(points, samples); no root is taken.
        lower: the semi-dual at `potential`, less a bound on rounding errors, and at least 0: a lower bound of W_p^p. If
            a share of the mass stays unmatched, both bounds are for the mass that is matched, scaled to 1.
        gap: (value - lower) / value, the relative distance between the bounds; 0 if they agree to 1e-12. Both are sums
            in float64 of costs that are computed from differences of coordinates, and accurate to that.
        potential: (n,) float64 dual potential v, centred so that sum_i b_i v_i = 0. If the plan chooses the weights,
            v_i is 0 unless weight i is at a bound: negative at the upper bound, positive at the lower. If a share s
            stays unmatched, v is shifted so that samples with c_ki - v_i > 0 for all i are the unmatched ones.
        transform: (m,) float64 c-transform min_i(c_ki - v_i), the potential of the samples; if a share s stays
            unmatched min(0, min_i(c_ki - v_i)) / (1 - s).
        plan: the feasible plan, a `Coupling`; samples on a boundary between cells may be split, and samples that stay
            unmatched have no entry.
        cell_mass: (n,) float64 mass of each Laguerre cell of `potential`, before the plan moves the excess.
        weights: (n,) float64 weights of the points, sum 1: the given ones, or those that the plan chose.
        marginal_error: total variation distance between `cell_mass` and the point weights, in [0, 1]: the mass that
            the plan had to move out of the cell in which it lies.
        steps: passes over all samples.
        status: why the solver stopped.
    """

    value: float
    lower: float
    gap: float
    potential: Tensor
    transform: Tensor
    plan: Coupling
    cell_mass: Tensor
    weights: Tensor
    marginal_error: float
    steps: int
    status: Status

    @property
    def assignment(self) -> Tensor:
        """(m,) int64: the point to which the plan sends each sample; -1 for unmatched samples.

        A sample that the plan splits is assigned to one of its points, such that each point gets m times its weight in
        samples, rounded up or down, if sample weights are equal, and nearly its weight if they are not; so does what
        stays unmatched.
        """
        rows, cols, mass = self.plan.rows, self.plan.cols, self.plan.mass
        point = cols.new_full((self.plan.shape[0],), -1).scatter_(0, rows, cols)
        if len(rows) == len(point) and bool((point >= 0).all()):  # no sample is split
            return point
        # Where samples may stay unmatched no transform is above 0, and at 0 it makes no difference to a sample.
        zero = LEVEL * self.transform.abs().max()
        trimmed = bool((point < 0).any() & (zero > 0) & (self.transform.max() <= zero))
        indifferent = (self.transform >= -zero).cpu().numpy() if trimmed else None
        labels = whole_labels(rows.cpu().numpy(), cols.cpu().numpy(), mass.cpu().numpy(), self.plan.shape, indifferent)
        return torch.from_numpy(labels).to(cols.device)

    def __repr__(self) -> str:
        (m, n), formats = self.plan.shape, {"value": ".6g", "lower": ".6g", "gap": ".1e"}
        return described(self, f"{n} points, {m} samples", **formats, steps="", status="")

    def _repr_html_(self) -> str:
        """What a notebook shows: the numbers, and the two bounds."""
        m, n = self.plan.shape
        numbers = {
            "points, samples": f"{n:,}, {m:,}",
            "cost": f"{self.lower:.6g} to {self.value:.6g} (W_p^p)",
            "gap": f"{self.gap:.1e}",
            "moved to other cells": f"{self.marginal_error:.2%} of the mass",
            "steps": f"{self.steps}, {self.status.value}",
        }
        return card("Transport", numbers, draw_interval(self.lower, self.value, "W_p^p"))


@dataclass(frozen=True)
class Dual:
    """A potential that is nearly the best."""

    potential: Tensor  # (n,) float64, centred
    lower: float  # the semi-dual there
    transform: Tensor  # (m,) float64 c-transform min_i(c_ki - v_i)
    gap: float  # relative to the best plan; inf where none was made
