"""Starting points: random samples, samples that are far from each other (k-means++), or annealed points."""

from __future__ import annotations

import math
from typing import Any, get_args

import torch
from torch import Generator, Tensor

from ...deterministic import column_medians, running_sum
from ...names import Init
from ...sources import Source
from ...tensors import check_count, check_finite, check_name, normalised
from ...transport import Cost, as_cost, as_marginals, is_choice
from ...transport.passes import chunk_elements
from .annealing import FEWEST, annealed_means, deterministic_annealing, mass_constrained_annealing
from .arrangement import differ, order_on_line, placed

POOL = 20  # samples per point from which k-means++ chooses
ANNEALED = 500  # samples per point on which random points are annealed, up to ANNEALED_ELEMENTS
ANNEALED_ELEMENTS = 500_000  # samples times points; beyond it fewer samples are used, at least POOL per point
ON_LINE = 400_000  # samples on the line among which points of unequal weights are placed
REFERENCES = 1000  # samples to which distances are computed to find outliers
OUTLYING = 1.5  # times the share that is trimmed: the part of them that have to be near a sample which is not
BINS = 50  # bins per point on the line, in each of which the density is taken to be constant


def check_size(size: Any) -> int:
    """The number of points as an int; ValueError unless it is positive."""
    return check_count(size, "size", "a positive whole number, of points")


def start_points(
    source: Source, size: int, init: Init, p: float | Cost, generator: Generator, weights: Any = None, trim: float = 0.0
) -> Tensor:
    """Exactly `size` starting points (size, d), drawn from the source; rows repeat if it has fewer.

    `weights` are the weights of the points, as in `build_coreset`; only annealed starts depend on them. The farthest
    samples, a share `trim` of all, are not used.
    """
    check_name(init, "init", get_args(Init))
    if init == "random" and not trim:
        return repeat_to(source.draw(size, generator), size, generator)
    count = max(1000, POOL * size) if init == "kmeans++" else pool_size(size)
    pool = source.draw(count, generator)
    if pool.shape[1] == 1 and weights is not None and init == "annealed":
        # Sorting is cheap, and in a small pool the cells of light points would hold too few samples.
        pool = source.draw(max(len(pool), ON_LINE), generator)
    if trim:
        pool = without_outliers(pool, trim, generator)
    if init == "random":
        order = torch.randperm(len(pool), generator=generator, device=generator.device)
        return repeat_to(pool[order[:size].to(pool.device)], size, generator)
    if init == "kmeans++":
        return kmeans_plus_plus(pool, size, p, generator)
    return annealed(pool, size, p, generator, weights)


