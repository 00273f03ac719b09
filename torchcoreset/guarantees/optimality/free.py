"""Bounds for points whose weights are free, or bounded, or given.

    b_i mass of point i      h_k(b) the mean of c_kl over the mass b nearest to row k, which rises with b
    g_k(r) = sum_l a_l (r - c_kl)+      r_k(e) where g_k is e

A cell of mass b_i costs at least sum_k pi_ik h_k(b_i), as in `pairs`, and h_k(b) >= r - g_k(r) / b for every r. With
one e for all rows, sum_i sum_k pi_ik e / b_i = n e, so that whatever the weights

    W_p^p >= sum_k a_k r_k(e) - n e.                                                                            (1)

With an e_k for each row, between e- and e+, the means e_i of the cells are between them, and their sum is at most

    n sum_i b_i e_i + sum_i (1 - n b_i) e_i <= n sum_k a_k e_k + (e+ - e-) sum_i |1 - n b_i| / 2.

For low <= n b_i <= high the last sum is at most n times `SPREAD` = 2 (1 - low) (high - 1) / (high - low), hence

    W_p^p >= sum_k a_k (r_k(e_k) - n e_k) - n (e+ - e-) SPREAD / 2,                                              (2)

in which each e_k is the best between e- and e+. It is (1) for e- = e+, and the bound of `pairs` for low = high = 1.
With b_i >= low / n there is also that of `pairs` for cells of this mass.

Given weights. h_k(b_i) is the cost of sending row k to a cell of mass b_i, and the best assignment has a dual: with
cells in groups of masses b_g and shares s_g

    W_p^p >= sum_k a_k min_g (h_k(b_g) - v_g) + sum_g s_g v_g,   for every v.                                    (3)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .pairs import least
from .rows import UNIT, Rows

REACH = 3.0  # masses 1/n nearest to a row that are looked at; r stays within, so that (1) and (2) hold as they stand
LEVELS = 33  # values of e that are tried
SPAN = 8.0  # by which the first and the last differ from the mean of g at equal weights, up and down
GROUPS = 32  # most groups of given masses
ASCENT = 200  # steps to v


def weighted_bound(rows: Rows, size: int, low: float, high: float, w: Tensor) -> tuple[float, float]:
    """(2) for weights between low / size and high / size, at the shift w (m,), and what rounding took of it."""
    levels, terms, error = level_terms(rows, size, w)
    spread = 0.0 if low == high else 2 * (1 - low) * ((high - 1) / (high - low) if math.isfinite(high) else 1.0)
    best = -math.inf
    for first in range(LEVELS):
        reached = terms[:, first]
        for last in range(first, LEVELS):
            reached = torch.maximum(reached, terms[:, last])
            penalty = size * float(levels[last] - levels[first]) * spread / 2
            best = max(best, float(rows.a @ reached) - penalty)
    return best - error, error


def level_terms(rows: Rows, size: int, w: Tensor) -> tuple[Tensor, Tensor, float]:
    """Levels (LEVELS,) of e, r_k(e) - n e at each, (m, LEVELS), and what rounding may have added to sums of these."""
    count = min(math.ceil(REACH * len(rows) / size) + 1, len(rows))
    levels = _levels(rows, size, w)
    terms, doubt = rows.y.new_empty(len(rows), LEVELS), torch.empty_like(w)
    for some in rows.blocks():
        values, index = rows.costs(some).sub_(w).add_(w[some, None]).topk(count, largest=False)
        held = rows.a[index]
        mass, cost = held.cumsum(1), (held * values).cumsum(1)
        g = (mass * values).sub_(cost)  # at the values; it rises
        place = torch.searchsorted(g, levels.expand(len(g), -1).contiguous(), right=True).sub_(1).clamp_(min=0)
        r = (levels + cost.gather(1, place)) / mass.gather(1, place)
        terms[some] = torch.minimum(r, values[:, -1:]).sub_(size * levels)
        # An r too large by some error has a g that is too large by the mass within reach times that.
        doubt[some] = values.abs().amax(1) * (2 + size * mass[:, -1])
    error = 2 * rows.roundoffs * float(rows.a @ doubt) + 8 * float(rows.a @ w.abs())
    return levels, terms, UNIT * error


def _levels(rows: Rows, size: int, w: Tensor) -> Tensor:
    """Values of e about the mean of g_k where r_k is reached by the mass 1 / size; of some rows, spread over all."""
    some = slice(0, len(rows), max(1, len(rows) // 256))
    values, _, part = least(rows.costs(some).sub_(w).add_(w[some, None]), rows.a, 1 / size)
    reach = values.where(part > 0, -torch.inf).amax(1)
    mean = max(float((reach - (part * values).sum(1)).mean()) / size, 0.0)
    exponents = torch.linspace(-1, 1, LEVELS, dtype=torch.float64, device=w.device)
    return mean * SPAN**exponents


def given_bound(rows: Rows, masses: Tensor, w: Tensor) -> tuple[float, float]:
    """(3) for points of these masses (n,), sum 1, at the shift w (m,), and what rounding took of it."""
    lowest, shares = grouped(masses)
    means, largest = rows.y.new_empty(len(rows), len(lowest)), torch.empty_like(w)
    most = float(lowest.max())
    for some in rows.blocks():
        values, index, _ = least(rows.costs(some).sub_(w).add_(w[some, None]), rows.a, most)
        held = rows.a[index]
        before = held.cumsum(1).sub_(held)
        for group, mass in enumerate(lowest.tolist()):
            part = torch.minimum(held, (mass - before).clamp_(min=0))
            means[some, group] = (part * values).sum(1) / part.sum(1)
        largest[some] = values.abs().amax(1)
    value, size = assignment(means, rows.a, shares)
    error = rows.roundoffs * (2 * float(rows.a @ largest) + size) + 8 * float(rows.a @ w.abs())
    return value - UNIT * error, UNIT * error


def grouped(masses: Tensor) -> tuple[Tensor, Tensor]:
    """At most GROUPS masses (g,), ascending, and the shares (g,) of the points that stand behind them.

    Those of a group take the place of its smallest, which no bound falls by: h_k rises with the mass.
    """
    lowest, place = masses.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    if len(lowest) > GROUPS:
        edges = torch.linspace(0, 1, GROUPS + 1, dtype=masses.dtype, device=masses.device)[:-1]
        starts = torch.searchsorted(lowest, lowest[0] * (lowest[-1] / lowest[0]) ** edges).unique()  # type: ignore[no-untyped-call]
        starts[0] = 0
        place = torch.searchsorted(starts, place, right=True) - 1
        lowest = lowest[starts]
    return lowest, torch.zeros_like(lowest).index_add_(0, place, masses)


def assignment(means: Tensor, a: Tensor, shares: Tensor) -> tuple[float, float]:
    """The best found of (3), for costs (m, g), and a bound on the size of its terms.

    v follows Sinkhorn's iteration at falling temperatures, as in annealing: any v is right.
    """
    v = torch.zeros_like(shares)
    best, size = -math.inf, 0.0
    spread = float((a @ (means - means[:, :1]).abs()).max())
    for temperature in (spread * 10.0**-power for power in (0, 1, 2, 3)):
        value = float(a @ (means - v).amin(1) + shares @ v)
        if value > best:
            best, size = value, float(shares @ v.abs())
        if temperature == 0 or len(v) == 1:
            break
        for _ in range(ASCENT):
            soft = torch.softmax((v - means) / temperature + shares.log(), 1)
            v = v + temperature * (shares / (a @ soft).clamp(min=1e-300)).log().clamp(-1, 1)
            v = v - shares @ v
    value = float(a @ (means - v).amin(1) + shares @ v)
    return (value, float(shares @ v.abs())) if value > best else (best, size)
