"""Medoid steps: each chosen row is replaced by the best row of its cell under a plan, its medoid.

    pi plan      M_i(k) = sum_l pi_li c(y_l, y_k), the cost of cell i with its point on row k

The plan stays feasible, so W_p^p decreases at least as much as the sum of M_i.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...transport import Cost, Coupling

COMPARED = 512  # rows of a cell, those nearest to its centre: where the mean is the best place, the first is the best
ELEMENTS = 1 << 22  # of a block of costs between the samples of a cell and these rows: 32 MiB


def medoids(
    rows: Tensor, movable: Tensor, centres: Tensor, y: Tensor, plan: Coupling, allowed: Tensor, cost: Cost
) -> Tensor:
    """The rows (n,) after each has moved to the best row of its cell if that is better; all stay different.

    Args:
        rows: (n,) chosen rows, places in y.
        movable: (n,) bool, which of them may move.
        centres: (n, d) about the best places of free points for this plan.
        y: (m, d) float64 samples.
        plan: between y and the rows.
        allowed: (m,) bool, which rows may be taken.
        cost: of moving mass.
    """
    order = torch.argsort(plan.cols, stable=True)
    members, mass = plan.rows[order], plan.mass[order]
    counts = torch.bincount(plan.cols, minlength=len(rows)).tolist()
    found = []  # gain, position, row
    taken = set(rows.tolist())
    cells = zip(members.split(counts), mass.split(counts), strict=True)  # type: ignore[no-untyped-call]
    for i, (cell, held) in enumerate(cells):
        some = cell[allowed[cell] & (held > 0)].unique()
        if not bool(movable[i]) or not len(some):
            continue
        if len(some) > COMPARED:
            away = cost.pairwise_exact(centres[i : i + 1], y[some])[0]
            some = some[away.topk(COMPARED, largest=False).indices]
        compared = torch.cat((rows[i : i + 1], some))
        total = _cell_costs(y, cell, held, y[compared], cost)
        for place in total.argsort(stable=True).tolist():  # a row that is split may be the medoid of two cells
            row = int(compared[place])
            if not bool(total[place] < total[0]):
                break
            if row not in taken:
                found.append((float(total[0] - total[place]), i, row))
                break
    moved = rows.clone()
    for _, i, row in sorted(found, reverse=True):
        if row not in taken:
            taken.add(row)
            moved[i] = row
    return moved


def _cell_costs(y: Tensor, cell: Tensor, held: Tensor, x: Tensor, cost: Cost) -> Tensor:
    """Cost of a cell, samples y[cell] of masses held (k,), with its point at each of x (r, d); (r,)."""
    block = max(1, ELEMENTS // len(x))
    parts = zip(cell.split(block), held.split(block), strict=True)  # type: ignore[no-untyped-call]
    return torch.stack([mass @ cost.pairwise_exact(y[some], x) for some, mass in parts]).sum(0)
