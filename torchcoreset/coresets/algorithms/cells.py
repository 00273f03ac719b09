"""The best place for each point, given which samples it stands for.

    x (n, d) points, y (m, d) samples      pi plan, sum_k pi_ki = b_i      p power of the cost

For a fixed plan, sum_k pi_ki |y_k - x_i|^p falls apart into one problem a point: p = 2 asks for the mean of its cell,
p = 1 for the geometric median, other p for something between or beyond.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...transport import Coupling, paired

HALVINGS = 20  # of a step that raised the cost
REWEIGHTINGS = 5  # for one plan; the next plan asks for others anyway


Totals = Callable[[Tensor], Tensor]


def cell_centres(x: Tensor, y: Tensor, plan: Coupling, p: float, totals: Totals = lambda sums: sums) -> Tensor:
    """Move every point towards the minimiser of sum_k pi_ki |y_k - x_i|^p; points without mass stay.

    p = 2 takes the mean, exactly. Other p take a few steps of Weiszfeld's method, weights |y - x|^(p-2), with the
    correction of Vardi and Zhang (2000) where a point lies on a sample, and shortened by 1/(p-1) for p > 2, where the
    plain step overshoots; a step that raised the cost of a point is halved until it does not. `totals` makes sums over
    all samples of those over the samples at hand, where others are elsewhere.

    Returns:
        New points (n, d), dtype of x.
    """
    if p == 2:
        return _reweighted(x.double(), y, plan, p, totals).to(x.dtype)
    centre = x.double()
    cost = totals(_costs(centre, y, plan, p))
    for _ in range(REWEIGHTINGS):
        trial = _reweighted(centre, y, plan, p, totals)
        for _ in range(HALVINGS):
            trial_cost = totals(_costs(trial, y, plan, p))
            worse = (trial_cost > cost)[:, None]
            if not bool(worse.any()):
                break
            trial = torch.where(worse, (trial + centre) / 2, trial)
        else:
            trial = torch.where(worse, centre, trial)
            trial_cost = torch.minimum(trial_cost, cost)
        centre, cost = trial, trial_cost
    return centre.to(x.dtype)


def _costs(x: Tensor, y: Tensor, plan: Coupling, p: float) -> Tensor:
    """Cost of the mass that each point receives, (n,)."""
    costs = x.new_zeros(len(x))
    for rows, cols, mass in plan.blocks():
        costs.index_add_(0, cols, mass * paired(y[rows], x[cols], p))
    return costs


def _reweighted(x: Tensor, y: Tensor, plan: Coupling, p: float, totals: Totals) -> Tensor:
    n, d = x.shape
    total, at_point = x.new_zeros(n), x.new_zeros(n)
    pull = x.new_zeros(n, d)  # sum of weight (y - x): minus the gradient, over p
    for rows, cols, mass in plan.blocks():
        difference = y[rows].double() - x[cols]
        if p == 2:
            weight = mass
        else:
            distance = difference.square().sum(1).sqrt_()
            apart = distance > 0
            weight = torch.where(apart, mass * distance.where(apart, 1.0).pow(p - 2), 0.0)
            at_point.index_add_(0, cols, torch.where(apart, 0.0, mass))
        total.index_add_(0, cols, weight)
        pull.index_add_(0, cols, difference.mul_(weight[:, None]))
    sums = totals(torch.cat((total[:, None], at_point[:, None], pull), 1))
    total, at_point, pull = sums[:, 0], sums[:, 1], sums[:, 2:]
    step = pull / total.where(total > 0, 1.0)[:, None]
    if p < 2:  # mass on the point itself holds it back: for p = 1 altogether, if it is stronger than the pull
        strength = pull.square().sum(1).sqrt_()
        held = at_point / strength.where(strength > 0, torch.inf)
        if p == 1:
            step *= (1 - held).clamp_(min=0)[:, None]
        else:  # as far as the minimum of at_point t^p - p strength t
            length = step.square().sum(1).sqrt_()
            reach = held.where(held > 0, 1.0).pow(-1 / (p - 1))
            step *= torch.where(held > 0, (reach / length.where(length > 0, 1.0)).clamp(max=1), 1.0)[:, None]
    return x + step / max(1.0, p - 1)
