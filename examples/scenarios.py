"""Scenario reduction: few scenarios for a stochastic programme, judged by what its decision costs.

Capacities x of wind, base and peak plants are built before demand and wind are known, in eight blocks of hours h:

    F(x) = c . x + E sum_t h_t (q_base g_base,t + q_peak g_peak,t + q_lost s_t)

Wind, base and peak are used in this order, and s_t is what is left unserved. A scenario has 16 numbers: demand and
availability of wind in each block. Each run draws scenarios, reduces them by each method to n weighted ones, solves the
linear programme with these, and pays F on 100,000 others: `regret` is F(x_n) / F(x*) - 1. `bias` is how far the reduced
programme's own estimate of the cost of its decision is off. "Stretched" are the points of the W2 coreset after the
affine map that gives them the mean and covariance of the scenarios: means of cells have the right mean, and too little
spread.

    python examples/scenarios.py --config configs/scenarios.yaml [--small]
    python examples/report.py scenarios
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
from baselines import thinning
from baselines.d_squared import cell_masses, d_squared
from baselines.uniform import uniform
from experiment import Row, Task
from logistic_coresets import stretch
from numpy.typing import NDArray

import torchcoreset as tc

NAME = "scenarios"
Floats = NDArray[np.float64]

BLOCKS = 8
HOURS = np.array([600.0, 900, 1200, 1260, 1400, 1300, 1200, 900])  # of a year, in each block
BUILD = np.array([110.0, 250.0, 60.0])  # a year's cost of a unit of wind, base and peak, in thousands
RUN = np.array([0.0, 0.03, 0.09])  # of a unit of energy, in thousands an hour
LOST = 3.0  # of a unit of demand that is not served
PROFILE = np.array([1.30, 1.15, 1.05, 1.00, 0.95, 0.90, 0.80, 0.70])  # mean demand

OURS: dict[str, dict[str, Any]] = {
    "W2 coreset": {"p": 2},
    "W1 coreset": {"p": 1},
    "W1, free weights": {"p": 1, "weights": "free"},
    "support points": {"divergence": "energy"},
}
STRETCHED = "W2 coreset, stretched"
DRAWN = ("W2 coreset", STRETCHED, "W1, free weights", "support points", "D² rows", "kernel thinning", "random")
VALUES = ("regret", "bias", "seconds")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Fields that one reduction does not depend on stay out of its `repr`, by which results are kept."""

    scenarios: int
    judged: int
    sizes: list[int] = field(repr=False)
    methods: list[str] = field(repr=False)
    runs: int = field(repr=False)
    jobs: int = field(repr=False)
    data: tuple[str, ...] = field(default=("capacity",), repr=False)  # `experiment.tasks` asks for names of data sets


def main(arguments: list[str] | None = None) -> list[Row]:
    """Run, print tables and draw; the quartiles."""
    settings, out = experiment.read(Settings, NAME, __doc__, arguments)
    methods = experiment.installed(settings.methods, {"kernel thinning": thinning})
    keep = out / f"{NAME}_kept.jsonl"
    tasks = [
        task
        for task in experiment.tasks(settings, methods)
        if task.method != STRETCHED or task.size > 2 * BLOCKS  # fewer points have no covariance that could be stretched
    ]
    rows = experiment.each(run, tasks, settings.jobs, keep)
    rows.sort(key=lambda row: (methods.index(row["method"]), row["size"]))
    experiment.write(NAME, rows, settings, out)
    found = report.quartiles(rows, ["method", "size"], VALUES)
    report.conclude(NAME, rows, found, tables(found), out)
    figures.save(draw(found), out / f"{NAME}.png")
    return found


def scenarios(rows: int, seed: int) -> Floats:
    """Demand (rows, 8) and availability of wind (rows, 8), side by side: warm years and cold ones, calm and windy."""
    generator = np.random.default_rng(seed)
    cold, calm = generator.normal(size=(2, rows, 1))
    calm = 0.4 * cold + (1 - 0.4**2) ** 0.5 * calm  # cold weeks are calm
    demand = PROFILE * np.exp(0.12 * cold * PROFILE + 0.05 * generator.normal(size=(rows, BLOCKS)))
    wind = 1 / (1 + np.exp(0.9 + 0.5 * calm + 0.6 * generator.normal(size=(rows, BLOCKS))))
    return np.concatenate((demand, wind), 1)


def cost(x: Floats, held: Floats, weights: Floats | None = None) -> float:
    """F of the capacities x (3,) under scenarios (m, 16), all equally likely without weights."""
    demand, wind = held[:, :BLOCKS], held[:, BLOCKS:]
    left = np.maximum(demand - wind * x[0], 0)
    base = np.minimum(left, x[1])
    peak = np.minimum(left - base, x[2])
    yearly = (RUN[1] * base + RUN[2] * peak + LOST * (left - base - peak)) @ HOURS
    return float(BUILD @ x + np.average(yearly, weights=weights))


