"""How the cost of our solver grows with n, m and d, beside that of one hard pass: numbers, and a picture of them."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

import torchcoreset as tc

from .measure import best_of, hard_pass_over
from .problems import normal

METHODS = {"gap 1e-3": {"tolerance": 1e-3}, "gap 1e-4": {"tolerance": 1e-4}, "exact": {"exact": True}}
HARD_PASS = "one hard pass"
TITLES = {"n": "points", "m": "samples", "d": "dimension"}


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One size varied, the others held.

    Attributes:
        n, m, d: held sizes.
        vary: "n", "m" or "d".
        sizes: its values.
    """

    n: int = 100
    m: int = 20_000
    d: int = 8
    vary: str
    sizes: tuple[int, ...]


FULL = [
    Sweep(vary="n", sizes=(10, 30, 100, 300, 1000)),
    Sweep(vary="m", sizes=(2_000, 10_000, 50_000, 200_000, 1_000_000)),
    Sweep(vary="d", sizes=(2, 4, 8, 16, 32, 64)),
]
QUICK = [
    Sweep(vary="n", m=5000, sizes=(10, 30, 100)),
    Sweep(vary="m", n=30, sizes=(1000, 4000, 16_000)),
    Sweep(vary="d", n=30, m=5000, sizes=(2, 8, 32)),
]


def measure_growth(sweeps: list[Sweep], tell: Callable[[str], None]) -> list[dict[str, object]]:
    """One entry for each size and method: seconds, least of three."""
    entries: list[dict[str, object]] = []
    for sweep in sweeps:
        for size in sweep.sizes:
            sizes = {"n": sweep.n, "m": sweep.m, "d": sweep.d, sweep.vary: size}
            x, y = normal(**sizes)(0)
            seconds = {HARD_PASS: best_of(3, lambda x=x, y=y: hard_pass_over(x, y))}
            for name, settings in METHODS.items():
                seconds[name] = best_of(3, lambda x=x, y=y, settings=settings: _solve(x, y, settings))
            entries += [{**sizes, "vary": sweep.vary, "method": name, "seconds": s} for name, s in seconds.items()]
            tell(f"{sweep.vary}={size}: " + ", ".join(f"{name} {s:.3g} s" for name, s in seconds.items()))
    return entries


def _solve(x: torch.Tensor, y: torch.Tensor, settings: dict[str, float | bool]) -> None:
    """One solve; that it did not converge is for the table to say, here it is time spent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.ConvergenceWarning)
        with contextlib.suppress(tc.ConvergenceError):
            tc.transport(x, y, **settings)


def draw_growth(entries: list[dict[str, object]], path: Path) -> None:
    """Three log-log panels with a dotted line of slope 1. Raises ImportError without matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, vary in zip(figure.subplots(1, 3, sharey=True), "nmd", strict=True):
        for method in (*METHODS, HARD_PASS):
            mine = [entry for entry in entries if entry["vary"] == vary and entry["method"] == method]
            sizes, seconds = [entry[vary] for entry in mine], [entry["seconds"] for entry in mine]
            axes.loglog(sizes, seconds, marker="o", linestyle="--" if method == HARD_PASS else "-", label=method)
        held = ", ".join(f"{name}={mine[0][name]:,}" for name in "nmd" if name != vary) if mine else ""
        if mine:
            axes.loglog(sizes, [seconds[0] * size / sizes[0] for size in sizes], ":", color="0.6", label="slope 1")
        axes.set(title=f"{TITLES[vary]} ({held})", xlabel=vary)
        if mine:
            axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axes.minorticks_off()
        axes.grid(which="both", alpha=0.2)
    figure.axes[0].set_ylabel("seconds, cold solve")
    figure.axes[0].legend()
    figure.savefig(path, dpi=130)
