"""Figure 4: coresets for Bayesian logistic regression, by the KL divergence of their posterior to that of all data.

    python examples/logistic_regression.py --config configs/logistic_regression.yaml [--small]
    python examples/report.py logistic_regression

"synthetic" draws theta ~ N(0, I), x_k ~ N(0, I), y_k = +1 with probability s(x_k theta) and -1 otherwise, anew for each
run. The other data sets, 500 rows with 10 features and an intercept, stay as they are; runs differ in what is random in
a method. Coresets of every method and size are judged by KL(Laplace approximation of the coreset's posterior || that of
all rows), in nats. Once, the Laplace approximation is checked by Hamiltonian Monte Carlo, and the KL by importance
sampling. Writes logistic_regression.csv, .json, .png and logistic_regression_check.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import experiment
import figures
import public_data
import report
import torch
from baselines.frank_wolfe import frank_wolfe
from baselines.giga import giga
from baselines.hilbert import gradient_vectors, shorten
from experiment import Row, Task, timed
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
SYNTHETIC = "synthetic"
FLOOR = 1e-13  # nats: below, float64 tells two posteriors apart no more
DRAWN = ("uniform", "W2 per class, equal", "W2 joint", "W2 joint, stretched", "W2 joint, corrected", "GIGA",
         "GIGA, least squares")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Keys of configs/logistic_regression.yaml, which says what they are.

    Fields that one run does not depend on stay out of its `repr`, by which results are kept.
    """

    data: list[str] = field(repr=False)
    rows: int
    dimension: int
    sizes: list[int]
    uniform_sizes: list[int]
    runs: int = field(repr=False)
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
    jobs: int = field(repr=False)


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
    def draw(settings: Settings, seed: int, data: str = SYNTHETIC) -> Problem:
        generator = torch.Generator().manual_seed(seed)
        normal = partial(torch.randn, generator=generator, dtype=torch.float64)
        if data == SYNTHETIC:
            theta, x = normal(settings.dimension), normal(settings.rows, settings.dimension)
            y = torch.bernoulli(torch.sigmoid(x @ theta), generator=generator).long()
        else:
            X, labels = (torch.from_numpy(part) for part in public_data.load(data))
            x, y = torch.cat((X.double(), torch.ones(len(X), 1, dtype=torch.float64)), 1), (labels > 0).long()
        z = x * (2 * y - 1)[:, None]
        few = z[torch.randperm(len(z), generator=generator)[: settings.pilot]]  # all rows, if there are no more
        ones = torch.ones(len(z), dtype=z.dtype)
        return Problem(x, y, z, laplace(z, ones), laplace(few, ones[: len(few)]), generator)


Projected = tuple[Tensor, Tensor, Tensor, Tensor]


def projection(problem: Problem, settings: Settings, at: Gaussian) -> Projected:
    """Gradient vectors of all rows at draws from an approximate posterior; their sum; the draws; axes of `shorten`."""
    generator = torch.Generator().manual_seed(problem.generator.initial_seed() + 1_000_000)
    draws = at.draw(torch.randn(settings.draws, problem.z.shape[1], dtype=torch.float64, generator=generator))
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
    }
    if size > z.shape[1]:  # fewer points have no covariance that could be stretched
        on_top |= {
            "W2 joint, stretched": lambda: equal(stretch(z, start[0]), len(z)),
            "W2 joint, corrected": lambda: equal(correct(z, stretch(z, start[0]), full), len(z)),
            "W2 joint, corrected, own mode": lambda: equal(
                correct_at_own_mode(z, stretch(z, start[0]), settings.rounds), len(z)
            ),
        }
    if size in settings.feature_sizes and seed < settings.feature_runs and len(z) == settings.rows:
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
    for size in (size for size in settings.uniform_sizes if size < len(problem.z)):
        rows = torch.randperm(len(problem.z), generator=problem.generator)[:size]
        yield "uniform", size, equal(problem.z[rows], len(problem.z)), 0.0
    projected = projection(problem, settings, problem.full)
    for size in settings.sizes:
        for name, pair, took in optimal_transport(problem, settings, projected, size, seed):
            yield name, size, pair, took
    yield from greedy(problem, settings, projected, "")
    if len(problem.z) > settings.pilot:
        yield from greedy(problem, settings, projection(problem, settings, problem.pilot), ", pilot")


