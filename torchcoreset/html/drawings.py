"""Small pictures as SVG, in colours that are seen on white and on black."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RED, BLUE = "#d1495b", "#4f8fb5"
WIDTH, HEIGHT = 180, 140  # of a picture, in pixels
MARGIN = 8
MOST = 500  # points; of more as many are drawn, evenly among them
AREA = 1500.0  # of all marks together, in square pixels
RADII = (1.2, 6.0)  # of the smallest mark and of the largest
LEAST_CHANGE = 1e-2  # of a value over a run that fills the height of its picture; a smaller one is drawn smaller


def draw_points(points: Any, weights: Any) -> str:
    """Points (n, d) as marks whose areas are their weights (n,); "" if there is nothing to draw.

    In one dimension they stand on a line, in more than two they are projected onto their two main axes.
    """
    x, b = (tensor.detach().cpu().double().numpy() for tensor in (points, weights))
    if len(x) > MOST:
        chosen = np.linspace(0, len(x) - 1, MOST).astype(int)
        x, b = x[chosen], b[chosen]
    if x.size == 0 or not (np.isfinite(x).all() and np.isfinite(b).all() and b.sum() > 0):
        return ""
    places = _in_the_plane(x)
    low, extent = places.min(0), float(np.ptp(places, axis=0).max()) or 1.0
    scale = min(WIDTH, HEIGHT) - 2 * MARGIN
    middle = (places.max(0) + low) / 2
    shift = (places - middle) / extent * scale
    radius = np.sqrt(AREA * b / b.sum() / math.pi).clip(*RADII)
    marks = "".join(
        f'<circle cx="{WIDTH / 2 + across:.1f}" cy="{HEIGHT / 2 - up:.1f}" r="{size:.1f}"/>'
        for (across, up), size in zip(shift, radius, strict=True)
    )
    line = f'<path d="M{MARGIN} {HEIGHT / 2}H{WIDTH - MARGIN}" stroke="currentColor" stroke-opacity=".4"/>'
    return _svg(f'{line if x.shape[1] == 1 else ""}<g fill="{RED}" fill-opacity=".75">{marks}</g>')


def draw_interval(low: float, high: float, name: str) -> str:
    """An interval on a line from 0; "" unless 0 <= low <= high are finite."""
    if not 0 <= low <= high < math.inf:
        return ""
    scale = (WIDTH - 2 * MARGIN) / (1.1 * high or 1.0)
    left, right = (MARGIN + end * scale for end in (low, high))
    return _svg(
        f'<path d="M{MARGIN} 30H{WIDTH - MARGIN}M{MARGIN} 25v10" stroke="currentColor" stroke-opacity=".5"/>'
        f'<rect x="{left:.1f}" y="25" width="{max(right - left, 2):.1f}" height="10" fill="{BLUE}" fill-opacity=".8"/>'
        f'<g fill="currentColor" font-size="11"><text x="{MARGIN}" y="52">0</text>'
        f'<text x="{right:.1f}" y="52" text-anchor="end">{high:.4g}</text>'
        f'<text x="{MARGIN}" y="14">{name}</text></g>',
        height=60,
    )


def draw_steps(values: Sequence[float], name: str) -> str:
    """Values over the steps of a run, as a line; "" for fewer than two."""
    known = [value for value in values if math.isfinite(value)]
    if len(known) < 2:
        return ""
    low, high = min(known), max(known)
    extent = max(high - low, LEAST_CHANGE * abs(high)) or 1.0
    across = np.linspace(MARGIN, WIDTH - MARGIN, len(known))
    up = 50 - (np.array(known) - low) / extent * 32
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(across, up, strict=True))
    return _svg(
        f'<path d="M{path}" fill="none" stroke="{BLUE}" stroke-width="1.5"/>'
        f'<text x="{MARGIN}" y="12" fill="currentColor" font-size="11">{name} {known[0]:.3g} to {known[-1]:.3g}</text>',
        height=60,
    )


def _in_the_plane(x: Floats) -> Floats:
    """Rows (n, 2): of one column beside zeros, of more than two the projections onto the two main axes."""
    if x.shape[1] == 1:
        return np.column_stack((x, np.zeros(len(x))))
    if x.shape[1] == 2:
        return x
    centred = x - x.mean(0)
    largest = np.abs(centred).max() or 1.0  # squares of huge numbers would overflow
    axes = np.linalg.svd(centred / largest, full_matrices=False)[2][:2]
    found: Floats = centred @ axes.T
    return found if found.shape[1] == 2 else np.column_stack((found, np.zeros(len(x))))


def _svg(content: str, height: int = HEIGHT) -> str:
    return f'<svg width="{WIDTH}" height="{height}" xmlns="http://www.w3.org/2000/svg">{content}</svg>'
