"""Figure 4: coresets for Bayesian logistic regression, by the KL divergence of their posterior to that of all data.

    python examples/logistic_regression.py --config configs/logistic_regression.yaml [--small]

Each run draws theta ~ N(0, I), x_k ~ N(0, I), y_k = +1 with probability s(x_k theta) and -1 otherwise. Coresets of
every method and size are judged by KL(Laplace approximation of the coreset's posterior || that of all rows), in nats.
Once, the Laplace approximation is checked by Hamiltonian Monte Carlo, and the KL by importance sampling.
Writes logistic_regression.csv, .json, .png and logistic_regression_check.json.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from baselines.frank_wolfe import frank_wolfe
from baselines.giga import giga
from baselines.hilbert import gradient_vectors, shorten
from experiment import COLOURS, Row, pyplot, read, save, seeds, summary, timed, write
from laplace import Gaussian, kl, laplace, log_posterior, posterior_kl, score
from logistic_coresets import (
    Pair,
    cell_masses,
    correct,
    correct_at_own_mode,
    equal,
    hilbert,
    joint,
    least_squares,
    per_class,
    stretch,
    transport_features,
)
from mcmc import effective_draws, hmc, split_r_hat
from torch import Generator, Tensor

NAME = "logistic_regression"


@dataclass(frozen=True)
class Settings:
    """Keys of configs/logistic_regression.yaml, which says what they are."""

    rows: int
    dimension: int
    sizes: list[int]
    uniform_sizes: list[int]
    runs: int
    draws: int
    pilot: int
    greedy_steps: int
    rounds: int
    feature_sizes: list[int]
    feature_steps: int
    feature_runs: int
    check_draws: int
    check_sizes: list[int]
    chains: int
    chain_draws: int


@dataclass(frozen=True)
class Problem:
    """Data of one run, the Laplace approximation of their posterior, and that of the posterior of a few rows alone."""

    x: Tensor
    y: Tensor
    z: Tensor
    full: Gaussian
    pilot: Gaussian
    generator: Generator

    @staticmethod
    def draw(settings: Settings, seed: int) -> Problem:
        generator = torch.Generator().manual_seed(seed)
        normal = partial(torch.randn, generator=generator, dtype=torch.float64)
        theta, x = normal(settings.dimension), normal(settings.rows, settings.dimension)
        y = torch.bernoulli(torch.sigmoid(x @ theta), generator=generator).long()
        z = x * (2 * y - 1)[:, None]
        few = z[torch.randperm(len(z), generator=generator)[: settings.pilot]]
        ones = torch.ones(len(z), dtype=z.dtype)
        return Problem(x, y, z, laplace(z, ones), laplace(few, ones[: len(few)]), generator)


Projected = tuple[Tensor, Tensor, Tensor, Tensor]


def projection(problem: Problem, settings: Settings, at: Gaussian) -> Projected:
    """Gradient vectors of all rows at draws from an approximate posterior; their sum; the draws; axes of `shorten`."""
    generator = torch.Generator().manual_seed(problem.generator.initial_seed() + 1_000_000)
    normal = torch.randn(settings.draws, settings.dimension, dtype=torch.float64, generator=generator)
    draws = at.draw(normal)
    vectors, axes = shorten(gradient_vectors(problem.z, draws))
    return vectors, vectors.sum(0), draws, axes


def optimal_transport(
    problem: Problem, settings: Settings, projected: Projected, size: int, seed: int
) -> Iterator[tuple[str, Pair, float]]:
    """Name, coreset and seconds of each method of ours at one size."""
    x, y, z, full = problem.x, problem.y, problem.z, problem.full
    for p, allocation in ((1, "equal"), (2, "equal"), (2, "proportional")):
        yield f"W{p} per class, {allocation}", *timed(partial(per_class, x, y, size, p, allocation, seed))
    yield "W1 joint", *timed(lambda: joint(z, size, 1, seed))
    start, building = timed(lambda: joint(z, size, 2, seed))
    yield "W2 joint", start, building
    on_top: dict[str, Callable[[], Pair]] = {
        "W2 joint, cell masses": lambda: cell_masses(z, start[0]),
        "W2 joint, least squares": lambda: least_squares(start[0], *projected[1:]),
        "W2 joint, stretched": lambda: equal(stretch(z, start[0]), len(z)),
        "W2 joint, corrected": lambda: equal(correct(z, stretch(z, start[0]), full), len(z)),
        "W2 joint, corrected, own mode": lambda: equal(
            correct_at_own_mode(z, stretch(z, start[0]), settings.rounds), len(z)
        ),
    }
    if size in settings.feature_sizes and seed < settings.feature_runs:
        on_top["W2 of features"] = lambda: equal(transport_features(z, start[0], full, settings.feature_steps), len(z))
    for name, work in on_top.items():
        pair, took = timed(work)
        yield name, pair, building + took


def greedy(
    problem: Problem, settings: Settings, projected: Projected, label: str
) -> Iterator[tuple[str, int, Pair, float]]:
    """Name, size, coreset and seconds (for all sizes together) of GIGA and Frank-Wolfe."""
    for name, method in (("GIGA", giga), ("Frank-Wolfe", frank_wolfe)):
        steps = method(projected[0], settings.greedy_steps)
        found, took = timed(partial(hilbert, problem.z, steps, settings.sizes))
        for size, pair in found.items():
            yield name + label, size, pair, took
            if name == "GIGA":
                again, more = timed(partial(least_squares, pair[0], *projected[1:]))
                yield f"GIGA{label}, least squares", size, again, took + more


def coresets(problem: Problem, settings: Settings, seed: int) -> Iterator[tuple[str, int, Pair, float]]:
    """Name, size, coreset and seconds of every method at every size."""
    for size in settings.uniform_sizes:
        rows = torch.randperm(len(problem.z), generator=problem.generator)[:size]
        yield "uniform", size, equal(problem.z[rows], len(problem.z)), 0.0
    projected = projection(problem, settings, problem.full)
    for size in settings.sizes:
        for name, pair, took in optimal_transport(problem, settings, projected, size, seed):
            yield name, size, pair, took
    yield from greedy(problem, settings, projected, "")
    yield from greedy(problem, settings, projection(problem, settings, problem.pilot), ", pilot")


def monte_carlo(problem: Problem, settings: Settings) -> dict[str, float]:
    """How far Laplace is from Hamiltonian Monte Carlo, in posterior standard deviations, and whether that has mixed."""
    z, full = problem.z, problem.full
    w = torch.ones(len(z), dtype=z.dtype)
    generator = torch.Generator().manual_seed(0)
    apart = 3 * torch.randn(settings.chains, settings.dimension, dtype=z.dtype, generator=generator)
    upper = torch.linalg.cholesky(full.precision).T
    scale = torch.linalg.inv(upper)
    (chains, accepted), took = timed(
        lambda: hmc(
            lambda theta: log_posterior(theta, z, w),
            lambda theta: score(theta, z, w),
            full.draw(apart),
            scale,
            settings.chain_draws,
            generator,
        )
    )
    standard = (chains.flatten(0, 1) - full.mean) @ upper.T  # N(0, I) if Laplace is exact
    return {
        "mean_error_sd": standard.mean(0).abs().max().item(),
        "covariance_error": (torch.cov(standard.T) - torch.eye(settings.dimension)).abs().max().item(),
        "r_hat": split_r_hat(chains),
        "effective_draws": effective_draws(chains),
        "accepted": accepted,
        "seconds": took,
    }


def check(problem: Problem, settings: Settings, made: list[tuple[str, int, Pair]]) -> dict[str, Any]:
    """The Laplace approximation by Monte Carlo, and the KL of the posteriors themselves for the coresets of one run."""
    w = torch.ones(len(problem.z), dtype=torch.float64)
    rows = []
    for name, size, pair in made:
        found, share = posterior_kl(pair, (problem.z, w), settings.check_draws, torch.Generator().manual_seed(1))
        laplace_kl = kl(laplace(*pair), problem.full)
        rows.append({"method": name, "size": size, "laplace": laplace_kl, "importance": found, "share": share})
    return {"full_posterior": monte_carlo(problem, settings), "coresets": rows}


def medians(rows: list[Row], value: str) -> list[Row]:
    """Median and quartiles of a number for each method and size."""
    groups: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        groups.setdefault((row["method"], row["size"]), []).append(row[value])
    found = []
    for (method, size), values in groups.items():
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        found.append({"method": method, "size": size, "low": low, "median": middle, "high": high})
    return found


def table(cells: dict[tuple[str, int], str]) -> str:
    """Markdown: a line for each method, a column for each size."""
    methods, sizes = list(dict.fromkeys(key[0] for key in cells)), sorted({key[1] for key in cells})
    lines = [["method", *map(str, sizes)], ["---"] * (len(sizes) + 1)]
    lines += [[method, *(cells.get((method, size), "") for size in sizes)] for method in methods]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def draw(found: list[Row], path: Path) -> None:
    """Median KL against size with quartiles, both axes logarithmic, in two panels: the paper's methods, and beyond."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(15, 6), sharey=True, layout="constrained", dpi=130)
    methods = list(dict.fromkeys(row["method"] for row in found))
    theirs = [name for name in methods if "class" in name or name in ("uniform", "GIGA", "Frank-Wolfe", "W2 joint")]
    beyond = ["uniform", "GIGA", *(name for name in methods if name not in theirs), "W2 joint"]
    for axis, names, title in zip(axes, (theirs, beyond), ("as in the paper", "beyond"), strict=True):
        for k, name in enumerate(dict.fromkeys(names)):
            line = sorted((row for row in found if row["method"] == name), key=lambda row: row["size"])
            place = [row["size"] for row in line]
            low, middle, high = ([max(row[key], 1e-13) for row in line] for key in ("low", "median", "high"))
            colour, style = COLOURS[k % len(COLOURS)], "o-" if k < len(COLOURS) else "^:"
            axis.plot(place, middle, style, color=colour, label=name, markersize=5)
            axis.fill_between(place, low, high, color=colour, alpha=0.12, linewidth=0)
        axis.set(xscale="log", yscale="log", xlabel="size", title=title)
        axis.grid(alpha=0.2)
    axes[0].legend(fontsize=8, handlelength=3)
    axes[1].legend(fontsize=8, handlelength=3, loc="center left", bbox_to_anchor=(1, 0.5))
    axes[0].set_ylabel("KL(coreset posterior || full posterior), nats")
    save(figure, path)


