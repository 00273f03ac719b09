"""Support vector machines trained on a coreset, relative to one trained on all rows (Claici, Genevay, Solomon 2020,
figure 3; Credit card default, and HTRU2 and cod-rna in the supplement).

As in the paper, a coreset is built of each class, and these are merged (`build_labeled_coreset`):

    equal               as many points of each class, weights 1/n: the classes become equally frequent, as in the paper
    equal, reweighted   the same points, and weights that add up to the class's share of the rows
    proportional        points and weights in proportion to the class's share

`KMeans cells` and `D² rows` are chosen in each class, too, in proportion to its share, and weigh what is nearest to
them. `random equal` are random rows, as many of each class, with weights 1/n: what equal numbers do by themselves.
`uniform` and `SVM importance` are drawn from all rows.

The linear machine is scikit-learn's LinearSVC with the hinge loss, whose time is linear in the rows; the RBF machine is
SVC with gamma = 1 / d. C is the penalty of a row, or of a point with the mean weight. Since the share of a class moves
the threshold, balanced accuracy and the area under the ROC curve stand beside accuracy. "digits" in the small form
means even digits against odd ones.

    python examples/svm.py --config configs/svm.yaml [--small]
    python examples/report.py svm                                     # its picture and tables into docs/results
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import experiment
import figures
import numpy as np
import public_data
import report
from baselines.d_squared import d_squared
from baselines.svm_importance import svm_importance
from baselines.uniform import uniform
from experiment import Row, Task
from numpy.typing import NDArray

import torchcoreset as tc
from torchcoreset.coresets.labeled import Allocation, allocate

NAME = "svm"
OURS = {"W2 equal": (2, "equal"), "W1 equal": (1, "equal"), "W2 proportional": (2, "proportional")}
REWEIGHTED = "W2 equal, reweighted"  # from the points of "W2 equal"
DRAWN = ("W2 equal", REWEIGHTED, "W2 proportional", "KMeans cells", "random equal", "uniform",
         "SVM importance")  # fmt: skip
MEASURES = {"accuracy": "accuracy", "balanced": "balanced accuracy", "auc": "AUC"}
WHOLE, BALANCED = "all rows", "all rows, classes equal"  # the second one with weights, as "equal" coresets have them
INTERCEPT = 10.0  # the feature that liblinear's intercept is the weight of: the penalty of the intercept is b^2 / 200
ITERATIONS = 100_000  # of liblinear; the objective is then within 1e-5 of its least value, if it has not stopped before
BLOCK = 2000  # rows whose kernel is computed at once: 16 MiB for 2,000 support vectors
Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Points = tuple[NDArray[np.floating], Labels, Floats]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Fields that one coreset does not depend on stay out of its `repr`, by which results are kept."""

    data: list[str] = field(repr=False)
    test: float
    kernels: list[str]
    penalty: float
    rbf_rows: int
    sizes: list[int] = field(repr=False)
    methods: list[str] = field(repr=False)
    runs: int = field(repr=False)
    runs_of: dict[str, int] = field(repr=False, default_factory=dict)
    tolerance: float
    restarts: int
    jobs: int = field(repr=False)


class Split(NamedTuple):
    """Rows to train on and rows to test on, standardised by the former."""

    train: NDArray[np.float32]
    train_labels: Labels
    test: NDArray[np.float32]
    test_labels: Labels


def main(arguments: list[str] | None = None) -> list[Row]:
    """Run, print tables and what to conclude, and draw; the quartiles."""
    settings, out = experiment.read(Settings, NAME, __doc__, arguments)
    firsts = [Task(settings, data, method, 0, 0) for method in (WHOLE, BALANCED) for data in settings.data]
    keep = out / f"{NAME}_kept.jsonl"
    whole = experiment.each(train_on_all, firsts, settings.jobs, keep)
    least = {task.data: value for task, (_, value) in zip(firsts, whole, strict=True) if task.method == WHOLE}
    bases = [method for method in settings.methods if method != REWEIGHTED]
    tasks = experiment.tasks(settings, bases, least)
    made = [row for rows in experiment.each(run, tasks, settings.jobs, keep) for row in rows]
    rows = [row for of_data, _ in whole for row in of_data]
    rows += [row for row in made if row["method"] in settings.methods]
    order = [WHOLE, BALANCED, *settings.methods].index
    rows.sort(key=lambda row: (settings.data.index(row["data"]), row["kernel"], order(row["method"]), row["size"]))
    experiment.write(NAME, rows, settings, out)
    found = report.quartiles(rows, ["data", "kernel", "method", "size"], [*MEASURES, "seconds"])
    report.conclude(NAME, built_once(rows), found, tables(found), out)
    print("\n" + "\n".join(conclusion(held) for held in panels_of(found).values()))
    figures.save(draw(found), out / f"{NAME}.png")
    figures.save(draw(found, "balanced"), out / f"{NAME}_balanced.png")
    return found


