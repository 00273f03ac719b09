"""Parametric coresets: a Gaussian and a mixture of Gaussians that minimise W_2 to data, by descent on `CoresetLoss`.

A measure need not be points to stand in for another one: section 4.1 of the paper also asks for the best member of a
family. Here a Gaussian is x = m + L z for fixed noise z, so the loss of the points x is differentiable in m and L.
Noise is a coreset of N(0, I), or, to compare, a random sample of it. What is fitted is judged by the closed form of W_2
between Gaussians, beside the Gaussian of the sample's own mean and covariance.

"We experimented with this option using Gaussian mixtures, but the minimization is highly non-convex, and gradient
descent algorithms do not converge except in restricted settings (e.g., mixtures with equal weights)." So mixtures of
four components are fitted from many starts, with weights held equal and with free ones, whose gradient is the dual
potential, to a mixture with equal and one with unequal weights. Free weights move at the rate of the means, or, as
"slow", at a tenth of it. A start has converged if its loss ends within a tenth of the least that any start, by any
optimizer, has found for the same target with weights that are equal or free alike.

    python examples/parametric.py --config configs/parametric.yaml             # minutes
    python examples/parametric.py --config configs/parametric.yaml --small     # seconds

Source: Claici, Genevay, Solomon (2020), section 4; closed form: Dowson, Landau (1982).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import experiment
import figures
import torch
from experiment import Row
from torch import Tensor

import torchcoreset as tc
from torchcoreset.testing import gaussian_w2

CENTRES = torch.tensor([[-2.0, -1.5], [-1.5, 2.0], [2.5, 1.5], [2.0, -2.0]])
WIDTHS = torch.tensor([0.7, 0.5, 0.8, 0.6])
TARGETS = {"equal": torch.full((4,), 0.25), "unequal": torch.tensor([0.5, 0.3, 0.15, 0.05])}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
WEIGHTS = {"equal": 0.0, "free": 1.0, "slow": 0.1}  # rate of the weights, in rates of the means
NEAR = 1.1  # a start has converged if its loss is at most this many times the least that was found


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the YAML file says."""

    dimensions: list[int]
    noise: int
    samples: int
    steps: int
    optimizers: dict[str, float]
    mixture_noise: int
    mixture_samples: int
    mixture_steps: int
    runs: int


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Shares (k,), means (k, 2) and widths (k,) of round Gaussians, and the loss after each step."""

    shares: Tensor
    means: Tensor
    widths: Tensor
    losses: list[float]


def main(arguments: list[str] | None = None) -> dict[str, list[Row]]:
    """Fit Gaussians and mixtures, print both tables, write them and draw the figure."""
    settings, out = experiment.read(Settings, "parametric", __doc__, arguments)
    gaussians, paths = fit_gaussians(settings)
    experiment.write("parametric_gaussians", gaussians, settings, out)
    print(f"Gaussians: W_2 by the closed form, mean and standard deviation of {settings.runs} runs\n")
    print(gaussian_table(experiment.summary(gaussians, ["dimension", "noise"])))
    mixtures, fits = fit_mixtures(settings)
    experiment.write("parametric_mixtures", mixtures, settings, out)
    print(f"\nMixtures: W_2^2 to the data at the end of {settings.runs} starts\n\n{mixture_table(mixtures)}")
    print(f"\n{conclusion(gaussians, mixtures)}")
    draw(paths, mixtures, fits, settings, out / "parametric.png")
    return {"gaussians": gaussians, "mixtures": mixtures}


def fit_gaussians(settings: Settings) -> tuple[list[Row], dict[str, list[tuple[float, float]]]]:
    """A Gaussian for each dimension, run and kind of noise, and the way that the first of the last dimension took."""
    rows, paths = [], {}
    for d in settings.dimensions:
        for seed in range(settings.runs):
            generator = torch.Generator().manual_seed(seed)
            mean = torch.randn(d, generator=generator)
            root = torch.randn(d, d, generator=generator) / d**0.5 + 0.5 * torch.eye(d)
            data = mean + torch.randn(settings.samples, d, generator=generator) @ root.T
            normal = torch.distributions.Normal(torch.zeros(d), torch.ones(d))
            built = tc.build_coreset(normal, settings.noise, samples=100 * settings.noise, seed=seed, progress=False)
            kinds = {"coreset": built.coreset.points, "random": torch.randn(settings.noise, d, generator=generator)}
            moments = closed_form(data.mean(0), data.T.cov(correction=0), mean, root)
            for kind, noise in kinds.items():
                path = descend(noise.detach(), data, mean, root, settings.steps)
                if seed == 0:
                    paths[kind] = path
                fitted = {"start": path[0][1], "fitted": path[-1][1], "loss": path[-1][0], "moments": moments}
                rows.append({"dimension": d, "noise": kind, "seed": seed, **fitted})
    return rows, paths


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


def fit_mixtures(settings: Settings) -> tuple[list[Row], dict[tuple[str, str], list[Mixture]]]:
    """Mixtures from every start: rows, and the fits of the first optimizer by (target, weights)."""
    normal = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
    built = tc.build_coreset(normal, settings.mixture_noise, samples=10_000, progress=False)
    noise = built.coreset.points.detach()
    rows: list[Row] = []
    fits: dict[tuple[str, str], list[Mixture]] = {}
    for target, shares in TARGETS.items():
        data = sample(shares, settings.mixture_samples)
        for weights, slower in WEIGHTS.items():
            for name, rate in settings.optimizers.items():
                kind = {"target": target, "weights": weights, "optimizer": name}
                found = []
                for seed in experiment.seeds(settings.runs, f"{target}, {weights}, {name}"):
                    rates = (rate, rate * slower)
                    found.append(fit_mixture(data, noise, seed, settings.mixture_steps, OPTIMIZERS[name], rates))
                    off = (found[-1].shares - shares).abs().sum().item() / 2
                    rows.append({**kind, "seed": seed, "loss": found[-1].losses[-1], "shares_off": off})
                fits.setdefault((target, weights), found)
    return rows, fits


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


def gaussian_table(means: Sequence[Row]) -> str:
    """Markdown: the closed form before and after, and that of the sample's moments."""
    heads = {"start": "before", "fitted": "fitted", "moments": "mean and covariance", "loss": "W_2 that is minimised"}
    lines = [f"| dimension | noise | {' | '.join(heads.values())} |", f"|{' --- |' * (len(heads) + 2)}"]
    for row in means:
        cells = [f"{row[key]:.3f} ± {row[f'{key}_sd']:.3f}" for key in heads]
        lines.append(f"| {row['dimension']} | {row['noise']} | {' | '.join(cells)} |")
    return "\n".join(lines)


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


