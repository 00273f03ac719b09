"""Ties: samples that are equally near to several points, shared among them as in an optimal plan.

    y (m, d) samples, a (m,)      x (n, d) points, b (n,)      v (n,) potential      tie_tolerance, of the cost

Rows that repeat are atoms, which lie on the boundaries between cells at the best potential; so do all samples of points
that coincide. Only the shares of a plan give the gradient of the distance. If such samples went whole to one point
each, potential and points would jump to and fro. So the excess of the cells goes, over samples within the tolerance
alone, to the cells that lack mass. Each sample is split as seldom as augmenting paths split it: equal shares for all
would keep points together that should part.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..flow import balance
from ..passes import Engine
from ..result import Coupling


def shared(engine: Engine, v: Tensor, tie_tolerance: float) -> tuple[Tensor, Coupling | None]:
    """The cells (m,) of the samples here at a centred potential, and the plan that shares those that are tied; None if
    none are.

    Points count as equally near up to a `tie_tolerance` in c - v. The samples of the cells are whole. The plan is over
    all samples: its rows sum to their weights; its columns are as near to b as samples within the tolerance can bring
    them.
    """
    problem, (nearest, margin) = engine.problem, engine.two_nearest(v)
    near = (margin <= max(tie_tolerance, 8 * problem.rounding)).nonzero()[:, 0]
    if not len(near) or len(v) == 1:
        return nearest, None
    first, atom = distinct(problem.y[near])
    cost = problem.cost.pairwise_exact(problem.y[near[first]].double(), problem.x.double())
    least, cell = (cost - v).min(1)
    cost.masked_fill_(cost - v > least[:, None] + tie_tolerance, math.inf)
    mass = torch.zeros_like(least).index_add_(0, atom, problem.a[near])
    still = torch.ones_like(nearest, dtype=torch.bool).index_fill_(0, near, False).nonzero()[:, 0]
    held = torch.zeros_like(problem.b).index_add_(0, nearest[still], problem.a[still]).index_add_(0, cell, mass)
    arrays = (array.cpu().numpy() for array in (cost, cell, mass, held - problem.b, v))
    found = balance(*arrays)
    rows, cols, part = (torch.as_tensor(array, device=v.device) for array in (found.rows, found.cols, found.mass))
    which, entry = _joined(atom, rows, len(first))
    some = near[which]
    share = part[entry] * (problem.a[some] / mass[rows[entry]])
    return nearest, Coupling(
        torch.cat((still, some)),
        torch.cat((nearest[still], cols[entry])),
        torch.cat((problem.a[still], share)),
        (len(problem.y), len(v)),
    )


def distinct(rows: Tensor) -> tuple[Tensor, Tensor]:
    """One number of each kind of row (g,) and the kind of each row (k,); rows (k, d) of one kind are equal."""
    # Equal rows have equal projections, unequal ones rarely: sorting numbers is faster than sorting rows.
    direction = torch.arange(1, rows.shape[1] + 1, dtype=torch.float64, device=rows.device).sqrt_()
    projected = (rows.double() * direction).sum(1)
    _, kind = torch.unique(projected, return_inverse=True)
    first = torch.zeros(int(kind.max()) + 1, dtype=torch.int64, device=rows.device)
    first[kind] = torch.arange(len(rows), device=rows.device)
    if not torch.equal(rows[first[kind]], rows):
        every = torch.arange(len(rows), device=rows.device)
        return every, every
    return first, kind


def _joined(kind: Tensor, entries: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """All pairs of a row (k,) and an entry (e,) of its kind: their numbers."""
    order, sizes = torch.argsort(kind, stable=True), torch.bincount(kind, minlength=count)
    begin = sizes.cumsum(0) - sizes
    repeats = sizes[entries]
    entry = torch.repeat_interleave(repeats)
    within = torch.arange(len(entry), device=kind.device) - (repeats.cumsum(0) - repeats)[entry]
    return order[begin[entries][entry] + within], entry
