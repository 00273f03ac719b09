"""Log likelihoods as vectors, which Hilbert coresets sum: gradients at draws from an approximate posterior.

    v_k = (grad log p(z_k | theta_j))_j / sqrt(draws), so that v_k . v_l = E_theta [grad log p(z_k) . grad log p(z_l)]

the weighted Fisher inner product of Campbell and Broderick (2019), "Automated Scalable Bayesian Inference via Hilbert
Coresets", JMLR 20 (15), section 4 and eq. 20; they take one random coordinate of the gradient at each draw, we all d.
"""

from __future__ import annotations

import torch
from torch import Tensor


def gradient_vectors(z: Tensor, draws: Tensor) -> Tensor:
    """Vectors (m, draws d) of the rows z (m, d) at the draws (k, d) of theta."""
    at = torch.sigmoid(-(z @ draws.T))
    gradients = at[:, :, None] * z[:, None, :]
    vectors: Tensor = gradients.flatten(1) / len(draws) ** 0.5
    return vectors


def shorten(vectors: Tensor, relative: float = 1e-8) -> tuple[Tensor, Tensor]:
    """The same vectors in fewer coordinates, and the map (old, new) that gave them.

    A rotation to the principal axes; those whose singular values are below `relative` times the largest are dropped.
    Inner products stay as they were to about that error, and the greedy algorithms run ten times faster.
    """
    values, axes = torch.linalg.eigh(vectors.T @ vectors)
    axes = axes[:, values > values[-1] * relative**2].contiguous()
    return vectors @ axes, axes
