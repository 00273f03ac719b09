"""What rounding may hide: how far a computed minimum of c - v can lie above the true one, so that bounds stay bounds.

    x (n, d) points, y (m, d) samples      v (n,) potential      f_k = min_i [c(y_k, x_i) - v_i]      u unit roundoff

A pass finds a cell for each sample and the margin to the second nearest point, both from rounded numbers. The cost to
the point of the cell is then computed from differences in float64. Only a point j with f_j <= f_cell could be nearer;
so c_j <= r = f_cell + max v, and |x_j| <= |y| + r^(1/p). With these bounds on its size, the rounding error e of a
computed c_j - v_j is at most

    E = (d + 8) u (2 |y| + r^(1/p))^2    of the expanded square |y|^2 - 2 <y, x> + |x|^2,
    e = (p/2) (r^(2/p) + E)^(p/2 - 1) E  for p >= 2, E^(p/2) for p < 2, of its power, plus 16 u r of taking that power
        (128 u r for p other than 1 and 2: engines may take it by exp and log),
        + 3 u max(|f|, max v)            of subtracting v,

so that the true minimum is no less than f_cell - max(0, 2 e - margin). Source: Higham (2002), Accuracy and stability of
numerical algorithms, section 3.1, for inner products of length d in any order.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from ..problem import Problem

# Relative; a bound holds to this at least. Sums of m float64 numbers, costs in up to a thousand dimensions and the
# rounding of weights stay below it; what may be more is subtracted from the bound.
RESOLUTION = 1e-12
HIDDEN = 0.01  # part of the mean cost that cells of a stream may be wrong by
SUMMED = 64  # unit roundoffs of float64 in a sum over samples, which is made in blocks
EXACT_MASS = 4  # of the same in a mass that is counted, its product with a potential, and the sum of these


def unit_roundoff(dtype: torch.dtype) -> float:
    """Of a matrix product in this dtype; torch may be told to take float32 factors in fewer bits."""
    if dtype == torch.float32:
        return {"high": 2.0**-11, "medium": 2.0**-8}.get(torch.get_float32_matmul_precision(), 2.0**-24)
    return 2.0**-53


def doubtful(
    problem: Problem, v: Tensor, cell: Tensor, cost: Tensor, margin: Tensor, squares: Tensor
) -> tuple[Tensor, Tensor]:
    """Samples whose nearest point in c - v may be another than the cell that a pass has found.

    Args:
        problem: in whose dtype the pass was computed, from expanded squares.
        v: (n,) potential as it went into the pass, near its mean.
        cell: (k,) the cells of some samples, as found.
        cost: (k,) float64 cost to their points.
        margin: (k,) computed distance in c - v to the second nearest point, or less.
        squares: (k,) of their norms.

    Returns:
        Their places among these, and how far their minimum may lie below what was found, (k,) float64.
    """
    if len(v) == 1 or not len(cell):
        return cell[:0], cost[:0]
    u, d, p = unit_roundoff(problem.x.dtype), problem.x.shape[1], problem.p
    # All samples against the largest error of any first: after that there are few left.
    low, top = torch.stack(torch.aminmax(v)).tolist()
    most = float(cost.max()) - low
    longest = float(squares.max()) ** 0.5
    largest = _expanded(max(most + top, 0.0), max(most, top), longest, d, p, u)
    index = (margin <= 2 * largest).nonzero()[:, 0]
    if not len(index):
        return index, cost[:0]
    f = cost[index] - v[cell[index]]
    reach, height = (f + top).clamp(min=0), f.abs().clamp(min=top)
    error = _expanded(reach, height, squares[index].double().sqrt(), d, p, u)
    loss = 2 * error - margin[index]
    some = loss > 0
    return index[some], loss[some]


def unresolved(problem: Problem, mean: float, part: float = HIDDEN, dtype: torch.dtype | None = None) -> bool:
    """Whether expanded squares, in this or another dtype, err by more than a part of a mean cost like this."""
    u, d = unit_roundoff(dtype or problem.x.dtype), problem.x.shape[1]
    # Of the square of a typical distance, and so p / 2 times that of its power.
    most = part * max(mean, 0.0) ** (2 / problem.p) / (2 * problem.p * (d + 8) * u)
    return bool(d * problem.largest**2 > most and problem.square > most)  # the first is free, hardly ever so large


Number = TypeVar("Number", float, Tensor)


def _expanded(reach: Number, height: Number, norm: Number, d: int, p: float, u: float) -> Number:
    """The error e of c - v from expanded squares.

    Args:
        reach: r, the largest cost of a point that could be nearer.
        height: the largest |v| of such a point.
        norm: of the sample.
        d, p, u: dimension, power, unit roundoff.
    """
    length = reach if p == 1 else reach ** (1 / p)
    square = (d + 8) * u * (2 * norm + length) ** 2
    if p == 2:
        power = square
    elif p < 2:
        power = square ** (p / 2)
    else:
        power = (p / 2) * (length**2 + square) ** (p / 2 - 1) * square
    return power + u * ((16 if p in (1, 2) else 128) * reach + 3 * height)


def doubtful_by_differences(
    problem: Problem, v: Tensor, cell: Tensor, cost: Tensor, margin: Tensor
) -> tuple[Tensor, Tensor]:
    """The same for a pass over costs from differences in float64, whose error is relative to the cost itself."""
    if len(v) == 1:
        return cell[:0], cost[:0]
    top, d, p = float(v.max()), problem.x.shape[1], problem.p
    f = cost - v[cell]
    reach, height = (f + top).clamp(min=0), f.abs().clamp(min=top)
    error = unit_roundoff(torch.float64) * (((d + 8) * max(p / 2, 1.0) + 16) * reach + 3 * height)
    loss = 2 * error - margin
    some = (loss > 0).nonzero()[:, 0]
    return some, loss[some]


def of_sums(mean: float, turnover: Tensor, d: int, p: float) -> Tensor:
    """Rounding error of the semi-dual summed in float64.

    Args:
        mean: of the costs.
        turnover: sum of |v_i| times the mass of cell i and the weight of point i, times the unit roundoffs of these.
        d: dimension, over which each cost is a sum.
        p: power.
    """
    return 2.0**-53 * (((d + 8) * max(p / 2, 1.0) + SUMMED) * mean + turnover)
