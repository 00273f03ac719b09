"""Support vector machines trained on a coreset, relative to one trained on all rows (Claici, Genevay, Solomon 2020,
figure 3; Credit card default, and HTRU2 and cod-rna in the supplement).

As in the paper, a coreset is built of each class, and these are merged (`build_labeled_coreset`):

    equal               as many points of each class, weights 1/n: the classes become equally frequent, as in the paper
    equal reweighted    the same points, and weights that add up to the class's share of the rows
    proportional        points and weights in proportion to the class's share

beside uniform and SVM importance sampling. The classifier is scikit-learn's SVC with a penalty C on a point of mean
weight. Since the share of a class moves the threshold, balanced accuracy and the area under the ROC curve stand beside
accuracy. "digits" in the small form means even digits against odd ones.

    python examples/svm.py --config configs/svm.yaml [--small]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import experiment
import figures
import numpy as np
import public_data
from baselines.svm_importance import svm_importance
from baselines.uniform import uniform
from experiment import Row, Task
from numpy.typing import NDArray

import torchcoreset as tc

OURS = {"W2 equal": (2, "equal"), "W1 equal": (1, "equal"), "W2 proportional": (2, "proportional")}
REWEIGHTED = " reweighted"
MEASURES = ("accuracy", "balanced", "auc")
Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Fields that one coreset does not depend on stay out of its `repr`, by which results are kept."""

    data: list[str] = field(repr=False)
    rows: int
    test: float
    kernels: list[str]
    penalty: float
    sizes: list[int] = field(repr=False)
    methods: list[str] = field(repr=False)
    runs: int = field(repr=False)
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
    """Run, print tables and what to conclude, and draw; the means."""
    settings, out = experiment.read(Settings, "svm", __doc__, arguments)
    firsts = [Task(settings, data, "all rows", 0, 0) for data in settings.data]
    keep = out / "svm_kept.jsonl"
    full = dict(zip(settings.data, experiment.each(train_on_all, firsts, settings.jobs, keep), strict=True))
    bases = [method for method in settings.methods if not method.endswith(REWEIGHTED)]
    tasks = experiment.tasks(settings, bases, {data: least for data, (_, least) in full.items()})
    found = [row for rows in experiment.each(run, tasks, settings.jobs, keep) for row in rows]
    whole = {(row["data"], row["kernel"]): row for rows, _ in full.values() for row in rows}
    rows = [relative(row, whole[row["data"], row["kernel"]]) for row in found if row["method"] in settings.methods]
    order = settings.methods.index
    rows.sort(key=lambda row: (settings.data.index(row["data"]), row["kernel"], order(row["method"]), row["size"]))
    experiment.write("svm", [relative(row, row) for row in whole.values()] + rows, settings, out)
    keep.unlink()
    means = experiment.summary(rows, ["data", "kernel", "method", "size"])
    show(means, whole)
    draw(means, settings, out / "svm.png")
    return means


@cache
def split(name: str, rows: int, test: float) -> Split:
    """Rows of a data set, divided within the classes by seed 0, the same for every method and run."""
    from sklearn.model_selection import train_test_split

    X, y = public_data.load(name)
    if name == "digits":
        y = y % 2
    if len(X) > rows:
        X, _, y, _ = train_test_split(X, y, train_size=rows, stratify=y, random_state=0)
    a, b, ya, yb = train_test_split(X, y, test_size=test, stratify=y, random_state=0)
    mean, spread = a.mean(0, dtype=np.float64), a.std(0, dtype=np.float64)
    scaled = [((part - mean) / np.where(spread > 0, spread, 1)).astype(np.float32) for part in (a, b)]
    return Split(scaled[0], ya, scaled[1], yb)


def train_on_all(task: Task) -> tuple[list[Row], float]:
    """What each kernel reaches when it is trained on all rows, and F* of the linear one."""
    data = split(task.data, task.settings.rows, task.settings.test)
    rows, least = [], 1.0
    for kernel in task.settings.kernels:
        model = fit(data.train, data.train_labels, None, kernel, task.settings.penalty)
        rows.append({**about(task, task.method, kernel), **judge(model, data), "seconds": 0.0})
        if kernel == "linear":
            signs = np.where(data.train_labels == model.classes_[1], 1, -1)
            hinge = np.maximum(0, 1 - signs * model.decision_function(data.train)).sum()
            least = float((model.coef_**2).sum() / 2 + task.settings.penalty * hinge)
    return rows, least


def run(task: Task) -> list[Row]:
    """One coreset, and what a machine of each kernel, trained on it, reaches; twice if it can be reweighted."""
    data = split(task.data, task.settings.rows, task.settings.test)
    (points, labels, weights), seconds = experiment.timed(lambda: build(task, data))
    ways = {task.method: weights}
    if task.method in OURS and OURS[task.method][1] == "equal":
        ways[task.method + REWEIGHTED] = restore_prior(labels, data.train_labels)
    return [
        {**about(task, method, kernel), **judge(fit(points, labels, w, kernel, task.settings.penalty), data),
         "seconds": seconds}
        for method, w in ways.items()
        for kernel in task.settings.kernels
    ]  # fmt: skip


