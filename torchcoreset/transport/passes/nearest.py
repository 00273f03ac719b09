"""The lowest and the second lowest of many rows or columns of numbers.

torch finds what a minimum is ten times faster than where it is. Of few points, numbers are arranged in columns, one for
each sample, since torch reduces many columns side by side; the place of the lowest is found by comparing all with it.
Of many points they are arranged in rows, which are folded: the minima over every FOLD-th number leave FOLD numbers, and
a place is sought only among these and then in one column of the fold.

And where numbers are small: the places of all below a bound, and of about as many of the least as are asked for.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ...deterministic import kth_smallest

FEW = 256  # points below which columns are faster than rows (measured: 2 to 5 times up to 100 points)
SEARCHED = 32  # numbers a column up to which torch's own search is faster than comparing (measured)
FOLD = 32
SHOWN = 1 << 13  # numbers that show how large the least of all are


def lowest_in_columns(table: Tensor) -> tuple[Tensor, Tensor]:
    """The lowest of each column of `table` (n, columns), and its first index: (columns,) each."""
    n = len(table)
    if n <= SEARCHED:
        lowest, place = table.min(0)
        return lowest, place
    lowest = table.amin(0)
    from_end = torch.arange(n, 0, -1, dtype=table.dtype, device=table.device)[:, None]
    last = torch.eq(table, lowest, out=torch.empty_like(table)).mul_(from_end).amax(0)
    return lowest, n - last.long()


def two_lowest_in_columns(table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same, and the second lowest (infinite for n = 1), (columns,).

    The table, which is contiguous, is overwritten.
    """
    columns = table.shape[1]
    lowest, place = lowest_in_columns(table)
    flat = place * columns + torch.arange(columns, device=table.device)
    return lowest, place, table.view(-1).index_fill_(0, flat, math.inf).view_as(table).amin(0)


def lowest_in_rows(table: Tensor) -> tuple[Tensor, Tensor]:
    """The lowest of each row of `table` (rows, n), and its index: (rows,) each."""
    n = table.shape[1]
    if n < FEW:
        lowest, place = table.min(1)
        return lowest, place
    folded = n - n % FOLD
    _, column, along = _along_lowest(table[:, :folded].reshape(len(table), -1, FOLD))
    lowest, group = along.min(1)
    place = group * FOLD + column[:, 0]
    if folded == n:
        return lowest, place
    rest, rest_place = lowest_in_rows(table[:, folded:])
    return torch.minimum(lowest, rest), torch.where(rest < lowest, rest_place + folded, place)


def two_lowest_in_rows(table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same, and the second lowest (infinite for n = 1), (rows,); the table is overwritten."""
    n = table.shape[1]
    if n < FEW:
        lowest, place = table.min(1)
        return lowest, place, table.scatter_(1, place[:, None], math.inf).amin(1)
    folded = n - n % FOLD
    lowest, place, second = _folded(table[:, :folded].reshape(len(table), -1, FOLD))
    if folded == n:
        return lowest, place, second
    rest, rest_place, rest_second = two_lowest_in_rows(table[:, folded:])
    in_rest = rest < lowest
    second = torch.minimum(torch.where(in_rest, rest_second, rest), torch.where(in_rest, lowest, second))
    return torch.minimum(lowest, rest), torch.where(in_rest, rest_place + folded, place), second


def _folded(table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same for (rows, groups, FOLD)."""
    columns, column, along = _along_lowest(table)
    others = columns.scatter_(1, column, math.inf).amin(1)
    lowest, group = along.min(1, keepdim=True)
    second = torch.minimum(along.scatter_(1, group, math.inf).amin(1), others)
    return lowest[:, 0], (group * FOLD + column)[:, 0], second


def _along_lowest(table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of (rows, groups, FOLD) the lowest of each column, which column has the lowest of all, and what is in that."""
    columns = table.amin(1)
    column = columns.min(1, keepdim=True).indices
    return columns, column, table.gather(2, column[:, :, None].expand(-1, table.shape[1], 1))[:, :, 0]


def true_places(mask: Tensor) -> Tensor:
    """Indices, ascending, of what is true in a mask (m,), (k,) int64."""
    if mask.is_cpu:  # NumPy takes a third to a fifth of the time (measured)
        return torch.from_numpy(np.flatnonzero(mask.numpy()))
    return mask.nonzero()[:, 0]


def places_below(block: Tensor, bound: Tensor) -> Tensor:
    """Where a block (rows, n), flattened, is no more than the bound (rows, 1) of its row, ascending."""
    if block.is_cpu:  # NumPy compares 5 times faster than torch, too (measured)
        return torch.from_numpy(np.flatnonzero(block.numpy() <= bound.numpy()))
    return (block <= bound).flatten().nonzero()[:, 0]


def about_least(values: Tensor, count: int) -> Tensor:
    """Indices, in any order, of about `count` of the values (m,), the least of them; never more than twice as many.

    These lie below a bound that some of the values show, which takes a fifth of the time of `topk` (measured).
    """
    shown = values[:: max(1, len(values) // SHOWN)]
    bound = kth_smallest(shown, math.ceil(count * len(shown) / len(values)))
    places = true_places(values <= bound)
    return places if len(places) <= 2 * count else values.topk(count, largest=False).indices
