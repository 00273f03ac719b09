"""Starting points by deterministic annealing: points move by a smoothed plan while its smoothing decreases slowly.

    x (n, d) points, b (n,) their weights      y (m, d) samples      v (n,) potential      c cost
    eta smoothing      pi (m, n) plan, pi_ki = softmax_i((v_i - c_ki) / eta + log b_i) / m

Each step moves every point to x_i = sum_k w_ki y_k / sum_k w_ki, w = pi times `Cost.weight`, and raises the potential
of points that received too little, v_i += eta log(b_i / q_i), q the mass received, by at most RISE eta: where a point
arrives that received almost nothing, it would take the samples of hundreds of others. While eta is large, samples far
beyond its cell move a point out of a bad start; eta falls by the same factor each step until the cells are nearly
sharp. No transport is solved on the way: a step costs about one pass over the samples.

In many dimensions it is made in the few in which the samples vary most: points come from it as means of their samples.

Source: deterministic annealing: Rose (1998); the update of v: Sinkhorn (1964); the few dimensions: Halko, Martinsson,
Tropp (2011), randomized range finder with one power iteration.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from ...deterministic import column_medians
from ...transport import Cost, Problem, as_cost, within_range
from ...transport.passes import Engine, chunk_elements, exponential_, make_engine
from .bisection import leaf_means, leaves

STEPS = 60  # measured with 1,000 points: 40 end 0.1 to 0.7 % higher, 30 from 0.1 to 1 %
FEWER_STEPS = 40  # of up to 20 points, which end as low, and of more than 200, where steps take up to half of a build
FEWEST_STEPS = 25  # of up to 10 points: 19 sets end from 0.9 % lower to 0.5 % higher (medians of 12 seeds)
FIRST_ETA = 0.5  # in mean costs to the nearest point; from a larger one all points meet in one
LAST_ETA = 0.05  # in the same unit
# Etas by which a potential may rise in a step; more is cut off. Measured on sets of clusters with 6 samples a point,
# W_2^2 over that of the random points a start came from: 1.0 with 0.1 to 0.5, 1.3 with 1, 1.7 without a limit.
RISE = 0.2
# While eta is large, for FIRST_STEPS of the steps, every FEWER-th sample will do, of FIRST_FEWEST a point at least.
# Measured on 16 sets: medians of W_2^2 end from 0.6 % lower to 0.7 % higher; of 5 a point they end 0.1 to 0.7 % higher.
# Not for chosen weights, where light cells would hold too few: digits in 10 cells ended 0.7 % higher.
FIRST_STEPS, FEWER, FIRST_FEWEST = 0.5, 4, 20
FEWEST = 5  # samples a point below which points stay where they are
LEAST_MASS = 1e-3  # of a point of free mass, in mean masses; a point without any would never get any again
MANY = 64  # dimensions beyond which it is made in FEW
FEW = 48  # measured with 200 and 784 dimensions: W_2^2 ends between 0.2 % lower and 0.05 % higher than with all
NOISE = 1e-3  # of a step, in mean distances to the nearest point: separates points that have met

Bounds = tuple[float, float]  # of a mass


def annealed_means(y: Tensor, n: int, cost: Cost, generator: Generator) -> Tensor:
    """Points (n, d) of equal weights for equally weighted samples y (m, d), n <= m, in their dtype.

    They are annealed from the means of the leaves of a balanced bisection. With fewer than FEWEST samples a point there
    is nothing to smooth, and these means are returned.
    """
    few, basis, mean = few_dimensions(y, generator)
    index, sizes = leaves(few, n, generator)
    if len(y) < FEWEST * n:
        return leaf_means(y[index], sizes)
    near = few[index]  # samples side by side that are near each other, of which passes make use
    z = leaf_means(near, sizes)
    b = z.new_full((n,), 1 / n, dtype=torch.float64)
    every = max(1, min(FEWER, len(y) // (FIRST_FEWEST * n)))
    steps = FEWEST_STEPS if n <= 10 else FEWER_STEPS if n <= 20 or n > 200 else STEPS
    z = _annealed(z, b, near, cost, generator, None, steps, every)
    return z if basis is None else lifted(z, few, y, basis, mean, cost)


def deterministic_annealing(x: Tensor, b: Tensor, y: Tensor, p: float | Cost, generator: Generator) -> Tensor:
    """Starting points improved from x (n, d), for equally weighted samples y (m, d) in the dtype of x.

    Points of weight zero do not move, and none do if every sample lies on a point. The generator is for the noise.
    """
    return _in_few_dimensions(x, b, y, as_cost(p), generator, None)


def mass_constrained_annealing(
    x: Tensor, b: Tensor, y: Tensor, p: float | Cost, generator: Generator, bounds: Bounds = (0.0, math.inf)
) -> Tensor:
    """The same for points of chosen mass: b only marks the points that may have mass.

    `bounds` are lower and upper bound of a mass, in units of the mean mass.

    Source: mass-constrained annealing: Rose (1998), section III; here with bounds.
    """
    return _in_few_dimensions(x, b.sign(), y, as_cost(p), generator, bounds)


def _in_few_dimensions(
    x: Tensor, b: Tensor, y: Tensor, cost: Cost, generator: Generator, bounds: Bounds | None
) -> Tensor:
    few, basis, mean = few_dimensions(y, generator)
    used = b > 0
    z = x[used] if basis is None else (x[used] - mean) @ basis
    z = _annealed(z, b[used], few, cost, generator, bounds, STEPS)
    result = x.clone()
    result[used] = z if basis is None else lifted(z, few, y, basis, mean, cost)
    return result


def few_dimensions(y: Tensor, generator: Generator) -> tuple[Tensor, Tensor | None, Tensor]:
    """Samples (m, FEW) in the dimensions in which they vary most, a basis (d, FEW) of these, and their mean (d,).

    Up to MANY dimensions they are the samples as they are, without a basis.
    """
    d, mean = y.shape[1], y.mean(0)
    if d <= MANY:
        return y, None, mean
    samples = y - mean
    basis = torch.randn(d, FEW, generator=generator, dtype=torch.float64, device=generator.device).to(y)
    basis = torch.linalg.qr(samples.t() @ (samples @ basis)).Q
    return samples @ basis, basis, mean


def lifted(z: Tensor, few: Tensor, y: Tensor, basis: Tensor, mean: Tensor, cost: Cost) -> Tensor:
    """The mean in y (m, d) of the samples nearest to each point z (n, FEW) among few (m, FEW); z itself without any."""
    centres, count = y.new_zeros(len(z), y.shape[1]), y.new_zeros(len(z))
    rows = max(16, chunk_elements(y.device) // len(z))
    for block, near in zip(torch.split(y, rows), torch.split(few, rows), strict=True):
        cell = cost.pairwise(near, z).argmin(1)
        centres.index_add_(0, cell, block)
        count.index_add_(0, cell, torch.ones_like(block[:, 0]))
    return torch.where(count[:, None] > 0, centres / count.clamp(min=1)[:, None], z @ basis.t() + mean)


def _annealed(
    x: Tensor, b: Tensor, y: Tensor, cost: Cost, generator: Generator, bounds: Bounds | None, steps: int, every: int = 1
) -> Tensor:
    """Points x (n, d) of positive weights b (n,), moved by samples y (m, d); `every` so many of these at first."""
    n, shift = len(x), column_medians(x)
    z, y = x - shift, y - shift
    v, log_b = torch.zeros_like(b), b.log()
    largest = max(float(z.abs().max()), float(y.abs().max()))
    whole = _engine(z, b, y, cost, largest)
    few = whole if every == 1 else _engine(z, b, y[::every].contiguous(), cost, largest)
    by_engine = cost.mean_is_best and cost.by_products
    nearest = whole.hard(v).mean
    for step in range(steps):
        if not nearest > 0:
            return z + shift if step else x
        eta = FIRST_ETA * (LAST_ETA / FIRST_ETA) ** (step / steps) * nearest
        engine = few if step < FIRST_STEPS * steps else whole
        if by_engine:
            problem = engine.problem.with_points(z.to(engine.problem.x))
            centres, mass, mean = _smoothed(engine.on(problem), v + eta * log_b, eta)
        else:
            centres, mass, mean = _reweighted(z, v, log_b, engine.problem.y, cost, eta)
        if mean > 0 or engine is whole:  # of few samples all may lie on points
            nearest = mean
        if bounds is not None:
            low, high = (bound / n for bound in bounds)
            log_b = mass.clamp(max(low, LEAST_MASS / n), max(high, LEAST_MASS / n)).log()
        v += eta * (log_b - mass.log()).clamp(max=RISE)
        if bounds is not None:
            v = torch.where((low <= mass) & (mass <= high), 0.0, v)  # a point that may keep its mass has no price
        noise = torch.randn(z.shape, generator=generator, dtype=torch.float64, device=generator.device)
        z = (centres + (NOISE * cost.root(nearest)) * noise.to(centres)).to(x.dtype)
    return z + shift


def _engine(x: Tensor, b: Tensor, y: Tensor, cost: Cost, largest: float) -> Engine:
    a = b.new_full((len(y),), 1 / len(y))
    return make_engine(within_range(Problem(x=x, b=b, y=y, a=a, equal=True, cost=cost, largest=largest)), "auto")


def _smoothed(engine: Engine, height: Tensor, eta: float) -> tuple[Tensor, Tensor, float]:
    """Means (n, d) and mass (n,) of the smoothed cells, float64, and about the mean cost to the nearest point."""
    sums, mean = engine.moments(height, eta)
    mass = sums[:, -1]
    centres = sums[:, :-1] / mass[:, None]
    if not float(mass.min()) > 0:
        centres = torch.where(mass[:, None] > 0, centres, engine.problem.x.double())
    return centres, mass, mean


def _reweighted(x: Tensor, v: Tensor, log_b: Tensor, y: Tensor, cost: Cost, eta: float) -> tuple[Tensor, Tensor, float]:
    """The same for costs whose best place is another than the mean."""
    n, d = x.shape
    total, mass, weighted = v.new_zeros(n), v.new_zeros(n), v.new_zeros(n, d)
    nearest = v.new_zeros(())
    height = (v - v.mean() + log_b * eta).to(x.dtype)[:, None]
    for block in torch.split(y, max(16, chunk_elements(x.device) // n)):
        table = cost.pairwise(x, block)  # (n, rows): reductions over few points are fastest down the columns
        nearest += table.amin(0).sum(dtype=torch.float64)
        share = table - height
        exponential_(share.sub_(share.amin(0)), eta)
        share.div_(share.sum(0))
        mass += share.sum(1)
        share *= cost.weight_from_cost(table)
        total += share.sum(1)
        weighted += share @ block
    centres = torch.where(total[:, None] > 0, weighted / total.where(total > 0, 1.0)[:, None], x.double())
    return centres, mass / len(y), float(nearest) / len(y)
