"""Centres of k-means learned on a coreset, and what they cost on all data (Claici, Genevay, Solomon 2020, figure 2).

    J(Q) = sum_x min_{q in Q} |x - q|^2,    error = J(Q_c) / J(Q*) - 1

Q_c are the centres that k-means learns from the weighted coreset, and Q* the best centres that are known. The paper's
data sets are Pendigits (figure 2; probably `pendigits_hics`, which it cites), HTRU2 and cod-rna (supplement).

`unweighted` is the error of centres that are learned from the same points as if they all weighed the same: what a
learner gets that takes no weights.

    python examples/kmeans.py --config configs/kmeans.yaml [--small]
    python examples/report.py kmeans                                  # its picture and tables into docs/results
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import experiment
import figures
import numpy as np
import public_data
import report
import torch
from baselines import medoids, thinning
from baselines.d_squared import cell_masses, d_squared
from baselines.lightweight import lightweight
from baselines.sensitivity import sensitivity
from baselines.uniform import uniform
from experiment import Row, Task
from many_starts import many_starts
from numpy.typing import NDArray

import torchcoreset as tc

OURS: dict[str, dict[str, Any]] = {
    "W2 coreset": {"p": 2},
    "W1 coreset": {"p": 1},
    "W2, free weights": {"p": 2, "weights": "free"},
    "support points": {"divergence": "energy"},
}
DRAWN = ("W2 coreset", "W1 coreset", "D² rows", "KMeans cells", "kernel thinning", "lightweight", "uniform")
WEIGHTED = ("W2 coreset", "W2, free weights", "KMeans cells", "D² rows", "k-medoids")  # the first for comparison
VALUES = ("error", "unweighted", "seconds")
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Fields that one coreset does not depend on stay out of its `repr`, by which results are kept."""

    data: list[str] = field(repr=False)
    standardise: list[str]
    clusters: int
    sizes: list[int] = field(repr=False)
    methods: list[str] = field(repr=False)
    runs: int = field(repr=False)
    runs_of: dict[str, int] = field(repr=False, default_factory=dict)
    restarts: int
    learner_restarts: int
    support_rows: int
    tolerance: float
    coreset_restarts: int
    jobs: int = field(repr=False)


def main(arguments: list[str] | None = None) -> list[Row]:
    """Run, print a table for each data set and what to conclude, and draw; the quartiles."""
    settings, out = experiment.read(Settings, "kmeans", __doc__, arguments)
    methods = experiment.installed(settings.methods, {"kernel thinning": thinning, "k-medoids": medoids})
    tasks = experiment.tasks(settings, methods)
    keep = out / "kmeans_kept.jsonl"
    whole = [Task(settings, data, "all rows", 0, 0) for data in settings.data]
    least = dict(zip(settings.data, experiment.each(optimum, whole, settings.jobs, keep), strict=True))
    rows = with_errors(experiment.each(run, tasks, settings.jobs, keep), least)
    rows.sort(key=lambda row: (settings.data.index(row["data"]), methods.index(row["method"]), row["size"]))
    experiment.write("kmeans", rows, settings, out)
    found = report.quartiles(rows, ["data", "method", "size"], VALUES)
    report.conclude("kmeans", rows, found, tables(found), out)
    print("\n" + "\n".join(conclusion([row for row in rows if row["data"] == data]) for data in settings.data))
    figures.save(draw(found), out / "kmeans.png")
    return found


def with_errors(rows: Sequence[Row], least: Mapping[str, float]) -> list[Row]:
    """Costs as errors, relative to the least cost that is known: of many restarts on all rows, or of a coreset's."""
    best = dict(least)
    for row in rows:
        best[row["data"]] = min(best[row["data"]], row["cost"], row["cost_unweighted"])
    names = {"cost": "error", "cost_unweighted": "unweighted"}
    return [{names.get(key, key): x / best[row["data"]] - 1 if key in names else x for key, x in row.items()}
            for row in rows]  # fmt: skip


@cache
def table(name: str, standardise: bool) -> NDArray[np.float32]:
    """The rows of a data set, read once in each process."""
    X, _ = public_data.load(name)
    return public_data.standardise(X) if standardise else X


def optimum(task: Task) -> float:
    """J(Q*), the least cost of many restarts on all rows."""
    from sklearn.cluster import KMeans

    X = table(task.data, task.data in task.settings.standardise).astype(np.float64)
    model = KMeans(task.settings.clusters, n_init=task.settings.restarts, random_state=0).fit(X)
    return cost(X, model.cluster_centers_)


def run(task: Task) -> Row:
    """One coreset, the centres learned from it with its weights and without them, and their costs on all rows."""
    X = table(task.data, task.data in task.settings.standardise)
    (points, weights), seconds = experiment.timed(lambda: build(task, X))
    about = {"data": task.data, "method": task.method, "size": task.size, "seed": task.seed}
    ways = {"cost": weights, "cost_unweighted": np.full(len(points), 1 / len(points))}
    if np.allclose(*ways.values()):
        del ways["cost_unweighted"]
    costs = {
        name: cost(X, learn(points, held, task.settings.clusters, task.settings.learner_restarts, task.seed))
        for name, held in ways.items()
    }
    return {**about, "cost_unweighted": costs["cost"], **costs, "seconds": seconds}


