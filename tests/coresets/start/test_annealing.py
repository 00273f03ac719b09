"""Annealed starts: nearly optimal in the plane, equivariant, and safe where there is nothing to anneal."""

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from torchcoreset.coresets.start import annealing
from torchcoreset.coresets.start.annealing import deterministic_annealing
from torchcoreset.transport import as_cost


def uniform(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def equal(n: int) -> Tensor:
    return torch.full((n,), 1 / n, dtype=torch.float64)


def annealed(y: Tensor, n: int, p: float = 2, *, seed: int = 0, b: Tensor | None = None) -> Tensor:
    return deterministic_annealing(y[:n], equal(n) if b is None else b, y, p, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_four_points_find_the_quarters_of_the_square(p: float) -> None:
    x = annealed(uniform(4000, 2), 4, p)
    quarters = torch.tensor([[1, 1], [1, 3], [3, 1], [3, 3]]).double() / 4
    assert sorted(torch.cdist(x, quarters).argmin(1).tolist()) == [0, 1, 2, 3]
    assert float(torch.cdist(x, quarters).amin(1).max()) < 0.04


def test_samples_matter_where_the_first_of_them_all_lie_on_points() -> None:
    y, x = uniform(400, 1), torch.tensor([[0.0], [0.1]], dtype=torch.float64)
    y[::4] = x.repeat(50, 1)
    moved = annealing._annealed(x, equal(2), y, as_cost(2), torch.Generator().manual_seed(0), None, annealing.STEPS, 4)
    assert tc.transport(moved, y).value < 0.5 * tc.transport(x, y).value


@pytest.mark.parametrize("p", [1, 2, 3])
def test_much_lower_than_where_it_began(p: float) -> None:
    y = uniform(2000, 3)
    assert tc.transport(annealed(y, 15, p), y, p).value < 0.8 * tc.transport(y[:15], y, p).value


@pytest.mark.parametrize("p", [1, 2])
def test_many_dimensions_end_as_low_as_with_all_of_them(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    y = uniform(1500, 200) * torch.linspace(3, 0.1, 200) + 4 * (torch.arange(1500) % 6)[:, None].eq(torch.arange(200))
    few = annealed(y, 12, p)
    monkeypatch.setattr(annealing, "MANY", 1000)
    assert tc.transport(few, y, p).value < 1.02 * tc.transport(annealed(y, 12, p), y, p).value


def test_in_many_dimensions_points_without_weight_stay_and_an_offset_changes_nothing() -> None:
    y, b = uniform(300, 100), torch.tensor([0.0, 1, 1, 1], dtype=torch.float64) / 3
    x = annealed(y, 4, b=b)
    assert torch.equal(x[0], y[0])
    assert not torch.equal(x[1:], y[1:4])
    torch.testing.assert_close(annealed(y + 1e3, 4, b=b) - 1e3, x, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_clusters_with_few_samples_a_point_keep_their_points() -> None:
    # A point that starved came to the middle of another cluster with a potential that let it take hundreds of samples.
    ratios = []
    for seed in range(8):
        generator = torch.Generator().manual_seed(seed)
        centres = 4 * torch.randn(6, 4, generator=generator, dtype=torch.float64)
        noise = torch.randn(360, 4, generator=generator, dtype=torch.float64)
        y = centres[torch.randint(6, (360,), generator=generator)] + torch.rand(360, 1, generator=generator) * noise
        ratios.append(tc.transport(annealed(y, 60, seed=seed), y).value / tc.transport(y[:60], y).value)
    assert max(ratios) < 1.3
    assert sum(ratios) / 8 < 1.05


def test_points_that_coincide_part() -> None:
    y = uniform(1000, 2)
    x = deterministic_annealing(torch.full((4, 2), 0.5).double(), equal(4), y, 2, torch.Generator().manual_seed(0))
    assert float(torch.pdist(x).min()) > 0.3


def test_unequal_weights_are_obeyed() -> None:
    y = torch.cat((0.1 * uniform(900, 2), 5 + 0.1 * uniform(100, 2)))
    x = deterministic_annealing(y[[0, -1]], torch.tensor([0.9, 0.1]).double(), y, 2, torch.Generator().manual_seed(0))
    torch.testing.assert_close(x, torch.stack((y[:900].mean(0), y[900:].mean(0))), rtol=0, atol=0.1)


def test_a_point_without_weight_stays() -> None:
    y = uniform(500, 2)
    x = annealed(y, 3, b=torch.tensor([0.5, 0.0, 0.5]).double())
    assert torch.equal(x[1], y[1])
    assert not torch.equal(x[0], y[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_and_inputs_are_kept(dtype: torch.dtype) -> None:
    y = uniform(300, 2).to(dtype)
    x, before = y[:5].clone(), y.clone()
    result = deterministic_annealing(x, equal(5), y, 2, torch.Generator().manual_seed(0))
    assert result.dtype == dtype
    assert torch.equal(x, before[:5])
    assert torch.equal(y, before)


@pytest.mark.parametrize("p", [1, 2])
def test_samples_that_all_lie_on_points_leave_them(p: float) -> None:
    y = torch.tensor([[0.0, 0.0], [1.0, 0.0]]).repeat(50, 1)
    x = deterministic_annealing(y[:2], equal(2), y, p, torch.Generator().manual_seed(0))
    assert torch.equal(x, y[:2])


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("factor", [0.125, 1024])
def test_scaled_samples_give_scaled_points(p: float, factor: float) -> None:
    y = uniform(500, 2)
    assert torch.equal(annealed(factor * y, 6, p), factor * annealed(y, 6, p))


def test_far_from_the_origin() -> None:
    y = uniform(2000, 2)
    near, far = annealed(y.float(), 5), annealed((y + 1000).float(), 5)
    value, shifted = tc.transport(near, y.float()).value, tc.transport(far, (y + 1000).float()).value
    assert shifted == pytest.approx(value, rel=2e-2)
