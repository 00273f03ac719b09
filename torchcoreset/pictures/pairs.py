"""Every pair of a few columns: which may show what a projection on two axes hides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .canvas import COLOURS, GREY, Figure, areas, both, canvas, dot, some

MOST = 8  # columns; more are refused, as panels would be too small to read


def draw_pairs(
    coreset: Any, data: Any, *, of: Sequence[int] | None = None, columns: Sequence[str] | None = None
) -> Figure:
    """Draw points over data for every pair of columns, and on the diagonal how each column is distributed.

    Args:
        coreset: `Coreset`, or points (n, d), d >= 2.
        data: (m, d); of more than 8,000 rows a random part is drawn.
        of: places of the columns to draw, at most 8; None takes the 5 of largest variance, in their order.
        columns: d names of the columns.

    Raises:
        ValueError: dimensions differ, fewer than two or more than 8 columns, or a column that does not exist.
    """
    points, rows = both(coreset, data)
    d = rows.shape[1]
    chosen = sorted(np.argsort(-rows.var(0), kind="stable")[:5].tolist()) if of is None else list(of)
    if not 2 <= len(chosen) <= MOST or not all(-d <= k < d for k in chosen):
        raise ValueError(f"of: got {chosen} of {d} columns; expected 2 to {MOST} of 0 to {d - 1}.")
    names = list(columns) if columns else [f"column {k}" for k in range(d)]
    shown, size, weights = some(rows), areas(coreset, 16), areas(coreset, 1.0)
    k = len(chosen)
    figure, axes = canvas(1.9 * k + 0.6, 1.9 * k + 0.6, k, k)
    for line, place in np.ndindex(k, k):
        axis, up, across = axes[line, place], chosen[line], chosen[place]
        axis.tick_params(labelsize=7, labelbottom=line == k - 1, labelleft=place == 0 < line)
        if place > line:
            axis.set_axis_off()
        elif place == line:
            bins = np.histogram_bin_edges(rows[:, up], bins=24 if len(points) >= 100 else 12)
            axis.hist(rows[:, up], bins, density=True, color=GREY)
            axis.hist(points[:, up], bins, density=True, weights=weights, histtype="step", color=COLOURS[0])
            axis.set_yticks([])
        else:
            axis.scatter(shown[:, across], shown[:, up], s=dot(rows) / 2, color=GREY, linewidths=0, rasterized=True)
            marks = points[:, across], points[:, up]
            axis.scatter(*marks, s=size, color=COLOURS[0], edgecolors="white", linewidths=0.5)
        if line == k - 1:
            axis.set_xlabel(names[across], fontsize=8)
        if place == 0 < line:
            axis.set_ylabel(names[up], fontsize=8)
    figure.suptitle(f"{len(points)} points (red) for {len(rows):,} rows", fontsize=12)
    return figure
