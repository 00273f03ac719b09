"""Draws the picture of how-to/distances.md: `python docs/distances.py [FILE.png]`. Needs matplotlib."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import torch

import torchcoreset as tc

mpl.use("Agg")
from matplotlib import pyplot as plt

TARGET = Path(__file__).parent / "images" / "distances.png"
BELTS = torch.tensor([[-18.0, -178.0], [52.0, 179.0], [37.0, 142.0], [-33.0, -72.0], [38.0, 22.0], [-6.0, 130.0]])
MASSES = torch.tensor([4.0, 2.0, 4.0, 3.0, 1.0, 4.0])


def quakes(count: int) -> torch.Tensor:
    """Places (count, 2) as the page draws them, latitudes and longitudes in degrees."""
    generator = torch.Generator().manual_seed(0)
    which = torch.multinomial(MASSES, count, True, generator=generator)
    places = BELTS[which] + torch.randn(count, 2, generator=generator) * torch.tensor([4.0, 8.0])
    places[:, 1] = (places[:, 1] + 180) % 360 - 180
    return places


def draw(target: Path) -> None:
    data = quakes(8000)[:4000]
    built = {
        "degrees as a plane": tc.build_coreset(data, 30, p=1, progress=False).points,
        "cost=GreatCircle()": tc.build_coreset(data, 30, p=1, cost=tc.costs.GreatCircle(), progress=False).points,
    }
    figure, axes = plt.subplots(2, figsize=(6.8, 5.0), dpi=90, sharex=True)
    for axis, (name, points) in zip(axes, built.items(), strict=True):
        axis.plot(data[:, 1] % 360, data[:, 0], ".", color="#b9bfc8", markersize=1.5)
        axis.plot(points[:, 1] % 360, points[:, 0], "o", color="#14375e", markersize=5)
        axis.axvline(180, color="#b3541e", linewidth=0.8)
        axis.set(ylabel="latitude", title=name, ylim=(-60, 75), xlim=(0, 360))
    axes[1].set(xlabel="longitude east; the line is the date line")
    figure.tight_layout()
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
