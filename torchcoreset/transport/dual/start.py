"""Where Newton is lost: a rough potential from moving the excess of a few samples explicitly.

    v (n,) potential

A group of points that holds far too much, and shares no sample with any other, has no curvature: no Newton step tells
by how much its potential must fall until its samples leave. In data with far outliers that is many times the
smoothing. The paths by which excess leaves know it: `balance` follows them, as roughly as its budget is large.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..cost import pairwise
from ..flow import balance
from ..passes import shuffled
from ..problem import Problem

ELEMENTS = 1 << 24  # of the costs, float64: 128 MiB
ENOUGH = 0.01  # mass that may stay: to move the last of it takes ten times as long (measured)
BUDGET = 0.1  # of the cost to the nearest points, that may be wasted: 0.03 takes twice as long and is no better


def flow_start(problem: Problem, v: Tensor) -> Tensor:
    """A potential (n,) at which the cells of some samples hold about what they should, from any (n,)."""
    problem = problem.whole()
    m, n = len(problem.y), len(problem.x)
    y, a = problem.y, problem.a
    count = max(n, ELEMENTS // n)
    if count < m:
        some = shuffled(m, count).to(y.device)
        y, a = y[some], a[some] / a[some].sum()
    cost = pairwise(y.double(), problem.x.double(), problem.p)
    cell = (cost - v).argmin(1)
    excess = torch.zeros_like(v).index_add_(0, cell, a) - problem.b
    wasted = BUDGET * float(a @ cost.gather(1, cell[:, None])[:, 0])
    arrays = (t.cpu().numpy() for t in (cost, cell, a, excess, v))
    balanced = balance(*arrays, arc_tolerance=problem.rounding, suboptimality=[wasted], enough=ENOUGH)
    return torch.from_numpy(balanced.potential).to(v)
