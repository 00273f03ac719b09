"""Divergences other than exact transport: steps to the minimum of a quadratic majorant, and quasi-Newton steps.

    x (n, d) points, b (n,)      F(x) divergence      q (n,) curvature of a majorant, for a mass of 1

    x_i <- x_i - F'_i / (b_i q_i)

For the energy distance this is the convex-concave procedure of Mak and Joseph (2018), for the kernels of `mmd` a
majorisation too: neither raises F. For the Sinkhorn divergence with p = 2 it puts x_i at its mean sample and takes away
where its own plan puts it. L-BFGS with 1 / (b q) as the first inverse Hessian takes a fraction of the steps; a point
that does not lower F enough is left for the majorant's step from the best one, shortened where that fails as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ...losses import CachedSelfTerm, Discrepancy, DivergenceSettings, SinkhornResult

PAIRS = 10  # of differences of points and gradients that L-BFGS remembers
DECREASE = 1e-4  # part of the fall that the gradient promises which a step has to keep (Nocedal, Wright 2006, 3.1)
CURVED = 1e-10  # cosine between such a pair below which it says nothing of the curvature
CUTS = 1  # of a quasi-Newton step that failed, before a majorant's is taken
LEAST_PART = 0.1  # of a step that failed, to which it is cut at least
SHORTER = 4.0  # factor by which a majorant's step that failed is shortened
ROUNDING = 1e-14  # of the mean cost or kernel: a divergence below it is 0, which it is the difference of


@dataclass(frozen=True)
class DivergenceObjective:
    """F, a divergence between points of these weights and samples."""

    settings: DivergenceSettings[Any]  # which divergence, with lengths for its blur
    weights: Tensor  # (n,) float64 of the points, sum 1
    samples: Tensor  # (m, d)
    sample_weights: Tensor | None  # (m,); equal if None
    memory: CachedSelfTerm  # the term of the samples with themselves

    @classmethod
    def of(
        cls,
        settings: DivergenceSettings[Any],
        points: Tensor,
        weights: Tensor | None,
        samples: Tensor,
        sample_weights: Tensor | None,
    ) -> DivergenceObjective:
        """With a blur that is fixed here; points (n, d) have equal weights if None."""
        if weights is None:
            weights = points.new_full((len(points),), 1 / len(points), dtype=torch.float64)
        settings = settings.resolved(samples, sample_weights)
        return cls(settings, weights.double(), samples, sample_weights, CachedSelfTerm())

    def at(self, points: Tensor, start: Tensor | None = None) -> tuple[Discrepancy | SinkhornResult, Tensor]:
        """F at points (n, d), 0 if it is below rounding, and F' (n, d); solvers start from `start` (n,)."""
        x = points.detach().double().requires_grad_()
        known = start if start is not None and bool(torch.isfinite(start).all()) else None
        with torch.enable_grad():
            value, measured = self.settings.evaluate(
                (x, self.samples, self.weights, self.sample_weights), known, self.memory
            )
            (gradient,) = torch.autograd.grad(value, x)
        terms = float(measured.transform.abs().mean())
        return (replace(measured, value=0.0) if measured.value <= ROUNDING * terms else measured), gradient

    def curvature(self, points: Tensor, measured: Discrepancy | SinkhornResult) -> Tensor:
        """(n,) q at points (n, d)."""
        return self.settings.curvature((points, self.samples, self.weights, self.sample_weights), measured)

    def reported(self, points: Tensor) -> Discrepancy | SinkhornResult:
        """F at points (n, d), with a warning if the requested accuracy was not reached."""
        measured, _ = self.at(points)
        self.settings.report(measured)
        return measured


@dataclass(frozen=True)
class State:
    """Between two steps."""

    points: Tensor  # (n, d) float64 where F is evaluated next
    best: Tensor  # (n, d) float64 the points of the lowest F
    dtype: torch.dtype  # of the result
    lowest: float = math.inf  # F there
    gradient: Tensor | None = None  # (n, d) F' there; None before the first step
    curvature: Tensor | None = None  # (n,) q where the majorant was last made
    promised: float = 0.0  # change of F to the next points, by F': negative
    moves: tuple[Tensor, ...] = ()  # (n, d) each, between accepted points, the last ones
    changes: tuple[Tensor, ...] = ()  # (n, d) each, of F' by these moves
    cuts: int = 0  # how often the last quasi-Newton step has been shortened
    shortened: float = 1.0  # divisor of a majorant's step
    potential: Tensor | None = None  # (n,) from which the next evaluation starts, for those that solve

    @property
    def result(self) -> Tensor:
        """(n, d) the points of the lowest F."""
        return self.best.to(self.dtype)

    def record(self) -> dict[str, Any]:
        """The whole state, for a run that is resumed later."""
        return {name: value for name, value in vars(self).items() if name != "dtype"}

    def resumed(self, record: Mapping[str, Any]) -> State:
        """The state of a record."""
        return State(dtype=self.dtype, **record)


