"""Several sets of points over the same data, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .canvas import COLOURS, Figure, areas, bare, both, canvas, onto_main_axes, scatter, table
from .images import mosaic


@dataclass(frozen=True)
class Panel:
    """One set of points to draw: its name, a `Coreset` or points (n, d), and what to say of it."""

    name: str
    points: Any
    caption: str = ""


def draw_comparison(data: Any, panels: list[Panel], image_shape: tuple[int, int] | None = None) -> Figure:
    """Draw one column for each panel: points over the data, and above them the points as images if they are.

    Args:
        data: (m, d), in grey; on the two main axes if d > 2.
        panels: what to compare; at least one.
        image_shape: (height, width) if every row is an image, which adds a row of image grids.

    Raises:
        ValueError: dimensions differ, there are no panels, or rows are not images of this shape.
    """
    if not isinstance(panels, (list, tuple)) or not all(isinstance(panel, Panel) for panel in panels):
        raise ValueError(f"panels: got {type(panels).__name__}; expected a list of Panel(name, points).")
    if not panels:
        raise ValueError("panels: got none; expected at least one Panel.")
    rows = table("data", data)
    grids = (
        []
        if image_shape is None
        else [
            mosaic(table("panels", panel.points), image_shape, getattr(panel.points, "labels", None))[0]
            for panel in panels
        ]
    )
    heights = [0.9] if not grids else [grids[0].shape[0] / grids[0].shape[1], 0.9]
    figure, axes = canvas(5.4 * len(panels), 5.4 * sum(heights) + 0.9, len(heights), len(panels), height_ratios=heights)
    layout: Any = figure.get_layout_engine()  # the constrained one of `canvas`
    layout.set(w_pad=0.15, h_pad=0.1)
    project = onto_main_axes(rows)
    for column, panel in enumerate(panels):
        points, _ = both(panel.points, rows)
        if grids:
            axes[0, column].imshow(grids[column], cmap="gray_r", interpolation="nearest")
            axes[0, column].set_axis_off()
        axis, colour = axes[-1, column], COLOURS[column % len(COLOURS)]
        scatter(axis, rows, points, areas(panel.points, 34), colour, project)
        bare(axis)
        axes[0, column].set_title(f"{panel.name}\n{panel.caption}".strip(), fontsize=12)
    if rows.shape[1] > 2:
        figure.supxlabel("bottom: data (grey) and points on the two main axes of the data", fontsize=9, color="#777777")
    return figure
