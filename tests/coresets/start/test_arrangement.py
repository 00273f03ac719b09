"""Which weight goes where: on the line by exchanges, elsewhere by the mass that points take when they may."""

import itertools

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal
from torchcoreset.coresets.start.annealing import mass_constrained_annealing
from torchcoreset.coresets.start.arrangement import differ, order_on_line, placed


def cost_in_order(y: Tensor, b: Tensor, order: tuple[int, ...], p: int) -> float:
    """Of the best points of these weights from left to right, by cells that may split a sample."""
    ends = (b[list(order)].cumsum(0) * len(y)).tolist()
    total, low = 0.0, 0.0
    place = torch.arange(len(y)).double()
    for high in ends:
        mass = (torch.minimum(place + 1, place.new_tensor(high)) - torch.maximum(place, place.new_tensor(low))).clamp(0)
        centre = (mass @ y) / mass.sum()
        if p == 1:
            centre = y[int(torch.searchsorted(mass.cumsum(0), mass.sum() / 2))]
        total += float(mass @ (y - centre).abs().pow(p)) / len(y)
        low = high
    return total


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_the_order_on_the_line_is_nearly_the_best_of_all(p: int, seed: int) -> None:
    y = normal(400, seed=seed).exp().sort().values if seed % 2 else normal(400, seed=seed).sort().values
    b = torch.rand(5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.05
    b /= b.sum()
    costs = {order: cost_in_order(y, b, order, p) for order in itertools.permutations(range(5))}
    assert costs[tuple(order_on_line(y, b, p).tolist())] <= 1.02 * min(costs.values())


def test_an_order_that_no_other_betters_is_kept() -> None:
    b = torch.tensor([1.0, 4, 2, 3]).double() / 10
    assert order_on_line(torch.arange(1000.0), b, 2).tolist() == [0, 1, 2, 3]
    assert order_on_line(torch.zeros(1000), b, 2).tolist() == [0, 1, 2, 3]


def test_many_points_on_the_line() -> None:
    b = torch.rand(1500, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    order = order_on_line(normal(20_000).sort().values, b / b.sum(), 2)
    assert torch.equal(order.sort().values, torch.arange(1500))
    assert b[order][:100].mean() < 0.2 * b[order][700:800].mean()


def test_heavy_weights_go_to_the_points_with_most_samples() -> None:
    y = torch.cat((normal(700, 2), 20 + normal(200, 2), -20 + normal(100, 2)))
    x = torch.tensor([[0.0, 0], [20, 20], [-20, -20], [5, 5]]).double()
    b = torch.tensor([0.1, 0.7, 0.2, 0.0]).double()
    assert torch.equal(placed(x, b, y, 2), x[[2, 0, 1, 3]])


def test_points_that_take_what_they_like_find_clusters_of_any_mass() -> None:
    y = torch.cat((normal(900, 2), 30 + normal(100, 2)))
    x = mass_constrained_annealing(
        y[[1, 950]], torch.tensor([0.5, 0.5]).double(), y, 2, torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(x, torch.stack((y[:900].mean(0), y[900:].mean(0))), rtol=0, atol=0.2)


def test_weights_differ_among_those_that_are_any() -> None:
    assert not differ(torch.tensor([0.5, 0.0, 0.5]))
    assert differ(torch.tensor([0.5, 0.1, 0.4]))


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_clusters_of_unequal_mass_get_the_points_of_their_mass(p: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    count = torch.tensor([900, 600, 300, 200])
    centres = torch.tensor([[0.0, 0, 0], [30, 0, 0], [0, 30, 0], [0, 0, 30]]).double()
    y = centres.repeat_interleave(count, 0) + normal(2000, 3, seed=seed)
    order = torch.randperm(4, generator=generator)
    x = tc.build_coreset(y, 4, p, weights=count[order].double(), seed=seed).coreset.points
    torch.testing.assert_close(x.detach(), centres[order], rtol=0, atol=0.6)
