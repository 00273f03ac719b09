"""Closed forms between Gaussians: squared W2, and the entropic cost and Sinkhorn divergence on the line."""

import math

import torch
from torch import Tensor

__all__ = ["entropic_gaussian_line", "gaussian_w2", "sinkhorn_gaussian_line"]


def _root(covariance: Tensor) -> Tensor:
    """The symmetric square root; rounding below zero is cut off, so singular covariances are welcome."""
    values, vectors = torch.linalg.eigh(covariance)
    root: Tensor = (vectors * values.clamp(min=0).sqrt()) @ vectors.mT
    return root


def gaussian_w2(mean_1: Tensor, cov_1: Tensor, mean_2: Tensor, cov_2: Tensor) -> float:
    """W2^2, not rooted, between N(mean_1, cov_1) and N(mean_2, cov_2).

    |m1 - m2|^2 + tr(S1 + S2 - 2 (S1^{1/2} S2 S1^{1/2})^{1/2}), computed in float64.

    Arguments: means (d,), symmetric positive semi-definite covariances (d, d).
    Raises ValueError if the shapes do not agree.
    Source: D. C. Dowson and B. V. Landau, The Frechet Distance between Multivariate Normal
    Distributions (1982).

    >>> gaussian_w2(torch.zeros(2), torch.eye(2), torch.tensor([3.0, 4.0]), 4 * torch.eye(2))
    27.0
    """
    d = mean_1.numel()
    shapes = [tuple(t.shape) for t in (mean_1, cov_1, mean_2, cov_2)]
    if shapes != [(d,), (d, d), (d,), (d, d)]:
        raise ValueError(f"means and covariances: got shapes {shapes}; expected (d,), (d, d), (d,), (d, d)")
    mean_1, cov_1, mean_2, cov_2 = (t.detach().to(torch.float64) for t in (mean_1, cov_1, mean_2, cov_2))
    root = _root(cov_1)
    # eigenvalues of the root's argument, so the trace needs no second square root of a matrix
    cross = torch.linalg.eigvalsh(root @ cov_2 @ root).clamp(min=0).sqrt().sum()
    return float((mean_1 - mean_2).square().sum() + cov_1.trace() + cov_2.trace() - 2 * cross)


def entropic_gaussian_line(variance_1: float, variance_2: float, eta: float) -> float:
    """OT_eta between N(0, a) and N(0, b): the least cost |x - y|^2 plus eta KL(pi | mu x nu).

    With s^2 = eta / 2 and D = sqrt(4 a b + s^4): a + b - D + s^2 (1 - ln 2 s^2) + s^2 ln(D + s^2), rewritten
    here as a + b - t + s^2 ln(1 + t / (2 s^2)), t = D - s^2 = 4 a b / (D + s^2), which keeps its digits for
    large eta. For means that differ, add the square of their difference.

    Arguments: variances a, b >= 0 and the regularisation eta > 0, all in squared units of length.
    Raises ValueError outside these ranges.
    Source: H. Janati et al., Entropic Optimal Transport between Unbalanced Gaussian Measures has a Closed
    Form (2020), theorem 1.

    >>> round(entropic_gaussian_line(1, 4, eta=1), 6)
    2.224357
    """
    if variance_1 < 0 or variance_2 < 0 or eta <= 0:
        raise ValueError(f"variances and eta: got {variance_1}, {variance_2} and {eta}; expected both >= 0 and eta > 0")
    s2 = eta / 2
    product = 4 * variance_1 * variance_2
    t = product / (math.sqrt(product + s2 * s2) + s2)
    return variance_1 + variance_2 - t + s2 * math.log1p(t / (2 * s2))


def sinkhorn_gaussian_line(variance_1: float, variance_2: float, eta: float) -> float:
    """The Sinkhorn divergence between N(0, a) and N(0, b), for the full squared cost.

    OT_eta(mu, nu) - OT_eta(mu, mu) / 2 - OT_eta(nu, nu) / 2; arguments and errors as for
    `entropic_gaussian_line`. It falls from W2^2 = (sqrt a - sqrt b)^2 at eta = 0 to the squared difference of
    means, here 0, at eta = infinity. geomloss's `SamplesLoss(p=2, blur=s)` is half of it at eta = 2 s^2.

    Source: J. Feydy et al., Interpolating between Optimal Transport and MMD using Sinkhorn Divergences
    (2019).

    >>> round(sinkhorn_gaussian_line(1, 4, eta=1), 6)
    0.992309
    """
    return (
        entropic_gaussian_line(variance_1, variance_2, eta)
        - entropic_gaussian_line(variance_1, variance_1, eta) / 2
        - entropic_gaussian_line(variance_2, variance_2, eta) / 2
    )
