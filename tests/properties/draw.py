"""What is thrown at the library: tables and weights of every shape, dtype, scale and fault; and what may come back."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from torch import Tensor

import torchcoreset as tc
from torchcoreset.tensors import holds

T = TypeVar("T")

# More examples, and other ones: TORCHCORESET_EXAMPLES=1000 pytest tests/properties
WANTED = os.environ.get("TORCHCORESET_EXAMPLES")
# What an error has to begin with: the argument that it is about.
NAMES = (
    "point_weights|sample_weights|weights|coreset\\.weights|coreset|points|samples|source|init|held_out|size|features|"
    "features, flatten|flatten|share|seed|p|blur|relative_blur|blurs|epsilon|tolerance|confidence|bound|evaluations|"
    "network|f|y|X|start|scaling|result|path|kernel|steps|max_steps|n_points|certificate|batch_size|rate|restarts|"
    "engine|allocation|rows|max_size|max_builds|lipschitz|callback|optimizer|samples, batch \\d+|samples, row \\d+|"
    "network output|f output"
)
NAMED = re.compile(rf"^({NAMES}): ")
OURS = re.compile(rf"^({NAMES}|transport|mmd|sinkhorn_divergence|energy_distance|sinkhorn_divergence \(\w+\))\b")

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
FAULTS = ("nan", "inf", "no rows", "no columns", "image", "number", "complex", "text", "none", "ragged")


def examples(count: int) -> settings:
    """`count` examples, the same ones every time; or as many as the environment asks for, new ones every time."""
    return settings(
        max_examples=count if WANTED is None else int(WANTED),
        derandomize=WANTED is None,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


class Refused:
    """A named error has come back."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __repr__(self) -> str:
        return f"Refused({type(self.error).__name__}: {self.error})"


