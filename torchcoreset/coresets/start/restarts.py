"""Restarts: several starts are compared after a few cheap steps on the same part of the samples; the best is kept.

Different starts end in different local minima. With few points the minima differ by up to some per cent, and a restart
is cheap; with many points the minima hardly differ, and one start is as good as the best of several.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import torch
from torch import Generator, Tensor

from ...sources import Source, as_source
from ...tensors import check_count, check_finite, normalised
from ...transport import FREE, Cost, as_marginals, as_table, is_choice
from ..algorithms import Objective
from .annealing import FEWEST
from .arrangement import differ, placed
from .draw import pool_size, separated, start_points
from .relocation import descended, relocated

POINTS = 100  # of all starts together, by default: 100 // n starts of n points
MOST = 8  # starts by default, however few their points
RELOCATIONS = 20  # maximum number of rounds in which points of chosen weights are relocated
LEAST_GAIN = 2e-3  # relative gain of a round; a round that gains less is the last
VALUE = itemgetter(0)


@dataclass(frozen=True, kw_only=True)
class Start:
    """The starting points of a build.

    Raises:
        ValueError: `restarts` is not a positive integer, or is above 1 with given points.
    """

    init: Any  # name of a kind of start, or (n, d) points
    # Number of starts to compare; None for max(1, min(MOST, POINTS // n)) annealed ones, or one other
    restarts: int | None
    size: int  # number of points n
    p: float | Cost  # power of the cost
    weights: Any  # (n,) weights of the points, any positive sum; None for equal ones; "free" or bounds
    engine: str  # of each transport
    trim: float = 0.0  # share of the samples that stays unmatched
    resumes: bool = False  # a run, whose points are taken as they were

    def __post_init__(self) -> None:
        if self.restarts is None:
            return
        check_count(self.restarts, "restarts")
        if self.restarts > 1 and not isinstance(self.init, str):
            raise ValueError(
                f"restarts: got {self.restarts} with points to start from; expected more than one only with a named "
                "init. Leave one of the two out."
            )

    def draw(self, source: Source, generator: Generator) -> tuple[Tensor, Any]:
        """Points (n, d), float32 or float64, all different if the source allows it; and their weights.

        The weights are (n,), of sum 1, or as given if each transport chooses them.
        """
        if isinstance(self.init, str):
            alone = self._count() == 1 and not (self.init == "annealed" and is_choice(self.weights))
            points = self._one(source, generator) if alone else self._best(source, generator)
        else:
            points = as_table(self.init, "init")
            if len(points) != self.size:
                raise ValueError(f"init: got {len(points)} points; expected size={self.size} of them.")
            check_finite(points, "init")
            points = points if self.resumes else _floating(points, generator)
        return points, self._weights(points.device)

    def _weights(self, device: torch.device) -> Any:
        as_marginals(self.weights, self.size, "weights")  # raises ValueError for invalid weights
        return self.weights if is_choice(self.weights) else normalised(self.weights, self.size, "weights", device)

    def _count(self) -> int:
        return self.restarts or (default_restarts(self.size) if self.init == "annealed" else 1)

    def _one(self, source: Source, generator: Generator) -> Tensor:
        points = start_points(source, self.size, self.init, self.p, generator, self.weights, self.trim)
        return _floating(points, generator)

    def _best(self, source: Source, generator: Generator) -> Tensor:
        """The points, after a few steps on a part of the source, of the start with the lowest value there."""
        pool = source.draw(pool_size(self.size), generator)
        b = self._weights(pool.device)
        unequal = not is_choice(b) and differ(b)
        if self.restarts is None and pool.shape[1] == 1:  # every start would be the same
            return self._one(source if unequal or is_choice(b) else as_source(pool), generator)
        rows = as_source(pool)
        starts = [self] * self._count()
        if self.init == "annealed" and len(pool) < FEWEST * self.size:  # means of bisections are all alike
            starts[1:] = [replace(self, init="random")] * (len(starts) - 1)
        value, best = min((self._after_steps(start._one(rows, generator), b, pool) for start in starts), key=VALUE)
        if is_choice(b):
            return self._of_chosen_weights(value, best, b, pool, generator)
        while self.init == "annealed" and unequal:  # after the cells have moved, weights can be arranged better
            trial, points = self._after_steps(placed(best, b, pool.to(best), self.p), b, pool)
            if not trial < value:
                break
            value, best = trial, points
        return best

    def _of_chosen_weights(self, value: float, best: Tensor, b: Any, pool: Tensor, generator: Generator) -> Tensor:
        """The best start, or the points after relocation if their value is lower."""
        free, rows = self._objective(FREE), pool.to(best)
        nearest, points = (value, best) if b == FREE else descended(best, free, rows)
        points = relocated(points, nearest, free, rows, None, generator, rounds=RELOCATIONS, least_gain=LEAST_GAIN)
        if b == FREE:
            return points
        trial, moved = self._after_steps(points, b, pool)
        return moved if trial < value else best

    def _after_steps(self, points: Tensor, b: Any, pool: Tensor) -> tuple[float, Tensor]:
        """The lowest value of a few steps on the pool, and the points that go with it."""
        return descended(points, self._objective(b), pool.to(points))

    def _objective(self, b: Any) -> Objective:
        return Objective(b, self.p, self.engine, trim=self.trim)


def default_restarts(size: int) -> int:
    """Default number of annealed starts."""
    return max(1, min(MOST, POINTS // size))


def _floating(points: Tensor, generator: Generator) -> Tensor:
    return separated(points.to(torch.promote_types(points.dtype, torch.float32)), generator)
