"""From numbers in any form to a checked tensor of rows."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .. import tensors
from ..tensors import LISTS, is_array, is_number


def shaped_rows(tensor: Tensor, name: str, flatten: bool = False) -> Tensor:
    """View a tensor as (rows, d), at least one of each; rows of more dimensions only if they may be flattened."""
    shape = tuple(tensor.shape)
    if tensor.ndim == 0:
        raise ValueError(f"{name}: got a single number; expected rows of shape (rows, d) or (rows,).")
    if tensor.ndim > 2 and not flatten:
        raise ValueError(
            f"{name}: got shape {shape}; expected (rows, d). Flatten each row first: `.flatten(1)`, or "
            f"`as_source(..., flatten=True)`."
        )
    if tensor.numel() == 0:
        raise ValueError(f"{name}: got shape {shape}, which is empty; expected at least one row. Leave it out.")
    return tensor.unsqueeze(1) if tensor.ndim == 1 else tensor.flatten(1)


def check_dimension(rows: Tensor, dimension: int | None, name: str) -> int:
    """The last dimension of `rows`; a ValueError if it differs from that of the rows before."""
    if dimension is not None and rows.shape[1] != dimension:
        raise ValueError(
            f"{name}: got rows of dimension {rows.shape[1]} after rows of dimension {dimension}; expected "
            f"the same. If these are labels, pass batches of (samples, labels), or the samples alone."
        )
    return rows.shape[1]


def is_table(values: Sequence[Any]) -> bool:
    """Whether a list holds numbers, or lists of numbers, rather than batches."""
    first = values[0] if values else None
    return is_number(first) or (isinstance(first, LISTS) and len(first) > 0 and is_number(first[0]))


def is_rows(values: Sequence[Any]) -> bool:
    """Whether a list holds arrays or tensors of one dimension, which are rows."""
    return len(values) > 0 and all(
        (isinstance(value, Tensor) or is_array(value)) and getattr(value, "ndim", 0) == 1 for value in values
    )


def float_tensor(values: Any, name: str) -> Tensor:
    """A detached floating point tensor of any shape that holds `values`; shares memory where it can."""
    tensor = tensors.float_tensor(values, name)
    return tensor.clone() if tensor.is_inference() else tensor  # which cannot take part in a later backward pass
