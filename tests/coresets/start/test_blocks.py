"""Blocks of points: each stays among its samples, and all end as low as when each sees all samples."""

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import CLOUDS, cloud, normal, seeded
from torchcoreset.coresets.start import blocks
from torchcoreset.coresets.start.blocks import points_in_blocks


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "ALONE", 1)


def points(y: Tensor, n: int, p: float = 2, *, seed: int = 0) -> Tensor:
    return points_in_blocks(y, n, p, seeded(seed))


@pytest.mark.parametrize(("kind", "p"), [("normal", 1), ("clusters", 1.5), ("normal", 2), ("ints", 2), ("clusters", 3)])
def test_much_lower_than_random_samples(kind: str, p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 8)
    y = cloud(kind)
    assert tc.transport(points(y, 30, p), y, p).value < 0.8 * tc.transport(y[:30], y, p).value


def test_nearly_as_low_as_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    y = normal(2000, 2)
    monkeypatch.setattr(blocks, "ALONE", 30)
    one = tc.transport(points(y, 30), y).value
    monkeypatch.setattr(blocks, "ALONE", 29)
    monkeypatch.setattr(blocks, "BLOCK", 8)
    assert tc.transport(points(y, 30), y).value < 1.1 * one


@pytest.mark.parametrize("kind", CLOUDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_points_of_any_cloud_are_finite_and_among_the_samples(
    kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 4)
    y = cloud(kind).to(dtype)
    x = points(y, 13)
    assert x.dtype == dtype
    assert x.shape == (13, y.shape[1])
    low, high = y.amin(0), y.amax(0)
    rounding = 4 * torch.finfo(dtype).eps * (low.abs() + high.abs()) + 1e-2 * (high - low)  # of noise
    assert bool(((low - rounding <= x) & (x <= high + rounding)).all())


def test_a_block_stays_within_its_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    y = torch.cat((normal(50, 2), 1000 + normal(150, 2)))
    monkeypatch.setattr(blocks, "BLOCK", 3)
    x = points(y, 4)
    assert int((x < 500).all(1).sum()) == 1
    torch.testing.assert_close(x[(x < 500).all(1)][0], y[:50].mean(0), rtol=0, atol=0.05)


def test_side_by_side_is_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise, blocks filled up to the size of others end where they end on their own."""
    monkeypatch.setattr("torchcoreset.coresets.start.annealing.NOISE", 0.0)
    samples, starts = [normal(m, 3, seed=m) for m in (90, 60, 75)], [normal(n, 3, seed=n) for n in (9, 5, 7)]
    for p in (1, 2, 3):
        cost = tc.costs.Euclidean().power(p)
        together = blocks._side_by_side(samples, starts, cost, seeded(), 30)
        for y, x, moved in zip(samples, starts, together, strict=True):
            torch.testing.assert_close(moved, blocks._side_by_side([y], [x], cost, seeded(), 30)[0])


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
    monkeypatch.setattr(blocks, "BLOCK", 8)
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
    assert torch.equal(points(factor * y, 40), factor * points(y, 40))


def test_batches_hold_every_block_once_and_little_filling() -> None:
    sizes = [(32, 320), (31, 330), (17, 170), (16, 170), (9, 90), (1, 10)]
    samples, starts = [torch.empty(m, 1) for _, m in sizes], [torch.empty(n, 1) for n, _ in sizes]
    batches = list(blocks._batches(samples, starts))
    assert sorted(i for batch in batches for i in batch) == list(range(6))
    assert [0, 1] in [sorted(batch) for batch in batches]
    assert all(len({sizes[i][0] > 20 for i in batch}) == 1 for batch in batches)
