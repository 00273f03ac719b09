"""Kernel herding beside coresets: few points for a mixture of Gaussians (appendix of Claici, Genevay, Solomon 2020).

Herding adds one point at a time, where the data's mean embedding exceeds that of the points so far by most:

    x_{t+1} = argmax_x  E k(x, Y) - sum_{i <= t} k(x, x_i) / (t + 1)

It is greedy, and it decides every point for good; a coreset moves all of its points until nothing is gained. The
paper's mixture was never published, so this one is our own. Herding gets three widths of its Gaussian kernel; descents
on MMD, whose kernel has the middle one, and on the energy distance, whose kernel has none, show what moving all points
does for a kernel, and kernel thinning what rows can do that are chosen by halving. Every set of points is judged on
samples that it has not seen.

    python examples/kernel_herding.py --config configs/kernel_herding.yaml [--small]
    python examples/report.py kernel_herding                          # its pictures and tables into docs/results

Source: Chen, Welling, Smola (2010), Super-samples from kernel herding, equation 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import experiment
import figures
import numpy as np
import report
import torch
from baselines import thinning
from experiment import Row, Task
from torch import Tensor

import torchcoreset as tc

NAME = "kernel_herding"
CENTRES = torch.tensor([[-2.0, -1.5], [-1.5, 2.0], [0.5, 0.0], [2.5, 1.5], [2.0, -2.0]])
WIDTHS = torch.tensor([0.7, 0.5, 0.4, 0.8, 0.6])
SHARES = torch.tensor([0.25, 0.15, 0.2, 0.25, 0.15])
HERDING, CORESET, RANDOM, THINNING = "herding", "W2 coreset", "random sample", "kernel thinning"
DRAWN = (CORESET, "support points", "MMD, all points moved", "herding, width 0.25", "herding, width 0.5", THINNING,
         RANDOM)  # fmt: skip
MEASURES = {"w2": "W2", "w1": "W1", "energy": "energy distance", "mmd": "MMD² / 2"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Fields that one run does not depend on stay out of its `repr`, by which results are kept."""

    rows: int
    judged: int
    sizes: list[int]
    drawn: int = field(repr=False)
    relative_blurs: list[float]
    steps: int
    runs: int = field(repr=False)
    jobs: int = field(repr=False)


def main(arguments: list[str] | None = None) -> list[Row]:
    """Place points in every way, print how well each does by every measure, and draw; the quartiles."""
    settings, out = experiment.read(Settings, NAME, __doc__, arguments)
    if reason := thinning.missing():
        print(reason)
    tasks = [Task(settings, "mixture", "all", 0, seed) for seed in range(settings.runs)]
    rows = [row for held in experiment.each(run, tasks, settings.jobs, out / f"{NAME}_kept.jsonl") for row in held]
    experiment.write(NAME, rows, settings, out)
    found = report.quartiles(rows, ["method", "size"], [*MEASURES, "seconds"])
    report.conclude(NAME, rows, found, tables(found), out)
    print("\n" + "\n".join(conclusion(rows, size) for size in settings.sizes))
    figures.save(draw(found), out / f"{NAME}.png")
    fitted = mixture(settings.rows, seed=0)
    figures.save(scatter(fitted, placed(fitted, settings.drawn, settings)), out / f"{NAME}_points.png")
    return found


def run(task: Task) -> list[Row]:
    """What the points of every way and size score on samples that they were not fitted to."""
    settings, seed = task.settings, task.seed
    fitted, judge = mixture(settings.rows, seed=2 * seed), mixture(settings.judged, seed=2 * seed + 1)
    # Losses, not functions: a loss computes the term of the judges with themselves, the dear one, only once.
    measures = {
        "w2": tc.CoresetLoss(p=2),
        "w1": tc.CoresetLoss(p=1),
        "energy": tc.CoresetLoss(divergence="energy"),
        "mmd": tc.CoresetLoss(divergence="mmd", blur=middle(widths(fitted, settings))),
    }
    rows = []
    for size in settings.sizes:
        for name, place in ways(fitted, size, settings, seed).items():
            points, seconds = experiment.timed(place)
            scores = {key: loss(points, judge).item() for key, loss in measures.items()}
            about = {"method": name, "size": size, "seed": seed, "seconds": seconds}
            rows.append({**about, **scores, "w2": scores["w2"] ** 0.5})
    return rows


def ways(fitted: Tensor, size: int, settings: Settings, seed: int) -> dict[str, Callable[[], Tensor]]:
    """A function for every way to place the points."""
    start, blurs = fitted[:size], widths(fitted, settings)
    found: dict[str, Callable[[], Tensor]] = {
        CORESET: partial(exact, start, fitted),
        "support points": partial(descend, tc.CoresetLoss(divergence="energy"), start, fitted, settings.steps),
        "MMD, all points moved": partial(
            descend, tc.CoresetLoss(divergence="mmd", blur=middle(blurs)), start, fitted, settings.steps
        ),
    }
    for relative, blur in zip(settings.relative_blurs, blurs, strict=True):
        found[f"{HERDING}, width {relative:g}"] = partial(herd, fitted, size, blur)
    if thinning.missing() is None:
        found[THINNING] = partial(thinned, fitted, size, seed)
    return {**found, RANDOM: start.clone}


