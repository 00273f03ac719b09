"""The running potential of a stream: stochastic Newton on the semi-dual of a distribution that is seen in batches.

    x (n, d) points, b (n,)      y (m, d) a batch, a (m,)      v (n,) potential      q (n,) mass of the batch's cells
    H (n, n) running average of gram / eta      eta smoothing of the curvature      age batches that are remembered

Each batch is evaluated at the potential of the previous batches, where its value and gradients are unbiased estimates
of those of D(v) <= W_p^p. Then the potential is updated by v += 3 / (age + 2) H^-1 (b - q).

Only the curvature is smoothed: the cells are hard, so the limit is the potential of the exact problem. Where atoms lie
on boundaries (`ties`), samples are shared within a tolerance that shrinks with the gain, and eta grows whenever the
potential lags. When the points have moved, v is first advected with them (`boundaries`): else each step of an optimizer
would unbalance the cells, and a falling gain would not catch up.

Source: Bercu, Bigot, Gadat, Siviero (2023), "A stochastic Gauss-Newton algorithm for regularized semi-discrete optimal
transport", Information and Inference 12 (1), 390-447. Differs from it in that the Hessian is averaged, not squares of
gradients, and only the Hessian is smoothed. The gain: Polyak and Juditsky (1992).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..dual import UNDECIDED, coarse_potential, eps_scaling
from ..passes import Engine
from ..problem import Problem
from .batch import FINE, BatchCells, Smoothed, effective_size, least_smoothing, part_of, repeated, scale_of
from .boundaries import boundaries_of, boundary_drift
from .state import Counters, StreamState

CURVATURE_DECAY = 0.8  # exponent of the age in the weight of a new curvature: below 1, so that it follows the points
LEAST_SOFTNESS = 0.05  # softness that the curvature's eta aims at once many samples have been seen
MOST_SOFTNESS = 0.4  # the same at first
ETA_CHANGE = 1.5  # most that eta changes by at one renewal
# The same where a potential lags and rows repeat: atoms give the smoothed dual no slope between two ties.
ETA_CHANGE_LAGGING = 4.0
LEAST_ETA = 1e-3  # of a first batch, in mean costs; below it atoms would let it shrink to nothing
LEAST_ETA_ATOMS = 0.05  # the same where rows repeat, in mean costs to the origin; later batches make it smaller
# The curvature is renewed when the age has grown by 1/16, and after 32 batches at the latest: a soft pass and a
# factorisation cost more than all else. Every 16 batches are no more accurate (measured).
RENEWAL_GROWTH = 1 / 16
RENEWAL_BATCHES = 32
LAG_LEVEL = 4.0  # standard deviations of the cells' mean masses from b, above which the potential is behind
LAG_EVERY = 4  # batches from one such test to the next
LAG_FROM = 8.0  # age above which the test is made
LAG_AGE = 4.0  # age to which the memory shrinks when it fails, or half of what it was if that is more


def begin(engine: Engine, points: Tensor, mean: float) -> StreamState:
    """The potential of a first batch, solved with a smoothing that depends on how many samples it has.

    `points` (n, d) are in the stream's own coordinates. The cost to the nearest point, `mean`, stands for the value
    until a second batch is measured.
    """
    problem = engine.problem
    zeros = torch.zeros_like(problem.b)
    v, gram, eta, softness, atoms = zeros, zeros.new_zeros(len(zeros), len(zeros)), 1.0, 1.0, 0.0
    if len(zeros) > 1:
        least = max(least_smoothing(engine), LEAST_ETA * mean)
        v, soft, eta = coarse_potential(engine, least)
        v, soft, eta = eps_scaling(engine.subsample(FINE * len(v)), v, eta, least)
        sample = part_of(engine)
        atoms, blunt = repeated(sample), LEAST_ETA_ATOMS * scale_of(problem)
        if atoms and eta < blunt:
            eta, soft = blunt, sample.soft(v, blunt)
        gram, softness = soft.gram, soft.softness
    anchor = _copied(points)
    v = v - problem.b @ v
    curvature = with_diagonal(gram / eta, problem.b / eta)
    coupling, pull = boundaries_of(curvature, v, anchor, problem.cost)
    size = effective_size(problem)
    counters = Counters(
        p=problem.cost.p, batches=1, samples=size, age=1, eta=eta, softness=softness, renewed=1,
        noise=0, mean=mean, square=0, mean_noise=0, lagged=0, forgetting=0, atoms=atoms,
    )  # fmt: skip
    return StreamState(
        potential=v, curvature=curvature, coupling=coupling, pull=pull, anchor=anchor,
        residual=zeros.clone(), overdue=zeros.clone(), counters=counters.to_tensor(v),
    )  # fmt: skip


def _copied(points: Tensor) -> Tensor:
    """Points to remember, which an optimizer does not write to, in the layout in which files keep them."""
    return points.to(torch.float64, copy=True, memory_format=torch.contiguous_format)


def advect(running: StreamState, points: Tensor, b: Tensor) -> StreamState | None:
    """The same after the points have moved: the potential that leaves the cells where they were, to first order.

    None where it is not finite, because potential, curvature or boundaries are not.
    """
    anchor = _copied(points)
    shift = anchor - running.anchor
    v = running.potential
    if len(v) > 1:
        wanted = boundary_drift(running.coupling, running.pull, running.anchor, shift)
        v = v + _step(running, wanted, running.numbers.width)
    offset = float(b @ v)
    if not math.isfinite(offset):
        return None
    return running.changed(potential=v - offset, anchor=anchor)


def advance(
    running: StreamState,
    problem: Problem,
    cells: BatchCells,
    renewal: Smoothed | None,
    raised: Tensor | None,
    forgetting: float,
) -> StreamState:
    """What is remembered after a batch, from its cells, whose means are those of all its samples.

    `running` was advected to the points of the batch. `renewal` renews the curvature, where that is due, and `raised`
    (n,) is the highest potential that leaves a cell empty, where that was asked for, else infinite. The gain is no less
    than `forgetting`.
    """
    now, b, size = running.numbers, problem.b, effective_size(problem)
    batches, samples = now.batches + 1, now.samples + size
    share = size * batches / samples  # of an average batch
    now = now._replace(batches=batches, samples=samples, age=now.age + share, forgetting=forgetting)
    if renewal is not None:
        running, now = _renewed(running, now, renewal, torch.maximum(b, cells.mass))
    gain = min(1.0, share * now.gain)
    excess = b - cells.mass
    v = running.potential
    if len(v) > 1:
        v = torch.add(v, _step(running, excess, now.width / gain), alpha=gain)
    if raised is not None:
        v = torch.where(raised.isfinite(), torch.maximum(v, raised), v)
    residual = running.residual.lerp(excess, gain)
    weight = 1.0 if now.batches == 2 else gain  # the first batch was measured at its own potential
    value, square = cells.moments.tolist()
    now = now._replace(
        noise=(1 - gain) ** 2 * now.noise + gain**2 / size,
        mean=now.mean + weight * (value - now.mean),
        square=now.square + weight * (square - now.square),
        mean_noise=(1 - weight) ** 2 * now.mean_noise + weight**2 / size,
    )
    tested = now.age > LAG_FROM and now.batches % LAG_EVERY == 0
    if tested and chi_square(residual, b, now.noise) > LAG_LEVEL:
        # The potential is behind: a larger gain, and a test that begins anew.
        residual = torch.zeros_like(residual)
        now = _younger(now, max(LAG_AGE, now.age / 2))._replace(lagged=now.batches)
    overdue = torch.add(running.overdue, b, alpha=size).masked_fill_(cells.mass > 0, 0.0)
    return running.changed(
        potential=v - b @ v, residual=residual, overdue=overdue, counters=now.to_tensor(v), numbers=now
    )


def forget(running: StreamState) -> StreamState:
    """The same with little weight on what has been, for a stream that has changed."""
    now = _younger(running.numbers, min(running.numbers.age, LAG_AGE))
    residual = torch.zeros_like(running.residual)
    return running.changed(residual=residual, counters=now.to_tensor(residual), numbers=now)


def chi_square(residual: Tensor, b: Tensor, noise: float) -> float:
    """Pearson's chi-square statistic of the cells' mean masses against b, in standard deviations of a normal.

    sum_i residual_i^2 / b_i / noise, made normal by the cube root of Wilson and Hilferty (1931). Steps that follow the
    residuals keep them smaller than those of independent samples, so that the test fails too seldom, never too often.
    0 as long as there are fewer samples than points.
    """
    kinds = len(b)
    if kinds < 2 or not 0 < noise * kinds < 1:
        return 0.0
    degrees = kinds - 1
    reciprocal = b.reciprocal()
    statistic, total = float(residual.square() @ reciprocal) / noise, float(reciprocal.sum())
    # Unequal weights and few samples spread it further than chi-square's 2 * degrees.
    variance = 2 * degrees + noise * max(0.0, total - kinds**2 - 2 * kinds + 2)
    spread = 2 / 9 * variance / (2 * degrees**2)
    cube_root: float = (statistic / degrees) ** (1 / 3)
    return (cube_root - (1 - spread)) / math.sqrt(spread)


def is_due(running: StreamState) -> bool:
    """Whether the next batch renews the curvature."""
    now = running.numbers
    return len(running.potential) > 1 and now.age + 1 >= min(
        now.renewed * (1 + RENEWAL_GROWTH), now.renewed + RENEWAL_BATCHES
    )


def _renewed(running: StreamState, now: Counters, renewal: Smoothed, mass: Tensor) -> tuple[StreamState, Counters]:
    """The curvature with that of a batch averaged in, and all that follows from it; mass (n,) is that of the points."""
    rate = min(1.0, max(1.0, now.age - now.renewed) / now.age**CURVATURE_DECAY)
    fresh = with_diagonal(renewal.soft.gram / now.eta, mass / now.eta)
    curvature = running.curvature.lerp(fresh, rate)
    change = 1.0
    if renewal.atoms and now.lagged == now.batches - 1:
        change = ETA_CHANGE_LAGGING
    elif renewal.softness is not None:
        target = min(MOST_SOFTNESS, max(LEAST_SOFTNESS, UNDECIDED * len(mass) / (now.age * now.typical)))
        change = min(ETA_CHANGE, max(1 / ETA_CHANGE, (target / max(renewal.softness, 1e-3)) ** 0.25))
    softness = now.softness if renewal.softness is None else renewal.softness
    now = now._replace(
        softness=now.softness + rate * (softness - now.softness),
        eta=max(renewal.least, min(now.eta * change, renewal.scale)),
        renewed=now.age,
        atoms=renewal.atoms,
    )
    coupling, pull = boundaries_of(curvature, running.potential, running.anchor, running.cost)
    return running.changed(curvature=curvature, coupling=coupling, pull=pull), now


def with_diagonal(gram: Tensor, diagonal: Tensor) -> Tensor:
    """A copy of `gram` (n, n) with another diagonal (n,)."""
    result = gram.clone()
    result.diagonal().copy_(diagonal)
    return result


def _step(running: StreamState, g: Tensor, width: float) -> Tensor:
    """H^-1 g, (n,), clipped to `width`, beyond which the quadratic model does not hold; not centred."""
    return running.solver(g).clamp_(-width, width)


def _younger(now: Counters, age: float) -> Counters:
    """Counters of another age; the curvature is due at once, and the test for a lag begins anew."""
    return now._replace(age=age, renewed=age / 2, noise=0.0)
