"""Checked problems: points, samples and weights are checked once, normalised, and shifted to the origin.

    x (n, d) points, b (n,) their weights      y (m, d) samples, a (m,) their weights      c cost

Weights are normalised in float64. A common offset of points and samples costs digits in expanded squares, so it is
subtracted, column by column, if that rounds no number. Otherwise a shift would change the data: of two groups at 0 and
at 1e9, one would lose nine digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from ..deterministic import column_medians
from ..errors import warn_user
from ..tensors import RESOLVED, check_finite, float_tensor, holds, shares, span
from .compiled import TYPES, call, function
from .costs import Cost, as_cost, squares_of
from .marginals import Marginals, as_marginals, is_choice

SHOWN = 1024  # rows that are looked at before all
FEW = 128  # points, or samples, that are looked at for a size alone
BLOCK = 1 << 20  # numbers of a block of rows of which copies are made


@dataclass(frozen=True)
class Problem:
    """A checked semi-discrete transport problem in its own coordinates."""

    x: Tensor  # (n, d) points, float32 or float64, shifted
    b: Tensor  # (n,) point weights, float64, sum 1
    y: Tensor  # (m, d) samples, dtype of x, shifted
    a: Tensor  # (m,) sample weights, float64, sum 1
    equal: bool  # whether all sample weights are the same
    cost: Cost  # of moving mass from a sample to a point
    # Size of the largest number in points and samples, before they were shifted
    largest: float = field(default=1.0, kw_only=True)
    marginals: Marginals | None = field(default=None, kw_only=True)  # what a plan may choose; None if b and a are fixed

    @cached_property
    def rounding(self) -> float:
        """Size of the rounding error of one cost: eps times the mean cost to the origin; gaps below it mean nothing."""
        if not self.cost.by_products:
            return torch.finfo(self.x.dtype).eps * self.typical_cost
        return torch.finfo(self.x.dtype).eps * self.cost.of_square(self.square + mean_square(self.x, self.b))

    @cached_property
    def squares(self) -> Tensor:
        """Square of the norm of each sample, (m,) in the dtype of the samples."""
        return squares_of(self.y)

    def with_points(self, x: Tensor, largest: float | None = None) -> Problem:
        """The same samples, and what is known of them, with points (n, d) of the same weights.

        The size of the `largest` number is as it was, if it is not given.
        """
        other = replace(self, x=x, largest=self.largest if largest is None else largest)
        other.__dict__["squares"] = self.squares
        return other

    @property
    def square(self) -> float:
        """Mean square of the norm of a sample."""
        return mean_square(self.y, self.a, self.squares)

    @cached_property
    def spread(self) -> float:
        """Mean square of the distance of a sample and of a point from the points' median, added up."""
        median = column_medians(self.x).double()
        means = self.mean_sample() + self.b @ self.x.double()
        square = self.square + mean_square(self.x, self.b)
        return max(0.0, square - 2 * float(median @ means) + 2 * float(median @ median))

    @cached_property
    def typical_cost(self) -> float:
        """A cost of the order of the mean one between all samples and points: there smoothing begins."""
        if self.cost.by_products:
            return self.cost.of_square(self.spread)
        x, y = self.x[:SHOWN], self.y[:: max(1, len(self.y) // SHOWN)]
        return float(self.cost.pairwise(y[:SHOWN], x[:: max(1, len(x) // FEW)]).mean())

    def mean_sample(self) -> Tensor:
        """Sum of the samples times their weights, (d,) float64; only blocks of them are copied."""
        parts = zip(*(torch.split(rows, rows_of_block(self.y)) for rows in (self.a, self.y)), strict=True)
        return torch.stack([a @ y.double() for a, y in parts]).sum(0)

    @property
    def count(self) -> int:
        """Number of samples."""
        return len(self.y)

    @property
    def each(self) -> float | None:
        """The weight of each sample; None if they differ."""
        return 1 / self.count if self.equal else None

    @cached_property
    def concentration(self) -> float:
        """Sum of the squares of the sample weights."""
        return float(self.a @ self.a)

    def mean(self, values: Tensor) -> Tensor:
        """Sum of values (m, ...) of the samples times their weights."""
        return values.mean(0) if self.equal else self.a @ values

    @cached_property
    def support(self) -> Tensor | None:
        """Which points have weight, (n,) bool; None if all do."""
        return None if float(self.b.min()) > 0 else self.b > 0


def make_problem(
    points: Any,
    samples: Any,
    p: float | Cost = 2,
    point_weights: Any = None,
    sample_weights: Any = None,
    *,
    trim: float = 0.0,
    dtype: torch.dtype | None = None,
) -> Problem:
    """Check the inputs of a transport problem and put it in normal form, detached; no input is written to.

    Arithmetic is in `dtype`, or in that of the points, half precision in float32. The offset is subtracted before
    samples are cast to it, in the wider of the two dtypes; where what is left still needs the wider one, all is
    computed in that. Points and samples of one dimension may be (n,) and (m,); weights are of any scale, and equal if
    None; those of points may be chosen by the plan, as `as_marginals` reads them.

    Raises:
        ValueError: wrong shape, device or power, no rows, NaN or infinity, unusable weights.

    Warns:
        UserWarning: points in less than float64 are too coarse to be placed among the samples.
    """
    cost = as_cost(p)
    x, y = as_tables(points, samples)
    largest = max(check_finite(x, "points"), check_finite(y, "samples"))
    marginals = as_marginals(point_weights, len(x), "point_weights", trim, x.device)
    b, alike = shares(None if is_choice(point_weights) else point_weights, len(x), "point_weights", x.device)
    a, equal = shares(sample_weights, len(y), "sample_weights", x.device)
    warn_if_too_coarse(x, y)
    problem = place(x, b, y, a, cost, equal=equal, largest=largest, dtype=dtype)
    if alike:
        problem.__dict__["support"] = None  # without a look at them
    return problem if marginals is None else replace(problem, marginals=marginals)


def as_tables(points: Any, samples: Any, *, most: int = 2) -> tuple[Tensor, Tensor]:
    """Points and samples as by `as_table`, or ValueError unless they have one dimension and one device."""
    if isinstance(points, Tensor) and isinstance(samples, Tensor):
        check_devices(points, samples)  # before one of them is refused for being on a device that holds no numbers
    x, y = as_table(points, "points", most=most), as_table(samples, "samples", most=most)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"samples: got shape {tuple(y.shape)} with points of shape {tuple(x.shape)}; expected the same last "
            "dimension. Did you forget to select features, or to flatten?"
        )
    check_devices(x, y)
    return x, y


def place(
    x: Tensor,
    b: Tensor,
    y: Tensor,
    a: Tensor,
    cost: Cost,
    *,
    equal: bool,
    largest: float,
    dtype: torch.dtype | None = None,
) -> Problem:
    """The problem of checked points (n, d) and samples (m, d), shifted, in the dtype that it needs.

    Weights b (n,) and a (m,) are normalised; all else as in `make_problem` and `Problem`.
    """
    if not cost.by_products:
        return Problem(x=x.double(), b=b, y=y.double(), a=a, equal=equal, cost=cost, largest=largest)
    work = dtype or (x.dtype if x.dtype == torch.float64 else torch.float32)
    wide = torch.promote_types(torch.promote_types(x.dtype, y.dtype), work)
    if wide != torch.float64 and 2 * largest > torch.finfo(wide).max:
        wide = torch.float64  # differences would overflow
    x, y = without_offset(x.to(wide), y.to(wide), largest)
    if wide != work and not (holds(work, x) and holds(work, y)):
        work = wide
    return Problem(x=x.to(work), b=b, y=y.to(work), a=a, equal=equal, cost=cost, largest=largest)


def rows_of_block(rows: Tensor) -> int:
    """How many rows (m, d) make a block."""
    return max(1, BLOCK // rows.shape[1])


def check_devices(x: Tensor, y: Tensor) -> None:
    """Raise ValueError unless points and samples are on one device."""
    if x.device != y.device:
        raise ValueError(
            f"samples: got device {y.device} with points on {x.device}; expected one device. "
            "Move one of them with .to(device)."
        )


def without_offset(x: Tensor, y: Tensor, largest: float) -> tuple[Tensor, Tensor]:
    """Points (n, d) and samples (m, d), less the points' median in those columns where that rounds no number.

    Of many numbers it is not subtracted if samples are farther from it than it is from the origin: digits suffice.

    The median, since one outlier would drag a mean along. It is rounded to what the spacing of floats is at `largest`,
    the size of the largest number: a finer one would leave digits of its own in every difference.
    """
    limits = torch.finfo(x.dtype)
    spacing = max(math.ldexp(limits.eps, math.frexp(largest)[1]), limits.tiny * limits.eps)  # that of denormals
    shift = column_medians(x)
    if len(y) > SHOWN and is_small(shift, y):  # copies of many numbers, in each step of a build
        return x.clone(), y  # a parameter may be stepped while the problem is kept
    return (x - shift, y - shift) if _is_left_of(shift, spacing, x, y) else (x.clone(), y)


def is_small(offset: Tensor, y: Tensor) -> bool:
    """Whether samples (m, d) are farther from an offset (d,) than it is from the origin: digits suffice then."""
    some = y[:: max(1, len(y) // FEW)].double()
    return float(offset.double().square().sum()) <= float((some - offset).square().sum(1).median())


def _is_left_of(shift: Tensor, spacing: float, x: Tensor, y: Tensor) -> bool:
    """Round a shift (d,) to multiples of a spacing, and set to 0 what would round a number; whether any is left."""
    if x.is_cpu:
        exact = function(f"exact_shift_{TYPES[x.dtype]}", "nnnx***>n")
        return bool(call(exact, len(x), len(y), len(shift), spacing, x.contiguous(), y.contiguous(), shift))
    shift.div_(spacing).round_().mul_(spacing)
    blocks = (torch.split(rows[FEW:], rows_of_block(rows)) for rows in (x, y))
    for rows in (x[:FEW], y[:FEW], *chain(*blocks)):  # most columns of floats show in a few that they would be rounded
        columns = shift.nonzero()[:, 0]
        if not len(columns):
            return False
        by = shift[columns]
        some = rows if len(columns) == len(shift) else rows[:, columns]
        shift[columns] = by * ((some - by).add_(by) == some).all(0)  # adding a coarse shift shows what it rounded
    return bool(shift.any())


def offset_of(problem: Problem, points: Any) -> Tensor:
    """What was subtracted from these points, (d,)."""
    return as_table(points, "points")[0].to(problem.x) - problem.x[0]


def with_offset(problem: Problem, points: Any) -> Problem:
    """The same problem, made from these points, in their own coordinates."""
    shift = offset_of(problem, points)
    return replace(problem, x=problem.x + shift, y=problem.y + shift)


def square_with_offset(problem: Problem, points: Any) -> float:
    """Mean square of the norm of a sample there."""
    shift = offset_of(problem, points).double()
    return problem.square + float(shift @ (2 * problem.mean_sample() + shift))


def warn_if_too_coarse(x: Tensor, y: Tensor) -> bool:
    """Warn if points (n, d) in float32 or less cannot be placed among samples (m, d) in float64, far from the origin.

    Samples without a range are judged by their distance to the points, if they are whole numbers: others are rounded
    anyway. Returns whether it did warn.
    """
    if x.dtype == torch.float64 or y.dtype != torch.float64:
        return False
    size, spread = span(y)
    gap = torch.finfo(torch.float32).eps * size
    if spread == 0 and gap > 1 and bool((y == y.round()).all()):
        spread = span(torch.cat((x.double(), y)))[1]
    coarse = gap > RESOLVED * spread > 0
    if coarse:
        warn_user(
            UserWarning(
                f"points: got {x.dtype}, whose numbers near {size:.3g} are about {gap:.2g} apart, for samples with a "
                f"range of {spread:.3g}; expected float64. The value is that of the points as they are, but they "
                "cannot move by less. Pass float64 points, or subtract the offset from both."
            )
        )
    return coarse


def as_float64(problem: Problem) -> Problem:
    """The same problem in float64."""
    return replace(problem, x=problem.x.double(), y=problem.y.double())


def mean_square(rows: Tensor, weights: Tensor, squares: Tensor | None = None) -> float:
    """Mean square of the norms of rows (m, d), to the digits of their dtype; in float64 where that does not hold it.

    `squares` (m,) are those of each row, if they are known.
    """
    square = float(weights @ (rows.square().sum(1) if squares is None else squares).double())
    if torch.finfo(rows.dtype).smallest_normal / torch.finfo(rows.dtype).eps < square < math.inf:
        return square
    return float(weights @ rows.double().square().sum(1))


def within_range(problem: Problem) -> Problem:
    """The problem in a dtype that holds its squares and costs, and what distinguishes them.

    For p = 2 float32 does from about 1e-15 to 1e18; what it does not hold is computed in float64.

    Raises:
        ValueError: float64 does not hold them either.
    """
    least, most = problem.cost.range(problem.x.dtype, problem.x.shape[1])
    if problem.largest == 0 or least <= problem.largest <= most:
        return problem
    if problem.x.dtype != torch.float64:
        return within_range(as_float64(problem))
    if least > most:
        raise ValueError(
            f"p: got {problem.cost.p:g}; expected less: float64 cannot hold that power of distances in "
            f"{problem.x.shape[1]} columns, whatever their size. Pass a smaller p."
        )
    raise ValueError(
        f"points, samples: got numbers of up to {problem.largest:.0e}; expected the largest to be from {least:.0e} to "
        f"{most:.0e}, whose costs float64 can hold. Divide both by their scale."
    )


def as_table(values: Any, name: str, *, most: int = 2) -> Tensor:
    """A detached floating (rows, d) tensor of `values`, by the rule of `tensors`; (rows,) becomes (rows, 1).

    Where the `most` dimensions are 3, it may be a batch of tables, (B, rows, d).
    """
    table = float_tensor(values, name)
    if table.dim() == 1:
        table = table[:, None]
    check_shape(table, name, most)
    return table


def check_shape(table: Tensor, name: str, most: int) -> None:
    """Raise ValueError unless these are rows of numbers, or a batch of tables of them where `most` is 3."""
    if not 2 <= table.dim() <= most:
        hint = "Flatten each row first: .flatten(1)." if table.dim() > 2 else "Pass a batch of rows."
        expected = "(rows, dimension)" if most == 2 else "(rows, dimension), or (batch, rows, dimension)"
        raise ValueError(f"{name}: got shape {tuple(table.shape)}; expected {expected}. {hint}")
    if 0 in table.shape:
        raise ValueError(
            f"{name}: got shape {tuple(table.shape)}; expected at least one row and one column"
            f"{' in each of at least one pair' if table.dim() > 2 else ''}. Skip empty batches before calling."
        )