def without_outliers(pool: Tensor, trim: float, generator: Generator) -> Tensor:
    """The pool (m, d) without a share `trim` of its rows, those in the regions of lowest density.

    The criterion is the distance to the k-th nearest of some reference rows, where k exceeds the number of outliers
    among these, so that outliers which lie close together are found too.

    Source: distance to a measure: Chazal, Cohen-Steiner, Merigot (2011).
    """
    chosen = torch.randperm(len(pool), generator=generator, device=generator.device)[:REFERENCES].to(pool.device)
    rows = pool.to(torch.promote_types(pool.dtype, torch.float32))
    rows = rows - column_medians(rows)
    references = rows[chosen]
    k = min(len(references), math.ceil(OUTLYING * trim * len(references)) + 2)
    blocks = torch.split(rows, max(16, chunk_elements(rows.device) // len(references)))
    far = torch.cat([torch.cdist(block, references).kthvalue(k, 1).values for block in blocks])
    return pool[far.argsort(stable=True)[: max(1, math.floor((1 - trim) * len(pool)))].sort().values]


def pool_size(size: int) -> int:
    """Number of samples on which points are annealed and starts are compared."""
    return max(1000, POOL * size, min(ANNEALED * size, ANNEALED_ELEMENTS // size))


def annealed(pool: Tensor, size: int, p: float | Cost, generator: Generator, weights: Any) -> Tensor:
    """Points annealed on rows of pool (m, d); on the line the quantiles, which are nearly optimal.

    Points of equal weights begin at the means of a balanced bisection, others at random rows. Unequal weights are
    arranged so that heavy points lie where the pool is dense; weights that the plan chooses are annealed too. With
    fewer than FEWEST rows per point none are annealed: those of equal or chosen weights stay at the means of the
    bisection, others at random rows.
    """
    chosen = torch.randperm(len(pool), generator=generator, device=generator.device)[:size]
    points = repeat_to(pool[chosen.to(pool.device)], size, generator)
    check_finite(pool, "samples")
    marginals = as_marginals(weights, size, "weights", device=points.device)
    b = normalised(None if is_choice(weights) else weights, size, "weights", points.device)
    if pool.shape[1] == 1:
        rows = pool.sort(0).values
        found = (
            quantiles(rows, b, p) if marginals is None else middles(rows, marginals.nearest(best_masses(rows, size, p)))
        )
        return found.to(torch.promote_types(points.dtype, torch.float32))
    few = len(pool) < FEWEST * size
    used = b > 0
    can_bisect = not differ(b) and as_cost(p).by_products and int(used.sum()) < len(pool)
    from_means = can_bisect and (few or marginals is None)
    if few and not from_means:
        return points
    points = points.to(torch.promote_types(points.dtype, torch.float32))
    pool = pool.to(points)
    if from_means:
        points[used] = annealed_means(pool, int(used.sum()), as_cost(p), generator)
        return points
    if marginals is not None:
        low, high = (float(bound[0]) * size for bound in (marginals.low, marginals.high))
        return mass_constrained_annealing(separated(points, generator), b, pool, p, generator, (low, high))
    if not differ(b):
        return deterministic_annealing(separated(points, generator), b, pool, p, generator)
    points = mass_constrained_annealing(separated(points, generator), b, pool, p, generator)
    return placed(points, b, pool, p)


def quantiles(rows: Tensor, b: Tensor, p: float | Cost) -> Tensor:
    """The rows in the middle of the cells of points of weights b (n,), from sorted rows (m, 1); (n, 1)."""
    order = order_on_line(rows[:, 0], b, p) if differ(b) else torch.arange(len(b), device=b.device)
    points = rows.new_empty(len(b), 1)
    points[order] = middles(rows, b[order])
    return points


def middles(rows: Tensor, mass: Tensor) -> Tensor:
    """The rows in the middle of cells of these masses, from left to right, from sorted rows (m, 1); (n, 1)."""
    return rows[((running_sum(mass) - mass / 2) * len(rows)).long().clamp(0, len(rows) - 1)]


def best_masses(rows: Tensor, size: int, p: float | Cost) -> Tensor:
    """Approximate optimal masses (n,) of n points on the line for sorted rows (m, 1), from left to right.

    If f is the density of the rows, that of optimal points is proportional to a power of f (`Cost.point_density`).

    Source: Graf and Luschgy (2000), theorem 7.5.
    """
    m, count = len(rows), min(len(rows) - 1, BINS * size)
    if count < 1:
        return rows.new_full((size,), 1 / size, dtype=torch.float64)
    places = torch.arange(count + 1, device=rows.device) * (m - 1) // count
    share = places.diff().double() / (m - 1)
    width = rows[places, 0].double().diff()
    points = width * (share / width.where(width > 0, 1.0)) ** as_cost(p).point_density(1)
    reached = running_sum(points) / points.sum() if float(points.sum()) > 0 else running_sum(share)
    # Mass up to the ends of cells that hold as much of `points` each.
    ends = torch.arange(1, size + 1, dtype=torch.float64, device=rows.device) / size
    place = torch.searchsorted(reached, ends).clamp(max=count - 1)
    before = torch.where(place > 0, reached[place - 1], 0.0)
    part = ((ends - before) / (reached[place] - before).clamp(min=1e-300)).clamp(0, 1)
    mass = running_sum(share)[place] - share[place] * (1 - part)
    mass[-1] = 1.0
    return mass.diff(prepend=mass.new_zeros(1))


def repeat_to(rows: Tensor, size: int, generator: Generator) -> Tensor:
    """The rows, followed by randomly repeated rows up to `size`."""
    missing = size - len(rows)
    if missing <= 0:
        return rows[:size]
    again = torch.randint(len(rows), (missing,), generator=generator, device=generator.device)
    return torch.cat((rows, rows[again.to(rows.device)]))


def separated(points: Tensor, generator: Generator) -> Tensor:
    """The points, with equal ones separated by noise of a thousandth of the spread.

    Equal points have equal gradients and would never separate; any small difference lets them divide their cell.
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
