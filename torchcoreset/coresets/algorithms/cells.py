"""The optimal position of each point for a fixed plan.

    x (n, d) points, y (m, d) samples      pi plan, sum_k pi_ki = b_i      c cost

For a fixed plan, sum_k pi_ki c(y_k, x_i) separates into one problem per point: its solution is the mean of the cell
for squared distances, and the geometric median for distances.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...deterministic import mass_by_cell
from ...transport import DISTANCE, Cost, Coupling, as_cost

HALVINGS = 20  # of a step that raised the cost of a point; beyond them the point stays
REWEIGHTINGS = 5  # for one plan; more would be lost, since the next plan has other centres

Totals = Callable[[Tensor], Tensor]


def cell_centres(
    x: Tensor,
    y: Tensor,
    plan: Coupling,
    p: float | Cost,
    totals: Totals = lambda sums: sums,
    feasible: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Move every point towards the minimiser of sum_k pi_ki c(y_k, x_i): (n, d); points without mass stay.

    If the mean is optimal, it is the result. Other costs take a few steps (`Cost.centre_step`); a step that raises the
    cost of a point is halved until it does not. `totals` sums over all ranks if samples are distributed; `feasible`
    projects points to the set where they may lie: for squared distances the projection of the mean is optimal there.
    """
    cost, allowed = as_cost(p), feasible or (lambda places: places)
    if cost.mean_is_best:
        return allowed(_reweighted(x.double(), y, plan, cost, totals)).to(x.dtype)
    centre = x.double()
    centre_cost = totals(_costs(centre, y, plan, cost))
    stays = torch.zeros(len(x), 1, dtype=torch.bool, device=x.device)
    for _ in range(REWEIGHTINGS):
        trial = torch.where(stays, centre, allowed(_reweighted(centre, y, plan, cost, totals)))
        for _ in range(HALVINGS):
            trial_cost = totals(_costs(trial, y, plan, cost))
            worse = (trial_cost > centre_cost)[:, None]
            if not bool(worse.any()):
                break
            trial = torch.where(worse, allowed((trial + centre) / 2), trial)
        else:
            stays |= worse  # its next step would be the same, and fail again
            trial = torch.where(worse, centre, trial)
            trial_cost = torch.minimum(trial_cost, centre_cost)
        centre, centre_cost = trial, trial_cost
    return centre.to(x.dtype)


def _costs(x: Tensor, y: Tensor, plan: Coupling, cost: Cost) -> Tensor:
    """Cost of the mass that each point receives, (n,)."""
    return mass_by_cell(plan.cols, plan.mass * cost.at(y, x, plan.rows, plan.cols), len(x))


def _reweighted(x: Tensor, y: Tensor, plan: Coupling, cost: Cost, totals: Totals) -> Tensor:
    n, weight, at_point = len(x), plan.mass, x.new_zeros(len(x))
    if not cost.mean_is_best:
        distance = DISTANCE.at(y, x, plan.rows, plan.cols)
        weight = plan.mass * cost.weight(distance)
        at_point = mass_by_cell(plan.cols, torch.where(distance > 0, 0.0, plan.mass), n)
    total, displacement = mass_by_cell(plan.cols, weight, n), plan.displacement(x, y, weight)
    sums = totals(torch.cat((total[:, None], at_point[:, None], displacement), 1))
    return x + cost.centre_step(sums[:, 2:], sums[:, 0], sums[:, 1])
