"""Posterior samples: few points for the draws of Markov chains, judged by other draws of the posterior.

Each run samples a posterior anew by Hamiltonian Monte Carlo, and each method chooses or places n points for the draws
of these chains. Judges are other draws: of the posterior itself where that is possible ("banana"), elsewhere of a
thousand chains. Methods work in coordinates whitened by the chains, judges in those whitened by their own draws.

    w2       W_2 from the points to the posterior: the middle of an interval of 95 %, whose relative half is `width`
    energy   energy distance, 2 E|X - Y| - E|X - X'| - E|Y - Y'|, to 20,000 of the judges
    mean     of the means of the parameters, in posterior standard deviations; root mean square over the parameters
    spread   of their standard deviations, relative; and
    tails    of their 5 % and 95 % quantiles, in posterior standard deviations, alike

    "lr_phishing", "lr_ds1"   Bayesian logistic regression with prior N(0, I), 500 rows, 11 parameters
    "banana"                  (x, x^2 / 2 + y) with x and y standard normal

    python examples/posterior.py --config configs/posterior.yaml [--small]
    python examples/report.py posterior
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from typing import Any

import experiment
import figures
import numpy as np
import public_data
import report
import torch
from baselines import stein, thinning
from baselines.uniform import uniform
from experiment import Row, Task
from laplace import laplace, log_posterior, score
from logistic_coresets import stretch
from mcmc import Function, effective_draws, hmc, split_r_hat
from numpy.typing import NDArray
from torch import Generator, Tensor

import torchcoreset as tc

NAME = "posterior"
BANANA = "banana"
JUDGE_SEED = 10**6
CHAINS = 1000  # that judge a posterior, each of which gives judges / 1000 draws
COMPARED = 20_000  # judges of the energy distance, which compares each with each
LEVELS = (0.05, 0.95)  # of the tail quantiles

OURS: dict[str, dict[str, Any]] = {
    "W2 coreset": {},
    "W2 rows": {"rows": True},
    "W2, free weights": {"weights": "free"},
    "support points": {"divergence": "energy"},
}
STRETCHED, SNAPPED = "W2 coreset, stretched", "support points, nearest draws"
MOVED = {STRETCHED: "W2 coreset", SNAPPED: "support points"}
DRAWN = ("W2 coreset", STRETCHED, "support points", "kernel thinning", "Stein thinning", "every k-th draw")
MEASURES = {
    "w2": "W2",
    "energy": "energy distance",
    "mean": "error of the means",
    "spread": "error of the standard deviations",
    "tails": "error of the tail quantiles",
    "seconds": "seconds",
}
OF_CHAIN = {
    "r_hat": "R-hat",
    "effective": "effective draws, in 1,000",
    "all_mean": "error of the means",
    "all_spread": "of the standard deviations",
    "all_tails": "of the tail quantiles",
}
VALUES = (*MEASURES, "width", *OF_CHAIN)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Fields that one thinning does not depend on stay out of its `repr`, by which results are kept."""

    data: list[str] = field(repr=False)
    chains: int
    draws: int
    judges: int
    sizes: list[int] = field(repr=False)
    methods: list[str] = field(repr=False)
    runs: int = field(repr=False)
    runs_of: dict[str, int] = field(repr=False, default_factory=dict)
    tolerance: float
    jobs: int = field(repr=False)


@dataclass(frozen=True)
class Posterior:
    """A density up to a constant, log p (c,) and its gradient (c, d) of theta (c, d), and what sampling it needs.

    Attributes:
        log_density, gradient: the functions.
        centre: (d,) about which chains start.
        scale: (d, d) S, of `hmc`; S S^T is near the covariance.
    """

    log_density: Function
    gradient: Function
    centre: Tensor
    scale: Tensor

    def sample(self, chains: int, draws: int, seed: int) -> Tensor:
        """Chains (c, draws, d) that start far apart, without as many draws before these."""
        generator = Generator().manual_seed(seed)
        apart = 2 * torch.randn(chains, len(self.centre), dtype=torch.float64, generator=generator)
        start = self.centre + apart @ self.scale.T
        return hmc(self.log_density, self.gradient, start, self.scale, 2 * draws, generator)[0]


