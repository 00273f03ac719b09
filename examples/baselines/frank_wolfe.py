"""Frank-Wolfe: weights >= 0, few of them not zero, whose weighted sum of vectors is near the sum of all vectors."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor


def frank_wolfe(vectors: Tensor, steps: int) -> Iterator[Tensor]:
    """Weights (m,) for the vectors (m, k) after each step; a step adds one vector, or more weight to one it has.

    Minimises |sum_n w_n v_n - sum_n v_n|^2 over w >= 0 with sum_n w_n |v_n| = sum_n |v_n|, by exact line search
    towards the vertex that lowers it fastest. Steps that come back to vectors they have cost m operations; m k are
    needed for each new one.

    Args:
        vectors: of the log likelihood of each row; rows of zeros get no weight.
        steps: most steps.

    Source: Campbell and Broderick (2019), Automated Scalable Bayesian Inference via Hilbert Coresets, JMLR 20 (15),
    Algorithm 2.
    """
    lengths, total = vectors.norm(dim=1), vectors.sum(0)
    inverse = torch.where(lengths > 0, 1 / lengths, 0)
    unit, whole = vectors * inverse[:, None], lengths.sum()
    to_goal = unit @ total
    to_chosen: dict[int, Tensor] = {}  # products of all with each vector that has been chosen
    weights, current, near = torch.zeros_like(lengths), torch.zeros_like(total), torch.zeros_like(lengths)
    for step in range(steps):
        best = int((to_goal - near).argmax())
        along = whole * unit[best] - current
        part = (along @ (total - current)) / along.square().sum() if step else torch.ones_like(whole)
        if part <= 0:
            return
        part = part.clamp(max=1)
        weights = (1 - part) * weights
        weights[best] += part * whole * inverse[best]
        if best not in to_chosen:
            to_chosen[best] = unit @ unit[best]
        current = (1 - part) * current + part * whole * unit[best]
        near = (1 - part) * near + part * whole * to_chosen[best]
        yield weights
