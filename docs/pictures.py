"""Draws the picture of the README, in light and dark: `python docs/pictures.py [FOLDER]`. Needs matplotlib.

Both halves are what `torchcoreset.pictures.draw_cells` shows: points, samples, and the Laguerre cell of each point.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from torch import Tensor

import torchcoreset as tc

mpl.use("Agg")
from matplotlib import pyplot as plt

FOLDER = Path(__file__).parent / "images"
SIZE, ROWS = 150, 20_000
DRAWN = 6000  # samples that are shown
PIXELS = 820  # of a cell picture, across and up
HALF = 1.75  # half the width of the window, in the unit of the data


@dataclass(frozen=True)
class Theme:
    """Colours of a picture.

    Attributes:
        paper: behind the pictures.
        ink: of the text.
        strength: of the hue of a cell, between 0 and 1.
        value: brightness of a cell, between 0 and 1.
        edge: of cells.
        sample, point, rim: of marks, and of the edge of a point's.
    """

    paper: str
    ink: str
    strength: float
    value: float
    edge: str
    sample: str
    point: str
    rim: str


THEMES = {
    "light": Theme("#ffffff", "#1f2328", 0.30, 0.97, "#ffffff", "#4b5563", "#101828", "#ffffff"),
    "dark": Theme("#0d1117", "#e6edf3", 0.62, 0.34, "#0d1117", "#c9d4e3", "#ffd866", "#0d1117"),
}


def spiral(rows: int) -> Tensor:
    """Samples of a galaxy: two arms, a bulge, and a few stars in between, (rows, 2)."""
    generator = torch.Generator().manual_seed(4)
    along = torch.rand(rows, generator=generator).sqrt()
    arm = torch.pi * torch.randint(2, (rows,), generator=generator)
    angle = arm + 4.4 * along
    radius = 0.12 + 1.35 * along
    width = 0.03 + 0.07 * along
    noise = width[:, None] * torch.randn(rows, 2, generator=generator)
    arms = radius[:, None] * torch.stack((angle.cos(), angle.sin()), 1) + noise
    bulge = 0.17 * torch.randn(rows, 2, generator=generator)
    field = 0.75 * torch.randn(rows, 2, generator=generator)
    kind = torch.rand(rows, generator=generator)[:, None]
    return torch.where(kind < 0.80, arms, torch.where(kind < 0.95, bulge, field))


def shades(cells: Tensor, points: Tensor, theme: Theme) -> np.ndarray:
    """A colour for each pixel: the hue turns with the direction of the cell's point, and neighbours differ a little."""
    angle = torch.atan2(points[:, 1], points[:, 0]).numpy()
    step = np.random.default_rng(0).permutation(len(points)) / len(points)
    hue = (angle / (2 * np.pi) + 0.60 + 0.05 * step) % 1.0
    strength = theme.strength * (0.75 + 0.5 * step)
    value = np.clip(theme.value * (0.94 + 0.10 * step[::-1]), 0, 1)
    tones = mpl.colors.hsv_to_rgb(np.stack((hue, np.clip(strength, 0, 1), value), 1))
    image = tones[cells.numpy()]
    edge = np.zeros(cells.shape, dtype=bool)
    edge[1:] |= (cells[1:] != cells[:-1]).numpy()
    edge[:, 1:] |= (cells[:, 1:] != cells[:, :-1]).numpy()
    image[edge] = mpl.colors.to_rgb(theme.edge)
    return image


def cells_of(points: Tensor, potential: Tensor, pixels: int) -> Tensor:
    """The point whose Laguerre cell each pixel is in, (pixels, pixels)."""
    axis = torch.linspace(-HALF, HALF, pixels)
    grid = torch.cartesian_prod(axis, axis).flip(1)
    return (torch.cdist(grid, points).square() - potential.float()).argmin(1).reshape(pixels, pixels)


def panel(axes: Any, data: Tensor, points: Tensor, cells: Tensor, theme: Theme) -> None:
    """Cells, samples and points of one half of the picture."""
    extent = (-HALF, HALF, -HALF, HALF)
    axes.imshow(shades(cells, points, theme), origin="lower", extent=extent, interpolation="nearest")
    axes.scatter(*data[:DRAWN].T, s=0.5, c=theme.sample, alpha=0.5, linewidths=0)
    axes.scatter(*points.T, s=15, c=theme.point, edgecolors=theme.rim, linewidths=0.6)
    axes.set(xlim=(-HALF, HALF), ylim=(-HALF, HALF), aspect="equal")
    axes.set_axis_off()


def draw(folder: Path, size: int = SIZE, rows: int = ROWS, pixels: int = PIXELS) -> None:
    """Write coreset-light.png and coreset-dark.png."""
    data = spiral(rows)
    built = tc.build_coreset(data, size, progress=False)
    subset = tc.Coreset.from_source(data, size, seed=1).points.detach()
    random = tc.transport(subset, data)
    points = built.coreset.points.detach()
    halves = [
        (subset, cells_of(subset, random.potential, pixels), f"{size} random rows of {rows:,}", random.value**0.5),
        (points, cells_of(points, built.transport.potential, pixels), f"{size} points of a coreset", built.distance),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for name, theme in THEMES.items():
        figure, axes = plt.subplots(1, 2, figsize=(9.6, 5.15), dpi=125, facecolor=theme.paper)
        for half, (points, cells, title, distance) in zip(axes, halves, strict=True):
            panel(half, data, points, cells, theme)
            half.set_title(f"{title}:  $W_2$ = {distance:.3f}", fontsize=12.5, color=theme.ink, pad=8)
        figure.subplots_adjust(left=0.005, right=0.995, bottom=0.01, top=0.93, wspace=0.02)
        target = folder / f"coreset-{name}.png"
        figure.savefig(target)
        plt.close(figure)
        shrink(target)


def shrink(target: Path, colours: int = 160) -> None:
    """Keep a palette, which is enough for flat shades and a third of the bytes."""
    from PIL import Image

    Image.open(target).convert("RGB").quantize(colours, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
