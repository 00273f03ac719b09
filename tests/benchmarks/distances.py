"""Other distances beside those who have them: POT's `emd2` on a matrix, spherical k-means and k-prototypes.

    python -m tests.benchmarks.distances            # under a minute on one core
    python -m tests.benchmarks.distances --quick    # small work, some seconds

Two tables. Transport: processor seconds of one, the matrix of `emd2` included, and how far its value is above the
optimum, relatively. Builds with free weights: the mean cost that is reached, and processor seconds; peers take the best
of several starts.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import ot
import torch
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from torch import Tensor

import torchcoreset as tc
from tests.data import normal, seeded
from tests.transport.costs.distances import city_block, haversine
from torchcoreset.testing import sample_cap

STARTS = 8  # of a peer
ROUNDS = 100  # of k-prototypes, at most
PRICE = 2.0  # of a wrong category


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.distances", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small work")
    quick = parser.parse_args(arguments).quick
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(transports(*((500, 10) if quick else (20_000, 100))))
    print()
    print(builds(*((300, 5) if quick else (1797, 20))))


def transports(m: int, n: int) -> str:
    """One transport by each distance, and by `emd2`."""
    places, points = sample_cap(m, 180, generator=seeded()), sample_cap(n, 180, generator=seeded(1))
    rows, few = normal(m, 3), normal(n, 3, seed=1)
    lines = [
        f"W_1, n={n}, m={m}",
        f"{'distance':24}{'ours':>9}{'off':>10}{'emd2':>9}{'ratio':>8}",
    ]
    for name, x, y, cost, matrix in (
        ("GreatCircle", points, places, tc.costs.GreatCircle(), haversine),
        ("city blocks", few, rows, city_block, lambda y, x: cdist(y, x, "cityblock")),
    ):
        tc.transport(x[:3], y[:9], 1, cost=cost)  # imports, once
        found, ours = timed(partial(tc.transport, x, y, 1, cost=cost))
        optimum, theirs = timed(partial(network_simplex, x, y, matrix))
        lines.append(f"{name:24}{ours:9.3f}{found.value / optimum - 1:10.1e}{theirs:9.3f}{theirs / ours:8.1f}")
    return "\n".join(lines)


def network_simplex(x: Tensor, y: Tensor, matrix: Callable[..., np.ndarray[Any, Any]]) -> float:
    """The optimum by POT."""
    return float(ot.emd2([], [], matrix(y.numpy(), x.numpy()), numItermax=10**7))


def builds(m: int, size: int) -> str:
    """Points of free weights by each distance, and by who has it."""
    digits, people = torch.from_numpy(load_digits().data)[:m], mixed_table(m)
    units = torch.nn.functional.normalize(digits)
    mixed = tc.costs.Mixed([2], PRICE)
    lines = [f"n={size}, m={m}, weights free", f"{'':32}{'mean cost':>11}{'seconds':>9}"]
    for name, y, cost, choose in (
        ("Cosine, digits", digits, tc.costs.Cosine(), None),
        ("spherical k-means", digits, tc.costs.Cosine(), partial(k_means, units, size)),
        ("Mixed, 2 numbers, 1 category", people, mixed, None),
        ("k-prototypes", people, mixed, partial(k_prototypes, people.numpy(), size)),
    ):
        points, seconds = timed(choose or partial(built, y, size, cost))
        value = tc.transport(points, y, 2, "free", cost=cost).value
        lines.append(f"{name:32}{value:11.5f}{seconds:9.2f}")
    return "\n".join(lines)


def built(y: Tensor, size: int, cost: Any) -> Tensor:
    """Points of ours."""
    return tc.build_coreset(y, size, weights="free", cost=cost, progress=False).points


def k_means(units: Tensor, size: int) -> Tensor:
    """Centres of scikit-learn's k-means of unit vectors; only their directions are measured."""
    return torch.from_numpy(KMeans(size, n_init=STARTS, random_state=0).fit(units.numpy()).cluster_centers_)


def mixed_table(m: int) -> Tensor:
    """Two numbers and one of five categories, which moves the first number."""
    category = torch.randint(5, (m,), generator=seeded()).double()
    return torch.column_stack((normal(m, 2) + 1.5 * category[:, None] * torch.tensor([1.0, 0.0]), category))


def k_prototypes(y: np.ndarray[Any, Any], size: int) -> Tensor:
    """The best of several runs of Huang's algorithm (1997), from random rows."""
    best: tuple[float, np.ndarray[Any, Any]] | None = None
    for seed in range(STARTS):
        centres = y[np.random.default_rng(seed).choice(len(y), size, replace=False)]
        for _ in range(ROUNDS):
            costs = cdist(y[:, :2], centres[:, :2], "sqeuclidean") + PRICE**2 * (y[:, 2:] != centres[:, 2])
            cell, before = costs.argmin(1), centres.copy()
            for i in np.unique(cell):
                rows = y[cell == i]
                centres[i] = [*rows[:, :2].mean(0), np.bincount(rows[:, 2].astype(int)).argmax()]
            if np.array_equal(before, centres):
                break
        value = float(costs.min(1).mean())
        if best is None or value < best[0]:
            best = value, centres
    assert best is not None
    return torch.from_numpy(best[1])


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call gives, and its processor seconds."""
    began = time.process_time()
    found = call()
    return found, time.process_time() - began


if __name__ == "__main__":
    main()
