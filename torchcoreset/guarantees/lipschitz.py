"""A Lipschitz constant of a network: the product of those of its layers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

# Activations and rearrangements with |f(s) - f(t)| <= L |s - t|; in evaluation mode dropout is the identity.
REARRANGING = (nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout)
STEEPEST_ONE = (nn.ReLU, nn.ReLU6, nn.Hardtanh, nn.Tanh, nn.Softplus, nn.Softsign, nn.LogSigmoid)
CONSTANTS: dict[type[nn.Module], float] = {
    **dict.fromkeys((*REARRANGING, *STEEPEST_ONE), 1.0), nn.Sigmoid: 0.25, nn.SiLU: 1.1, nn.GELU: 1.13
}  # fmt: skip


def lipschitz_constant(network: nn.Module) -> float:
    """An upper bound of max |f(s) - f(t)| / |s - t|, Euclidean, for a chain of layers in evaluation mode.

    L is the product over layers of: the largest singular value of a linear layer; for a convolution the lesser of
    sum_o ||K_o||_2 over its kernel offsets o and Schur's sqrt(||A||_1 ||A||_inf), which hold for any input size,
    stride, dilation and zero padding; max |weight| / sqrt(variance + eps) of a batch norm; that of an activation.

    Args:
        network: `nn.Sequential`, nested or not, of Linear, Conv1d/2d/3d, BatchNorm, Dropout, Flatten and activations.

    Raises:
        TypeError: a layer for which no constant is known, named.

    Example:
        >>> from torch import nn
        >>> layer = nn.Linear(2, 2, bias=False)
        >>> _ = layer.weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
        >>> lipschitz_constant(nn.Sequential(layer, nn.ReLU(), nn.Sigmoid()))
        1.0

    Source: product bound: Szegedy et al. (2014), section 4.3.
    """
    if isinstance(network, nn.Sequential):
        return math.prod(lipschitz_constant(layer) for layer in network)
    constant = _activation(network)
    return _affine(network) if constant is None else constant


def _activation(layer: nn.Module) -> float | None:
    if type(layer) in CONSTANTS:
        return CONSTANTS[type(layer)]
    if isinstance(layer, nn.LeakyReLU):
        return max(1.0, abs(layer.negative_slope))
    if isinstance(layer, nn.PReLU):
        return max(1.0, float(layer.weight.abs().max()))
    return max(1.0, abs(layer.alpha)) if isinstance(layer, nn.ELU) else None


def _affine(network: nn.Module) -> float:
    if isinstance(network, nn.Linear):
        return float(torch.linalg.matrix_norm(network.weight.detach().double(), 2))
    if isinstance(network, (nn.Conv1d, nn.Conv2d, nn.Conv3d)) and network.padding_mode == "zeros":
        return _convolution(network.weight.detach().double(), network.groups)
    if isinstance(network, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)) and network.running_var is not None:
        scale = (network.running_var.detach().double() + network.eps).rsqrt()
        return float((scale if network.weight is None else scale * network.weight.detach().double().abs()).max())
    raise TypeError(
        f"network: no Lipschitz constant is known for {type(network).__name__}; expected a Sequential of Linear, Conv, "
        "BatchNorm and known activations. Give the constant yourself: lipschitz=..."
    )


def _convolution(weight: Tensor, groups: int) -> float:
    kernels = weight.reshape(groups, len(weight) // groups, weight.shape[1], -1)  # (groups, out, in, offsets)
    by_offset = torch.linalg.matrix_norm(kernels.movedim(-1, 0), 2).amax(1).sum()
    size = kernels.abs().sum(-1)
    schur = (size.sum(1).max() * size.sum(2).max()).sqrt()
    return float(torch.minimum(by_offset, schur))
