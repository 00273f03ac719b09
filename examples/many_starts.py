"""Weighted k-means of a few points from many starts at once, so that what is left of an error is the coreset's.

scikit-learn's `KMeans(n_init=200)` does the same one start after another, and spends most of the time around them.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

MOST_STEPS = 300  # of Lloyd's algorithm, as in scikit-learn; a start that goes on is judged where it is


def many_starts(x: Tensor, w: Tensor, clusters: int, starts: int, generator: Generator) -> Tensor:
    """The centres (clusters, d) of least weighted cost.

    Args:
        x: (n, d) points, n > clusters; all distances between them are kept.
        w: (n,) weights, none negative.
        clusters: k.
        starts: of k-means++ with the best of 2 + log k draws for each centre, as in scikit-learn.
        generator: of random numbers.
    """
    middle = w @ x / w.sum()  # far from the origin, squares of norms would drown the distances
    x = x - middle
    squares = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").square()
    centres = x[seeded(squares, w, clusters, starts, generator)]
    cost = centres.new_full((starts,), torch.inf)
    todo, labels = torch.arange(starts), torch.full((starts, len(x)), -1)
    for _ in range(MOST_STEPS):
        nearest, cost[todo] = assigned(x, w, centres[todo])
        moved = (nearest != labels[todo]).any(1)
        labels[todo] = nearest
        todo = todo[moved]
        if not len(todo):
            break
        centres[todo] = means(x, w, labels[todo], centres[todo])
    return centres[cost.argmin()] + middle


def seeded(squares: Tensor, w: Tensor, clusters: int, starts: int, generator: Generator) -> Tensor:
    """Numbers (starts, clusters) of the points that k-means++ begins with."""
    chosen = torch.empty(starts, clusters, dtype=torch.int64)
    chosen[:, 0] = torch.multinomial(w, starts, replacement=True, generator=generator)
    least = squares[chosen[:, 0]]
    draws = 2 + int(math.log(clusters))
    for k in range(1, clusters):
        # All points may lie on centres already, if fewer than k are different.
        mass = w * least + torch.finfo(w.dtype).tiny
        drawn = torch.multinomial(mass, draws, replacement=True, generator=generator)
        left = torch.minimum(least[:, None], squares[drawn])
        best = (left @ w).argmin(1)
        rows = torch.arange(starts)
        chosen[:, k], least = drawn[rows, best], left[rows, best]
    return chosen


def assigned(x: Tensor, w: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest centre of each point (starts, n), and the weighted costs (starts,)."""
    apart = centres.square().sum(2)[:, None] - 2 * x @ centres.mT
    least, nearest = apart.min(2)
    return nearest, (least + x.square().sum(1)) @ w


def means(x: Tensor, w: Tensor, labels: Tensor, centres: Tensor) -> Tensor:
    """Weighted means of the clusters; an empty one keeps its centre."""
    share = torch.zeros(*labels.shape, centres.shape[1], dtype=x.dtype)
    share.scatter_(2, labels[:, :, None], w.expand_as(labels)[:, :, None])
    mass = share.sum(1)[:, :, None]
    return torch.where(mass > 0, share.mT @ x / mass.clamp_min(torch.finfo(x.dtype).tiny), centres)
