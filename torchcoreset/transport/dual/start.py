"""A potential from a min-cost flow on a few samples, for a start from which Newton does not converge.

    v (n,) potential

A block of points that holds too much mass and shares no sample with any other has no curvature: no Newton step tells
by how much its potential must fall. With far outliers that is many times eta. A min-cost flow finds it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..flow import balance
from ..passes import shuffled
from ..problem import Problem

ELEMENTS = 1 << 24  # of the float64 cost block (128 MiB); of more samples a random part is taken


def flow_start(problem: Problem, v: Tensor) -> Tensor:
    """A potential (n,) at which the cells of some samples hold about what they should, from any (n,)."""
    m, n = len(problem.y), len(problem.x)
    y, a = problem.y, problem.a
    count = max(n, ELEMENTS // n)
    if count < m:
        some = shuffled(m, count).to(y.device)
        y, a = y[some], a[some] / a[some].sum()
    cost = problem.cost.pairwise(y.double(), problem.x.double())
    cell = (cost - v).argmin(1)
    excess = torch.zeros_like(v).index_add_(0, cell, a) - problem.b
    arrays = (t.cpu().numpy() for t in (cost, cell, a, excess, v))
    return torch.from_numpy(balance(*arrays).potential).to(v)
