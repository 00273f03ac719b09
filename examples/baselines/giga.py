"""Greedy iterative geodesic ascent: few positive weights, whose weighted sum of vectors is near the sum of all."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor


def giga(vectors: Tensor, steps: int) -> Iterator[Tensor]:
    """Weights (m,) for the vectors (m, k) after each step; a step adds one vector, or more weight to one it has.

    On the unit sphere, each step moves from the normalised weighted sum along the great circle to the vector that
    heads most nearly to the normalised sum; lengths are put right in the end. Ends early when no vector helps. Steps
    that come back to vectors they have cost m operations; m k are needed for each new one.

    Args:
        vectors: of the log likelihood of each row; rows of zeros get no weight.
        steps: most steps.

    Source: Campbell and Broderick (2018), Bayesian Coreset Construction via Greedy Iterative Geodesic Ascent,
    Algorithm 1.
    """
    total = vectors.sum(0)
    lengths, goal = vectors.norm(dim=1), total / total.norm()
    inverse = torch.where(lengths > 0, 1 / lengths, 0)
    unit = vectors * inverse[:, None]
    to_goal = unit @ goal  # <l_n, l>
    to_chosen: dict[int, Tensor] = {}  # <l_n, l_m> for each vector m that has been chosen
    weights, current, near = torch.zeros_like(lengths), torch.zeros_like(goal), torch.zeros_like(lengths)
    for _ in range(steps):
        reached = goal @ current
        # <d_t, d_tn> up to a factor: the tangents at the current point towards the goal and towards each vector
        best = int(((to_goal - reached * near) / (1 - near.square()).clamp_min(1e-14).sqrt()).argmax())
        forth, back = to_goal[best] - reached * near[best], reached - to_goal[best] * near[best]
        if forth <= 1e-15 or forth + back <= 0:
            return
        part = (forth / (forth + back)).clamp(0, 1)
        weights = (1 - part) * weights
        weights[best] += part
        if best not in to_chosen:
            to_chosen[best] = unit @ unit[best]
        moved = (1 - part) * current + part * unit[best]
        length = moved.norm()
        weights, current = weights / length, moved / length
        near = ((1 - part) * near + part * to_chosen[best]) / length  # <l_n, current>
        yield weights * (goal @ current) * total.norm() * inverse
