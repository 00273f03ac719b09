"""The work: what every method is given.

    x (n, d) points      y (m, d) samples      both float32; weights are equal and p = 2 throughout

Work is made from its name and a seed, so that a process of its own can make it again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Generator, Tensor

ROOT = Path(__file__).resolve().parents[2]


class Unavailable(Exception):
    """This cannot run here; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """One task for all methods that can do it.

    Attributes:
        name: as the table prints it.
        task: "transport" (optimum between points and samples), "loss" (value and gradient of one loss) or
            "coreset" (find the points).
        points: (n, d) the points; for a coreset those to start from.
        samples: (m, d) samples, in random order.
        seed: for methods that draw random numbers.
    """

    name: str
    task: str
    points: Tensor
    samples: Tensor
    seed: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How to make a piece of work, and how much patience it deserves.

    Attributes:
        make: from a seed to points and samples.
        task: as in `Work`.
        seeds: number of runs, each from its own start (coresets only); the table shows medians.
        patience: seconds after which one run is given up.
    """

    make: Callable[[int], tuple[Tensor, Tensor]]
    task: str
    seeds: int = 1
    patience: float = 300


def make_work(name: str, seed: int = 0) -> Work:
    """Work by its name. Raises Unavailable where its data is missing."""
    plan = PLANS[name]
    points, samples = plan.make(seed)
    return Work(name=name, task=plan.task, points=points, samples=samples, seed=seed)


def normal(n: int, m: int, d: int, clusters: int = 1) -> Callable[[int], tuple[Tensor, Tensor]]:
    """Points and samples drawn independently from N(0, I), or a mixture of shifted copies; the same for every seed.

    Such points are where a coreset starts: their cells are far from balanced, in a mixture the more so.
    """

    def make(seed: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(1)
        centres = (2 if clusters > 1 else 0) * torch.randn(clusters, d, generator=generator)

        def draw(count: int) -> Tensor:
            component = torch.randint(clusters, (count,), generator=generator)
            return centres[component] + torch.randn(count, d, generator=generator)

        return draw(n), draw(m)

    return make


def table(load: Callable[[], Tensor], size: int, rows: int | None = None) -> Callable[[int], tuple[Tensor, Tensor]]:
    """A standardised table, or some random rows of it, and random distinct rows to start from."""

    def make(seed: int) -> tuple[Tensor, Tensor]:
        samples = standardised(load())
        samples = samples[torch.randperm(len(samples), generator=Generator().manual_seed(0))[:rows]]
        start = torch.randperm(len(samples), generator=Generator().manual_seed(seed))[:size]
        return samples[start].clone(), samples.contiguous()

    return make


def standardised(table: Tensor) -> Tensor:
    """Columns with mean 0 and variance 1, float32; constant columns are left out."""
    wide = table.double()
    spread = wide.std(0, unbiased=False)
    used = spread > 0
    return ((wide[:, used] - wide[:, used].mean(0)) / spread[used]).float()


def stored(*names: str) -> Callable[[], Tensor]:
    """Rows X of files in the data folder, which is TORCHCORESET_DATA or else ../shared/data beside the checkout."""

    def load() -> Tensor:
        named = os.environ.get("TORCHCORESET_DATA")
        folder = Path(named) if named else ROOT.parent / "shared" / "data"
        tables = []
        for name in names:
            path = folder / name
            if not path.is_file():
                raise Unavailable(f"no data: {path} is missing; set TORCHCORESET_DATA to the folder that holds it")
            with np.load(path, allow_pickle=False) as file:
                tables.append(torch.from_numpy(file["X"]).float())
        return torch.cat(tables)

    return load


def digits() -> Tensor:
    """8 x 8 digits, which scikit-learn brings along."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise Unavailable("scikit-learn is not installed") from error
    return torch.from_numpy(load_digits().data)


PLANS = {
    "n=50 m=1k d=2": Plan(make=normal(50, 1000, 2), task="transport"),
    "n=100 m=10k d=2": Plan(make=normal(100, 10_000, 2), task="transport"),
    "n=50 m=50k d=2": Plan(make=normal(50, 50_000, 2), task="transport"),
    "n=100 m=100k d=16": Plan(make=normal(100, 100_000, 16), task="transport"),
    "n=100 m=100k d=16, 8 clusters": Plan(make=normal(100, 100_000, 16, clusters=8), task="transport"),
    "n=500 m=20k d=16": Plan(make=normal(500, 20_000, 16), task="transport"),
    "digits n=10": Plan(make=table(digits, 10, rows=400), task="coreset"),
    "digits n=50": Plan(make=table(digits, 50), task="coreset"),
    "pendigits 8k n=100": Plan(
        make=table(stored("pendigits.npz"), 100, rows=8000), task="coreset", seeds=5, patience=900
    ),
    "cod-rna 331k n=1000": Plan(
        make=table(stored("cod_rna.npz", "cod_rna_test.npz"), 1000), task="coreset", patience=900
    ),
    "n=10k m=1M d=8": Plan(make=normal(10_000, 1_000_000, 8, clusters=8), task="loss", patience=1800),
}
TINY = ("n=50 m=1k d=2", "digits n=10")
QUICK = ("n=100 m=10k d=2", "digits n=50")
FULL = tuple(name for name in PLANS if name not in {*TINY, "digits n=50"})
