"""Draws the picture of how-to/labels.md: `python docs/labels.py [FILE.png]`. Needs matplotlib."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import torch

import torchcoreset as tc

mpl.use("Agg")
from matplotlib import pyplot as plt

TARGET = Path(__file__).parent / "images" / "labels.png"
ROWS, SIZE, PRICES = 3000, 16, (0.1, 1.0, None)
COLOURS = ("#14375e", "#b3541e")


def draw(target: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(ROWS, 2, generator=generator)
    labels = (rows[:, 0] + 0.6 * torch.randn(ROWS, generator=generator) > 0.4).long()
    figure, axes = plt.subplots(1, len(PRICES), figsize=(9.6, 3.5), dpi=80)
    for axis, price in zip(axes, PRICES, strict=True):
        labeled = tc.build_labeled_coreset(rows, labels, SIZE, price=price, progress=False)
        for k, colour in enumerate(COLOURS):
            axis.scatter(*rows[labels == k][:700].T, s=3, color=colour, alpha=0.25, linewidths=0)
            points = labeled.points.detach()[labeled.class_of == k]
            axis.scatter(*points.T, s=48, color=colour, edgecolors="white", linewidths=0.8, zorder=3)
        axis.set_title("a coreset of each class" if price is None else f"price={price:g}", fontsize=11)
        axis.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), xticks=[], yticks=[])
    figure.tight_layout(pad=0.6)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