def mixture_table(rows: Sequence[Row]) -> str:
    """Markdown: where the starts of each kind end."""
    means = {(row["target"], row["weights"], row["optimizer"]): row for row in
             experiment.summary(rows, ["target", "weights", "optimizer"])}  # fmt: skip
    lines = ["| true weights | fitted weights | optimizer | mean | best | worst | converged | weights off |"]
    lines.append(f"|{' --- |' * 8}")
    counts = converged(rows)
    for kind, losses in kinds_of(rows).items():
        row = means[kind]
        cells = [f"{row['loss']:.3f} ± {row['loss_sd']:.3f}", f"{min(losses):.3f}", f"{max(losses):.3f}"]
        cells += [f"{counts[kind]} of {len(losses)}", f"{row['shares_off']:.2f} ± {row['shares_off_sd']:.2f}"]
        lines.append(f"| {' | '.join([*kind, *cells])} |")
    return "\n".join(lines)


def conclusion(gaussians: Sequence[Row], mixtures: Sequence[Row]) -> str:
    """What was found, in one sentence."""
    noisy = {row["noise"]: row["fitted"] for row in experiment.summary(gaussians, ["noise"])}
    moments = statistics.fmean(row["moments"] for row in gaussians)
    counts = dict.fromkeys(WEIGHTS, 0)
    for (_, weights, _), count in converged(mixtures).items():
        counts[weights] += count
    starts = len(mixtures) // len(WEIGHTS)
    return (
        f"Conclusion: a Gaussian fitted through a coreset of its noise ends {noisy['coreset']:.3f} from the truth "
        f"({moments:.3f} for the sample's mean and covariance, {noisy['random']:.3f} through random noise); of the "
        f"mixtures {counts['equal']} of {starts} starts converge with equal weights, {counts['free']} with free ones "
        f"at the rate of the means, and {counts['slow']} with free ones at a tenth of it."
    )


def draw(
    paths: dict[str, list[tuple[float, float]]],
    mixtures: Sequence[Row],
    fits: dict[tuple[str, str], list[Mixture]],
    settings: Settings,
    path: Path,
) -> None:
    """Descent of a Gaussian, losses of mixtures from every start, and two fits with free weights."""
    plt = figures.pyplot()
    figure, axes = plt.subplots(1, 4, figsize=(17, 4.2), layout="constrained", dpi=130)
    for (kind, way), colour in zip(paths.items(), experiment.COLOURS, strict=False):
        axes[0].semilogy([closed for _, closed in way], color=colour, label=f"closed form, {kind} noise")
        axes[0].semilogy([value for value, _ in way], "--", color=colour, label=f"minimised, {kind} noise")
    axes[0].set(xlabel="step", ylabel="$W_2$", title=f"a Gaussian in {settings.dimensions[-1]} dimensions")
    axes[0].legend(frameon=False, fontsize=8)
    for weights, colour in zip(
        WEIGHTS, (experiment.COLOURS[1], experiment.COLOURS[0], experiment.COLOURS[2]), strict=True
    ):
        for count, fit in enumerate(fits["unequal", weights]):
            label = f"{weights} weights" if count == 0 else None
            axes[1].semilogy(fit.losses, color=colour, alpha=0.5, linewidth=1, label=label)
    axes[1].set(xlabel="step", ylabel="$W_2^2$ to the data", title=f"mixtures, {settings.runs} starts")
    axes[1].legend(frameon=False, fontsize=8)
    data = sample(TARGETS["unequal"], settings.mixture_samples)
    ordered = sorted(fits["unequal", "free"], key=lambda fit: fit.losses[-1])
    for axis, fit, name in ((axes[2], ordered[0], "best"), (axes[3], ordered[-1], "worst")):
        axis.scatter(*data.T.numpy(), s=4, color="#c9d0d6", linewidths=0)
        for share, mean, width in zip(fit.shares.tolist(), fit.means.tolist(), fit.widths.tolist(), strict=True):
            axis.add_patch(plt.Circle(mean, 2 * width, fill=False, color=experiment.COLOURS[0], linewidth=1.5))
            axis.annotate(f"{share:.2f}", mean, ha="center", va="center", fontsize=9)
        axis.set_title(f"free weights, {name} of {settings.runs}: {fit.losses[-1]:.2f}", fontsize=11)
        axis.set_aspect("equal", adjustable="datalim")
        axis.set_axis_off()
    figures.save(figure, path)


if __name__ == "__main__":
    main()