def build(task: Task, data: Split) -> tuple[NDArray[np.floating], Labels, Floats]:
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
    if task.method == "uniform":
        rows, weights = uniform(len(X), task.size, generator)
    elif task.method == "SVM importance":
        rows, weights = svm_importance(X, y, task.size, settings.penalty, task.given, generator)
    else:
        raise SystemExit(f"method {task.method!r}: expected some of {', '.join((*OURS, 'uniform', 'SVM importance'))}.")
    return X[rows], y[rows], weights


def restore_prior(labels: Labels, all_labels: Labels) -> Floats:
    """Weights that are equal within a class and add up to its share of all rows."""
    weights = np.zeros(len(labels))
    for label in np.unique(labels):
        weights[labels == label] = (all_labels == label).mean() / (labels == label).sum()
    return weights


def fit(X: NDArray[np.floating], y: Labels, weights: Floats | None, kernel: str, penalty: float) -> Any:
    """An SVC whose penalty is C on a point of mean weight; None if there is one class only.

    Args:
        weights: of the points, of any sum; equal if None.
    """
    from sklearn.svm import SVC

    if len(np.unique(y)) < 2:
        return None
    scaled = None if weights is None else weights / weights.mean()
    return SVC(C=penalty, kernel=kernel, cache_size=500).fit(X, y, sample_weight=scaled)


def judge(model: Any, data: Split) -> Row:
    """Accuracy, balanced accuracy and AUC on the test rows; those of a guess at the larger class without a model."""
    from sklearn.metrics import balanced_accuracy_score, roc_auc_score

    y = data.test_labels
    if model is None:
        _, count = np.unique(y, return_counts=True)
        return {"accuracy": float(count.max() / len(y)), "balanced": 0.5, "auc": 0.5}
    score = model.decision_function(data.test)
    guess = model.classes_[(score > 0).astype(int)]
    return {
        "accuracy": float((guess == y).mean()),
        "balanced": float(balanced_accuracy_score(y, guess)),
        "auc": float(roc_auc_score(y == model.classes_[1], score)),
    }


def about(task: Task, method: str, kernel: str) -> Row:
    return {"data": task.data, "kernel": kernel, "method": method, "size": task.size, "seed": task.seed}


def relative(row: Row, whole: Row) -> Row:
    """With each measure divided by that of all rows."""
    return {**row, **{f"{key}_relative": row[key] / whole[key] for key in MEASURES}}


def show(means: list[Row], whole: dict[tuple[str, str], Row]) -> None:
    """Tables of every data set and kernel, and a sentence for each."""
    for (data, kernel), row in whole.items():
        here = [mean for mean in means if (mean["data"], mean["kernel"]) == (data, kernel)]
        for measure in MEASURES:
            print(f"\n{data}, {kernel}: {measure} relative to all rows ({row[measure]:.4f})\n")
            print(experiment.pivot(here, "size", "method", f"{measure}_relative"))
    print()
    for data, kernel in whole:
        print(conclusion([mean for mean in means if (mean["data"], mean["kernel"]) == (data, kernel)]))


def conclusion(means: list[Row]) -> str:
    """What the means of one data set and kernel say, in one sentence."""
    sizes = sorted({row["size"] for row in means})
    least, parts = sizes[0], []
    for measure in MEASURES:
        table = {row["method"]: row[measure] for row in means if row["size"] == least}
        best = max(table, key=lambda method: table[method])
        value = f"{table[best]:.3f}"
        uniform = f" (uniform {table['uniform']:.3f})" if "uniform" in table else ""
        parts.append(f"{measure} {value} by {best}{uniform}")
    return f"{means[0]['data']}, {means[0]['kernel']}, {least} points: best " + ", ".join(parts) + "."


def draw(means: list[Row], settings: Settings, path: Path) -> None:
    """Measures down, data sets across, for the first kernel: relative to all rows against size."""
    plt = figures.pyplot()
    names, down = settings.data, len(MEASURES)
    figure, axes = plt.subplots(
        down, len(names), figsize=(4.6 * len(names), 3.4 * down), squeeze=False, layout="constrained", dpi=110
    )
    for line, measure in zip(axes, MEASURES, strict=True):
        for axis, name in zip(line, names, strict=True):
            here = [row for row in means if (row["data"], row["kernel"]) == (name, settings.kernels[0])]
            experiment.draw_curves(axis, here, "size", f"{measure}_relative", "method")
            axis.axhline(1, color="black", linewidth=0.7)
            axis.set(title=name, xlabel="points", ylabel=f"{measure}, relative")
            experiment.mark_sizes(axis, here)
    axes[0][0].legend(fontsize=7)
    figures.save(figure, path)


if __name__ == "__main__":
    main()
