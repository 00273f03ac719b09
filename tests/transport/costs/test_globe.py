"""Distances on the globe: haversines, poles, the date line, antipodes and one city; and closed forms of caps."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import torchcoreset as tc
from tests.transport.costs.distances import RADIUS, haversine
from torchcoreset.testing import cap_value, sample_cap

KM = 180 / (math.pi * RADIUS)  # degrees of latitude in one
GLOBE = tc.costs.GreatCircle()


def distance(first: list[float], second: list[float], p: float = 1) -> float:
    x, y = (torch.tensor([place], dtype=torch.float64) for place in (first, second))
    return tc.transport(x, y, p, cost=GLOBE).value ** (1 / p)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize(
    ("first", "second", "degrees"),
    [
        ([90, 0], [90, 123], 0),  # all longitudes meet at a pole
        ([89, 0], [89, 180], 2),  # the way is over the pole
        ([-90, 10], [-80, 70], 10),
        ([0, 179], [0, -179], 2),  # across the date line
        ([0, 181], [0, -179], 0),
        ([0, 0], [0, 360], 0),
        ([0, 0], [0, 90], 90),
        ([90, 0], [-90, 0], 180),
        ([30, 40], [-30, -140], 180),  # antipodes
    ],
)
def test_arcs_that_are_known(first: list[float], second: list[float], degrees: float, p: float) -> None:
    assert distance(first, second, p) == pytest.approx(degrees / KM, rel=1e-7, abs=1e-8)


def test_places_in_one_city_are_told_apart() -> None:
    """One metre, of places whose chords cancel to a part of 1e-7 of the radius."""
    paris, metre = [48.8566, 2.3522], 1e-3 * KM
    assert distance(paris, [paris[0] + metre, paris[1]]) == pytest.approx(1e-3, rel=1e-6)
    assert distance(paris, [paris[0], paris[1] + metre]) == pytest.approx(
        1e-3 * math.cos(math.radians(paris[0])), rel=1e-6
    )


def test_a_city_in_float32_is_solved_in_its_own_digits() -> None:
    y = torch.tensor([[48.8566, 2.3522]]) + 0.01 * torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    x = y[:5] + 0.001
    costs = haversine(y.double().numpy(), x.double().numpy())
    found = tc.transport(x, y, 1, "free", cost=GLOBE)
    assert found.value == pytest.approx(costs.min(1).mean(), rel=2e-3)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize(("latitude", "longitude"), [(90, 0), (0, 180), (-45, -179), (12, 34)])
def test_a_cap_from_its_centre(p: float, latitude: float, longitude: float) -> None:
    y = sample_cap(20_000, 40, (latitude, longitude), torch.Generator().manual_seed(0))
    found = tc.transport(torch.tensor([[latitude, longitude]], dtype=torch.float64), y, p, cost=GLOBE)
    truth = cap_value(40, p, RADIUS)
    spread = math.sqrt(cap_value(40, 2 * p, RADIUS) - truth**2)
    assert abs(found.value - truth) < 4 * spread / math.sqrt(20_000)


def test_half_a_sphere_from_each_pole() -> None:
    y = sample_cap(20_000, 180, generator=torch.Generator().manual_seed(1))
    x = torch.tensor([[90.0, 0.0], [-90.0, 0.0]], dtype=torch.float64)
    found = tc.transport(x, y, 1, cost=tc.costs.GreatCircle(radius=1.0))
    assert found.value == pytest.approx(cap_value(90, 1), abs=4 / math.sqrt(20_000))


def test_closed_forms_of_caps() -> None:
    for degrees in (1, 40, 90, 180):
        alpha = math.radians(degrees)
        first = (math.sin(alpha) - alpha * math.cos(alpha)) / (1 - math.cos(alpha))
        second = (2 * alpha * math.sin(alpha) - (alpha**2 - 2) * math.cos(alpha) - 2) / (1 - math.cos(alpha))
        assert cap_value(degrees, 1, 3.0) == pytest.approx(3 * first, rel=1e-11)
        assert cap_value(degrees, 2, 3.0) == pytest.approx(9 * second, rel=1e-8)
    with pytest.raises(ValueError, match="expected degrees in"):
        cap_value(0, 2)


def test_places_of_a_cap_lie_in_it_and_are_uniform() -> None:
    y = sample_cap(20_000, 30, (60.0, 170.0), torch.Generator().manual_seed(0))
    angles = np.degrees(haversine(y.numpy(), np.array([[60.0, 170.0]]))[:, 0] / RADIUS)
    assert angles.max() <= 30 + 1e-6
    inner = (1 - math.cos(math.radians(15))) / (1 - math.cos(math.radians(30)))
    assert np.mean(angles < 15) == pytest.approx(inner, abs=0.015)


def test_rows_come_back_from_coordinates() -> None:
    y = torch.tensor([[90.0, 0.0], [-90, 0], [0, 180], [12, -34], [0, 359], [-45, 181]], dtype=torch.float64)
    back = GLOBE.rows(GLOBE.coordinates(y))
    expected = torch.tensor([[90.0, 0.0], [-90, 0], [0, -180], [12, -34], [0, -1], [-45, -179]], dtype=torch.float64)
    torch.testing.assert_close(back, expected, rtol=0, atol=1e-10)


def test_another_radius_and_its_unit() -> None:
    x, y = torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 180.0]])
    mars = tc.costs.GreatCircle(radius=3389.5, unit="km on Mars")
    assert tc.wasserstein(x, y, p=1, cost=mars).item() == pytest.approx(math.pi * 3389.5, rel=1e-6)
    assert mars.unit == "km on Mars"
    assert (tc.costs.GreatCircle().unit, tc.costs.GreatCircle(radius=1.0).unit) == ("km", "units of the radius")
