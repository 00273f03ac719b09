"""Points that are images, as a grid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .canvas import Figure, Floats, canvas, onto_main_axes, table


def draw_images(coreset: Any, shape: tuple[int, int], *, title: str | None = None) -> Figure:
    """Draw each point as an image, likes near each other: sorted along their main axis.

    Args:
        coreset: `Coreset`, or points (n, height * width).
        shape: (height, width) of each.
        title: above the picture.

    Returns:
        A matplotlib Figure; grey levels from the least number (white) to the largest (black).

    Raises:
        ValueError: rows have not height * width numbers.
    """
    grid = mosaic(table("coreset", coreset), shape)
    figure, axes = canvas(6.4, 6.4 * grid.shape[0] / grid.shape[1] + (0.4 if title else 0))
    axes[0, 0].imshow(grid, cmap="gray_r", interpolation="nearest")
    axes[0, 0].set_axis_off()
    if title:
        axes[0, 0].set_title(title, fontsize=12)
    return figure


def mosaic(points: Floats, shape: tuple[int, int]) -> Floats:
    """Rows as images in a grid with gaps of a pixel, (pixels, pixels); about twice as wide as high."""
    height, width = shape
    if height * width != points.shape[1]:
        raise ValueError(
            f"image_shape: got {shape}, which is {height * width} pixels; expected {points.shape[1]}, "
            "as many as a row has numbers."
        )
    order = np.argsort(onto_main_axes(points)(points)[:, 0]) if len(points) > 2 else np.arange(len(points))
    widest = math.ceil(math.sqrt(2 * len(points)))
    columns = max((c for c in range(widest // 2, widest + 1) if c and len(points) % c == 0), default=widest)
    lines = math.ceil(len(points) / columns)
    grid = np.full((lines * (height + 1) - 1, columns * (width + 1) - 1), points.min())
    for place, index in enumerate(order):
        top, left = (place // columns) * (height + 1), (place % columns) * (width + 1)
        grid[top : top + height, left : left + width] = points[index].reshape(shape)
    return grid
