"""One problem whose samples lie on several ranks: each holds all points and its own samples.

    x (n, d) points      y (m, d) this rank's samples of M in all, a (m,) their weights; the weights of all sum to 1

What is large stays where it is: a pass goes over the rank's own samples, and its n + 1 sums are added up. What is small
is gathered, and every rank computes it alike: subsamples, the samples that may have to change cell, and whole problems
that are no larger than a subsample. Subsamples are picked by a sample's number among all, so that they are the rows
that one process would pick from the union in the order of the ranks, and all that follows is the same to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import Tensor

from ...tensors import real_tensor
from ..cost import Cost
from ..flow import BoundarySamples, within_limits
from ..passes import Engine, Entries, Meter, SoftEngine, SoftSums, shuffled
from ..problem import Problem, as_table, make_problem, square_with_offset, with_offset
from ..result import Coupling, Transport
from .group import Ranks, check_same, mark

if TYPE_CHECKING:
    from typing_extensions import Self

WHY = "Skip the step on every rank, or repair that rank's input."
SAME = (
    "number of points",
    "dimension",
    "dtype of the points",
    "use of sample_weights",
    "points",
    "point_weights",
    "state",
)


class Means(Protocol):
    """What samples show, with means over them."""

    @property
    def state(self) -> Tensor:
        """What has been remembered from earlier calls, (k,), and is used now: the same on all ranks."""

    @property
    def means(self) -> tuple[Tensor, ...]:
        """Weighted means over samples, float64, of equal shapes on all ranks."""

    def with_means(self, *means: Tensor) -> Self:
        """The same with means over more samples."""


S = TypeVar("S", bound=Means)


@dataclass(frozen=True)
class Shard(Problem):
    """A rank's part of a problem. Weights `a` are those in the union, so they sum to the rank's share.

    Attributes:
        ranks: who holds the other parts.
        counts: number of samples on each rank.
        square_norm: mean square of the norm of a sample, over all of them.
        square_weight: sum of the squares of all sample weights.
    """

    ranks: Ranks
    counts: tuple[int, ...]
    square_norm: float
    square_weight: float

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def start(self) -> int:
        """Number of samples on the ranks before this one."""
        return sum(self.counts[: self.ranks.rank])

    @property
    def square(self) -> float:
        return self.square_norm

    @property
    def concentration(self) -> float:
        return self.square_weight

    def mean(self, values: Tensor) -> Tensor:
        return self.a @ values

    def totals(self, sums: Tensor) -> Tensor:
        return self.ranks.total(sums)[0].to(sums.dtype)

    def added(self, *sums: Tensor) -> tuple[Tensor, ...]:
        return self.ranks.total(*sums)

    def least(self, values: Tensor) -> Tensor:
        return self.ranks.least(values).to(values.dtype)

    def kth_smallest(self, values: Tensor, k: int) -> Tensor:
        return self.ranks.kth_smallest(values, k)

    def whole(self) -> Problem:
        """The union, on every rank."""
        y, a = (torch.cat(parts) for parts in zip(*self.ranks.gather(self.y, self.a, counts=self.counts), strict=True))
        return Problem(x=self.x, b=self.b, y=y, a=a, equal=self.equal, cost=self.cost, largest=self.largest)

    def picked(self, index: Tensor) -> Problem:
        """The samples with these numbers (k,) among all, in their order, on every rank; weights are as in the union."""
        index = index.to(self.y.device)
        ends = torch.tensor(self.counts, device=index.device).cumsum(0)
        holder = torch.bucketize(index, ends, right=True)  # the rank of each
        own = index[holder == self.ranks.rank] - self.start
        counts = torch.bincount(holder, minlength=self.ranks.size).tolist()
        y, a = (
            torch.cat(parts) for parts in zip(*self.ranks.gather(self.y[own], self.a[own], counts=counts), strict=True)
        )
        place = torch.argsort(torch.argsort(holder, stable=True))  # of each among what was gathered, rank by rank
        return Problem(x=self.x, b=self.b, y=y[place], a=a[place], equal=self.equal, cost=self.cost)

    def gathered(self, boundary: BoundarySamples, per_cell: Tensor) -> BoundarySamples:
        columns = self.ranks.gather(boundary.y, boundary.a, boundary.cell, boundary.margin)
        y, a, cell, margin = (torch.cat(parts) for parts in zip(*columns, strict=True))
        before = sum(len(part[1]) for part in columns[: self.ranks.rank])
        index = torch.full_like(cell, -1)
        index[before : before + len(boundary.index)] = boundary.index
        everyones = BoundarySamples(y, a, cell, margin, index)
        order = torch.argsort(everyones.margin, stable=True)
        order = order[torch.argsort(everyones.cell[order], stable=True)]
        return everyones.picked(order[within_limits(everyones.cell[order], per_cell)])

    def own(self, plan: Coupling) -> Coupling:
        """This rank's entries of a plan of the union."""
        mine = (plan.rows >= self.start) & (plan.rows < self.start + len(self.y))
        return Coupling(plan.rows[mine] - self.start, plan.cols[mine], plan.mass[mine], (len(self.y), plan.shape[1]))

    def own_result(self, result: Transport) -> Transport:
        """What belongs to this rank of a transport of the union: plan and transform; all else is the union's."""
        transform = result.transform[self.start : self.start + len(self.y)]
        return replace(result, transform=transform, plan=self.own(result.plan))

    def own_excess(self, received: Tensor, excess: Tensor) -> Tensor:
        """This rank's part of an excess (n,) that sums to 0, if ranks give away and receive in their order.

        `received` (n,) is what the points receive from this rank.
        """
        held = self.ranks.table(received)
        given = torch.minimum(held, (excess.clamp(min=0) - (held.cumsum(0) - held)).clamp(min=0))
        upto, lacking = given.sum(1).cumsum(0), (-excess).clamp(min=0).cumsum(0)
        begin = upto[self.ranks.rank - 1] if self.ranks.rank else torch.zeros_like(upto[0])
        taken = torch.minimum(lacking, upto[self.ranks.rank]).clamp(min=begin) - begin
        return given[self.ranks.rank] - taken.diff(prepend=taken.new_zeros(1))


