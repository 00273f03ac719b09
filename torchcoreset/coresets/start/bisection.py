"""Balanced bisection: the samples are cut in two again and again, every part as large as its share of the points.

    y (m, d) samples      n points of equal weights      c (m, d) samples about their mean      w (d,) direction

A part of n points is cut by a hyperplane into parts of n_1 and n - n_1 points with n_1/n and 1 - n_1/n of its samples.
Of all n_1, and of a few directions w, the cut is taken that lowers the sum of squares most: the first direction is
that of the largest variance, the next is the difference between the means of the two parts. The last parts, of one
point each, are the leaves: their means are points whose transport is balanced from the beginning.

It works on NumPy arrays on the CPU, in float64: most parts are so small that calls cost more than numbers, and NumPy's
cost a quarter of torch's (measured).

Source: cuts along principal directions: Boley (1998), principal direction divisive partitioning. The direction between
means is a step of Lloyd's iteration for two means, here of prescribed masses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from ...deterministic import column_medians

SHOWN = 500  # samples whose medians are their middle: those of all would take as long as three cuts
POWERS = 2  # power iterations towards the direction of largest variance
DIRECTIONS = 1  # between means, after it
# Levels, in those of a tree of halves, beyond which each part gets a quarter of the points at least: heavy tails would
# be cut off point by point, in up to n levels.
LEVELS = 2.0

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def leaves(y: Tensor, n: int, generator: Generator) -> tuple[Tensor, list[int]]:
    """Leaves of samples y (m, d) for n <= m points: indices of their samples, one leaf after the other, and sizes.

    The indices are (m,) int64, on the device of the samples. Every sample is in one leaf, and no leaf is empty.
    """
    w = torch.randn(max(1, n - 1), y.shape[1], generator=generator, dtype=torch.float64, device=generator.device)
    found = list(_leaves(_unit(y), n, iter(w.cpu().numpy())))
    return torch.from_numpy(np.concatenate(found)).to(y.device), [len(leaf) for leaf in found]


def leaf_means(y: Tensor, sizes: list[int]) -> Tensor:
    """Means (n, d) of leaves of these sizes, which follow each other in y (m, d)."""
    # Sums of large numbers overflow; powers of two change no digit.
    unit = torch.frexp(y.double().abs().max()).exponent.double().clamp(-1000, 1000).exp2()
    leaves = (y.double() / unit).split(sizes)  # type: ignore[no-untyped-call]
    # Exact where the samples of a leaf are equal.
    means = [leaf[0] + (leaf - leaf[0]).mean(0) for leaf in leaves]
    return (torch.stack(means) * unit).to(y.dtype)


def _unit(y: Tensor) -> Floats:
    """The samples about a middle of theirs, in units of the largest number: squares neither overflow nor vanish."""
    y = y.cpu().double()
    y = y - column_medians(y[:: max(1, len(y) // SHOWN)])
    unit: Floats = (y / y.abs().max().clamp(min=torch.finfo(y.dtype).tiny)).numpy()
    return unit


def _leaves(y: Floats, n: int, directions: Iterator[Floats]) -> Iterator[Ints]:
    """Indices (m_i,) of the samples of each leaf."""
    deep = LEVELS * math.log2(n) if n > 1 else 0
    stack = [(y, np.arange(len(y)), n, 0)]
    while stack:
        y, index, k, level = stack.pop()
        if k == 1:
            yield index
            continue
        order, end, first = _cut(y, k, max(1, k // 4) if level > deep else 1, next(directions))
        y, index = y[order], index[order]
        stack.append((y[end:], index[end:], k - first, level + 1))
        stack.append((y[:end], index[:end], first, level + 1))


def _cut(y: Floats, n: int, fewest: int, w: Floats) -> tuple[Ints, int, int]:
    """The order (m,) of samples y (m, d) across the cut, the number of them before it, and of points before it."""
    m = len(y)
    c = y - np.full(m, 1 / m) @ y  # a product takes a quarter of the time of `mean`
    for _ in range(POWERS):
        w = (c @ w) @ c
    first = np.arange(fewest, n - fewest + 1)
    ends = (first * m + n // 2) // n  # at least as many samples as points in both parts, as m >= n
    sizes = ends * (m - ends)
    for step in range(DIRECTIONS + 1):
        along = c @ w
        order = along.argsort(kind="stable")
        # Between the parts, the sum of squares along w is this over m |w|^2; that within them falls by as much.
        between = along[order].cumsum()[ends - 1] ** 2 / sizes
        at = int(between.argmax())
        if not between[at] > 0:  # all samples are equal
            at = len(first) // 2
        if step < DIRECTIONS:
            before = np.zeros(m)
            before[order[: ends[at]]] = 1
            w = before @ c  # of the samples after the cut it is the negative
    return order, int(ends[at]), int(first[at])
