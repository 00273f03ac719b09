"""What a solve returns: bounds, potential, plan, and why it stopped."""

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
from .labels import whole_labels

ENTRIES = 1 << 17


class Status(enum.Enum):
    """Why a solver stopped. Set only by the loop that stopped; `remedy` says what to do about it."""

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
        "Neither bound moves any further, and both hold: allow a looser gap, or bring features and groups whose sizes "
        "differ by many powers of ten to one scale."
    ),
}


@dataclass(frozen=True)
class Coupling:
    """A transport plan as a list of entries: sample `rows[e]` sends `mass[e]` to point `cols[e]`.

    Attributes:
        rows: (entries,) int64, sample indices in no particular order; every sample occurs that is matched.
        cols: (entries,) int64, point indices.
        mass: (entries,) float64, non-negative; the row sums are the sample weights, the column sums the point weights.
            Where a share s stays unmatched row sums are at most the sample weights over 1 - s.
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

    def blocks(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Rows, columns and masses in blocks of ENTRIES, so that work of size entries x d stays small."""
        for start in range(0, len(self.rows), ENTRIES):
            part = slice(start, start + ENTRIES)
            yield self.rows[part], self.cols[part], self.mass[part]

    def column_sums(self) -> Tensor:
        """Mass received by each point, (n,) float64."""
        return mass_by_cell(self.cols, self.mass, self.shape[1])

    def bias(self, points: Tensor, samples: Tensor) -> float:
        """Root mean square distance of the points (n, d) from the means of the samples (m, d) that they receive.

        It is 0 where every point is the mean of its cell, and at most the root mean square length of the way that mass
        goes. Points without mass do not count.
        """
        x, moved = points.double(), torch.zeros_like(points, dtype=torch.float64)
        for rows, cols, mass in self.blocks():
            moved.index_add_(0, cols, mass[:, None] * (samples[rows].double() - x[cols]))
        received = self.column_sums()
        squares = moved.square().sum(1) / received.where(received > 0, 1.0)
        return math.sqrt(float(squares.sum()))


@dataclass(frozen=True, repr=False)
class Transport:
    """Optimal transport between n points and m samples: two bounds, and what attains them.

    Attributes:
        value: the cost of `plan`, W_p^p(points, samples) from above (p-th power, not rooted).
        lower: the semi-dual at `potential`, less what rounding may hide, and at least 0: W_p^p from below. Where mass
            stays unmatched, both are those of the mass that is kept, scaled to 1.
        gap: (value - lower) / value, the relative distance between the bounds; 0 where they agree to 1e-12. Both are
            sums of float64 costs from differences, and true to that.
        potential: (n,) float64 dual potential v, centred so that sum_i b_i v_i = 0. Where the plan chooses weights,
            v_i is 0 unless its weight is at a bound: below 0 at the upper one, above at the lower. Where a share s
            stays unmatched, that is where c_ki - v_i is above 0 for all i.
        transform: (m,) float64 c-transform min_i(c_ki - v_i), the potential of the samples; where a share s stays
            unmatched min(0, min_i(c_ki - v_i)) / (1 - s).
        plan: the feasible plan, as `Coupling`; samples on a cell's boundary may be split, and those that stay
            unmatched have no entry.
        cell_mass: (n,) float64 mass of each Laguerre cell of `potential`, before the plan moves the excess.
        weights: (n,) float64 weights of the points, sum 1: those given, or what the plan has chosen.
        marginal_error: total variation distance between `cell_mass` and the point weights, in [0, 1]: the mass
            that the plan had to move away from the nearest cell.
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
        """(m,) int64: the point of each sample, by the plan; -1 where it stays unmatched.

        A sample that the plan splits goes whole to one of its points, so that each point gets the number of samples
        that its weight is worth, rounded up or down (equal sample weights), or nearly its weight.
        """
        rows, cols, mass = self.plan.rows, self.plan.cols, self.plan.mass
        point = cols.new_full((self.plan.shape[0],), -1).scatter_(0, rows, cols)
        if len(rows) == len(point) and bool((point >= 0).all()):  # no sample is split
            return point
        labels = whole_labels(rows.cpu().numpy(), cols.cpu().numpy(), mass.cpu().numpy(), self.plan.shape)
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
