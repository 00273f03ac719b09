"""The samples that may move in a balance: those near the boundary of their cell, and those nearest to a starved cell.

    i cells (n)      k samples (m)      margin_k what sample k loses by leaving its cell for the second nearest point

Of each cell the samples with the least margin are offered, more where its excess is large. A cell that lacks most of
its weight may be the second choice of no sample, because its potential is far too low. To it those samples are offered
that lose least by going there, wherever they are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..compiled import call, function
from ..passes import Engine, LaguerreCells, about_least, true_places
from ..problem import Problem
from .all_pairs import CheapestMoves

PER_CELL = 16  # samples of every cell, beyond what its own excess asks for
STARVED = 0.5  # part of its weight that a cell lacks, from which samples are offered to it wherever they are
STARVED_ELEMENTS = 1 << 22  # of a block of costs of all samples to starved points
PRICED = 4  # samples of each pair of cells: with one, plans of clusters stay 100 times as far from the best (measured)
PRICED_ELEMENTS = 1 << 18  # of a block of costs of all samples to all points: 2 MiB


class BoundarySamples(NamedTuple):
    """Samples that may change cell."""

    y: Tensor  # (k, d) samples
    a: Tensor  # (k,) their weights
    cell: Tensor  # (k,) their cells
    margin: Tensor  # (k,) what each loses by leaving for the second nearest point
    number: Tensor  # (k,) which of all samples they are

    def picked(self, index: Tensor) -> BoundarySamples:
        """Some of these."""
        return BoundarySamples(*(column[index] for column in self))


def boundary_samples(engine: Engine, cells: LaguerreCells, excess: Tensor, widen: float, limit: int) -> BoundarySamples:
    """The samples that may change cell, at most `limit`; the engine's meter counts the costs to starved points.

    `excess` (n,) is the mass of each cell over the weight of its point. `widen` times as many are offered as for a
    potential that is nearly right; half as many do where the plan may be rough.
    """
    problem = engine.problem
    n, m = len(problem.x), problem.count
    (held,) = engine.total(_counts(cells.cell, n))
    per_cell = widen * (PER_CELL + 4 * excess.abs() * m + 2 * float(excess.abs().sum()) * m / n)
    all_are = bool((per_cell >= held).all())
    per_cell = torch.minimum(per_cell, held)
    per_cell *= min(1.0, limit / float(per_cell.sum()))
    order = least_margin(cells.cell, cells.margin, per_cell)
    order = order[problem.a[order] > 0]
    near = engine.gathered(_those(problem, cells, order), per_cell)
    starved = (-excess > STARVED * problem.b).nonzero()[:, 0]
    room = limit - len(near.y)
    if all_are or not len(starved) or room < len(starved):
        return near
    engine.meter.spent += len(starved) / n
    lacking = float(-excess[starved].min()) * m
    count = min(len(cells.cell), room // len(starved), math.ceil(widen * (PER_CELL + 4 * lacking)))
    return _joined(near, _everyones(engine, problem, cells, _cheapest(problem, cells, starved, count)))


def priced_samples(engine: Engine, cells: LaguerreCells, near: BoundarySamples, widen: int) -> BoundarySamples:
    """These boundary samples, and for each pair of cells those that leave the first for the second at the least price.

    Between separated clusters these lie deep in their cells: their margins tell of neighbours in their own cluster.
    """
    problem = engine.problem
    engine.meter.spent += len(problem.y) / problem.count
    index = cheapest_moves(problem, cells.cell, widen)
    index = index[problem.a[index] > 0]
    return _joined(near, _everyones(engine, problem, cells, index))


def cheapest_moves(problem: Problem, cell: Tensor, widen: int) -> Tensor:
    """Indices of the samples of these cells (m,) that leave for some other point at the least price: a pass."""
    moves = CheapestMoves(len(problem.x), widen * PRICED)
    rows = max(1, PRICED_ELEMENTS // len(problem.x))
    for y, cells in zip(torch.split(problem.y, rows), torch.split(cell, rows), strict=True):
        moves.see(problem.cost.pairwise(y, problem.x).double().cpu().numpy(), cells.cpu().numpy())
    return torch.from_numpy(moves.samples()).to(cell.device)


def _everyones(engine: Engine, problem: Problem, cells: LaguerreCells, index: Tensor) -> BoundarySamples:
    """The samples of all with these indices among those held."""
    return engine.gathered(_those(problem, cells, index), torch.full_like(problem.b, math.inf))


def _joined(near: BoundarySamples, more: BoundarySamples) -> BoundarySamples:
    """Both, each sample once, by their cells."""
    more = more.picked(~torch.isin(more.number, near.number))
    both = BoundarySamples(*(torch.cat(pair) for pair in zip(near, more, strict=True)))
    return both.picked(torch.argsort(both.cell, stable=True))


def _cheapest(problem: Problem, cells: LaguerreCells, points: Tensor, count: int) -> Tensor:
    """Indices of samples, `count` for each of some points, that lose least by going there."""
    least = torch.where(problem.a > 0, cells.cost - cells.potential[cells.cell], -math.inf)
    found = []
    for some in torch.split(points, max(1, STARVED_ELEMENTS // len(problem.y))):
        loss = problem.cost.pairwise(problem.y, problem.x[some]) - least[:, None]
        found.append(loss.topk(count, dim=0, largest=False).indices.flatten())
    unique: Tensor = torch.unique(torch.cat(found))
    return unique


def least_margin(cell: Tensor, margin: Tensor, per_cell: Tensor) -> Tensor:
    """Indices of the samples (m,) with the least margins, `per_cell` (n,) of each cell, or all: by cells, ascending."""
    each = torch.minimum(per_cell.clamp(max=len(cell)).ceil().long(), _counts(cell, len(per_cell)))
    return (_least_by_selection if cell.is_cpu else _least_by_sorting)(cell, margin, each)


def _least_by_selection(cell: Tensor, margin: Tensor, each: Tensor) -> Tensor:
    """One compiled pass, of `each` (n,) cell as many as that."""
    m, found = len(cell), cell.new_empty(int(each.sum()))
    least = function("least_margins", "nn****>n")
    if call(least, len(each), m, cell.contiguous(), margin.double().contiguous(), each, found):
        raise MemoryError(f"no memory to choose among {m} samples")
    return found


def _least_by_sorting(cell: Tensor, margin: Tensor, each: Tensor) -> Tensor:
    """The same on any device, up to the order of equal margins."""
    m, near = len(cell), 2 * int(each.sum())
    index = about_least(margin, near) if near < m else torch.arange(m, device=cell.device)
    # Where samples are sparse, margins are larger: such cells are looked at on their own.
    lacking = _counts(cell[index], len(each)) < each
    if bool(lacking.any()):
        rest = true_places(lacking.index_select(0, cell))
        index = torch.cat((index[~lacking[cell[index]]], rest))
    order = index[torch.argsort(margin[index])]
    order = order[torch.argsort(cell[order], stable=True)]
    return order[within_limits(cell[order], each)]


def _those(problem: Problem, cells: LaguerreCells, index: Tensor) -> BoundarySamples:
    """Samples by their indices."""
    y, a, cell, margin = (t.index_select(0, index) for t in (problem.y, problem.a, cells.cell, cells.margin))
    return BoundarySamples(y, a, cell, margin, index)


def _counts(cell: Tensor, n: int) -> Tensor:
    return torch.bincount(cell, minlength=n)


def within_limits(cell: Tensor, per_cell: Tensor) -> Tensor:
    """Which samples are among the first `per_cell` (n,) of their cell; cells (k,) ascend."""
    first = torch.searchsorted(cell, torch.arange(len(per_cell), device=cell.device))
    rank = torch.arange(len(cell), device=cell.device) - first[cell]
    return rank < per_cell[cell]
