"""Parametric coresets: a Gaussian and a mixture of Gaussians that minimise W_2 to data, by descent on `CoresetLoss`.

A measure need not be points to stand in for another one: section 4.1 of the paper also asks for the best member of a
family. Here a Gaussian is x = m + L z for fixed noise z, so the loss of the points x is differentiable in m and L.
Noise is a coreset of N(0, I), the same after the affine map that gives it mean 0 and covariance I, quasi-random
(Sobol), or a random sample. What is fitted is judged by the closed form of W_2 between Gaussians, beside the Gaussian
of the sample's own mean and covariance.

"We experimented with this option using Gaussian mixtures, but the minimization is highly non-convex, and gradient
descent algorithms do not converge except in restricted settings (e.g., mixtures with equal weights)." So mixtures of
four components are fitted from many starts, with weights held equal and with free ones, whose gradient is the dual
potential, to a mixture with equal and one with unequal weights. Free weights move at the rate of the means, or, as
"slow", at a tenth of it. A start has converged if its loss ends within a tenth of the least that any start, by any
optimizer, has found for the same target with weights that are equal or free alike.

    python examples/parametric.py --config configs/parametric.yaml [--small]
    python examples/report.py parametric                              # its pictures and tables into docs/results

Source: Claici, Genevay, Solomon (2020), section 4; closed form: Dowson, Landau (1982).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import experiment
import figures
import report
import torch
from experiment import Row, Task
from torch import Tensor

import torchcoreset as tc
from torchcoreset.testing import gaussian_w2

NAME = "parametric"
CENTRES = torch.tensor([[-2.0, -1.5], [-1.5, 2.0], [2.5, 1.5], [2.0, -2.0]])
WIDTHS = torch.tensor([0.7, 0.5, 0.8, 0.6])
TARGETS = {"equal": torch.full((4,), 0.25), "unequal": torch.tensor([0.5, 0.3, 0.15, 0.05])}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
WEIGHTS = {"equal": 0.0, "free": 1.0, "slow": 0.1}  # rate of the weights, in rates of the means
NEAR = 1.1  # a start has converged if its loss is at most this many times the least that was found
MOMENTS = "mean and covariance"
VALUES = ("fitted", "loss", "seconds")
TICKS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)  # of logarithmic axes
CLOSE = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8)  # of those that have less than a factor of four


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Fields that one fit does not depend on stay out of its `repr`, by which results are kept."""

    dimensions: list[int] = field(repr=False)
    noise: list[int] = field(repr=False)
    samples: int
    steps: int
    gaussian_runs: int = field(repr=False)
    optimizers: dict[str, float]
    mixture_noise: int
    mixture_samples: int
    mixture_steps: int
    mixture_runs: int = field(repr=False)
    jobs: int = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Shares (k,), means (k, 2) and widths (k,) of round Gaussians, and the loss after each step."""

    shares: Tensor
    means: Tensor
    widths: Tensor
    losses: list[float]


def main(arguments: list[str] | None = None) -> dict[str, list[Row]]:
    """Fit Gaussians and mixtures, print tables, write them and draw; the rows of both."""
    settings, out = experiment.read(Settings, NAME, __doc__, arguments)
    keep = out / f"{NAME}_kept.jsonl"
    tasks = [
        Task(settings, str(d), "Gaussian", n, seed)
        for seed in range(settings.gaussian_runs)
        for n in settings.noise
        for d in settings.dimensions
    ]
    gaussians = [row for rows in experiment.each(fit_gaussian, tasks, settings.jobs, keep) for row in rows]
    tasks = [
        Task(settings, target, weights, 0, seed, optimizer)
        for seed in range(settings.mixture_runs)
        for target in TARGETS
        for weights in WEIGHTS
        for optimizer in settings.optimizers
    ]
    mixtures = experiment.each(one_mixture, tasks, settings.jobs, keep)
    rows = gaussians + mixtures
    experiment.write("parametric_gaussians", gaussians, settings, out)
    experiment.write("parametric_mixtures", mixtures, settings, out)
    found = in_quartiles(gaussians, mixtures)
    report.conclude(NAME, rows, found, tables(found), out)
    print(f"\n{conclusion(gaussians, mixtures)}")
    figures.save(draw(found), out / f"{NAME}.png")
    figures.save(draw_mixtures(found), out / f"{NAME}_mixtures.png")
    figures.save(fits(mixtures, settings), out / f"{NAME}_points.png")
    return {"gaussians": gaussians, "mixtures": mixtures}


def fit_gaussian(task: Task) -> list[Row]:
    """A Gaussian fitted through noise of each kind, and the Gaussian of the sample's moments."""
    settings, d, seed = task.settings, int(task.data), task.seed
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(d, generator=generator)
    root = torch.randn(d, d, generator=generator) / d**0.5 + 0.5 * torch.eye(d)
    data = mean + torch.randn(settings.samples, d, generator=generator) @ root.T
    about = {"dimension": d, "size": task.size, "seed": seed}
    moments = closed_form(data.mean(0), data.T.cov(correction=0), mean, root)
    rows = [{**about, "method": MOMENTS, "fitted": moments, "start": moments, "loss": float("nan"), "seconds": 0.0}]
    for kind, make in NOISE.items():
        path, seconds = experiment.timed(
            lambda make=make: descend(make(task.size, d, seed), data, mean, root, settings.steps)
        )
        fitted = {"fitted": path[-1][1], "start": path[0][1], "loss": path[-1][0], "seconds": seconds}
        rows.append({**about, "method": kind, **fitted})
    return rows


