"""Bayesian logistic regression with prior N(0, I): posterior modes, Laplace approximations, and checks of them.

    z = y x (m, d), y = -1 or +1     w (m,) weights     log p(theta | z, w) = sum_k w_k log s(z_k theta) - |theta|^2 / 2

up to a constant, with s the logistic function. The likelihood sees x and y by their product z only. All in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn.functional import logsigmoid


@dataclass(frozen=True)
class Gaussian:
    """N(mean, precision^-1): mean (d,), precision (d, d)."""

    mean: Tensor
    precision: Tensor

    def draw(self, normal: Tensor) -> Tensor:
        """Draws (k, d) from standard normal numbers (k, d)."""
        upper = torch.linalg.cholesky(self.precision).T
        away: Tensor = torch.linalg.solve_triangular(upper, normal.T, upper=True).T
        return self.mean + away

    def log_density(self, theta: Tensor) -> Tensor:
        """Of theta (k, d), without -d/2 log(2 pi)."""
        away = theta - self.mean
        return (torch.logdet(self.precision) - (away @ self.precision * away).sum(1)) / 2


def log_posterior(theta: Tensor, z: Tensor, w: Tensor) -> Tensor:
    """Unnormalised, for theta (k, d): (k,). Blocks of 2^24 numbers at most."""
    rows = max(1, (1 << 24) // len(z))
    likelihood = torch.cat([logsigmoid(part @ z.T) @ w for part in torch.split(theta, rows)])
    return likelihood - theta.square().sum(1) / 2


def score(theta: Tensor, z: Tensor, w: Tensor) -> Tensor:
    """Gradient of the log posterior at theta (k, d): (k, d)."""
    return (torch.sigmoid(-(theta @ z.T)) * w) @ z - theta


def precision(theta: Tensor, z: Tensor, w: Tensor) -> Tensor:
    """Minus the second derivative of the log posterior at theta (d,): (d, d)."""
    at = torch.sigmoid(z @ theta)
    return (z * (w * at * (1 - at))[:, None]).T @ z + torch.eye(z.shape[1], dtype=z.dtype)


def laplace(z: Tensor, w: Tensor, steps: int = 200) -> Gaussian:
    """The Gaussian at the posterior mode, by Newton steps that are halved until the log posterior does not fall.

    Raises:
        RuntimeError: no mode found; the log posterior is strictly concave, so this says that the inputs are not finite.
    """
    theta = torch.zeros(1, z.shape[1], dtype=z.dtype)
    value = log_posterior(theta, z, w)
    for _ in range(steps):
        slope, bend = score(theta, z, w), precision(theta[0], z, w)
        step = torch.linalg.solve(bend, slope[0])[None]
        expected = (step * slope).sum()
        if expected <= 1e-14 * (1 + abs(value)):
            return Gaussian(theta[0] + step[0], precision(theta[0] + step[0], z, w))
        size = 1.0
        while size > 1e-10:
            reached = log_posterior(theta + size * step, z, w)
            if reached >= value + 1e-4 * size * expected:
                break
            size /= 2
        theta, value = theta + size * step, reached
    raise RuntimeError(f"laplace: no mode of the posterior after {steps} Newton steps; are z and w finite?")


def kl(q: Gaussian, p: Gaussian) -> float:
    """KL(q || p) in nats. The experiment takes q of the coreset and p of all data."""
    ratio = torch.linalg.solve(q.precision, p.precision)  # S_q P, with S_q the covariance of q
    away = q.mean - p.mean
    found: float = (ratio.trace() - len(away) + away @ p.precision @ away - torch.logdet(ratio)).item()
    return max(0.0, found / 2)


def posterior_kl(
    coreset: tuple[Tensor, Tensor], full: tuple[Tensor, Tensor], draws: int, generator: Generator
) -> tuple[float, float]:
    """KL between the posteriors themselves, not their Laplace approximations, by importance sampling.

    KL = E_q[log q - log p], with expectation and normalising constants from weighted draws of the Laplace
    approximations. Both use the same normal numbers, in pairs of opposite sign, so that most of the noise cancels
    where the posteriors are close.

    Args:
        coreset, full: z and w of either.
        draws: how many.
        generator: of the draws.

    Returns:
        The KL in nats, and the smaller share of effective draws (Kish) of the two; far below 1 the estimate is void.
    """
    half = torch.randn(draws // 2, coreset[0].shape[1], dtype=torch.float64, generator=generator)
    normal = torch.cat((half, -half))
    logs, shares, constants = [], [], []
    for z, w in (coreset, full):
        guide = laplace(z, w)
        theta = guide.draw(normal)
        own = log_posterior(theta, z, w)
        log_ratio = own - guide.log_density(theta)
        constants.append(torch.logsumexp(log_ratio, 0))
        shares.append(torch.exp(2 * constants[-1] - torch.logsumexp(2 * log_ratio, 0)).item() / draws)
        logs.append((theta, own, torch.softmax(log_ratio, 0)))
    theta, own, weights = logs[0]
    apart = own - log_posterior(theta, *full)
    return (weights @ apart - constants[0] + constants[1]).item(), min(shares)
