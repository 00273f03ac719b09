"""Newton's method on the smoothed semi-dual, with the smoothing eta shrinking from coarse to fine.

    v (n,) potential      g (n,) gradient b - mass      H (n, n) minus the Hessian, (diag - overlap) / eta

A coreset is small, so the Hessian is only n x n: a graph Laplacian in which two points are joined by the samples that
both of them want. Kept in float64, with the diagonal taken as the row sums of the off-diagonal part, it is positive
semi-definite whatever the rounding. See Kitagawa, Merigot, Thibert (2019) for damped Newton in the continuous case.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .engine import DenseEngine, SoftPass

SHRINK = 4.0  # eta divided by this at each stage: 2 is safer and slower, 8 needs more line search (measured)
STAGES = 16  # 4^16: more than float64 can tell apart
UNDECIDED = 10  # samples a point that should remain undecided between it and its neighbours
NEWTON_STEPS = 12  # a stage
HALVINGS = 8  # of one step
LOOSE = 0.5  # largest relative error of a point's mass at which a coarse stage hands over to the next
TIGHT = 0.05  # and the last stage of a level ends


@dataclass(frozen=True)
class Curvature:
    """A factorised Hessian: `solve(g)` is the Newton direction for the gradient g."""

    factor: Tensor
    eta: float

    @classmethod
    def of(cls, soft: SoftPass, eta: float) -> Curvature:
        """Factorise the Laplacian of one soft pass with a ridge of 1e-6 of its mean diagonal."""
        laplacian = -soft.overlap
        laplacian.fill_diagonal_(0)
        diagonal = -laplacian.sum(1)
        mean = diagonal.mean().clamp(min=torch.finfo(torch.float64).tiny)
        # Constants are the null space: mean / n on every entry lifts them. The ridge is for points that no sample
        # is undecided about; it starts where float64 still factorises and grows until it does.
        laplacian += mean / len(laplacian)
        for exponent in range(-6, 2):
            laplacian.diagonal().copy_(diagonal + mean / len(laplacian) + 10.0**exponent * mean)
            factor, failed = torch.linalg.cholesky_ex(laplacian)
            if not bool(failed):
                break
        return cls(factor, eta)

    def solve(self, g: Tensor) -> Tensor:
        """Newton direction H^-1 g, (n,), centred."""
        direction = torch.cholesky_solve(g[:, None] * self.eta, self.factor)[:, 0]
        return direction - direction.mean()


def relative_error(g: Tensor, b: Tensor) -> float:
    """Largest error of a point's mass relative to its weight. One starved point among many spoils a sharper stage."""
    return float((g.abs() / b).max())


def climb(engine: DenseEngine, v: Tensor, eta: float, target: float) -> tuple[Tensor, SoftPass]:
    """Newton steps at one eta until the relative mass error is below `target`; the potential and its soft pass."""
    b, rounding = engine.problem.b, engine.problem.rounding
    soft = engine.soft(v, eta)
    for _ in range(NEWTON_STEPS):
        g = b - soft.mass
        if relative_error(g, b) <= target:
            break
        direction = Curvature.of(soft, eta).solve(g)
        rise = 1e-4 * float(g @ direction)
        for halving in range(HALVINGS):
            scale = 0.5**halving
            trial = v + scale * direction
            trial_soft = engine.soft(trial, eta)
            if trial_soft.dual >= soft.dual + scale * rise - rounding:
                break
        else:
            break
        v, soft = trial, trial_soft
    return v, soft


def anneal(engine: DenseEngine, v: Tensor, eta: float, least: float) -> tuple[Tensor, SoftPass, float]:
    """Shrink eta until the softmin is as sharp as the number of samples allows, but not below `least`.

    Returns:
        The potential (n,), the soft pass at it, and the eta of that pass.
    """
    target = target_ambiguity(engine)
    for _ in range(STAGES):
        v, soft = climb(engine, v, eta, LOOSE)
        if soft.ambiguity <= 1.25 * target or eta <= least:
            break
        eta = max(least, next_eta(eta, soft.ambiguity, target))
    v, soft = climb(engine, v, eta, TIGHT)
    return v, soft, eta


def curvature_at(engine: DenseEngine, v: Tensor, eta: float, least: float) -> Curvature:
    """Curvature at a potential that is already good: eta is adjusted, the potential is not."""
    target = target_ambiguity(engine)
    for _ in range(STAGES):
        soft = engine.soft(v, eta)
        if 0.5 * target <= soft.ambiguity <= 2 * target or (eta <= least and soft.ambiguity > target):
            break
        eta = max(least, next_eta(eta, soft.ambiguity, target))
    return Curvature.of(soft, eta)


def target_ambiguity(engine: DenseEngine) -> float:
    """How undecided the softmin should remain.

    Two neighbouring points are joined only by samples that are undecided between them, so a Newton step needs some
    of these around every point: about UNDECIDED of them, which a sharper softmin than this would not leave.
    """
    problem = engine.problem
    return min(0.4, max(0.05, UNDECIDED * len(problem.x) / len(problem.y)))


def next_eta(eta: float, ambiguity: float, target: float) -> float:
    """The ambiguity is proportional to eta while that is small; one stage changes eta by at most SHRINK."""
    return eta * min(SHRINK, max(1 / SHRINK, target / max(ambiguity, 1e-12)))
