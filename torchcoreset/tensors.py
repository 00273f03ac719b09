"""From numbers in any form to a tensor, or an error that names the argument: all that users pass comes through here.

One rule for points, samples, `init`, sources and files:

- Floats of tensors, arrays and DataFrames keep their dtype. The long double of NumPy becomes float64, and floats of
  eight bits torch's default dtype.
- Whole numbers and booleans take torch's default dtype as far as it holds each of them, up to 2^24 in float32, and
  float64 beyond. From 2^53 on float64 does not hold them either: they are refused.
- Lists, tuples and deques of numbers, or of rows of one length, are tables. Python's floats take the default dtype, and
  float64 where that does not keep apart what differs (`holds`). Rows that are arrays or tensors keep their dtype.
- NaN, infinity, complex numbers, text, missing values, rows of several lengths, sparse, nested, quantised and meta
  tensors are errors that name the argument.
- The default device is ignored: other values than tensors are read on the CPU.

Transports are computed in the dtype of the points, half precision in float32, after samples and points have been
shifted in the wider of their dtypes; see `transport.problem`.
"""

from __future__ import annotations

import math
import operator
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from numbers import Integral, Number, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .errors import meant

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
LISTS = (list, tuple, deque)
NUMBERS = frozenset((bool, int, float))
WHOLE = 2.0**53  # beyond it float64 skips whole numbers, which are refused
RESOLVED = 2.0**-10  # part of the range of a table; a dtype whose neighbouring numbers are farther apart is not used


def float_tensor(values: Any, name: str) -> Tensor:
    """A detached floating point tensor of any shape that holds `values`; else as `real_tensor`."""
    tensor = real_tensor(values, name)
    if tensor.dtype in FLOATS:
        return tensor
    default = torch.get_default_dtype()
    if tensor.is_floating_point() or tensor.numel() == 0 or most_of(tensor.dtype) <= exact_up_to(default):
        return tensor.to(default)
    # torch finds no extremes of large unsigned numbers.
    largest = check_whole(tensor if tensor.dtype in (torch.int32, torch.int64) else tensor.to(torch.float64), name)
    return tensor.to(default if largest <= exact_up_to(default) else torch.float64)


def real_tensor(values: Any, name: str) -> Tensor:
    """A detached, dense tensor of real numbers in their own dtype; shares memory where it can.

    Raises:
        TypeError: no tensor, array, DataFrame, list or number.
        ValueError: text, missing values, rows of several lengths, complex numbers; sparse, nested, quantised, meta or
            fake tensors.
    """
    tensor = _tensor(values, name)
    if tensor.is_complex():
        raise ValueError(
            f"{name}: got dtype {tensor.dtype}; expected real numbers. Pass real and imaginary parts as columns."
        )
    if tensor.is_nested or tensor.layout != torch.strided:
        form = "a nested tensor" if tensor.is_nested else f"layout {tensor.layout}"
        raise ValueError(f"{name}: got {form}; expected a dense tensor. Pass it through `.to_dense()`, or pad it.")
    if tensor.is_quantized:
        raise ValueError(f"{name}: got dtype {tensor.dtype}; expected numbers. Pass it through `.dequantize()`.")
    if tensor.is_meta or type(tensor).__name__ == "FakeTensor":
        kind = "a tensor on the meta device" if tensor.is_meta else "a fake tensor"
        raise ValueError(
            f"{name}: got {kind}, which has a shape but no numbers; expected numbers. Make it outside of "
            "`torch.device('meta')` and of fake modes."
        )
    return tensor


def exact_up_to(dtype: torch.dtype) -> float:
    """The size up to which a floating dtype holds every whole number: 2^24 in float32."""
    return 2 / torch.finfo(dtype).eps


def most_of(dtype: torch.dtype) -> float:
    """The largest size of a number of an integer dtype."""
    return 1.0 if dtype == torch.bool else -float(torch.iinfo(dtype).min) or float(torch.iinfo(dtype).max)


