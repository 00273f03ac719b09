"""One dimension: where `Cost.sorts_on_line`, an optimal plan couples points and samples in their order.

    x (n, 1) sorted points, b (n,)      y (m, 1) sorted samples, a (m,)      z_i boundary of the cells i and i + 1

The boundary sample z_i is indifferent between its two points, which gives the potential:
v_{i+1} - v_i = c(z_i, x_{i+1}) - c(z_i, x_i).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...deterministic import running_sum
from ..problem import Problem
from ..result import Coupling

SHOWN = 1024  # samples that show in which direction all vary most
ITERATIONS = 3  # of the power method: a direction that holds most of the variance is found in two


def sorted_transport(problem: Problem) -> tuple[Tensor, Coupling]:
    """Exact potential (n,), float64, and plan of a one-dimensional problem."""
    point_order = torch.argsort(problem.x[:, 0], stable=True)
    sample_order = torch.argsort(problem.y[:, 0], stable=True)
    upper_b = running_sum(problem.b[point_order])
    upper_a = running_sum(problem.a[sample_order])
    upper_b[-1] = upper_a[-1] = 1.0  # their sums, without rounding
    ends = torch.cat((upper_b, upper_a)).sort().values
    # Levels that agree up to rounding are one level.
    ends = ends[torch.cat((ends.diff() > 1e-14, ends.new_ones(1, dtype=torch.bool)))]
    mass = ends.diff(prepend=ends.new_zeros(1))
    middle = ends - mass / 2
    col = torch.searchsorted(upper_b, middle).clamp_(max=len(upper_b) - 1)
    row = torch.searchsorted(upper_a, middle).clamp_(max=len(upper_a) - 1)
    if not problem.equal:  # samples of no weight, or of less than rounding, go where their neighbours go
        unseen = torch.ones(len(upper_a), dtype=torch.bool, device=row.device)
        unseen[row] = False
        light = unseen.nonzero()[:, 0]
        row, mass = torch.cat((row, light)), torch.cat((mass, mass.new_zeros(len(light))))
        col = torch.cat((col, torch.searchsorted(upper_b, upper_a[light]).clamp_(max=len(upper_b) - 1)))
    plan = Coupling(sample_order[row], point_order[col], mass, (len(problem.y), len(problem.x)))
    return _potential(problem, point_order, sample_order, upper_b, upper_a), plan


def widest_direction(problem: Problem) -> tuple[Tensor, float]:
    """About the direction in which the samples vary most, (d,) float64, and its share of their variance.

    From some samples, by the power method.
    """
    stride = max(1, len(problem.y) // SHOWN)
    rows, weights = problem.y[::stride].double(), problem.a[::stride]
    centred = rows - (weights @ rows) / weights.sum()
    variances = weights * torch.linalg.vecdot(centred, centred)
    direction = centred[variances.argmax()]
    for _ in range(ITERATIONS):
        image = (weights * (centred @ direction)) @ centred
        length = float(image.norm())
        if not length > 0:
            return direction, 0.0
        direction = image / length
    along = centred @ direction
    return direction, float(weights @ (along * along) / variances.sum())


def _potential(problem: Problem, point_order: Tensor, sample_order: Tensor, upper_b: Tensor, upper_a: Tensor) -> Tensor:
    """Sum of the steps between neighbouring points; where a boundary falls between two samples, the mean of both."""
    x, y = problem.x[point_order], problem.y[sample_order]
    level = upper_b[:-1]
    before = torch.searchsorted(upper_a, level - 1e-14).clamp_(max=len(y) - 1)
    after = torch.searchsorted(upper_a, level + 1e-14).clamp_(max=len(y) - 1)
    cost = problem.cost
    steps = [cost.paired(y[z], x[1:]) - cost.paired(y[z], x[:-1]) for z in (before, after)]
    v = problem.b.new_zeros(len(x))
    v[point_order[1:]] = running_sum((steps[0] + steps[1]) / 2)
    return v
