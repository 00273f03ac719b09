"""The engine of CPUs: passes compiled with the package, for the Euclidean distance and its square.

    x (n, d) points, y (m, d) samples, a (m,) weights      v (n,) potential      eta smoothing      c cost

A pass takes a third to a seventh of the time of matrix products in blocks, which write c - v down and read it
several times. Threads share the samples in parts of one size, so that sums do not depend on how many there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from ...compiled import TYPES, call, function
from ...costs import Cost
from ...problem import Problem, as_float64
from ..dense import DECIDED, SMALL, DifferencesEngine, undecided
from ..engine import Engine
from ..gram import gram_of_few
from ..nearest import two_lowest_in_rows
from .fused import FusedEngine

Found = TypeVar("Found")
# How many each sample has, (k,) int32; their points, (e,) int32, and values, (e,).
Shares = tuple[Tensor, Tensor, Tensor]

ARGUMENTS = {
    "two_nearest": "nnnn" + 8 * "*",
    "soft": "nnnnnxxn" + 13 * "*" + ">n",
    "moments": "nnnnnxn" + 8 * "*" + ">x",
    "lists": "nnnnnn" + 11 * "*" + ">n",
    "costs": "nnnnn" + 8 * "*",
    "assigned": "nnnnnnn" + 11 * "*",
    "several_nearest": "nnnn" + 10 * "*",
    "renewed": "nnnnx" + 9 * "*" + ">n",
}
BLOCK = 64  # bytes, at most, of one coordinate of a block of samples: of two vectors
FEW = 64  # of points that seek samples: as many are one part
# Columns from which products are held for further passes: with 784, of 10,000 samples and 1,000 points, these take 10
# ms each and not 160; with 200 nothing is saved. And points from which minima of rows are fast.
HELD_FROM, ROWS_FROM = 256, 256
MOST_HELD = 1 << 27  # bytes of them, and as many again of those of some samples
POINTS = 4  # that passes.c takes at once
PART = 1 << 14  # samples that one thread takes at a time
WORTH = 1 << 21  # products from which a thread is worth starting: half a millisecond
# Shares a sample, on average, up to which they are listed, and columns for which one more is: beyond, it takes less to
# compute them anew; with 784 columns hardly ever (measured).
SHARES, COLUMNS = 16, 8
LISTED = 64  # entries of lists a sample for which there is room at first
FORMS = (1, 2)  # of the kernels of costs


def computes(cost: Cost) -> bool:
    """Whether passes for this cost are compiled."""
    return cost.kernel is not None and cost.kernel[0] in FORMS


class CompiledEngine(FusedEngine):
    """Compiled passes over float32 or float64 samples in memory."""

    _products: Tensor | None = None  # (m, n) c - v at v = 0, in the dtype of the points, if they are held

    def finer(self, problem: Problem) -> Engine | None:
        if problem.x.dtype == torch.float64 or len(problem.y) * problem.x.numel() <= SMALL:
            return DifferencesEngine(problem)
        return CompiledEngine(as_float64(problem))

    def hold(self) -> None:
        x, y = self.problem.x, self.problem.y
        room = len(x) * len(y) * x.element_size() <= MOST_HELD
        if x.shape[1] >= HELD_FROM and len(x) >= ROWS_FROM and room:
            self._products = super()._reduced_rows(slice(None), torch.zeros_like(self.problem.b))

    def picked(self, problem: Problem, index: Tensor) -> Engine:
        part = self.apart(problem)
        if self._products is not None and isinstance(part, CompiledEngine):
            part._products = self._products.index_select(0, index)
        return part

    def _reduced_rows(self, samples: slice, v: Tensor) -> Tensor:
        if self._products is None:
            return super()._reduced_rows(samples, v)
        return self._products[samples] - v.to(self._products.dtype)

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

    def _pass(self, name: str, v: Tensor, *numbers: float) -> Callable[..., Any]:
        """The function of this name, of some samples and the arrays that it writes."""
        (x, x2), (y, y2) = self._points, self._samples
        v = filled(v.to(x.dtype), -math.inf)
        compiled = function(f"{name}_{TYPES[x.dtype]}_{widest()}", ARGUMENTS[name])

        def run(some: slice, *arrays: Any, more: tuple[int, ...] = ()) -> Any:
            rows = y[some]
            blocks = len(x) + 5 * len(x) // 8 + 2 * x.shape[1] + BLOCK  # the second term for all but c - v
            room = x.new_empty(blocks * BLOCK // x.element_size())
            return call(
                compiled, len(x), len(rows), x.shape[1], self._root, *numbers, *more,
                x, x2, v, rows, y2[some], room, *arrays,
            )  # fmt: skip

        return run

    def costs(self) -> Tensor:
        if self._products is not None:
            return (self._products if self._root else (self._products + self._y2[:, None]).clamp_(min=0)).double()
        y, n, squares = self.problem.y, len(self.problem.x), self._y2
        run, found = self._pass("costs", self.problem.b.new_zeros(n), n), self.problem.a.new_empty(len(y), n)
        self._in_parts(lambda part: run(part, squares[part], found[part]))
        return found

    def _two_nearest(self, v: Tensor) -> tuple[Tensor, Tensor]:
        if self._products is not None:
            return super()._two_nearest(v)
        y, run = self.problem.y, self._pass("two_nearest", v)
        cell, margin = torch.empty(len(y), dtype=torch.int64, device=y.device), y.new_empty(len(y))
        self._in_parts(lambda part: run(part, cell[part], margin[part]))
        return cell, margin

    def _look_again(self, v: Tensor, cell: Tensor, cost: Tensor, margin: Tensor) -> Tensor:
        if len(v) == 1:
            return cell[:0]
        bound = self._doubtful_margin(v, cost)
        if self._products is not None:
            found = (margin <= bound).nonzero()[:, 0]
            for some in torch.split(found, self._block):
                reduced = self._products.index_select(0, some).sub_(v.to(self._products.dtype))
                lowest, cell[some], second = two_lowest_in_rows(reduced)
                margin[some] = second - lowest
        else:
            run, close = self._pass("renewed", v, bound), torch.empty_like(cell)

            def work(part: slice) -> Tensor:
                count = run(part, cell[part], margin[part], close[part])
                return close[part][:count].add_(part.start)

            found = torch.cat(self._in_parts(work))
        cost[found] = self.problem.cost.at(self.problem.y, self.problem.x, found, cell.index_select(0, found))
        return found

    def assigned(self, v: Tensor, cell: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        problem, known, (n, d) = self.problem, cell is not None, self.problem.x.shape
        x, y, a, v = problem.x.contiguous(), problem.y.contiguous(), problem.a.contiguous(), v.contiguous()
        y2 = self._y2 if self._root else y
        m, weights = y.shape[0], None if problem.equal else a
        if cell is None:
            self._count()
        cell = a.new_empty(m, dtype=torch.int64) if cell is None else cell.contiguous()
        transform = torch.empty_like(a)
        compiled = function(f"assigned_{TYPES[x.dtype]}_{widest()}", ARGUMENTS["assigned"])

        def work(part: slice) -> tuple[Tensor, Tensor, Tensor]:
            mass, gradient, moments = a.new_empty(n), a.new_empty(n, d), a.new_empty(2)
            room = x.new_empty((n + POINTS) * (d + 2) + d * BLOCK)
            call(
                compiled, n, part.start, min(part.stop, m), d, self._root, known, problem.count,
                x, v, y, y2, weights, room, cell, transform, mass, gradient, moments,
            )  # fmt: skip
            return mass, gradient, moments

        sums, *others = self._in_parts(work)
        for more in others:
            for total, part in zip(sums, more, strict=True):
                total.add_(part)
        return cell, transform, *sums

    def _softmin(self, v: Tensor, eta: float) -> tuple[Tensor, Tensor, Tensor]:
        return self._softmin_and_shares(v, eta, -1)[:3]

    def _softmin_and_gram(self, v: Tensor, eta: float) -> tuple[Tensor, Tensor, Tensor, Callable[[], Tensor]]:
        """The same, with the shares of undecided samples in lists, unless these are many.

        Where they are few, the Gram matrix of lists takes a tenth of the time of one whose shares are computed anew;
        with 784 columns a hundredth (measured).
        """
        lowest, total, mass, shares = self._softmin_and_shares(v, eta, SHARES + self.problem.x.shape[1] // COLUMNS)
        if shares is None:
            return lowest, total, mass, lambda: self._gram(undecided(total), v, eta)
        return lowest, total, mass, lambda: _gram_of_shares(shares, len(v))

    def _softmin_and_shares(
        self, v: Tensor, eta: float, most: int
    ) -> tuple[Tensor, Tensor, Tensor, list[Shares] | None]:
        """As `_softmin`, and the shares of each part of the samples; None if they are more than `most` a sample."""
        y, a, n = self.problem.y, self.problem.a.contiguous(), len(v)
        run = self._pass("soft", v, n, 1 / (eta * math.log(2)), 1 + DECIDED)
        lowest, total = y.new_empty(len(y)), y.new_empty(len(y))

        def work(part: slice) -> tuple[Tensor, Shares | None]:
            mass, m = torch.empty_like(self.problem.b), len(lowest[part])
            space = most * m + 2 * (n + POINTS) * BLOCK // y.element_size() if most >= 0 else 0
            count, col = (torch.empty(size, dtype=torch.int32, device=y.device) for size in (m, space))
            share = y.new_empty(space)
            used = run(part, lowest[part], total[part], a[part], mass, count, col, share, more=(most,))
            return mass, None if used < 0 else (count, col[:used], share[:used])

        found = self._in_parts(work)
        mass = torch.stack([held for held, _ in found]).sum(0)
        shares = [part for _, part in found if part is not None]
        return self._with_squares(lowest.double()), total, mass, shares if len(shares) == len(found) else None

    def _moments(self, height: Tensor, eta: float) -> tuple[Tensor, Tensor]:
        y, a, n, d = self.problem.y, self.problem.a.contiguous(), *self.problem.x.shape
        lanes = widest() // y.element_size()
        row = -(-(d + 1) // lanes) * lanes
        run = self._pass("moments", height, n, 1 / (eta * math.log(2)), row)

        def work(part: slice) -> tuple[Tensor, float]:
            sums = a.new_empty(n, row)
            return sums, run(part, a[part], sums)

        sums, lowest = a.new_zeros(n, row), 0.0
        for held, least in self._in_parts(work):
            sums += held
            lowest += least
        return sums[:, : d + 1], lowest + self._mean_square

    def _listed(self, v: Tensor, within: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if self._products is not None:
            return super()._listed(v, within)
        y, n = self.problem.y, len(v)
        lowest, run, within = y.new_empty(len(y)), self._pass("lists", v, n), within.contiguous()
        count = torch.empty(len(y), dtype=torch.int32, device=y.device)

        def work(part: slice) -> list[tuple[Tensor, Tensor]]:
            found, start, stop = [], part.start, min(part.stop, len(y))
            while start < stop:
                some = slice(start, stop)
                room = max(LISTED * (stop - start), n * BLOCK // y.element_size())  # for one block at least
                col, reduced = torch.empty(room, dtype=torch.int32, device=y.device), y.new_empty(room)
                start += run(some, within[some], lowest[some], count[some], col, reduced, more=(room,))
                used = int(count[some.start : start].sum())
                found.append((col[:used].clone(), reduced[:used].clone()))
            return found

        found = [entries for part in self._in_parts(work) for entries in part]
        row = torch.arange(len(y), dtype=torch.int32, device=y.device).repeat_interleave(count)
        return row, torch.cat([col for col, _ in found]), torch.cat([reduced for _, reduced in found]), lowest

    def _cheapest(self, points: Tensor, counts: Tensor, v: Tensor, highest: Tensor) -> tuple[Tensor, Tensor]:
        problem, omits = self.problem, self.problem.cost.omits_square
        seek = replace(problem, x=problem.y, b=problem.a, y=problem.x[points], a=problem.b[points])
        swapped = CompiledEngine(seek)
        run = swapped._pass("several_nearest", highest + self._y2 if omits else highest)
        ends = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
        row = torch.empty(int(ends[-1]), dtype=torch.int32, device=points.device)
        loss = highest.new_empty(len(row))

        def work(part: slice) -> None:
            held = loss.new_empty(BLOCK * int(counts[part].max()))
            run(part, ends[part.start :], held, row, loss)

        swapped._in_parts(work, FEW)
        own = swapped._y2 - v[points] if omits else -v[points]
        return row.long(), loss + own.to(loss.dtype).repeat_interleave(counts)

    def _in_parts(self, work: Callable[[slice], Found], size: int = 0) -> list[Found]:
        """The work on each part of the samples, of this size or PART, by as many threads as torch uses."""
        y, size = self.problem.y, size or PART
        parts = [slice(start, start + size) for start in range(0, len(y), size)]
        threads = min(torch.get_num_threads(), len(parts), y.numel() * len(self.problem.x) // WORTH)
        if threads < 2:
            return [work(part) for part in parts]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, parts))


def _gram_of_shares(shares: list[Shares], n: int) -> Tensor:
    """The Gram matrix (n, n) of lists of parts of the samples."""
    count, col, share = (torch.cat(columns) for columns in zip(*shares, strict=True))
    offsets = torch.nn.functional.pad(count.cumsum(0), (1, 0))
    return gram_of_few(offsets, col, share, n)


def filled(values: Tensor, value: float) -> Tensor:
    """Rows (n, ...) and as many more of this value as make n a multiple of POINTS; contiguous."""
    more = -len(values) % POINTS
    return torch.cat((values, values.new_full((more, *values.shape[1:]), value))) if more else values.contiguous()


def is_built() -> bool:
    """Whether passes are compiled: the compiler of Windows knows no vectors."""
    return widest() > 0


@cache
def widest() -> int:
    """Bytes of the widest vectors that this processor has, of those that passes are compiled for."""
    return int(function("widest", ">n")())
