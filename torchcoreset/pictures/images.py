"""Points that are images, as a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .canvas import Figure, Floats, canvas, onto_main_axes, table


def draw_images(
    coreset: Any, shape: tuple[int, int], *, labels: ArrayLike | None = None, title: str | None = None
) -> Figure:
    """Draw each point as an image, likes near each other: sorted along their main axis, and by label if there are some.

    Args:
        coreset: `LabeledCoreset`, `Coreset`, or points (n, height * width).
        shape: (height, width) of each.
        labels: (n,) numbers or text; each begins a line of its own. None takes those of a `LabeledCoreset`.
        title: above the picture.

    Returns:
        A matplotlib Figure; grey levels from the least number (white) to the largest (black).

    Raises:
        ValueError: rows have not height * width numbers, or there is not one label for each.
    """
    labels = getattr(coreset, "labels", None) if labels is None else labels
    grid, lines = mosaic(table("coreset", coreset), shape, labels)
    width = min(6.4, 8.0 * grid.shape[1] / grid.shape[0])  # inches; tall grids are not wider than they fit a page
    figure, axes = canvas(width, width * grid.shape[0] / grid.shape[1] + (0.4 if title else 0))
    axis = axes[0, 0]
    axis.imshow(grid, cmap="gray_r", interpolation="nearest")
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    axis.set_xticks([])
    height = shape[0]
    axis.set_yticks([line * (height + 1) + (height - 1) / 2 for _, line in lines], [label for label, _ in lines])
    if title:
        axis.set_title(title, fontsize=12)
    return figure


def mosaic(
    points: Floats, shape: tuple[int, int], labels: ArrayLike | None = None
) -> tuple[Floats, list[tuple[str, int]]]:
    """Rows as images in a grid with gaps of a pixel, (pixels, pixels); about twice as wide as high.

    With labels also where each of them begins, in lines of images: no label shares a line with another.
    """
    height, width = _checked(shape, points.shape[1])
    order = np.argsort(onto_main_axes(points)(points)[:, 0]) if len(points) > 2 else np.arange(len(points))
    widest = math.ceil(math.sqrt(2 * len(points)))
    columns = max((c for c in range(widest // 2, widest + 1) if c and len(points) % c == 0), default=widest)
    groups = [("", order.tolist())] if labels is None else _by_label(order, labels, len(points))
    if labels is not None:
        columns = min(widest, max(len(members) for _, members in groups))
    images: list[Sequence[int]] = []
    begins = []
    for label, members in groups:
        begins.append((label, len(images)))
        images += [members[start : start + columns] for start in range(0, len(members), columns)]
    grid = np.full((len(images) * (height + 1) - 1, columns * (width + 1) - 1), points.min())
    for line, members in enumerate(images):
        for place, index in enumerate(members):
            top, left = line * (height + 1), place * (width + 1)
            grid[top : top + height, left : left + width] = points[index].reshape(height, width)
    return grid, begins if labels is not None else []


def _by_label(order: NDArray[Any], labels: ArrayLike, count: int) -> list[tuple[str, list[int]]]:
    """Points of each label, in the order given."""
    held = np.asarray(labels)
    if held.shape != (count,):
        raise ValueError(f"labels: got shape {held.shape} for {count} points; expected one label for each.")
    place = np.unique(held, return_inverse=True)[1]
    arranged = order[np.argsort(place[order], kind="stable")].tolist()
    return [(str(label), list(members)) for label, members in groupby(arranged, key=lambda index: held[index])]


def _checked(shape: Any, width: int) -> tuple[int, int]:
    """Height and width of an image of so many numbers."""
    if not isinstance(shape, Sequence) or isinstance(shape, str) or len(shape) != 2:
        raise ValueError(f"image_shape: got {shape!r}; expected (height, width).")
    height, across = shape
    if height * across != width:
        raise ValueError(
            f"image_shape: got {tuple(shape)}, which is {height * across} pixels; expected {width}, "
            "as many as a row has numbers."
        )
    return int(height), int(across)