def coreset_noise(size: int, d: int, seed: int) -> Tensor:
    """A W_2 coreset of N(0, I)."""
    normal = torch.distributions.Normal(torch.zeros(d), torch.ones(d))
    built = tc.build_coreset(normal, size, samples=100 * size, restarts=1, tolerance=1e-2, seed=seed, progress=False)
    return built.coreset.points.detach()


def stretched_noise(size: int, d: int, seed: int) -> Tensor:
    """The same, with mean 0 and covariance I."""
    points = coreset_noise(size, d, seed)
    away = points - points.mean(0)
    lower = torch.linalg.cholesky(away.T @ away / size)
    stretched: Tensor = torch.linalg.solve_triangular(lower, away.T, upper=False).T
    return stretched


def sobol_noise(size: int, d: int, seed: int) -> Tensor:
    """The first points of a scrambled Sobol sequence, through the quantiles of N(0, 1)."""
    uniform = torch.quasirandom.SobolEngine(d, scramble=True, seed=seed).draw(size)
    return torch.special.ndtri(uniform.clamp(1e-6, 1 - 1e-6))


def random_noise(size: int, d: int, seed: int) -> Tensor:
    """A sample of N(0, I), not of the numbers that the data are made of."""
    return torch.randn(size, d, generator=torch.Generator().manual_seed(10**6 + seed))


NOISE: dict[str, Callable[[int, int, int], Tensor]] = {
    "coreset": coreset_noise,
    "coreset, stretched": stretched_noise,
    "quasi-random": sobol_noise,
    "random": random_noise,
}


def closed_form(mean_1: Tensor, covariance_1: Tensor, mean_2: Tensor, root_2: Tensor) -> float:
    """W_2, rooted, between Gaussians."""
    squared = gaussian_w2(mean_1, covariance_1.reshape(len(mean_1), -1), mean_2, root_2 @ root_2.T)
    return float(max(squared, 0.0) ** 0.5)