def answer(call: Callable[[], T]) -> T | Refused:
    """What a call returns, or the named error that it raises; everything else fails the test, warnings of torch too."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found: T | Refused = call()
        except tc.ConvergenceError as error:
            found = Refused(error)
        except (ValueError, TypeError) as error:
            found = Refused(error)
    if isinstance(found, Refused) and not isinstance(found.error, tc.ConvergenceError):
        assert NAMED.match(str(found.error)), f"an error that names no argument: {found.error!r}"
    for warning in caught:
        ours = isinstance(warning.message, (tc.ConvergenceWarning, tc.DriftWarning))
        assert ours or OURS.match(str(warning.message)), f"a warning from elsewhere: {warning.message!r}"
    return found


@st.composite
def numbers(draw: st.DrawFn, rows: int, columns: int) -> Tensor:
    """(rows, columns) finite float64: one of several patterns, at a scale from 1e-12 to 1e12."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    table = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    pattern = draw(st.sampled_from(("plain", "whole", "equal", "copies", "column", "offset", "outlier", "tails")))
    if pattern == "whole":
        table = table.mul(2).round()
    elif pattern == "equal":
        table = table[:1].expand(rows, columns).clone()
    elif pattern == "copies":
        table = table[torch.randint(max(1, rows // 3), (rows,), generator=generator)]
    elif pattern == "column":
        table[:, 0] = table[0, 0]
    elif pattern == "outlier":
        table[0] *= 10.0 ** draw(st.integers(1, 12))
    elif pattern == "tails":
        table = table / torch.rand(rows, 1, generator=generator, dtype=torch.float64).clamp_min(1e-6)
    table *= 10.0 ** draw(st.integers(-12, 12))
    if pattern == "offset" and table.numel():
        table += table.abs().max() * 10.0 ** draw(st.integers(0, 7))
    return table


@st.composite
def tables(draw: st.DrawFn, rows: int | None = None, columns: int | None = None, faults: bool = True) -> Any:  # noqa: PLR0911, PLR0912
    """A table in any form, most of them right: tensor, array, lists; or with one fault."""
    rows = draw(st.integers(1, 12)) if rows is None else rows
    columns = draw(st.integers(1, 3)) if columns is None else columns
    table = draw(numbers(rows, columns))
    fault = draw(st.sampled_from(FAULTS)) if faults and draw(st.integers(0, 5)) == 0 else None
    match fault:
        case "nan" | "inf":
            table[draw(st.integers(0, rows - 1)), draw(st.integers(0, columns - 1))] = float(fault)
        case "no rows":
            table = table[:0]
        case "no columns":
            return table[:, :0]
        case "image":
            table = table[:, None]
        case "number":
            return table[0, 0]
        case "complex":
            return table + 1j
        case "text":
            return draw(st.sampled_from(("here", ["a", "b"], np.array([["a"], ["b"]]), b"bytes")))
        case "none":
            return draw(st.sampled_from((None, object(), {}, [], [None], [[]])))
        case "ragged":
            return [[1.0, 2.0], [3.0]]
    dtype = draw(st.sampled_from(DTYPES))
    # The smallest of halves would be zero, and the largest infinite, which is a fault of its own.
    table = table.to(dtype) if dtype.is_floating_point else table.clamp(-2e9, 2e9).to(dtype)
    if table.dim() == 2 and columns == 1 and draw(st.booleans()):
        table = table[:, 0]
    form = draw(st.sampled_from(("tensor", "tensor", "array", "list", "strided", "graph", "read-only")))
    if form == "strided" and table.dim() == 2:
        return table.t().contiguous().t()
    if form == "graph" and table.is_floating_point():
        return table.requires_grad_()
    if form == "list":
        return table.tolist()
    if form in ("array", "read-only") and dtype is not torch.bfloat16:
        array = table.numpy()
        array = array.copy()
        array.setflags(write=form == "array")
        return array
    return table


@st.composite
def weights(draw: st.DrawFn, rows: int) -> Any:  # noqa: PLR0911
    """Weights of rows, most of them right."""
    kind = draw(st.sampled_from(("none", "none", "equal", "random", "some zero", "uneven", "whole", "list", "fault")))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    w = torch.rand(rows, generator=generator, dtype=torch.float64) + 1e-3
    scale = 10.0 ** draw(st.integers(-300, 300))
    match kind:
        case "none":
            return None
        case "equal":
            return torch.full((rows,), scale, dtype=torch.float64)
        case "random":
            return w * scale
        case "some zero":
            w[torch.rand(rows, generator=generator) < 0.4] = 0  # sometimes all of them
            return w.to(draw(st.sampled_from((torch.float32, torch.float64))))
        case "uneven":
            return 10.0 ** (w * 24 - 12)
        case "whole":
            return (w * 3).to(draw(st.sampled_from((torch.int64, torch.bool, torch.uint8))))
        case "list":
            return w.tolist()
    wrong: tuple[Any, ...] = (
        w[:-1], w[:, None], torch.cat((w, w)), -w, w * math.nan, w * math.inf, torch.zeros(rows), w + 1j, "equal", 1.0,
        ["a"] * rows, [None] * rows, {}, np.array(["b"] * rows), w.numpy() * -1, object(),
    )  # fmt: skip
    return draw(st.sampled_from(wrong))


def rows_of(table: Any) -> int:
    """How many weights or labels a table takes; any number where it is none."""
    return len(table) if isinstance(table, list) or getattr(table, "ndim", 0) else 3


def as_read(table: Any) -> Tensor:
    """A table (rows, d) as the library should read it: only floats of lists are rounded, where float32 holds them."""
    if isinstance(table, np.ndarray):
        table = torch.from_numpy(table.copy())
    read = table.detach() if isinstance(table, Tensor) else torch.from_numpy(np.array(table))
    if not read.is_floating_point():
        read = read.double()
        read = read.float() if read.abs().max() <= 2**24 else read
    elif not isinstance(table, Tensor | np.ndarray) and holds(torch.float32, read):
        read = read.float()
    return read if read.dim() == 2 else read[:, None]


def bits(*tensors: Any) -> list[Any]:
    """Copies of tensors, to see whether anything has written to them."""
    return [t.detach().clone() if isinstance(t, Tensor) else t for t in tensors]


def same(before: list[Any], after: list[Any]) -> bool:
    """Bit for bit."""
    return all(
        torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) if isinstance(a, Tensor) else a is b
        for a, b in zip(before, after, strict=True)
    )
