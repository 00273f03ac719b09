"""A palette for a picture: n colours for all its pixels, each used as often, or as it comes.

A mosaic from a box with as many tiles of each colour, a print with equal areas of each ink, or a knitting pattern uses
its colours equally. Then a pixel cannot have the nearest colour: the plan of least cost, which `tc.transport` finds,
says which it has. Judged are, on 68,480 pixels, the root mean square of the difference of colours (0 to 255) under

    equal     the plan in which each colour covers as many pixels
    nearest   each pixel the nearest colour, as in an indexed image

Palettes are made from pixels that are drawn anew in each run.

    python examples/palette.py --config configs/palette.yaml [--small]
    python examples/report.py palette
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import experiment
import figures
import numpy as np
import report
import torch
from experiment import Row, Task
from numpy.typing import NDArray
from torch import Tensor

import torchcoreset as tc

NAME = "palette"
WEIGHTS: dict[str, Any] = {"equal weights": None, "weights within (0.5, 2)": (0.5, 2.0), "free weights": "free"}
METHODS = (*WEIGHTS, "KMeans", "median cut", "random pixels")
JUDGED = {"equal": "each colour as often", "nearest": "nearest colour"}
VALUES = ("equal", "nearest", "least_used", "seconds")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Fields that one palette does not depend on stay out of its `repr`, by which results are kept."""

    data: list[str] = field(repr=False)
    pixels: int
    sizes: list[int] = field(repr=False)
    runs: int = field(repr=False)
    jobs: int = field(repr=False)


def main(arguments: list[str] | None = None) -> list[Row]:
    """Run, print tables and draw; the quartiles."""
    settings, out = experiment.read(Settings, NAME, __doc__, arguments)
    keep = out / f"{NAME}_kept.jsonl"
    rows = experiment.each(run, experiment.tasks(settings, METHODS), settings.jobs, keep)
    rows.sort(key=lambda row: (settings.data.index(row["data"]), METHODS.index(row["method"]), row["size"]))
    experiment.write(NAME, rows, settings, out)
    found = report.quartiles(rows, ["data", "method", "size"], VALUES)
    report.conclude(NAME, rows, found, tables(found), out)
    figures.save(draw(found), out / f"{NAME}.png")
    return found


@cache
def picture(name: str) -> NDArray[np.uint8]:
    """(214, 320, 3), every other pixel of a photograph that scikit-learn ships: "china" or "flower"."""
    from sklearn.datasets import load_sample_image

    image: NDArray[np.uint8] = load_sample_image(f"{name}.jpg")[::2, ::2].copy()
    return image


def run(task: Task) -> Row:
    """One palette, and what it makes of all pixels."""
    pixels = torch.from_numpy(picture(task.data).reshape(-1, 3)).float()
    generator = torch.Generator().manual_seed(task.seed)
    drawn = pixels[torch.randperm(len(pixels), generator=generator)[: task.settings.pixels]]
    colours, seconds = experiment.timed(lambda: palette(task.method, drawn, task.size, task.seed))
    return {"data": task.data, "method": task.method, "size": task.size, "seed": task.seed,
            **judge(colours, pixels), "seconds": seconds}  # fmt: skip


def palette(method: str, drawn: Tensor, size: int, seed: int) -> Tensor:
    """(size, 3) colours for the pixels (m, 3)."""
    if method in WEIGHTS:
        result = tc.build_coreset(drawn, size, weights=WEIGHTS[method], seed=seed, progress=False)
        return result.coreset.points.detach()
    if method == "random pixels":
        return drawn[:size]
    if method == "KMeans":
        from sklearn.cluster import KMeans

        model = KMeans(size, n_init=10, random_state=seed).fit(drawn.numpy())
        return torch.from_numpy(model.cluster_centers_).float()
    return median_cut(drawn, size)


def median_cut(drawn: Tensor, size: int) -> Tensor:
    """Means of boxes, each of which was cut at the median of its widest side (Heckbert 1982), as Pillow does it."""
    from PIL import Image

    image = Image.fromarray(drawn.to(torch.uint8).numpy()[None]).quantize(size, Image.Quantize.MEDIANCUT)
    held = torch.tensor(image.getpalette(), dtype=torch.float32).view(-1, 3)
    return held[: int(np.asarray(image).max()) + 1]


def judge(colours: Tensor, pixels: Tensor) -> Row:
    """Root mean squares with equal use and with the nearest colour, and the least use of a colour, in equal shares."""
    plan = tc.transport(colours, pixels, 2)
    squares = torch.cdist(pixels, colours).square()
    least, nearest = squares.min(1)
    used = nearest.bincount(minlength=len(colours)).min().item() * len(colours) / len(pixels)
    return {"equal": float(plan.value) ** 0.5, "nearest": least.mean().sqrt().item(), "least_used": used}


def tables(found: Sequence[Row]) -> dict[str, str]:
    """Markdown tables for each picture."""
    heads = {"equal": "equal use", "nearest": "nearest colour", "least_used": "least use", "seconds": "seconds"}
    made = {}
    for data in dict.fromkeys(row["data"] for row in found):
        here = [row for row in found if row["data"] == data]
        for value, head in heads.items():
            made[f"{data}, {head}"] = report.table(here, value, "method", "size", digits=3 if value != "seconds" else 2)
    return made


def draw(found: Sequence[Row]) -> Any:
    """Panels for each picture: error with equal use, and with the nearest colour, against the number of colours."""
    kinds = [(data, value) for value in JUDGED for data in dict.fromkeys(row["data"] for row in found)]
    figure, axes = figures.panels(len(kinds))
    for axis, (data, value) in zip(axes, kinds, strict=True):
        here = [row for row in found if row["data"] == data]
        figures.curves(axis, here, value, figures.looks(METHODS))
        axis.set(yscale="log", title=f"{data}, {JUDGED[value]}", xlabel="colours", ylabel="error, of 255")
        figures.sizes(axis, (row["size"] for row in here))
        axis.set_yticks((10, 20, 50, 100), ("10", "20", "50", "100"))
        figures.name_lines(axis)
    return figure


if __name__ == "__main__":
    main()
