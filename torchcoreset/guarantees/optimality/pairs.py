"""Bounds for points of equal weight from the mass nearest to each row.

    t = 1/n mass of a cell      pi_i what is sent to point i, 0 <= pi_i <= a, sum t
    h_k(w) the mean of c_kl over the nearest mass t: the least of sum_l q_l c_kl over 0 <= q <= a / t, sum q = 1

A cell costs at least n sum_kl pi_ik pi_il k c(y_k, y_l), whatever its point. w_k - w_l adds nothing to the double sum,
and n pi_i is one of the q, so that a cell costs at least sum_k pi_ik h_k(w), and all of them together

    W_p^p >= sum_k a_k h_k(w),   for every w.

The sum is concave in w, with the supergradient a_l - sum_k a_k q_kl: w_l falls where row l is among the nearest of more
than its share. h(0) is a good first w: near rows pay for the far ones that they might share a cell with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .rows import UNIT, Rows

PASSES = 4  # over all pairs; two gain most of it, four most of the rest (measured)
STEP = 0.3  # of w along the supergradient, in units of h(0), over the root of the number of such steps
SHARE = (-1.5, 1.0)  # to which the supergradient is cut, over a_k: few rows are near to many


@dataclass(frozen=True)
class Nearest:
    """What one pass over all pairs has found."""

    means: Tensor  # (m,) h_k
    used: Tensor  # (m,) sum_k a_k q_kl
    value: float  # sum_k a_k h_k
    allowance: float  # what rounding may have added to it

    @property
    def lower(self) -> float:
        return self.value - self.allowance


def shift_bound(rows: Rows, mass: float, passes: int = PASSES) -> tuple[Nearest, Tensor]:
    """The best bound of some passes, and its w (m,); the first pass is without a shift."""
    w = rows.y.new_zeros(len(rows))
    found = best = nearest_mass(rows, mass, w)
    best_w, first = w, found.means
    for step in range(1, passes):
        if step == 1:
            w = first
        else:
            w = w + STEP / math.sqrt(step - 1) * first * ((rows.a - found.used) / rows.a).clamp(*SHARE)
        found = nearest_mass(rows, mass, w)
        if found.lower > best.lower:
            best, best_w = found, w
    return best, best_w


def nearest_mass(rows: Rows, mass: float, w: Tensor) -> Nearest:
    """h_k(w) of all rows."""
    means, largest, used = torch.empty_like(w), torch.empty_like(w), torch.zeros_like(w)
    for some in rows.blocks():
        c = rows.costs(some).sub_(w).add_(w[some, None])
        values, index, part = least(c, rows.a, mass)
        means[some] = (part * values).sum(1)
        largest[some] = values.abs().where(part > 0, 0.0).amax(1)
        used.index_add_(0, index.flatten(), part.mul_(rows.a[some, None]).flatten())
    value = float(rows.a @ means)
    # Of sums, by the largest of their terms; of c itself, by the cost of the best plan and the shifts under it.
    error = rows.roundoffs * (float(rows.a @ largest) + abs(value)) + 8 * float(rows.a @ w.abs())
    return Nearest(means, used, value, UNIT * error)


def least(c: Tensor, a: Tensor, mass: float) -> tuple[Tensor, Tensor, Tensor]:
    """The smallest c of each row of (k, m), ascending, their places, and q of them: parts of the mass, of sum 1."""
    count = min(math.ceil(mass * len(a)) + 1, len(a))
    while True:
        values, index = c.topk(count, largest=False)
        held = a[index]
        before = held.cumsum(1).sub_(held)
        if count == len(a) or bool((before[:, -1] + held[:, -1] >= mass).all()):
            part = torch.minimum(held, (mass - before).clamp_(min=0))
            return values, index, part / part.sum(1, keepdim=True)
        count = min(2 * count, len(a))
