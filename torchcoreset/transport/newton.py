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

from .engine import Engine, SoftPass

SHRINK = 4.0  # eta divided by this at each stage: 2 is safer and slower, 8 needs more line search (measured)
STAGES = 16  # 4^16: more than float64 can tell apart
UNDECIDED = 10  # samples a point that should remain undecided between it and its neighbours
TRUST = 100.0  # etas that a potential may move in one step
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
    def of(cls, soft: SoftPass, eta: float, b: Tensor) -> Curvature:
        """Factorise the Laplacian of one soft pass, (n, n), for points of weights b (n,)."""
        laplacian = -soft.overlap
        laplacian.fill_diagonal_(0)
        diagonal = -laplacian.sum(1)
        # What no sample is undecided about would move without bound: a hundredth of its mass holds it back.
        diagonal = torch.maximum(diagonal, 0.01 * torch.maximum(b, soft.mass))
        mean = diagonal.mean()
        # Constants are the null space: mean / n on every entry lifts them. The ridge starts where float64 still
        # factorises and grows until it does.
        laplacian += mean / len(laplacian)
        for exponent in range(-6, 2):
            laplacian.diagonal().copy_(diagonal + mean / len(laplacian) + 10.0**exponent * mean)
            factor, failed = torch.linalg.cholesky_ex(laplacian)
            if not bool(failed):
                break
        return cls(factor, eta)

    def solve(self, g: Tensor) -> Tensor:
        """Newton direction H^-1 g, (n,), centred, and nowhere longer than the smoothing can be trusted to reach."""
        direction = torch.cholesky_solve(g[:, None] * self.eta, self.factor)[:, 0]
        direction = (direction - direction.mean()).clamp_(-TRUST * self.eta, TRUST * self.eta)
        return direction - direction.mean()


def relative_error(g: Tensor, b: Tensor) -> float:
    """Largest error of a point's mass relative to its weight. One starved point among many spoils a sharper stage.

    Weights far below the average count as a hundredth of it: nothing would be gained by getting those right.
    """
    return float((g.abs() / b.clamp(min=0.01 / len(b))).max())


def climb(
    engine: Engine, v: Tensor, eta: float, target: float, soft: SoftPass | None = None
) -> tuple[Tensor, SoftPass]:
    """Newton steps at one eta until the relative mass error is below `target`; the potential and its soft pass.

    `soft` is the pass at v and eta, if it has been made."""
    b, rounding = engine.problem.b, engine.problem.rounding
    soft = soft or engine.soft(v, eta)
    for _ in range(NEWTON_STEPS):
        g = b - soft.mass
        if relative_error(g, b) <= target or engine.exhausted():
            break
        direction = Curvature.of(soft, eta, b).solve(g)
        rise = 1e-4 * float(g @ direction)
        for halving in range(HALVINGS):
            scale = 0.5**halving
            trial = v + scale * direction
            trial_soft = engine.soft(trial, eta)
            if trial_soft.dual >= soft.dual + scale * rise - rounding:
                break
            if engine.exhausted():
                return v, soft
        else:
            break
        v, soft = trial, trial_soft
    return v, soft


def anneal(engine: Engine, v: Tensor, eta: float, least: float) -> tuple[Tensor, SoftPass, float]:
    """Shrink eta until the softmin is as sharp as the number of samples allows, but not below `least`.

    Returns:
        The potential (n,), the soft pass at it, and the eta of that pass.
    """
    target = target_ambiguity(engine)
    soft: SoftPass | None
    for _ in range(STAGES):
        v, soft = climb(engine, v, eta, LOOSE)
        if soft.ambiguity <= 1.25 * target or eta <= least or engine.exhausted():
            break
        eta = max(least, next_eta(eta, soft.ambiguity, target))
    else:
        soft = None
    v, soft = climb(engine, v, eta, TIGHT, soft)
    return v, soft, eta


def curvature_at(engine: Engine, v: Tensor, eta: float, least: float) -> Curvature:
    """Curvature at a potential that is already good: eta is adjusted, the potential is not."""
    target = target_ambiguity(engine)
    for _ in range(STAGES):
        soft = engine.soft(v, eta)
        if (
            0.5 * target <= soft.ambiguity <= 2 * target
            or (eta <= least and soft.ambiguity > target)
            or engine.exhausted()
        ):
            break
        eta = max(least, next_eta(eta, soft.ambiguity, target))
    return Curvature.of(soft, eta, engine.problem.b)


def target_ambiguity(engine: Engine) -> float:
    """How undecided the softmin should remain.

    Two neighbouring points are joined only by samples that are undecided between them, so a Newton step needs some
    of these around every point: about UNDECIDED of them, which a sharper softmin than this would not leave.
    """
    problem = engine.problem
    # Where points are so many that samples must be split, some ambiguity is the truth.
    split = 1 - float(torch.minimum(problem.a, problem.b.max()).sum())
    return max(1.1 * split, min(0.4, max(0.05, UNDECIDED * len(problem.x) / len(problem.y))))


def next_eta(eta: float, ambiguity: float, target: float) -> float:
    """The ambiguity is proportional to eta while that is small; one stage changes eta by at most SHRINK."""
    return eta * min(SHRINK, max(1 / SHRINK, target / max(ambiguity, 1e-12)))
