"""Arrangement of unequal weights: heavy points are placed where the distribution is dense.

    x (n, d) points, b (n,) their weights      y (m, d) samples

Points descend to a local minimum near their start and rarely pass each other. Therefore positions are computed first,
for points of free mass, and the weights are assigned to them in the order of that mass. On the line, where the plan is
known in advance, pairs of weights are exchanged as long as that lowers the cost.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...deterministic import running_sum
from ...transport import Cost, as_cost
from ...transport.passes import chunk_elements

PAIR_ELEMENTS = 1 << 15  # numbers in a round of exchanges on the line; with more points, pairs are nearer to each other
ROUNDS = 100  # of exchanges; the order after them is taken as it is
LEAST_GAIN = 1e-9  # of the cost, by an exchange; smaller ones are rounding
ENOUGH = 1e-3  # of the cost, by another order than the one given, which is kept for less


def differ(weights: Tensor) -> bool:
    """Whether the positive weights among (n,) are unequal."""
    used = weights[weights > 0]
    return bool((used != used[0]).any())


def placed(x: Tensor, b: Tensor, y: Tensor, p: float | Cost) -> Tensor:
    """The points reordered so that heavier points are those with more samples nearest to them.

    Points of weight zero keep their place.
    """
    used = (b > 0).nonzero()[:, 0]
    z = x[used]
    rows = max(16, chunk_elements(x.device) // len(z))
    cost = as_cost(p)
    nearest = torch.cat([cost.pairwise(block, z).argmin(1) for block in torch.split(y, rows)])
    count = torch.bincount(nearest, minlength=len(z))
    result = x.clone()
    result[used[b[used].argsort(stable=True)]] = z[count.argsort(stable=True)]
    return result


def order_on_line(y: Tensor, b: Tensor, p: float | Cost) -> Tensor:
    """Order (n,) int64 in which points of these weights should lie along sorted samples y (m,), leftmost first.

    The heaviest weights begin in the narrowest of n intervals that hold equally many samples, and pairs not too far
    from each other are exchanged while that lowers the cost: exactly that where medians or means are the best places,
    and that of squared distances elsewhere. Where no order is better than the one given, the given order is kept.
    """
    n, m = len(b), len(y)
    rows = y.double() - y[m // 2]
    ends = rows[(torch.arange(n + 1, device=y.device) * (m - 1)) // n]
    order = torch.empty_like(b, dtype=torch.long)
    order[ends.diff().argsort(stable=True)] = b.argsort(descending=True, stable=True)
    cost = _cell_cost(rows, as_cost(p))
    reach = max(1, min(n - 1, int((PAIR_ELEMENTS / n) ** 0.5)))
    for _ in range(ROUNDS):
        pairs = _exchanges(b[order], cost, reach)
        for i, j in pairs:
            order[[i, j]] = order[[j, i]]
        if not pairs:
            break
    given = torch.arange(n, device=b.device)
    return order if _total(b[order], cost) < (1 - ENOUGH) * _total(b, cost) else given


def _total(b: Tensor, cost: Callable[[Tensor, Tensor], Tensor]) -> float:
    """The cost of points of weights b (n,), from left to right."""
    high = running_sum(b)
    return float(cost(high - b, high).sum())


def _cell_cost(y: Tensor, of_pairs: Cost) -> Callable[[Tensor, Tensor], Tensor]:
    """The cost of the samples between two quantiles at their best point, from sums over sorted samples y (m,)."""
    m = len(y)
    sums, squares = (torch.cat((y.new_zeros(1), running_sum(values))) / m for values in (y, y * y))

    def below(quantile: Tensor, sums: Tensor, values: Tensor) -> Tensor:
        place = (quantile * m).clamp(0, m)
        index = place.long().clamp(max=m - 1)
        return sums[index] + (place - index) * values[index] / m

    def cost(low: Tensor, high: Tensor) -> Tensor:
        first, last = below(low, sums, y), below(high, sums, y)
        if of_pairs.median_is_best:
            return first + last - 2 * below((low + high) / 2, sums, y)
        square = below(high, squares, y * y) - below(low, squares, y * y)
        return square - (last - first).square() / (high - low).clamp(min=torch.finfo(y.dtype).tiny)

    return cost


def _exchanges(b: Tensor, cost: Callable[[Tensor, Tensor], Tensor], reach: int) -> list[tuple[int, int]]:
    """Pairs of places along the line, at most `reach` apart and none within another, whose weights b (n,) to exchange.

    Between the two of a pair all cells move by the difference of their weights; beyond them nothing changes.
    """
    n = len(b)
    high = running_sum(b)
    low = high - b
    present = cost(low, high)
    first = torch.arange(n, device=b.device)[:, None].expand(n, reach)
    last = first + torch.arange(1, reach + 1, device=b.device)
    first, last = first[last < n], last[last < n]
    place = first[:, None] + torch.arange(reach + 1, device=b.device)
    inside = place <= last[:, None]
    place = place.clamp(max=n - 1)
    moved = (b[last] - b[first])[:, None]
    new_low = low[place] + torch.where(place > first[:, None], moved, 0.0)
    new_high = high[place] + torch.where(place < last[:, None], moved, 0.0)
    gain = torch.where(inside, present[place] - cost(new_low, new_high), 0.0).sum(1)
    taken = torch.zeros(n, dtype=torch.bool, device=b.device)
    pairs = []
    for k in gain.argsort(descending=True).tolist():
        if not float(gain[k]) > LEAST_GAIN * float(present.sum()):
            break
        i, j = int(first[k]), int(last[k])
        if not bool(taken[i : j + 1].any()):
            taken[i : j + 1] = True
            pairs.append((i, j))
    return pairs