def main(arguments: list[str] | None = None) -> tuple[list[Row], dict[str, Any]]:
    settings, out = read(Settings, NAME, __doc__ or "", arguments)
    rows: list[Row] = []
    checked: dict[str, Any] = {}
    for seed in seeds(settings.runs, NAME):
        problem = Problem.draw(settings, seed)
        made = []
        for method, size, pair, took in coresets(problem, settings, seed):
            row = {"method": method, "size": size, "seed": seed, "kl": kl(laplace(*pair), problem.full)}
            rows.append({**row, "points": len(pair[0]), "total": pair[1].sum().item(), "seconds": took})
            if size in settings.check_sizes:
                made.append((method, size, pair))
        if seed == 0:
            checked = check(problem, settings, made)
            (out / f"{NAME}_check.json").write_text(json.dumps(checked, indent=1), "utf-8")
        write(NAME, rows, settings, out)
    found, means = medians(rows, "kl"), summary(rows, ["method", "size"])
    print(
        "median KL in nats", table({(row["method"], row["size"]): f"{row['median']:.2g}" for row in found}), sep="\n\n"
    )
    spread = {(row["method"], row["size"]): f"{row['kl']:.2g} ± {row['kl_sd']:.1g}" for row in means}
    print("\nmean ± standard deviation", table(spread), sep="\n\n")
    print("\nseconds", table({(row["method"], row["size"]): f"{row['seconds']:.2g}" for row in means}), sep="\n\n")
    print("\nchecks", json.dumps(checked["full_posterior"], indent=1), sep="\n\n")
    draw(found, out / f"{NAME}.png")
    return rows, checked


if __name__ == "__main__":
    main()