def placed(fitted: Tensor, size: int, settings: Settings) -> dict[str, Tensor]:
    """The points of every way for the first run."""
    return {name: place() for name, place in ways(fitted, size, settings, 0).items()}


def widths(fitted: Tensor, settings: Settings) -> list[float]:
    """Widths of herding's kernel: `relative_blurs` in medians of the distance to the centre of the data."""
    scale = float((fitted - fitted.median(0).values).norm(dim=1).median())
    return [scale * relative for relative in settings.relative_blurs]


def middle(blurs: Sequence[float]) -> float:
    """The width of the kernel of the MMD."""
    return blurs[len(blurs) // 2]


def mixture(rows: int, seed: int) -> Tensor:
    """Samples of the mixture, (rows, 2)."""
    generator = torch.Generator().manual_seed(seed)
    part = torch.multinomial(SHARES, rows, replacement=True, generator=generator)
    return CENTRES[part] + WIDTHS[part, None] * torch.randn(rows, 2, generator=generator)


def herd(samples: Tensor, size: int, blur: float) -> Tensor:
    """The first `size` points of kernel herding, each one of the samples (m, d); m x m work."""

    def kernel(rows: Tensor) -> Tensor:
        return torch.cdist(rows, samples).square_().mul_(-0.5 / blur**2).exp_()

    embedding = torch.cat([kernel(block).mean(1) for block in samples.split(1000)])
    taken, chosen = torch.zeros_like(embedding), []
    for count in range(1, size + 1):
        best = int((embedding - taken / count).argmax())
        chosen.append(best)
        taken += kernel(samples[best][None])[0]
    return samples[chosen]


def descend(loss: tc.CoresetLoss, start: Tensor, samples: Tensor, steps: int) -> Tensor:
    """Points that make a loss small: Adam with a rate that falls to zero."""
    points = torch.nn.Parameter(start.clone())
    optimizer = torch.optim.Adam([points], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(points, samples).backward()
        optimizer.step()
        schedule.step()
    return points.detach()


def exact(start: Tensor, samples: Tensor) -> Tensor:
    """A W_2 coreset from the same start."""
    return tc.build_coreset(samples, len(start), p=2, init=start, progress=False).coreset.points.detach()


def thinned(samples: Tensor, size: int, seed: int) -> Tensor:
    """Rows chosen by kernel thinning."""
    rows, _ = thinning.thinning(samples.numpy(), size, np.random.default_rng(seed))
    return samples[torch.from_numpy(rows)]


def conclusion(rows: Sequence[Row], size: int) -> str:
    """Herding at the width that suits each measure best, against the coreset, at one size."""
    here = [row for row in rows if row["size"] == size]
    medians = {row["method"]: row for row in report.quartiles(here, ["method"], list(MEASURES))}
    herded = [name for name in medians if name.startswith(HERDING)]
    times = {key: min(medians[name][key] for name in herded) / medians[CORESET][key] for key in MEASURES}
    won = "; ".join("{}: {} of {}".format(name, *report.wins(here, "w2", CORESET, name)) for name in herded)
    worse = ", ".join(f"{times[key]:.2f} times its {name}" for key, name in MEASURES.items())
    return (
        f"{size} points: runs in which the coreset is closer in W2 than {won}. "
        f"Herding, at the width that suits each measure best, has {worse}."
    )


def tables(found: Sequence[Row]) -> dict[str, str]:
    """Markdown tables of the quartiles of each measure, and of seconds."""
    made = {name: report.table(found, key, "method", "size") for key, name in MEASURES.items()}
    return {**made, "seconds": report.table(found, "seconds", "method", "size", digits=2)}


def draw(found: Sequence[Row]) -> Any:
    """A panel for each measure: its value against the number of points."""
    figure, axes = figures.panels(len(MEASURES))
    held = {row["method"] for row in found}
    for axis, (key, name) in zip(axes, MEASURES.items(), strict=True):
        figures.curves(axis, found, key, figures.looks(method for method in DRAWN if method in held))
        axis.set(yscale="log", title=name, xlabel="points")
        if key in ("w2", "w1"):
            figures.ratios(axis)
        figures.sizes(axis, (row["size"] for row in found))
        figures.name_lines(axis)
    return figure


def scatter(samples: Tensor, found: dict[str, Tensor]) -> Any:
    """The points over the samples, two ways in a line."""
    plt = figures.pyplot()
    down = (len(found) + 1) // 2
    figure, axes = plt.subplots(down, 2, figsize=(4.8, 2.4 * down), layout="constrained")
    for axis in axes.flat:
        axis.set_axis_off()
    for axis, (name, points) in zip(axes.flat, found.items(), strict=False):
        axis.scatter(*samples.T.numpy(), s=1.5, color="#d5dbe1", linewidths=0, rasterized=True)
        axis.scatter(*points.T.numpy(), s=22, color=figures.COLOURS[1], edgecolors="white", linewidths=0.6)
        axis.set_title(name)
        axis.set_aspect("equal")
    return figure


if __name__ == "__main__":
    main()
