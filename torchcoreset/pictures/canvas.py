"""Figures without pyplot, the colours of all pictures, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure  # noqa: PLC0414  (the other modules import it from here)
else:
    Figure = Any  # matplotlib is imported when a figure is made

Floats = NDArray[np.float64]

# Colour-blind readers can tell them apart: the coreset, what it is compared with, further ones.
COLOURS = ("#d1495b", "#2e6f95", "#5b8c5a", "#8d6a9f", "#e09f3e", "#555555")
GREY = "#c9c9c9"
SHOWN = 8000  # samples; of more a fixed random part is drawn


def canvas(width: float, height: float, rows: int = 1, columns: int = 1, **gridspec: Any) -> tuple[Figure, Any]:
    """A figure of so many inches, and its axes as an array (rows, columns).

    Without pyplot no window opens, and nothing has to be closed.
    """
    try:
        from matplotlib import figure as matplotlib_figure
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'torchcoreset[plot]'.") from error
    figure = matplotlib_figure.Figure(figsize=(width, height), dpi=130, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, gridspec_kw=gridspec)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def table(name: str, values: Any) -> Floats:
    """Rows as an array (rows, d), from a Coreset or anything else with points, a tensor, or an array.

    Raises:
        ValueError: not a table of finite numbers.
    """
    values = getattr(values, "points", values)
    held = values.detach().cpu() if isinstance(values, torch.Tensor) else values
    try:
        array = np.asarray(held, dtype=np.float64)
    except (ValueError, TypeError) as error:
        what = _columns_of_text(held) or f"{type(held).__name__}, which holds other things than numbers"
        raise ValueError(f"{name}: got {what}; expected a table (rows, d) of numbers, or a Coreset.") from error
    if array.ndim != 2 or 0 in array.shape or not np.isfinite(array).all():
        what = f"shape {array.shape}" if array.ndim != 2 or 0 in array.shape else "numbers that are not finite"
        raise ValueError(f"{name}: got {what}; expected (rows, d) finite numbers, at least one row.")
    return array


def both(coreset: Any, data: Any) -> tuple[Floats, Floats]:
    """Points and data, of equal dimension; of very many data a part."""
    points, rows = table("coreset", coreset), table("data", data)
    if points.shape[1] != rows.shape[1]:
        raise ValueError(
            f"data: got {rows.shape[1]} columns for points with {points.shape[1]}; expected as many. "
            "Draw the points over the data they were built from, with the same columns and scaling."
        )
    return points, rows


def names_of(columns: Sequence[str] | None, data: Any, width: int) -> list[str] | None:
    """Names of the columns: those given, or of a DataFrame its own; None if there are none.

    Raises:
        ValueError: not one for each column.
    """
    named = getattr(data, "columns", None) if columns is None else columns
    if named is None:
        return None
    names = [named] if isinstance(named, str) else [str(name) for name in named]
    if len(names) != width:
        raise ValueError(f"columns: got {len(names)} names for {width} columns; expected one for each.")
    return names


def check_power(p: Any) -> float:
    """The power of a cost; ValueError unless it is one."""
    if isinstance(p, bool) or not isinstance(p, (int, float)) or not p >= 1:
        raise ValueError(f"p: got {p!r}; expected a number >= 1, the power of the distance.")
    return float(p)


def _columns_of_text(frame: Any) -> str:
    """Which columns of a DataFrame hold no numbers, in words; "" of anything else."""
    if not (hasattr(frame, "columns") and hasattr(frame, "dtypes")):
        return ""
    kinds = zip(frame.columns, frame.dtypes, strict=True)
    odd = [repr(name) for name, kind in kinds if getattr(kind, "kind", "O") not in "biuf"]
    return f"columns that hold no numbers, {', '.join(odd[:6])}"


def some(rows: Floats) -> Floats:
    """At most SHOWN rows, the same ones each time."""
    return rows[np.random.default_rng(0).permutation(len(rows))[:SHOWN]]


def dot(rows: Floats) -> float:
    """The area of a sample's mark: larger where there are few."""
    return float(np.clip(SHOWN / len(rows), 3, 14))


def scatter(
    axis: Any, rows: Floats, points: Floats, areas: Any, colour: str, project: Callable[[Floats], Floats]
) -> None:
    """Rows in grey, at most SHOWN of them, and points over them."""
    axis.scatter(*project(some(rows)).T, s=dot(rows), color=GREY, linewidths=0, rasterized=True)
    axis.scatter(*project(points).T, s=areas, color=colour, edgecolors="white", linewidths=0.7)


def areas(coreset: Any, size: float) -> Floats:
    """The area of each point's mark, in proportion to its weight; `size` on average."""
    weights = getattr(coreset, "weights", None)
    if weights is None:
        return np.full(len(table("coreset", coreset)), size)
    share = weights.detach().cpu().double().numpy()
    return np.asarray(size * len(share) * share / share.sum(), dtype=np.float64)


def onto_main_axes(data: Floats) -> Callable[[Floats], Floats]:
    """A projection onto two dimensions: the plane itself, a line at height 0, else the two main axes of the data."""
    if data.shape[1] <= 2:
        return lambda x: x if x.shape[1] == 2 else np.column_stack((x, 0 * x))
    mean = data.mean(0)
    axes = np.linalg.eigh((data - mean).T @ (data - mean))[1][:, :-3:-1]
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(axes.shape[1])])  # eigenvectors have no own sign
    return lambda x: (x - mean) @ axes


def bare(axis: Any, *, equal: bool = True) -> None:
    """No ticks and no frame: for places whose units say nothing."""
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(False)
    if equal:
        axis.set_aspect("equal", adjustable="datalim")