@dataclass(frozen=True)
class Judges:
    """What points are compared with.

    Attributes:
        draws: (m, d) of the posterior, whitened.
        mean, lower: the affine map that whitens, x = mean + lower z.
        spread: (d,) standard deviations of the parameters.
        tails: (2, d) quantiles of the parameters, in standard deviations from their means.
        own: E|Y - Y'| of the first COMPARED draws.
    """

    draws: Tensor
    mean: Tensor
    lower: Tensor
    spread: Tensor
    tails: Tensor
    own: float

    @staticmethod
    def of(draws: Tensor) -> Judges:
        mean, lower, spread = draws.mean(0), torch.linalg.cholesky(torch.cov(draws.T)), draws.std(0)
        white = whiten(draws, mean, lower)
        tails = torch.quantile((draws - mean) / spread, torch.tensor(LEVELS).double(), 0)
        few = white[:COMPARED]
        own = sum(torch.cdist(block, few).sum().item() for block in few.split(500)) / len(few) ** 2  # type: ignore[no-untyped-call]
        return Judges(white, mean, lower, spread, tails, own)

    def errors(self, points: Tensor, weights: Tensor) -> dict[str, float]:
        """Root mean squares over the parameters, each in its own unit: these, not whitened ones, are looked at."""
        scaled = (points - self.mean) / self.spread
        mean = weights @ scaled
        sd = (weights @ (scaled - mean).square()).sqrt()
        found = {"mean": mean, "spread": sd - 1, "tails": quantiles(scaled, weights) - self.tails}
        return {name: error.square().mean().sqrt().item() for name, error in found.items()}


def main(arguments: list[str] | None = None) -> list[Row]:
    """Run, print the tables and draw; the quartiles."""
    settings, out = experiment.read(Settings, NAME, __doc__, arguments)
    methods = experiment.installed(settings.methods, {"kernel thinning": thinning, "Stein thinning": stein})
    tasks = [
        task
        for task in experiment.tasks(settings, methods)
        if task.method != STRETCHED or task.size > len(posterior(task.data).centre)  # fewer have no covariance
    ]
    rows = experiment.each(run, tasks, settings.jobs, out / f"{NAME}_kept.jsonl")
    rows.sort(key=lambda row: (settings.data.index(row["data"]), methods.index(row["method"]), row["size"]))
    experiment.write(NAME, rows, settings, out)
    found = report.quartiles(rows, ["data", "method", "size"], VALUES)
    report.conclude(NAME, rows, found, tables(found), out)
    figures.save(draw(found), out / f"{NAME}.png")
    return found


@cache
def posterior(data: str) -> Posterior:
    """The posterior of this name."""
    if data == BANANA:
        # Smaller than y is wide: where |x| = 3 the density bends so much that longer steps would diverge.
        scale = 0.8 * torch.eye(2, dtype=torch.float64)
        return Posterior(banana_log_density, banana_gradient, torch.tensor([0.0, 0.5], dtype=torch.float64), scale)
    X, labels = (torch.from_numpy(part) for part in public_data.load(data))
    x = torch.cat((X.double(), torch.ones(len(X), 1, dtype=torch.float64)), 1)
    z = x * torch.where(labels > 0, 1, -1)[:, None]
    w = torch.ones(len(z), dtype=z.dtype)
    guide = laplace(z, w)
    scale = torch.linalg.inv(torch.linalg.cholesky(guide.precision).T)
    return Posterior(partial(log_posterior, z=z, w=w), partial(score, z=z, w=w), guide.mean, scale)


def banana_log_density(theta: Tensor) -> Tensor:
    """Of (x, x^2 / 2 + y) with x and y standard normal, (c,) up to a constant, for theta (c, 2)."""
    x, y = theta[:, 0], theta[:, 1] - theta[:, 0].square() / 2
    return -(x.square() + y.square()) / 2


def banana_gradient(theta: Tensor) -> Tensor:
    """(c, 2)."""
    x, y = theta[:, 0], theta[:, 1] - theta[:, 0].square() / 2
    return torch.stack((x * y - x, -y), 1)


@lru_cache(maxsize=4)
def sampled(data: str, chains: int, draws: int, seed: int) -> Tensor:
    """Chains (c, draws, d)."""
    return posterior(data).sample(chains, draws, seed)