def monte_carlo(problem: Problem, settings: Settings) -> dict[str, float]:
    """How far Laplace is from Hamiltonian Monte Carlo, in posterior standard deviations, and whether that has mixed."""
    z, full = problem.z, problem.full
    w = torch.ones(len(z), dtype=z.dtype)
    generator = torch.Generator().manual_seed(0)
    apart = 3 * torch.randn(settings.chains, z.shape[1], dtype=z.dtype, generator=generator)
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
        "covariance_error": (torch.cov(standard.T) - torch.eye(z.shape[1])).abs().max().item(),
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


def run(task: Task) -> list[Row]:
    """Every method and size on the data of one run."""
    problem = Problem.draw(task.settings, task.seed, task.data)
    about = {"data": task.data, "seed": task.seed}
    return [
        {**about, "method": method, "size": size, "kl": max(FLOOR, kl(laplace(*pair), problem.full)),
         "points": len(pair[0]), "total": pair[1].sum().item(), "seconds": took}
        for method, size, pair, took in coresets(problem, task.settings, task.seed)
    ]  # fmt: skip


def checked(task: Task) -> dict[str, Any]:
    """`check` of the first run of a data set."""
    problem = Problem.draw(task.settings, task.seed, task.data)
    made = [
        (method, size, pair)
        for method, size, pair, _ in coresets(problem, task.settings, task.seed)
        if size in task.settings.check_sizes
    ]
    return check(problem, task.settings, made)


def tables(found: Sequence[Row]) -> dict[str, str]:
    """Markdown tables of the KL in nats and of seconds, for each data set."""
    made = {}
    for data in dict.fromkeys(row["data"] for row in found):
        here = [row for row in found if row["data"] == data]
        made[f"{data}, KL in nats"] = report.table(here, "kl", "method", "size", digits=2)
        made[f"{data}, seconds"] = report.table(here, "seconds", "method", "size", digits=2)
    return made


def draw(found: Sequence[Row]) -> Any:
    """A panel for each data set: KL against size."""
    names = list(dict.fromkeys(row["data"] for row in found))
    figure, axes = figures.panels(len(names))
    for axis, data in zip(axes, names, strict=True):
        here = [row for row in found if row["data"] == data]
        held = {row["method"] for row in here}
        figures.curves(axis, here, "kl", figures.looks(name for name in DRAWN if name in held))
        axis.set(yscale="log", title=data, xlabel="points", ylabel="KL, nats")
        figures.sizes(axis, (row["size"] for row in here))
        figures.name_lines(axis)
    return figure


def main(arguments: list[str] | None = None) -> tuple[list[Row], dict[str, Any]]:
    """Run, check, print the quartiles and draw them; all rows, and the checks of each data set."""
    settings, out = experiment.read(Settings, NAME, __doc__ or "", arguments)
    keep = out / f"{NAME}_kept.jsonl"
    firsts = [Task(settings, data, "check", 0, 0) for data in settings.data]
    checks = dict(zip(settings.data, experiment.each(checked, firsts, settings.jobs, keep), strict=True))
    (out / f"{NAME}_check.json").write_text(json.dumps(checks, indent=1), "utf-8")
    tasks = [Task(settings, data, "all", 0, seed) for seed in range(settings.runs) for data in settings.data]
    rows = [row for held in experiment.each(run, tasks, settings.jobs, keep) for row in held]
    experiment.write(NAME, rows, settings, out)
    order = list(dict.fromkeys((row["data"], row["method"]) for row in rows))
    found = report.quartiles(rows, ["data", "method", "size"], ["kl", "points", "seconds"])
    found.sort(
        key=lambda row: (settings.data.index(row["data"]), order.index((row["data"], row["method"])), row["size"])
    )
    report.conclude(NAME, rows, found, tables(found), out)
    print("\nchecks", json.dumps({data: held["full_posterior"] for data, held in checks.items()}, indent=1), sep="\n\n")
    figures.save(draw(found), out / f"{NAME}.png")
    return rows, checks


if __name__ == "__main__":
    main()
