"""From numbers in any form to a checked tensor of rows."""

from collections.abc import Sequence
from contextlib import suppress
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


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


def check_finite(rows: Tensor, name: str, index: Sequence[int] | Tensor | None = None) -> None:
    """Raise a ValueError if a row holds NaN or inf; `index` says which rows of the source these are."""
    # One pass without a temporary as large as the data; NaN comes through both ends.
    low, high = torch.aminmax(rows)
    if bool(torch.isfinite(low) & torch.isfinite(high)):
        return
    finite = torch.isfinite(rows).all(dim=1)
    bad = (~finite).nonzero().flatten().tolist()
    first = bad[0] if index is None else int(index[bad[0]])
    raise ValueError(
        f"{name}: {len(bad)} of {len(rows)} rows hold NaN or inf, the first is row {first}. "
        f"Drop or impute them before they reach the coreset."
    )


def check_dimension(rows: Tensor, dimension: int | None, name: str) -> int:
    """The last dimension of `rows`; a ValueError if it differs from that of the rows before."""
    if dimension is not None and rows.shape[1] != dimension:
        raise ValueError(
            f"{name}: got rows of dimension {rows.shape[1]} after rows of dimension {dimension}; expected "
            f"the same. If these are labels, pass batches of (samples, labels), or the samples alone."
        )
    return rows.shape[1]


def is_table(values: list[Any] | tuple[Any, ...]) -> bool:
    """Whether a list holds numbers, or lists of numbers, rather than batches."""
    first = values[0] if values else None
    return _is_number(first) or (isinstance(first, (list, tuple)) and len(first) > 0 and _is_number(first[0]))


def float_tensor(values: Any, name: str) -> Tensor:
    """A detached floating point tensor of any shape that holds `values`; shares memory where it can."""
    tensor = _tensor(values, name)
    if tensor.is_complex() or tensor.is_nested or tensor.layout != torch.strided:
        form = f"{tensor.dtype}, {tensor.layout}" if not tensor.is_nested else "a nested tensor"
        raise ValueError(f"{name}: got {form}; expected a dense tensor of real numbers, see `.to_dense()`, `.real`.")
    if tensor.is_inference():
        tensor = tensor.clone()  # inference tensors cannot take part in a later backward pass
    return tensor if tensor.dtype in _FLOATS else tensor.to(torch.get_default_dtype())


def _tensor(values: Any, name: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    if is_array(values):
        return torch.from_numpy(_array(values, name))
    if isinstance(values, list) or _is_number(values):
        try:
            return torch.tensor(_detached(values))
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"{name}: got a list that is no table ({error}); expected rows of equal length."
            ) from error
    raise TypeError(
        f"{name}: got {type(values).__name__}; expected a tensor, an array, a DataFrame or lists of numbers, "
        f"alone or as the first element of a tuple."
    )


def _detached(values: Any) -> Any:
    """The same lists or number; torch.tensor warns about single values that require grad."""
    if isinstance(values, list):
        return [value.detach() if isinstance(value, Tensor) else value for value in values]
    return values


def is_array(values: Any) -> bool:
    """Whether NumPy can read this: an array, a DataFrame, or another library's array."""
    return hasattr(values, "to_numpy") or (hasattr(values, "__array__") and not isinstance(values, type))


def _array(values: Any, name: str) -> np.ndarray[Any, Any]:
    """An array that torch can share: numeric, writable, in native byte order, in whole forward strides."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name}: got masked values; expected numbers only. Drop or impute them first.")
    array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if array.dtype.kind == "O" and not any(isinstance(value, str) for value in array.flat):
        with suppress(TypeError, ValueError):  # an array left as it is fails the next check
            array = array.astype(np.float64)
    if array.dtype.kind not in "biufc":
        raise ValueError(f"{name}: got values of dtype {array.dtype} that are not all numbers. Encode or drop columns.")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)  # torch has no long double
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if not array.flags.writeable or any(stride < 0 or stride % array.itemsize for stride in array.strides):
        array = array.copy()
    return array


def _is_number(value: Any) -> bool:
    return isinstance(value, (Number, np.bool_)) or (isinstance(value, (Tensor, np.ndarray)) and value.ndim == 0)
