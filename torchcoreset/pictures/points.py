"""A coreset over the data that it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .canvas import COLOURS, SHOWN, Figure, areas, bare, both, canvas, dot, names_of, onto_main_axes, scatter


def draw_coreset(coreset: Any, data: Any, *, columns: Sequence[str] | None = None, title: str | None = None) -> Figure:
    """Draw points over data, marks in proportion to their weights.

    In one dimension the two distribution functions, whose areas apart add up to W_1; in the plane the points; in more
    dimensions both on the two main axes of the data, which says how much of the variance they hold.

    Args:
        coreset: `Coreset`, or points (n, d).
        data: (m, d); of more than 8,000 rows a random part is drawn.
        columns: d names of the columns; None takes those of `data`, if it is a DataFrame.
        title: above the picture; None says how many points there are.

    Raises:
        ValueError: data and points of different dimensions, or numbers that are not finite.
    """
    points, rows = both(coreset, data)
    columns = names_of(columns, data, rows.shape[1])
    figure, axes = canvas(6.4, 5.6)
    axis = axes[0, 0]
    axis.set_title(title if title is not None else f"{len(points)} points for {len(rows):,} rows", fontsize=12)
    if rows.shape[1] == 1:
        _staircases(axis, coreset, points[:, 0], rows[:, 0])
        axis.set(xlabel=columns[0] if columns else "", ylabel="share of the mass to the left")
        return figure
    project = onto_main_axes(rows)
    scatter(axis, rows, points, areas(coreset, 38), COLOURS[0], project)
    bare(axis)
    if rows.shape[1] > 2:
        held = project(rows).var(0) / max(rows.var(0).sum(), np.finfo(float).tiny)
        axis.set(xlabel=f"first main axis ({held[0]:.0%} of the variance)", ylabel=f"second main axis ({held[1]:.0%})")
    elif columns:
        axis.set(xlabel=columns[0], ylabel=columns[1])
    return figure


def _staircases(axis: Any, coreset: Any, points: Any, rows: Any) -> None:
    order = np.argsort(points)
    share = areas(coreset, 1.0)[order] / len(points)
    heights = np.concatenate(([0.0], share.cumsum()))
    margin = 0.03 * max(np.ptp(rows), np.finfo(float).tiny)
    ends = (min(rows.min(), points.min()) - margin, max(rows.max(), points.max()) + margin)
    axis.plot(np.sort(rows), (np.arange(len(rows)) + 0.5) / len(rows), color="#777777", label="data")
    axis.stairs(heights, np.concatenate(([ends[0]], points[order], [ends[1]]))[: len(heights) + 1], color=COLOURS[0],
                baseline=None, linewidth=1.4, label="coreset")  # fmt: skip
    axis.plot(points[order], np.zeros(len(points)), "|", color=COLOURS[0], markersize=9)
    axis.legend(frameon=False)


def draw_classes(
    coreset: Any, labels: ArrayLike, data: Any, data_labels: ArrayLike, *, columns: Sequence[str] | None = None
) -> Figure:
    """Draw a labelled coreset over its data, each class in a colour of its own.

    Args:
        coreset: `LabeledCoreset`, `Coreset`, or points (n, d).
        labels: (n,) of the points, numbers or text.
        data: (m, d), drawn on their two main axes if d > 2.
        data_labels: (m,) of the data.
        columns: d names of the columns; None takes those of `data`, if it is a DataFrame.

    Raises:
        ValueError: dimensions differ, or there is not one label for each point and each row.
    """
    points, rows = both(coreset, data)
    columns = names_of(columns, data, rows.shape[1])
    of_points, of_rows = np.asarray(labels), np.asarray(data_labels)
    for name, held, count in (("labels", of_points, len(points)), ("data_labels", of_rows, len(rows))):
        if held.shape != (count,):
            raise ValueError(f"{name}: got shape {held.shape} for {count} rows; expected one label for each.")
    if rows.shape[1] == 1:
        raise ValueError("data: got 1 column; expected 2 or more. draw_coreset draws each class in one dimension.")
    from matplotlib import colormaps

    figure, axes = canvas(6.8, 6.0)
    axis, size = axes[0, 0], areas(coreset, 46)
    classes = np.unique(of_rows)
    palette = colormaps["tab10" if len(classes) <= 10 else "turbo"]
    project = onto_main_axes(rows)
    shown = np.random.default_rng(0).permutation(len(rows))[:SHOWN]
    for k, label in enumerate(classes):
        colour = palette(k) if len(classes) <= 10 else palette(k / (len(classes) - 1))
        mine = of_points == label
        samples = project(rows[shown[of_rows[shown] == label]]).T
        axis.scatter(*samples, s=dot(rows), color=colour, alpha=0.3, linewidths=0, rasterized=True)
        axis.scatter(*project(points[mine]).T, s=size[mine], color=colour, edgecolors="black", linewidths=0.8,
                     label=str(label), zorder=3)  # fmt: skip
    names = columns if columns and rows.shape[1] == 2 else ("first main axis", "second main axis")
    axis.set(xlabel=names[0], ylabel=names[1], xticks=[], yticks=[])
    axis.set_title(f"{len(points)} points for {len(rows):,} rows in {len(classes)} classes", fontsize=12)
    if len(classes) <= 20:
        figure.legend(*axis.get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure
