"""Equal samples: one that has the weight of all is solved for, and the plan is divided among them again.

    y (m, d) samples, a (m,) their weights      of (m,) the distinct row that each sample is, one of k

What mass costs depends on where a sample lies alone. So the bounds, the potential and the gap of the merged problem are
those of the whole, however the mass of a distinct row is divided.

Rows are compared by a sum of their bits, each number times an odd one of 64 bits, modulo 2^64: it is the same in any
order, which a sum of floats is not. Where sums agree, all numbers are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from ...deterministic import mass_by_cell, running_sum
from ..problem import Problem, rows_of_block
from ..result import Coupling, Transport

FEWEST = 2000  # samples below which none are looked for: 0.1 ms would be a large part of a solve
FIRST_LOOK, FEW = 512, 64  # rows that are looked at first, and how few where rows are long
FIRST_ELEMENTS = 1 << 15  # numbers in them, where rows are long
FIRST_EQUAL = 2  # of them, below which no more are looked at
SECOND_SHARE = 16  # samples for each row of the next look
RUNS = 8  # of rows side by side, half of all that are looked at
LEAST_SHARE = 1 / 16  # of the rows of that look, below which not all are compared
MOST_SHARE = 0.95  # distinct rows for each sample above which merging gains too little
SLIVER = 1e-9  # of a sample: a smaller part of one is rounding
LEAST_PIECE = 1e-12  # of all mass: a smaller piece is too, and a larger one is not, however heavy the sample


@dataclass(frozen=True)
class Repeats:
    """Which samples are equal."""

    of: Tensor  # (m,) int64, the distinct row of each sample
    first: Tensor  # (k,) int64, a sample of each distinct row

    def totals(self, values: Tensor) -> Tensor:
        """Sum of values (m,) of each distinct row, (k,)."""
        return mass_by_cell(self.of, values, len(self.first))

    def merged(self, problem: Problem) -> Problem:
        """The problem of the distinct rows."""
        a = self.totals(problem.a)
        return replace(problem, y=problem.y[self.first], a=a / a.sum(), equal=bool((a == a[0]).all()))

    def expanded(self, found: Transport, problem: Problem) -> Transport:
        """The result for all samples: the mass of a row fills one of its copies after the other."""
        matched = 1.0 if problem.marginals is None else problem.marginals.matched
        plan = self._divided(found.plan, problem.a / matched, matched == 1)
        return replace(found, transform=found.transform[self.of], plan=plan)

    def _divided(self, plan: Coupling, mass: Tensor, all_matched: bool) -> Coupling:
        """The plan for samples that have these masses (m,), of which some may stay unmatched."""
        entries = mass_by_cell(plan.rows, torch.ones_like(plan.mass), len(self.first))
        whole = entries == 1  # rows that go to one point
        if not all_matched:
            total = self.totals(mass)
            whole &= mass_by_cell(plan.rows, plan.mass, len(self.first)) >= total * (1 - SLIVER)
        point = torch.zeros_like(self.first).index_put_((plan.rows,), plan.cols)
        kept = whole[self.of].nonzero()[:, 0]
        rows, cols, parts = kept, point[self.of[kept]], mass[kept]
        split = ~whole & (entries > 0)
        if bool(split.any()):
            shared = _shared(plan, split, self.of, mass, all_matched)
            rows, cols, parts = (torch.cat(pair) for pair in zip((rows, cols, parts), shared, strict=True))
        return Coupling(rows, cols, parts, (len(self.of), plan.shape[1]))

    def even(self, gradient: Tensor, weights: Tensor | None) -> Tensor:
        """Gradient in the samples (m, d), of which equal ones get their shares by weight (m,); None for equal ones."""
        share = gradient.new_ones(len(self.of)) if weights is None else weights.to(gradient)
        total = self.totals(share)
        share = share / total.where(total > 0, 1.0)[self.of]
        sums = gradient.new_zeros(len(self.first), gradient.shape[1]).index_add_(0, self.of, gradient)
        return sums[self.of] * share[:, None]


@dataclass(frozen=True)
class Distinct:
    """A problem, and that of its distinct samples, which is solved in its place."""

    problem: Problem
    merged: Problem
    repeats: Repeats | None  # None where both are the same

    def with_points(self, x: Tensor, largest: float) -> Distinct:
        """The same with other points (n, d), where the largest number is of this size."""
        problem = self.problem.with_points(x, largest)
        return Distinct(problem, problem if self.repeats is None else self.merged.with_points(x, largest), self.repeats)

    def expanded(self, found: Transport) -> Transport:
        """The result for all samples."""
        return found if self.repeats is None else self.repeats.expanded(found, self.problem)


def distinct(problem: Problem) -> Distinct:
    """The problem of distinct samples, if all are here and merging them gains enough."""
    repeats = repeats_of(problem.y) if len(problem.y) == problem.count else None
    return Distinct(problem, problem if repeats is None else repeats.merged(problem), repeats)


def repeats_of(y: Tensor) -> Repeats | None:
    """Which samples (m, d), float32 or float64, are equal; None where merging them would gain little."""
    m = len(y)
    if m < FEWEST:
        return None
    if _equal(y, max(FEW, min(FIRST_LOOK, FIRST_ELEMENTS // y.shape[1]))) < FIRST_EQUAL:
        return None
    count = m // SECOND_SHARE
    if count > FIRST_LOOK and _equal(y, count) < LEAST_SHARE * count:
        return None
    _, of = torch.unique(row_keys(y), return_inverse=True)
    count = int(of.max()) + 1
    if count > MOST_SHARE * m:
        return None
    first = torch.full((count,), m, device=y.device).scatter_reduce_(0, of, torch.arange(m, device=y.device), "amin")
    blocks = zip(*(torch.split(each, rows_of_block(y)) for each in (y, of)), strict=True)
    same = all(bool((rows == y[first[part]]).all()) for rows, part in blocks)
    return Repeats(of, first) if same else None


def _equal(y: Tensor, count: int) -> int:
    """How many of some rows are equal to others of them: half lie anywhere, the others in runs, as copies may do."""
    keys = row_keys(y[_looked_at(len(y), count).to(y.device)])
    return len(keys) - len(torch.unique(keys))


@lru_cache(maxsize=8)  # a build looks at the same rows in each step; few, so that they may be kept
def _looked_at(m: int, count: int) -> Tensor:
    """About `count` different numbers of range(m), half of them in runs, (k,); not to be written to."""
    generator, half = torch.Generator().manual_seed(0), count // 2
    alone = torch.randint(m, (half,), generator=generator, device="cpu")
    start = torch.randint(m - half // RUNS, (RUNS, 1), generator=generator, device="cpu")
    looked: Tensor = torch.unique(torch.cat((alone, (start + torch.arange(half // RUNS, device="cpu")).flatten())))
    return looked


def row_keys(y: Tensor) -> Tensor:
    """A hash of each row, (m,) int64: the same for equal rows, and rarely for unequal ones."""
    factors = _factors(y.shape[1] * y.element_size() // 4).to(y.device)
    # Zero is added since -0.0 has other bits than 0.0, which it equals.
    blocks = torch.split(y, rows_of_block(y))
    return torch.cat([((rows + 0.0).contiguous().view(torch.int32) * factors).sum(1) for rows in blocks])


@lru_cache(maxsize=8)
def _factors(words: int) -> Tensor:
    """Odd numbers (words,) int64; not to be written to."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(2**62, (words,), generator=generator, device="cpu").mul_(2).add_(1)


