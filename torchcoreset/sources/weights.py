"""The user's weights of a finite source, checked and scaled to sum to 1."""

from typing import Any

import torch
from torch import Tensor

from .rows import float_tensor


def sample_weights(weights: Any, size: int) -> Tensor:
    """Check the weights of `size` rows and scale them to sum to 1.

    Args:
        weights: (size,), of any scale, non-negative and finite with a positive sum.
        size: rows of the source.

    Returns:
        Weights, (size,), in float64 on the CPU; a new tensor.

    Raises:
        ValueError: the shape or a value is not as above.
    """
    tensor = float_tensor(list(weights) if isinstance(weights, tuple) else weights, "weights")
    if tuple(tensor.shape) != (size,):
        raise ValueError(f"weights: got shape {tuple(tensor.shape)} with {size} samples; expected ({size},).")
    values = tensor.to(device="cpu", dtype=torch.float64)
    bad = (~torch.isfinite(values) | (values < 0)).nonzero().flatten().tolist()
    if bad:
        raise ValueError(
            f"weights: {len(bad)} of {size} are negative, NaN or inf, the first is {values[bad[0]].item():g} "
            f"at row {bad[0]}; expected non-negative finite numbers."
        )
    largest = values.max()
    if not largest > 0:
        raise ValueError(f"weights: all {size} are zero; expected a positive sum.")
    scaled = values / largest  # first to at most 1, so that no scale overflows the sum
    return scaled / scaled.sum()