def descend(noise: Tensor, data: Tensor, mean: Tensor, root: Tensor, steps: int) -> list[tuple[float, float]]:
    """After each step of descent from N(0, I): W_2 of the points to the data, and of the Gaussian to the true one."""
    d = data.shape[1]
    m, factor = torch.nn.Parameter(torch.zeros(d)), torch.nn.Parameter(torch.eye(d))
    optimizer = torch.optim.SGD([m, factor], lr=0.5)  # the loss has curvature 2 in m, and about 2 in L
    loss = tc.CoresetLoss(p=2)
    path = []
    for _ in range(steps + 1):
        optimizer.zero_grad()
        value = loss(m + noise @ factor.T, data)
        fitted = closed_form(m.detach(), (factor @ factor.T).detach(), mean, root)
        path.append((value.item() ** 0.5, fitted))
        value.backward()
        optimizer.step()
    return path


@cache
def mixture_noise(size: int) -> Tensor:
    """A W_2 coreset of N(0, I) in the plane, the noise of each component."""
    normal = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
    return tc.build_coreset(normal, size, samples=10_000, progress=False).coreset.points.detach()


def start(settings: Settings, target: str, weights: str, optimizer: str, seed: int) -> Mixture:
    """The mixture that one start ends with."""
    rate = settings.optimizers[optimizer]
    data, noise = sample(TARGETS[target], settings.mixture_samples), mixture_noise(settings.mixture_noise)
    rates = (rate, rate * WEIGHTS[weights])
    return fit_mixture(data, noise, seed, settings.mixture_steps, OPTIMIZERS[optimizer], rates)


def one_mixture(task: Task) -> Row:
    """Where one start ends."""
    kind = {"target": task.data, "weights": task.method, "optimizer": task.given}
    found, seconds = experiment.timed(lambda: start(task.settings, *kind.values(), task.seed))
    off = (found.shares - TARGETS[task.data]).abs().sum().item() / 2
    return {**kind, "seed": task.seed, "loss": found.losses[-1], "shares_off": off, "seconds": seconds}


def sample(shares: Tensor, rows: int) -> Tensor:
    """Samples of the true mixture, (rows, 2)."""
    generator = torch.Generator().manual_seed(0)
    part = torch.multinomial(shares, rows, replacement=True, generator=generator)
    return CENTRES[part] + WIDTHS[part, None] * torch.randn(rows, 2, generator=generator)


