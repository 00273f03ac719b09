"""Where the points begin: random samples, samples far from each other (k-means++), or random ones annealed."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Generator, Tensor

from ...deterministic import column_medians, running_sum
from ...sources import Source
from ...tensors import check_count, check_finite, check_name, normalised
from ...transport import Cost, as_cost
from .annealing import deterministic_annealing, mass_constrained_annealing
from .arrangement import differ, order_on_line, placed

Init = Literal["annealed", "random", "kmeans++"]
POOL = 20  # samples a point among which k-means++ chooses
ANNEALED = 500  # samples a point on which random points are annealed, up to ANNEALED_ELEMENTS
ANNEALED_ELEMENTS = 500_000  # samples times points beyond which there are fewer, down to POOL a point
ON_LINE = 400_000  # samples on the line among which points of unequal weights are placed
FEWEST = 5  # samples a point below which random points are not annealed: there is nothing to smooth


def check_size(size: Any) -> int:
    """The number of points as an int; ValueError unless it is positive."""
    return check_count(size, "size", "a positive whole number, of points")


def start_points(
    source: Source, size: int, init: Init, p: float, generator: Generator, weights: Tensor | None = None
) -> Tensor:
    """Exactly `size` starting points (size, d), drawn from the source; rows repeat if it has fewer.

    `weights` (size,) are those of the points, equal if None; only annealed starts depend on them.
    """
    check_name(init, "init", get_args(Init))
    if init == "random":
        return repeat_to(source.draw(size, generator), size, generator)
    if init == "kmeans++":
        return kmeans_plus_plus(source.draw(max(1000, POOL * size), generator), size, p, generator)
    pool = source.draw(pool_size(size), generator)
    if pool.shape[1] == 1 and weights is not None:  # sorting is cheap, and light cells of a small part hold too little
        pool = source.draw(max(len(pool), ON_LINE), generator)
    return annealed(pool, size, p, generator, weights)


def pool_size(size: int) -> int:
    """Number of samples on which points are annealed, and starts compared."""
    return max(1000, POOL * size, min(ANNEALED * size, ANNEALED_ELEMENTS // size))


def annealed(pool: Tensor, size: int, p: float, generator: Generator, weights: Tensor | None) -> Tensor:
    """Random rows of pool (m, d), annealed on all of them; on the line the quantiles, which are nearly optimal.

    Rows come back as they are where there are fewer than FEWEST for each point. Of unequal weights the heavy ones go to
    where the pool is dense, in whichever order they come.
    """
    chosen = torch.randperm(len(pool), generator=generator, device=generator.device)[:size]
    points = repeat_to(pool[chosen.to(pool.device)], size, generator)
    check_finite(pool, "samples")
    b = normalised(weights, size, "weights", points.device)
    if pool.shape[1] == 1:
        return quantiles(pool.sort(0).values, b, p).to(torch.promote_types(points.dtype, torch.float32))
    if len(pool) < FEWEST * size:
        return points
    points = points.to(torch.promote_types(points.dtype, torch.float32))
    pool = pool.to(points)
    if not differ(b):
        return deterministic_annealing(separated(points, generator), b, pool, p, generator)
    points = mass_constrained_annealing(separated(points, generator), b, pool, p, generator)
    return placed(points, b, pool, p)


def quantiles(rows: Tensor, b: Tensor, p: float) -> Tensor:
    """Of sorted rows (m, 1) those in the middle of their cells, for points of weights b (n,); (n, 1)."""
    order = order_on_line(rows[:, 0], b, p) if differ(b) else torch.arange(len(b), device=b.device)
    mass = b[order]
    rank = ((running_sum(mass) - mass / 2) * len(rows)).long().clamp(0, len(rows) - 1)
    points = torch.empty_like(rows[rank])
    points[order] = rows[rank]
    return points


def repeat_to(rows: Tensor, size: int, generator: Generator) -> Tensor:
    """The rows, followed by random repetitions of them up to `size`."""
    missing = size - len(rows)
    if missing <= 0:
        return rows[:size]
    again = torch.randint(len(rows), (missing,), generator=generator, device=generator.device)
    return torch.cat((rows, rows[again.to(rows.device)]))


def separated(points: Tensor, generator: Generator) -> Tensor:
    """The points, with copies of equal ones moved apart by a thousandth of the spread.

    Equal points have equal gradients and would never part, although any small difference lets them share the cell.
    """
    _, group, count = torch.unique(points, dim=0, return_inverse=True, return_counts=True)
    twin = count[group] > 1
    if not bool(twin.any()):
        return points
    noise = torch.randn(points.shape, generator=generator, dtype=torch.float64, device=generator.device)
    spread = points.double().std(0, unbiased=False)
    return torch.where(twin[:, None], points + (1e-3 * spread * noise.to(points.device)).to(points.dtype), points)


def kmeans_plus_plus(pool: Tensor, size: int, p: float | Cost, generator: Generator) -> Tensor:
    """`size` rows of pool (m, d), each drawn with probability proportional to its cost to those before.

    Source: Arthur, Vassilvitskii (2007). Once every row is chosen, rows repeat uniformly.
    """
    rows = pool.to(torch.promote_types(pool.dtype, torch.float32))
    rows = rows - column_medians(rows)
    uniform = torch.rand(size, generator=generator, dtype=torch.float64, device=generator.device).tolist()
    chosen = [min(int(uniform[0] * len(rows)), len(rows) - 1)]
    cost, nearest = as_cost(p), torch.full((len(rows),), torch.inf, dtype=rows.dtype, device=rows.device)
    for u in uniform[1:]:
        last = chosen[-1]
        nearest = torch.minimum(nearest, cost.pairwise(rows, rows[last : last + 1])[:, 0])
        nearest[last] = 0
        total = running_sum(nearest.double())
        if not bool(total[-1] > 0):  # all rows coincide with chosen ones
            chosen.append(min(int(u * len(rows)), len(rows) - 1))
            continue
        chosen.append(min(int(torch.searchsorted(total, u * total[-1], right=True)), len(rows) - 1))
    return pool[torch.tensor(chosen, device=pool.device)]