def init(points: Tensor) -> State:
    """Before the first step, at points (n, d)."""
    return State(points.double(), points.double(), points.dtype)


def step(state: State, objective: DivergenceObjective) -> tuple[State, Discrepancy | SinkhornResult]:
    """F and F' at the state's points, and where to evaluate next."""
    measured, gradient = objective.at(state.points, state.potential)
    potential = measured.potential if isinstance(measured, SinkhornResult) else None
    state = replace(state, potential=potential)
    if measured.value <= state.lowest + DECREASE * state.promised:
        moved = _accepted(state, gradient, measured.value)
    elif state.moves and state.cuts < CUTS:
        return _cut(state, measured.value), measured
    else:  # the curvature was not what the pairs, or a bound that is none, said
        shortened = state.shortened if state.moves else SHORTER * state.shortened
        moved = replace(state, moves=(), changes=(), curvature=None, shortened=shortened)
    if moved.curvature is None:
        moved = replace(moved, curvature=objective.curvature(moved.best, measured))
    return _aimed(moved, objective.weights), measured


def _accepted(state: State, gradient: Tensor, value: float) -> State:
    """After a step that lowered F: the pair that it makes is remembered."""
    moves, changes = state.moves, state.changes
    if state.gradient is not None:
        move, change = state.points - state.best, gradient - state.gradient
        if float((move * change).sum()) > CURVED * float(move.norm() * change.norm()):
            moves, changes = (*moves, move)[-PAIRS:], (*changes, change)[-PAIRS:]
    shortened = max(1.0, state.shortened / SHORTER)
    return replace(
        state, best=state.points, lowest=value, gradient=gradient, moves=moves, changes=changes, shortened=shortened
    )


def _cut(state: State, value: float) -> State:
    """A shorter step the same way: to the minimum of the parabola through what is known along it."""
    part = 0.5 * state.promised / (state.promised - (value - state.lowest))
    part = min(max(part, LEAST_PART), 0.5)
    points = torch.lerp(state.best, state.points, part)
    return replace(state, points=points, promised=part * state.promised, cuts=state.cuts + 1)


def _aimed(state: State, weights: Tensor) -> State:
    """Where to evaluate next: a quasi-Newton step from the best points, or the majorant's where that is no descent."""
    assert state.gradient is not None
    assert state.curvature is not None
    tiny = torch.finfo(torch.float64).tiny
    inverse = 1 / (weights * state.curvature).clamp(min=tiny)[:, None]
    gradient, moves = state.gradient, state.moves
    direction = -_times_inverse_hessian(gradient, inverse, moves, state.changes)
    promised = float((direction * gradient).sum())
    if not moves or not promised < 0:
        state = replace(state, moves=(), changes=())
        direction = -gradient * inverse / state.shortened
        promised = float((direction * gradient).sum())
    return replace(state, points=state.best + direction, promised=promised, cuts=0)


def _times_inverse_hessian(
    gradient: Tensor, inverse: Tensor, moves: tuple[Tensor, ...], changes: tuple[Tensor, ...]
) -> Tensor:
    """The two loops of L-BFGS (Nocedal 1980), from an inverse Hessian (n, 1) that the last pair scales."""
    found, along = gradient, []
    for move, change in zip(reversed(moves), reversed(changes), strict=True):
        part = (move * found).sum() / (move * change).sum()
        found = found - part * change
        along.append(part)
    found = found * inverse
    if moves:
        found = found * ((moves[-1] * changes[-1]).sum() / (changes[-1].square() * inverse).sum())
    for move, change, part in zip(moves, changes, reversed(along), strict=True):
        found = found + move * (part - (change * found).sum() / (move * change).sum())
    return found
