"""Entropic transport solved to a stated marginal error: Newton between points and samples, Chebyshev within a set.

    x (n, d) points, b (n,)      y (m, d) samples, a (m,)      v (n,) potential      eta regularisation

Between points and samples the smoothed semi-dual is maximised by the steps of `dual.newton`, with eta falling from the
scale of the data to the value asked for. They converge quadratically; Sinkhorn's iteration needs about cost / eta
steps.

Of a set with itself both potentials are equal, the fixed point of the soft c-transform T. Its Jacobian is minus a
Markov kernel K, similar to exp(-c / eta), which is positive definite for 1 <= p <= 2 (Schoenberg 1938). So the residual
T f - f is driven by I + K with a spectrum in [1, 2], whatever eta is. Chebyshev's iteration on that interval gains a
factor of 5.8 a pass; averaging f and T f, the usual remedy, gains 2.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from ..costs import Cost
from ..dual import LOOSE, coarse_potential, newton_steps
from ..passes import Engine, SmoothedCells, make_engine
from ..problem import Problem, as_float64
from ..reductions import extend, restrict
from ..result import Status
from ..solve import solve
from .evaluation import Entropic, cost_blocks, evaluate

SHRINK = 4.0  # of eta from one stage to the next
FINE = 100  # samples a point in the last subsample
SHARP, SHARP_GAP = 1e-3, 1e-6  # eta, of the scale of the costs, below which the start is an exact plan to this gap
WARM = 20  # passes that a start is given to lead somewhere
STRIDE, HALVINGS = 4.0, 8  # etas that a potential may move in one sharp step, and halvings of it
ROUNDING = 1e-14  # of a marginal in float64: a smaller error cannot be seen
CENTRE, RADIUS = 1.5, 0.5  # of the spectrum of I + K


def solve_entropic(
    problem: Problem, eta: float, *, tolerance: float, start: Tensor | None, max_steps: int, engine: str = "auto"
) -> Entropic:
    """Maximise the semi-dual of OT_eta between points and samples, in float64; the status says how it ended.

    Args:
        tolerance: total variation distance between the plan's column sums and b to stop at. Where eta exceeds the
            costs, the potential is asked to be as accurate as the plan, which the column sums alone would not show.
        start: (n,) potential to start from, such as that of nearby points at the same eta.
        max_steps: bound on the passes over all samples.
        engine: as in `transport`; Newton's passes use it, the last pass is dense.
    """
    problem = as_float64(problem)
    support = problem.b > 0
    inner = problem if bool(support.all()) else restrict(problem, support)
    v = None if start is None else start[support].double()
    target = marginal_target(problem, eta, tolerance)
    v, steps, status = _newton(inner, v, eta, target, max_steps, engine)
    return evaluate(problem, extend(v, support, 0.0), eta, steps=steps, status=status)


def self_entropic(
    x: Tensor, b: Tensor, cost: Cost, eta: float, *, tolerance: float, max_steps: int, equal: bool = False
) -> Entropic:
    """OT_eta of a set x (n, d) of weights b (n,) with itself, at the symmetric potential; the set is points and
    samples.

    `tolerance` is a marginal error, as in `solve_entropic`, and each of at most `max_steps` passes takes n x n costs.
    """
    problem = as_float64(Problem(x=x, b=b, y=x, a=b, equal=equal, cost=cost))
    target = marginal_target(problem, eta, tolerance)
    plan = evaluate(problem, torch.zeros_like(b), eta)
    f, step, ratio, best = plan.transform / 2, None, RADIUS / CENTRE, math.inf
    for passes in range(1, max_steps + 1):
        plan = evaluate(problem, f, eta, steps=passes)
        if plan.marginal_error <= target:
            return plan
        # A constant added to f comes back with its sign changed and means nothing: residuals are centred.
        residual = plan.transform - plan.potential - b @ plan.transform
        if plan.marginal_error > 2 * best:  # far from the fixed point the linear theory may fail: averaging does not
            f, step, ratio, best = plan.potential + residual / 2, None, RADIUS / CENTRE, plan.marginal_error
            continue
        best = min(best, plan.marginal_error)
        if step is None:
            step = residual / CENTRE
        else:
            following = 1 / (2 * CENTRE / RADIUS - ratio)
            step, ratio = following * (ratio * step + 2 / RADIUS * residual), following
        f = plan.potential + step
    return replace(plan, status=Status.MAX_STEPS)


def _newton(
    problem: Problem, v: Tensor | None, eta: float, target: float, max_steps: int, engine: str
) -> tuple[Tensor, int, Status]:
    """A potential whose mass error is below `target`, the passes it took, and why it went no further."""
    if len(problem.x) == 1:
        return torch.zeros_like(problem.b), 0, Status.CONVERGED
    whole = make_engine(problem, engine)
    meter, warm = whole.meter, v is not None
    if eta < SHARP * cost_scale(problem):
        # Too sharp for curvature to lead there from afar: the potential of the exact plan is within a few eta.
        exact = solve(problem, tolerance=SHARP_GAP, exact=False, start=v, max_steps=max_steps, engine=engine)
        v, warm = exact.potential, False
        meter.spent += exact.steps
    elif v is None:
        v = _approach(whole, eta, max_steps)
    meter.limit = min(max_steps, WARM) if warm else max_steps
    v, error = _ascend(whole, v, eta, target)
    if warm and not error <= target:  # a start that leads nowhere is worth no more than none
        v = _approach(whole, eta, max_steps)
        meter.limit = max_steps
        v, error = _ascend(whole, v, eta, target)
    steps = math.ceil(meter.spent - 1e-9)
    if error <= target:
        return v, steps, Status.CONVERGED
    return v, steps, Status.MAX_STEPS if whole.exhausted() else Status.STALLED


def _ascend(whole: Engine, v: Tensor, eta: float, target: float) -> tuple[Tensor, float]:
    """Newton steps at one eta until the marginal error is below `target`; the potential, and its error."""
    v, soft = newton_steps(whole, v, eta, target)
    error, risen = _error(soft, whole.problem), True
    while error > target and risen and not whole.exhausted():
        # `newton_steps` damps its curvature, which comes from undecided samples. Where the plan is
        # sharp the last digits need all of it.
        v, soft, risen = _sharp_step(whole, v, soft, eta)
        error = _error(soft, whole.problem)
    return v, error


def _error(soft: SmoothedCells, problem: Problem) -> float:
    """Total variation distance between the column sums and the weights."""
    return float((soft.mass - problem.b).abs().sum()) / 2


def _sharp_step(engine: Engine, v: Tensor, soft: SmoothedCells, eta: float) -> tuple[Tensor, SmoothedCells, bool]:
    """One Newton step with the whole curvature; the potential, its pass, and whether it is any better."""
    problem = engine.problem
    g = problem.b - soft.mass
    laplacian = torch.zeros(len(v), len(v), dtype=torch.float64, device=v.device)
    for rows, cost in cost_blocks(problem):
        share = torch.softmax((v + problem.b.log() * eta - cost) / eta, 1)
        laplacian.addmm_(share.t() * problem.a[rows], share, alpha=-1)
    engine.meter.spent += 1
    laplacian.fill_diagonal_(0)
    # Row sums of what joins two points: 1 - share^2 would have lost all digits where a share is nearly 1.
    diagonal = -laplacian.sum(1)
    floor = 1e-12 * problem.b.mean()
    laplacian.diagonal().copy_(diagonal + floor)
    laplacian += float(diagonal.mean()) / len(v)  # lifts the constants, which are the null space
    factor, failed = torch.linalg.cholesky_ex(laplacian)
    if bool(failed):
        return v, soft, False
    direction = eta * torch.cholesky_solve(g[:, None], factor)[:, 0]
    direction -= direction.mean()
    direction *= min(1.0, STRIDE * eta / max(float(direction.abs().max()), torch.finfo(torch.float64).tiny))
    best = _error(soft, problem)
    for halving in range(HALVINGS):
        trial = v + 0.5**halving * direction
        trial_soft = engine.soft(trial, eta)
        if _error(trial_soft, problem) < best or trial_soft.dual > soft.dual + problem.rounding:
            return trial, trial_soft, True
        if engine.exhausted():
            break
    return v, soft, False


def _approach(whole: Engine, eta: float, max_steps: int) -> Tensor:
    """A cold start: eta falls from the scale of the data on few points and samples, then on more."""
    whole.meter.limit = max_steps / 4
    v, _, current = coarse_potential(whole, eta)
    for engine in (whole.subsample(FINE * len(v)), whole):
        whole.meter.limit = max_steps if engine is whole else max_steps / 2
        while True:
            v, _ = newton_steps(engine, v, max(eta, current), LOOSE)
            if current <= eta or engine.exhausted():
                break
            current /= SHRINK
        if engine is whole:
            break
    return v


def marginal_target(problem: Problem, eta: float, tolerance: float) -> float:
    """The marginal error to stop at. Potentials err by eta times it, so it is smaller where eta exceeds the costs."""
    return max(tolerance * min(1.0, cost_scale(problem) / eta), ROUNDING)


def cost_scale(problem: Problem) -> float:
    """A bound on the mean cost, of its order: that of the length whose square is `problem.spread`."""
    return problem.cost.of_square(problem.spread)