def decide(held: Floats, weights: Floats) -> Floats:
    """Capacities (3,) of the linear programme with n scenarios; weights of sum 1."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix, hstack, identity, kron, vstack

    n = len(held)
    demand, wind = held[:, :BLOCKS].ravel(), held[:, BLOCKS:].ravel()
    share = (weights[:, None] * HOURS).ravel()
    # variables: x (3), then base, peak and unserved of each scenario and block
    objective = np.concatenate((BUILD, RUN[1] * share, RUN[2] * share, LOST * share))
    each, ones = identity(n * BLOCKS), np.ones((n * BLOCKS, 1))
    served = hstack((csr_matrix(-wind[:, None]), csr_matrix((n * BLOCKS, 2)), kron([[-1, -1, -1]], each)))
    base = hstack((csr_matrix(ones * [0, -1, 0]), kron([[1, 0, 0]], each)))
    peak = hstack((csr_matrix(ones * [0, 0, -1]), kron([[0, 1, 0]], each)))
    limits = np.concatenate((-demand, np.zeros(2 * n * BLOCKS)))
    found = linprog(objective, vstack((served, base, peak)), limits, method="highs")
    capacities: Floats = found.x[:3]
    return capacities


@cache
def best(rows: int) -> tuple[Floats, float]:
    """The scenarios that judge, and the least F on them, found from the solution of a programme."""
    from scipy.optimize import minimize

    held = scenarios(rows, 10**6)
    start = decide(held[:300], np.full(300, 1 / 300))
    found = minimize(cost, start, (held,), "Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-7, "maxiter": 500})
    return held, float(found.fun)


def run(task: Task) -> Row:
    """One reduction, the decision that it leads to, and what that costs."""
    held = scenarios(task.settings.scenarios, task.seed)
    others, least = best(task.settings.judged)
    (points, weights), seconds = experiment.timed(lambda: reduce(task, held))
    x = decide(points, weights)
    paid = cost(x, others)
    about = {"method": task.method, "size": task.size, "seed": task.seed, "seconds": seconds}
    return {**about, "regret": paid / least - 1, "bias": abs(cost(x, points, weights) / paid - 1)}


def reduce(task: Task, held: Floats) -> tuple[Floats, Floats]:
    """Scenarios (n, 16) and weights (n,) of sum 1."""
    generator = np.random.default_rng(task.seed)
    if task.method in OURS:
        result = tc.build_coreset(torch.from_numpy(held), task.size, tolerance=1e-2, seed=task.seed, progress=False,
                                  **OURS[task.method])  # fmt: skip
        return result.coreset.points.detach().numpy(), result.coreset.weights.double().numpy()
    if task.method == STRETCHED:
        points, weights = reduce(task._replace(method="W2 coreset"), held)
        return stretch(torch.from_numpy(held), torch.from_numpy(points)).numpy(), weights
    if task.method == "KMeans cells":
        from sklearn.cluster import KMeans

        centres = KMeans(task.size, n_init="auto", random_state=task.seed).fit(held).cluster_centers_
        return centres, cell_masses(held, centres)
    draws = {
        "random": lambda: uniform(len(held), task.size, generator),
        "D² rows": lambda: d_squared(held, task.size, generator),
        "kernel thinning": lambda: thinning.thinning(held, task.size, generator),
    }
    if task.method not in draws:
        raise SystemExit(f"method {task.method!r}: expected some of {', '.join((*OURS, 'KMeans cells', *draws))}.")
    rows, weights = draws[task.method]()
    return held[rows], weights


def percent(row: Row) -> Row:
    """The row with regret and bias in per cent."""
    return {**row, **{name + end: 100 * row[name + end] for name in ("regret", "bias") for end in report.ENDS}}


def tables(found: Sequence[Row]) -> dict[str, str]:
    """Markdown tables of regret and bias in per cent, and of seconds."""
    held = [percent(row) for row in found]
    return {
        "regret in %": report.table(held, "regret", "method", "size", digits=2),
        "bias in %": report.table(held, "bias", "method", "size", digits=2),
        "seconds": report.table(held, "seconds", "method", "size", digits=2),
    }


def draw(found: Sequence[Row]) -> Any:
    """Regret of the decision, and bias of its estimated cost, against the number of scenarios."""
    figure, axes = figures.panels(2)
    held = {row["method"] for row in found}
    names = {"regret": "cost above the best decision", "bias": "error of the estimated cost"}
    for axis, (value, label) in zip(axes, names.items(), strict=True):
        figures.curves(axis, found, value, figures.looks(name for name in DRAWN if name in held))
        axis.set(yscale="log", xlabel="scenarios", ylabel=label)
        axis.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.3g} %")
        figures.sizes(axis, (row["size"] for row in found))
        figures.name_lines(axis)
    return figure


if __name__ == "__main__":
    main()
