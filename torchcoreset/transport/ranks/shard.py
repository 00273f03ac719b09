"""One problem whose samples lie on several ranks, and its engine: each rank holds all points and its own samples.

    x (n, d) points      y (m, d) this rank's samples of M in all, a (m,) their weights; the weights of all sum to 1

A pass goes over the rank's own samples, and its n + 1 sums are added up. Subsamples and the samples that may change
cell are gathered, and every rank computes the same with them. Subsamples are picked by a sample's number among all:
they are the rows that one process would pick from the union in the order of the ranks, so that all that follows is the
same to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

import torch
from torch import Tensor

from ..flow import BoundarySamples, within_limits
from ..passes import Engine, EngineChoice, make_engine, shuffled
from ..problem import Problem
from ..result import Coupling, Transport
from .group import Ranks


@dataclass(frozen=True)
class Shard(Problem):
    """A rank's part of a problem. Weights `a` are those in the union, so they sum to the rank's share."""

    ranks: Ranks  # the ranks that hold the other parts
    counts: tuple[int, ...]  # number of samples on each rank
    square_norm: float  # mean square of the norm of a sample, over all of them
    square_weight: float  # sum of the squares of all sample weights

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

    def mean_sample(self) -> Tensor:
        return self.ranks.total(super().mean_sample())[0]

    def whole(self) -> Problem:
        """The union, on every rank."""
        y, a = joined(self.ranks.gather(self.y, self.a, counts=self.counts))
        return Problem(x=self.x, b=self.b, y=y, a=a, equal=self.equal, cost=self.cost, largest=self.largest)

    def picked(self, index: Tensor) -> Problem:
        """The samples with these numbers (k,) among all, in their order, on every rank; weights are as in the union."""
        index = index.to(self.y.device)
        ends = torch.tensor(self.counts, device=index.device).cumsum(0)
        holder = torch.bucketize(index, ends, right=True)  # the rank of each
        own = index[holder == self.ranks.rank] - self.start
        counts = torch.bincount(holder, minlength=self.ranks.size).tolist()
        y, a = joined(self.ranks.gather(self.y[own], self.a[own], counts=counts))
        place = torch.argsort(torch.argsort(holder, stable=True))  # of each among what was gathered, rank by rank
        return Problem(x=self.x, b=self.b, y=y[place], a=a[place], equal=self.equal, cost=self.cost)

    def own(self, plan: Coupling) -> Coupling:
        """This rank's entries of a plan of the union."""
        mine = (plan.rows >= self.start) & (plan.rows < self.start + len(self.y))
        return Coupling(plan.rows[mine] - self.start, plan.cols[mine], plan.mass[mine], (len(self.y), plan.shape[1]))

    def own_result(self, result: Transport) -> Transport:
        """What belongs to this rank of a transport of the union: plan and transform; all else is the union's."""
        transform = result.transform[self.start : self.start + len(self.y)]
        return replace(result, transform=transform, plan=self.own(result.plan))


class ShardEngine(Engine):
    """What is asked of all samples, of an engine that holds those of a rank: mixed into the class of that engine.

    Sums are added up over the ranks. Soft passes are made over subsamples, which every rank holds.
    """

    problem: Shard
    alone: type[Engine]  # that class

    def total(self, *sums: Tensor) -> tuple[Tensor, ...]:
        return self.problem.ranks.total(*sums)

    def least(self, values: Tensor) -> Tensor:
        return self.problem.ranks.table(values).amin(0)

    def kth_smallest(self, values: Tensor, k: int) -> Tensor:
        return self.problem.ranks.kth_smallest(values, k)

    def gathered(self, rows: BoundarySamples, per_cell: Tensor) -> BoundarySamples:  # type: ignore[override]
        own = rows._replace(number=rows.number + self.problem.start)
        everyones = BoundarySamples(*joined(self.problem.ranks.gather(*own)))
        order = torch.argsort(everyones.margin, stable=True)
        order = order[torch.argsort(everyones.cell[order], stable=True)]
        return everyones.picked(order[within_limits(everyones.cell[order], per_cell)])

    def own(self, plan: Coupling) -> Coupling:
        return self.problem.own(plan)

    def own_excess(self, received: Tensor, excess: Tensor) -> Tensor:
        """Each rank gives away its share of what a cell holds too much of, and receives as much."""
        (held,) = self.total(received)
        over, under = excess.clamp(min=0), (-excess).clamp(min=0)
        given = over * (received / held.where(held > 0, 1.0))
        return given - under * (given.sum() / under.sum().clamp(min=1e-300))

    def subsample(self, count: int) -> Engine:
        if count < self.problem.count:
            part = self.problem.picked(shuffled(self.problem.count, count))
            total = part.a.sum()
            if bool(total > 0):
                return self.on(replace(part, a=part.a / total))
        return self.on(self.problem.whole())

    def on(self, problem: Problem) -> Engine:
        return (type(self) if isinstance(problem, Shard) else self.alone)(problem, self.meter)

    def apart(self, problem: Problem) -> Engine:
        return self.alone(problem)


@cache
def shard_engine(alone: type[Engine]) -> type[Engine]:
    """The class of engines that ask such an engine for the samples of this rank, and the other ranks for theirs."""
    return cast(type[Engine], type(f"Shard{alone.__name__}", (ShardEngine, alone), {"alone": alone}))


def engine_on(ranks: Ranks | None, engine: str) -> EngineChoice:
    """What makes the engine of this name for the parts of a problem that ranks hold."""
    if ranks is None:
        return engine

    def make(problem: Problem, mean: float) -> Engine:
        here = make_engine(problem, engine, mean)
        return shard_engine(type(here))(here.problem)

    return make


def joined(parts: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Columns of all rows, from those of each rank."""
    return tuple(torch.cat(columns) for columns in zip(*parts, strict=True))
