"""Starting points of equal weights: blocks of points are annealed each on its own part of the samples.

A step of annealing on all samples costs as many pairs as there are points and samples. `bisected` gives every few
points a part of the samples of just their mass. Points that start there, from the means of its leaves, need no others
to move them: a step costs at most BLOCK pairs a sample, however many points there are, and fewer steps do.

Blocks of similar size move side by side, filled up to the size of the largest by points and samples of weight zero.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Generator, Tensor
from torch.nn.utils.rnn import pad_sequence

from ...deterministic import column_medians
from ...transport import Cost, as_cost
from ...transport.passes import chunk_elements
from . import annealing
from .annealing import annealed_blocks, few_dimensions, lifted
from .bisection import bisected, leaf_means

# Points of a block. Measured on 11 data sets with 100 points: W_2^2 ends within 0.1 % of that with 64, which take twice
# as long in the plane.
BLOCK = 32
# Steps of several blocks; 20 end a tenth of a per cent higher. One block takes `annealing.STEPS`: after 30, the
# best of five starts of 20 points is 0.3 % higher in the square.
STEPS = 30
ALONE = 64  # points up to which there is one block; several would hardly be faster
FEWEST = 5  # samples a point; with fewer there is nothing to smooth, and points stay at the means of their leaves
FILLED = 1.3  # times the pairs of blocks, that they may take side by side


def points_in_blocks(y: Tensor, n: int, p: float | Cost, generator: Generator) -> Tensor:
    """Starting points (n, d) of equal weights for equally weighted samples y (m, d), n <= m, in their dtype.

    Only for costs by products: cuts and means of coordinates say nothing of another cost.
    """
    cost = as_cost(p)
    few, basis, mean = few_dimensions(y, generator)
    indices, samples, points = [], [], []
    for index, sizes in bisected(few, n, n if n <= ALONE else BLOCK, generator):
        indices.append(index.to(y.device))
        samples.append(few[indices[-1]])
        points.append(leaf_means(samples[-1] if len(y) >= FEWEST * n else y[indices[-1]], sizes))
    if len(y) < FEWEST * n:
        return torch.cat(points)
    steps = annealing.STEPS if len(points) == 1 else STEPS
    for batch in _batches(samples, points):
        moved = _side_by_side([samples[i] for i in batch], [points[i] for i in batch], cost, generator, steps)
        for i, z in zip(batch, moved, strict=True):
            points[i] = z if basis is None else lifted(z, samples[i], y[indices[i]], basis, mean, cost)
    return torch.cat(points)


def _batches(samples: list[Tensor], points: list[Tensor]) -> Iterator[list[int]]:
    """Numbers of blocks that are annealed at once, from the largest to the smallest."""
    pairs = [len(x) * len(y) for x, y in zip(points, samples, strict=True)]
    batch: list[int] = []
    for i in sorted(range(len(pairs)), key=lambda i: (len(points[i]), len(samples[i])), reverse=True):
        grown = [*batch, i]
        filled = len(grown) * max(len(points[j]) for j in grown) * max(len(samples[j]) for j in grown)
        if batch and filled > min(FILLED * sum(pairs[j] for j in grown), chunk_elements(samples[i].device)):
            yield batch
            grown = [i]
        batch = grown
    yield batch


def _side_by_side(
    samples: list[Tensor], points: list[Tensor], cost: Cost, generator: Generator, steps: int
) -> list[Tensor]:
    """Points (n_i, d) of each block, annealed on its samples (m_i, d)."""
    shifts = [column_medians(x) for x in points]
    x, y = (
        pad_sequence([rows - shift for rows, shift in zip(blocks, shifts, strict=True)], batch_first=True)
        for blocks in (points, samples)
    )
    b, a = (
        pad_sequence([rows.new_full((len(rows),), 1 / len(rows), dtype=torch.float64) for rows in blocks], True)
        for blocks in (points, samples)
    )
    moved = annealed_blocks(x, b, y, a, cost, generator, steps=steps)
    return [z[: len(x)] + shift for z, x, shift in zip(moved, points, shifts, strict=True)]
