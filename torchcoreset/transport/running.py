"""The running potential of a stream: stochastic Newton on the semi-dual of a distribution that is seen in batches.

    x (n, d) points, b (n,)      y (m, d) a batch, a (m,)      v (n,) potential      q (n,) mass of the batch's cells
    H (n, n) running average of overlap / eta      eta smoothing of the curvature      age batches that are remembered

The semi-dual of a distribution is the mean of those of its batches. At a potential that a batch has had no part in,
the batch's value and gradients are therefore unbiased: those of D(v) <= W_p^p, which is W_p^p at the best v. Each batch
is first measured at the potential of those before it, and then moves it by

    v += 3 / (age + 2) H^-1 (b - q).

Only the curvature is smoothed. The cells are hard, so that the limit is the potential of the exact problem. Where atoms
lie on their boundaries (`ties`), the samples there are shared within a margin that shrinks like the gain; a smoothing
that is too sharp for the steps which the potential has to make then grows with each sign of a lag. When the
points have moved since the last batch, v first moves with them (`boundaries`): else every step of an optimizer would
throw the cells out of balance again, and points at a constant rate would outrun a gain that falls.

What a batch contributes is in `BatchSums`, of size n and n x n; parts of one batch contribute the weighted means of
theirs. Measured on N(0, 1), n = 10, batches of 20, points by SGD: see CHANGELOG.

Source: Bercu, Bigot, Gadat, Siviero (2023), "A stochastic Gauss-Newton algorithm for regularized semi-discrete optimal
transport", Information and Inference 12 (1), 390-447: second-order steps on a running curvature. They average squares
of gradients, of a smoothed dual; here it is the Hessian that is averaged, and only it is smoothed. The gain: Polyak and
Juditsky (1992).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from .boundaries import Boundaries, boundaries, carried
from .cost import assigned, paired_gradient
from .curvature import HELD, Factorised
from .engine import Engine, SoftPass
from .idle import ceiling
from .multiscale import coarse_potential
from .newton import UNDECIDED, anneal
from .problem import Problem
from .result import Coupling
from .ties import distinct, shared

GAIN = 3.0  # the gain is GAIN / (age + GAIN - 1): averages in which later batches weigh more, as age^(GAIN - 1)
CURVATURE_DECAY = 0.8  # of the rate at which the averaged curvature is renewed: it follows the points
FINE = 50  # samples a point that a curvature is computed from, at most
SHARPEST, BLUNTEST = 0.05, 0.4  # ambiguity of the curvature's softmin, once many samples have been seen and at first
SHARPEN = 1.5  # factor by which eta may change at once
BLUNT = 4.0  # the same where a potential lags that atoms shape: they lend the smoothed dual no slope between two ties
# Least eta of a first batch, which atoms would let shrink to nothing: of the mean cost, and where rows repeat, of the
# cost to the origin: later batches sharpen what it is too blunt for.
COARSEST, ATOMIC = 1e-3, 0.05
TIED = 4.0  # samples are tied within this times gain times eta, about as far as the potential steps
REPEATED = 0.05  # least mass of repeated rows from which a stream has atoms
FREE = 1 / 16  # least mass without ties from which it is worth to see how undecided that is
# The curvature is renewed when the age has grown by a part of this, and at least every so many batches: a soft pass and
# a factorisation cost more than all else. Every 16 batches in place of 32 is no more accurate (measured).
PART, SELDOM = 16, 32
FEW = 128  # points up to which a product with an inverse, a fifth of the time of a solve, is worth the inversion
LEAST = 1e-24  # eta where all points and samples are one: its reciprocal and the square of that are no overflow
OVERDUE = 8.0  # samples, beyond log n, that an empty cell should have received before it is raised to the nearest one
SURPRISE = 4.0  # standard deviations of the cells' mean masses from b that no unbiased potential shows
EVERY = 4  # batches the test for that is made
YOUNG, OLD_ENOUGH = 4.0, 8.0  # age to which surprises take it back, and from which on they count


class Counters(NamedTuple):
    """The numbers among what is remembered.

    Attributes:
        p: power of the cost.
        batches: all that came.
        samples: the number of equally weighted samples that all batches are worth.
        age: batches remembered; one of average size counts as 1.
        eta: smoothing of the curvature.
        ambiguity: running mean mass that a sample sends beyond its first point at that eta.
        renewed: age at which the curvature was last renewed.
        noise: variance of the mean `residual`, in units of that of one sample.
        mean, square: running means of the samples' part in the semi-dual, and of its square.
        mean_noise: variance of `mean`, in units of that of one sample.
        lagged: number of the last batch that showed the potential to be behind, or 0.
        forgetting: least weight of a batch of average size.
        atoms: mass of the samples that were repeated when the curvature was last renewed; 0 where hardly any were.
    """

    p: float
    batches: float
    samples: float
    age: float
    eta: float
    ambiguity: float
    renewed: float
    noise: float
    mean: float
    square: float
    mean_noise: float
    lagged: float
    forgetting: float
    atoms: float = 0.0  # states of before have none

    def to_tensor(self, like: Tensor) -> Tensor:
        """All of them, float64 on a device."""
        return like.new_tensor(self, dtype=torch.float64)

    @classmethod
    def from_tensor(cls, tensor: Tensor) -> Counters:
        """The same back, in one transfer."""
        return cls(*tensor.tolist())

    @property
    def typical(self) -> float:
        """Samples of an average batch."""
        return self.samples / self.batches

    @property
    def gain(self) -> float:
        """Weight of a batch of average size."""
        return max(GAIN / (self.age + GAIN - 1), self.forgetting)

    @property
    def width(self) -> float:
        """By how much c - v differs across a cell, roughly: the ambiguity is proportional to eta."""
        return self.eta / max(self.ambiguity, 1e-3)

    @property
    def margin(self) -> float:
        """Differences in c - v up to here are ties; 0 where the stream has no atoms."""
        return TIED * self.gain * self.eta if self.atoms else 0.0


@dataclass(frozen=True, kw_only=True)
class Running:
    """What is remembered of a stream: float64 tensors, which are replaced and never written to.

    Attributes:
        potential: (n,) v, centred.
        curvature: (n, n) running average of overlap / eta, with max(b, q) / eta on the diagonal.
        coupling: (n, n) and
        pull: (n, d), how the cells' boundaries move with the points: see `Boundaries`.
        anchor: (n, d) the points that v belongs to.
        residual: (n,) running mean of b - q.
        overdue: (n,) samples that a cell should have received since it last received one.
        counters: see `Counters`.
    """

    potential: Tensor
    curvature: Tensor
    coupling: Tensor
    pull: Tensor
    anchor: Tensor
    residual: Tensor
    overdue: Tensor
    counters: Tensor

    @cached_property
    def numbers(self) -> Counters:
        """The counters by name."""
        return Counters.from_tensor(self.counters)

    @cached_property
    def solver(self) -> Callable[[Tensor], Tensor]:
        """Solves with the curvature: a function of the curvature alone, so that a copy goes on bit by bit."""
        factor = Factorised(self.curvature, 1.0, HELD * self.curvature.diagonal())
        return factor.inverse().mv if len(self.potential) <= FEW else factor.solution

    def fits(self, points: Tensor, p: float) -> bool:
        """Whether it is of as many points, and of this dimension and power."""
        n = len(points)
        return (
            self.anchor.shape == points.shape
            and self.potential.shape == self.residual.shape == self.overdue.shape == (n,)
            and self.curvature.shape == self.coupling.shape == (n, n)
            and self.pull.shape == points.shape
            and len(Counters._fields) - len(Counters._field_defaults) <= len(self.counters) <= len(Counters._fields)
            and self.numbers.p == p
        )


@dataclass(frozen=True, kw_only=True)
class Look:
    """A batch at the running potential: the cells of the samples here, and means over them.

    Attributes:
        cell: (m,) int64 point in whose cell each sample lies.
        transform: (m,) its c - v there.
        mass: (n,) of the cells, or what the points receive of `plan`.
        gradient: (n, d) of `value` in the points.
        value, square: 0-d, means of `transform` and of its square.
        plan: how the samples are shared where some are tied; None where each goes to its cell.
    """

    cell: Tensor
    transform: Tensor
    mass: Tensor
    gradient: Tensor
    value: Tensor
    square: Tensor
    plan: Coupling | None = None


@dataclass(frozen=True, kw_only=True)
class Smoothed:
    """What renews the curvature.

    Attributes:
        soft: pass over a part of the samples.
        ambiguity: of those that are not tied, or None if hardly any is not.
        atoms: as in `Counters`.
        scale: mean cost to the origin, beyond which no smoothing makes sense.
    """

    soft: SoftPass
    ambiguity: float | None
    atoms: float
    scale: float


@dataclass(frozen=True, kw_only=True)
class BatchSums:
    """What a batch tells of the semi-dual: all that is needed to move the potential.

    Attributes:
        worth: number of equally weighted samples that the batch is worth (Kish), by which sums are to be weighted.
        value: the semi-dual.
        square: mean square of the samples' part in it.
        mass: (n,) of the cells.
        ceiling: (n,) highest potential that leaves a cell empty, where that was asked for, else infinite.
        renewal: what renews the curvature; None where it is not due.
    """

    worth: float
    value: float
    square: float
    mass: Tensor
    ceiling: Tensor | None
    renewal: Smoothed | None


def begin(engine: Engine, points: Tensor, mean: float) -> Running:
    """The potential of a first batch, solved with a smoothing that depends on how many samples it has.

    Args:
        engine: passes over the batch.
        mean: cost to the nearest point, which stands for the value until a second batch is measured.
        points: (n, d) in the stream's own coordinates.
    """
    problem = engine.problem
    zeros = torch.zeros_like(problem.b)
    v, overlap, eta, ambiguity, atoms = zeros, zeros.new_zeros(len(zeros), len(zeros)), 1.0, 1.0, 0.0
    if len(zeros) > 1:
        least = max(least_smoothing(engine), COARSEST * mean)
        v, soft, eta = coarse_potential(engine, least)
        v, soft, eta = anneal(engine.subsample(FINE * len(v)), v, eta, least)
        sample = part_of(engine)
        atoms, blunt = repeated(sample), ATOMIC * scale_of(problem)
        if atoms and eta < blunt:
            eta, soft = blunt, sample.soft(v, blunt)
        overlap, ambiguity = soft.overlap, soft.ambiguity
    anchor = _copied(points)
    v = v - problem.b @ v
    curvature = with_diagonal(overlap / eta, problem.b / eta)
    walls = boundaries(curvature, v, anchor, problem.p)
    worth = worth_of(problem)
    counters = Counters(
        p=problem.p, batches=1, samples=worth, age=1, eta=eta, ambiguity=ambiguity, renewed=1,
        noise=0, mean=mean, square=0, mean_noise=0, lagged=0, forgetting=0, atoms=atoms,
    )  # fmt: skip
    return Running(
        potential=v, curvature=curvature, coupling=walls.coupling, pull=walls.pull, anchor=anchor,
        residual=zeros.clone(), overdue=zeros.clone(), counters=counters.to_tensor(v),
    )  # fmt: skip


def _copied(points: Tensor) -> Tensor:
    """Points to remember, which an optimizer does not write to, in the layout in which files keep them."""
    return points.to(torch.float64, copy=True, memory_format=torch.contiguous_format)


def moved(running: Running, points: Tensor, b: Tensor) -> Running | None:
    """The same after the points have moved: the potential that leaves the cells where they were, to first order.

    None where it is not finite, because potential, curvature or boundaries are not.
    """
    anchor = _copied(points)
    shift = anchor - running.anchor
    v = running.potential
    if len(v) > 1:
        wanted = carried(Boundaries(running.coupling, running.pull), running.anchor, shift)
        v = v + _step(running, wanted, running.numbers.width)
    offset = float(b @ v)
    if not math.isfinite(offset):
        return None
    return _knowing(replace(running, potential=v - offset, anchor=anchor), running, running.numbers)


def look_at(engine: Engine, v: Tensor, margin: float = 0.0) -> Look:
    """The cells of the samples here at a centred potential (n,), those tied within the margin shared if it is not 0."""
    if margin:
        cells, plan = shared(engine, v, margin)
        return _look(engine, v, cells.cell, plan)
    return _look(engine, v, engine.nearest(v), None)


def _look(engine: Engine, v: Tensor, cell: Tensor, plan: Coupling | None) -> Look:
    """What these cells (m,) show, or the plan that shares some of their samples."""
    problem = engine.problem
    y, x, a, p = problem.y, problem.x, problem.a, problem.p
    transform, gradient = assigned(y, x, a, cell, p, engine.rows, each=problem.each)
    transform -= v.index_select(0, cell)
    if plan is None:
        mass = engine.cell_mass(cell)
    else:
        mass, gradient = plan.column_sums(), torch.zeros_like(gradient)
        for rows, cols, part in plan.blocks():
            gradient.index_add_(0, cols, paired_gradient(y[rows], x[cols], p).mul_(part[:, None]))
    return Look(
        cell=cell, transform=transform, mass=mass, gradient=gradient,
        value=problem.mean(transform), square=problem.mean(transform * transform), plan=plan,
    )  # fmt: skip


def smoothed(engine: Engine, running: Running) -> Smoothed:
    """The smoothed cells of a batch that renews the curvature, and how many of its samples are repeated."""
    now, v = running.numbers, running.potential
    sample = part_of(engine)
    atoms = repeated(sample)
    problem, soft = sample.problem, sample.soft(v, now.eta)
    ambiguity: float | None = soft.ambiguity
    if atoms:  # a sharper softmin decides nothing for samples that are tied
        free = sample.hard(v).slack > TIED * now.gain * now.eta
        left = problem.a[free].sum()
        ambiguity = None
        if float(left) > FREE:
            rest = replace(problem, y=problem.y[free], a=problem.a[free] / left, equal=False)
            ambiguity = sample.on(rest).soft(v, now.eta).ambiguity
    return Smoothed(soft=soft, ambiguity=ambiguity, atoms=atoms, scale=scale_of(problem))


def part_of(engine: Engine) -> Engine:
    """Passes over the samples that a curvature is computed from: so few that every rank may look at all."""
    sample = engine.subsample(FINE * len(engine.problem.x))
    whole = sample.problem.whole()
    return sample if whole is sample.problem else sample.on(whole)


def repeated(sample: Engine) -> float:
    """Mass of the samples that occur more than once; 0 where hardly any do."""
    _, kind = distinct(sample.problem.y)
    mass = float(sample.problem.a[torch.bincount(kind)[kind] > 1].sum())
    return mass if mass >= REPEATED else 0.0


def scale_of(problem: Problem) -> float:
    """Mean cost to the origin."""
    return problem.rounding / torch.finfo(problem.x.dtype).eps


def batch_sums(problem: Problem, running: Running, look: Look, renewal: Smoothed | None) -> BatchSums:
    """What a batch tells, from a look at it whose means are those of all its samples; v is centred."""
    most = OVERDUE + math.log(len(problem.b))
    is_late = float(running.overdue.max()) > most
    return BatchSums(
        worth=worth_of(problem),
        value=float(look.value),
        square=float(look.square),
        mass=look.mass,
        ceiling=ceiling(problem, look.transform, running.overdue > most) if is_late else None,
        renewal=renewal,
    )


def advance(running: Running, sums: BatchSums, b: Tensor, least: float, forgetting: float) -> Running:
    """What is remembered after a batch.

    Args:
        running: before it, `moved` to the points that the sums belong to.
        sums: of the batch.
        b: (n,) weights of the points.
        least: lower bound of eta, for a batch that renews the curvature.
        forgetting: lower bound of the gain.
    """
    now = running.numbers
    batches, samples = now.batches + 1, now.samples + sums.worth
    share = sums.worth * batches / samples  # of an average batch
    now = now._replace(batches=batches, samples=samples, age=now.age + share, forgetting=forgetting)
    if sums.renewal is not None:
        running, now = _renewed(running, now, sums.renewal, torch.maximum(b, sums.mass), least)
    gain = min(1.0, share * now.gain)
    surplus = b - sums.mass
    v = running.potential
    if len(v) > 1:
        v = v + _step(running, gain * surplus, now.width)
    if sums.ceiling is not None:
        v = torch.where(sums.ceiling.isfinite(), torch.maximum(v, sums.ceiling), v)
    residual = running.residual.lerp(surplus, gain)
    weight = 1.0 if now.batches == 2 else gain  # the first batch was measured at its own potential
    now = now._replace(
        noise=(1 - gain) ** 2 * now.noise + gain**2 / sums.worth,
        mean=now.mean + weight * (sums.value - now.mean),
        square=now.square + weight * (sums.square - now.square),
        mean_noise=(1 - weight) ** 2 * now.mean_noise + weight**2 / sums.worth,
    )
    tested = now.age > OLD_ENOUGH and now.batches % EVERY == 0
    if tested and surprise(residual, b, now.noise) > SURPRISE:
        # Behind: a greater gain, and a test that begins anew.
        residual = torch.zeros_like(residual)
        now = _younger(now, max(YOUNG, now.age / 2))._replace(lagged=now.batches)
    overdue = torch.add(running.overdue, b, alpha=sums.worth).masked_fill_(sums.mass > 0, 0.0)
    after = replace(running, potential=v - b @ v, residual=residual, overdue=overdue, counters=now.to_tensor(v))
    return _knowing(after, running, now)


def rejuvenated(running: Running) -> Running:
    """The same with little weight on what has been, for a stream that has changed."""
    now = _younger(running.numbers, min(running.numbers.age, YOUNG))
    after = replace(running, residual=torch.zeros_like(running.residual), counters=now.to_tensor(running.potential))
    return _knowing(after, running, now)


def surprise(residual: Tensor, b: Tensor, noise: float) -> float:
    """How many standard deviations the mean masses of the cells are from b, were they those of independent samples.

    Pearson's statistic, sum_i residual_i^2 / b_i / noise, made normal by the cube root of Wilson and Hilferty (1931).
    Steps that follow the residuals keep them smaller than independent ones: the test errs on the side of silence. It
    says nothing (0) as long as there are fewer samples than points.
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


