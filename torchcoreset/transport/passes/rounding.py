"""What rounding may hide: how far a computed minimum of c - v can lie above the true one, so that bounds stay bounds.

    x (n, d) points, y (m, d) samples      v (n,) potential      f_k = min_i [c(y_k, x_i) - v_i]      u unit roundoff

A pass finds the cell of each sample and the margin to the second nearest point, from rounded numbers. The cost to the
point of the cell is then computed from differences in float64. A point j can be nearer only if c_j <= r = f_cell + max
v. `Cost.expansion_error` bounds the rounding error e of c_j - v_j for costs up to r, so that the true minimum is no
less than f_cell - max(0, 2 e - margin).
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..problem import Problem
from .nearest import true_places

Floats = NDArray[np.float64]
Array = TypeVar("Array", Tensor, Floats)
Sum = TypeVar("Sum", float, Tensor, Floats)

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
    """Samples whose nearest point in c - v may be another than the cell that a pass in the problem's dtype has found.

    Args:
        v: (n,) potential as it went into the pass, near its mean.
        cell, cost: (k,) the cells of some samples, as found, and float64 costs to their points.
        margin: (k,) computed distance in c - v to the second nearest point, or less.
        squares: (k,) of their norms.

    Returns:
        Their places among these, and how far their minimum may lie below what was found, (k,) float64.
    """
    if len(v) == 1 or not len(cell):
        return cell[:0], cost[:0]
    # All samples against the largest error of any first: after that there are few left.
    index = true_places(margin <= doubtful_margin(problem, v, cost, squares))
    if not len(index):
        return index, cost[:0]
    u, d, top = unit_roundoff(problem.x.dtype), problem.x.shape[1], float(v.max())
    f = cost[index] - v[cell[index]]
    reach, height = (f + top).clamp(min=0), f.abs().clamp(min=top)
    error = problem.cost.expansion_error(reach, height, squares[index].double().sqrt(), d, u)
    loss = 2 * error - margin[index]
    some = loss > 0
    return index[some], loss[some]


def doubtful_margin(problem: Problem, v: Tensor, cost: Tensor, squares: Tensor) -> float:
    """The margin from which on no sample is doubtful, whichever it is; arguments as for `doubtful`."""
    u, d = unit_roundoff(problem.x.dtype), problem.x.shape[1]
    low, top = (float(end) for end in torch.aminmax(v))
    most, longest = float(cost.max()) - low, float(squares.max()) ** 0.5
    return float(2 * problem.cost.expansion_error(max(most + top, 0.0), max(most, top), longest, d, u))


def unresolved(problem: Problem, mean: float, part: float = HIDDEN, dtype: torch.dtype | None = None) -> bool:
    """Whether expanded squares, in this or another dtype, err by more than a part of a mean cost like this."""
    u, d = unit_roundoff(dtype or problem.x.dtype), problem.x.shape[1]
    most = problem.cost.expansion_limit(mean, part, d, u)
    return bool(d * problem.largest**2 > most and problem.square > most)  # the first test is free and rarely passes


def doubtful_by_differences(
    problem: Problem, v: Tensor, cell: Tensor, cost: Tensor, margin: Tensor
) -> tuple[Tensor, Tensor]:
    """The same for a pass over costs from differences in float64, whose error is relative to the cost itself."""
    if len(v) == 1:
        return cell[:0], cost[:0]
    roundoffs = problem.cost.roundoffs(problem.x.shape[1])
    loss = minimum_error(roundoffs, cost - v[cell], float(v.max())) - margin
    some = (loss > 0).nonzero()[:, 0]
    return some, loss[some]


def minimum_error(roundoffs: float, f: Array, top: float | Array) -> Array:
    """How far minima f (k,) of c - v from differences in float64 may lie above the true ones; `top` is the largest v.

    Twice the error of a difference: that of the minimum found, and that of another which is it. `roundoffs` are those
    of the cost.
    """
    reach, height = (f + top).clip(min=0), abs(f).clip(min=top)
    error: Array = 2.0**-52 * ((roundoffs + 16) * reach + 3 * height)
    return error


def of_sums(roundoffs: float, mean: Any, turnover: Sum) -> Sum:
    """Rounding error of the semi-dual summed in float64, where `mean` is that of the costs, which have `roundoffs`.

    `turnover` sums |v_i| times the mass of cell i and the weight of point i, times the unit roundoffs of these.
    """
    error: Sum = 2.0**-53 * ((roundoffs + SUMMED) * mean + turnover)
    return error
