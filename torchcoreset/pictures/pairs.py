"""Every pair of a few columns: which may show what a projection on two axes hides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import nearest
from .canvas import COLOURS, GREY, Figure, areas, both, canvas, dot, names_of, some

MOST = 8  # columns; more are refused, as panels would be too small to read


def draw_pairs(
    coreset: Any, data: Any, *, of: Sequence[int | str] | None = None, columns: Sequence[str] | None = None
) -> Figure:
    """Draw points over data for every pair of columns, and on the diagonal how each column is distributed.

    Args:
        coreset: `Coreset`, or points (n, d), d >= 2.
        data: (m, d); of more than 8,000 rows a random part is drawn.
        of: the columns to draw, by place or name, at most 8; None takes the 5 of largest variance, in their order.
        columns: d names of the columns; None takes those of `data`, if it is a DataFrame.

    Raises:
        ValueError: dimensions differ, fewer than two or more than 8 columns, or a column that does not exist.
    """
    points, rows = both(coreset, data)
    d = rows.shape[1]
    named = names_of(columns, data, d)
    names = named or [f"column {k}" for k in range(d)]
    widest = sorted(np.argsort(-rows.var(0), kind="stable")[:5].tolist())
    chosen = widest if of is None else [_place(key, named, d) for key in ([of] if isinstance(of, str) else of)]
    if not 2 <= len(chosen) <= MOST or not all(-d <= k < d for k in chosen):
        raise ValueError(f"of: got {chosen} of {d} columns; expected 2 to {MOST} of 0 to {d - 1}.")
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


def _place(key: int | str, names: Sequence[str] | None, width: int) -> int:
    """The place of a column given by place or name."""
    if isinstance(key, str):
        if names is None:
            raise ValueError(
                f"of: got the name {key!r} of columns without names; pass columns, or a DataFrame as data."
            )
        if key not in names:
            raise ValueError(f"of: {key!r} is not a column{nearest(key, names)}")
        return names.index(key)
    if isinstance(key, bool) or not isinstance(key, (int, np.integer)):
        raise ValueError(f"of: got {key!r}; expected places of columns, 0 to {width - 1}, or their names.")
    return int(key)
