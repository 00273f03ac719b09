"""Pictures of a coreset beside a random subset: image grids, and both over the data in two dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

POINT_COLOURS = ("#d1495b", "#2e6f95")  # coreset, random subset: told apart by colour-blind readers too


@dataclass(frozen=True)
class Panel:
    """One set of points to draw: its name, the points (n, d), and what to say of it."""

    name: str
    points: Floats
    caption: str


def draw_comparison(path: Path, data: Floats, panels: list[Panel], image_shape: tuple[int, int] | None) -> None:
    """Draw one column for each panel and write a PNG.

    Args:
        path: where the PNG goes; its folder is made.
        data: (m, d), drawn in grey; projected on its two main axes if d > 2.
        panels: what to compare.
        image_shape: (height, width) if every row is an image, which adds a row of image grids.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    mosaics = [] if image_shape is None else [_mosaic(panel.points, image_shape) for panel in panels]
    heights = [0.9] if not mosaics else [mosaics[0].shape[0] / mosaics[0].shape[1], 0.9]
    figure, axes = plt.subplots(
        len(heights),
        len(panels),
        figsize=(5.4 * len(panels), 5.4 * sum(heights) + 0.9),
        gridspec_kw={"height_ratios": heights},
        layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.1),
        squeeze=False,
        dpi=130,
    )
    project = _projection(data)
    for column, (panel, colour) in enumerate(zip(panels, POINT_COLOURS, strict=False)):
        if mosaics:
            axis = axes[0, column]
            axis.imshow(mosaics[column], cmap="gray_r", interpolation="nearest")
            axis.set_axis_off()
        axis = axes[-1, column]
        axis.scatter(*project(data).T, s=4, color="#c9c9c9", linewidths=0, rasterized=True)
        axis.scatter(*project(panel.points).T, s=34, color=colour, edgecolors="white", linewidths=0.7)
        axis.set_aspect("equal", adjustable="datalim")
        axis.set_xticks([])
        axis.set_yticks([])
        for spine in axis.spines.values():
            spine.set_visible(False)
        axes[0, column].set_title(f"{panel.name}\n{panel.caption}", fontsize=12)
    if data.shape[1] > 2:
        figure.supxlabel(
            "bottom: data (grey) and points on the two principal axes of the data", fontsize=9, color="#777777"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)


def _projection(data: Floats) -> Any:
    """A function onto two dimensions: the main axes of the data."""
    if data.shape[1] == 1:
        return lambda x: np.column_stack((x[:, 0], np.zeros(len(x))))
    if data.shape[1] == 2:
        return lambda x: x
    from sklearn.decomposition import PCA

    return PCA(2, random_state=0).fit(data).transform


def _mosaic(points: Floats, shape: tuple[int, int]) -> Floats:
    """Rows as images in a grid, sorted along their main axis so that likes are near each other."""
    height, width = shape
    order = np.argsort(_projection(points)(points)[:, 0]) if len(points) > 2 else np.arange(len(points))
    widest = int(np.ceil(np.sqrt(2 * len(points))))
    columns = max((c for c in range(widest // 2, widest + 1) if c and len(points) % c == 0), default=widest)
    lines = int(np.ceil(len(points) / columns))
    gap = 1
    mosaic = np.zeros((lines * (height + gap) - gap, columns * (width + gap) - gap), dtype=points.dtype)
    for place, index in enumerate(order):
        top, left = (place // columns) * (height + gap), (place % columns) * (width + gap)
        mosaic[top : top + height, left : left + width] = points[index].reshape(shape)
    return mosaic
