"""Training sets of a few points a class: what classifiers learn from coresets, and from rows that are chosen otherwise.

Each class is reduced to n points, and a linear classifier (logistic regression) and one that is not (the nearest point)
are trained on these alone. Accuracy is that on rows which nothing has seen, as the mean over the classes ("balanced").
"mnist, features" are images as a small network sees them, which was trained on other images with their labels; every
method and classifier then works on these features. W_2 is an interval at 95 % for the distance between all points and
the distribution of the rows, from those that accuracy is measured on.

    python examples/training_sets.py --config configs/training_sets.yaml [--small]
    python examples/report.py training_sets
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import experiment
import figures
import numpy as np
import public_data
import report
import torch
from baselines import medoids, thinning
from baselines.d_squared import cell_masses, d_squared
from baselines.uniform import uniform
from experiment import Row, Task
from generator_noise import learn
from kernel_herding import herd
from numpy.typing import NDArray
from torch import Tensor, nn

import torchcoreset as tc

NAME = "training_sets"
Floats = NDArray[np.floating]
Labels = NDArray[np.int64]

OURS: dict[str, dict[str, Any]] = {
    "W2 coreset": {},
    "W2, free weights": {"weights": "free"},
    "W2 rows": {"rows": True},
    "W2, proportional": {"allocation": "proportional"},
}
PROPORTIONAL = ", proportional"  # points and weights follow the shares of the classes
FEATURES = ", features"
LEFT_TO_TABLES = ("pendigits", "cod_rna")  # data sets that the picture leaves out
WHOLE = "all rows"
DRAWN = ("W2 coreset", "W2 rows", "KMeans cells", "k-medoids", "D² rows", "herding", "random")
KINDS = {"linear": "logistic regression", "nearest": "nearest point"}
VALUES = ("linear", "nearest", "linear_plain", "nearest_plain", "lower", "upper", "seconds")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Fields that one training set does not depend on stay out of its `repr`, by which results are kept."""

    data: list[str] = field(repr=False)
    unequal: list[str] = field(repr=False)
    rows: int
    test: int
    network_rows: int
    epochs: int
    sizes: list[int] = field(repr=False)
    methods: list[str] = field(repr=False)
    runs: int = field(repr=False)
    runs_of: dict[str, int] = field(repr=False, default_factory=dict)
    certified: int
    penalty: float
    width: float
    tolerance: float
    jobs: int = field(repr=False)


class Split(NamedTuple):
    """Rows (N, d) to reduce and rows (T, d) to judge by, both in the units of the former, with their labels."""

    train: NDArray[np.float32]
    train_labels: Labels
    test: NDArray[np.float32]
    test_labels: Labels


def main(arguments: list[str] | None = None) -> list[Row]:
    """Run, print tables and draw; the quartiles."""
    settings, out = experiment.read(Settings, NAME, __doc__, arguments)
    methods = experiment.installed(settings.methods, {"kernel thinning": thinning, "k-medoids": medoids})
    tasks = [
        task
        for task in experiment.tasks(settings, methods)
        if task.data in settings.unequal or not task.method.endswith(PROPORTIONAL)
    ]
    whole = [Task(settings, data, WHOLE, 0, seed) for seed in range(settings.runs) for data in settings.data]
    # The tasks of a seed stand together: they share its rows, which are divided once.
    ordered = sorted(whole + tasks, key=lambda task: task.seed)
    rows = experiment.each(run, ordered, settings.jobs, out / f"{NAME}_kept.jsonl")
    order = [WHOLE, *methods]
    rows.sort(key=lambda row: (settings.data.index(row["data"]), order.index(row["method"]), row["size"]))
    experiment.write(NAME, rows, settings, out)
    found = report.quartiles(rows, ["data", "method", "size"], VALUES)
    report.conclude(NAME, rows, found, tables(found), out)
    figures.save(draw(found), out / f"{NAME}.png")
    return found


@lru_cache(maxsize=8)
def split(name: str, seed: int, rows: int, test: int, network_rows: int, epochs: int) -> Split:
    """Rows of a data set, divided anew for each seed; labels become 0, 1, ..., k - 1."""
    X, y = public_data.load(name.removesuffix(FEATURES))
    y = np.unique(y, return_inverse=True)[1].astype(np.int64)
    images = name.startswith(("mnist", "digits"))
    order = np.random.default_rng(seed).permutation(len(X))
    apart, rest = np.split(order, [network_rows if images else 0])
    reduced, judged, _ = np.split(rest, [rows, rows + test])
    if images:
        X = X / X.max()  # pixels have one scale
        if name.endswith(FEATURES):
            X = embed(X, y, apart, epochs, seed)
        return Split(X[reduced], y[reduced], X[judged], y[judged])
    mean, spread = X[reduced].mean(0, dtype=np.float64), X[reduced].std(0, dtype=np.float64)
    train, test = (
        ((X[part] - mean) / np.where(spread > 0, spread, 1)).astype(np.float32) for part in (reduced, judged)
    )
    return Split(train, y[reduced], test, y[judged])