def check_whole(numbers: Tensor, name: str) -> float:
    """The largest size among whole numbers; ValueError if they lose digits as float64, or have, if that they are."""
    low, high = (float(end) for end in torch.aminmax(numbers))
    largest = max(-low, high)
    if largest >= WHOLE:
        raise ValueError(_too_large(largest, name))
    return largest


def holds(dtype: torch.dtype, table: Tensor) -> bool:
    """Whether a floating dtype keeps apart what differs in a table (m, ...) of finite numbers.

    Its numbers have to be, at the largest of the table, less than RESOLVED of the widest column apart, and the
    range within its own limits. A table without a range, such as a single row, is judged as if that were 1.
    """
    size, spread = span(table)
    limits = torch.finfo(dtype)
    if size > limits.max or 0 < (spread or size) < limits.tiny:
        return False
    return not limits.eps * size > RESOLVED * (spread or 1.0)


def wide_enough(points: Tensor, samples: Tensor) -> Tensor:
    """The points (n, d), in the dtype of the samples (m, d) if theirs does not keep apart what differs among those."""
    wide = torch.promote_types(points.dtype, samples.dtype)
    return points if wide == points.dtype or holds(points.dtype, samples) else points.to(wide)


def span(table: Tensor) -> tuple[float, float]:
    """The largest size of a number in a table (m, ...), and the largest range of a column."""
    if table.numel() == 0:
        return 0.0, 0.0
    rows = table.reshape(len(table), -1) if table.dim() else table[None, None]
    low, high = rows.amin(0), rows.amax(0)  # aminmax along columns takes 20 times as long (measured)
    return float(torch.maximum(-low, high).max()), float((high - low).max())


@dataclass(frozen=True)
class WeightedPoints:
    """The points of a coreset, as layers that do not know of coresets see them.

    Attributes:
        points: (n, d).
        weights: (n,).
        built_on: fingerprints of the tables that the points were built on, or None.
        scaling: the units of distances, if they are not those of the data.
        cost: the distance that the points are for, if it is not the Euclidean one.
        joint: what the last columns of joint rows (features, labels) hold, or None.
    """

    points: Tensor
    weights: Tensor
    built_on: str | None
    scaling: Any
    cost: Any = None
    joint: Any = None


def weighted_points(value: Any) -> WeightedPoints | None:
    """What a coreset holds, or the one in a result of a build; None of anything else.

    A coreset is known by `points` and `weights` that are tensors. What can be called, indexed or iterated is none: a
    network or dataset may have attributes of these names, and gives its rows in another way.
    """
    for held in (value, getattr(value, "coreset", None)):
        network = isinstance(held, nn.Module) and type(held).forward is not nn.Module.forward
        if network or (callable(held) and not isinstance(held, nn.Module)):
            return None
        if hasattr(held, "__getitem__") or hasattr(held, "__iter__"):
            return None
        points, weights = getattr(held, "points", None), getattr(held, "weights", None)
        if isinstance(points, Tensor) and isinstance(weights, Tensor):
            # A labelled coreset passes points and weights on, and what else is known stands in its `coreset`.
            inner = getattr(held, "coreset", held)
            known = (getattr(inner, name, None) for name in ("built_on", "scaling", "cost", "joint"))
            return WeightedPoints(points.detach(), weights.detach(), *known)
    return None


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


def check_flag(value: Any, name: str, *, or_none: bool = False) -> None:
    """Raise ValueError unless this is True or False, Python's or NumPy's, or None where that is allowed."""
    if not (isinstance(value, (bool, np.bool_)) or (or_none and value is None)):
        raise ValueError(f"{name}: got {value!r}; expected True or False{', or None' if or_none else ''}.")


def check_callables(**functions: Any) -> None:
    """Raise TypeError unless each of these arguments can be called, or is None."""
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise TypeError(f"{name}: got {function!r}; expected a function, or None.")


