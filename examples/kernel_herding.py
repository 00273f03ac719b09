"""Kernel herding beside coresets: twenty points for a mixture of Gaussians (appendix of Claici, Genevay, Solomon 2020).

Herding adds one point at a time, where the data's mean embedding exceeds that of the points so far by most:

    x_{t+1} = argmax_x  E k(x, Y) - sum_{i <= t} k(x, x_i) / (t + 1)

It is greedy, and it decides every point for good; a coreset moves all of its points until nothing is gained. The
paper's mixture was never published, so this one is our own. Herding gets three widths of its Gaussian kernel; descents
on MMD, whose kernel has the middle one, and on the energy distance, whose kernel has none, show what moving all points
does for a kernel. Every set of points is judged on samples that it has not seen.

    python examples/kernel_herding.py --config configs/kernel_herding.yaml             # minutes
    python examples/kernel_herding.py --config configs/kernel_herding.yaml --small     # seconds

Source: Chen, Welling, Smola (2010), Super-samples from kernel herding, equation 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import experiment
import figures
import torch
from experiment import Row
from torch import Tensor

import torchcoreset as tc

CENTRES = torch.tensor([[-2.0, -1.5], [-1.5, 2.0], [0.5, 0.0], [2.5, 1.5], [2.0, -2.0]])
WIDTHS = torch.tensor([0.7, 0.5, 0.4, 0.8, 0.6])
SHARES = torch.tensor([0.25, 0.15, 0.2, 0.25, 0.15])
HERDING, CORESET, RANDOM = "herding", "W2 coreset", "random sample"
MEASURES = {"w2": "W2", "w1": "W1", "energy": "energy", "mmd": "MMD^2 / 2", "seconds": "seconds"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the YAML file says."""

    rows: int
    judged: int
    size: int
    relative_blurs: list[float]
    steps: int
    runs: int


def main(arguments: list[str] | None = None) -> dict[str, Tensor]:
    """Place points in every way, print how well each does by every measure, and draw those of the first run."""
    settings, out = experiment.read(Settings, "kernel_herding", __doc__, arguments)
    rows: list[Row] = []
    first: dict[str, Tensor] = {}
    for seed in experiment.seeds(settings.runs, "herding"):
        fitted, judge = mixture(settings.rows, seed=2 * seed), mixture(settings.judged, seed=2 * seed + 1)
        found, scored = run(fitted, judge, settings)
        rows += [{**row, "seed": seed} for row in scored]
        first = first or found
    experiment.write("kernel_herding", rows, settings, out)
    means = experiment.summary(rows, ["points"])
    print(f"{settings.size} points for {settings.rows} samples of a mixture of {len(CENTRES)} Gaussians, judged on")
    print(f"{settings.judged} others; mean and standard deviation of {settings.runs} runs\n\n{table(means)}")
    print(f"\n{conclusion(rows)}")
    draw(first, mixture(settings.rows, seed=0), means, out / "kernel_herding.png")
    return first


def run(fitted: Tensor, judge: Tensor, settings: Settings) -> tuple[dict[str, Tensor], list[Row]]:
    """The points of every way, and what they score."""
    scale = float((fitted - fitted.median(0).values).norm(dim=1).median())
    blurs = [scale * relative for relative in settings.relative_blurs]
    middle = blurs[len(blurs) // 2]
    start = fitted[: settings.size]
    ways: dict[str, Callable[[], Tensor]] = {
        f"{HERDING}, width {relative:g}": partial(herd, fitted, settings.size, blur)
        for relative, blur in zip(settings.relative_blurs, blurs, strict=True)
    }
    ways["MMD"] = partial(descend, tc.CoresetLoss(divergence="mmd", blur=middle), start, fitted, settings.steps)
    ways["support points"] = partial(descend, tc.CoresetLoss(divergence="energy"), start, fitted, settings.steps)
    ways[CORESET] = partial(exact, start, fitted)
    ways[RANDOM] = start.clone
    # Losses, not functions: a loss computes the term of the judges with themselves, the dear one, only once.
    measures = {
        "w2": tc.CoresetLoss(p=2),
        "w1": tc.CoresetLoss(p=1),
        "energy": tc.CoresetLoss(divergence="energy"),
        "mmd": tc.CoresetLoss(divergence="mmd", blur=middle),
    }
    found, rows = {}, []
    for name, place in ways.items():
        points, seconds = experiment.timed(place)
        found[name] = points
        row = {"points": name, **{key: loss(points, judge).item() for key, loss in measures.items()}}
        rows.append({**row, "w2": row["w2"] ** 0.5, "seconds": seconds})
    return found, rows


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


def table(means: Sequence[Row]) -> str:
    """Markdown: a line for each way, a column for each measure."""
    lines = [f"| points | {' | '.join(MEASURES.values())} |", f"|{' --- |' * (len(MEASURES) + 1)}"]
    for row in means:
        cells = [f"{row[key]:.3g} ± {row[f'{key}_sd']:.1g}" for key in MEASURES]
        lines.append(f"| {row['points']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def conclusion(rows: Sequence[Row]) -> str:
    """Herding at the width that suits each measure best, against the coreset."""
    means = {row["points"]: row for row in experiment.summary(rows, ["points"])}
    herded = [row for name, row in means.items() if name.startswith(HERDING)]
    best = {key: min(row[key] for row in herded) / means[CORESET][key] for key in ("w2", "w1", "mmd")}
    seeds = sorted({row["seed"] for row in rows})
    w2 = {(row["points"], row["seed"]): row["w2"] for row in rows}
    wins = sum(all(w2[CORESET, s] < w2[row["points"], s] for row in herded) for s in seeds)
    return (
        f"Conclusion: the coreset is closer in W_2 than herding at any width in {wins} of {len(seeds)} runs; herding, "
        f"at the width that suits each measure best, is {best['w2']:.2f} times as far in W_2, {best['w1']:.2f} times "
        f"in W_1 and {best['mmd']:.2f} times in MMD^2."
    )


def draw(found: dict[str, Tensor], samples: Tensor, means: Sequence[Row], path: Path) -> None:
    """The points over the samples, a panel for each way, and W_2 of all of them."""
    plt = figures.pyplot()
    across = (len(found) + 2) // 2
    figure, axes = plt.subplots(2, across, figsize=(3.4 * across, 6.8), layout="constrained", dpi=130)
    for axis, (name, points) in zip(axes.flat, found.items(), strict=False):
        axis.set_axis_off()
        axis.scatter(*samples.T.numpy(), s=3, color="#d5dbe1", linewidths=0)
        axis.scatter(*points.T.numpy(), s=36, color="#d1495b", edgecolors="white", linewidths=0.7)
        axis.set_title(name, fontsize=11)
        axis.set_aspect("equal")
    names, values, spreads = ([row[key] for row in means] for key in ("points", "w2", "w2_sd"))
    colours = [experiment.COLOURS[0 if name == CORESET else 1] for name in names]
    axes.flat[-1].barh(names, values, xerr=spreads, color=colours, ecolor="#333333")
    axes.flat[-1].invert_yaxis()
    axes.flat[-1].spines[["top", "right"]].set_visible(False)
    axes.flat[-1].set_title(f"$W_2$, {means[0]['runs']} runs", fontsize=11)
    figures.save(figure, path)


if __name__ == "__main__":
    main()
