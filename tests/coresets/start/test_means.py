"""Points annealed from the means of a bisection: better than random rows, and among the samples of any kind."""

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import CLOUDS, cloud, normal, seeded
from torchcoreset.coresets.start.annealing import annealed_means
from torchcoreset.transport import as_cost


def points(y: Tensor, n: int, p: float = 2, *, seed: int = 0) -> Tensor:
    return annealed_means(y, n, as_cost(p), seeded(seed))


@pytest.mark.parametrize(("kind", "p"), [("normal", 1), ("clusters", 1.5), ("normal", 2), ("ints", 2), ("clusters", 3)])
def test_much_lower_than_random_samples(kind: str, p: float) -> None:
    y = cloud(kind)
    assert tc.transport(points(y, 30, p), y, p).value < 0.8 * tc.transport(y[:30], y, p).value


@pytest.mark.parametrize("kind", CLOUDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_of_any_cloud_are_finite_and_among_the_samples(kind: str, dtype: torch.dtype) -> None:
    y = cloud(kind).to(dtype)
    x = points(y, 13)
    assert x.dtype == dtype
    assert x.shape == (13, y.shape[1])
    low, high = y.amin(0), y.amax(0)
    rounding = 4 * torch.finfo(dtype).eps * (low.abs() + high.abs()) + 1e-2 * (high - low)  # of noise
    assert bool(((low - rounding <= x) & (x <= high + rounding)).all())


def test_few_samples_a_point_give_means_of_leaves() -> None:
    y = cloud("normal", 120)
    x = points(y, 40)
    assert tc.transport(x, y).value < 0.75 * tc.transport(y[:40], y).value
    triples = torch.combinations(torch.arange(120), 3)
    assert all(float((y[triples].mean(1) - point).abs().sum(1).min()) < 1e-12 for point in x[:5])


def test_as_many_samples_as_points_are_the_points() -> None:
    y = normal(20, 3)
    x = points(y, 20)
    assert torch.equal(x[x[:, 0].argsort()], y[y[:, 0].argsort()])


def test_many_dimensions_end_as_low_as_with_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    y = normal(300, 100) * torch.linspace(3, 0.1, 100)
    few = tc.transport(points(y, 12), y).value
    monkeypatch.setattr("torchcoreset.coresets.start.annealing.MANY", 1000)
    assert few < 1.02 * tc.transport(points(y, 12), y).value


@pytest.mark.parametrize("n", [3, 40])
def test_equal_samples_are_the_points(n: int) -> None:
    y = torch.tensor([0.1, -7.3, 1e6]).expand(400, 3)
    assert torch.equal(points(y, n), y[:n])


def test_repeated_samples_and_constant_columns() -> None:
    y = torch.cat((cloud("repeated", 400), torch.full((400, 1), 3.0)), 1)
    x = points(y, 4)
    torch.testing.assert_close(x[:, 3], y[:4, 3], rtol=0, atol=1e-6)
    assert tc.transport(x, y).value < 0.5 * float(y.var(0, unbiased=False).sum())


def test_the_generator_alone_decides() -> None:
    y = normal(800, 2)
    assert torch.equal(points(y, 50), points(y, 50))
    assert not torch.equal(points(y, 50), points(y, 50, seed=1))


@pytest.mark.parametrize("factor", [0.125, 1024])
def test_scaled_samples_give_scaled_points(factor: float) -> None:
    y = normal(500, 2)
    torch.testing.assert_close(points(factor * y, 40), factor * points(y, 40), rtol=1e-9, atol=0)
