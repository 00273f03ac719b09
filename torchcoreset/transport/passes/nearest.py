"""The lowest and the second lowest of many rows or columns of numbers.

torch finds what a minimum is ten times faster than where it is. Of few points, numbers are arranged in columns, one for
each sample, since torch reduces many columns side by side; the place of the lowest is found by comparing all with it.
Of many points they are arranged in rows, which are folded: the minima over every FOLD-th number leave FOLD numbers, and
a place is sought only among these and then in one column of the fold.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

FEW = 256  # points below which columns are faster than rows (measured: 2 to 5 times up to 100 points)
SEARCHED = 32  # numbers a column up to which torch's own search is faster than comparing (measured)
FOLD = 32


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
