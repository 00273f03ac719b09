"""The Laguerre cells of a coreset in the plane: which points stand for which part of the space."""

from __future__ import annotations

from typing import Any

import numpy as np

from .canvas import COLOURS, Figure, Floats, areas, bare, both, canvas, check_power, some, table


def draw_cells(coreset: Any, data: Any, potential: Any, p: float = 2) -> Figure:
    """Draw a coreset over data in the plane, each Laguerre cell in a shade of its own.

    Cell i holds the places y where |y - x_i|^p - v_i is smallest.

    Args:
        coreset: `Coreset`, or points (n, 2).
        data: (m, 2); of more than 8,000 rows a random part is drawn.
        potential: (n,) v, as of a `Transport` or a `Certificate`.
        p: power of the cost.

    Raises:
        ValueError: not in the plane, or not one potential for each point.
    """
    points, rows = both(coreset, data)
    if rows.shape[1] != 2:
        raise ValueError(
            f"data: got {rows.shape[1]} columns; expected 2, since cells are drawn in the plane. "
            "draw_coreset and draw_pairs draw more."
        )
    if not hasattr(potential, "__len__"):
        raise ValueError(
            f"potential: got {type(potential).__name__}; expected (n,) numbers, such as result.transport.potential."
        )
    held = potential[:, None] if hasattr(potential, "ndim") else np.array(potential)[:, None]
    v = table("potential", held)[:, 0]
    p = check_power(p)
    if len(v) != len(points):
        raise ValueError(f"potential: got {len(v)} numbers for {len(points)} points; expected one for each.")
    low, high = np.quantile(np.concatenate((rows, points)), (0.001, 0.999), axis=0)
    margin = 0.05 * (high - low) + np.finfo(float).tiny
    low, high = np.minimum(low, points.min(0)) - margin, np.maximum(high, points.max(0)) + margin
    figure, axes = canvas(6.4, 6.4)
    axis = axes[0, 0]
    extent = (low[0], high[0], low[1], high[1])
    axis.imshow(_shades(_raster(low, high, points, v, p)), origin="lower", extent=extent, interpolation="nearest")
    axis.scatter(*some(rows).T, s=3, color="#555555", alpha=0.35, linewidths=0, rasterized=True)
    axis.scatter(*points.T, s=areas(coreset, 34), color=COLOURS[0], edgecolors="white", linewidths=0.8)
    bare(axis, equal=False)
    axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axis.set_title(f"{len(points)} points and their Laguerre cells (p = {p:g})", fontsize=12)
    return figure


def _raster(low: Floats, high: Floats, points: Floats, potential: Floats, p: float, pixels: int = 600) -> Any:
    """Index of the cell of each pixel, (pixels, pixels), a row at a time."""
    across, up = (np.linspace(low[k], high[k], pixels) for k in range(2))
    cells = np.empty((pixels, pixels), dtype=np.int64)
    for row, height in enumerate(up):
        square = (across[:, None] - points[:, 0]) ** 2 + (height - points[:, 1]) ** 2
        cells[row] = (square ** (p / 2) - potential).argmin(1)
    return cells


def _shades(cells: Any) -> Floats:
    """A light colour for each cell, and white lines between cells, (pixels, pixels, 3)."""
    from matplotlib import colormaps

    # Steps of the golden ratio keep neighbours in the order apart in colour.
    tones = colormaps["viridis"]((np.arange(cells.max() + 1) * 0.618034) % 1.0)[:, :3]
    image: Floats = (0.35 * tones + 0.65)[cells]
    edge = np.zeros(cells.shape, dtype=bool)
    edge[1:] |= cells[1:] != cells[:-1]
    edge[:, 1:] |= cells[:, 1:] != cells[:, :-1]
    image[edge] = 1.0
    return image
