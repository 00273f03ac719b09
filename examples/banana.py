"""Figure 1: a coreset of a Gaussian, its image under (x, y) -> (x, x^2 + y), a coreset of the image, a random sample.

A coreset of the noise, pushed through a map, is a coreset of what the map makes of the noise. The paper proves it with
the Lipschitz constant of the map, which this one does not have; the plan between noise and coreset, pushed through the
map, is a bound all the same ("coupling" in the table). Distances are to the population, not to a sample: intervals
that hold at 95 %.

    python examples/banana.py --config configs/banana.yaml             # minutes
    python examples/banana.py --config configs/banana.yaml --small     # seconds

Source: Claici, Genevay, Solomon (2020), figure 1 and the proposition on pushforward measures in section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import experiment
import figures
import torch
from experiment import Row
from torch import Tensor

import torchcoreset as tc

GAUSSIAN = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
NOISE, NOISE_SAMPLE = "coreset of the Gaussian", "random sample of the Gaussian"
IMAGE, DIRECT, RANDOM = "image of the coreset", "coreset computed directly", "random sample"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the YAML file says."""

    size: int
    samples: int
    certified: int
    runs: int


def main(arguments: list[str] | None = None) -> list[Row]:
    """Build, certify, print the table and draw the figure."""
    settings, out = experiment.read(Settings, "banana", __doc__, arguments)
    rows: list[Row] = []
    first: dict[str, Tensor] = {}
    for seed in experiment.seeds(settings.runs, "figure 1"):
        found = place(settings, seed)
        rows += judge(found, settings, seed)
        first = first or found
    experiment.write("banana", rows, settings, out)
    means = experiment.summary(rows, ["points"])
    print(f"{settings.size} points, W_2 to the population, mean and standard deviation of {settings.runs} runs\n")
    print(table(means))
    print(f"\n{conclusion(rows)}")
    draw(first, rows, out / "banana.png")
    return rows


def banana(z: Tensor) -> Tensor:
    """(x, y) -> (x, x^2 + y), row by row."""
    return torch.stack((z[:, 0], z[:, 0] ** 2 + z[:, 1]), 1)


def place(settings: Settings, seed: int) -> dict[str, Tensor]:
    """The five sets of points of one run."""
    image = tc.Pushforward(GAUSSIAN, banana)

    def build(source: object) -> Tensor:
        result = tc.build_coreset(source, settings.size, samples=settings.samples, seed=seed, progress=False)
        return result.coreset.points.detach()

    noise = build(GAUSSIAN)
    sample = tc.Coreset.from_source(GAUSSIAN, settings.size, seed=seed).points.detach()
    return {NOISE: noise, NOISE_SAMPLE: sample, IMAGE: banana(noise), DIRECT: build(image), RANDOM: banana(sample)}


def judge(found: dict[str, Tensor], settings: Settings, seed: int) -> list[Row]:
    """An interval for the distance of each set of points to its population."""
    image = tc.Pushforward(GAUSSIAN, banana)
    rows = []
    for name, points in found.items():
        source = GAUSSIAN if name in (NOISE, NOISE_SAMPLE) else image
        about = tc.certify(points, source, samples=settings.certified, seed=1000 + seed)
        rows.append({"points": name, "seed": seed, "lower": about.lower, "upper": about.upper})
    for name, preimage in ((IMAGE, NOISE), (RANDOM, NOISE_SAMPLE)):
        pushed = tc.certify_pushforward(found[preimage], GAUSSIAN, banana, samples=settings.certified, seed=1000 + seed)
        next(row for row in rows if row["points"] == name)["coupling"] = pushed.upper
    for row in rows:
        row.setdefault("coupling", row["upper"])
    return rows


def table(means: Sequence[Row]) -> str:
    """Markdown: both ends of the intervals, and the bound from the plan of the noise."""
    lines = ["| points | at least | at most | coupling |", "| --- | --- | --- | --- |"]
    for row in means:
        cells = [f"{row[key]:.4f} ± {row[f'{key}_sd']:.4f}" for key in ("lower", "upper", "coupling")]
        lines.append(f"| {row['points']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def conclusion(rows: Sequence[Row]) -> str:
    """What is known at 95 % in each run, put in one sentence."""
    ends = {(row["points"], row["seed"]): row for row in rows}
    seeds = sorted({row["seed"] for row in rows})
    beats = sum(ends[IMAGE, seed]["upper"] < ends[RANDOM, seed]["lower"] for seed in seeds)
    loses = sum(ends[DIRECT, seed]["upper"] < ends[IMAGE, seed]["lower"] for seed in seeds)
    middle = {row["points"]: (row["lower"] + row["upper"]) / 2 for row in experiment.summary(rows, ["points"])}
    return (
        f"Conclusion: the image of the Gaussian's coreset is certified to be closer to the banana than a random sample "
        f"in {beats} of {len(seeds)} runs, and farther than the coreset computed directly in {loses}; on average it is "
        f"{middle[IMAGE] / middle[DIRECT]:.2f} times as far as the direct one, and the random sample "
        f"{middle[RANDOM] / middle[DIRECT]:.2f} times."
    )


def draw(found: dict[str, Tensor], rows: Sequence[Row], path: Path) -> None:
    """The paper's four panels, over samples of the populations."""
    plt = figures.pyplot()
    noise = torch.randn(6000, 2, generator=torch.Generator().manual_seed(99))
    figure, axes = plt.subplots(2, 2, figsize=(8, 8), layout="constrained", dpi=130)
    for axis, name in zip(axes.flat, (NOISE, IMAGE, DIRECT, RANDOM), strict=True):
        cloud = noise if name == NOISE else banana(noise)
        axis.scatter(*cloud.T.numpy(), s=3, color="#d5dbe1", linewidths=0)
        axis.scatter(*found[name].T.numpy(), s=34, color="#d1495b", edgecolors="white", linewidths=0.7)
        interval = next(row for row in rows if row["points"] == name)
        axis.set_title(f"{name}\n{interval['lower']:.3f} ≤ $W_2$ ≤ {interval['upper']:.3f}", fontsize=10)
        axis.set(xlim=(-3.6, 3.6), ylim=(-3.6, 3.6) if name == NOISE else (-3.2, 9.5))
        axis.set_axis_off()
    axes[0, 0].set_aspect("equal")
    figures.save(figure, path)


if __name__ == "__main__":
    main()
