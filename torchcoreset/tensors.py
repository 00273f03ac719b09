"""From numbers in any form to a tensor, or an error that names the argument: the one door for what users pass."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from contextlib import suppress
from numbers import Number, Real
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
    """Whether an option is a real number, Python's or NumPy's, so that it can be compared with its limits."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether this is one number, in whatever form."""
    return isinstance(value, (Number, np.bool_)) or (isinstance(value, (Tensor, np.ndarray)) and value.ndim == 0)


def check_count(count: Any, name: str, expected: str = "a positive integer") -> int:
    """A count as an int, whichever library's integer it is; ValueError unless it is at least 1."""
    try:
        number = 0 if isinstance(count, bool) else operator.index(count)
    except TypeError:
        number = 0
    if number < 1:
        got = repr(count) if isinstance(count, (int, float, str)) else f"a {type(count).__name__}"
        raise ValueError(f"{name}: got {got}; expected {expected}.")
    return number


def check_finite(
    rows: Tensor, name: str, index: Sequence[int] | Tensor | None = None, columns: Sequence[str] | None = None
) -> float:
    """The largest size of a number in rows (m, d); ValueError if they hold NaN or infinity.

    `index` (m,) says which rows of a whole these are, `columns` (d,) how the columns are called.
    """
    # One pass, without a temporary as large as the data; NaN comes through both ends.
    low, high = torch.stack(torch.aminmax(rows)).tolist()
    if math.isfinite(low) and math.isfinite(high):
        return float(max(-low, high))
    finite = torch.isfinite(rows)
    bad = (~finite.all(1)).nonzero()[:, 0].tolist()
    first = bad[0] if index is None else int(index[bad[0]])
    where = ""
    if columns is not None and len(columns) == rows.shape[1]:
        odd = (~finite.all(0)).nonzero()[:, 0].tolist()
        where = f" (counted from 0), in {', '.join(repr(columns[k]) for k in odd[:6])}"
    raise ValueError(
        f"{name}: {len(bad)} of {len(rows)} rows hold NaN or inf, the first is row {first}{where}. "
        "Drop or impute them first."
    )


def normalised(weights: Any, count: int, name: str, device: torch.device | None = None) -> Tensor:
    """Weights of `count` rows as float64 with sum 1, (count,), by default on the CPU; None gives equal ones.

    Raises:
        TypeError, ValueError: no numbers, of another shape, negative, NaN or infinite, or all zero.
    """
    if weights is None:
        return torch.full((count,), 1 / count, dtype=torch.float64, device=device)
    w = real_tensor(weights, name)
    if w.shape != (count,):
        raise ValueError(f"{name}: got shape {tuple(w.shape)}; expected ({count},), one weight for each row.")
    w = w.to(device=device or torch.device("cpu"), dtype=torch.float64)
    if not bool(torch.isfinite(w).all()) or bool((w < 0).any()):
        bad = (~torch.isfinite(w) | (w < 0)).nonzero()[:, 0].tolist()
        raise ValueError(
            f"{name}: {len(bad)} of {count} weights are negative, NaN or infinite, the first is {float(w[bad[0]]):g} "
            f"at row {bad[0]}; expected finite weights >= 0."
        )
    peak = w.max()
    if not bool(peak > 0):
        raise ValueError(f"{name}: all {count} weights are zero; expected a positive sum.")
    w = w / peak  # so that neither huge nor tiny weights overflow the sum
    return w / w.sum()


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
