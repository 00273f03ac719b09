"""Coresets for Bayesian logistic regression: products z = y x (n, d), and weights of sum N, that stand for N rows.

Theory. With s_k = s(-z_k theta) at the posterior mode theta, P the posterior precision there and P = L L^T, let

    phi(z) = ( N / sqrt(2) s L^-1 z ,  N / 2 s (1 - s) L^-1 z z^T L^-T )

Then KL(coreset posterior || full posterior) = |coreset mean of phi - mean of phi|^2 to leading order: the first part is
the shift of the mode in posterior standard deviations, half its square; the second the change of the precision.
By Jensen the square root is at most the W_1, and so the W_2, distance between the two distributions of phi. A coreset
for W_2 in z leaves the mean of phi wrong by the curvature of phi over its cells, which shrinks as n^(-2/d), while the
KL multiplies the square of it by N: that is the gap of the paper.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from baselines.hilbert import gradient_vectors
from laplace import Gaussian, laplace
from torch import Tensor

import torchcoreset as tc

Pair = tuple[Tensor, Tensor]


def equal(z: Tensor, rows: int) -> Pair:
    """The points with equal weights of sum `rows`."""
    return z, torch.full((len(z),), rows / len(z), dtype=z.dtype)


def joint(z: Tensor, size: int, p: float, seed: int) -> Pair:
    """Equal weights, points for W_p of the products z = y x: a label is the sign of a point, no class has a quota."""
    result = tc.build_coreset(z.float(), size, p=p, restarts=1, tolerance=1e-2, seed=seed, progress=False)
    return equal(result.coreset.points.detach().double(), len(z))


def per_class(x: Tensor, y: Tensor, size: int, p: float, allocation: str, seed: int) -> Pair:
    """The paper's: a coreset of each class, merged. "equal": as many points, all of equal weight; "proportional"."""
    found = tc.build_labeled_coreset(
        x.float(), y, size, allocation, p=p, restarts=1, tolerance=1e-2, seed=seed, progress=False
    )
    sign = 2 * torch.as_tensor(found.labels).double() - 1
    return found.points.detach().double() * sign[:, None], found.weights.double() * len(x)


def cell_masses(z: Tensor, points: Tensor) -> Pair:
    """Free weights of a quantiser: a point weighs as many rows as are nearest to it, without balance."""
    nearest = torch.cdist(z, points).argmin(1)
    return points, torch.bincount(nearest, minlength=len(points)).double()


def least_squares(points: Tensor, total: Tensor, draws: Tensor, axes: Tensor) -> Pair:
    """Weights >= 0, of any sum, whose sum of gradient vectors is nearest to the `total` of all rows."""
    from scipy.optimize import nnls

    vectors = gradient_vectors(points, draws) @ axes
    weights = torch.from_numpy(nnls(vectors.T.numpy(), total.numpy(), maxiter=20 * len(points))[0])
    kept = weights > 0
    return points[kept], weights[kept]


def hilbert(z: Tensor, steps: Iterator[Tensor], sizes: list[int]) -> dict[int, Pair]:
    """For each size the last weights with no more points than that; the algorithm may come back to points it has."""
    best: dict[int, Tensor] = {}
    for weights in steps:
        count = int((weights > 0).sum())
        best.update({size: weights for size in sizes if count <= size})
        if count > max(sizes):
            break
    return {size: (z[weights > 0], weights[weights > 0]) for size, weights in best.items()}


def features(z: Tensor, at: Gaussian, rows: float, scale: float = 1.0) -> Tensor:
    """phi (m, d + d^2) of the products z (m, d); `scale` below 1 makes little of the first part, the gradients."""
    s = torch.sigmoid(-(z @ at.mean.to(z.dtype)))
    lower = torch.linalg.cholesky(at.precision).to(z.dtype)
    u = torch.linalg.solve_triangular(lower, z.T, upper=False).T
    squares = (s * (1 - s))[:, None, None] * u[:, :, None] * u[:, None, :]
    return torch.cat((rows * (scale / 2) ** 0.5 * s[:, None] * u, rows / 2 * squares.flatten(1)), 1)


def stretch(z: Tensor, points: Tensor) -> Tensor:
    """The points moved by the affine map that gives them the mean and covariance of the rows; n > d points.

    Means of cells have the right mean and too little spread, by what is within the cells.
    """
    lower, own = (torch.linalg.cholesky(torch.cov(rows.T, correction=0)) for rows in (z, points))
    away: Tensor = torch.linalg.solve_triangular(own, (points - points.mean(0)).T, upper=False)
    stretched: Tensor = z.mean(0) + away.T @ lower.T
    return stretched


def correct(z: Tensor, points: Tensor, at: Gaussian) -> Tensor:
    """Points moved from where they are until the mean of phi is that of all rows; equal weights stay.

    `CoresetLoss` with the energy divergence at p = 2, which is the squared distance of means, between phi(points) and
    the one number that is needed of the rows, the mean of phi. The weight of the gradients grows in three stages, as if
    the rows became more: otherwise the gradients are made right first by a singular second derivative.
    """
    found = torch.nn.Parameter(points.clone(memory_format=torch.contiguous_format))
    loss = tc.CoresetLoss(p=2, divergence="energy")
    for scale in (0.01, 0.1, 1.0):
        goal = features(z, at, len(z), scale).mean(0, keepdim=True)
        optimizer = torch.optim.LBFGS(
            [found], max_iter=150, history_size=50, line_search_fn="strong_wolfe",
            tolerance_grad=1e-9, tolerance_change=1e-13,
        )  # fmt: skip

        def closure(scale: float = scale, goal: Tensor = goal, optimizer: torch.optim.Optimizer = optimizer) -> Tensor:
            optimizer.zero_grad()
            value: Tensor = loss(features(found, at, len(z), scale), goal)
            value.backward()  # type: ignore[no-untyped-call]
            return value

        optimizer.step(closure)  # type: ignore[no-untyped-call]
    return found.detach()


def correct_at_own_mode(z: Tensor, points: Tensor, rounds: int) -> Tensor:
    """`correct`, each time at the Laplace approximation of the coreset's own posterior; `rounds` passes over the rows.

    Newton's method for the posterior mode in disguise: the better the coreset, the nearer its mode to that of all rows.
    """
    for _ in range(rounds):
        points = correct(z, points, laplace(*equal(points, len(z))))
    return points


def transport_features(z: Tensor, points: Tensor, at: Gaussian, steps: int) -> Tensor:
    """Points that minimise W_2 between phi(points) and phi(z), through phi, by Adam on `CoresetLoss`; equal weights."""
    found = torch.nn.Parameter(points.float())
    goal, loss = features(z.float(), at, len(z)), tc.CoresetLoss(p=2, tolerance=1e-2)
    optimizer = torch.optim.Adam([found], lr=0.03)
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: float(np.cos(0.5 * np.pi * k / steps) ** 2 + 0.02))
    for _ in range(steps):
        optimizer.zero_grad()
        loss(features(found, at, len(z)), goal).backward()
        optimizer.step()
        rates.step()
    return found.detach().double()
