"""Figure 1: a coreset of a Gaussian, its image under (x, y) -> (x, x^2 + y), a coreset of the image, a random sample.

A coreset of the noise, pushed through a map, is a coreset of what the map makes of the noise. The paper proves it with
the Lipschitz constant of the map, which this one does not have; the plan between noise and coreset, pushed through the
map, is a bound all the same ("coupling" in the tables). Distances are to the population, not to a sample: intervals
that hold at 95 %.

    python examples/banana.py --config configs/banana.yaml [--small]
    python examples/report.py banana

Source: Claici, Genevay, Solomon (2020), figure 1 and the proposition on pushforward measures in section 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import experiment
import figures
import report
import torch
from experiment import Row, Task
from torch import Tensor

import torchcoreset as tc

NAME = "banana"
GAUSSIAN = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
NOISE, NOISE_SAMPLE = "coreset of the Gaussian", "sample of the Gaussian"
IMAGE, DIRECT, RANDOM = "image of the coreset", "direct coreset", "random sample"
PREIMAGES = {IMAGE: NOISE, RANDOM: NOISE_SAMPLE}
METHODS = (NOISE, NOISE_SAMPLE, DIRECT, IMAGE, RANDOM)
TICKS = (0.2, 0.3, 0.4, 0.5, 0.7, 1, 1.4)  # of distances in the picture
VALUES = ("distance", "lower", "upper", "coupling", "seconds")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Fields that one set of points does not depend on stay out of its `repr`, by which results are kept."""

    sizes: list[int] = field(repr=False)
    samples: int
    certified: int
    runs: int = field(repr=False)
    shown: int = field(repr=False)
    jobs: int = field(repr=False)


def main(arguments: list[str] | None = None) -> list[Row]:
    """Build, certify, print the tables and draw; the quartiles."""
    settings, out = experiment.read(Settings, NAME, __doc__, arguments)
    tasks = [
        Task(settings, NAME, "all", size, seed)
        for seed in range(settings.runs)
        for size in sorted(settings.sizes, reverse=True)
    ]
    rows = [row for held in experiment.each(run, tasks, settings.jobs, out / f"{NAME}_kept.jsonl") for row in held]
    rows.sort(key=lambda row: (METHODS.index(row["method"]), row["size"]))
    experiment.write(NAME, rows, settings, out)
    found = [{**row, **counted(rows, row)} for row in report.quartiles(rows, ["method", "size"], VALUES)]
    report.conclude(NAME, rows, found, tables(found), out)
    figures.save(draw(found), out / f"{NAME}.png")
    draw_points({name: points for name, (points, _) in place(settings, settings.shown, 0).items()}, out)
    return found


def banana(z: Tensor) -> Tensor:
    """(x, y) -> (x, x^2 + y), row by row."""
    return torch.stack((z[:, 0], z[:, 0] ** 2 + z[:, 1]), 1)


def place(settings: Settings, size: int, seed: int) -> dict[str, tuple[Tensor, float]]:
    """The five sets of points (size, 2) of one run, and the processor seconds that each took."""

    def build(source: object) -> Tensor:
        result = tc.build_coreset(source, size, samples=settings.samples, seed=seed, progress=False)
        return result.coreset.points.detach()

    noise, seconds = experiment.timed(lambda: build(GAUSSIAN))
    direct, direct_seconds = experiment.timed(lambda: build(tc.Pushforward(GAUSSIAN, banana)))
    sample = tc.Coreset.from_source(GAUSSIAN, size, seed=seed).points.detach()
    return {
        NOISE: (noise, seconds),
        NOISE_SAMPLE: (sample, 0.0),
        IMAGE: (banana(noise), seconds),
        DIRECT: (direct, direct_seconds),
        RANDOM: (banana(sample), 0.0),
    }


