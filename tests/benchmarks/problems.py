"""The work: what every method is given. Clouds that are drawn, and tables that are read.

    x (n, d) points      y (m, d) samples      both float32, of equal weights

A maker takes a seed and returns both, so that a process of its own can make them again. Only the start of a coreset
depends on the seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

ROOT = Path(__file__).resolve().parents[2]
# Weights of the points that a coreset is judged with, by task: equal, free, and between half and twice an equal share.
CORESETS: dict[str, Any] = {"coreset": None, "free coreset": "free", "bounded coreset": (0.5, 2.0)}
MOVE = 0.01  # of the spacing of the points, between the problem of a warm start and the one before it
TRIMMED = 0.05  # share of the samples that a "partial transport" leaves unmatched
BY_VALUE = {*CORESETS, "partial transport"}  # tasks whose results are set beside the best value
Maker = Callable[[int], tuple[Tensor, Tensor]]


class Unavailable(Exception):
    """This cannot run here; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """One task for all methods that can do it.

    Attributes:
        name: as the table prints it.
        task: "transport" (optimum between points and samples), "loss" (training steps: value, gradient in the points,
            Adam), "clouds" (a batch of pairs, value and gradients), "partial transport" (the optimum where a share of
            the samples stays unmatched) or one of CORESETS (find the points).
        points: (n, d) the points, for a coreset those to start from; (batch, n, d) of clouds.
        samples: (m, d) samples, in random order; (batch, m, d) of clouds.
        p: power of the distance.
        steps: of training in one run; times are given for one of them.
        seed: for methods that draw random numbers.
    """

    name: str
    task: str
    points: Tensor
    samples: Tensor
    p: float = 2
    steps: int = 1
    seed: int = 0


def normal(n: int, m: int, d: int, clusters: int = 1) -> Maker:
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


def separated(n: int, m: int, d: int, clusters: int = 20, distance: float = 5) -> Maker:
    """Clusters of unequal mass and width: centres distance N(0, I), spreads U(.3, 1.3), masses Dirichlet(1).

    The points are samples, as those of a coreset are at its start; their shares of the clusters differ from the masses,
    so that mass has to cross between clusters.
    """

    def make(seed: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(1)
        centres = distance * torch.randn(clusters, d, generator=generator)
        spreads = 0.3 + torch.rand(clusters, 1, generator=generator)
        masses = -torch.rand(clusters, generator=generator).log()
        component = torch.multinomial(masses, m, replacement=True, generator=generator)
        samples = centres[component] + spreads[component] * torch.randn(m, d, generator=generator)
        return some_rows(samples, n, seed), samples

    return make


def cauchy(n: int, m: int, d: int) -> Maker:
    """Points and samples with independent Cauchy coordinates: no mean, so that a few far samples carry the cost."""

    def make(seed: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(1)
        rows = torch.empty(n + m, d).cauchy_(generator=generator)
        return rows[:n].clone(), rows[n:].clone()

    return make


def scales(n: int, m: int, d: int) -> Maker:
    """Nested scales: normal rows, each multiplied by a power of ten between 1e-4 and 1e4."""

    def make(seed: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(1)
        powers = torch.randint(-4, 5, (n + m, 1), generator=generator)
        rows = torch.randn(n + m, d, generator=generator) * 10.0**powers
        return rows[:n].clone(), rows[n:].clone()

    return make


def far(n: int, m: int, d: int) -> Maker:
    """Four clusters a thousand times as far from each other as they are wide; points and samples drawn alike."""

    def make(seed: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(1)
        rows = torch.randn(n + m, d, generator=generator)
        rows += 1e3 * torch.randint(4, (n + m, 1), generator=generator)
        return rows[:n].clone(), rows[n:].clone()

    return make


def line(n: int, m: int, d: int) -> Maker:
    """Points and samples on a line through the origin: all columns are the same."""

    def make(seed: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(1)
        rows = torch.randn(n + m, 1, generator=generator).repeat(1, d)
        return rows[:n].clone(), rows[n:].clone()

    return make


def coincident(n: int, m: int, d: int, places: int, spread: float = 0.0) -> Maker:
    """Normal samples, and points in few places: equal, or within about a spread of each other; float64."""

    def make(seed: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(1)
        x, y, noise = (torch.randn(k, d, generator=generator, dtype=torch.float64) for k in (places, m, n))
        return x[torch.arange(n) % places] + spread * noise, y

    return make


def pairs(batch: int, n: int, m: int, d: int) -> Maker:
    """Pairs of normal clouds, (batch, n, d) and (batch, m, d)."""

    def make(seed: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(1)
        return torch.randn(batch, n, d, generator=generator), torch.randn(batch, m, d, generator=generator)

    return make


def started(maker: Maker, size: int) -> Maker:
    """The samples of this cloud, and random rows of them to start from, others for each seed."""

    def make(seed: int) -> tuple[Tensor, Tensor]:
        samples = maker(0)[1]
        return some_rows(samples, size, seed), samples

    return make


def table(load: Callable[[], Tensor], size: int, rows: int | None = None, *, standardise: bool = True) -> Maker:
    """A table, or some random rows of it, and random distinct rows to start from."""

    def make(seed: int) -> tuple[Tensor, Tensor]:
        samples = standardised(load()) if standardise else load().float()
        samples = samples[torch.randperm(len(samples), generator=Generator().manual_seed(0))[:rows]].contiguous()
        return some_rows(samples, size, seed), samples

    return make


def moved(x: Tensor) -> Tensor:
    """Points (n, d) from which these came by 1 % of their spacing, each in a random direction."""
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(2)).to(x.device)
    return x + MOVE * spacing(x) * direction / direction.norm(dim=1, keepdim=True)


def spacing(x: Tensor) -> float:
    """Median distance from a point to the nearest other."""
    distance = torch.cdist(x, x)
    distance.fill_diagonal_(torch.inf)
    return float(distance.amin(1).median())


def some_rows(samples: Tensor, size: int, seed: int) -> Tensor:
    """Random distinct rows."""
    return samples[torch.randperm(len(samples), generator=Generator().manual_seed(seed))[:size]].clone()


def standardised(table: Tensor) -> Tensor:
    """Columns with mean 0 and variance 1, float32; constant columns are left out."""
    wide = table.double()
    spread = wide.std(0, unbiased=False)
    used = spread > 0
    return ((wide[:, used] - wide[:, used].mean(0)) / spread[used]).float()


def components(load: Callable[[], Tensor], count: int) -> Callable[[], Tensor]:
    """The table in its principal components, the largest first, not rescaled."""

    def loaded() -> Tensor:
        wide = load().double()
        centred = wide - wide.mean(0)
        directions = torch.linalg.eigh(centred.t() @ centred)[1].flip(1)[:, :count]
        return (centred @ directions).float()

    return loaded


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
