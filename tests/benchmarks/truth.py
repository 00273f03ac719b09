"""The truth that methods are judged by, computed apart from them in float64.

W exact W_p^p      D(v) semi-dual value of a potential, a lower bound      true gap (W - D(v)) / W
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import torchcoreset as tc

MOST_ELEMENTS = 100_000_000  # costs, up to which the optimum is found exactly
BLOCK = 1 << 20  # costs at a time


def semi_dual(points: Tensor, samples: Tensor, potential: Tensor, p: float = 2) -> float:
    """D(v), whoever found v; a few plain lines of its own, so that no solver is its own judge."""
    x, v = points.double(), potential.to(points.device).double()
    square = x.square().sum(1)
    total = 0.0
    for y in samples.split(max(16, BLOCK // len(x))):
        wide = y.double()
        if p == 2:
            nearest = torch.addmm(square - v, wide, x.t(), alpha=-2).amin(1) + wide.square().sum(1)
        else:
            nearest = (torch.cdist(wide, x, compute_mode="donot_use_mm_for_euclid_dist").pow(p) - v).amin(1)
        total += float(nearest.sum())
    return total / len(samples) + float(v.mean())


def optimum(points: Tensor, samples: Tensor, p: float = 2, weights: Any = None) -> tuple[float, float]:
    """W_p^p, and the width of the bracket that proves it, relatively: at most 1e-9, or 1e-4 on the largest work.

    Points have equal weights, or others as in `transport`.

    The best found, with its width, where that was not reached.
    """
    x, y = points.double(), samples.double()
    exact = len(x) * len(y) <= MOST_ELEMENTS
    try:
        result = tc.transport(x, y, p, weights, exact=True) if exact else tc.transport(x, y, p, weights, tolerance=1e-4)
    except tc.ConvergenceError as error:
        result = error.result
    return result.value, result.gap