def run(task: Task) -> list[Row]:
    """An interval for the distance of each set of points to its population, and the bound from the noise's plan."""
    settings = task.settings
    image = tc.Pushforward(GAUSSIAN, banana)
    placed = place(settings, task.size, task.seed)
    how = {"samples": settings.certified, "seed": 1000 + task.seed}
    rows = []
    for name, (points, seconds) in placed.items():
        about = tc.certify(points, GAUSSIAN if name in PREIMAGES.values() else image, **how)
        row: Row = {"method": name, "size": task.size, "seed": task.seed, "distance": (about.lower + about.upper) / 2}
        row |= {"lower": about.lower, "upper": about.upper, "coupling": math.nan, "seconds": seconds}
        if name in PREIMAGES:
            preimage, _ = placed[PREIMAGES[name]]
            row["coupling"] = tc.certify_pushforward(preimage, GAUSSIAN, banana, **how).upper
        rows.append(row)
    return rows


def counted(rows: Sequence[Row], row: Row) -> dict[str, int]:
    """In how many runs the interval lies wholly below that of a random sample, and of the coreset's image."""
    held = {(other["method"], other["seed"]): other for other in rows if other["size"] == row["size"]}
    seeds = {seed for _, seed in held}
    random = NOISE_SAMPLE if row["method"] in PREIMAGES.values() else RANDOM
    return {
        name: sum(held[row["method"], seed]["upper"] < held[other, seed]["lower"] for seed in seeds)
        for name, other in (("below_random", random), ("below_image", IMAGE))
    }


def tables(found: Sequence[Row]) -> dict[str, str]:
    """Markdown tables of the intervals, of the bound from the noise, of what is certified, and of seconds."""
    pushed = [row for row in found if row["method"] in PREIMAGES]
    onto = [row for row in found if row["method"] not in PREIMAGES.values()]
    return {
        "W_2": report.intervals(found, "lower", "upper"),
        "coupling": report.table(pushed, "coupling", "method", "size"),
        "certified below a random sample": report.counts(
            [row for row in found if row["method"] not in (NOISE_SAMPLE, RANDOM)], "below_random"
        ),
        "certified below the image": report.counts([row for row in onto if row["method"] == DIRECT], "below_image"),
        "seconds": report.table([row for row in found if row["seconds"] > 0], "seconds", "method", "size", digits=2),
    }


def draw(found: Sequence[Row]) -> Any:
    """W_2 to the banana and to the Gaussian against the number of points, and the bound from the noise."""
    figure, axes = figures.panels(2)
    bounds = [{**row, "method": "bound from the noise"} for row in found if row["method"] == IMAGE]
    for axis, title, names in (
        (axes[0], "banana", (DIRECT, IMAGE, RANDOM)),
        (axes[1], "Gaussian", (NOISE, NOISE_SAMPLE)),
    ):
        look = figures.looks(names)
        figures.curves(axis, found, "distance", look)
        if title == "banana":
            figures.curves(axis, bounds, "coupling", {"bound from the noise": (look[IMAGE][0], figures.DASHES[1])})
        axis.set(title=title, xlabel="points", ylabel="$W_2$ to the population", yscale="log")
        figures.sizes(axis, (row["size"] for row in found))
        limits = axis.get_ylim()
        axis.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
        axis.minorticks_off()
        axis.set_ylim(limits)  # ticks beyond the data would widen them
        figures.name_lines(axis)
    return figure


def draw_points(found: dict[str, Tensor], out: Path) -> None:
    """The paper's four panels, over samples of the populations."""
    noise = torch.randn(4000, 2, generator=torch.Generator().manual_seed(99))
    width = figures.PANEL[0]
    figure, axes = figures.pyplot().subplots(2, 2, figsize=(width, width), layout="constrained")
    for axis, name in zip(axes.flat, (NOISE, IMAGE, DIRECT, RANDOM), strict=True):
        cloud = noise if name == NOISE else banana(noise)
        # As pixels in the SVG too, which would hold each sample otherwise.
        axis.scatter(*cloud.T.numpy(), s=2, color="#d5dbe1", linewidths=0, rasterized=True)
        axis.scatter(*found[name].T.numpy(), s=18, color=figures.COLOURS[1], edgecolors="white", linewidths=0.5)
        axis.set_title(name)
        axis.set(xlim=(-3.6, 3.6), ylim=(-3.6, 3.6) if name == NOISE else (-3.2, 9.5))
        axis.set_axis_off()
    figures.save(figure, out / f"{NAME}_points.png")


if __name__ == "__main__":
    main()
