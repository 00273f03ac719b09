"""Starts that know the shape of the data: points and plan melt together and freeze slowly (deterministic annealing).

    x (n, d) points, b (n,) their weights      y (m, d) samples      v (n,) potential      c cost
    eta smoothing      pi (m, n) plan, pi_ki = softmax_i((v_i - c_ki) / eta + log b_i) / m

Each step shares the samples by the softened plan, moves every point to its centre, x_i = sum_k w_ki y_k / sum_k w_ki
with w = pi times `Cost.weight`, and raises the potential of those that received too little, v_i += eta log(b_i / q_i),
q the mass received, but by at most RISE eta: a point that starves goes far, and with all that it lacked where it was
it would take the samples of hundreds where it arrives. Where eta is large a point feels samples far beyond its cell,
which is how it leaves the place that chance gave it; eta falls by the same factor each step until the cells are nearly
sharp. No transport is solved on the way: one step costs about one pass over the samples.

Source: deterministic annealing: Rose (1998); the update of v: Sinkhorn (1964).
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from ...deterministic import column_medians
from ...transport import Cost, as_cost
from ...transport.passes import chunk_elements, exponential_

STEPS = 60  # measured: 30 end 0.5 % higher in the plane, 120 end 0.1 % lower there and no lower on tables
HOT, COLD = 0.5, 0.05  # first and last eta, in mean costs to the nearest point: hotter melts everything into one point
# Etas by which a potential may rise in a step. Measured on sets of clusters with 6 samples a point, W_2^2 beside that
# of the random points a start came from: 1.0 with 0.1 to 0.5, 1.3 with 1, 1.7 without a limit.
RISE = 0.2
LEAST_MASS = 1e-3  # of a point that takes what it likes, in mean masses: with none it would never get any again
NOISE = 1e-3  # of a step, in mean distances to the nearest point: parts points that have melted into one


def anneal(x: Tensor, b: Tensor, y: Tensor, p: float | Cost, generator: Generator) -> Tensor:
    """Better starting points than x, for equally weighted samples.

    Args:
        x: (n, d) points to begin with; those of weight zero stay.
        b: (n,) float64 weights of the points.
        y: (m, d) samples, finite, dtype of x.
        p: power of the distance, or the cost itself.
        generator: of the noise.

    Returns:
        Points (n, d), dtype of x; x itself if every sample lies on a point.
    """
    return _frozen(x, b, y, as_cost(p), generator, free=False)


def anneal_free(x: Tensor, b: Tensor, y: Tensor, p: float | Cost, generator: Generator) -> Tensor:
    """The same for points that may take whatever mass they like: b only says which of them have any.

    Source: mass-constrained annealing: Rose (1998), section III.
    """
    return _frozen(x, b.sign(), y, as_cost(p), generator, free=True)


def _frozen(x: Tensor, b: Tensor, y: Tensor, cost: Cost, generator: Generator, *, free: bool) -> Tensor:
    used = b > 0
    shift = column_medians(x)
    z, y = x[used] - shift, y - shift
    log_b = b[used].log()
    v = torch.zeros_like(log_b)
    nearest = float(_nearest_cost(z, y, cost))
    eta = HOT * nearest
    for step in range(STEPS):
        if not nearest > 0:
            return x
        centres, mass, nearest = _softened(z, v, log_b, y, cost, eta)
        if free:
            log_b = mass.clamp(min=LEAST_MASS / len(mass)).log()
        else:
            v += eta * (log_b - mass.log()).clamp(max=RISE)
        noise = torch.randn(z.shape, generator=generator, dtype=torch.float64, device=generator.device)
        z = (centres + (NOISE * cost.root(nearest)) * noise.to(centres)).to(z.dtype)
        eta = HOT * nearest * (COLD / HOT) ** ((step + 1) / STEPS)
    result = x.clone()
    result[used] = z + shift
    return result


def _nearest_cost(x: Tensor, y: Tensor, cost: Cost) -> Tensor:
    """Mean cost from a sample to the nearest point, 0-d float64."""
    rows = max(16, chunk_elements(x.device) // len(x))
    return torch.cat([cost.pairwise(block, x).amin(1) for block in torch.split(y, rows)]).double().mean()


def _softened(x: Tensor, v: Tensor, log_b: Tensor, y: Tensor, cost: Cost, eta: float) -> tuple[Tensor, Tensor, float]:
    """Centres (n, d) and mass (n,) of the softened cells, float64, and the mean cost to the nearest point."""
    n, d = x.shape
    total, mass, pull = v.new_zeros(n), v.new_zeros(n), v.new_zeros(n, d)
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
        pull += share @ block
    centres = torch.where(total[:, None] > 0, pull / total.where(total > 0, 1.0)[:, None], x.double())
    return centres, mass / len(y), float(nearest) / len(y)
