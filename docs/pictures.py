"""Draws the picture of the README: `python docs/pictures.py [FILE.png]`. Needs matplotlib."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import torch
from torch import Tensor

import torchcoreset as tc

mpl.use("Agg")
from matplotlib import pyplot as plt

TARGET = Path(__file__).parent / "images" / "coreset.png"
SIZE, ROWS, PIXELS = 60, 20_000, 500
SHADES = ["#dbe7f3", "#f6e3cf", "#dcecd9", "#efdce6", "#ece8cf", "#dfdff0", "#d6ebe9"]


def two_arcs(rows: int) -> Tensor:
    """Samples of two bent arcs of unlike mass, and a little noise, (rows, 2)."""
    generator = torch.Generator().manual_seed(4)
    first = torch.rand(rows, generator=generator) < 0.65
    angle = torch.pi * torch.rand(rows, generator=generator).sqrt()
    x = torch.where(first, angle.cos(), 1 - angle.cos())
    y = torch.where(first, angle.sin(), 0.5 - angle.sin())
    width = torch.where(first, 0.13, 0.07)
    return torch.stack((x, y), 1) + width[:, None] * torch.randn(rows, 2, generator=generator)


def colours(points: Tensor) -> list[int]:
    """A shade for each cell, other than those of the nearest points."""
    chosen: list[int] = []
    for i in range(len(points)):
        near = (points[:i] - points[i]).norm(dim=1).argsort()[:5].tolist() if i else []
        chosen.append(next(k for k in range(len(SHADES)) if k not in {chosen[j] for j in near}))
    return chosen


def draw(target: Path) -> None:
    data = two_arcs(ROWS)
    built = tc.build_coreset(data, SIZE, progress=False)
    subset = tc.Coreset.from_source(data, SIZE, seed=1).points.detach()
    random = tc.transport(subset, data)
    panels = [
        (built.coreset.points.detach(), built.transport.potential, f"{SIZE} points of build_coreset", built.distance),
        (subset, random.potential, f"{SIZE} random rows", random.value**0.5),
    ]
    low, high = data.quantile(0.0005, 0) - 0.1, data.quantile(0.9995, 0) + 0.1
    width, height = (high - low).tolist()
    rows = round(PIXELS * height / width)
    axis = [torch.linspace(float(low[k]), float(high[k]), n) for k, n in enumerate((PIXELS, rows))]
    grid = torch.cartesian_prod(axis[1], axis[0]).flip(1)
    figure, axes = plt.subplots(1, 2, figsize=(9.2, 9.2 / 2 * height / width + 0.45), dpi=110)
    for axes_of, (points, potential, title, distance) in zip(axes, panels, strict=True):
        cell = (torch.cdist(grid, points).square() - potential.float()).argmin(1).reshape(rows, PIXELS)
        shade = torch.tensor(colours(points))[cell]
        extent = (float(low[0]), float(high[0]), float(low[1]), float(high[1]))
        palette = mpl.colors.ListedColormap(SHADES)
        last = len(SHADES) - 1
        axes_of.imshow(shade, origin="lower", extent=extent, cmap=palette, vmin=0, vmax=last, interpolation="nearest")
        axes_of.scatter(*data[:1500].T, s=0.6, c="#8a8f98", linewidths=0)
        axes_of.scatter(*points.T, s=16, c="#14375e", edgecolors="white", linewidths=0.6)
        axes_of.set_title(f"{title}: $W_2$ = {distance:.3f}", fontsize=11)
        axes_of.set_xlim(extent[:2])
        axes_of.set_ylim(extent[2:])
        axes_of.set_axis_off()
    figure.tight_layout(pad=0.6)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)
    shrink(target)


def shrink(target: Path) -> None:
    """Keep 48 colours, which is enough for flat shades and a third of the bytes."""
    from PIL import Image

    Image.open(target).convert("RGB").quantize(48, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
