"""Balanced bisection: parts of just their share, nearly optimal means, and depth under heavy tails."""

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import CLOUDS, cloud, normal, seeded
from torchcoreset.coresets.start import bisection
from torchcoreset.coresets.start.bisection import leaf_means


def leaves(y: Tensor, n: int, *, seed: int = 0) -> list[Tensor]:
    """Indices of the samples of each leaf."""
    index, sizes = bisection.leaves(y, n, seeded(seed))
    return list(index.split(sizes))


def means(y: Tensor, n: int, *, seed: int = 0) -> Tensor:
    return torch.stack([y[leaf].mean(0) for leaf in leaves(y, n, seed=seed)])


@pytest.mark.parametrize("kind", CLOUDS)
@pytest.mark.parametrize("n", [1, 2, 7, 64, 299, 300])
def test_every_sample_is_in_one_leaf_of_its_share(kind: str, n: int) -> None:
    y = cloud(kind)
    found = leaves(y, n)
    assert len(found) == n
    assert torch.equal(torch.cat(found).sort().values, torch.arange(300))
    # Every cut rounds to whole samples, at most by half a sample for all points of a part.
    assert all(300 // n - 1 <= len(leaf) <= 300 // n + 2 for leaf in found)


def test_clusters_are_cut_apart() -> None:
    y = torch.cat(
        [centre + 0.1 * normal(10 * share, 2, seed=share) for share, centre in ((1, 0.0), (5, 9.0), (4, 30.0))]
    )
    cluster = torch.tensor([0] * 10 + [1] * 50 + [2] * 40)
    assert all(len(cluster[leaf].unique()) == 1 for leaf in leaves(y, 10))


@pytest.mark.parametrize("kind", ["normal", "clusters", "cauchy", "repeated", "far", "ints", "wide"])
def test_means_are_far_better_than_random_samples(kind: str) -> None:
    y = cloud(kind)
    random = tc.transport(y[torch.randperm(300, generator=seeded(1))[:30]], y).value
    assert tc.transport(means(y, 30), y).value < 0.6 * random


def test_in_the_plane_means_are_within_a_quarter_of_an_optimum() -> None:
    y = torch.rand(2000, 2, generator=seeded(), dtype=torch.float64)
    # Regular hexagons of the same area: 5 / (18 sqrt(3)) times it, below which no 32 points can be.
    assert tc.transport(means(y, 32), y).value < 1.25 * 5 / (18 * 3**0.5) / 32


def test_heavy_tails_are_not_cut_off_point_by_point(monkeypatch: pytest.MonkeyPatch) -> None:
    y = 10.0 ** torch.arange(2000, dtype=torch.float64)[:, None].mul(0.1).clamp(max=150) * torch.tensor([1.0, -1.0])
    cut, rows = bisection._cut, 0

    def counted(y, *rest):
        nonlocal rows
        rows += len(y)
        return cut(y, *rest)

    monkeypatch.setattr(bisection, "_cut", counted)
    assert len(leaves(y, 1000)) == 1000
    assert rows < 40 * 2000  # one by one they would be 500 levels of 2000 on average


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_any_scale_gives_the_same_leaves(scale: float) -> None:
    y = normal(200, 3)
    assert all(torch.equal(a, b) for a, b in zip(leaves(scale * y, 20), leaves(y, 20), strict=True))


def test_equal_samples_are_halved() -> None:
    y = torch.ones(64, 3)
    assert [len(leaf) for leaf in leaves(y, 32)] == [2] * 32


def test_the_generator_alone_decides() -> None:
    y = normal(300, 4)
    assert torch.equal(means(y, 20), means(y, 20))
    assert not torch.equal(means(y, 20), means(y, 20, seed=1))


def test_means_of_equal_samples_are_exact() -> None:
    y = torch.full((9, 2), 0.1)
    assert torch.equal(leaf_means(y, [1, 3, 5]), y[:3])
    assert leaf_means(normal(6, 2).float(), [2, 4]).dtype == torch.float32
