"""The engine of CPUs: passes compiled with the package, for the Euclidean distance and its square.

    x (n, d) points, y (m, d) samples, a (m,) weights      v (n,) potential      eta smoothing      c cost

A pass takes a third to a seventh of the time of matrix products in blocks, which write c - v down and read it
several times. Threads share the samples in parts of one size, so that sums do not depend on how many there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any, TypeVar

import torch
from torch import Tensor

from ...compiled import call, load
from ...costs import Cost
from ...problem import Problem, as_float64
from ..dense import SMALL, DifferencesEngine
from ..engine import Engine
from .fused import FusedEngine

Found = TypeVar("Found")
Functions = dict[tuple[str, torch.dtype], Any]

LIBRARY = "torchcoreset.transport.passes.fused._passes"
ARGUMENTS = {"two_nearest": "nnnn" + 8 * "*", "soft": "nnnnnx" + 10 * "*", "squares": "nn" + 4 * "*"}
TYPES = {torch.float32: "float", torch.float64: "double"}
BLOCK = 64  # bytes, at most, of one coordinate of a block of samples: of two vectors
POINTS = 4  # that passes.c takes at once
PART = 1 << 14  # samples that one thread takes at a time
WORTH = 1 << 21  # products from which a thread is worth starting: half a millisecond
FORMS = (1, 2)  # of the kernels of costs


def computes(cost: Cost) -> bool:
    """Whether passes for this cost are compiled."""
    return cost.kernel is not None and cost.kernel[0] in FORMS


class CompiledEngine(FusedEngine):
    """Compiled passes over float32 or float64 samples in memory."""

    def finer(self, problem: Problem) -> Engine | None:
        if problem.x.dtype == torch.float64 or len(problem.y) * problem.x.numel() <= SMALL:
            return DifferencesEngine(problem)
        return CompiledEngine(as_float64(problem))

    @cached_property
    def _points(self) -> tuple[Tensor, Tensor]:
        """Points and the squares of their norms, filled up to a multiple of POINTS."""
        return filled(self.problem.x, 0.0), filled(self._x2, 0.0)

    @cached_property
    def _samples(self) -> tuple[Tensor, Tensor]:
        """Samples, and the squares of their norms, which are of no use where the cost omits them."""
        y = self.problem.y.contiguous()
        return y, self._y2 if self._root else y[:, 0]

    @property
    def _root(self) -> bool:
        """Whether the cost is the distance, and not its square."""
        return self.problem.cost.kernel == (1, 0.5)

    def _reduced_by(self, name: str, v: Tensor, rest: Callable[[slice], list[Any]], *numbers: float) -> list[Any]:
        """What the function of this name leaves in the arrays that `rest` makes for each part of the samples."""
        (x, x2), (y, y2) = self._points, self._samples
        v = filled(v.to(x.dtype), -math.inf)

        def work(part: slice) -> list[Any]:
            some, arrays = y[part], rest(part)
            room = x.new_empty(sum(x.shape) * BLOCK // x.element_size())
            call(
                self._function(name), len(x), len(some), x.shape[1], self._root, *numbers,
                x, x2, v, some, y2[part], room, *arrays,
            )  # fmt: skip
            return arrays

        return self._in_parts(work)

    def _two_nearest(self, v: Tensor) -> tuple[Tensor, Tensor]:
        y = self.problem.y
        cell, margin = torch.empty(len(y), dtype=torch.int64, device=y.device), y.new_empty(len(y))
        self._reduced_by("two_nearest", v, lambda part: [cell[part], margin[part]])
        return cell, margin

    def _softmin(self, v: Tensor, eta: float) -> tuple[Tensor, Tensor, Tensor]:
        y, a, b = self.problem.y, self.problem.a.contiguous(), self.problem.b
        lowest, total = y.new_empty(len(y)), y.new_empty(len(y))

        def arrays(part: slice) -> list[Tensor]:
            return [lowest[part], total[part], a[part], torch.empty_like(b)]

        mass = torch.zeros_like(b)
        for *_, held in self._reduced_by("soft", v, arrays, len(b), 1 / (eta * math.log(2))):
            mass += held
        completed = lowest.double()
        if self.problem.cost.omits_square:
            completed += self._y2.double()
        return completed, total, mass

    def _cost_to(self, cell: Tensor) -> Tensor:
        y, x = self._samples[0], self.problem.x.double().contiguous()
        square, cell = torch.empty_like(self.problem.a), cell.contiguous()

        def work(part: slice) -> None:
            some = y[part]
            call(self._function("squares"), len(some), y.shape[1], x, some, cell[part], square[part])

        self._in_parts(work)
        return square.sqrt_() if self._root else square

    def _in_parts(self, work: Callable[[slice], Found]) -> list[Found]:
        """The work on each part of the samples, by as many threads as torch uses."""
        y = self.problem.y
        parts = [slice(start, start + PART) for start in range(0, len(y), PART)]
        threads = min(torch.get_num_threads(), len(parts), y.numel() * len(self.problem.x) // WORTH)
        if threads < 2:
            return [work(part) for part in parts]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, parts))

    def _function(self, name: str) -> Any:
        return functions()[name, self.problem.x.dtype]


def filled(values: Tensor, value: float) -> Tensor:
    """Rows (n, ...) and as many more of this value as make n a multiple of POINTS; contiguous."""
    more = -len(values) % POINTS
    return torch.cat((values, values.new_full((more, *values.shape[1:]), value))) if more else values.contiguous()


@cache
def is_built() -> bool:
    """Whether the compiler knew vectors: that of Windows does not."""
    return find_spec(LIBRARY) is not None


@cache
def widest() -> int:
    """Bytes of the widest vectors that this processor has, of those that are compiled for."""
    return int(load(LIBRARY, {"widest": ">n"}).widest())


@cache
def functions() -> Functions:
    return functions_of(widest())


def functions_of(vectors: int) -> Functions:
    """The functions by name and type of numbers, for vectors of so many bytes."""
    names = {(name, dtype): f"{name}_{kind}_{vectors}" for name in ARGUMENTS for dtype, kind in TYPES.items()}
    library = load(LIBRARY, {function: ARGUMENTS[name] for (name, _), function in names.items()})
    return {key: getattr(library, function) for key, function in names.items()}