def embed(X: NDArray[np.float32], y: Labels, apart: NDArray[np.int64], epochs: int, seed: int) -> NDArray[np.float32]:
    """The last hidden layer (N, 32) of a network that learns the labels of the rows `apart`, and sees no other."""
    images, labels = torch.from_numpy(X), torch.from_numpy(y)
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)  # layers draw their first weights from torch's global generator
        features = nn.Sequential(nn.Linear(X.shape[1], 128), nn.ReLU(), nn.Linear(128, 32), nn.ReLU())
        classifier = nn.Sequential(features, nn.Linear(32, int(y.max()) + 1))

    def loss(rows: Tensor) -> Tensor:
        return nn.functional.cross_entropy(classifier(images[rows]), labels[rows])

    learn(loss, classifier, torch.from_numpy(apart), epochs, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        found: NDArray[np.float32] = features(images).numpy()
    return found


def run(task: Task) -> Row:
    """One training set, what two classifiers learn from it, and how far it is from the rows."""
    held = task.settings
    data = split(task.data, task.seed, held.rows, held.test, held.network_rows, held.epochs)
    (points, labels, weights), seconds = experiment.timed(lambda: build(task, data))
    about = {"data": task.data, "method": task.method, "size": task.size, "seed": task.seed}
    row = {**about, **judge(points, labels, weights, data, held.penalty), "seconds": seconds}
    if task.method == WHOLE or task.seed >= held.certified:
        return {**row, "lower": math.nan, "upper": math.nan}
    shares = weights * restored(labels, weights, data.train_labels)
    coreset = tc.Coreset(torch.from_numpy(points), torch.from_numpy(shares))
    interval = tc.certify(coreset, torch.from_numpy(data.test), samples=len(data.test), seed=task.seed)
    return {**row, "lower": interval.lower, "upper": interval.upper}


def restored(labels: Labels, weights: Floats, rows: Labels) -> Floats:
    """(n,) factors that give each class of the points the share that it has of the rows."""
    share = np.bincount(rows, minlength=labels.max() + 1) / len(rows)
    factors: Floats = (share / np.bincount(labels, weights, minlength=len(share)))[labels]
    return factors


def build(task: Task, data: Split) -> tuple[NDArray[np.float32], Labels, Floats]:
    """Points (k n, d), labels and weights of sum 1; n points for each of k classes, or k n in all if proportional."""
    X, y, settings = data.train, data.train_labels, task.settings
    classes, counts = np.unique(y, return_counts=True)
    if task.method == WHOLE:
        return X, y, 1 / (len(classes) * np.bincount(y)[y])
    total = task.size * len(classes)
    if task.method in OURS:
        how = {"allocation": "equal", **OURS[task.method]}
        found = tc.build_labeled_coreset(
            X, y, total, tolerance=settings.tolerance, restarts=1, seed=task.seed, progress=False, **how
        )
        return found.points.detach().numpy(), np.asarray(found.labels), found.weights.double().numpy()
    generator = np.random.default_rng(task.seed)
    if task.method == "random" + PROPORTIONAL:
        shares = counts / len(y)
        sizes = np.maximum(1, np.rint(total * shares)).astype(int)
        sizes[shares.argmax()] += total - sizes.sum()
        chosen = [generator.choice(np.flatnonzero(y == k), n, replace=False) for k, n in enumerate(sizes)]
        rows = np.concatenate(chosen)
        return X[rows], y[rows], np.repeat(shares / sizes, sizes)
    parts = [reduce(task.method, X[y == label], task.size, generator, settings.width) for label in classes]
    points = np.concatenate([points for points, _ in parts]).astype(np.float32)
    return points, np.repeat(classes, task.size), np.concatenate([weights for _, weights in parts]) / len(classes)


def reduce(
    method: str, X: NDArray[np.float32], size: int, generator: np.random.Generator, width: float
) -> tuple[Floats, Floats]:
    """Points (n, d) for the rows of one class, and weights of sum 1."""
    if method == "KMeans cells":
        from sklearn.cluster import KMeans

        seed = int(generator.integers(2**31))
        centres = KMeans(size, n_init=10, random_state=seed).fit(X.astype(np.float64)).cluster_centers_
        return centres, cell_masses(X, centres)
    if method == "herding":
        samples = torch.from_numpy(X)
        few = samples[generator.permutation(len(X))[:1000]]
        return herd(samples, size, width * torch.pdist(few).median().item()).numpy(), np.full(size, 1 / size)
    draws: dict[str, Callable[[], tuple[NDArray[np.int64], NDArray[np.float64]]]] = {
        "random": lambda: uniform(len(X), size, generator),
        "D² rows": lambda: d_squared(X, size, generator),
        "k-medoids": lambda: medoids.medoids(X, size, generator),
        "kernel thinning": lambda: thinning.thinning(X, size, generator),
    }
    if method not in draws:
        known = (*OURS, "KMeans cells", "herding", *draws, "random" + PROPORTIONAL)
        raise SystemExit(f"method {method!r}: expected some of {', '.join(known)}.")
    rows, weights = draws[method]()
    return X[rows], weights


def judge(
    points: NDArray[np.float32], labels: Labels, weights: Floats, data: Split, penalty: float
) -> dict[str, float]:
    """Accuracy of both classifiers, as the mean over the classes, and over all rows ("plain")."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import balanced_accuracy_score
    from sklearn.neighbors import KNeighborsClassifier

    linear = LogisticRegression(C=penalty, max_iter=3000)
    nearest = KNeighborsClassifier(1, algorithm="brute").fit(points, labels)
    told = {
        # Weights of sum N: the points stand for all rows, against the same penalty.
        "linear": linear.fit(points, labels, weights * len(data.train)).predict(data.test),
        "nearest": nearest.predict(data.test),
    }
    found = {name: float(balanced_accuracy_score(data.test_labels, guess)) for name, guess in told.items()}
    return found | {f"{name}_plain": float((guess == data.test_labels).mean()) for name, guess in told.items()}


def tables(found: Sequence[Row]) -> dict[str, str]:
    """Markdown tables for each data set: accuracy of both classifiers in %, the interval of W_2, and seconds."""
    made = {}
    for data in dict.fromkeys(row["data"] for row in found):
        whole, *rows = (percent(row) for row in found if row["data"] == data)
        for value, kind in KINDS.items():
            made[f"{data}, {kind}"] = accuracies(rows, whole, value)
        if any(row["method"].endswith(PROPORTIONAL) for row in rows):  # the classes are of unequal size
            for value, kind in KINDS.items():
                made[f"{data}, {kind}, plain"] = accuracies(rows, whole, f"{value}_plain")
        made[f"{data}, W_2"] = report.intervals(rows, "lower", "upper")
        made[f"{data}, seconds"] = report.table(rows, "seconds", "method", "size", digits=2)
    return made


def percent(row: Row) -> Row:
    """The row with its accuracies in per cent."""
    return {**row, **{name + end: 100 * row[name + end] for name in VALUES[:4] for end in report.ENDS}}


def accuracies(rows: Sequence[Row], whole: Row, value: str) -> str:
    """A table of accuracy by method and size, and what all rows teach."""
    return f"{report.table(rows, value, 'method', 'size')}\n\nAll rows: {report.cell(whole, value)}."


def wrong(row: Row, value: str) -> Row:
    """The row with the error of a classifier and its quartiles, which is 1 less the accuracy."""
    return {
        **row,
        "error": 1 - row[value],
        "error_low": 1 - row[f"{value}_high"],
        "error_high": 1 - row[f"{value}_low"],
    }


def draw(found: Sequence[Row]) -> Any:
    """A panel for each data set and classifier: error against the points of a class, and that from all rows."""
    names = [data for data in dict.fromkeys(row["data"] for row in found) if data not in LEFT_TO_TABLES]
    figure, axes = figures.panels(len(names) * len(KINDS))
    methods = {row["method"] for row in found}
    look = figures.looks(name for name in DRAWN if name in methods)
    for axis, (data, value) in zip(axes, ((data, value) for data in names for value in KINDS), strict=True):
        whole, *rows = (wrong(row, value) for row in found if row["data"] == data)
        figures.curves(axis, rows, "error", look)
        ends = [min(row["size"] for row in rows), max(row["size"] for row in rows)]
        axis.plot(ends, [whole["error"]] * 2, linestyle=figures.DASHES[2], color="#444444", label=WHOLE)
        axis.set(title=f"{data}: {KINDS[value]}", xlabel="points of each class", ylabel="error", yscale="log")
        figures.sizes(axis, (row["size"] for row in rows))
        figures.ratios(axis)
        axis.yaxis.set_major_formatter(lambda y, _: f"{100 * y:g} %")
        figures.name_lines(axis)
    return figure


if __name__ == "__main__":
    main()
