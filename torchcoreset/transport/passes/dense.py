"""The engine that works everywhere: blocks of c - v by matrix products, reduced by torch.

x (n, d) points, y (m, d) samples, a (m,) weights      v (n,) potential      eta smoothing      c cost

A block of few points is (n, samples): the nearest is sought along columns, for many samples side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor

from ...deterministic import mass_by_cell
from ..problem import Problem, as_float64
from .engine import Engine, Entries
from .gram import DENSE_POINTS
from .nearest import (
    FEW,
    lowest_in_columns,
    lowest_in_rows,
    places_below,
    true_places,
    two_lowest_in_columns,
    two_lowest_in_rows,
)
from .rounding import doubtful_by_differences
from .soft import Meter, SoftEngine, SoftSums, exponential_
from .truncated import REACH, TruncatedEngine

T = TypeVar("T")

SPARSE_FROM = 256  # points from which lists pay on a CPU; a GPU needs them only where n x n numbers are too many
SPARSE_FILL = 0.25  # part of all pairs beyond which lists cost more than they save
SUPPLY = 2  # times its weight of samples that list a point: one with less could starve
ROOM = 1 << 20  # entries of points that lack supply beyond which each has as many as its own asks for
CHUNK = 1 << 22  # elements of a block with all samples of some points
SMALL = 1 << 16  # differences that take no longer than a product in float64
# A sample that sends less than this away from its first point adds nothing to the curvature. With 1e-2 its sums take a
# fifth less, but between clusters no other sample may join cells: some take twice as long then (measured).
DECIDED = 1e-3


class DenseEngine(Engine):
    """Blocks of columns of the n x m matrix c - v, one after the other, so that each stays in cache."""

    def __init__(self, problem: Problem, meter: Meter | None = None) -> None:
        super().__init__(problem, meter)
        self._block = max(16, self._elements // len(problem.x))  # samples of one

    @cached_property
    def _x2(self) -> Tensor:
        return self.problem.x.square().sum(1)

    @property
    def _y2(self) -> Tensor:
        return self.problem.squares

    def finer(self, problem: Problem) -> Engine | None:
        if problem.x.dtype == torch.float64 or len(problem.y) * problem.x.numel() <= SMALL:
            return DifferencesEngine(problem)
        return DenseEngine(as_float64(problem))

    def _two_nearest(self, v: Tensor) -> tuple[Tensor, Tensor]:
        found = self._sought(v, two_lowest_in_columns, two_lowest_in_rows)
        return torch.cat([cell for _, cell, _ in found]), torch.cat([second - lowest for lowest, _, second in found])

    def _nearest(self, v: Tensor) -> Tensor:
        cells = [cell for _, cell in self._sought(v, lowest_in_columns, lowest_in_rows)]
        return cells[0] if len(cells) == 1 else torch.cat(cells)

    def _sought(self, v: Tensor, few: Callable[[Tensor], T], many: Callable[[Tensor], T]) -> list[T]:
        """What is found in each block: of few points in its columns, of many in its rows."""
        if len(v) < FEW:
            return [few(self._reduced(samples, v)) for samples in self._blocks()]
        return [many(self._reduced_rows(samples, v)) for samples in self._blocks()]

    def _blocks(self) -> Iterator[slice]:
        """The samples of one block after the other."""
        return (slice(start, start + self._block) for start in range(0, len(self.problem.y), self._block))

    def candidates(self, v: Tensor, eta: float) -> SoftEngine:
        n, device = len(v), v.device
        if n < SPARSE_FROM or (device.type != "cpu" and n <= DENSE_POINTS):
            return self
        lists = TruncatedEngine(self.problem, self.meter, self._search, v, eta)
        return self if n <= DENSE_POINTS and lists.filled > SPARSE_FILL else lists

    def _search(self, v: Tensor, eta: float) -> Entries:
        """Lists for `TruncatedEngine`."""
        within = self.problem.a.new_full((len(self.problem.y),), REACH * eta)
        return self.lists(v + self.problem.b.log() * eta, within, SUPPLY * self.problem.b)

    def lists(self, v: Tensor, within: Tensor, supply: Tensor) -> Entries:
        self._count()
        within = within.to(self.problem.x.dtype)
        v = v - v.mean()
        row, col, reduced, lowest = self._listed(v, within)
        row, col, cost = self._supplied(row, col, reduced, lowest + within, v, supply)
        del reduced, lowest
        cost += v.to(cost.dtype).index_select(0, col)
        if self.problem.cost.omits_square:
            cost += self._y2.index_select(0, row)
            cost.clamp_(min=0)
        return row, col, cost

    def _listed(self, v: Tensor, within: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Samples, points and c - v of the points within a distance (m,), as in `lists`; the lowest of each sample."""
        n = len(v)
        lowest, rows, cols, reduced = [], [], [], []
        for samples in self._blocks():
            block = self._reduced_rows(samples, v)
            lowest.append(block.amin(1))
            place = places_below(block, (lowest[-1] + within[samples])[:, None])
            reduced.append(block.flatten().index_select(0, place))
            row = place.div(n, rounding_mode="floor")
            rows.append((row + samples.start).int())
            cols.append((place - row * n).int())
        return torch.cat(rows), torch.cat(cols), torch.cat(reduced), torch.cat(lowest)

    def _supplied(
        self, rows: Tensor, cols: Tensor, reduced: Tensor, highest: Tensor, v: Tensor, supply: Tensor
    ) -> Entries:
        """The lists, in which enough samples list every point: those whose distance it exceeds by least.

        `highest` (m,) is the largest c - v with which a point is listed."""
        a, m = self.problem.a, len(self.problem.y)
        listed = mass_by_cell(cols, a.index_select(0, rows), len(v))
        poor = (listed < supply.clamp(max=(1 - 1e-9) * float(a.sum()))).nonzero()[:, 0]
        if not len(poor):
            return rows, cols, reduced
        counts = (supply[poor] / a.mean()).ceil().long().clamp(max=m)
        # As many as the poorest seeks, where there is room: where one lacks much, what is around it has to pass it on.
        counts = counts.clamp(min=min(int(counts.max()), ROOM // len(poor)))
        row, loss = self._cheapest(poor, counts, v, highest)
        of_poor = torch.zeros_like(supply, dtype=torch.bool).index_fill_(0, poor, True).index_select(0, cols)
        pairs = rows[of_poor].long() * len(v) + cols[of_poor]
        # Not those with loss > 0: another order of summation rounds another way.
        new = ~torch.isin(row * len(v) + poor.repeat_interleave(counts), pairs)
        more_row, order = row[new].int().sort(stable=True)
        more_col = poor.int().repeat_interleave(counts)[new][order]
        more_reduced = (loss[new] + highest.index_select(0, row[new]))[order]
        places = torch.searchsorted(rows, more_row) + torch.arange(len(more_row), device=rows.device)
        return (
            inserted(rows, places, more_row),
            inserted(cols, places, more_col),
            inserted(reduced, places, more_reduced),
        )

    def _cheapest(self, points: Tensor, counts: Tensor, v: Tensor, highest: Tensor) -> tuple[Tensor, Tensor]:
        """The `counts` samples of each of some points whose c - v exceeds `highest` (m,) by least, and by how much.

        One point after the other, (counts.sum(),) each.
        """
        m, rows, losses = len(highest), [], []
        size = max(1, CHUNK // m)
        for some, wanted in zip(torch.split(points, size), torch.split(counts, size), strict=True):
            loss = self._reduced(slice(0, m), v, some) - highest
            least, row = loss.topk(int(wanted.max()), largest=False)
            first = torch.arange(least.shape[1], device=row.device) < wanted[:, None]
            rows.append(row[first])
            losses.append(least[first])
        return torch.cat(rows), torch.cat(losses)

    def _soft_sums(self, v: Tensor, eta: float) -> SoftSums:
        b = self.problem.b
        minimum, largest_share, mass = b.new_zeros(()), b.new_zeros(()), b.new_zeros(len(b))
        v = v + b.log() * eta
        totals = []
        for samples in self._blocks():
            a = self.problem.a[samples]
            share, lowest, total = self._shares(samples, v, eta)
            minimum += a @ self._completed(samples, lowest, total, eta)
            largest_share += a @ total.double().reciprocal()
            mass += share @ (a / total).to(share.dtype)
            totals.append(total)
        return SoftSums(minimum, largest_share, mass, lambda: self._gram(undecided(torch.cat(totals)), v, eta))

    def _moments(self, height: Tensor, eta: float) -> tuple[Tensor, Tensor]:
        y, sums, mean = self.problem.y, height.new_zeros(len(height), self.problem.y.shape[1] + 1), height.new_zeros(())
        for samples in self._blocks():
            share, lowest, total = self._shares(samples, height, eta)
            weight = (self.problem.a[samples] / total)[:, None].to(share.dtype)
            sums += share @ torch.cat((y[samples] * weight, weight), 1)
            mean += self.problem.a[samples] @ lowest.double()
        return sums, mean + self._mean_square

    @property
    def _mean_square(self) -> Tensor:
        """Of the samples, with their weights, 0-d float64; 0 where the cost does not omit it."""
        return self.problem.a @ self._y2.double() if self.problem.cost.omits_square else self.problem.a.new_zeros(())

    def _with_squares(self, lowest: Tensor) -> Tensor:
        """The lowest c - v of each sample, (m,) float64, with |y|^2 where the cost omits it."""
        return lowest + self._y2.double() if self.problem.cost.omits_square else lowest

    def _gram(self, samples: Tensor, v: Tensor, eta: float) -> Tensor:
        """sum_k a_k chi_ki chi_kj over the samples with these indices, (n, n) float64."""
        gram = self.problem.b.new_zeros(len(v), len(v))
        for some in torch.split(samples, self._block):
            share, _, total = self._shares(some, v, eta)
            share.mul_((self.problem.a[some].sqrt() / total).to(share.dtype))
            gram += share @ share.t()
        return gram

    def _softmins(self, v: Tensor, eta: float) -> Tensor:
        v = v + self.problem.b.log() * eta
        softmins = []
        for samples in self._blocks():
            _, lowest, total = self._shares(samples, v, eta)
            softmins.append(self._completed(samples, lowest, total, eta))
        return torch.cat(softmins)

    def _completed(self, samples: slice, lowest: Tensor, total: Tensor, eta: float) -> Tensor:
        """The softmin of some samples from their lowest c - v and their sum of exp, float64."""
        softmin = lowest.double() - eta * total.double().log()
        if self.problem.cost.omits_square:
            softmin += self._y2[samples].double()
        return softmin

    def _shares(self, samples: slice | Tensor, v: Tensor, eta: float) -> tuple[Tensor, Tensor, Tensor]:
        """exp of (lowest - (c - v)) / eta (n, samples), the lowest c - v of each sample and the sum of its exp."""
        share = self._reduced(samples, v)
        lowest = share.amin(0)
        exponential_(share.sub_(lowest), eta)
        return share, lowest, share.sum(0)

    def _reduced(self, samples: slice | Tensor, v: Tensor, points: Tensor | None = None) -> Tensor:
        """c(y, x) - v of some or all points and some samples; without |y|^2 of each sample where the cost omits it."""
        x, x2, y, v = self.problem.x, self._x2, self.problem.y[samples], v.to(self.problem.x.dtype)
        if points is not None:
            x, x2, v = x[points], x2[points], v[points]
        cost = self.problem.cost
        return cost.reduced(x, y, x2[:, None], None if cost.omits_square else self._y2[samples], v[:, None])

    def _reduced_rows(self, samples: slice, v: Tensor) -> Tensor:
        """The same of all points, as (samples, n)."""
        x, x2, y, v = self.problem.x, self._x2, self.problem.y[samples], v.to(self.problem.x.dtype)
        cost = self.problem.cost
        return cost.reduced(y, x, x2, None if cost.omits_square else self._y2[samples, None], v)


class DifferencesEngine(DenseEngine):
    """The same from differences in float64: an order of magnitude slower, for costs that expanded squares hide."""

    def __init__(self, problem: Problem, meter: Meter | None = None) -> None:
        super().__init__(as_float64(problem), meter)

    @property
    def rounding(self) -> float:
        return 0.0  # relative to each cost

    def finer(self, problem: Problem) -> Engine | None:
        return None

    def _doubts(self, v: Tensor, cell: Tensor, cost: Tensor, margin: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
        return doubtful_by_differences(self.problem, v, cell, cost, margin)

    def _doubtful_margin(self, v: Tensor, cost: Tensor) -> float:
        return math.inf

    @property
    def _y2(self) -> Tensor:
        return torch.zeros_like(self.problem.a)  # nothing is left out of these costs

    def _reduced(self, samples: slice | Tensor, v: Tensor, points: Tensor | None = None) -> Tensor:
        x = self.problem.x
        if points is not None:
            x, v = x[points], v[points]
        return self.problem.cost.pairwise_exact_of_points(x, self.problem.y[samples]).sub_(v[:, None])

    def _reduced_rows(self, samples: slice, v: Tensor) -> Tensor:
        return self.problem.cost.pairwise_exact(self.problem.y[samples], self.problem.x).sub_(v)


def inserted(values: Tensor, places: Tensor, more: Tensor) -> Tensor:
    """A vector that holds `more` at `places` (ascending), and the values around them in their order."""
    result = values.new_empty(len(values) + len(more))
    old = torch.ones(len(result), dtype=torch.bool, device=values.device)
    old[places] = False
    result[places] = more
    result[old] = values
    return result


def undecided(total: Tensor) -> Tensor:
    """Indices of the samples that the curvature needs, from the sum of each one's shares relative to the largest.

    A decided sample joins no two points, and after the first stages most samples are decided.
    """
    return true_places(total > 1 + DECIDED)
