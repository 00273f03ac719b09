"""Choices of a plan as nodes of a flow in which all supplies and demands are fixed.

    low_i <= b_i <= high_i weights of n points      s share of the mass that stays unmatched

What a point leaves of high_i is filled by a supply of its own: high_i - low_i, which goes to the point or to a pool
that takes 1 - sum low. So the point receives between low_i and high_i from the samples. Mass that stays unmatched goes
to a sink that takes s / (1 - s), at no cost from anywhere.

    columns: n points, the pool, the sink      rows: samples, then the supplies of the points

Source: capacities as supplies and demands: Ahuja, Magnanti, Orlin (1993), Network Flows, section 2.4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..flow import MASS_TOLERANCE, Balanced, Floats, balance
from ..marginals import Marginals


@dataclass(frozen=True)
class Flow:
    """Where the mass of some samples goes, and the potential of that plan."""

    rows: Tensor  # (e,) samples
    cols: Tensor  # (e,) points; n of what stays unmatched
    mass: Tensor  # (e,)
    potential: Tensor  # (n,)


def balance_relaxed(
    costs: Floats, cell: Tensor, a: Tensor, mass: Tensor, marginals: Marginals, v: Tensor, level: float
) -> Flow:
    """Move mass between cells, the pool and the sink until the plan keeps its marginals, at the least cost.

    Args:
        costs: (k, n) of the samples that may move.
        cell, a: (k,) their cells, n of those that are unmatched, and masses, in units of the mass that is matched.
        mass: (n + 1,) of all cells in that unit, with the samples that may not move.
        marginals: that the plan has to keep.
        v, level: (n,) potential of the cells, and that of the pool.
    """
    n, k = len(v), len(cell)
    bounds = [bound.cpu().numpy() for bound in (marginals.low, marginals.high)]
    slack = bounds[1] - bounds[0]
    pools, sinks = int(not marginals.fixed), int(marginals.trim > 0)
    top = float(v.max())  # beside which differences lose digits, where unmatched samples are far away
    potential = np.concatenate((v.cpu().numpy(), [level] * pools, [0.0] * sinks)) - top
    held, demands = mass.cpu().numpy(), [bounds[1]]
    table = np.full((k + pools * n, len(potential)), np.inf)  # where nothing else is said, no mass may go
    table[:k, :n] = costs
    home, masses = cell.cpu().numpy().copy(), a.cpu().numpy()
    if sinks:
        home[home == n] = n + pools
    if pools:
        full = potential[:n] > potential[n]  # where the samples bring less than could be had
        places = np.where(full, np.arange(n), n)
        table[k + np.arange(n), np.arange(n)] = table[k:, n] = 0.0
        home, masses = np.concatenate((home, places)), np.concatenate((masses, slack))
        demands.append(np.array([1 - bounds[0].sum()]))
        held = np.concatenate((held[:n] + slack * full, [slack[~full].sum()], held[n:]))
    if sinks:
        table[:k, -1] = 0.0
        demands.append(np.array([marginals.trim / marginals.matched]))
    excess = held[: len(potential)] - np.concatenate(demands)
    excess -= excess.sum() / len(excess)  # masses are rounded numbers
    moved = balance(table, home, masses, excess, potential)
    real = (moved.rows < k) & (moved.cols != (n if pools else -1))
    rows, cols, sent = moved.rows[real], moved.cols[real], moved.mass[real]
    found = moved.potential[:n] + (_least_height(table[:k, :n], moved) if sinks else top)
    entries = [torch.from_numpy(array).to(v.device) for array in (rows, np.minimum(cols, n), sent)]
    return Flow(entries[0], entries[1], entries[2], torch.from_numpy(found).to(v))


def _least_height(costs: Floats, moved: Balanced) -> float:
    """What is added to the potentials of points so that samples with c - v > 0 are those that go to the last column.

    Where the mass that stays unmatched is that of some samples as a whole, any height does between the largest c - v of
    the others and the least of theirs. The least height keeps most digits.
    """
    k, n = costs.shape
    most = -float(moved.potential[-1])
    matched = (moved.rows < k) & (moved.cols < n) & (moved.mass > MASS_TOLERANCE / n)
    rows, cols = moved.rows[matched], moved.cols[matched]
    return min(most, float((costs[rows, cols] - moved.potential[cols]).max())) if len(rows) else most
