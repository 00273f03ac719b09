"""Newton's method on the smoothed semi-dual, with the smoothing eta shrinking from coarse to fine.

    v (n,) potential      g (n,) gradient b - mass      eta smoothing

A coreset is small, so the Hessian is only n x n. See Kitagawa, Merigot, Thibert (2019) for damped Newton in the
continuous case.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..passes import SmoothedCells, SoftEngine
from .hessian import Curvature, curvature_of
from .start import flow_start

SHRINK = 4.0  # eta divided by this at each stage: 2 is safer and slower, 8 needs more line search (measured)
STAGES = 26  # 4^26 is 2^52: more than float64 can tell apart
UNDECIDED = 10  # samples a point that should remain undecided between it and its neighbours
STEPS = 12  # a stage
STARVED = 1.0  # |log(mass / b)| of the worst point from which Sinkhorn's step is taken
HALVINGS = 8  # of one step
PATIENCE, LOST = 3, 1.0  # steps after which a relative mass error above this will not go away by itself
TANGLED = 4096  # points up to which excess is moved explicitly instead
UNTANGLING = 10.0  # passes that must be left for it, since it takes as long as many
LOOSE = 0.5  # largest relative error of a point's mass at which a coarse stage hands over to the next
TIGHT = 0.05  # and the last stage of a level ends


def relative_error(g: Tensor, b: Tensor) -> float:
    """Largest error of a point's mass relative to its weight. One starved point among many spoils a sharper stage.

    Weights far below the average count as a hundredth of it: nothing would be gained by getting those right.
    """
    return float((g.abs() / b.clamp(min=0.01 / len(b))).max())


def newton_steps(
    engine: SoftEngine, v: Tensor, eta: float, target: float, enough: float = 0.0, soft: SmoothedCells | None = None
) -> tuple[Tensor, SmoothedCells]:
    """Steps at one eta until the relative mass error is below `target`; the potential and its soft pass.

    A Newton step that promises to raise the dual by no more than `enough` is not made.

    Newton's, but for points that get a small part or a multiple of their weight, of which its quadratic model knows
    nothing: those are first helped by Sinkhorn's step, which never lowers the dual, as long as that helps quickly.

    `soft` is the pass at v and eta, if it has been made."""
    b = engine.problem.b
    if soft is None:
        engine.renew(v, eta)
        soft = engine.soft(v, eta)
    before = math.inf
    for step in range(STEPS):
        error = relative_error(b - soft.mass, b)
        if error > target and engine.renew(v, eta):  # at the end, the next stage makes shorter lists
            soft = engine.soft(v, eta)
            error = relative_error(b - soft.mass, b)
        if error <= target or engine.exhausted():
            break
        affordable = engine.meter.limit - engine.meter.spent >= UNTANGLING
        if step == PATIENCE and error > LOST and len(b) <= TANGLED and affordable:
            v = flow_start(engine.problem, v)
            engine.renew(v, eta)
            soft, before = engine.soft(v, eta), math.inf
        worst = log_mass_ratio(soft.mass, b)
        if STARVED < worst < 0.7 * before:
            v = v + eta * (b / soft.mass).log().clamp_(-engine.trust, engine.trust)
            soft, before = engine.soft(v, eta), worst
            continue
        before = math.inf
        found = newton_step(engine, v, eta, soft, enough)
        if found is None:
            break
        v, soft = found
    return v, soft


def newton_step(
    engine: SoftEngine, v: Tensor, eta: float, soft: SmoothedCells, enough: float
) -> tuple[Tensor, SmoothedCells] | None:
    """A damped Newton step from v, whose pass is given: a higher potential and its pass, or None if there is none."""
    g = engine.problem.b - soft.mass
    direction = curvature_of(soft, eta, engine.problem.b).solve(g, engine.trust)
    promised = float(g @ direction)
    if promised / 2 <= enough:
        return None
    for halving in range(HALVINGS):
        scale = 0.5**halving
        trial = v + scale * direction
        trial_soft = engine.soft(trial, eta)
        if trial_soft.dual >= soft.dual + 1e-4 * scale * promised - engine.problem.rounding:
            return trial, trial_soft
        if engine.exhausted():
            break
    return None


def log_mass_ratio(mass: Tensor, b: Tensor) -> float:
    """Largest |log(mass / b)| among the points of some weight."""
    some = b > 0.01 / len(b)
    return float((mass[some] / b[some]).log_().abs_().max())


def anneal(
    engine: SoftEngine, v: Tensor, eta: float, least: float, target: float | None = None, error: float = TIGHT
) -> tuple[Tensor, SmoothedCells, float]:
    """Shrink eta until the softmin is as sharp as the number of samples allows, but not below `least`.

    Args:
        engine: passes over the samples.
        v: (n,) potential to start from.
        eta: smoothing to start from.
        least: bound of the smoothing.
        target: softness to reach, if not the least that the samples allow.
        error: relative, of the mass of each point, at the end.

    Returns:
        The potential (n,), the soft pass at it, and the eta of that pass.
    """
    target = target or target_softness(engine)
    soft: SmoothedCells | None
    for _ in range(STAGES):
        v, soft = newton_steps(engine, v, eta, LOOSE, least)
        if soft.softness <= 1.25 * target or eta <= least or engine.exhausted():
            break
        eta = max(least, next_eta(eta, soft.softness, target))
    else:
        soft = None
    v, soft = newton_steps(engine, v, eta, error, least, soft)
    return v, soft, eta


def settle(engine: SoftEngine, v: Tensor, eta: float, least: float) -> Curvature:
    """Curvature at a potential that is already good: eta is adjusted, the potential is not."""
    target = target_softness(engine)
    for _ in range(STAGES):
        engine.renew(v, eta)
        soft = engine.soft(v, eta)
        if (
            0.5 * target <= soft.softness <= 2 * target
            or (eta <= least and soft.softness > target)
            or engine.exhausted()
        ):
            break
        eta = max(least, next_eta(eta, soft.softness, target))
    return curvature_of(soft, eta, engine.problem.b)


def target_softness(engine: SoftEngine) -> float:
    """How undecided the softmin should remain.

    Two neighbouring points are joined only by samples that are undecided between them, so a Newton step needs some
    of these around every point: about UNDECIDED of them, which a sharper softmin than this would not leave.
    """
    problem = engine.problem
    # Where points are so many that samples must be split, some softness is the truth.
    split = 1 - float(problem.totals(torch.minimum(problem.a, problem.b.max()).sum()))
    return max(1.1 * split, min(0.4, max(0.05, UNDECIDED * len(problem.x) / problem.count)))


def next_eta(eta: float, softness: float, target: float) -> float:
    """The odds of a sample's going elsewhere are about proportional to eta; one stage changes it by at most SHRINK."""
    sought, found = (part / max(1 - part, 1e-12) for part in (target, softness))
    return eta * min(SHRINK, max(1 / SHRINK, sought / max(found, 1e-12)))
