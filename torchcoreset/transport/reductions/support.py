"""Points of weight zero: left out of a problem, and given back the potential that leaves them empty.

x (n, d) points, b (n,) their weights      v (n,) potential      c cost
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ..problem import Problem


def restrict(problem: Problem, support: Tensor) -> Problem:
    """The problem of those points alone that `support` (n,) marks."""
    return replace(problem, x=problem.x[support], b=problem.b[support])


def restrict_start(v: Tensor | None, part: Tensor) -> Tensor | None:
    """Of a potential (n,) to start from, if there is one, what some points have of it: marked, or by number."""
    return None if v is None else v[part]


def c_transform(problem: Problem, part: Tensor, which: Tensor) -> Tensor:
    """Highest potential that leaves each of some cells (n,) empty, (n,); infinite for the others.

    `part` (m,) is the c - v of each sample at its own point.
    """
    highest = torch.full_like(problem.b, torch.inf)
    for i in which.nonzero()[:, 0].tolist():
        highest[i] = (problem.cost.paired(problem.y, problem.x[i].expand_as(problem.y)) - part).min()
    return highest


def extend(values: Tensor, support: Tensor, others: Tensor | float) -> Tensor:
    """Values (n,) of all points: those of the points that `support` (n,) marks, and `others` of the rest."""
    whole = others.clone() if isinstance(others, Tensor) else values.new_full((len(support),), others)
    whole[support] = values
    return whole
