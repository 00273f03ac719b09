"""The two bounds on the distance over a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .canvas import COLOURS, Figure, canvas, check_power


def draw_bounds(history: Any, p: float | None = None) -> Figure:
    """Draw the upper and lower bound on W_p of every step of a run, and their relative gap.

    Args:
        history: a `BuildResult`, its steps, or whatever else has `value` and `lower`, bounds on W_p^p.
        p: power of the cost; the picture shows roots. None for that of the result, else 2.

    Raises:
        ValueError: no steps, or those of a run by "sgd", which has no lower bounds of its own.
    """
    p = check_power(getattr(history, "p", 2) if p is None else p)
    history = getattr(history, "history", history)
    if not isinstance(history, Sequence) or not all(hasattr(step, "value") for step in history):
        raise ValueError(f"history: got {type(history).__name__}; expected a BuildResult, or its history.")
    if not history:
        raise ValueError("history: got no steps; expected the history of a BuildResult.")
    value, below = (np.array([getattr(step, name) for step in history], dtype=float) for name in ("value", "lower"))
    if all(np.isnan(getattr(step, "gap", 0.0)) for step in history):
        raise ValueError("history: got steps of sgd, whose batches are not solved; expected upper and lower bounds.")
    gap = np.maximum(value - below, 0) / np.maximum(value, np.finfo(float).tiny)
    upper, lower = (np.maximum(bound, 0) ** (1 / p) for bound in (value, below))
    steps = np.arange(len(value))
    figure, axes = canvas(6.8, 5.4, rows=2)
    top, bottom = axes[:, 0]
    top.fill_between(steps, lower, upper, color=COLOURS[1], alpha=0.2, linewidth=0)
    top.plot(steps, upper, color=COLOURS[0], label="feasible plan, from above")
    top.plot(steps, lower, color=COLOURS[1], linestyle="--", label="dual, from below")
    top.ticklabel_format(axis="y", useOffset=False)
    top.set_ylabel(f"$W_{{{p:g}}}$ to the samples")
    top.legend(frameon=False)
    seen = gap > 0  # a gap of zero has no logarithm
    bottom.semilogy(steps[seen], gap[seen], color="#555555", marker="o", markersize=3, linewidth=1)
    bottom.set(xlabel="step", ylabel="relative gap of the bounds")
    bottom.set_xlim(top.get_xlim())
    return figure