def build(task: Task, X: NDArray[np.float32]) -> tuple[Any, Floats]:
    """Points and weights of a coreset."""
    generator = np.random.default_rng(task.seed)
    if task.method in OURS:
        settings, how = task.settings, dict(OURS[task.method])
        if how.get("divergence") == "energy":
            how["samples"] = min(len(X), settings.support_rows)
        else:
            how["restarts"] = settings.coreset_restarts
        result = tc.build_coreset(
            torch.from_numpy(X), task.size, tolerance=settings.tolerance, seed=task.seed, progress=False, **how
        )
        return result.coreset.points.detach().numpy(), result.coreset.weights.numpy().astype(np.float64)
    if task.method == "KMeans cells":
        return cells(X, task.size, task.seed)
    draws = {
        "uniform": lambda: uniform(len(X), task.size, generator),
        "lightweight": lambda: lightweight(X, task.size, generator),
        "sensitivity": lambda: sensitivity(X, task.size, task.settings.clusters, generator),
        "D² rows": lambda: d_squared(X, task.size, generator),
        "k-medoids": lambda: medoids.medoids(X, task.size, generator),
        "kernel thinning": lambda: thinning.thinning(X, task.size, generator),
    }
    if task.method not in draws:
        raise SystemExit(f"method {task.method!r}: expected some of {', '.join((*OURS, 'KMeans cells', *draws))}.")
    rows, weights = draws[task.method]()
    return X[rows], weights


def cells(X: NDArray[np.floating], size: int, seed: int) -> tuple[Floats, Floats]:
    """Centres of scikit-learn's KMeans with `size` clusters, one start of k-means++, and the shares of its clusters."""
    from sklearn.cluster import KMeans

    model = KMeans(size, n_init="auto", random_state=seed).fit(X.astype(np.float64))
    return model.cluster_centers_, cell_masses(X, model.cluster_centers_)


def learn(points: NDArray[np.floating], weights: Floats, clusters: int, restarts: int, seed: int) -> Floats:
    """The best centres of `restarts` runs of weighted k-means; all points, where these are no more than the centres."""
    different = np.unique(points, axis=0)
    if len(different) <= clusters:
        return different.astype(np.float64)
    generator = torch.Generator().manual_seed(seed)
    held = torch.from_numpy(points.astype(np.float64)), torch.from_numpy(weights)
    centres: Floats = many_starts(*held, clusters, restarts, generator).numpy()
    return centres


def cost(X: NDArray[np.floating], centres: Floats) -> float:
    """J: the sum over all rows of the squared distance to the nearest centre."""
    from sklearn.metrics import pairwise_distances_argmin_min

    _, squares = pairwise_distances_argmin_min(X.astype(np.float64), centres, metric="sqeuclidean")
    return float(squares.sum())


def conclusion(rows: list[Row]) -> str:
    """In how many runs of one data set a W2 coreset is better than each other method, by size."""
    sizes = sorted({row["size"] for row in rows})
    others = [name for name in dict.fromkeys(row["method"] for row in rows) if name != "W2 coreset"]
    parts = []
    for other in others:
        counts = [report.wins([row for row in rows if row["size"] == n], "error", "W2 coreset", other) for n in sizes]
        parts.append(f"{other} {', '.join(f'{less} of {runs}' for less, runs in counts)}")
    at = ", ".join(map(str, sizes))
    return f"{rows[0]['data']}: runs in which the W2 coreset has a smaller error, at {at} points: {'; '.join(parts)}."


def tables(found: Sequence[Row]) -> dict[str, str]:
    """Markdown tables of the quartiles: errors in per cent, with weights and without, and seconds, of each data set."""
    made = {}
    for data in dict.fromkeys(row["data"] for row in found):
        here = [percent(row) for row in found if row["data"] == data]
        made[f"{data}, error in %"] = report.table(here, "error", "method", "size")
        weighted = [row for row in here if row["method"] in WEIGHTED]
        made[f"{data}, error in % without weights"] = report.table(weighted, "unweighted", "method", "size")
        made[f"{data}, seconds"] = report.table(here, "seconds", "method", "size", digits=2)
    return made


def percent(row: Row) -> Row:
    """The row with its errors in per cent."""
    return {**row, **{name + end: 100 * row[name + end] for name in ("error", "unweighted") for end in report.ENDS}}


def draw(found: Sequence[Row]) -> Any:
    """A panel for each data set: error against size."""
    names = list(dict.fromkeys(row["data"] for row in found))
    figure, axes = figures.panels(len(names))
    held = {row["method"] for row in found}
    look = figures.looks(name for name in DRAWN if name in held)
    for axis, name in zip(axes, names, strict=True):
        here = [row for row in found if row["data"] == name]
        figures.curves(axis, here, "error", look)
        axis.set(yscale="log", title=name, xlabel="points", ylabel="cost above the best known")
        axis.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.3g} %")
        figures.sizes(axis, (row["size"] for row in here))
        figures.name_lines(axis)
    return figure


if __name__ == "__main__":
    main()
