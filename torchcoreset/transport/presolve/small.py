"""Small problems: whether they are, and their results from one call on the costs of all pairs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

import torch
from torch import Tensor

from ..costs import Cost
from ..direct import Tables, solve_at_once
from ..result import Transport
from ..solving import BLUNT, Settings, is_one_call


def solve_small(
    cost: Cost,
    tables: Tables,
    most: float,
    least: float,
    start: Tensor | None,
    settings: Settings,
    earlier: Tensor | None = None,
    *,
    samples_differ: bool,
) -> Iterator[Transport | None]:
    """The results of problems (B, n, d), (B, m, d), (B, n), (B, m) if they are small; None of all others.

    The largest number of each is between `least` and `most`. `samples_differ` if no two samples are known to be equal.
    """
    x, y, _, _ = tables
    shape = (x.shape[1], y.shape[1], x.shape[2])
    limits = cost.range(torch.float64, x.shape[2])
    in_one_call = is_one_call(shape, cost, settings, start is not None, samples_differ and y.is_cpu)
    if not (in_one_call and limits[0] <= least and most <= limits[1]):
        return repeat(None, len(x))
    return solve_at_once(cost, tables, start, settings.tolerance, BLUNT, earlier)
