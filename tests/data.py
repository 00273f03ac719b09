"""Data that several tests draw: seeded tables, distributions to sample from, clouds of every kind, and datasets."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset


def seeded(seed: int = 0) -> torch.Generator:
    """A CPU generator of its own."""
    return torch.Generator().manual_seed(seed)


def normal(
    *shape: int, seed: int = 0, generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64
) -> Tensor:
    """Standard normal numbers, drawn in float64: the same ones in every dtype, but for rounding."""
    return torch.randn(*shape, generator=generator or seeded(seed), dtype=torch.float64).to(dtype)


def normal32(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers drawn in float32, which are others than those of `normal`."""
    return torch.randn(*shape, generator=seeded(seed))


def line(count: int) -> Tensor:
    """Fresh rows (count, 1) of N(0, 1), float64, from the generator that the library seeds."""
    return torch.randn(count, 1, dtype=torch.float64)


def plane(count: int) -> Tensor:
    """Fresh rows (count, 2) of N(0, I), float32, from the generator that the library seeds."""
    return torch.randn(count, 2)


# What a table of samples can look like to a solver.
CLOUDS = ("normal", "clusters", "cauchy", "repeated", "far", "one outlier", "line", "ints", "wide")


def cloud(kind: str, m: int = 300) -> Tensor:
    """Samples (m, d), float64: d = 3, or 1 for `line` and 784 for `wide`. Each kind has a seed of its own."""
    generator = seeded(len(kind))
    y = normal(m, 3, generator=generator)
    match kind:
        case "clusters":  # of unequal mass
            centres = torch.tensor([[0.0, 0, 0], [9, 0, 0], [0, 9, 0]]).double()
            y = 0.1 * y + centres[torch.multinomial(torch.tensor([0.5, 0.3, 0.2]), m, True, generator=generator)]
        case "cauchy":
            y = torch.tan(3.1 * (torch.rand(m, 3, generator=generator, dtype=torch.float64) - 0.5))
        case "repeated":
            y = y[torch.randint(4, (m,), generator=generator)]
        case "far":
            y = y + 1e6
        case "one outlier":
            y[7] = 1e7
        case "line":
            y = y[:, :1]
        case "ints":
            y = y.mul(2).round()
        case "wide":
            y = normal(m, 784, generator=generator)
    return y


def seeds(count: int, *, quick: int, slow: Collection[int] = ()) -> list[Any]:
    """Seeds from 0 as parameters of a test; `make test-quick` takes the first `quick` of them, but for slow ones."""
    return [
        pytest.param(seed, marks=pytest.mark.slow) if seed >= quick or seed in slow else seed for seed in range(count)
    ]


class Rows(Dataset):
    """A map-style dataset of the rows of a table, or of the entries of a list."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.rows[index]


class Stream(IterableDataset):
    """An iterable dataset of them."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __iter__(self) -> Any:
        return iter(self.rows)