def check_name(name: Any, option: str, known: Collection[str]) -> None:
    """Raise ValueError unless the name that an option got is one of the known ones."""
    if name not in known:
        raise ValueError(
            f"{option}: got {name!r}; expected one of {', '.join(map(repr, known))}{meant(name, known, '.')}"
        )


def check_finite(
    rows: Tensor, name: str, index: Sequence[int] | Tensor | None = None, columns: Sequence[str] | None = None
) -> float:
    """The largest size of a number in rows (m, d); ValueError if they hold NaN or infinity.

    `index` (m,) says which rows of a whole these are, `columns` (d,) how the columns are called.
    """
    # One pass, without a temporary as large as the data; NaN comes through both ends.
    ends = torch.aminmax(rows)
    low, high = map(float, ends) if rows.is_cpu else torch.stack(ends).tolist()  # from a GPU at once
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
    return shares(weights, count, name, device)[0]


def shares(weights: Any, count: int, name: str, device: torch.device | None = None) -> tuple[Tensor, bool]:
    """Weights as by `normalised`, and whether all are equal."""
    if weights is None:
        return _equal_shares(count, device), True
    w = real_tensor(weights, name)
    if w.shape != (count,):
        raise ValueError(f"{name}: got shape {tuple(w.shape)}; expected ({count},), one weight for each row.")
    w = w.to(device=device or torch.device("cpu"), dtype=torch.float64)
    least, peak = map(float, torch.aminmax(w))  # both are NaN if one is
    if not (least >= 0 and peak < math.inf):
        bad = (~torch.isfinite(w) | (w < 0)).nonzero()[:, 0].tolist()
        raise ValueError(
            f"{name}: {len(bad)} of {count} weights are negative, NaN or infinite, the first is {float(w[bad[0]]):g} "
            f"at row {bad[0]}; expected finite weights >= 0."
        )
    if not peak > 0:
        raise ValueError(f"{name}: all {count} weights are zero; expected a positive sum.")
    if least == peak:
        return _equal_shares(count, w.device), True
    w = w / peak  # so that neither huge nor tiny weights overflow the sum
    return w.div_(w.sum()), False


def _equal_shares(count: int, device: torch.device | None) -> Tensor:
    return torch.full((count,), 1 / count, dtype=torch.float64, device=device)


def described(value: Any, /, *parts: str, **formats: str) -> str:
    """The repr of a result or a source: `Kind(part, ..., attribute=number, ...)`, numbers in the formats given."""
    for name, form in formats.items():
        attribute = getattr(value, name)
        parts += (f"{name}={format(attribute.value if isinstance(attribute, Enum) else attribute, form)}",)
    return f"{type(value).__name__}({', '.join(part for part in parts if part)})"


def _too_large(largest: float, name: str) -> str:
    return (
        f"{name}: got whole numbers of up to {largest:.3g}; expected them below 2^53 = 9.01e15, where float64 begins "
        "to skip some. Subtract a common offset first, or pass them as float64 if their last digits do not matter."
    )


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
    if isinstance(values, LISTS):
        if not NUMBERS.union(LISTS).issuperset(map(type, values)) and any(
            isinstance(value, Tensor) or (is_array(value) and not is_number(value)) for value in values
        ):
            return _stacked([_tensor(value, name) for value in values], type(values).__name__, name)
        return _of_python(_plain(values), type(values).__name__, name)
    if is_number(values):
        return _of_python(values, type(values).__name__, name)
    raise TypeError(
        f"{name}: got {type(values).__name__}; expected a tensor, an array, a DataFrame or lists of numbers."
    )


def _stacked(rows: list[Tensor], kind: str, name: str) -> Tensor:
    """A list of tensors or arrays as a table, one a row, in the widest of their dtypes."""
    shapes = [tuple(row.shape) for row in rows]
    if len(set(shapes)) == 1:
        return torch.stack(rows)
    found = ", ".join(map(str, list(dict.fromkeys(shapes))[:4]))
    if all(len(shape) == 1 for shape in shapes):
        raise ValueError(
            f"{name}: got a {kind} of rows of shapes {found}; expected rows of one length. Pad or cut them, or, if "
            "these are batches of numbers, join them first: torch.cat(batches)."
        )
    raise ValueError(
        f"{name}: got a {kind} with tensors of shapes {found}; expected one table. Take the features of a batch, as in "
        "`batch[0]`."
    )