def _shared(
    plan: Coupling, which: Tensor, of: Tensor, mass: Tensor, all_matched: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Entries of the copies of those rows (k,) that are marked: along the mass of a row, its copies and its entries.

    The ends of both cut the mass into pieces, each of which is in one copy and one entry.
    """
    copies = which[of].nonzero()[:, 0]
    copies = copies[of[copies].argsort(stable=True)]
    entries = which[plan.rows].nonzero()[:, 0]
    entries = entries[plan.rows[entries].argsort(stable=True)]
    row_of_copy, row_of_entry, mass = of[copies], plan.rows[entries], mass[copies]
    ends, entry_ends = _ends_in_rows(mass, row_of_copy), _ends_in_rows(plan.mass[entries], row_of_entry)
    total = ends.new_zeros(len(which)).index_put_((row_of_copy[_is_last(row_of_copy)],), ends[_is_last(row_of_copy)])
    full = entry_ends >= (total - _sliver(total))[row_of_entry]
    if all_matched:
        full |= _is_last(row_of_entry)
    entry_ends = torch.where(full, total[row_of_entry], entry_ends)
    row, end = torch.cat((row_of_copy, row_of_entry)), torch.cat((ends, entry_ends))
    order = end.argsort(stable=True)  # of equal ends those of copies come first
    order = order[row[order].argsort(stable=True)]
    row, end, is_copy = row[order], end[order], order < len(copies)
    piece = end - torch.where(_is_first(row), 0.0, end.roll(1))
    copy, entry = _ended(is_copy), _ended(~is_copy)
    inside = (copy < len(copies)) & (entry < len(entries))
    copy, entry = copy.clamp_(max=len(copies) - 1), entry.clamp_(max=len(entries) - 1)
    # Beyond the last entry of a row its copies stay unmatched.
    kept = inside & (row_of_entry[entry] == row) & (row_of_copy[copy] == row) & (piece > _sliver(mass[copy]))
    if all_matched:  # a sample lighter than rounding has its entry, too
        alone = torch.ones_like(copies, dtype=torch.bool).index_fill_(0, copy[kept], False)
        kept |= is_copy & alone[copy]
    return copies[copy[kept]], plan.cols[entries[entry[kept]]], piece[kept]


def _sliver(mass: Tensor) -> Tensor:
    """A part of these masses that is none but by rounding."""
    return (SLIVER * mass).clamp(max=LEAST_PIECE)


def _ends_in_rows(mass: Tensor, row: Tensor) -> Tensor:
    """Where each mass (e,) ends along that of its row; rows are in order."""
    ends = running_sum(mass)
    return ends - (ends - mass)[torch.searchsorted(row, row)]


def _ended(ends: Tensor) -> Tensor:
    """How many of the places before each one are marked as ends, (e,) int64: the number of what lies there."""
    return ends.cumsum(0) - ends.long()


def _is_first(row: Tensor) -> Tensor:
    """Which of these numbers in order differ from the one before, (e,) bool."""
    return torch.cat((row.new_ones(1, dtype=torch.bool), row[1:] != row[:-1]))


def _is_last(row: Tensor) -> Tensor:
    """Which of them differ from the next."""
    return _is_first(row.flip(0)).flip(0)
