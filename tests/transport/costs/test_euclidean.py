"""Costs and their gradients, against differences taken in float64 and against autograd."""

import pytest
import torch

from tests.data import seeded
from torchcoreset.transport.costs import DISTANCE, EuclideanPower, as_cost

every_power = pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])


@pytest.fixture
def clouds(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples (40, 5) and points (7, 5)."""
    return tuple(torch.randn(k, 5, dtype=torch.float64, generator=generator) for k in (40, 7))


@every_power
def test_pairwise_is_the_power_of_the_distance(clouds, p: float) -> None:
    y, x = clouds
    expected = (y[:, None] - x).norm(dim=2) ** p
    torch.testing.assert_close(EuclideanPower(p).pairwise(y, x), expected, rtol=1e-12, atol=1e-12)


@every_power
@pytest.mark.parametrize(("m", "n", "d"), [(1, 1, 1), (5, 8, 3), (6, 9, 2), (4, 17, 33), (0, 3, 2), (33, 1, 784)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pairwise_exact_is_from_differences(p: float, m: int, n: int, d: int, dtype: torch.dtype) -> None:
    y, x = (1e6 + torch.rand(k, 2 * d, generator=seeded())[:, ::2].to(dtype) for k in (m, n))  # not contiguous
    found = EuclideanPower(p).pairwise_exact(y, x.double())
    assert found.dtype == torch.float64
    expected = (y.double()[:, None] - x.double()).norm(dim=2) ** p
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=0)
    batch = EuclideanPower(p).pairwise_exact(torch.stack((y, y + 1)), torch.stack((x, x)))
    assert batch.dtype == dtype
    torch.testing.assert_close(batch[0].double(), expected, rtol=1e-13 if dtype == torch.float64 else 1e-6, atol=0)
    torch.testing.assert_close(batch[1], EuclideanPower(p).pairwise_exact(y + 1, x), rtol=0, atol=0)


@every_power
def test_paired_is_the_diagonal(clouds, p: float) -> None:
    y, x = clouds
    expected = (y[:7] - x).norm(dim=1) ** p
    torch.testing.assert_close(EuclideanPower(p).paired(y[:7], x), expected, rtol=1e-14, atol=0)


@every_power
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_pairwise_below_is_near_and_never_above(clouds, p: float, offset: float) -> None:
    y = torch.cat((clouds[0] + offset, clouds[0] + offset))  # half of the pairs coincide
    cost, u = EuclideanPower(p), torch.finfo(torch.float64).eps
    below, exact = cost.pairwise_below(y, y), cost.pairwise_exact(y, y)
    assert bool((below <= exact * (1 + cost.roundoffs(5) * u)).all())
    square = 8 * (5 + 8) * u * float(y.square().sum(1).max())  # twice what is taken off, in the squares
    assert float((cost.root(exact).square() - cost.root(below).square()).max()) <= square


@every_power
def test_the_spread_share_is_reached_by_two_places(p: float) -> None:
    # E |X - X'|^p over E |X - x|^p, at the best x, of 1 with probability q and else 0.
    q = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    x = torch.linspace(0, 1, 1001, dtype=torch.float64)[:, None]
    share = (q * (1 - x) ** p + (1 - q) * x**p).min(0).values / (2 * q * (1 - q))
    assert float(share.min()) >= EuclideanPower(p).spread_share * (1 - 1e-9)
    assert float(share.min()) == pytest.approx(EuclideanPower(p).spread_share, rel=0.03)


def test_paired_is_exact_far_from_the_origin() -> None:
    y, x = torch.tensor([[512804.0]]), torch.tensor([[512695.0]])
    assert [EuclideanPower(p).paired(y, x).item() for p in (1, 2)] == [109.0, 11881.0]


def test_pairwise_is_never_negative(generator: torch.Generator) -> None:
    x = 1e4 + torch.randn(50, 3, generator=generator)
    for p in (1.0, 2.0):
        assert float(EuclideanPower(p).pairwise(x, x.clone()).min()) >= 0


@every_power
def test_the_gradient_is_that_of_autograd(clouds, p: float) -> None:
    y, x = clouds[0][:7], clouds[1].requires_grad_()
    (expected,) = torch.autograd.grad(((y - x).norm(dim=1) ** p).sum(), x)
    torch.testing.assert_close(EuclideanPower(p).paired_gradient(y, x.detach()), expected, rtol=1e-13, atol=1e-14)


@every_power
def test_the_gradient_is_zero_where_point_and_sample_coincide(p: float) -> None:
    x = torch.tensor([[1.0, -2.0]])
    assert EuclideanPower(p).paired_gradient(x, x.clone()).tolist() == [[0.0, 0.0]]


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
    cost = EuclideanPower(p)
    costs, gradient = cost.assigned(y, x.float(), a, cell, block, each=1 / 40 if equal else None)
    push = a[:, None] * cost.paired_gradient(y, x.float()[cell])
    torch.testing.assert_close(costs, cost.paired(y, x.float()[cell]), rtol=1e-14, atol=0)
    torch.testing.assert_close(gradient, torch.zeros_like(x).index_add_(0, cell, push), rtol=1e-13, atol=1e-14)


@every_power
def test_slopes_and_weights_are_those_of_the_gradient(clouds, p: float) -> None:
    y, x, cost = clouds[0][:7], clouds[1], EuclideanPower(p)
    costs, distances = cost.paired(y, x), (y - x).norm(dim=1)
    slope = torch.as_tensor(cost.slope(costs), dtype=torch.float64).expand(7)
    torch.testing.assert_close(slope[:, None] * (x - y), cost.paired_gradient(y, x), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(p * cost.weight(distances), slope, rtol=1e-12, atol=0)
    torch.testing.assert_close(p * cost.weight_from_cost(costs), slope, rtol=1e-12, atol=0)
    assert cost.weight(torch.zeros(1)).tolist() == cost.weight_from_cost(torch.zeros(1)).tolist() == [0.0]


@every_power
def test_reduced_costs_either_way_round(clouds, p: float) -> None:
    (y, x), cost, v = clouds, EuclideanPower(p), torch.arange(7.0).double()
    x2, y2 = x.square().sum(1), y.square().sum(1)
    expected = cost.pairwise(y, x) - v - (y2[:, None] if cost.omits_square else 0)
    given = None if cost.omits_square else y2
    samples_first = cost.reduced(y, x, x2, None if given is None else given[:, None], v)
    torch.testing.assert_close(samples_first, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(cost.reduced(x, y, x2[:, None], given, v[:, None]), expected.t(), rtol=1e-12, atol=1e-12)


@every_power
def test_units(clouds, p: float) -> None:
    (y, x), cost = clouds, EuclideanPower(p)
    distances = cost.metric.paired(y[:7], x)
    torch.testing.assert_close(cost.of_length(distances), cost.paired(y[:7], x), rtol=1e-14, atol=0)
    torch.testing.assert_close(cost.root(cost.paired(y[:7], x)), distances, rtol=1e-14, atol=0)
    assert cost.of_square(9.0) == pytest.approx(cost.of_length(3.0), rel=1e-14)
    assert cost.blur(cost.smoothing(0.3)) == pytest.approx(0.3, rel=1e-14)
    # Of a cell of unit mass and size 3, the gradient is p 3^(p-1) long, and a step 3.
    assert cost.step_factor(torch.tensor(3.0)).item() * p * 3 ** (p - 1) == pytest.approx(3, rel=1e-6)


def test_a_number_is_a_power_of_the_distance_and_a_cost_is_itself() -> None:
    assert as_cost(1) == DISTANCE
    assert as_cost(1.5) == EuclideanPower(1.5) != EuclideanPower(2.0)
    assert as_cost(DISTANCE) is DISTANCE
    with pytest.raises(ValueError, match=r"p: got 0\.5; expected a number >= 1"):
        as_cost(0.5)


def test_inputs_are_not_written_to(clouds) -> None:
    y, x = clouds[0][:7], clouds[1]
    before = y.clone(), x.clone()
    for p in (1.0, 1.5, 2.0):
        cost = EuclideanPower(p)
        cost.pairwise(y, x), cost.paired(y, x), cost.paired_gradient(y, x)
    assert torch.equal(y, before[0])
    assert torch.equal(x, before[1])
