"""Where samples that may change cell can go: the lists of points along which `balance` moves mass.

k samples that may move      i cells (n)      v (n,) potential
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...deterministic import mass_by_cell
from ..passes import Engine
from .network_simplex import CandidateArcs

WITHIN = 4.0  # mean margins of the samples of its cell: points within that are listed for a sample
TWINS = 1e-9  # mean margin over mean cost, below which every point has another in its place


def candidate_arcs(
    engine: Engine, cell: Tensor, margin: Tensor, v: Tensor, lacks: Tensor, widen: int = 1
) -> CandidateArcs:
    """Of each sample the points that it may go to, its own among them.

    The margins in a cell tell how far apart points are about there. Their mean over all cells would let far outliers
    decide, and list nearly all points for the samples where points are dense.

    Args:
        engine: of the samples that may move.
        cell, margin: (k,) of each, as in `LaguerreCells`.
        v: (n,) potential.
        lacks: (n,) mass that each cell lacks; these are listed by their own samples and by more than what they lack.
        widen: times as far; beyond 1 also no less far than the mean margin of all says, or the mean cost where points
            coincide.
    """
    x, b = engine.problem.x, engine.problem.b
    k, n = len(cell), len(v)
    margin = margin.double()
    scale = mass_by_cell(cell, margin, n) / torch.bincount(cell, minlength=n).clamp(min=1)
    if widen > 1:
        everywhere = float(margin.mean())
        own_cost = float(engine.problem.cost.at(engine.problem.y, x, torch.arange(k, device=v.device), cell).mean())
        # Of points that all have a twin, no margin tells how far the others are.
        scale = scale.clamp(min=everywhere if everywhere > TWINS * own_cost else own_cost)
    supply = torch.where(lacks > 0, b + widen * lacks, 0.0)
    rows, cols, _ = engine.lists(v, widen * WITHIN * scale[cell], supply)
    own = torch.arange(k, device=v.device) * n + cell
    key = torch.unique(torch.cat((rows.long() * n + cols, own)))
    rows, cols = key // n, key % n
    cost = engine.problem.cost.at(engine.problem.y, x, rows, cols)
    offsets = torch.searchsorted(rows, torch.arange(k + 1, device=v.device))
    return CandidateArcs(*(t.cpu().numpy() for t in (offsets, cols, cost)))