def worth_of(problem: Problem) -> float:
    """Number of equally weighted samples that a batch is worth: (sum a)^2 / sum a^2 (Kish 1965)."""
    return float(problem.count) if problem.equal else 1 / problem.concentration


def least_smoothing(engine: Engine) -> float:
    """The smallest eta that rounding allows."""
    return max(64 * engine.rounding, LEAST)


def is_due(running: Running) -> bool:
    """Whether the next batch renews the curvature."""
    now = running.numbers
    return len(running.potential) > 1 and now.age + 1 >= min(now.renewed * (1 + 1 / PART), now.renewed + SELDOM)


def _renewed(
    running: Running, now: Counters, renewal: Smoothed, mass: Tensor, least: float
) -> tuple[Running, Counters]:
    """The curvature with that of a batch averaged in, and all that follows from it; mass (n,) is that of the points."""
    rate = min(1.0, max(1.0, now.age - now.renewed) / now.age**CURVATURE_DECAY)
    fresh = with_diagonal(renewal.soft.overlap / now.eta, mass / now.eta)
    curvature = running.curvature.lerp(fresh, rate)
    change = 1.0
    if renewal.atoms and now.lagged == now.batches - 1:
        change = BLUNT
    elif renewal.ambiguity is not None:
        target = min(BLUNTEST, max(SHARPEST, UNDECIDED * len(mass) / (now.age * now.typical)))
        change = min(SHARPEN, max(1 / SHARPEN, (target / max(renewal.ambiguity, 1e-3)) ** 0.25))
    ambiguity = now.ambiguity if renewal.ambiguity is None else renewal.ambiguity
    now = now._replace(
        ambiguity=now.ambiguity + rate * (ambiguity - now.ambiguity),
        eta=max(least, min(now.eta * change, renewal.scale)),
        renewed=now.age,
        atoms=renewal.atoms,
    )
    walls = boundaries(curvature, running.potential, running.anchor, now.p)
    return replace(running, curvature=curvature, coupling=walls.coupling, pull=walls.pull), now


def with_diagonal(overlap: Tensor, diagonal: Tensor) -> Tensor:
    """A copy of `overlap` (n, n) with another diagonal (n,)."""
    result = overlap.clone()
    result.diagonal().copy_(diagonal)
    return result


def _step(running: Running, g: Tensor, width: float) -> Tensor:
    """H^-1 g, (n,), cut to `width`: what a quadratic model knows nothing of has to come step by step.

    It is not centred: the potential is, after it.
    """
    return running.solver(g).clamp_(-width, width)


def _younger(now: Counters, age: float) -> Counters:
    """Counters of another age; the curvature is due at once, and the test of surprises begins anew."""
    return now._replace(age=age, renewed=age / 2, noise=0.0)


def _knowing(after: Running, before: Running, numbers: Counters) -> Running:
    """`after` with what need not be computed again: its numbers, and the solver of `before` if the curvature is his."""
    after.__dict__["numbers"] = numbers
    if after.curvature is before.curvature and "solver" in before.__dict__:
        after.__dict__["solver"] = before.__dict__["solver"]
    return after
