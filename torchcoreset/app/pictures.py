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
    mean = data.mean(0)
    axes = np.linalg.eigh(np.cov((data - mean).T.astype(float)))[1][:, :-3:-1]
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), (0, 1)])  # eigenvectors have no sign of their own
    return lambda x: (x - mean) @ axes


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


def draw_cells(path: Path, data: Floats, points: Floats, potential: Floats, p: float = 2) -> None:
    """Draw a coreset over data in two dimensions, each Laguerre cell in a shade of its own, and write a PNG.

    Cell i holds the places y where |y - x_i|^p - v_i is smallest.

    Args:
        path: where the PNG goes; its folder is made.
        data: (m, 2).
        points: (n, 2).
        potential: (n,) as of a `Transport` or `Certificate`.
        p: power of the cost.

    Raises:
        ValueError: the data are not in two dimensions.
    """
    if data.shape[1] != 2 or points.shape[1] != 2:
        raise ValueError(
            f"data: got {data.shape[1]} columns and points with {points.shape[1]}; expected 2 of both, since cells are "
            "drawn in the plane. Use draw_comparison for more."
        )
    low, high = np.quantile(np.concatenate((data, points)), (0.001, 0.999), axis=0)
    margin = 0.05 * (high - low)
    low, high = np.minimum(low, points.min(0)) - margin, np.maximum(high, points.max(0)) + margin
    cells = _raster(low, high, points, potential, p)
    shown = data[np.random.default_rng(0).permutation(len(data))[:5000]]
    figure, axis = _canvas((6.4, 6.4))
    extent = (low[0], high[0], low[1], high[1])
    axis.imshow(_shades(cells), origin="lower", extent=extent, interpolation="nearest", zorder=0)
    axis.scatter(*shown.T, s=3, color="#555555", alpha=0.35, linewidths=0, rasterized=True)
    axis.scatter(*points.T, s=34, color=POINT_COLOURS[0], edgecolors="white", linewidths=0.8)
    axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal", xticks=[], yticks=[])
    axis.spines[:].set_visible(False)
    axis.set_title(f"{len(points)} points and their Laguerre cells (p = {p:g})", fontsize=12)
    _write(figure, path)


def draw_classes(
    path: Path, data: Floats, labels: NDArray[Any], points: Floats, point_labels: NDArray[Any], columns: list[str]
) -> None:
    """Draw a labelled coreset over its data, each class in a colour of its own, and write a picture.

    Args:
        path: where the picture goes; its folder is made.
        data: (m, d), projected on its two main axes if d > 2.
        labels: (m,) of the data.
        points: (n, d).
        point_labels: (n,) of the points.
        columns: names of the d features.
    """
    import matplotlib

    figure, axis = _canvas((6.8, 6.0))
    classes = np.unique(labels)
    palette = matplotlib.colormaps["tab10" if len(classes) <= 10 else "turbo"]
    project = _projection(data)
    shown = np.random.default_rng(0).permutation(len(data))[:8000]
    for k, label in enumerate(classes):
        colour = palette(k) if len(classes) <= 10 else palette(k / (len(classes) - 1))
        of_class = shown[labels[shown] == label]
        axis.scatter(*project(data[of_class]).T, s=5, color=colour, alpha=0.22, linewidths=0, rasterized=True)
        x = project(points[point_labels == label]).T
        axis.scatter(*x, s=46, color=colour, edgecolors="black", linewidths=0.8, label=str(label), zorder=3)
    names = columns if data.shape[1] == 2 else ["first principal axis", "second principal axis"]
    axis.set(xlabel=names[0], ylabel=names[1] if data.shape[1] > 1 else "", xticks=[], yticks=[])
    axis.set_title(f"{len(points)} points for {len(data):,} rows in {len(classes)} classes", fontsize=12)
    if len(classes) <= 20:
        figure.legend(*axis.get_legend_handles_labels(), loc="outside right center", frameon=False)
    _write(figure, path)


