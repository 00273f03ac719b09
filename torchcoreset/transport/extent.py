"""Location and scale of a measure: its spatial median, the median distance to it, and its diameter.

    y (m, d) rows, a (m,) their weights, sum 1

All of these belong to the measure, not to its table: rows without weight do not count, a row of weight 2 counts as two
of weight 1, the order does not matter, and turning or mirroring the axes changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..deterministic import kth_smallest, running_sum
from .problem import Problem, rows_of_block

TIE = 1e-9  # of the mass: sums of weights that differ by less are equal, but for rounding
# Mean of the unit vectors to the rows, which is zero at their median. 1e-3 and 1e-10 give the same median distance to
# 1e-3 on tables and clouds (measured), after 3 to 15 and 10 to 40 passes.
CENTRED = 1e-3
PASSES = 100
LOOKS = (3, 15, 63)  # passes after which the nearest row is tried: towards a row the steps converge slowly
STRAY = 1e-3  # of the mass, the farthest, that a diameter leaves out


def weighted_median(values: Tensor, weights: Tensor | None) -> Tensor:
    """Median of values (m,) of weights (m,), sum 1, equal if None; 0-d, the middle where it is an interval."""
    m = len(values)
    if weights is None:
        lower = kth_smallest(values, (m + 1) // 2)
        return lower if m % 2 else (lower + kth_smallest(values, m // 2 + 1)) / 2
    values, order = values.sort()
    mass = running_sum(weights[order])
    places = torch.searchsorted(mass, mass.new_tensor([0.5 - TIE, 0.5 + TIE])).clamp_(max=m - 1)
    return values[places].mean()


def spatial_median(rows: Tensor, weights: Tensor | None) -> Tensor:
    """The point with the least mean distance to rows (m, d) of weights (m,), sum 1, equal if None; (d,) float64.

    On the line the median, in the middle where that is an interval. Elsewhere to CENTRED, but exactly where it is a
    row: the distance to it of all rows that coincide there is zero.

    Source: Weiszfeld (1937), with the steps of Vardi and Zhang (2000) away from a row.
    """
    if rows.shape[1] == 1:
        return weighted_median(rows[:, 0].double(), weights)[None]
    a = torch.full((len(rows),), 1 / len(rows), dtype=torch.float64, device=rows.device) if weights is None else weights
    centre = torch.stack([mass @ some for mass, some in _blocks(rows, a)]).sum(0)
    for passes in range(PASSES):
        resultant, strength, held, distance = _resultant(rows, a, centre)
        if passes in LOOKS:
            row = rows[distance.argmin()].double()
            away, _, there, _ = _resultant(rows, a, row)
            if float(away.norm()) <= there:
                return row
        excess = float(resultant.norm()) - held
        if excess <= CENTRED:
            break
        centre = centre + resultant * (excess / (excess + held) / strength)
    return centre


def _resultant(rows: Tensor, a: Tensor, at: Tensor) -> tuple[Tensor, float, float, Tensor]:
    """Sum of the unit vectors to rows (d,), sum of their inverse distances, mass right there, and distances (m,)."""
    lengths, sums = [], []
    for mass, some in _blocks(rows, a):
        length = _lengths(some, at)
        lengths.append(length)
        sums.append(torch.where(length > 0, mass / length, 0.0) @ some)
    distance = torch.cat(lengths)
    apart = distance > 0
    strength = torch.where(apart, a / distance, 0.0).sum()
    held = torch.where(apart, 0.0, a).sum()
    return torch.stack(sums).sum(0) - strength * at, float(strength), float(held), distance


def _blocks(rows: Tensor, a: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Weights (k,) and rows (k, d) in float64, a block at a time: no copy is made of all."""
    for mass, some in zip(*(torch.split(part, rows_of_block(rows)) for part in (a, rows)), strict=True):
        yield mass, some.double()


def _lengths(rows: Tensor, at: Tensor) -> Tensor:
    return torch.cdist(rows, at[None], compute_mode="donot_use_mm_for_euclid_dist")[:, 0]


def distances(rows: Tensor, at: Tensor) -> Tensor:
    """Distances (m,) of rows (m, d) to a point (d,) float64, from differences."""
    return torch.cat([_lengths(some.double(), at) for some in torch.split(rows, rows_of_block(rows))])


def data_scale(rows: Tensor, weights: Tensor | None = None) -> float:
    """Median distance of rows (m, d) to their spatial median, in their unit: a scale that is robust to outliers.

    If half of the mass lies at the median, the median distance of the other rows times their mass, which is near the
    mean distance; if all of it does, 1. Weights (m,) have any positive sum, and are equal if None.
    """
    y, a = weighted_rows(rows, weights)
    distance = distances(y, spatial_median(y, a))
    scale = float(weighted_median(distance, a))
    if scale > 0:
        return scale
    apart = distance > 0
    if a is None:
        a = torch.full_like(distance, 1 / len(distance))
    others = a[apart].sum()
    return float(others * weighted_median(distance[apart], a[apart] / others)) if len(distance[apart]) else 1.0


def weighted_rows(rows: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The rows that have weight, and their weights, float64 of sum 1; None where those are equal."""
    if weights is None:
        return rows, None
    used = weights > 0
    if not bool(used.all()):
        rows, weights = rows[used], weights[used]
    weights = weights.double()
    return rows, None if bool((weights == weights[0]).all()) else weights / weights.sum()


def diameter(problem: Problem) -> float:
    """Largest distance between two points or samples, within a few per cent; the farthest thousandth of the mass, half
    of which is the points', is left out.

    From the mean to the farthest row, from there to the farthest, and once more: on the line that is exact.
    """
    n, mass = len(problem.x), torch.cat((problem.b, problem.a)) / 2

    def seen_from(at: Tensor) -> Tensor:
        return torch.cat((distances(problem.x, at), distances(problem.y, at)))

    distance, inside = seen_from((problem.b @ problem.x.double() + problem.mean_sample()) / 2), torch.ones_like(mass)
    if float(mass.min()) <= STRAY:
        order = distance.where(mass > 0, torch.inf).argsort()
        last = int(torch.searchsorted(running_sum(mass[order]), 1 - STRAY - TIE))
        inside[order[last + 1 :]] = 0
    length = distance.new_zeros(())
    for _ in range(2):
        farthest = int((distance * inside).argmax())
        row = problem.x[farthest] if farthest < n else problem.y[farthest - n]
        distance = seen_from(row.double())
        length = torch.maximum(length, (distance * inside).max())
    return float(length)
