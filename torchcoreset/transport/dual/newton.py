"""Newton's method on the smoothed semi-dual, with eps scaling: eta shrinks from coarse to fine.

    v (n,) potential      g (n,) gradient b - mass      eta smoothing

The Hessian is n x n, and n is small. Source: Kitagawa, Merigot, Thibert (2019), damped Newton for semi-discrete
transport with a density. Differs from theirs in that the semi-dual is smoothed (samples have no density), and in that
points far from their weight take Sinkhorn's step first.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..passes import SmoothedCells, SoftEngine
from .hessian import Curvature, curvature_of
from .start import flow_start

SHRINK = 4.0  # most that eta shrinks by in a stage; 2 is safer and slower, 8 needs more halvings (measured)
STAGES = 26  # most stages: 4^26 is 2^52, more than float64 can tell apart
UNDECIDED = 10  # samples a point that stay undecided between it and its neighbours; with fewer the Hessian is noise
STEPS = 12  # most steps of a stage; beyond, the stage ends with the error it has
SINKHORN_FROM = 1.0  # |log(mass / b)| of the worst point above which Sinkhorn's step is tried before Newton's
SINKHORN_GAIN = 0.7  # factor by which that must shrink for another one
HALVINGS = 8  # most halvings of a step; beyond, the stage ends
FLOW_AFTER = 3  # Newton steps after which a stage whose error is still above FLOW_ABOVE starts from a flow
FLOW_ABOVE = 1.0  # relative mass error of a point, for the same
FLOW_POINTS = 4096  # points beyond which that flow would take longer than the steps
FLOW_PASSES = 10.0  # passes that must be left for it: it takes about as long
LOOSE = 0.5  # largest relative error of a point's mass at which a coarse stage hands over to the next
TIGHT = 0.05  # the same for the last stage of a level


def relative_error(g: Tensor, b: Tensor) -> float:
    """Largest error of a point's mass relative to its weight, or to a hundredth of the mean weight if that is more.

    The largest, and not the mean: a single point far below its weight makes the next, sharper stage fail.
    """
    return float((g.abs() / b.clamp(min=0.01 / len(b))).max())


def newton_steps(
    engine: SoftEngine,
    v: Tensor,
    eta: float,
    target: float,
    least_increase: float = 0.0,
    soft: SmoothedCells | None = None,
) -> tuple[Tensor, SmoothedCells]:
    """Steps at one eta until the relative mass error of each point is at most `target`: the potential and its soft
    pass.

    If max |log(mass / b)| > SINKHORN_FROM, Sinkhorn's step is taken while that shrinks by SINKHORN_GAIN: it never
    lowers the dual, and Newton's quadratic model is of no use that far from the weights. Newton's step is made only if
    it promises to raise the dual by `least_increase`. `soft` is the pass at v and eta, if it has been made.
    """
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
        affordable = engine.meter.limit - engine.meter.spent >= FLOW_PASSES
        if step == FLOW_AFTER and error > FLOW_ABOVE and len(b) <= FLOW_POINTS and affordable:
            start = flow_start(engine.problem, v)
            engine.renew(start, eta)
            found = engine.soft(start, eta)
            if relative_error(b - found.mass, b) < error:
                v, soft, before = start, found, math.inf
            elif engine.renew(v, eta):  # of its samples, a part of all, too few are at such points: the steps know more
                soft = engine.soft(v, eta)
        worst = log_mass_ratio(soft.mass, b)
        if SINKHORN_FROM < worst < SINKHORN_GAIN * before:
            v = v + eta * (b / soft.mass).log().clamp_(-engine.trust, engine.trust)
            soft, before = engine.soft(v, eta), worst
            continue
        before = math.inf
        step_made = newton_step(engine, v, eta, soft, least_increase)
        if step_made is None:
            break
        v, soft = step_made
    return v, soft


def has_failed(soft: SmoothedCells, b: Tensor) -> bool:
    """Whether the steps of a stage have left a point with twice its weight or more: a sharper stage would fail too."""
    return relative_error(b - soft.mass, b) > FLOW_ABOVE


def newton_step(
    engine: SoftEngine, v: Tensor, eta: float, soft: SmoothedCells, least_increase: float
) -> tuple[Tensor, SmoothedCells] | None:
    """A damped Newton step from v, whose pass is given: a higher potential and its pass, or None if there is none."""
    g = engine.problem.b - soft.mass
    direction = curvature_of(soft, eta, engine.problem.b).solve(g, engine.trust)
    promised = float(g @ direction)
    if promised / 2 <= least_increase:
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


def eps_scaling(
    engine: SoftEngine,
    v: Tensor,
    eta: float,
    least: float,
    target: float | None = None,
    error: float = TIGHT,
    least_increase: float | None = None,
) -> tuple[Tensor, SmoothedCells, float]:
    """Shrink eta until the softmin is as sharp as the number of samples allows, but not below `least`.

    Returns the potential (n,), the soft pass at it, and the eta of that pass. `target` is a softness to reach, if not
    the least that the samples allow, and `error` the relative error of the mass of each point at the end, unless the
    step to it promises less than `least_increase`, which is `least` if None. A stage that `has_failed` is the last.
    """
    target = target or target_softness(engine)
    soft: SmoothedCells | None
    for _ in range(STAGES):
        v, soft = newton_steps(engine, v, eta, LOOSE, least)
        if has_failed(soft, engine.problem.b):
            return v, soft, eta
        if soft.softness <= 1.25 * target or eta <= least or engine.exhausted():
            break
        eta = max(least, next_eta(eta, soft.softness, target))
    else:
        soft = None
    v, soft = newton_steps(engine, v, eta, error, least if least_increase is None else least_increase, soft)
    return v, soft, eta


def tune_eta(engine: SoftEngine, v: Tensor, eta: float, least: float) -> Curvature:
    """The curvature at v, with eta such that the softness is within a factor of 2 of its target; v stays."""
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
    """The softness at which about UNDECIDED samples a point are undecided: the Hessian comes from those alone."""
    problem = engine.problem
    # Where points are so many that samples must be split, some softness is the truth.
    split = 1 - float(torch.minimum(problem.a, problem.b.max()).sum())
    return max(1.1 * split, min(0.4, max(0.05, UNDECIDED * len(problem.x) / problem.count)))


def next_eta(eta: float, softness: float, target: float) -> float:
    """The eta for a softness: its odds are about proportional to eta. Changes by SHRINK at most."""
    sought, found = (part / max(1 - part, 1e-12) for part in (target, softness))
    return eta * min(SHRINK, max(1 / SHRINK, sought / max(found, 1e-12)))
