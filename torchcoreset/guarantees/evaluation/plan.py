"""From statistics of cells to a feasible plan on all fresh samples, and its cost: excess moved along shortest paths.

Where there is no room for the boundary samples of all cells, but all fresh samples can be kept, their transport is
solved instead.

x (n, d) points      b (n,) weights      v (n,) potential      c cost      f a map, of which there may be none
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ...transport import Cost, solve
from ...transport.flow import MASS_TOLERANCE, CandidateArcs, Floats, balance, north_west_corner
from ...transport.ranks import Ranks, solve_on, totals_of
from .cell_statistics import MANY, CellRows, CellStatistics

LEAST = 1e-6  # part of the value: least gap to which a plan on all samples is solved
SHARP = 0.25  # standard errors of the value: gap to which a plan on all samples is solved
LOOSE = 1e-2  # part of the value: largest such gap
LISTED = 32  # candidate arcs of a sample where there are more than MANY points
BLOCK = 1 << 22  # elements of a block of costs


@dataclass(frozen=True)
class Plan:
    """What a feasible plan on the fresh samples costs."""

    value: float  # sum pi |y - x|^p
    image_value: float  # sum pi |f(y) - f(x)|^p; 0 without a map
    moved: float  # mass that does not go to its cell
    cell_mass: Tensor  # (n,) mass of the cells
    cost_share: Tensor  # (n,) part of the cost within each cell, before the excess is moved


def feasible_plan(statistics: CellStatistics, x: Tensor, v: Tensor, cost: Cost, image: Tensor | None = None) -> Plan:
    """Balance the cells of these statistics, after the last batch.

    Args:
        statistics: of the cells of v.
        x: (n, d) points, float64, in the coordinates of the samples.
        v: (n,) potential.
        cost: of moving mass.
        image: (n, d') what a map makes of the points.
    """
    n, total = len(x), statistics.total
    held = statistics.finish()
    others, mean, image_mean = statistics.others(held)
    some = (others > 0).nonzero()[:, 0]
    cell = torch.cat((held.cell, some))
    mass = torch.cat((held.mass, others[some])) / total
    # Masses and weights are rounded numbers: the rest goes to where a plan can move it.
    excess = statistics.mass / total - statistics.b
    excess -= excess.sum() / n
    arrays = (cell.cpu().numpy(), mass.cpu().numpy(), excess.cpu().numpy(), v.cpu().numpy())
    if n > MANY:
        costs: CandidateArcs | Floats = _lists(held, some, mean, x, v, cost)
    else:
        costs = torch.cat((cost.pairwise_exact(held.y, x), _minkowski(mean, x, some, cost))).cpu().numpy()
    moved = balance(costs, *arrays)
    rows, cols, sent = moved.rows, moved.cols, moved.mass
    left = np.bincount(cols, weights=sent, minlength=n) - statistics.b.cpu().numpy()
    if np.abs(left).max() > 10 * MASS_TOLERANCE / n:
        rows, cols, sent = north_west_corner(rows, cols, sent, left)
    entries = tuple(torch.from_numpy(array).to(x.device) for array in (rows, cols, sent))
    value = _value(entries, held.y, some, mean, x, cost)
    image_value = 0.0 if image is None else _value(entries, held.image, some, image_mean, image, cost)
    stays = entries[1] == cell[entries[0]]
    return Plan(value, image_value, float(entries[2][~stays].sum()), statistics.mass / total, _cost_share(statistics))


def near_optimal_plan(
    statistics: CellStatistics,
    kept: CellRows,
    x: Tensor,
    v: Tensor,
    cost: Cost,
    engine: str,
    image: Tensor | None,
    error: float,
    ranks: Ranks | None = None,
    *,
    weighted: bool = False,
) -> Plan:
    """The transport of all fresh samples, solved from the potential that came before them; else as `feasible_plan`.

    `kept` are all samples, or those of this rank, of which some have weights of their own if `weighted`.
    """
    mass = kept.mass if weighted else None
    mean = float(statistics.cost.sum()) / statistics.total
    tolerance = min(max(SHARP * error / mean, LEAST), LOOSE) if mean > 0 else LOOSE
    run = partial(solve, tolerance=tolerance, exact=False, start=v, max_steps=100)
    _, found = solve_on(
        ranks, "certify", run, x, kept.y, cost, statistics.b, mass, engine=engine, dtype=torch.float64, state=v
    )
    sums = statistics.b.new_zeros(2)
    for rows, cols, mass in found.plan.blocks(x.shape[1]):
        sums[0] += mass[cols != kept.cell[rows]].sum()
        if image is not None:
            sums[1] += mass @ cost.at(kept.image, image, rows, cols)
    moved, image_value = totals_of(ranks)(sums).tolist()
    return Plan(found.value, image_value, moved, statistics.mass / statistics.total, _cost_share(statistics))


def _cost_share(statistics: CellStatistics) -> Tensor:
    return statistics.cost / statistics.cost.sum().clamp(min=1e-300)


def _minkowski(mean: Tensor, x: Tensor, some: Tensor, cost: Cost) -> Tensor:
    """At most the mean cost to every point of samples whose mean cost to point `some` is `mean`, (k, n)."""
    apart = cost.metric.pairwise_exact(x[some], x)
    bound = cost.of_length(cost.root(mean[some, None]) + apart)
    bound[torch.arange(len(some), device=x.device), some] = mean[some]
    return bound


def _value(entries: tuple[Tensor, ...], y: Tensor, some: Tensor, mean: Tensor, x: Tensor, cost: Cost) -> float:
    """Cost of a plan whose first rows are samples and whose last are what is left of each cell."""
    rows, cols, mass = entries
    single = rows < len(y)
    total = float(mass[single] @ cost.at(y, x, rows[single], cols[single]))
    home, col, part = some[rows[~single] - len(y)], cols[~single], mass[~single]
    apart = cost.metric.paired(x[home], x[col])
    bound = torch.where(home == col, mean[home], cost.of_length(cost.root(mean[home]) + apart))
    return total + float(part @ bound)


def _lists(held: CellRows, some: Tensor, mean: Tensor, x: Tensor, v: Tensor, cost: Cost) -> CandidateArcs:
    """Where each candidate, and what is left of each cell, may go: the nearest in c - v, its own cell among them."""
    count = min(LISTED, len(x))
    rows, cols, costs = [], [], []
    step = max(1, BLOCK // len(x))
    for start in range(0, len(held.y) + len(some), step):
        table = _table(held, some, mean, x, cost, start, start + step)
        own = torch.cat((held.cell, some))[start : start + step]
        reduced = table - v
        reduced[torch.arange(len(own), device=x.device), own] = -torch.inf
        col = reduced.topk(count, largest=False).indices.sort(1).values
        rows.append(torch.arange(start, start + len(own), device=x.device).repeat_interleave(count))
        cols.append(col.flatten())
        costs.append(table.gather(1, col).flatten())
    offsets = torch.arange(len(held.y) + len(some) + 1, device=x.device) * count
    return CandidateArcs(offsets.cpu().numpy(), torch.cat(cols).cpu().numpy(), torch.cat(costs).cpu().numpy())


def _table(held: CellRows, some: Tensor, mean: Tensor, x: Tensor, cost: Cost, start: int, stop: int) -> Tensor:
    """Rows start..stop of the costs to all points, of boundary samples and then of the rest of each cell."""
    k = len(held.y)
    single = cost.pairwise_exact(held.y[start:stop], x)
    return torch.cat((single, _minkowski(mean, x, some[max(start - k, 0) : max(stop - k, 0)], cost)))
