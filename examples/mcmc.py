"""Hamiltonian Monte Carlo for a posterior that is nearly Gaussian, and two numbers that say whether it has mixed."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

Function = Callable[[Tensor], Tensor]


def hmc(
    log_density: Function, gradient: Function, start: Tensor, scale: Tensor, draws: int, generator: Generator
) -> tuple[Tensor, float]:
    """Chains of draws, each of four leapfrog steps of random length; the first half is dropped.

    Args:
        log_density, gradient: of theta (c, d), giving (c,) and (c, d).
        start: (c, d), one row for each chain; far apart, so that `split_r_hat` can tell.
        scale: (d, d) S with S S^T near the covariance; the chains move in units of S.
        draws: of each chain, with those that are dropped.
        generator: of all random numbers.

    Returns:
        Draws (c, draws // 2, d) and the rate of acceptance.

    Source: Neal (2011), MCMC using Hamiltonian dynamics, section 5.3.
    """
    theta, value, slope = start, log_density(start), gradient(start)
    kept, accepted = [], 0.0
    for draw in range(draws):
        momentum = torch.randn(theta.shape, dtype=theta.dtype, generator=generator)
        length = 0.2 + 0.5 * torch.rand((), dtype=theta.dtype, generator=generator)
        at, push, along = theta, slope, momentum
        for _ in range(4):
            along = along + length / 2 * push @ scale
            at = at + length * along @ scale.T
            push = gradient(at)
            along = along + length / 2 * push @ scale
        reached = log_density(at)
        gain = reached - value + (momentum.square() - along.square()).sum(1) / 2
        taken = torch.rand(len(theta), dtype=theta.dtype, generator=generator).log() < gain
        theta, slope = (torch.where(taken[:, None], new, old) for new, old in ((at, theta), (push, slope)))
        value = torch.where(taken, reached, value)
        if draw >= draws // 2:
            kept.append(theta)
            accepted += taken.double().mean().item()
    return torch.stack(kept, 1), accepted / len(kept)


def split_r_hat(chains: Tensor) -> float:
    """The largest of the coordinates: spread between half chains against that within; 1 if mixed, below 1.01 is good.

    Source: Gelman et al. (2013), Bayesian Data Analysis, section 11.4.
    """
    length = chains.shape[1] // 2
    halves = torch.cat((chains[:, :length], chains[:, length : 2 * length]))
    within = halves.var(1).mean(0)
    between = halves.mean(1).var(0)
    return ((length - 1) / length + between / within).sqrt().max().item()


def effective_draws(chains: Tensor) -> float:
    """Independent draws worth the same, least of the coordinates, by autocorrelations up to the first negative pair.

    Source: Geyer (1992), Practical Markov chain Monte Carlo, section 3.3: initial positive sequence.
    """
    c, length, d = chains.shape
    centred = chains - chains.mean(1, keepdim=True)
    spectrum = torch.fft.rfft(centred, n=2 * length, dim=1).abs().square()
    covariance = torch.fft.irfft(spectrum, dim=1)[:, :length].mean(0) / length
    correlation = covariance / covariance[0]
    found = math.inf
    for k in range(d):
        pairs = correlation[: length // 2 * 2, k].view(-1, 2).sum(1)
        negative = (pairs < 0).nonzero()
        upto = int(negative[0]) if len(negative) else len(pairs)
        found = min(found, c * length / max((2 * pairs[:upto].sum() - 1).item(), 1e-3))
    return found