def fit_mixture(
    data: Tensor,
    noise: Tensor,
    seed: int,
    steps: int,
    optimizer_of: Callable[..., torch.optim.Optimizer],
    rates: tuple[float, float],
) -> Mixture:
    """Descent from means at random samples, widths 1 and equal weights; `rates` of means and widths, and of weights."""
    generator = torch.Generator().manual_seed(seed)
    k = len(CENTRES)
    means = torch.nn.Parameter(data[torch.randperm(len(data), generator=generator)[:k]].clone())
    log_widths, logits = torch.nn.Parameter(torch.zeros(k)), torch.nn.Parameter(torch.zeros(k))
    groups = [{"params": [means, log_widths], "lr": rates[0]}]
    if rates[1]:
        groups.append({"params": [logits], "lr": rates[1]})
    optimizer = optimizer_of(groups)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    loss = tc.CoresetLoss(p=2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        points = (means[:, None] + log_widths.exp()[:, None, None] * noise).flatten(0, 1)
        weights = (logits.softmax(0) / len(noise)).repeat_interleave(len(noise))
        value = loss(points, data, point_weights=weights if rates[1] else None)
        value.backward()
        optimizer.step()
        schedule.step()
        losses.append(value.item())
    return Mixture(
        shares=logits.detach().softmax(0), means=means.detach(), widths=log_widths.detach().exp(), losses=losses
    )


def in_quartiles(gaussians: Sequence[Row], mixtures: Sequence[Row]) -> list[Row]:
    """The rows of the CSV: Gaussians by dimension, noise and its size; mixtures by target, weights and optimizer."""
    order = [*NOISE, MOMENTS]
    first = report.quartiles(gaussians, ["dimension", "method", "size"], VALUES)
    first.sort(key=lambda row: (row["dimension"], order.index(row["method"]), row["size"]))
    second = report.quartiles(mixtures, ["target", "weights", "optimizer"], ["loss", "shares_off", "seconds"])
    ends, counts = kinds_of(mixtures), converged(mixtures)
    for row in second:
        kind = row["target"], row["weights"], row["optimizer"]
        row |= {"least": min(ends[kind]), "largest": max(ends[kind]), "converged": counts[kind]}
    return [{"family": "Gaussian", **row} for row in first] + [{"family": "mixture", **row} for row in second]


def kinds_of(rows: Sequence[Row]) -> dict[tuple[str, str, str], list[float]]:
    """The losses of the starts, by target, weights and optimizer."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        found.setdefault((row["target"], row["weights"], row["optimizer"]), []).append(row["loss"])
    return found


def converged(rows: Sequence[Row]) -> dict[tuple[str, str, str], int]:
    """How many starts of each kind end near the best that any has found: among equal weights, or among free ones."""
    least: dict[tuple[str, bool], float] = {}
    for row in rows:
        model = (row["target"], row["weights"] == "equal")
        least[model] = min(row["loss"], least.get(model, row["loss"]))
    return {
        (target, weights, optimizer): sum(loss <= NEAR * least[target, weights == "equal"] for loss in losses)
        for (target, weights, optimizer), losses in kinds_of(rows).items()
    }


def conclusion(gaussians: Sequence[Row], mixtures: Sequence[Row]) -> str:
    """What was found, in one sentence."""
    most = max(row["size"] for row in gaussians)
    medians = report.quartiles([row for row in gaussians if row["size"] == most], ["method", "dimension"], ["fitted"])
    parts = []
    for d in dict.fromkeys(row["dimension"] for row in medians):
        held = {row["method"]: row["fitted"] for row in medians if row["dimension"] == d}
        parts.append(f"{held['coreset']:.3f} from the truth in d = {d} ({MOMENTS} {held[MOMENTS]:.3f})")
    counts = dict.fromkeys(WEIGHTS, 0)
    for (_, weights, _), count in converged(mixtures).items():
        counts[weights] += count
    starts = len(mixtures) // len(WEIGHTS)
    return (
        f"Conclusion: a Gaussian fitted through a coreset of {most} points of noise ends {', '.join(parts)}; of the "
        f"mixtures {counts['equal']} of {starts} starts converge with equal weights, {counts['free']} with free ones "
        f"at the rate of the means, and {counts['slow']} with free ones at a tenth of it."
    )


def of_family(found: Sequence[Row], family: str, key: str) -> dict[Any, list[Row]]:
    """The rows of Gaussians or mixtures by their dimension or target."""
    held: dict[Any, list[Row]] = {}
    for row in found:
        if row["family"] == family:
            held.setdefault(row[key], []).append(row)
    return held


def tables(found: Sequence[Row]) -> dict[str, str]:
    """Markdown tables: for each dimension W_2 to the true Gaussian, and seconds; where the starts of mixtures end."""
    made = {}
    for d, rows in of_family(found, "Gaussian", "dimension").items():
        made[f"Gaussian, d = {d}"] = report.table(rows, "fitted", "method", "size", digits=2)
        fits = [row for row in rows if row["method"] != MOMENTS]
        made[f"Gaussian, d = {d}, minimised"] = report.table(fits, "loss", "method", "size", digits=2)
        made[f"Gaussian, d = {d}, seconds"] = report.table(fits, "seconds", "method", "size", digits=2)
    lines = [
        "| true weights | fitted weights | optimizer | loss at the end | least | largest | converged | weights off |"
    ]
    lines.append(f"|{' --- |' * 8}")
    for rows in of_family(found, "mixture", "target").values():
        for row in rows:
            ends = [f"{row[key]:.3g}" for key in ("least", "largest")]
            counted = f"{row['converged']} of {row['runs']}"
            kind = [row["target"], row["weights"], row["optimizer"]]
            cells = [*kind, report.cell(row, "loss"), *ends, counted, report.cell(row, "shares_off", 2)]
            lines.append(f"| {' | '.join(cells)} |")
    return {**made, "mixtures": "\n".join(lines)}


def draw(found: Sequence[Row]) -> Any:
    """A panel for each dimension: W_2 to the true Gaussian against the points of noise."""
    held = of_family(found, "Gaussian", "dimension")
    figure, axes = figures.panels(len(held))
    for axis, (d, rows) in zip(axes, held.items(), strict=True):
        figures.curves(axis, rows, "fitted", figures.looks(dict.fromkeys(row["method"] for row in rows)))
        axis.set(yscale="log", title=f"a Gaussian, d = {d}", xlabel="points of noise", ylabel="$W_2$ to the true one")
        figures.sizes(axis, (row["size"] for row in rows))
        axis.set_ylim(top=min(axis.get_ylim()[1], 2 * max(row["fitted"] for row in rows)))  # fits may diverge
        low, high = axis.get_ylim()
        ticks = [tick for tick in TICKS if low <= tick <= high]
        axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        figures.name_lines(axis)
    return figure


def draw_mixtures(found: Sequence[Row]) -> Any:
    """A panel for each target: the loss at the end, its quartiles and its least, for each kind of fit."""
    held = of_family(found, "mixture", "target")
    figure, axes = figures.panels(len(held))
    colours = dict(zip(WEIGHTS, figures.COLOURS, strict=False))
    for axis, (target, rows) in zip(axes, held.items(), strict=True):
        for place, row in enumerate(rows):
            colour = colours[row["weights"]]
            axis.plot([row["loss_low"], row["loss_high"]], [place, place], color=colour, linewidth=5, alpha=0.3)
            axis.plot(row["loss"], place, "o", color=colour)
            axis.plot(row["least"], place, "|", color=colour, markersize=9)
            axis.annotate(
                f"{row['converged']} of {row['runs']} converge", (1.04, place), xycoords=("axes fraction", "data"),
                va="center", color=colour, fontsize=7.5, annotation_clip=False,
            )  # fmt: skip
        axis.set_yticks(range(len(rows)), [f"{row['weights']}, {row['optimizer']}" for row in rows])
        axis.invert_yaxis()
        axis.set(xscale="log", title=f"mixtures, true weights {target}", xlabel="$W_2^2$ to the data at the end")
        low, high = axis.get_xlim()
        ticks = [tick for tick in (CLOSE if high < 4 * low else TICKS) if low <= tick <= high]
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
    return figure


def fits(mixtures: Sequence[Row], settings: Settings) -> Any:
    """The best and the worst fit of each kind of weights by the first optimizer, for the target of unequal weights."""
    plt = figures.pyplot()
    figure, axes = plt.subplots(len(WEIGHTS), 2, figsize=(4.8, 2.4 * len(WEIGHTS)), layout="constrained")
    data, optimizer = sample(TARGETS["unequal"], settings.mixture_samples), next(iter(settings.optimizers))
    for line, weights in zip(axes, WEIGHTS, strict=True):
        kind = {"target": "unequal", "weights": weights, "optimizer": optimizer}
        here = sorted((row for row in mixtures if row.items() >= kind.items()), key=lambda row: row["loss"])
        for axis, row, name in zip(line, (here[0], here[-1]), ("best", "worst"), strict=True):
            fit = start(settings, *kind.values(), row["seed"])
            axis.scatter(*data.T.numpy(), s=3, color="#c9d0d6", linewidths=0)
            for share, mean, width in zip(fit.shares.tolist(), fit.means.tolist(), fit.widths.tolist(), strict=True):
                axis.add_patch(plt.Circle(mean, 2 * width, fill=False, color=figures.COLOURS[0], linewidth=1.2))
                axis.annotate(f"{share:.2f}", mean, ha="center", va="center", fontsize=7)
            axis.set_title(f"{weights} weights, {name}: {fit.losses[-1]:.2f}")
            axis.set_aspect("equal", adjustable="datalim")
            axis.set_axis_off()
    return figure


if __name__ == "__main__":
    main()
