"""The values in the plane, against products of lines, printed numbers and fixed points of exact transport."""

import math

import ot
import pytest
import torch
from scipy import integrate

from torchcoreset.testing import (
    BEST_KNOWN,
    HEXAGON_W1,
    HEXAGON_W2,
    NORMAL,
    UNIFORM,
    LineProblem,
    sample_normal,
    sample_square,
)

AXIS = {"normal": NORMAL, "square": UNIFORM}


def product_sample(line: LineProblem, side: int) -> tuple[torch.Tensor, float]:
    """The best grid of side x side points of equal weight, and the W2^2 that it loses."""
    axis = line.optimal_points(side, p=2).flatten()
    return torch.cartesian_prod(axis, axis), 2 * line.optimal_value(side, 2)


def fixed_point(samples: torch.Tensor, size: int, generator: torch.Generator) -> float:
    """W2^2 from the samples to a fixed point of balanced exact transport."""
    points = samples[torch.randperm(len(samples), generator=generator)[:size]]
    value = math.inf
    for _ in range(200):
        cost = torch.cdist(samples, points, compute_mode="donot_use_mm_for_euclid_dist") ** 2
        plan = torch.from_numpy(ot.emd([], [], cost.numpy()))
        previous, value = value, float((plan * cost).sum())
        if value > (1 - 1e-4) * previous:
            break
        points = size * plan.T @ samples
    return value


@pytest.mark.parametrize(
    ("name", "size", "sides"),
    [
        ("normal", 1, (1, 1)),
        ("normal", 2, (2, 1)),
        ("normal", 4, (2, 2)),
        ("square", 1, (1, 1)),
        ("square", 2, (2, 1)),
        ("square", 4, (2, 2)),
    ],
)
def test_exact_values_are_products_of_lines(name: str, size: int, sides: tuple[int, int]) -> None:
    known = BEST_KNOWN[name][size]
    expected = sum(AXIS[name].optimal_value(side, 2) for side in sides)
    assert known.exact
    assert known.value == pytest.approx(expected, rel=known.tolerance)


def test_three_sectors_of_the_normal() -> None:
    assert BEST_KNOWN["normal"][3].value == pytest.approx(0.92570413, abs=6e-9)
    assert BEST_KNOWN["normal"][3].value == pytest.approx(2 - 27 / (8 * math.pi), rel=1e-14)


@pytest.mark.parametrize(("name", "size"), [("square", 3), ("square", 5), ("normal", 3), ("normal", 5)])
def test_fixed_points_reach_the_table(name: str, size: int, generator: torch.Generator) -> None:
    samples, lost = product_sample(AXIS[name], 24)
    found = lost + min(fixed_point(samples, size, generator) for _ in range(3))
    assert found == pytest.approx(BEST_KNOWN[name][size].value, rel=5e-3)


@pytest.mark.parametrize("name", BEST_KNOWN)
def test_values_fall_with_the_number_of_points(name: str) -> None:
    sizes = sorted(BEST_KNOWN[name])
    values = [BEST_KNOWN[name][size].value for size in sizes]
    assert values == sorted(values, reverse=True)


def test_no_square_beats_hexagons() -> None:
    for size, known in BEST_KNOWN["square"].items():
        assert size * known.value > HEXAGON_W2


def test_hexagon_constants() -> None:
    radius = 12**-0.25

    def moment(power: int) -> float:
        """E |x|^power over the hexagon of unit area, by its twelve right triangles."""
        integrand = lambda angle: (radius / math.cos(angle)) ** (power + 2) / (power + 2)  # noqa: E731
        return 12 * integrate.quad(integrand, 0, math.pi / 6)[0]

    assert moment(0) == pytest.approx(1)
    assert moment(1) == pytest.approx(HEXAGON_W1, rel=1e-12)
    assert moment(2) == pytest.approx(HEXAGON_W2, rel=1e-12)
    assert pytest.approx(0.16037507, abs=6e-9) == HEXAGON_W2
    assert pytest.approx(0.37719674, abs=6e-9) == HEXAGON_W1


def test_limits_of_the_normal_follow_from_the_hexagon() -> None:
    # integral of the square root of the density of N(0, I_2)
    root = 2 * math.sqrt(2 * math.pi)
    assert root * HEXAGON_W1 == pytest.approx(1.89098, abs=6e-6)
    assert root**2 * HEXAGON_W2 == pytest.approx(4.03067, abs=6e-6)


def test_samplers(generator: torch.Generator) -> None:
    before = torch.get_rng_state()
    normal, square = sample_normal(50_000, 3, generator), sample_square(50_000, generator)
    assert torch.equal(before, torch.get_rng_state())
    assert normal.shape == (50_000, 3)
    assert square.shape == (50_000, 2)
    assert normal.dtype == square.dtype == torch.float64
    torch.testing.assert_close(normal.T.cov(), torch.eye(3, dtype=torch.float64), atol=0.02, rtol=0)
    torch.testing.assert_close(square.T.cov(), torch.eye(2, dtype=torch.float64) / 12, atol=0.002, rtol=0)
    assert torch.equal(normal, sample_normal(50_000, 3, torch.Generator().manual_seed(0)))
