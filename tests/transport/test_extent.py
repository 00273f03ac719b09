"""Median, scale and diameter: those of the measure, whatever its table looks like."""

import pytest
import torch
from torch import Tensor

from tests.data import CLOUDS, cloud
from torchcoreset.transport.extent import data_scale, diameter, spatial_median, weighted_median
from torchcoreset.transport.problem import make_problem


def turned(y: Tensor) -> Tensor:
    d = y.shape[1]
    matrix = torch.randn(d, d, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return y @ torch.linalg.qr(matrix)[0] if d > 1 else -y


@pytest.mark.parametrize("name", CLOUDS)
def test_a_scale_belongs_to_the_measure(name: str) -> None:
    y, generator = cloud(name), torch.Generator().manual_seed(0)
    counts = torch.randint(0, 4, (len(y),), generator=generator)
    expected = data_scale(y.repeat_interleave(counts, 0))
    order = torch.randperm(len(y), generator=generator)
    assert data_scale(y, counts.double()) == pytest.approx(expected, rel=1e-9)
    assert data_scale(y[order], 1e9 * counts[order].double()) == pytest.approx(expected, rel=1e-9)
    assert data_scale(torch.cat((y, y + 1e8)), torch.cat((counts, 0 * counts))) == pytest.approx(expected, rel=1e-9)
    if name not in ("repeated", "ints"):  # turned, equal rows differ by rounding, which their median distance shows
        assert data_scale(turned(y), counts.double()) == pytest.approx(expected, rel=1e-8)
    assert data_scale(1e3 * y, counts.double()) == pytest.approx(1e3 * expected, rel=1e-9)


@pytest.mark.parametrize("name", ["normal", "clusters", "line", "wide"])
def test_one_outlier_hardly_moves_it(name: str) -> None:
    y = cloud(name)
    spoilt = y.clone()
    spoilt[0] = 1e9
    assert data_scale(spoilt) == pytest.approx(data_scale(y), rel=2e-2)


@pytest.mark.parametrize("share", [0.3, 0.45])
def test_nor_does_nearly_half_of_the_rows(share: float) -> None:
    y = cloud("normal", 1000)
    y[: int(share * 1000)] = 1e7
    assert data_scale(y) < 4


def test_where_half_of_the_mass_coincides() -> None:
    rows = torch.zeros(10, 2)
    rows[7:] = torch.tensor([3.0, 4.0])
    assert data_scale(rows) == pytest.approx(0.3 * 5)
    rows[9] = 1e9
    assert data_scale(rows) == pytest.approx(0.3 * 5)  # the mean distance would be 1e8
    assert data_scale(rows, torch.tensor([1.0] * 7 + [0.0] * 3)) == 1
    assert data_scale(torch.full((1, 5), 7.0)) == 1


@pytest.mark.parametrize("name", ["normal", "cauchy", "wide", "far"])
def test_no_point_is_nearer_than_the_spatial_median(name: str) -> None:
    y = cloud(name)
    centre = spatial_median(y, None)
    mean = (y - centre).norm(dim=1).mean()
    generator = torch.Generator().manual_seed(1)
    for _ in range(20):
        step = torch.randn(y.shape[1], generator=generator, dtype=torch.float64)
        assert (y - centre - 0.1 * mean * step / step.norm()).norm(dim=1).mean() > mean


def test_a_heavy_row_is_the_median_itself() -> None:
    y = cloud("normal")
    a = torch.full((len(y),), 0.45 / len(y), dtype=torch.float64)
    a[3] += 0.55
    assert torch.equal(spatial_median(y, a), y[3])


@pytest.mark.parametrize("weights", [None, torch.full((6,), 1 / 6, dtype=torch.float64)])
def test_the_median_of_an_even_number_is_in_the_middle(weights: Tensor | None) -> None:
    values = torch.tensor([5.0, 0.0, 1.0, 3.0, 9.0, 2.0]).double()
    assert float(weighted_median(values, weights)) == 2.5
    assert float(weighted_median(-values, weights)) == -2.5


@pytest.mark.parametrize("name", [name for name in CLOUDS if name != "one outlier"])
def test_a_diameter_is_nearly_the_largest_distance_and_turns_with_the_axes(name: str) -> None:
    y, generator = cloud(name), torch.Generator().manual_seed(0)
    x, b, a = y[:5] + 0.1, torch.rand(5, generator=generator), torch.rand(len(y), generator=generator) + 0.5
    found = diameter(make_problem(x, y, 2, b, a))
    exact = float(torch.pdist(torch.cat((x, y))).max())
    assert 0.85 * exact <= found <= exact * (1 + 1e-9)
    if name != "ints":  # which have several rows equally far away
        assert diameter(make_problem(turned(x), turned(y), 2, b, a)) == pytest.approx(found, rel=1e-6)
    more = torch.cat((y, y + 1e9))
    assert diameter(make_problem(x, more, 2, b, torch.cat((a, 0 * a)))) == pytest.approx(found, rel=1e-9)
    assert diameter(make_problem(x, more, 2, b, torch.cat((a, 1e-9 * a)))) <= exact * (1 + 1e-9)


def test_one_outlier_among_many_is_not_the_diameter() -> None:
    y = torch.randn(1000, 2, generator=torch.Generator().manual_seed(0))
    y[5] = 1e7
    assert diameter(make_problem(y[10:30], y)) < 10