@cache
def split(name: str, test: float) -> Split:
    """All rows of a data set, divided within the classes by seed 0, the same for every method and run."""
    from sklearn.model_selection import train_test_split

    X, y = public_data.load(name)
    if name == "digits":
        y = y % 2
    a, b, ya, yb = train_test_split(X, y, test_size=test, stratify=y, random_state=0)
    mean, spread = a.mean(0, dtype=np.float64), a.std(0, dtype=np.float64)
    scaled = [((part - mean) / np.where(spread > 0, spread, 1)).astype(np.float32) for part in (a, b)]
    return Split(scaled[0], ya, scaled[1], yb)


def train_on_all(task: Task) -> tuple[list[Row], float]:
    """What each kernel reaches when it is trained on all rows, or `rbf_rows` random ones, and F* of the linear one."""
    data, settings = split(task.data, task.settings.test), task.settings
    rows, least = [], 1.0
    for kernel in settings.kernels:
        X, y = data.train, data.train_labels
        if kernel == "rbf" and len(X) > settings.rbf_rows:
            few, _ = uniform(len(X), settings.rbf_rows, np.random.default_rng(0))
            X, y = X[few], y[few]
        weights = None if task.method == WHOLE else equal_classes(y)
        model, seconds = experiment.timed(
            lambda X=X, y=y, kernel=kernel, weights=weights: fit(X, y, weights, kernel, settings.penalty)
        )
        rows.append({**about(task, task.method, kernel), **judge(model, data), "seconds": seconds})
        if kernel == "linear":
            signs = np.where(y == model.classes_[1], 1, -1)
            hinge = np.maximum(0, 1 - signs * model.decision_function(X)).sum()
            least = float((model.coef_**2).sum() / 2 + settings.penalty * hinge)
    return rows, least


def run(task: Task) -> list[Row]:
    """One coreset, and what a machine of each kernel, trained on it, reaches; twice if it can be reweighted."""
    data = split(task.data, task.settings.test)
    (points, labels, weights), seconds = experiment.timed(lambda: build(task, data))
    ways = {task.method: weights}
    if task.method == "W2 equal":
        ways[REWEIGHTED] = restore_prior(labels, data.train_labels)
    return [
        {**about(task, method, kernel), **judge(fit(points, labels, w, kernel, task.settings.penalty), data),
         "seconds": seconds}
        for method, w in ways.items()
        for kernel in task.settings.kernels
    ]  # fmt: skip


def build(task: Task, data: Split) -> Points:
    """Points, labels and weights of a coreset."""
    X, y, settings = data.train, data.train_labels, task.settings
    generator = np.random.default_rng(task.seed)
    if task.method in OURS:
        p, allocation = OURS[task.method]
        found = tc.build_labeled_coreset(
            X, y, task.size, allocation, p,
            tolerance=settings.tolerance, restarts=settings.restarts, seed=task.seed, progress=False,
        )  # fmt: skip
        return found.points.detach().numpy(), found.labels, found.weights.numpy().astype(np.float64)
    if task.method in PER_CLASS:
        allocation, choose = PER_CLASS[task.method]
        return per_class(X, y, task.size, allocation, choose, generator)
    if task.method == "uniform":
        rows, weights = uniform(len(X), task.size, generator)
    elif task.method == "SVM importance":
        rows, weights = svm_importance(X, y, task.size, settings.penalty, task.given, generator)
    else:
        known = (*OURS, *PER_CLASS, "uniform", "SVM importance")
        raise SystemExit(f"method {task.method!r}: expected some of {', '.join(known)}.")
    return X[rows], y[rows], weights


