"""The closed forms between Gaussians, against POT, Sinkhorn on a grid and their limits."""

import math

import numpy as np
import ot
import pytest
import torch

from torchcoreset.testing import NORMAL, entropic_gaussian_line, gaussian_w2, sinkhorn_gaussian_line

# eta: (OT_eta, Sinkhorn divergence) between N(0, 1) and N(0, 4)
TABLE = {
    0.01: (1.034960, 0.999999),
    0.1: (1.234756, 0.999922),
    1: (2.224357, 0.992309),
    10: (4.253387, 0.650977),
}


def random_gaussian(dimension: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    factor = torch.randn(dimension, dimension, dtype=torch.float64, generator=generator)
    return torch.randn(dimension, dtype=torch.float64, generator=generator), factor @ factor.T


@pytest.mark.parametrize("eta", TABLE)
def test_entropic_values_are_those_printed(eta: float) -> None:
    cost, divergence = TABLE[eta]
    assert entropic_gaussian_line(1, 4, eta) == pytest.approx(cost, abs=6e-7)
    assert sinkhorn_gaussian_line(1, 4, eta) == pytest.approx(divergence, abs=6e-7)


@pytest.mark.parametrize("eta", [0.3, 1, 7])
def test_the_stable_form_is_the_printed_formula(eta: float) -> None:
    a, b, s2 = 0.7, 2.5, eta / 2
    root = math.sqrt(4 * a * b + s2**2)
    printed = a + b - root + s2 * (1 - math.log(2 * s2)) + s2 * math.log(root + s2)
    assert entropic_gaussian_line(a, b, eta) == pytest.approx(printed, rel=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("eta", [1.0, 10.0])
def test_sinkhorn_on_a_grid_agrees(eta: float) -> None:
    grid = np.linspace(-12, 12, 481)
    source, target = (np.exp(-(grid**2) / (2 * variance)) for variance in (1, 4))
    source, target = source / source.sum(), target / target.sum()
    cost = (grid[:, None] - grid) ** 2
    f, g = np.zeros_like(grid), np.zeros_like(grid)
    # log-sum-exp of the potentials against the other measure, until the dual stands still
    for _ in range(60):
        f = -eta * np.logaddexp.reduce(np.log(target) + (g - cost) / eta, axis=1)
        g = -eta * np.logaddexp.reduce(np.log(source)[:, None] + (f[:, None] - cost) / eta, axis=0)
    assert entropic_gaussian_line(1, 4, eta) == pytest.approx(source @ f + target @ g, rel=1e-6)


def test_limits_in_eta() -> None:
    assert entropic_gaussian_line(1, 4, 1e-9) == pytest.approx(1, abs=1e-7)
    assert sinkhorn_gaussian_line(1, 4, 1e-9) == pytest.approx(1, abs=1e-9)
    assert entropic_gaussian_line(1, 4, 1e12) == pytest.approx(5, abs=1e-9)
    assert sinkhorn_gaussian_line(1, 4, 1e12) == pytest.approx(0, abs=1e-9)


def test_divergence_of_a_gaussian_with_itself_is_zero() -> None:
    assert sinkhorn_gaussian_line(2.5, 2.5, 0.3) == 0


def test_a_point_mass_costs_the_variance() -> None:
    assert entropic_gaussian_line(0, 3, 0.5) == 3


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_w2_agrees_with_pot(dimension: int, generator: torch.Generator) -> None:
    (mean_1, cov_1), (mean_2, cov_2) = (random_gaussian(dimension, generator) for _ in range(2))
    expected = ot.gaussian.bures_wasserstein_distance(mean_1, mean_2, cov_1, cov_2) ** 2
    assert gaussian_w2(mean_1, cov_1, mean_2, cov_2) == pytest.approx(float(expected), rel=1e-8)
    assert gaussian_w2(mean_2, cov_2, mean_1, cov_1) == pytest.approx(float(expected), rel=1e-8)


def test_w2_of_commuting_covariances() -> None:
    zero, first, second = torch.zeros(3), torch.tensor([1.0, 4, 9]), torch.tensor([4.0, 16, 0])
    assert gaussian_w2(zero, first.diag(), zero, second.diag()) == pytest.approx(1 + 4 + 9, rel=1e-12)


def test_w2_to_a_point_is_the_quantisation_error_of_one_point() -> None:
    for at in (0.0, 3.0):
        mean = torch.tensor([at])
        value = gaussian_w2(torch.zeros(1), torch.eye(1), mean, torch.zeros(1, 1))
        assert value == pytest.approx(NORMAL.value(mean.unsqueeze(-1), 2), rel=1e-14)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="means and covariances: got shapes"):
        gaussian_w2(torch.zeros(2), torch.eye(2), torch.zeros(3), torch.eye(3))
    for arguments in [(-1, 1, 1), (1, -1, 1), (1, 1, 0)]:
        with pytest.raises(ValueError, match="expected both >= 0 and eta > 0"):
            entropic_gaussian_line(*arguments)
