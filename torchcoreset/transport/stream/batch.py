"""A batch of a stream at the running potential: its cells, and all that it tells of the semi-dual.

    x (n, d) points, b (n,)      y (m, d) a batch, a (m,)      v (n,) potential

What a batch contributes is of size n and n x n; parts of one batch contribute the weighted means of theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..passes import Engine, SmoothedCells
from ..problem import Problem
from ..result import Coupling
from .state import StreamState
from .ties import distinct, shared

FINE = 50  # samples a point that a curvature is computed from, at most
REPEATED = 0.05  # least mass of repeated rows from which a stream has atoms
FREE = 1 / 16  # least mass without ties from which the softness of that mass is measured
LEAST = 1e-24  # eta where all points and samples are one: its reciprocal and the square of that are no overflow
UNSEEN = 8.0  # samples, beyond log n, that an empty cell should have received before it is raised to the nearest one


@dataclass(frozen=True, kw_only=True)
class BatchCells:
    """A batch at the running potential: the cells of the samples here, and means over them."""

    cell: Tensor  # (m,) int64 point in whose cell each sample lies
    transform: Tensor  # (m,) its c - v there
    mass: Tensor  # (n,) of the cells, or what the points receive of `plan`
    gradient: Tensor  # (n, d) of the mean of `transform` in the points
    moments: Tensor  # (2,) means of `transform` and of its square
    plan: Coupling | None = None  # how the samples are shared where some are tied; None where each goes to its cell


@dataclass(frozen=True, kw_only=True)
class Smoothed:
    """What renews the curvature."""

    soft: SmoothedCells  # pass over a part of the samples
    softness: float | None  # of those that are not tied, or None if hardly any is not
    atoms: float  # as in `Counters`
    least: float  # the smallest eta that rounding allows
    scale: float  # mean cost to the origin, beyond which no smoothing makes sense


def evaluate_batch(engine: Engine, v: Tensor, tie_tolerance: float = 0.0) -> BatchCells:
    """The cells of the samples here at a centred potential (n,), ties within a tolerance above 0 shared."""
    problem, cell, plan = engine.problem, None, None
    if tie_tolerance:
        cell, plan = shared(engine, v, tie_tolerance)
    cell, transform, mass, gradient, moments = engine.assigned(v, cell)
    if plan is not None:
        y, x = problem.y, problem.x
        mass, gradient = plan.column_sums(), torch.zeros_like(gradient)
        for rows, cols, part in plan.blocks(x.shape[1]):
            gradient.index_add_(0, cols, problem.cost.paired_gradient(y[rows], x[cols]).mul_(part[:, None]))
    return BatchCells(cell=cell, transform=transform, mass=mass, gradient=gradient, moments=moments, plan=plan)


def smoothed(engine: Engine, running: StreamState) -> Smoothed:
    """The smoothed cells of a batch that renews the curvature, and how many of its samples are repeated."""
    now, v = running.numbers, running.potential
    sample = part_of(engine)
    atoms = repeated(sample)
    problem, soft = sample.problem, sample.soft(v, now.eta)
    softness: float | None = soft.softness
    if atoms:  # a sharper softmin decides nothing for samples that are tied
        free = sample.two_nearest(v)[1] > now._replace(atoms=atoms).tie_tolerance
        left = problem.a[free].sum()
        softness = None
        if float(left) > FREE:
            rest = replace(problem, y=problem.y[free], a=problem.a[free] / left, equal=False)
            softness = sample.on(rest).soft(v, now.eta).softness
    return Smoothed(soft=soft, softness=softness, atoms=atoms, least=least_smoothing(engine), scale=scale_of(problem))


def part_of(engine: Engine) -> Engine:
    """Passes over the samples that a curvature is computed from."""
    return engine.subsample(FINE * len(engine.problem.x))


def repeated(sample: Engine) -> float:
    """Mass of the samples that occur more than once; 0 where hardly any do."""
    first, kind = distinct(sample.problem.y)
    if len(first) == len(kind):
        return 0.0
    mass = float(sample.problem.a[torch.bincount(kind)[kind] > 1].sum())
    return mass if mass >= REPEATED else 0.0


def scale_of(problem: Problem) -> float:
    """Mean cost to the origin."""
    return problem.rounding / torch.finfo(problem.x.dtype).eps


def unseen_cells(running: StreamState) -> Tensor | None:
    """Which cells have been empty for too long, (n,) bool; None if none has."""
    most = UNSEEN + math.log(len(running.overdue))
    return running.overdue > most if float(running.overdue.max()) > most else None


def effective_size(problem: Problem) -> float:
    """Effective sample size (sum a)^2 / sum a^2. Source: Kish (1965)."""
    return float(problem.count) if problem.equal else 1 / problem.concentration


def least_smoothing(engine: Engine) -> float:
    """The smallest eta that rounding allows."""
    return 64 * engine.rounding or LEAST