def per_class(
    X: NDArray[np.floating],
    y: Labels,
    size: int,
    allocation: Allocation,
    choose: Callable[[NDArray[np.floating], int, np.random.Generator], tuple[NDArray[np.floating], Floats]],
    generator: np.random.Generator,
) -> Points:
    """What `choose` finds in each class, merged as `build_labeled_coreset` does."""
    classes, counts = np.unique(y, return_counts=True)
    shares = counts / len(y) if allocation == "proportional" else np.full(len(classes), 1 / len(classes))
    sizes = allocate(size, shares)
    found = [choose(X[y == label], n, generator) for label, n in zip(classes, sizes, strict=True)]
    points = np.concatenate([points for points, _ in found])
    return points, classes.repeat(sizes), np.concatenate([s * w for s, (_, w) in zip(shares, found, strict=True)])


def random_rows(
    X: NDArray[np.floating], size: int, generator: np.random.Generator
) -> tuple[NDArray[np.floating], Floats]:
    """Random rows of equal weight."""
    rows, weights = uniform(len(X), size, generator)
    return X[rows], weights


def d_squared_rows(
    X: NDArray[np.floating], size: int, generator: np.random.Generator
) -> tuple[NDArray[np.floating], Floats]:
    """Rows of k-means++ seeding and the shares of their cells."""
    rows, weights = d_squared(X, size, generator)
    return X[rows], weights


def cells(X: NDArray[np.floating], size: int, generator: np.random.Generator) -> tuple[NDArray[np.floating], Floats]:
    """Centres of KMeans from one start of k-means++, and the shares of their clusters."""
    from sklearn.cluster import KMeans

    model = KMeans(size, n_init=1, random_state=int(generator.integers(2**31))).fit(X)
    return model.cluster_centers_, np.bincount(model.labels_, minlength=size) / len(X)


PER_CLASS = {
    "random equal": ("equal", random_rows),
    "KMeans cells": ("proportional", cells),
    "D² rows": ("proportional", d_squared_rows),
}


def restore_prior(labels: Labels, all_labels: Labels) -> Floats:
    """Weights that are equal within a class and add up to its share of all rows."""
    weights = np.zeros(len(labels))
    for label in np.unique(labels):
        weights[labels == label] = (all_labels == label).mean() / (labels == label).sum()
    return weights


def equal_classes(labels: Labels) -> Floats:
    """Weights of rows that are equal within a class and add up to the same for each."""
    _, place, counts = np.unique(labels, return_inverse=True, return_counts=True)
    weights: Floats = 1 / (len(counts) * counts[place])
    return weights