class ShardEngine(Engine):
    """The passes of another engine over the rank's own samples, added up over the ranks."""

    problem: Shard

    def __init__(self, inner: Engine, problem: Shard, meter: Meter | None = None) -> None:
        super().__init__(problem, meter or Meter(len(problem.x) * problem.count))
        self._inner = inner

    def _size(self) -> int:
        return len(self.problem.x) * self.problem.count

    def subsample(self, count: int) -> Engine:
        if count >= self.problem.count:
            return self
        part = self.problem.picked(shuffled(self.problem.count, count))
        total = part.a.sum()
        return self.on(replace(part, a=part.a / total)) if bool(total > 0) else self

    def on(self, problem: Problem) -> Engine:
        inner = type(self._inner)(problem, self.meter)
        return ShardEngine(inner, problem, self.meter) if isinstance(problem, Shard) else inner

    def apart(self, problem: Problem) -> Engine:
        return type(self._inner)(problem)

    def finer(self, problem: Problem) -> Engine | None:
        return self._inner.finer(problem)

    def _doubts(self, v: Tensor, cell: Tensor, cost: Tensor, margin: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
        return self._inner._doubts(v, cell, cost, margin, squares)

    @property
    def rounding(self) -> float:
        return self._inner.rounding

    def lists(self, v: Tensor, within: Tensor, supply: Tensor) -> Entries:
        return self._inner.lists(v, within, supply)

    def candidates(self, v: Tensor, eta: float) -> SoftEngine:
        return self  # ranks would disagree about when to renew their lists; only subsamples are annealed anyway

    def _two_nearest(self, v: Tensor) -> tuple[Tensor, Tensor]:
        return self._inner._two_nearest(v)

    def _softmins(self, v: Tensor, eta: float) -> Tensor:
        return self._inner._softmins(v, eta)

    def _soft_sums(self, v: Tensor, eta: float) -> SoftSums:
        sums = self._inner._soft_sums(v, eta)
        parts = (sums.minimum, sums.largest_share, sums.mass, sums.find_gram())
        minimum, largest_share, mass, gram = self.problem.ranks.total(*parts)
        return SoftSums(minimum, largest_share, mass, lambda: gram)


def problem_on(
    ranks: Ranks | None,
    call: str,
    points: Any,
    samples: Any,
    p: float | Cost,
    point_weights: Any = None,
    sample_weights: Any = None,
    *,
    dtype: torch.dtype | None = None,
    state: Tensor | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Problem:
    """The checked problem of this process alone, or this rank's part of the one that all ranks hold together.

    Args:
        ranks: None for this process alone.
        call: which of `ranks.CALLS` this belongs to.
        points, samples, p, point_weights, sample_weights, dtype: as in `make_problem`; weights of samples are on one
            scale on all ranks.
        state: (k,) what has been remembered from earlier calls, such as a potential, and has to agree too.
        settings: by name, what ranks have to agree in besides.

    Raises:
        ValueError: unusable inputs.
        RankError: unusable inputs on another rank, or points or settings that differ between ranks.
    """
    weights = (point_weights, sample_weights)
    return problem_with(
        ranks, call, points, samples, p, *weights, lambda _: None, dtype=dtype, state=state, settings=settings
    )[0]


def problem_with(
    ranks: Ranks | None,
    call: str,
    points: Any,
    samples: Any,
    p: float | Cost,
    point_weights: Any,
    sample_weights: Any,
    look: Callable[[Problem], S | None],
    *,
    dtype: torch.dtype | None = None,
    state: Tensor | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[Problem, S | None]:
    """As `problem_on`, with a first look whose means travel in the message that all calls begin with.

    Args:
        look: from the checked problem of this process alone to what its samples show; None on all ranks or on none.
        state: where nothing is seen; else it is that of what is seen.
        settings: as in `problem_on`.

    Returns:
        The problem, and what was seen, with means over the samples of all ranks.
    """

    def looked() -> tuple[Problem, S | None]:
        problem = make_problem(points, samples, p, point_weights, sample_weights, dtype=dtype)
        return problem, look(problem)

    if ranks is None:
        return looked()

    def prepare() -> tuple[tuple[Problem, S | None], Sequence[float], Tensor]:
        problem, seen = looked()
        means = () if seen is None else seen.means
        own = (
            problem.equal, problem.square, problem.concentration, problem.largest, problem.count,
            _scale(sample_weights, problem), torch.finfo(problem.x.dtype).bits, mark(problem.x),
            square_with_offset(problem, points),
        )  # fmt: skip
        state_now = state if seen is None else seen.state
        facts = (*_common(problem, points, sample_weights, state_now, dtype), *own)
        return (problem, seen), facts, torch.cat([problem.b[:0], *(mean.flatten() for mean in means)])

    number = p.p if isinstance(p, Cost) else p
    (problem, seen), facts, rows = ranks.agree_with(
        call, prepare, len(SAME) + 9, WHY, {"p": number, **(settings or {})}
    )
    check_same(SAME, facts)
    alike, square, concentration, largest, count, weight, bits, place, own_square = facts[:, len(SAME) :].t()
    if torch.finfo(problem.x.dtype).bits < bits.max():  # the samples of another rank need float64
        problem = make_problem(points, samples, p, point_weights, sample_weights, dtype=torch.float64)
    each, shares = weight / count, weight / weight.sum()
    if not bool((place == place[0]).all()):  # what can be shifted without rounding differs between ranks
        problem, square = with_offset(problem, points), own_square
    # In a union of equal weights each is 1/M exactly; so is a sum of counts.
    equal = bool(alike.all()) and bool((each == each[0]).all())
    counts = tuple(count.long().tolist())
    a = torch.full_like(problem.a, 1 / sum(counts)) if equal else problem.a * float(shares[ranks.rank])
    shard = Shard(
        x=problem.x, b=problem.b, y=problem.y, a=a, equal=equal, cost=problem.cost, largest=float(largest.max()),
        ranks=ranks, counts=counts, square_norm=float(square @ shares),
        square_weight=float(concentration @ shares.square()),
    )  # fmt: skip
    return shard, None if seen is None else seen.with_means(*_joined(ranks, seen.means, rows, shares))


def _joined(ranks: Ranks, means: Sequence[Tensor], rows: Tensor, shares: Tensor) -> tuple[Tensor, ...]:
    """The means over all ranks: as far as they came with the `rows` (size, ROOM), and the rest in a message."""
    own = torch.cat([mean.flatten() for mean in means])
    joined = shares.to(rows) @ rows[:, : len(own)]
    if len(own) > len(joined):
        joined = torch.cat((joined, *ranks.total(own[len(joined) :] * float(shares[ranks.rank]))))
    pieces = torch.split(joined, [mean.numel() for mean in means])
    return tuple(piece.view(mean.shape) for piece, mean in zip(pieces, means, strict=True))


def _common(
    problem: Problem, points: Any, sample_weights: Any, state: Tensor | None, dtype: torch.dtype | None
) -> tuple[float, ...]:
    """What has to agree, in the order of SAME."""
    n, d = problem.x.shape
    x = as_table(points, "points")
    bits = max(32, torch.finfo(dtype or x.dtype).bits)
    known = 0.0 if state is None else 1 + mark(state)
    marks = (mark(x), mark(problem.b), known)
    return (n, d, bits, float(sample_weights is not None), *marks)


def total_of(weights: Any) -> float:
    """Sum of weights in any form, on the scale on which they were given."""
    return float(real_tensor(weights, "sample_weights").double().sum())


def _scale(sample_weights: Any, problem: Problem) -> float:
    """Sum of the weights as they were given."""
    return float(len(problem.y)) if sample_weights is None else total_of(sample_weights)
