"""Relocation of points whose weights the plan chooses: from where they gain little to where they gain more.

    x (n, d) points, y (m, d) samples, a (m,) weights      c_k, s_k costs of sample k at its nearest two points

With chosen weights several points may share one place or one small group, and no step to the centres separates them.
Removing point i costs the sum of a_k (s_k - c_k) over its cell; a new point at z gains the sum of a_k (c_k - c(y_k, z))
where that is positive. If the gain exceeds the loss, point i moves to z, and is kept there if a short descent confirms
the gain.

Source: swaps of centres: Kanungo et al. (2004), a local search for k-means.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from ...deterministic import mass_by_cell, running_sum
from ...transport import Cost, as_cost
from ...transport.passes import chunk_elements
from ..algorithms import Objective, fixed_point

STEPS = 5  # of the descent after which two sets of points are compared
CANDIDATES = 2  # candidate places per point, drawn with probability proportional to the cost of samples
AT_ONCE = 0.1  # maximum share of the points that move in one round
HOPE = 2.0  # factor on the estimated gain: the descent to the centres often doubles it


def descended(
    points: Tensor, objective: Objective, samples: Tensor, sample_weights: Tensor | None = None
) -> tuple[float, Tensor]:
    """The lowest value in STEPS steps on samples (m, d), and its points (n, d)."""
    tolerance = fixed_point.LOOSEST
    state, on = fixed_point.init(points, tolerance), objective.on(samples, sample_weights)
    for _ in range(STEPS):
        state, _ = fixed_point.step(state, on, tolerance)
    return state.lowest, state.result


def relocated(
    points: Tensor,
    value: float,
    objective: Objective,
    samples: Tensor,
    sample_weights: Tensor | None,
    generator: Generator,
    *,
    rounds: int,
    least_gain: float,
) -> Tensor:
    """The points (n, d), of this value, after some have moved, in rounds that lower it by a part of `least_gain`."""
    cost = as_cost(objective.p)
    for _ in range(rounds):
        moves = _moves(points, samples, sample_weights, cost, objective.trim, generator)
        before = value
        while moves and value == before:
            moved = points.clone()
            for point, place in moves:
                moved[point] = place
            trial, trial_points = descended(moved, objective, samples, sample_weights)
            if trial < value:
                value, points = trial, trial_points
            moves = moves[: len(moves) // 2]
        if not value < (1 - least_gain) * before:
            break
    return points


def _moves(
    x: Tensor, y: Tensor, a: Tensor | None, cost: Cost, trim: float, generator: Generator
) -> list[tuple[int, Tensor]]:
    """Points that should move, and the samples (d,) that they go to, the most gainful first."""
    n, m = len(x), len(y)
    weights = y.new_full((m,), 1 / m, dtype=torch.float64) if a is None else a.double() / a.double().sum()
    if n < 2 or m < 2:
        return []
    rows = max(16, chunk_elements(x.device) // n)
    found = [cost.pairwise(block, x).topk(2, dim=1, largest=False) for block in torch.split(y, rows)]
    cell = torch.cat([two.indices[:, 0] for two in found])
    nearest, second = torch.cat([two.values for two in found]).clamp(min=0).unbind(1)
    if trim:  # unmatched samples gain nothing from another point
        order = nearest.argsort(stable=True)
        weights[order] *= running_sum(weights[order]) <= 1 - trim
    lost = mass_by_cell(cell, weights * (second - nearest), n)
    total = running_sum(weights * nearest)
    if not float(total[-1]) > 0:
        return []
    drawn = torch.rand(CANDIDATES * n, generator=generator, dtype=torch.float64, device=generator.device)
    places = torch.searchsorted(total, drawn.to(total) * total[-1], right=True)
    candidates: Tensor = torch.unique(places.clamp(max=m - 1))
    gained = torch.zeros(len(candidates), dtype=torch.float64, device=x.device)
    blocks = (torch.split(tensor, rows) for tensor in (y, nearest, weights))
    for block, own, mass in zip(*blocks, strict=True):
        gained += mass @ (own[:, None] - cost.pairwise(block, y[candidates])).clamp(min=0).double()
    moves: list[tuple[int, Tensor]] = []
    taken: set[int] = set()
    leaving = lost.argsort(stable=True).tolist()
    for k in gained.argsort(descending=True, stable=True).tolist():
        place = int(cell[candidates[k]])
        while leaving and leaving[0] in taken:
            leaving.pop(0)
        if len(moves) >= max(1, int(AT_ONCE * n)) or not leaving or not HOPE * gained[k] > lost[leaving[0]]:
            break
        if place not in taken and place != leaving[0]:
            taken |= {place, leaving[0]}
            moves.append((leaving.pop(0), y[candidates[k]]))
    return moves