def fit(X: NDArray[np.floating], y: Labels, weights: Floats | None, kernel: str, penalty: float) -> Any:
    """A machine whose penalty is C on a point of mean weight; None if there is one class only.

    Args:
        weights: of the points, of any sum; equal if None.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import SVC, LinearSVC

    if len(np.unique(y)) < 2:
        return None
    scaled = None if weights is None else weights / weights.mean()
    if kernel == "linear":
        model = LinearSVC(
            C=penalty, loss="hinge", tol=1e-3, intercept_scaling=INTERCEPT, max_iter=ITERATIONS, random_state=0
        )
    else:
        model = SVC(C=penalty, kernel=kernel, gamma=1 / X.shape[1], cache_size=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # see ITERATIONS
        return model.fit(X, y, sample_weight=scaled)


def scores(model: Any, X: NDArray[np.float32]) -> Floats:
    """Decision values (N,). Those of an RBF machine by blocks, in a fifth of the time that libsvm takes for them."""
    from sklearn.metrics.pairwise import rbf_kernel

    if not hasattr(model, "support_vectors_"):
        return np.asarray(model.decision_function(X), np.float64)
    support = model.support_vectors_.astype(np.float32)
    blocks = np.array_split(X, -(-len(X) // BLOCK))
    found = [rbf_kernel(block, support, model.gamma) @ model.dual_coef_[0] for block in blocks]
    return np.concatenate(found) + model.intercept_[0]


def judge(model: Any, data: Split) -> Row:
    """Accuracy, balanced accuracy and AUC on the test rows; those of a guess at the larger class without a model."""
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score

    y = data.test_labels
    if model is None:
        _, count = np.unique(y, return_counts=True)
        return {"accuracy": float(count.max() / len(y)), "balanced": 0.5, "auc": 0.5}
    score = scores(model, data.test)
    guess = model.classes_[(score > 0).astype(int)]
    return {
        "accuracy": float((guess == y).mean()),
        "balanced": float(balanced_accuracy_score(y, guess)),
        "auc": float(roc_auc_score(y == model.classes_[1], score)),
    }


def about(task: Task, method: str, kernel: str) -> Row:
    return {"data": task.data, "kernel": kernel, "method": method, "size": task.size, "seed": task.seed}


Panel = tuple[str, str]  # data set and kernel


def panels_of(found: Sequence[Row]) -> dict[Panel, list[Row]]:
    """The rows of each kernel and data set, those of linear machines first, relative to the machine of all rows."""
    held: dict[Panel, list[Row]] = {}
    for row in sorted(found, key=lambda row: row["kernel"]):
        held.setdefault((row["data"], row["kernel"]), []).append(row)
    return {key: relative(rows) for key, rows in held.items()}


def relative(rows: Sequence[Row]) -> list[Row]:
    """Rows with each measure divided by that of all rows, of the same kernel and data; not those of all rows."""
    whole = next(row for row in rows if row["method"] == WHOLE)
    names = [name + end for name in MEASURES for end in report.ENDS]
    return [{**row, **{name: row[name] / whole[name] for name in names}} for row in rows if row["method"] != WHOLE]


def built_once(rows: Sequence[Row]) -> list[Row]:
    """One row of each coreset, which has one for each kernel and for each way to weight it."""
    kernel = rows[0]["kernel"]
    return [row for row in rows if row["size"] and row["kernel"] == kernel and row["method"] != REWEIGHTED]


def conclusion(rows: Sequence[Row]) -> str:
    """Which method is the best one by each measure, at each size, in the median."""
    parts = []
    for measure, name in MEASURES.items():
        best = []
        for size in sorted({row["size"] for row in rows} - {0}):
            row = max((row for row in rows if row["size"] == size), key=lambda row, name=measure: row[name])
            best.append(f"{size}: {row['method']} {row[measure]:.3f}")
        parts.append(f"{name}, " + "; ".join(best))
    return f"{rows[0]['data']}, {rows[0]['kernel']}, best relative {'. '.join(parts)}."


def tables(found: Sequence[Row]) -> dict[str, str]:
    """Markdown tables of the quartiles: what all rows reach; each measure relative to that; and seconds."""
    whole = [row for row in found if not row["size"]]
    lines = [
        "| data | machine | trained on | accuracy | balanced accuracy | AUC | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {row['data']} | {row['kernel']} | {row['method']} | {row['accuracy']:.4f} | {row['balanced']:.4f} "
        f"| {row['auc']:.4f} | {row['seconds']:.2g} |"
        for row in whole
    ]
    made = {WHOLE: "\n".join(lines)}
    for (data, kernel), rows in panels_of(found).items():
        for measure, name in MEASURES.items():
            made[f"{data}, {kernel}, {name}"] = report.table(
                [row for row in rows if row["size"]], measure, "method", "size"
            )
    for data in dict.fromkeys(row["data"] for row in whole):
        built = [row for row in built_once(found) if row["data"] == data]
        made[f"{data}, seconds"] = report.table(built, "seconds", "method", "size", digits=2)
    return made


def draw(found: Sequence[Row], measure: str = "accuracy") -> Any:
    """A panel for each kernel and data set: the measure relative to that of all rows, against size.

    A dashed line is all rows with weights that make classes equal.
    """
    held = panels_of(found)
    figure, axes = figures.panels(len(held))
    methods = {row["method"] for row in found}
    look = figures.looks(name for name in DRAWN if name in methods)
    for axis, ((data, kernel), rows) in zip(axes, held.items(), strict=True):
        axis.axhline(1, color="black", linewidth=0.7)
        axis.axhline(
            next(row[measure] for row in rows if row["method"] == BALANCED), color="black", linewidth=0.7, ls="--"
        )
        figures.curves(axis, rows, measure, look)
        axis.set(title=f"{data}, {kernel} machine", ylabel=MEASURES[measure])
        figures.sizes(axis, (row["size"] for row in rows if row["size"]))
        figures.name_lines(axis)
    axes[-1].set_xlabel("points")
    return figure


if __name__ == "__main__":
    main()