def _of_python(values: Any, kind: str, name: str) -> Tensor:
    """Python's numbers, or nested lists of them."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        lengths = {len(value) if isinstance(value, LISTS) else None for value in values}
        found = ", ".join("a number" if length is None else str(length) for length in list(lengths)[:4])
        raise ValueError(
            f"{name}: got a {kind} that is not a table (rows of lengths {found}); expected rows of equal length. Pad "
            "or cut them."
        ) from None
    if array.dtype.kind == "O" and not any(value is None for value in array.flat):
        array = _of_objects(array, name)
    if array.dtype.kind not in "biufc":
        odd = {type(value).__name__ for value in np.asarray(values, dtype=object).flat if not is_number(value)}
        raise ValueError(
            f"{name}: got a {kind} that is not a table of numbers ({', '.join(sorted(odd))} among its values); "
            "expected numbers only. Encode the others or leave them out."
        )
    if array.dtype.kind == "f" and array.size and float(np.abs(array).max()) >= WHOLE:
        _of_objects(np.asarray(values, dtype=object), name)  # whole numbers beside fractions have become floats
    tensor = torch.from_numpy(
        array.astype(np.float64) if array.dtype.itemsize > 8 and array.dtype.kind == "f" else array
    )
    default, first = torch.get_default_dtype(), values
    while isinstance(first, list) and first:
        first = first[0]
    # NumPy's float64 is one of Python's floats too, but has a dtype to keep.
    if tensor.dtype != torch.float64 or isinstance(first, np.float64):
        return tensor
    exact = torch.equal(tensor.to(default).double(), tensor) and holds(torch.float32, tensor)
    return tensor.to(default) if exact or holds(default, tensor) else tensor


def _plain(value: Any) -> Any:
    """The same without tensors, arrays and deques within."""
    if isinstance(value, LISTS):
        return list(value) if NUMBERS.issuperset(map(type, value)) else [_plain(part) for part in value]
    if isinstance(value, Tensor):
        return value.detach().tolist()
    return value.tolist() if isinstance(value, np.ndarray) else value


def _of_objects(array: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """An array of objects as float64, or as it is if they are not numbers; ValueError for whole ones from 2^53 on."""
    values = list(array.flat)
    largest = max((abs(int(value)) for value in values if isinstance(value, Integral)), default=0)
    if largest >= WHOLE:
        raise ValueError(_too_large(float(largest), name))
    if not any(isinstance(value, str) for value in values):
        with suppress(TypeError, ValueError):
            return array.astype(np.float64)
    return array


def _check_columns(frame: Any, name: str) -> None:
    """ValueError if a DataFrame of columns of several types has whole numbers that float64 cannot hold."""
    for column in frame.columns:
        numbers = np.asarray(frame[column])
        if numbers.dtype.kind in "iu" and numbers.size:
            check_whole(torch.from_numpy(numbers.astype(np.float64)), f"{name}, column {column!r}")


def _array(values: Any, name: str) -> np.ndarray[Any, Any]:
    """An array that torch can share: numeric, writable, in native byte order, in whole forward strides."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name}: got masked values; expected numbers only. Drop or impute them first.")
    array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if array.dtype.kind == "O":
        array = _of_objects(array, name)  # left as it is, it fails the next check
    if array.dtype.kind not in "biufc":
        odd = _columns_of_text(values)
        where = f" in the columns {', '.join(map(repr, odd))}" if odd else ""
        raise ValueError(
            f"{name}: got values of dtype {array.dtype}{where} that are not all numbers. Encode or drop columns."
        )
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)  # torch has no long double
    if array.dtype.kind == "f" and hasattr(values, "columns"):
        _check_columns(values, name)
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
