"""k-means: scikit-learn's, and k-means-constrained, whose clusters have equal sizes, by minimum-cost flow."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .method import Method, Outcome, need_costs
from .problems import CORESETS, Work

MOST_ELEMENTS = 1_000_000  # costs, beyond which a run of the flow takes minutes


def kmeans(work: Work) -> Callable[[], Outcome]:
    """scikit-learn's with one start of its own (k-means++); float32 as the others get, default tolerance.

    Its clusters are as large as they come; the centres are judged with equal weights like everyone's.
    """
    from sklearn.cluster import KMeans

    samples = work.samples.numpy()

    def run() -> Outcome:
        model = KMeans(len(work.points), n_init=1, random_state=work.seed).fit(samples)
        note = f"{model.n_iter_} steps, mean square within its own clusters {model.inertia_ / len(samples):.6g}"
        return Outcome(points=torch.from_numpy(model.cluster_centers_), note=note)

    return run


def kmeans_of_ten(work: Work) -> Callable[[], Outcome]:
    """The best of ten starts, with its own weights."""
    from sklearn.cluster import KMeans

    samples = work.samples.numpy()

    def run() -> Outcome:
        model = KMeans(len(work.points), n_init=10, random_state=work.seed).fit(samples)
        return Outcome(points=torch.from_numpy(model.cluster_centers_), note=f"{model.n_iter_} steps")

    return run


def constrained(work: Work) -> Callable[[], Outcome]:
    """One run (n_init=1) from the start given; sizes differ by one at most, or are within the bounds of the task.

    Default tolerance and steps. Its flow minimises the sum of distances, not of squared distances, so its centres are
    not quite stationary for W_2^2; they are judged by their exact W_2^2 like everyone's.
    """
    from k_means_constrained import KMeansConstrained

    need_costs(work, MOST_ELEMENTS)
    n, m = work.points.shape[0], work.samples.shape[0]
    low, high = CORESETS[work.task] or (1.0, 1.0)
    start, samples = work.points.double().numpy(), work.samples.double().numpy()

    def run() -> Outcome:
        model = KMeansConstrained(
            n_clusters=n,
            size_min=-int(-low * m // n) if work.task == "bounded coreset" else m // n,
            size_max=int(high * m // n) if work.task == "bounded coreset" else -(-m // n),
            init=start.copy(),
            n_init=1,
            random_state=work.seed,
        ).fit(samples)
        return Outcome(points=torch.from_numpy(model.cluster_centers_), note=f"{model.n_iter_} steps")

    return run


METHODS = [
    Method(name="KMeans", task="coreset", prepare=kmeans, rival="ours, one start"),
    Method(name="k-means-constrained", task="coreset", prepare=constrained, rival="ours"),
    Method(name="KMeans", task="free coreset", prepare=kmeans, rival="ours, one start"),
    Method(name="KMeans, best of 10", task="free coreset", prepare=kmeans_of_ten, rival="ours"),
    Method(name="k-means-constrained", task="bounded coreset", prepare=constrained, rival="ours, one start"),
]
