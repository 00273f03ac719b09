"""The engine for CUDA: one kernel computes c - v tile by tile in registers and keeps its running minimum or softmin.

    x (n, d) points, y (m, d) samples, a (m,) weights      v (n,) potential      eta smoothing      c cost

All in float32, without TF32: a program takes a block of samples and walks over all points, block by block. Nothing
is added up atomically, so that equal calls give equal bits.

This file is imported only when the engine is used: it needs triton, and a CUDA device (or TRITON_INTERPRET=1, which
runs the kernels on the CPU for tests).
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ...problem import Problem
from ..soft import Meter
from .fused import FusedEngine, explained

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
BLOCK_M, BLOCK_N, BLOCK_D = 64, 64, 16  # samples, points and coordinates of a tile
WARPS = 4
# Dimensions from which a tile of inner products is a `tl.dot`, and not a loop over coordinates: on an H200 a hard pass
# of (1000, 331k, 8) takes 1.8 ms by dot and 2.5 by loop, a soft pass of (1000, 1M, 2) 9.1 by dot and 5.3 by loop.
DOT_FROM = 8
PARTIAL_ELEMENTS = 1 << 24  # of the float32 masses that programs leave behind: 64 MiB
REMEDY = "check that triton finds a C compiler and supports this device."


class TritonEngine(FusedEngine):
    """Fused kernels for float32 problems.

    Raises:
        RuntimeError: at the first pass, triton cannot compile or run.
    """

    def __init__(self, problem: Problem, meter: Meter | None = None) -> None:
        super().__init__(problem, meter)
        # A loop over coordinates has neighbouring threads read neighbouring samples; a tile is read by rows.
        rowwise = problem.x.shape[1] >= DOT_FROM
        self._places = tuple(
            table.contiguous() if rowwise else table.t().contiguous().t() for table in (problem.x, problem.y)
        )

    def _two_nearest(self, v: Tensor) -> tuple[Tensor, Tensor]:
        y = self._places[1]
        cell = torch.empty(len(y), dtype=torch.int64, device=y.device)
        margin = torch.empty_like(self._y2)
        self._launch(_two_nearest_kernel, y, self._y2, v, cell, margin)
        return cell, margin

    def _softmin(self, v: Tensor, eta: float) -> tuple[Tensor, Tensor, Tensor]:
        x, y = self._places
        lowest, total = torch.empty_like(self._y2), torch.empty_like(self._y2)
        # Weights of the order of 1, not 1/m, keep float32 far from its smallest numbers.
        weight = (self.problem.a * len(y)).float()
        mass = torch.zeros_like(self.problem.b)
        rows = max(1, PARTIAL_ELEMENTS // len(x)) * BLOCK_M
        for start in range(0, len(y), rows):
            part = slice(start, start + rows)
            partial = torch.empty(triton.cdiv(len(y[part]), BLOCK_M), len(x), dtype=x.dtype, device=x.device)
            self._launch(
                _softmin_kernel, y[part], self._y2[part], v, weight[part], lowest[part], total[part], partial, 1 / eta
            )
            mass += partial.sum(0, dtype=torch.float64)
        lowest = lowest.double()
        return lowest + self._y2.double() if self.problem.cost.omits_square else lowest, total, mass / len(y)

    def _launch(self, kernel: Any, y: Tensor, y2: Tensor, v: Tensor, *rest: Any) -> None:
        """One program for each BLOCK_M of the samples."""
        kernel_form = self.problem.cost.kernel
        assert kernel_form is not None, "others are refused by name"
        x, (form, half_power) = self._places[0], kernel_form
        device = torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext()
        with explained("triton", lambda: REMEDY), device:
            kernel[(triton.cdiv(len(y), BLOCK_M),)](
                x, y, self._x2, y2, v.float(), *rest, len(x), len(y),
                *x.stride(), *y.stride(), half_power,
                FORM=form, D=x.shape[1], DOT=x.shape[1] >= DOT_FROM,
                BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=BLOCK_D, num_warps=WARPS,
                enable_fp_fusion=True,  # named, because triton warns that its default will change
            )  # fmt: skip


@triton.jit
def _two_nearest_kernel(
    x, y, x2, y2, v, cell, margin, n, m, x_row, x_col, y_row, y_col, half_power,
    FORM: tl.constexpr, D: tl.constexpr, DOT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Nearest and second nearest point of each sample of a block: the running minimum, its place, and the next."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    lowest = tl.full((BLOCK_M,), float("inf"), tl.float32)
    second = tl.full((BLOCK_M,), float("inf"), tl.float32)
    nearest = tl.zeros((BLOCK_M,), tl.int32)
    for first in range(0, n, BLOCK_N):
        cols = first + tl.arange(0, BLOCK_N)
        reduced = _reduced(
            x, y, x2, y2, v, rows, cols, n, m, x_row, x_col, y_row, y_col, half_power,
            FORM, D, DOT, BLOCK_M, BLOCK_N, BLOCK_D,
        )  # fmt: skip
        tile_lowest, place = tl.min(reduced, 1, return_indices=True)
        others = tl.where(cols[None, :] == (first + place)[:, None], float("inf"), reduced)
        second = tl.minimum(tl.maximum(lowest, tile_lowest), tl.minimum(second, tl.min(others, 1)))
        nearest = tl.where(tile_lowest < lowest, first + place, nearest)
        lowest = tl.minimum(lowest, tile_lowest)
    tl.store(cell + rows, nearest.to(tl.int64), mask=rows < m)
    tl.store(margin + rows, second - lowest, mask=rows < m)


@triton.jit
def _softmin_kernel(
    x, y, x2, y2, v, weight, lowest_out, total_out, partial, rate, n, m, x_row, x_col, y_row, y_col, half_power,
    FORM: tl.constexpr, D: tl.constexpr, DOT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Softmin of each sample of a block in a first walk over the points, the masses it gives them in a second."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    lowest = tl.full((BLOCK_M,), float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    for first in range(0, n, BLOCK_N):
        cols = first + tl.arange(0, BLOCK_N)
        reduced = _reduced(
            x, y, x2, y2, v, rows, cols, n, m, x_row, x_col, y_row, y_col, half_power,
            FORM, D, DOT, BLOCK_M, BLOCK_N, BLOCK_D,
        )  # fmt: skip
        lower = tl.minimum(lowest, tl.min(reduced, 1))
        total = total * tl.exp((lower - lowest) * rate) + tl.sum(tl.exp((lower[:, None] - reduced) * rate), 1)
        lowest = lower
    tl.store(lowest_out + rows, lowest, mask=rows < m)
    tl.store(total_out + rows, total, mask=rows < m)
    factor = tl.load(weight + rows, mask=rows < m, other=0.0) / total
    mass = partial + tl.program_id(0).to(tl.int64) * n
    for first in range(0, n, BLOCK_N):
        cols = first + tl.arange(0, BLOCK_N)
        reduced = _reduced(
            x, y, x2, y2, v, rows, cols, n, m, x_row, x_col, y_row, y_col, half_power,
            FORM, D, DOT, BLOCK_M, BLOCK_N, BLOCK_D,
        )  # fmt: skip
        share = tl.exp((lowest[:, None] - reduced) * rate) * factor[:, None]
        tl.store(mass + cols, tl.sum(share, 0), mask=cols < n)


@triton.jit
def _reduced(
    x, y, x2, y2, v, rows, cols, n, m, x_row, x_col, y_row, y_col, half_power,
    FORM: tl.constexpr, D: tl.constexpr, DOT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """c - v for one tile, infinite beyond the last point.

    The cost is |y - x|^2 in form 2, without the constant |y|^2 of each row; |y - x| in form 1; any power in form 0.
    """
    y_rows = y + rows.to(tl.int64)[:, None] * y_row
    x_rows = x + cols.to(tl.int64)[None, :] * x_row
    inside_m, inside_n = rows[:, None] < m, cols[None, :] < n
    inner = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    if DOT:
        for start in range(0, D, BLOCK_D):
            k = start + tl.arange(0, BLOCK_D)
            left = tl.load(y_rows + k[None, :] * y_col, mask=inside_m & (k[None, :] < D), other=0.0)
            right = tl.load(x_rows + k[:, None] * x_col, mask=inside_n & (k[:, None] < D), other=0.0)
            inner = tl.dot(left, right, inner, input_precision="ieee")
    else:
        for _ in range(D):
            left = tl.load(y_rows, mask=inside_m, other=0.0)
            right = tl.load(x_rows, mask=inside_n, other=0.0)
            y_rows += y_col
            x_rows += x_col
            if FORM == 2:
                inner += left * right
            else:
                inner += (left - right) * (left - right)
    height = tl.load(v + cols[None, :], mask=inside_n, other=0.0)
    x_norm = tl.load(x2 + cols[None, :], mask=inside_n, other=0.0)
    if FORM == 2:
        reduced = x_norm - height - 2 * inner
    else:
        square = inner
        if DOT:
            y_norm = tl.load(y2 + rows[:, None], mask=inside_m, other=0.0)
            square = tl.maximum(y_norm + x_norm - 2 * inner, 0.0)
        if FORM == 1:
            reduced = tl.sqrt_rn(square) - height
        else:  # the logarithm of 0 is -inf, its exp 0
            reduced = tl.exp2(half_power * tl.log2(square)) - height
    return tl.where(inside_n, reduced, float("inf"))
