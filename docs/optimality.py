"""Draws the picture of how-to/optimality.md: `python docs/optimality.py [FILE.png]`. Needs matplotlib, scikit-learn."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import torch

import torchcoreset as tc

mpl.use("Agg")
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

TARGET = Path(__file__).parent / "images" / "optimality.png"
SIZES, ROWS = (5, 10, 20, 50, 100, 200), 1000


def draw(target: Path) -> None:
    data = torch.from_numpy(load_digits().data)[:ROWS]
    built = [tc.build_coreset(data, size, progress=False).distance for size in SIZES]
    subsets = [tc.Coreset.from_source(data, size, seed=1).points.detach() for size in SIZES]
    random = [tc.transport(subset, data).value ** 0.5 for subset in subsets]
    bounds = {
        method: [tc.optimality_bound(data, size, method=method).distance for size in SIZES]
        for method in ("semidefinite", "pairs")
    }
    figure, axis = plt.subplots(figsize=(6.8, 4.2), dpi=110)
    axis.fill_between(SIZES, 0, bounds["semidefinite"], color="#e4e7eb", label="no points of equal weight reach this")
    axis.plot(SIZES, random, color="#8a8f98", marker="o", markersize=4, label="random rows")
    axis.plot(SIZES, built, color="#14375e", marker="o", markersize=5, label="build_coreset")
    axis.plot(SIZES, bounds["semidefinite"], color="#b3541e", linewidth=1, label="optimality_bound, semidefinite")
    axis.plot(SIZES, bounds["pairs"], color="#b3541e", linewidth=1, linestyle=":", label="the same, pairs")
    axis.set_xscale("log")
    axis.set_xticks(SIZES, [str(size) for size in SIZES])
    axis.minorticks_off()
    axis.set(xlabel="points", ylabel=f"$W_2$ to {ROWS:,} digits", ylim=(12, 1.04 * max(random)))
    axis.legend(frameon=False, fontsize=9)
    figure.tight_layout()
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
