"""One pass over all samples for a problem whose marginals are not fixed: cells, unmatched samples, the semi-dual.

    v (n,) potential      a (m,) sample weights      t_k = min_i [c(y_k, x_i) - v_i]      s share that stays unmatched

Where mass may stay unmatched, a sample does so if t_k > 0, which counts as a cell of its own, number n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...deterministic import mass_by_cell
from ..marginals import Marginals
from ..passes import RESOLUTION, SUMMED, Engine, of_sums


@dataclass(frozen=True)
class RelaxedCells:
    """The cells of a potential."""

    potential: Tensor  # (n,)
    level: float  # potential up to which points are filled, where weights are not fixed
    cell: Tensor  # (m,) int64 cell of each sample; n if it stays unmatched
    nearest: Tensor  # (m,) int64 point nearest in c - v, also of those
    cost: Tensor  # (m,) float64 cost to that point
    margin: Tensor  # (m,) what a sample loses by going elsewhere, or less
    mass: Tensor  # (n + 1,) float64 mass of each cell, in units of the mass that is matched
    transform: Tensor  # (m,) float64 what a sample of weight 1 adds to the semi-dual
    mean: float  # cost of the cells
    error: float  # how far the semi-dual may lie below what was summed up, by rounding
    dual: float  # the semi-dual less that error: a lower bound


def relaxed_cells(engine: Engine, marginals: Marginals, v: Tensor) -> RelaxedCells:
    """The cells of a potential (n,): one pass.

    Without unmatched mass a constant added to v changes nothing, and v comes back less its level.
    """
    problem, n = engine.problem, len(v)
    if not marginals.trim:
        v = v - marginals.cheapest(v)[1]
    height, level = marginals.cheapest(v)
    found = engine.hard(v)
    t = found.cost - v[found.cell]
    unmatched = t > 0 if marginals.trim else torch.zeros_like(t, dtype=torch.bool)
    lost = found.error
    if marginals.trim and found.error > engine.accuracy * float(problem.a @ torch.where(unmatched, 0.0, found.cost)):
        lost = _error_of_matched(engine, v, t, unmatched)
    cell = torch.where(unmatched, n, found.cell)
    margin = found.margin.to(t)
    if marginals.trim:
        margin = torch.where(unmatched, t, torch.minimum(margin, -t))
    mass = mass_by_cell(cell, problem.a, n + 1) / marginals.matched
    transform = marginals.transform(t)
    a = problem.a / marginals.matched
    mean = float(a @ torch.where(unmatched, 0.0, found.cost))
    turnover = float(mass[:n] @ v.abs() + marginals.high.clamp(max=1) @ v.abs())
    roundoffs = problem.cost.roundoffs(problem.x.shape[1])
    error = lost / marginals.matched + of_sums(roundoffs, mean, SUMMED * turnover)
    dual = float(problem.a @ transform) + height - (error if error > RESOLUTION * mean else 0.0)
    return RelaxedCells(v, level, cell, found.cell, found.cost, margin, mass, transform, mean, error, dual)


def _error_of_matched(engine: Engine, v: Tensor, t: Tensor, unmatched: Tensor) -> float:
    """How far rounding may have the minima of matched samples too high: those certainly unmatched may be far away."""
    problem = engine.problem
    top = float(v.max())
    reach, height = (t + top).clamp(min=0), t.abs().clamp(min=top)
    norm, u = problem.squares.double().sqrt(), torch.finfo(problem.y.dtype).eps
    error = problem.cost.expansion_error(reach, height, norm, problem.x.shape[1], u)
    near = (~unmatched | (t <= 2 * error)).nonzero()[:, 0]
    if not len(near):
        return 0.0
    part = engine.apart(replace(problem, y=problem.y[near], a=problem.a[near], equal=False))
    return part.hard(v).error
