"""From numbers in any form to a tensor, or an error that names the argument: the one door for what users pass."""

from __future__ import annotations

from contextlib import suppress
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def float_tensor(values: Any, name: str) -> Tensor:
    """A detached floating point tensor of any shape that holds `values`; shares memory where it can.

    Floats keep their dtype; integers and booleans take torch's default one.
    """
    tensor = real_tensor(values, name)
    return tensor if tensor.dtype in FLOATS else tensor.to(torch.get_default_dtype())


def real_tensor(values: Any, name: str) -> Tensor:
    """A detached, dense tensor of real numbers in their own dtype; shares memory where it can.

    Raises:
        TypeError: no tensor, array, DataFrame, list or number.
        ValueError: text, missing values, lists of different lengths, complex numbers, sparse or nested tensors.
    """
    tensor = _tensor(values, name)
    if tensor.is_complex():
        raise ValueError(
            f"{name}: got dtype {tensor.dtype}; expected real numbers. Pass real and imaginary parts as columns."
        )
    if tensor.is_nested or tensor.layout != torch.strided:
        form = "a nested tensor" if tensor.is_nested else f"layout {tensor.layout}"
        raise ValueError(f"{name}: got {form}; expected a dense tensor. Pass it through `.to_dense()`, or pad it.")
    return tensor


def is_array(values: Any) -> bool:
    """Whether NumPy can read this: an array, a DataFrame, or another library's array."""
    return hasattr(values, "to_numpy") or (hasattr(values, "__array__") and not isinstance(values, type))


def is_real(value: Any) -> bool:
    """Whether an option is a real number, so that it can be compared with its limits."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether this is one number, in whatever form."""
    return isinstance(value, (Number, np.bool_)) or (isinstance(value, (Tensor, np.ndarray)) and value.ndim == 0)


def _tensor(values: Any, name: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    if isinstance(values, nn.Module):
        raise TypeError(
            f"{name}: got a {type(values).__name__}; expected a tensor. Of a coreset pass `.points`, and `.weights` as "
            "weights."
        )
    if is_array(values):
        return torch.from_numpy(_array(values, name))
    if isinstance(values, (list, tuple)) or is_number(values):
        try:
            return torch.tensor(_detached(values))
        except (TypeError, ValueError, RuntimeError) as error:
            shapes = [tuple(part.shape) for part in values if isinstance(part, Tensor)] if not is_number(values) else []
            if shapes:
                raise ValueError(
                    f"{name}: got a {type(values).__name__} with tensors of shapes {', '.join(map(str, shapes[:4]))}; "
                    "expected one table. Take the features of a batch, as in `batch[0]`."
                ) from error
            raise ValueError(
                f"{name}: got a list that is no table ({error}); expected rows of equal length."
            ) from error
    raise TypeError(
        f"{name}: got {type(values).__name__}; expected a tensor, an array, a DataFrame or lists of numbers."
    )


def _detached(values: Any) -> Any:
    """The same lists or number; torch.tensor warns about single values that require grad, and about lists of arrays."""
    if not isinstance(values, (list, tuple)):
        return values
    if values and isinstance(values[0], (list, tuple, Tensor, np.ndarray)):
        return [
            value.detach().tolist()
            if isinstance(value, Tensor)
            else value.tolist()
            if isinstance(value, np.ndarray)
            else _detached(value)
            for value in values
        ]
    return values


def _array(values: Any, name: str) -> np.ndarray[Any, Any]:
    """An array that torch can share: numeric, writable, in native byte order, in whole forward strides."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name}: got masked values; expected numbers only. Drop or impute them first.")
    array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if array.dtype.kind == "O" and not any(isinstance(value, str) for value in array.flat):
        with suppress(TypeError, ValueError):  # an array left as it is fails the next check
            array = array.astype(np.float64)
    if array.dtype.kind not in "biufc":
        odd = _columns_of_text(values)
        where = f" in the columns {', '.join(map(repr, odd))}" if odd else ""
        raise ValueError(
            f"{name}: got values of dtype {array.dtype}{where} that are not all numbers. Encode or drop columns."
        )
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)  # torch has no long double
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if not array.flags.writeable or any(stride < 0 or stride % array.itemsize for stride in array.strides):
        array = array.copy()
    return array


def _columns_of_text(frame: Any) -> list[str]:
    """Names of the columns of a DataFrame that hold no numbers; none for anything else."""
    odd = []
    for name in getattr(frame, "columns", []):
        try:
            np.asarray(frame[name]).astype(np.float64)
        except (TypeError, ValueError):
            odd.append(str(name))
    return odd
