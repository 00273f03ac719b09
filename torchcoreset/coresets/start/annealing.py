"""Starting points by deterministic annealing: points move by a smoothed plan while its smoothing decreases slowly.

    x (n, d) points, b (n,) their weights      y (m, d) samples, a (m,) theirs      v (n,) potential      c cost
    eta smoothing      pi (m, n) plan, pi_ki = a_k softmax_i((v_i - c_ki) / eta + log b_i)

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
    return _on_all_samples(x, b, y, as_cost(p), generator, None)


def mass_constrained_annealing(
    x: Tensor, b: Tensor, y: Tensor, p: float | Cost, generator: Generator, bounds: Bounds = (0.0, math.inf)
) -> Tensor:
    """The same for points of chosen mass: b only marks the points that may have mass.

    `bounds` are lower and upper bound of a mass, in units of the mean mass.

    Source: mass-constrained annealing: Rose (1998), section III; here with bounds.
    """
    return _on_all_samples(x, b.sign(), y, as_cost(p), generator, bounds)


def _on_all_samples(x: Tensor, b: Tensor, y: Tensor, cost: Cost, generator: Generator, bounds: Bounds | None) -> Tensor:
    """One block of all points of positive weight and all samples, in few dimensions where there are many."""
    few, basis, mean = few_dimensions(y, generator)
    used = b > 0
    z = x[used] if basis is None else (x[used] - mean) @ basis
    shift = column_medians(z)
    a = x.new_full((1, len(y)), 1 / len(y), dtype=torch.float64)
    z = annealed_blocks((z - shift)[None], b[used][None], (few - shift)[None], a, cost, generator, bounds)[0] + shift
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


def annealed_blocks(
    x: Tensor,
    b: Tensor,
    y: Tensor,
    a: Tensor,
    cost: Cost,
    generator: Generator,
    bounds: Bounds | None = None,
    steps: int = STEPS,
) -> Tensor:
    """Points x (g, n, d), of weights b (g, n), of g blocks, moved by the samples y (g, m, d), a (g, m), of each.

    Points and samples of weight zero fill smaller blocks up. A block in which every sample lies on a point stays.
    """
    n = b.shape[1]
    used = b > 0
    z, v, log_b = x, torch.zeros_like(b), b.log()
    samples = _chunks(x, y, a)
    nearest = torch.stack([_nearest(_costs(z, rows, cost), used, weighted) for rows, weighted in samples]).sum(0)
    moves = (nearest > 0)[:, :, None]
    lowest = torch.finfo(x.dtype).tiny  # of eta, where every sample lies on a point
    for step in range(steps):
        eta = FIRST_ETA * (LAST_ETA / FIRST_ETA) ** (step / steps) * nearest.clamp(min=lowest)
        centres, mass, nearest = _smoothed(z, v + eta * log_b, samples, used, cost, eta)
        if bounds is not None:
            low, high = (bound / n for bound in bounds)
            log_b = mass.clamp(max(low, LEAST_MASS / n), max(high, LEAST_MASS / n)).log()
        v = torch.where(used, v + eta * (log_b - mass.log()).clamp(max=RISE), 0.0)
        if bounds is not None:
            v = torch.where((low <= mass) & (mass <= high), 0.0, v)  # a point that may keep its mass has no price
        noise = torch.randn(z.shape, generator=generator, dtype=torch.float64, device=generator.device)
        z = (centres + (NOISE * cost.root(nearest))[:, :, None] * noise.to(centres)).to(x.dtype)
    return torch.where(moves, z, x)


def _chunks(x: Tensor, y: Tensor, a: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Samples (g, rows, d), and (g, rows, d + 1) times their weights, with these in the last column."""
    weights = a[:, :, None].to(y.dtype)
    rows = max(16, chunk_elements(x.device) // (x.shape[0] * x.shape[1]))
    chunks = (torch.split(tensor, rows, 1) for tensor in (y, torch.cat((y * weights, weights), 2)))
    return list(zip(*chunks, strict=True))


def _smoothed(
    x: Tensor, height: Tensor, samples: list[tuple[Tensor, Tensor]], used: Tensor, cost: Cost, eta: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Centres (g, n, d) and mass (g, n) of the smoothed cells, and the mean cost to the nearest point (g, 1); float64.

    `height` (g, n) is v + eta log b.
    """
    # A constant added to all heights changes nothing, and costs are rounded less beside small ones.
    height = (height - height.where(used, 0.0).sum(1, keepdim=True) / used.sum(1, keepdim=True)).to(x.dtype)
    parts = [_smoothed_part(x, height, *chunk, used, cost, eta) for chunk in samples]
    sums, mass, nearest = (torch.stack(part).sum(0) for part in zip(*parts, strict=True))
    total = sums[:, :, -1:]
    return torch.where(total > 0, sums[:, :, :-1] / total.where(total > 0, 1.0), x.double()), mass, nearest


def _smoothed_part(
    x: Tensor, height: Tensor, y: Tensor, weighted: Tensor, used: Tensor, cost: Cost, eta: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """What samples y (g, rows, d) add to sums (g, n, d + 1), masses (g, n) and costs to the nearest point (g, 1)."""
    table = _costs(x, y, cost)
    nearest = _nearest(table, used, weighted)
    share = table - height[:, :, None]
    share.sub_(share.amin(1, keepdim=True)).div_(eta[:, :, None].to(x.dtype))
    exponential_(share, 1.0)  # torch's softmax takes four times as long with 50 points (measured)
    share.div_(share.sum(1, keepdim=True))
    if cost.mean_is_best:
        sums = (share @ weighted).double()
        return sums, sums[:, :, -1], nearest
    mass = (share @ weighted[:, :, -1:])[:, :, 0].double()
    return (share.mul_(cost.weight_from_cost(table)) @ weighted).double(), mass, nearest


def _costs(x: Tensor, y: Tensor, cost: Cost) -> Tensor:
    """Costs (g, n, rows): reductions over few points are fastest down the columns."""
    return cost.pairwise(x[0], y[0])[None] if len(x) == 1 else cost.pairwise(x, y)


def _nearest(table: Tensor, used: Tensor, weighted: Tensor) -> Tensor:
    """Cost (g, 1) of these samples to the nearest points, times their weights, float64."""
    if len(table) > 1:  # other points fill blocks up
        table = table.masked_fill(~used[:, :, None], torch.inf)
    return (table.amin(1).double() * weighted[:, :, -1]).sum(1, keepdim=True)
