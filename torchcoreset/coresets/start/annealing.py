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
from ...transport import Cost, as_cost
from ...transport.passes import chunk_elements, exponential_

STEPS = 60  # measured: 30 end 0.5 % higher in the plane, 120 end 0.1 % lower there and no lower on tables
FIRST_ETA = 0.5  # in mean costs to the nearest point; from a larger one all points meet in one
LAST_ETA = 0.05  # in the same unit
# Etas by which a potential may rise in a step; more is cut off. Measured on sets of clusters with 6 samples a point,
# W_2^2 over that of the random points a start came from: 1.0 with 0.1 to 0.5, 1.3 with 1, 1.7 without a limit.
RISE = 0.2
LEAST_MASS = 1e-3  # of a point of free mass, in mean masses; a point without any would never get any again
MANY = 64  # dimensions beyond which it is made in FEW
FEW = 48  # measured with 200 and 784 dimensions: W_2^2 ends between 0.2 % lower and 0.05 % higher than with all
NOISE = 1e-3  # of a step, in mean distances to the nearest point: separates points that have met

Bounds = tuple[float, float]  # of a mass


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
    """The same as `_annealed`, where there are many dimensions in the few in which the samples vary most."""
    d = x.shape[1]
    if d <= MANY:
        return _annealed(x, b, y, cost, generator, bounds)
    shift = y.mean(0)
    samples, points = y - shift, x - shift
    basis = torch.randn(d, FEW, generator=generator, dtype=torch.float64, device=generator.device).to(y)
    basis = torch.linalg.qr(samples.t() @ (samples @ basis)).Q
    few = samples @ basis
    z = _annealed(points @ basis, b, few, cost, generator, bounds)
    centres, count = torch.zeros_like(x), torch.zeros_like(x[:, 0])
    used = (b > 0).nonzero()[:, 0]
    rows = max(16, chunk_elements(y.device) // len(x))
    for block, near in zip(torch.split(y, rows), torch.split(few, rows), strict=True):
        cell = used[cost.pairwise(near, z[used]).argmin(1)]
        centres.index_add_(0, cell, block)
        count.index_add_(0, cell, torch.ones_like(block[:, 0]))
    held = count[:, None] > 0
    result = torch.where(held, centres / count.clamp(min=1)[:, None], z @ basis.t() + shift)
    return torch.where((b > 0)[:, None], result, x)


def _annealed(x: Tensor, b: Tensor, y: Tensor, cost: Cost, generator: Generator, bounds: Bounds | None) -> Tensor:
    used = b > 0
    shift = column_medians(x)
    z, y = x[used] - shift, y - shift
    log_b = b[used].log()
    v = torch.zeros_like(log_b)
    blocks = torch.split(y, max(16, chunk_elements(z.device) // len(z)))
    nearest = float(torch.cat([cost.pairwise(block, z).amin(1) for block in blocks]).double().mean())
    eta = FIRST_ETA * nearest
    for step in range(STEPS):
        if not nearest > 0:
            return x
        centres, mass, nearest = _smoothed(z, v, log_b, y, cost, eta)
        if bounds is not None:
            low, high = (bound / len(mass) for bound in bounds)
            log_b = mass.clamp(max(low, LEAST_MASS / len(mass)), max(high, LEAST_MASS / len(mass))).log()
        v += eta * (log_b - mass.log()).clamp(max=RISE)
        if bounds is not None:
            v = torch.where((low <= mass) & (mass <= high), 0.0, v)  # a point that may keep its mass has no price
        noise = torch.randn(z.shape, generator=generator, dtype=torch.float64, device=generator.device)
        z = (centres + (NOISE * cost.root(nearest)) * noise.to(centres)).to(z.dtype)
        eta = FIRST_ETA * nearest * (LAST_ETA / FIRST_ETA) ** ((step + 1) / STEPS)
    result = x.clone()
    result[used] = z + shift
    return result


def _smoothed(x: Tensor, v: Tensor, log_b: Tensor, y: Tensor, cost: Cost, eta: float) -> tuple[Tensor, Tensor, float]:
    """Centres (n, d) and mass (n,) of the smoothed cells, float64, and the mean cost to the nearest point."""
    n, d = x.shape
    total, mass, weighted = v.new_zeros(n), v.new_zeros(n), v.new_zeros(n, d)
    nearest = v.new_zeros(())
    height = (v - v.mean() + log_b * eta).to(x.dtype)[:, None]
    rows = max(16, chunk_elements(x.device) // n)
    for block in torch.split(y, rows):
        table = cost.pairwise(x, block)  # (n, rows): reductions over few points are fastest down the columns
        nearest += table.amin(0).sum(dtype=torch.float64)
        share = table - height
        exponential_(share.sub_(share.amin(0)), eta)
        share.div_(share.sum(0))
        mass += share.sum(1)
        if not cost.mean_is_best:
            share *= cost.weight_from_cost(table)
        total += share.sum(1)
        weighted += share @ block
    centres = torch.where(total[:, None] > 0, weighted / total.where(total > 0, 1.0)[:, None], x.double())
    return centres, mass / len(y), float(nearest) / len(y)
