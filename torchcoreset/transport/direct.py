"""Direct solves of small problems: one flow on the costs of all pairs, and the semi-dual that proves its plan.

    B problems of one shape      x (B, n, d) points, b (B, n)   y (B, m, d) samples, a (B, m)   v (B, n) potentials

Costs come from differences in float64. Around a flow of some ten microseconds what Python and torch take for each call
is most of the time, so that all of a batch is computed together, and its flows are one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .costs import Cost, EuclideanPower
from .flow import MASS_TOLERANCE, Floats, Ints, SolvedPairs, solve_pairs
from .passes import RESOLUTION, SUMMED, LaguerreCells, minimum_error, of_sums
from .result import Coupling, Status, Transport

Tables = tuple[Tensor, Tensor, Tensor, Tensor]  # x, y, b and a of B problems

BLOCK = 1 << 20  # costs of the problems that are solved in one call: 8 MiB
WRONG_MASS = 10 * MASS_TOLERANCE  # mean point weights by which a plan may miss those of the points


@dataclass(frozen=True)
class Direct:
    """Of B problems the plans of their flows, and the semi-duals at the potentials of these."""

    found: SolvedPairs
    # As in `LaguerreCells`, (B,) each
    mean: Floats
    error: Floats
    dual: Floats

    def only_cells(self, device: torch.device) -> LaguerreCells:
        """The cells of the only problem; margins are not looked at."""
        found = self.found
        arrays = (found.potential, found.cell, found.cell_cost, np.zeros_like(found.cell_cost), found.cell_mass)
        v, cell, cost, margin, mass = (torch.from_numpy(array[0]).to(device) for array in arrays)
        mean, error, dual = (float(number[0]) for number in (self.mean, self.error, self.dual))
        return LaguerreCells(v, cell, cost, margin, mass, mean, error, dual)


def plans_of(found: SolvedPairs, device: torch.device) -> Iterator[Coupling]:
    """The plan of each problem."""
    shape = (found.cell.shape[1], found.cell_mass.shape[1])
    sizes, entries = found.sizes.tolist(), (found.rows, found.cols, found.mass)
    # split_with_sizes is compiled, where split is a function in Python that takes ten times as long
    columns = (torch.from_numpy(column).to(device).split_with_sizes(sizes) for column in entries)
    for rows, cols, mass in zip(*columns, strict=True):
        yield Coupling(rows, cols, mass, shape)


def balance_all(
    costs: Floats, a: Floats, b: Floats, v: Floats, roundoffs: float, earlier: Ints | None = None
) -> Direct:
    """Solve problems of costs (B, m, n) from differences in float64, whose relative error is `roundoffs`.

    `v` (B, n) are potentials to start from, and `earlier` (B, m) cells of plans of nearby points.
    """
    found = solve_pairs(costs, a, b, v, earlier)
    potential, reduced = found.potential, found.reduced
    mean = (a * found.cell_cost).sum(1)
    turnover = ((found.cell_mass + b) * np.abs(potential)).sum(1)
    error = (a * minimum_error(roundoffs, reduced, potential.max(1, keepdims=True))).sum(1)
    error += of_sums(roundoffs, mean, SUMMED * turnover)
    dual = (a * reduced).sum(1) - np.where(error > RESOLUTION * mean, error, 0.0)
    return Direct(found, mean, error, dual)


def solve_at_once(
    cost: Cost,
    tables: Tables,
    start: Tensor | None,
    tolerance: float,
    blunt: float,
    earlier: Tensor | None = None,
) -> Iterator[Transport | None]:
    """The results of B problems in turn; None of those whose bounds do not meet to the tolerance.

    They start from potentials (B, n) and the cells (B, m) of earlier plans, if there are any.
    Nor is one given where a point has no weight, or where rounding may take more than a part, `blunt`, of the mean cost
    from the lower bound.
    """
    x, y, b, a = tables
    block = max(1, BLOCK // (x.shape[1] * y.shape[1]))
    for first in range(0, len(x), block):
        part = slice(first, first + block)
        v, cells = (None if values is None else values[part] for values in (start, earlier))
        yield from _solve_block(cost, (x[part], y[part], b[part], a[part]), v, tolerance, blunt, cells)


def _solve_block(
    cost: Cost,
    tables: Tables,
    start: Tensor | None,
    tolerance: float,
    blunt: float,
    earlier: Tensor | None,
) -> Iterator[Transport | None]:
    x, y, b, a = tables
    costs = costs_from_differences(cost, y, x.double()).cpu().numpy()
    mass_a, mass_b = (weights.cpu().contiguous().numpy() for weights in (a, b))
    v = np.zeros_like(mass_b) if start is None else start.cpu().contiguous().numpy()
    cells = None if earlier is None else earlier.cpu().numpy()
    direct = balance_all(costs, mass_a, mass_b, v, cost.roundoffs(x.shape[-1]), cells)
    found, value = direct.found, direct.found.value
    lower = np.minimum(direct.dual.clip(min=0), value)
    difference = value - lower
    with np.errstate(divide="ignore", invalid="ignore"):  # a value of zero has no gap
        gap = np.where(difference > RESOLUTION * value, difference / value, 0.0)
    sharp = direct.error <= blunt * np.minimum(direct.mean, value)
    keeps_weights = (mass_b.min(1) > 0) & (found.wrong <= WRONG_MASS / mass_b.shape[1])
    good = keeps_weights & (gap <= tolerance) & sharp
    misplaced = np.abs(found.cell_mass - mass_b).sum(1) / 2
    tensors = (torch.from_numpy(array).to(x.device) for array in (found.potential, found.reduced, found.cell_mass))
    numbers = (array.tolist() for array in (good, value, lower, gap, misplaced))
    for is_good, cost_of_plan, bound, width, error, potential, transform, mass, weights, plan in zip(
        *numbers, *tensors, b, plans_of(found, x.device), strict=True
    ):
        yield None if not is_good else Transport(
            value=cost_of_plan, lower=bound, gap=width, potential=potential, transform=transform, plan=plan,
            cell_mass=mass, weights=weights, marginal_error=error, steps=1, status=Status.CONVERGED,
        )  # fmt: skip


def costs_from_differences(cost: Cost, y: Tensor, x: Tensor) -> Tensor:
    """Costs (B, m, n) between samples (B, m, d) and points (B, n, d) in float64."""
    if isinstance(cost, EuclideanPower):  # takes batches
        return cost.pairwise_exact(y, x)
    return torch.stack([cost.pairwise_exact(*pair) for pair in zip(y.double(), x, strict=True)])
