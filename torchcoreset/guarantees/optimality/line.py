"""The exact optimum on the line, for points of equal weight.

Cells of an optimal plan are intervals of the sorted rows, each with the mass 1/n, and for p = 2 and 1 the best point of
a cell is its mean or median.
"""

from __future__ import annotations

import torch

from .rows import UNIT, Rows


def line_bound(rows: Rows, size: int) -> tuple[float, float]:
    """The least W_p^p of n points of equal weight to rows on the line, less rounding, and that."""
    y, order = rows.centred[:, 0].sort()
    ends = rows.a[order].cumsum(0)
    ends = ends / ends[-1]
    cuts = torch.arange(1, size, dtype=y.dtype, device=y.device) / size
    # Pieces of rows between neighbouring ends and cuts: each lies in one cell.
    levels = torch.cat((ends, cuts)).sort().values
    mass = levels.diff(prepend=levels.new_zeros(1))
    middle = levels - mass / 2
    row = torch.searchsorted(ends, middle).clamp_(max=len(y) - 1)
    cell = (middle * size).long().clamp_(max=size - 1)
    at = y[row]
    if rows.cost.mean_is_best:
        held = mass.new_zeros(size).index_add_(0, cell, mass)
        centre = mass.new_zeros(size).index_add_(0, cell, mass * at) / held
    else:
        halves = (torch.arange(size, dtype=y.dtype, device=y.device) + 0.5) / size
        centre = y[torch.searchsorted(ends, halves).clamp_(max=len(y) - 1)]
    value = float(mass @ rows.cost.paired(at[:, None], centre[cell][:, None]))
    # Levels are off by m unit roundoffs at most: that much mass of each cell is at another cost, up to that of its
    # own width and of the gaps beside it, and all of these add up to no more than that of twice the whole width.
    error = 4 * rows.roundoffs * (value + rows.cost.of_length(2 * float(y[-1] - y[0])))
    return max(value - UNIT * error, 0.0), UNIT * error