@lru_cache(maxsize=4)
def chain(data: str, chains: int, draws: int, count: int, seed: int) -> tuple[Tensor, Row]:
    """The draws (N, d) that are thinned; whether chains have mixed, and how far all draws are from `count` judges."""
    held = sampled(data, chains, draws, seed)
    every = held.flatten(0, 1)
    errors = judges(data, count).errors(every, equal(len(every)))
    mixed = {"r_hat": split_r_hat(held), "effective": effective_draws(held)}
    return every, {**mixed, **{f"all_{name}": error for name, error in errors.items()}}


@cache
def judges(data: str, count: int) -> Judges:
    """Draws of the posterior itself, or of so many chains that the draws hardly depend on each other."""
    if data == BANANA:
        x, y = torch.randn(2, count, dtype=torch.float64, generator=Generator().manual_seed(JUDGE_SEED))
        return Judges.of(torch.stack((x, x.square() / 2 + y), 1))
    held = posterior(data).sample(min(CHAINS, count), max(1, count // CHAINS), JUDGE_SEED).flatten(0, 1)
    return Judges.of(held[torch.randperm(len(held), generator=Generator().manual_seed(0))])


def whiten(x: Tensor, mean: Tensor, lower: Tensor) -> Tensor:
    """Rows (m, d) in coordinates in which the covariance L L^T is 1, for L (d, d) the `lower` triangle."""
    white: Tensor = torch.linalg.solve_triangular(lower, (x - mean).T, upper=False).T.contiguous()
    return white


def run(task: Task) -> Row:
    """One thinning, and how far it is from the posterior."""
    settings = task.settings
    every, about_chain = chain(task.data, settings.chains, settings.draws, settings.judges, task.seed)
    (points, weights), seconds = thinned(task, every)
    about = {"data": task.data, "method": task.method, "size": task.size, "seed": task.seed, "seconds": seconds}
    return {**about, **judged(points, weights, judges(task.data, settings.judges), task.seed), **about_chain}


def thinned(task: Task, every: Tensor) -> tuple[tuple[Tensor, Tensor], float]:
    """Points (n, d), in the units of the posterior, their weights (n,), of sum 1, and processor seconds."""
    about = task.data, task.settings.chains, task.settings.draws, task.settings.tolerance
    if task.method in OURS:
        return built(*about, task.method, task.size, task.seed)
    if task.method in MOVED:
        (points, weights), building = built(*about, MOVED[task.method], task.size, task.seed)
        moved, took = experiment.timed(lambda: (move(task.method, every, points), weights))
        return moved, building + took
    return experiment.timed(lambda: (every[drawn(task, every)], equal(task.size)))


@lru_cache(maxsize=8)  # which methods that move the points of another need again
def built(
    data: str, chains: int, draws: int, tolerance: float, method: str, size: int, seed: int
) -> tuple[tuple[Tensor, Tensor], float]:
    """Points and weights of one of ours, and processor seconds."""
    every = sampled(data, chains, draws, seed).flatten(0, 1)
    result, seconds = experiment.timed(
        lambda: tc.build_coreset(
            every, size, scale="whiten", tolerance=tolerance, seed=seed, progress=False, **OURS[method]
        )
    )
    return (result.coreset.points.detach().double(), result.coreset.weights.double()), seconds


def move(method: str, every: Tensor, points: Tensor) -> Tensor:
    """The points stretched to the mean and covariance of all draws, or replaced by the nearest draws."""
    if method == STRETCHED:
        return stretch(every, points)
    mean, lower = every.mean(0), torch.linalg.cholesky(torch.cov(every.T))
    return every[nearest(whiten(every, mean, lower), whiten(points, mean, lower))]


def drawn(task: Task, every: Tensor) -> Any:
    """Numbers of draws."""
    lower = torch.linalg.cholesky(torch.cov(every.T))
    white, generator = whiten(every, every.mean(0), lower).numpy(), np.random.default_rng(task.seed)

    def scores() -> NDArray[np.float64]:
        return (posterior(task.data).gradient(every) @ lower).numpy()

    ways = {
        "every k-th draw": lambda: every_kth(len(every), task.size),
        "random draws": lambda: uniform(len(every), task.size, generator)[0],
        "kernel thinning": lambda: thinning.thinning(white, task.size, generator)[0],
        "Stein thinning": lambda: stein.stein(white, scores(), task.size),
        "Stein thinning, median": lambda: stein.stein(white, scores(), task.size, "med"),
    }
    if task.method not in ways:
        raise SystemExit(f"method {task.method!r}: expected some of {', '.join((*OURS, *MOVED, *ways))}.")
    return ways[task.method]()


def equal(size: int) -> Tensor:
    """Equal weights of sum 1."""
    return torch.full((size,), 1 / size, dtype=torch.float64)


def every_kth(draws: int, size: int) -> Tensor:
    """`size` row numbers at equal distances."""
    return ((torch.arange(size) + 0.5) * draws / size).long()


def nearest(rows: Tensor, points: Tensor) -> Tensor:
    """Row numbers: for each point in turn the nearest row that is not taken."""
    apart, found = torch.cdist(points, rows), torch.empty(len(points), dtype=torch.long)
    for i, distances in enumerate(apart):
        found[i] = distances.argmin()
        apart[:, found[i]] = torch.inf
    return found


def judged(points: Tensor, weights: Tensor, judges: Judges, seed: int) -> dict[str, float]:
    """How far points (n, d) of these weights are from the posterior."""
    white = whiten(points, judges.mean, judges.lower)
    about = tc.certify(tc.Coreset(white, weights), judges.draws, seed=seed)
    middle = (about.lower + about.upper) / 2
    across = torch.cdist(white, judges.draws[:COMPARED]).mean(1)
    energy = 2 * weights @ across - weights @ torch.cdist(white, white) @ weights - judges.own
    width = (about.upper - about.lower) / 2 / middle
    return {"w2": middle, "width": width, "energy": energy.item(), **judges.errors(points, weights)}


def quantiles(points: Tensor, weights: Tensor, levels: Sequence[float] = LEVELS) -> Tensor:
    """(levels, d) of weighted points (n, d), linear between the middles of steps: Hazen's, if weights are equal."""
    found = []
    for column in points.T.numpy():
        order = np.argsort(column)
        share = weights.numpy()[order]
        found.append(np.interp(levels, np.cumsum(share) - share / 2, column[order]))
    return torch.from_numpy(np.stack(found, 1))


def tables(found: Sequence[Row]) -> dict[str, str]:
    """Markdown tables of each measure, for each posterior, and one of the chains."""
    names = list(dict.fromkeys(row["data"] for row in found))
    firsts = [next(row for row in found if row["data"] == data) for data in names]
    chains = [
        {
            "data": row["data"],
            "of the chains": label,
            **{f"x{end}": row[value + end] / (1000 if value == "effective" else 1) for end in report.ENDS},
        }
        for row in firsts
        for value, label in OF_CHAIN.items()
    ]
    return {
        "chains": report.table(chains, "x", "data", "of the chains", 2),
        **{
            f"{data}, {label}": report.table(
                [row for row in found if row["data"] == data], value, "method", "size", 3 if value == "w2" else 2
            )
            for data in names
            for value, label in MEASURES.items()
        },
    }


def draw(found: Sequence[Row]) -> Any:
    """W2 and the errors of spread and tails against the number of points, for the first posterior and the last."""
    from matplotlib.ticker import LogLocator, NullLocator

    names = list(dict.fromkeys(row["data"] for row in found))
    shown = list(dict.fromkeys((names[0], names[-1])))
    figure, axes = figures.panels(3 * len(shown))
    pairs = [(data, value) for value in ("w2", "spread", "tails") for data in shown]
    for axis, (data, value) in zip(axes, pairs, strict=True):
        here = [row for row in found if row["data"] == data]
        held = {row["method"] for row in here}
        figures.curves(axis, here, value, figures.looks(name for name in DRAWN if name in held))
        axis.set(title=data, xlabel="points", ylabel=MEASURES[value])
        figures.sizes(axis, (row["size"] for row in here))
        if value != "w2":  # which changes too little for a logarithmic axis
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
            axis.yaxis.set_minor_locator(NullLocator())
        figures.name_lines(axis)
    return figure


if __name__ == "__main__":
    main()
