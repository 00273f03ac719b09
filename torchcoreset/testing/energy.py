"""The energy distance on the line, where it is an integral of squares, and its minimisers are quantiles.

    F, G   distribution functions      int (F - G)^2 dx = E |X - Y| - E |X - X'| / 2 - E |Y - Y'| / 2   (Cramer's)

Of n equal points x_1 <= ... <= x_n and a continuous F, the derivative in x_i is (2 F(x_i) - (2 i - 1) / n) / n: support
points are the quantiles of (2 i - 1) / 2n, which is also where W_1 is least. On [0, 1] their value is 1 / 12 n^2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .line import LineProblem, flatten_line

__all__ = ["energy_line", "support_points_line"]


def energy_line(
    points: Tensor, samples: Tensor, point_weights: Tensor | None = None, sample_weights: Tensor | None = None
) -> float:
    """int (F - G)^2 dx between weighted points and weighted samples, by sorting; half the energy distance.

    Args:
        points, samples: (n, 1) and (m, 1).
        point_weights, sample_weights: non-negative, any positive sum; equal if None.

    Source: Szekely and Rizzo (2013), section 2.

    >>> energy_line(torch.tensor([[0.0]]), torch.tensor([[3.0], [5.0]]))
    3.5
    """
    values, masses = [], []
    for name, rows, weights, sign in (
        ("points", points, point_weights, 1.0),
        ("samples", samples, sample_weights, -1.0),
    ):
        x = flatten_line(name, rows).double()
        mass = torch.ones_like(x) if weights is None else weights.to(x)
        values.append(x)
        masses.append(sign * mass / mass.sum())
    place, order = torch.cat(values).sort()
    difference = torch.cat(masses)[order].cumsum(0)
    return float((difference[:-1].square() * place.diff()).sum())


def support_points_line(problem: LineProblem, size: int) -> Tensor:
    """(size, 1) the points of least energy distance to a distribution on the line, ascending.

    >>> from torchcoreset.testing import UNIFORM
    >>> support_points_line(UNIFORM, 4)[:, 0].tolist()
    [0.125, 0.375, 0.625, 0.875]
    """
    return problem.quantile_sample(size)
