"""The samples offered to a balance: those near the boundary of their cell, and those that a starved cell wants.

    i cells (n)      k samples (m)      slack_k what sample k loses by leaving its cell for the second nearest point

Of each cell the samples with the least slack are offered, more where a cell holds far too much or too little. A cell
that lacks most of its weight may have no boundary at all: its potential is so low that it is nobody's second choice.
For it those samples are offered that lose least by going there, wherever they are.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..cost import pairwise
from ..passes import HardPass, Meter
from ..problem import Problem
from .movable import Movable, within_quota

QUOTA = 16  # samples of every cell, beyond what its own surplus asks for
STARVED = 0.5  # part of its weight that a cell lacks, from which samples are offered to it wherever they are
STARVED_ELEMENTS = 1 << 22  # of a block of costs of all samples to starved points


def offered(problem: Problem, cells: HardPass, surplus: Tensor, widen: int, limit: int, meter: Meter) -> Movable:
    """The samples that may change cell.

    Args:
        problem: whose samples they are.
        cells: at some potential.
        surplus: (n,) mass of each cell over the weight of its point.
        widen: times as many as for a potential that is nearly right.
        limit: how many at most.
        meter: counts what the costs to starved points take.
    """
    n, m = len(problem.x), problem.count
    held = problem.totals(_counts(cells.cell, n))
    quota = widen * (QUOTA + 4 * surplus.abs() * m + 2 * float(surplus.abs().sum()) * m / n)
    all_are = bool((quota >= held).all())
    quota = torch.minimum(quota, held)
    quota *= min(1.0, limit / float(quota.sum()))
    order = _least_slack(cells.cell, cells.slack, quota.ceil())
    order = order[torch.argsort(cells.cell[order], stable=True)]
    order = order[within_quota(cells.cell[order], quota) & (problem.a[order] > 0)]
    near = problem.gathered(_those(problem, cells, order), quota)
    starved = (-surplus > STARVED * problem.b).nonzero()[:, 0]
    room = limit - len(near.y)
    if all_are or not len(starved) or room < len(starved):
        return near
    meter.spent += len(starved) / n
    new = torch.ones_like(cells.cell, dtype=torch.bool)
    new[near.index[near.index >= 0]] = False
    lacking = float(-surplus[starved].min()) * m
    count = min(len(cells.cell), room // len(starved), math.ceil(widen * (QUOTA + 4 * lacking)))
    cheapest = _cheapest(problem, cells, starved, count)
    more = _those(problem, cells, cheapest[new[cheapest]])
    return near.with_more(problem.gathered(more, torch.full_like(quota, math.inf)))


def _cheapest(problem: Problem, cells: HardPass, points: Tensor, count: int) -> Tensor:
    """Indices of the samples here, `count` for each of some points, that lose least by going there."""
    least = torch.where(problem.a > 0, cells.cost - cells.potential[cells.cell], math.inf)
    found = []
    for some in torch.split(points, max(1, STARVED_ELEMENTS // len(problem.y))):
        loss = pairwise(problem.y, problem.x[some], problem.p) - least[:, None]
        found.append(loss.topk(count, dim=0, largest=False).indices.flatten())
    unique: Tensor = torch.unique(torch.cat(found))
    return unique


def _least_slack(cell: Tensor, slack: Tensor, quota: Tensor) -> Tensor:
    """Indices of samples by their slack: at least the `quota` (n,) of each cell with the least."""
    m, n = len(cell), len(quota)
    near = 2 * int(quota.clamp(max=m).sum())
    if near >= m:
        return torch.argsort(slack)
    order = slack.topk(near, largest=False).indices
    # Where samples are sparse, slacks are larger: such cells are looked at on their own.
    lacking = _counts(cell[order], n) < torch.minimum(quota, _counts(cell, n))
    rest = lacking[cell].nonzero()[:, 0]
    return torch.cat((order[~lacking[cell[order]]], rest[torch.argsort(slack[rest])]))


def _those(problem: Problem, cells: HardPass, index: Tensor) -> Movable:
    """Samples of this process by their indices."""
    return Movable(problem.y[index], problem.a[index], cells.cell[index], cells.slack[index], index)


def _counts(cell: Tensor, n: int) -> Tensor:
    return torch.bincount(cell, minlength=n)
