"""Certified intervals for the distance against the number of points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .canvas import COLOURS, Figure, Floats, canvas


def draw_certificates(tried: Any, *, epsilon: float | None = None, chosen: int | None = None) -> Figure:
    """Draw intervals for W_p against the number of points, on logarithmic axes.

    Args:
        tried: a `SizeResult`, or pairs of a number of points and its `Certificate`, all of the same power p.
        epsilon: a distance to mark; None for that of the result.
        chosen: a number of points to mark; None for that of the result.

    Raises:
        ValueError: no certificates, or those of different powers.
    """
    if hasattr(tried, "tried"):
        epsilon = tried.epsilon if epsilon is None else epsilon
        chosen = tried.size if chosen is None else chosen
        tried = tried.tried
    if not isinstance(tried, Sequence) or not all(isinstance(pair, Sequence) and len(pair) == 2 for pair in tried):
        raise ValueError("tried: got other things than pairs; expected a SizeResult, or pairs (size, Certificate).")
    if chosen is not None and chosen not in [size for size, _ in tried]:
        raise ValueError(
            f"chosen: got {chosen!r}; expected one of the sizes, {', '.join(str(size) for size, _ in tried)}."
        )
    powers = {certificate.p for _, certificate in tried}
    if len(powers) != 1:
        what = "none" if not tried else f"certificates of W_p for p = {sorted(powers)}"
        raise ValueError(f"tried: got {what}; expected pairs (size, Certificate) of one power p.")
    ordered = sorted(tried, key=lambda pair: pair[0])
    n, low, high = (
        np.array(values, dtype=float) for values in zip(*((size, c.lower, c.upper) for size, c in ordered), strict=True)
    )
    figure, axes = canvas(6.4, 4.6)
    axis = axes[0, 0]
    axis.fill_between(n, low, high, color=COLOURS[1], alpha=0.2, linewidth=0)
    axis.vlines(n, low, high, color=COLOURS[1], linewidth=2.5)
    axis.plot(n, high, color=COLOURS[1], marker="o", markersize=5, linewidth=1, label="certified interval")
    if chosen is not None:
        axis.plot(
            [chosen], high[n == chosen], marker="o", markersize=11, markerfacecolor="none", markeredgewidth=2,
            color=COLOURS[0], linestyle="none", label=f"chosen: {chosen} points",
        )  # fmt: skip
    if epsilon is not None:
        axis.axhline(epsilon, color=COLOURS[0], linestyle="--", linewidth=1.2, label=f"asked for: {epsilon:g}")
    seen = np.concatenate((low[low > 0], high[high > 0], [] if epsilon is None else [epsilon]))
    if len(seen):
        _plain_logarithms(axis, n, seen)
    axis.set(xlabel="points", ylabel=f"$W_{{{powers.pop():g}}}$ to the population")
    axis.legend(frameon=False)
    return figure


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
