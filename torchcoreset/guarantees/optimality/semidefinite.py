"""A bound for up to some thousand rows from a semidefinite relaxation, for points of any weights.

    pi_i what is sent to point i, b_i its mass >= t      P = sum_i pi_i pi_i^T / b_i      D = diag(a)      s = sqrt(a)
    Z = D^-1/2 P D^-1/2      R (m, m) any matrix      c_kl = k c(y_k, y_l) + R_kl
    L = D^1/2 R D^1/2      S = (L + L^T) / 2

All cells together cost at least sum_kl P_kl k c(y_k, y_l). P has the row sums a, and P_kl <= a_k a_l / t, so that

    sum_kl P_kl c_kl >= sum_k a_k h_k,   h_k the mean of c_kl over the nearest mass t.

Z is positive semidefinite with trace <= n, and has the eigenvector s of its largest eigenvalue 1. Hence

    sum_kl P_kl R_kl = <S, Z> <= s^T S s + the n - 1 largest positive eigenvalues of S without its part along s,

and W_p^p is at least the difference, whatever R. ADMM finds R in float32; what it ends with is put into these two
formulas in float64, so that nothing rests on how far it has come.

    X in {Z s = s, 0 <= Z <= I, tr Z <= n}, symmetric      Y in {Y s = s, 0 <= Y_kl <= s_k s_l / t}      L for Y = X

Source: the relaxation is that of Peng and Wei (2007) for k-means; the bound on P is what equal weights add.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .pairs import least
from .rows import UNIT, Rows

STEPS = 30  # of ADMM; 20 gain most of what there is (measured)
# Of ADMM, in units of the bound by w; a third and thrice as much are behind after 20 steps on most tables (measured).
PENALTY = 0.1
LEAST = 1e-3  # of the mean cost between rows, below which that bound does not fall as a unit
RELAXATION = 1.6  # of ADMM
LOOK = 10  # steps between two certificates
ENOUGH = 1e-3  # relative gain between two certificates below which no more steps are made
NEWTON = 30  # most steps to a projection on row sums
SUMS = 1e-5  # relative error of row sums at which these end: float32 has no more


def semidefinite_bound(
    rows: Rows, size: int, mass: float, w: Tensor, other: float, steps: int = STEPS
) -> tuple[float, float]:
    """The best certificate for `size` points of at least this mass each, which may be 0, and what rounding took of it.

    R begins with the shift w (m,) of `pairs`, R_kl = w_k - w_l; `other` is the bound by that, a unit of costs.
    """
    costs = rows.costs(slice(0, len(rows)))
    s = rows.a.sqrt()
    shift = (w[:, None] - w).mul_(s[:, None] * s)
    best = certificate(rows, costs, shift, size, mass)
    unit = max(other, LEAST * float(rows.a @ costs @ rows.a))
    if not unit > 0 or size == 1:
        return best
    admm = Admm(rows.a, costs, shift, size, mass, unit)
    for step in range(LOOK, steps + LOOK, LOOK):
        for _ in range(min(LOOK, steps - step + LOOK)):
            admm.step()
        found = certificate(rows, costs, admm.multiplier.double() * unit, size, mass)
        gain = found[0] - best[0]
        if gain > 0:
            best = found
        if gain < ENOUGH * best[0]:
            break
    return best


def certificate(rows: Rows, costs: Tensor, multiplier: Tensor, size: int, mass: float) -> tuple[float, float]:
    """The bound that L (m, m) proves, less what rounding may have added to it, and that."""
    a, s = rows.a, rows.a.sqrt()
    norm = float(multiplier.norm())
    means, largest = torch.empty_like(a), torch.empty_like(a)
    for some in rows.blocks():
        c = (multiplier[some] / (s[some, None] * s)).add_(costs[some])
        if mass > 0:
            values, _, part = least(c, a, mass)
            means[some] = (part * values).sum(1)
            largest[some] = values.abs().where(part > 0, 0.0).amax(1)
        else:
            means[some] = c.amin(1)
            largest[some] = means[some].abs()
    along, others = deflated((multiplier + multiplier.T).div_(2), s)
    eigenvalues = torch.linalg.eigvalsh(others)
    few = min(size - 1, len(a))
    top = float(eigenvalues[len(a) - few :].clamp(min=0).sum())
    value = float(a @ means) - along - top
    # Computed eigenvalues are those of a matrix that is off by m unit roundoffs of its norm (Higham 2002, section 9);
    # 16 is for the constant. P and Z differ from their rounded forms by no more than that times |Z| <= sqrt(n).
    error = rows.roundoffs * (float(a @ largest) + abs(value) + abs(along) + top)
    error += (16.0 * len(a) * (few + 1) + 8 * math.sqrt(size)) * norm
    return value - UNIT * error, UNIT * error


def deflated(matrix: Tensor, s: Tensor) -> tuple[float, Tensor]:
    """s^T S s, and S without its part along the unit vector s: (I - s s^T) S (I - s s^T)."""
    image = matrix @ s
    along = s @ image
    image = image - s * (along / 2)
    return float(along), matrix - torch.outer(image, s) - torch.outer(s, image)


class Admm:
    """Alternating directions for L, in float32 and units of a typical bound."""

    def __init__(self, a: Tensor, costs: Tensor, multiplier: Tensor, size: int, mass: float, unit: float) -> None:
        s = a.sqrt()
        outer = s[:, None] * s
        self.size = size
        self.s = s.float()
        self.most = (outer / mass).float() if mass > 0 else None
        self.costs = (costs * outer).div_(unit).float()
        self.multiplier = (multiplier / unit).float()
        self.x = outer.float()
        self.along = torch.zeros_like(self.s)  # multipliers of the row sums

    def step(self) -> None:
        y = self._on_rows(self.x - (self.costs + self.multiplier).div_(PENALTY))
        y.mul_(RELAXATION).add_(self.x, alpha=1 - RELAXATION)
        target = (self.multiplier / PENALTY).add_(y)
        self.x = spectral_projection(target.add(target.T).div_(2), self.s, self.size)
        self.multiplier.add_(y.sub_(self.x), alpha=PENALTY)

    def _on_rows(self, v: Tensor) -> Tensor:
        """The nearest Y with row sums Y s = s and 0 <= Y <= most: clip(v - theta s), theta by safeguarded Newton."""
        s, most = self.s, self.most
        low = (((v - most) if most is not None else v - 1 / s[:, None]) / s).amin(1)
        high = (v / s).amax(1)
        theta = self.along
        for _ in range(NEWTON):
            free = v - theta[:, None] * s
            y = free.clamp(min=0)
            if most is not None:
                y = torch.minimum(y, most)
            excess = y @ s - s
            if float((excess.abs() / s).max()) <= SUMS:
                break
            slope = ((free > 0) & (free == y)).to(s.dtype) @ s.square()
            low, high = torch.where(excess > 0, theta, low), torch.where(excess > 0, high, theta)
            newton = theta + excess / slope
            theta = torch.where((newton > low) & (newton < high), newton, (low + high) / 2)
        self.along = theta
        return y


def spectral_projection(matrix: Tensor, s: Tensor, size: int) -> Tensor:
    """The nearest Z with Z s = s, 0 <= Z <= I and tr Z <= size: s s^T and cut eigenvalues across it."""
    _, others = deflated(matrix, s)
    eigenvalues, vectors = torch.linalg.eigh(others)
    kept = cut(eigenvalues, size - 1)
    some = kept > 0
    vectors = vectors[:, some]
    return torch.outer(s, s).addmm_(vectors * kept[some], vectors.T)


def cut(values: Tensor, total: float) -> Tensor:
    """clip(values - t, 0, 1) for the least t >= 0 at which the sum is at most `total`, by bisection."""
    low, high = 0.0, max(float(values.max()), 0.0)
    if float(values.clamp(0, 1).sum()) <= total:
        return values.clamp(0, 1)
    for _ in range(40):
        middle = (low + high) / 2
        if float((values - middle).clamp_(0, 1).sum()) > total:
            low = middle
        else:
            high = middle
    return (values - high).clamp_(0, 1)
