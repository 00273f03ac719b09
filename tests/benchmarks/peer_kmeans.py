"""k-means-constrained: k-means whose clusters must have equal sizes, by minimum-cost flow."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .method import Method, Outcome
from .problems import Work


def constrained(work: Work) -> Callable[[], Outcome]:
    """One run (n_init=1) from the start given; sizes differ by one at most; default tolerance and steps.

    Its flow minimises the sum of distances, not of squared distances, so its centres are not quite stationary for
    W_2^2; they are judged by their exact W_2^2 like everyone's.
    """
    from k_means_constrained import KMeansConstrained

    n, m = work.points.shape[0], work.samples.shape[0]
    start, samples = work.points.double().numpy(), work.samples.double().numpy()

    def run() -> Outcome:
        model = KMeansConstrained(
            n_clusters=n,
            size_min=m // n,
            size_max=-(-m // n),
            init=start.copy(),
            n_init=1,
            random_state=work.seed,
        ).fit(samples)
        return Outcome(points=torch.from_numpy(model.cluster_centers_), note=f"{model.n_iter_} steps")

    return run


METHODS = [Method(name="k-means-constrained", task="coreset", prepare=constrained, rival="ours")]
