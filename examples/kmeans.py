"""Centres of k-means learned on a coreset, and what they cost on all data (Claici, Genevay, Solomon 2020, figure 2).

    J(Q) = sum_x min_{q in Q} |x - q|^2,    error = J(Q_c) / J(Q*) - 1

Q_c are the centres that k-means learns from the weighted coreset, and Q* the best centres of many restarts on all data.
The paper's data sets are Pendigits (figure 2), HTRU2 and cod-rna (supplement).

    python examples/kmeans.py --config configs/kmeans.yaml [--small]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import experiment
import numpy as np
import public_data
import torch
from baselines import thinning
from baselines.lightweight import lightweight
from baselines.sensitivity import sensitivity
from baselines.uniform import uniform
from experiment import Row, Task
from numpy.typing import NDArray

import torchcoreset as tc

OURS = {"W2 coreset": 2, "W1 coreset": 1}
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
    restarts: int
    learner_restarts: int
    rows: int
    tolerance: float
    coreset_restarts: int
    jobs: int = field(repr=False)


def main(arguments: list[str] | None = None) -> list[Row]:
    """Run, print a table for each data set and what to conclude, and draw; the means."""
    settings, out = experiment.read(Settings, "kmeans", __doc__, arguments)
    methods = list(settings.methods)
    reason = thinning.missing()
    if reason and "kernel thinning" in methods:
        print(reason)
        methods.remove("kernel thinning")
    tasks = experiment.tasks(settings, methods)
    keep = out / "kmeans_kept.jsonl"
    whole = [Task(settings, data, "all rows", 0, 0) for data in settings.data]
    best = dict(zip(settings.data, experiment.each(optimum, whole, settings.jobs, keep), strict=True))
    found = experiment.each(run, tasks, settings.jobs, keep)
    rows = [{**row, "error": row["cost"] / best[row["data"]] - 1} for row in found]
    rows.sort(key=lambda row: (settings.data.index(row["data"]), methods.index(row["method"]), row["size"]))
    experiment.write("kmeans", rows, settings, out)
    keep.unlink()
    means = experiment.summary(rows, ["data", "method", "size"])
    for data in settings.data:
        here = [row for row in means if row["data"] == data]
        print(f"\n{data}: J(Q*) = {best[data]:.8g}; error J(Q_c) / J(Q*) - 1\n")
        print(experiment.pivot(here, "size", "method", "error"))
        print("\nseconds to build\n\n" + experiment.pivot(here, "size", "method", "seconds"))
    print("\n" + "\n".join(conclusion([row for row in means if row["data"] == data]) for data in settings.data))
    draw(means, settings.data, out / "kmeans.png")
    return means


@cache
def table(name: str, standardise: bool) -> NDArray[np.float32]:
    """The rows of a data set, read once in each process."""
    X, _ = public_data.load(name)
    return public_data.standardise(X) if standardise else X


def optimum(task: Task) -> float:
    """J(Q*), the least cost of many restarts on all rows."""
    X = table(task.data, task.data in task.settings.standardise)
    return cost(X, learn(X, None, task.settings.clusters, task.settings.restarts, seed=0))


def run(task: Task) -> Row:
    """One coreset, the centres learned from it, and their cost on all rows."""
    X = table(task.data, task.data in task.settings.standardise)
    (points, weights), seconds = experiment.timed(lambda: build(task, X))
    centres = learn(points, weights, task.settings.clusters, task.settings.learner_restarts, task.seed)
    about = {"data": task.data, "method": task.method, "size": task.size, "seed": task.seed}
    return {**about, "cost": cost(X, centres), "seconds": seconds}


def build(task: Task, X: NDArray[np.float32]) -> tuple[Any, Floats]:
    """Points and weights of a coreset."""
    generator = np.random.default_rng(task.seed)
    if task.method in OURS:
        result = tc.build_coreset(
            torch.from_numpy(X),
            task.size,
            OURS[task.method],
            samples=min(task.settings.rows, len(X)),
            restarts=task.settings.coreset_restarts,
            tolerance=task.settings.tolerance,
            seed=task.seed,
            progress=False,
        )
        return result.coreset.points.detach().numpy(), result.coreset.weights.numpy().astype(np.float64)
    draws = {
        "uniform": lambda: uniform(len(X), task.size, generator),
        "lightweight": lambda: lightweight(X, task.size, generator),
        "sensitivity": lambda: sensitivity(X, task.size, task.settings.clusters, generator),
        "kernel thinning": lambda: thinning.thinning(X, task.size, generator),
    }
    if task.method not in draws:
        raise SystemExit(f"method {task.method!r}: expected some of {', '.join((*OURS, *draws))}.")
    rows, weights = draws[task.method]()
    return X[rows], weights


def learn(points: NDArray[np.floating], weights: Floats | None, clusters: int, restarts: int, seed: int) -> Floats:
    """The best centres of `restarts` runs of weighted k-means; all points, where these are no more than the centres."""
    from sklearn.cluster import KMeans

    different = np.unique(points, axis=0)
    if len(different) <= clusters:
        return different.astype(np.float64)
    model = KMeans(clusters, n_init=restarts, random_state=seed)
    centres: Floats = model.fit(points.astype(np.float64), sample_weight=weights).cluster_centers_
    return centres


def cost(X: NDArray[np.floating], centres: Floats) -> float:
    """J: the sum over all rows of the squared distance to the nearest centre."""
    from sklearn.metrics import pairwise_distances_argmin_min

    _, squares = pairwise_distances_argmin_min(X.astype(np.float64), centres, metric="sqeuclidean")
    return float(squares.sum())


def conclusion(means: list[Row]) -> str:
    """What the means of one data set say, in one sentence."""
    table = {(row["method"], row["size"]): row["error"] for row in means}
    sizes = sorted({row["size"] for row in means})
    others = [row["method"] for row in means if row["method"] not in OURS]
    wins = [n for n in sizes if table["W2 coreset", n] < min(table[other, n] for other in others)]
    reach = [n for n in sizes if table["uniform", n] <= table["W2 coreset", sizes[0]]]
    uniform_needs = f"{reach[0]}" if reach else f"more than {sizes[-1]}"
    where = ", ".join(map(str, wins)) if wins else "none"
    least = f"{table['W2 coreset', sizes[0]]:.1%}"
    return (
        f"{means[0]['data']}: centres learned on a W2 coreset of {sizes[0]} points cost "
        f"{least} more than the best known, for which uniform sampling needs {uniform_needs} points; the mean error of "
        f"W2 coresets is below that of every sampling method at {where} of the sizes "
        f"{', '.join(map(str, sizes))}."
    )


def draw(means: list[Row], names: list[str], path: Path) -> None:
    """A panel for each data set: error against size."""
    plt = experiment.pyplot()
    figure, axes = plt.subplots(
        1, len(names), figsize=(4.6 * len(names), 4), squeeze=False, layout="constrained", dpi=130
    )
    for axis, name in zip(axes[0], names, strict=True):
        experiment.draw_curves(axis, [row for row in means if row["data"] == name], "size", "error", "method")
        axis.set(yscale="log", title=name, xlabel="points", ylabel="J(Q_c) / J(Q*) - 1")
        experiment.mark_sizes(axis, means)
    axes[0][0].legend(fontsize=8)
    experiment.save(figure, path)


if __name__ == "__main__":
    main()