def draw_bounds(path: Path, values: Floats, lower: Floats, p: float = 2) -> None:
    """Draw how the two bounds on W_p fell over the steps of a run, and write a PNG.

    Args:
        path: where the PNG goes; its folder is made.
        values: (steps,) upper bounds W_p^p, as the `value` of each `Step` of a history.
        lower: (steps,) their lower bounds.
        p: power of the cost; the picture shows roots.
    """
    steps = np.arange(len(values))
    upper, below = (np.maximum(bound, 0) ** (1 / p) for bound in (np.asarray(values), np.asarray(lower)))
    gap = np.maximum(np.asarray(values) - np.asarray(lower), 0) / np.maximum(np.asarray(values), 1e-300)
    figure, axes = _canvas((6.8, 5.4), rows=2)
    axes[0].fill_between(steps, below, upper, color=POINT_COLOURS[1], alpha=0.2, linewidth=0)
    axes[0].plot(steps, upper, color=POINT_COLOURS[0], label="feasible plan, from above")
    axes[0].plot(steps, below, color=POINT_COLOURS[1], linestyle="--", label="dual, from below")
    axes[0].ticklabel_format(axis="y", useOffset=False)
    axes[0].set_ylabel(f"$W_{{{p:g}}}$ to the samples")
    axes[0].legend(frameon=False)
    seen = gap > 0  # a gap of zero has no logarithm
    axes[1].semilogy(steps[seen], gap[seen], color="#555555", marker="o", markersize=3, linewidth=1)
    axes[1].set(xlabel="step", ylabel="relative gap of the bounds")
    axes[1].set_xlim(axes[0].get_xlim())
    _write(figure, path)


def draw_certificates(
    path: Path, sizes: list[int], lower: list[float], upper: list[float], p: float = 2, epsilon: float | None = None
) -> None:
    """Draw certified intervals against the number of points, both logarithmic, and write a PNG.

    Args:
        path: where the PNG goes; its folder is made.
        sizes: numbers of points n.
        lower, upper: ends of the certified intervals for W_p, as many.
        p: power of the cost.
        epsilon: a distance to mark.
    """
    order = np.argsort(sizes)
    n, low, high = (np.asarray(values, dtype=float)[order] for values in (sizes, lower, upper))
    figure, axis = _canvas((6.4, 4.6))
    axis.fill_between(n, low, high, color=POINT_COLOURS[1], alpha=0.2, linewidth=0)
    axis.vlines(n, low, high, color=POINT_COLOURS[1], linewidth=2.5)
    axis.plot(n, high, color=POINT_COLOURS[1], marker="o", markersize=5, linewidth=1, label="certified interval")
    if epsilon is not None:
        axis.axhline(epsilon, color=POINT_COLOURS[0], linestyle="--", linewidth=1.2, label=f"asked for: {epsilon:g}")
    _plain_logarithms(axis, n, np.concatenate((low[low > 0], high, [] if epsilon is None else [epsilon])))
    axis.set(xlabel="points", ylabel=f"$W_{{{p:g}}}$ to the population")
    axis.legend(frameon=False)
    _write(figure, path)


def _canvas(size: tuple[float, float], rows: int = 1) -> tuple[Any, Any]:
    """A figure that is registered nowhere, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=130, layout="constrained")
    axes = figure.subplots(rows, 1)
    for axis in np.atleast_1d(axes):
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _write(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _plain_logarithms(axis: Any, x: Floats, y: Floats) -> None:
    """Logarithmic axes that say 0.05 rather than 5 x 10^-2, with the numbers of points as ticks below."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_ylim(y.min() / 1.15, y.max() * 1.15)
    named: list[float] = []
    for size in x:
        if not named or size > 1.15 * named[-1]:  # nearer ones would print over each other
            named.append(float(size))
    decades = 10.0 ** np.arange(np.floor(np.log10(y.min())), np.ceil(np.log10(y.max())) + 1)
    steps = np.array([1, 2, 5] if y.max() > 8 * y.min() else [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9])
    heights = np.outer(decades, steps).ravel().tolist()
    for one, ticks in ((axis.xaxis, named), (axis.yaxis, heights)):
        one.set_major_locator(FixedLocator(ticks))
        one.set_major_formatter(FixedFormatter([f"{tick:.4g}" for tick in ticks]))
        one.set_minor_locator(NullLocator())


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
