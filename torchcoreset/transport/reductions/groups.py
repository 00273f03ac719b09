"""Groups so far apart that no mass crosses between them: each is solved as a problem of its own, in its own
coordinates.

    x (n, d) points, b (n,)   y (m, d) samples, a (m,)   F(t) weight of the points minus mass of the samples below t

Between groups at 0 and at 1e9 squared distances are 1e18, beside which float64 resolves no cost below a hundred. So the
problem is cut where, along some coordinate, points and samples leave a wide gap at which F is 0. That a cut is right is
a guess, which the bounds of the whole problem confirm or not.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ..problem import Problem, without_offset

FAR = 1e6  # cost of the mean distance over the mean cost to the nearest point, from which groups are looked for
GAP = 100.0  # width of a gap, in lengths whose cost is the mean cost to the nearest point
MASS = 1e-13  # by which points and samples of a group may differ: rounding of normalised weights

Group = tuple[Tensor, Tensor]  # indices of points and of samples


def far_groups(problem: Problem, mean: float) -> list[Group]:
    """The groups of a problem, whose mean cost to the nearest point is about `mean`; none if it is one.

    Nor where some samples are elsewhere: no gap is one for those.
    """
    if len(problem.y) < problem.count or not problem.cost.by_products or not problem.typical_cost > FAR * mean:
        return []
    width = GAP * problem.cost.root(mean)
    device = problem.x.device
    whole = (torch.arange(len(problem.x), device=device), torch.arange(len(problem.y), device=device))
    waiting, groups = [whole], []
    while waiting:
        group = waiting.pop()
        parts = _cut(problem, *group, width)
        if parts:
            waiting.extend(parts)
        else:
            groups.append(group)
    return groups if len(groups) > 1 else []


def group_problem(problem: Problem, points: Tensor, samples: Tensor) -> Problem:
    """The problem of one group, with weights that sum to 1."""
    x, y, b, a = problem.x[points], problem.y[samples], problem.b[points], problem.a[samples]
    x, y = without_offset(x, y, float(torch.maximum(x.abs().max(), y.abs().max())))
    largest = float(torch.maximum(x.abs().max(), y.abs().max()))
    return replace(problem, x=x, b=b / b.sum(), y=y, a=a / a.sum(), largest=largest)


def _cut(problem: Problem, points: Tensor, samples: Tensor, width: float) -> list[Group]:
    """The parts of a group along the first coordinate that has gaps at which masses agree; none without one."""
    x, y, b, a = problem.x[points], problem.y[samples], problem.b[points], problem.a[samples]
    for k in range(x.shape[1]):
        places = torch.cat((x[:, k], y[:, k])).sort().values
        gaps = (places.diff() > width).nonzero()[:, 0]
        upper = places[gaps + 1]  # the lowest coordinate above each gap
        if not len(upper):
            continue
        part_x = torch.bucketize(x[:, k].contiguous(), upper, right=True)
        part_y = torch.bucketize(y[:, k].contiguous(), upper, right=True)
        held_b = torch.bincount(part_x, b, minlength=len(upper) + 1)
        if problem.equal:  # counts are exact, where a sum of as many equal weights rounds each time
            held_a = torch.bincount(part_y, minlength=len(upper) + 1).double() / len(problem.y)
        else:
            held_a = torch.bincount(part_y, a, minlength=len(upper) + 1)
        agree = (held_b.cumsum(0) - held_a.cumsum(0)).abs()[:-1] <= max(MASS, 2.0**-53 * len(y))
        # Parts between gaps where masses do not agree stay together, and so do those without points or mass.
        joined = torch.nn.functional.pad(agree.long().cumsum(0), (1, 0))
        mass = torch.zeros_like(held_a).index_add_(0, joined, torch.minimum(held_a, held_b))
        kept = mass > MASS
        joined = (kept.long().cumsum(0) - 1).clamp(min=0)[joined]
        count = int(joined.max()) + 1
        if count > 1:
            part_x, part_y = joined[part_x], joined[part_y]
            return [(points[part_x == g], samples[part_y == g]) for g in range(count)]
    return []
