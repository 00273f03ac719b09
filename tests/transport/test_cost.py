"""Costs and their gradients, against differences taken in float64 and against autograd."""

import pytest
import torch

from torchcoreset.transport.cost import assigned, paired, paired_gradient, pairwise

every_power = pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])


@pytest.fixture
def clouds(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples (40, 5) and points (7, 5)."""
    return tuple(torch.randn(k, 5, dtype=torch.float64, generator=generator) for k in (40, 7))


@every_power
def test_pairwise_is_the_power_of_the_distance(clouds, p: float) -> None:
    y, x = clouds
    expected = (y[:, None] - x).norm(dim=2) ** p
    torch.testing.assert_close(pairwise(y, x, p), expected, rtol=1e-12, atol=1e-12)


@every_power
def test_paired_is_the_diagonal(clouds, p: float) -> None:
    y, x = clouds
    expected = (y[:7] - x).norm(dim=1) ** p
    torch.testing.assert_close(paired(y[:7], x, p), expected, rtol=1e-14, atol=0)


def test_paired_is_exact_far_from_the_origin() -> None:
    y, x = torch.tensor([[512804.0]]), torch.tensor([[512695.0]])
    assert [paired(y, x, p).item() for p in (1, 2)] == [109.0, 11881.0]


def test_pairwise_is_never_negative(generator: torch.Generator) -> None:
    x = 1e4 + torch.randn(50, 3, generator=generator)
    for p in (1.0, 2.0):
        assert float(pairwise(x, x.clone(), p).min()) >= 0


@every_power
def test_the_gradient_is_that_of_autograd(clouds, p: float) -> None:
    y, x = clouds[0][:7], clouds[1].requires_grad_()
    (expected,) = torch.autograd.grad(((y - x).norm(dim=1) ** p).sum(), x)
    torch.testing.assert_close(paired_gradient(y, x.detach(), p), expected, rtol=1e-13, atol=1e-14)


@every_power
def test_the_gradient_is_zero_where_point_and_sample_coincide(p: float) -> None:
    x = torch.tensor([[1.0, -2.0]])
    assert paired_gradient(x, x.clone(), p).tolist() == [[0.0, 0.0]]


@every_power
@pytest.mark.parametrize("block", [7, 40])
@pytest.mark.parametrize("equal", [True, False])
def test_costs_and_gradient_of_cells_in_blocks(
    clouds, p: float, block: int, equal: bool, generator: torch.Generator
) -> None:
    y, x = clouds
    y = y.float()
    cell = torch.randint(len(x) - 1, (40,), generator=generator)  # the last cell is empty
    a = (
        torch.full((40,), 1 / 40, dtype=torch.float64)
        if equal
        else torch.rand(40, dtype=torch.float64, generator=generator)
    )
    costs, gradient = assigned(y, x.float(), a, cell, p, block, each=1 / 40 if equal else None)
    push = a[:, None] * paired_gradient(y, x.float()[cell], p)
    torch.testing.assert_close(costs, paired(y, x.float()[cell], p), rtol=1e-14, atol=0)
    torch.testing.assert_close(gradient, torch.zeros_like(x).index_add_(0, cell, push), rtol=1e-13, atol=1e-14)


def test_inputs_are_not_written_to(clouds) -> None:
    y, x = clouds[0][:7], clouds[1]
    before = y.clone(), x.clone()
    for p in (1.0, 1.5, 2.0):
        pairwise(y, x, p), paired(y, x, p), paired_gradient(y, x, p)
    assert torch.equal(y, before[0])
    assert torch.equal(x, before[1])
