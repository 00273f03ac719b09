"""Images of a coreset: the banana, networks, Lipschitz constants."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import torchcoreset as tc
from tests.data import plane
from torchcoreset.testing import NORMAL


def banana(y: Tensor) -> Tensor:
    return torch.stack((y[:, 0], y[:, 0] ** 2 + y[:, 1]), 1)


@pytest.fixture(scope="module")
def coreset() -> tc.Coreset:
    return tc.build_coreset(plane, 30, samples=5000).coreset


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
def test_the_banana(coreset: tc.Coreset, p: int) -> None:
    """Not Lipschitz, so no L; the interval holds the distance between the images, solved on many other samples."""
    found = tc.certify_pushforward(coreset, plane, banana, p=p, samples=50_000)
    images = banana(torch.randn(200_000, 2, generator=torch.Generator().manual_seed(1)))
    truth = tc.transport(banana(coreset.points.detach()), images, p=p).value ** (1 / p)
    assert found.lower * 0.98 < truth < found.upper
    assert found.upper < 1.5 * truth
    assert found.lipschitz is None
    assert found.lipschitz_upper is None
    assert found.data.upper < found.upper


def test_a_scaling_scales_the_certificate() -> None:
    """f(y) = 3 y on the line: the plan stays optimal, and all three bounds agree with 3 W2."""
    points = NORMAL.optimal_points(5, p=2)
    layer = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    nn.init.constant_(layer.weight, 3.0)
    found = tc.certify_pushforward(points, lambda m: torch.randn(m, 1, dtype=torch.float64), layer, samples=20_000)
    truth = 3 * 0.1030448828**0.5
    assert found.lipschitz == 3
    assert found.lower < truth < found.upper
    assert found.upper == pytest.approx(3 * found.data.upper, rel=1e-3)
    assert found.lipschitz_upper == pytest.approx(3 * found.data.upper)


def test_rows_are_given_to_a_network_in_its_own_type_and_images_as_vectors(coreset: tc.Coreset) -> None:
    network = nn.Sequential(nn.Linear(2, 12, bias=False), nn.Unflatten(1, (3, 2, 2)))
    network[0].weight.data.copy_(torch.randn(12, 2, generator=torch.Generator().manual_seed(0)))
    found = tc.certify_pushforward(coreset, lambda m: plane(m).double(), network, samples=20_000)
    flat = tc.certify_pushforward(coreset, plane, network[0], samples=20_000)
    assert 0 < found.lower < found.upper == pytest.approx(flat.upper, rel=0.01)


def test_a_network_is_left_as_it_was(coreset: tc.Coreset) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 3))
    network[3].eval()  # a mode of its own
    network(torch.randn(16, 2, generator=torch.Generator().manual_seed(0))).sum().backward()
    state = {key: value.clone() for key, value in network.state_dict().items()}
    gradients = [parameter.grad.clone() for parameter in network.parameters()]
    found = tc.certify_pushforward(coreset, plane, network, p=1, samples=5000)
    assert all(torch.equal(state[key], value) for key, value in network.state_dict().items())
    assert all(torch.equal(old, new.grad) for old, new in zip(gradients, network.parameters(), strict=True))
    assert [module.training for module in network] == [True, True, True, False, True]
    assert torch.is_grad_enabled()
    assert found.upper < found.lipschitz_upper
    assert found.lipschitz == tc.lipschitz_constant(network)


def test_the_mode_comes_back_after_an_error(coreset: tc.Coreset) -> None:
    network = nn.Sequential(nn.Linear(5, 1))
    with pytest.raises(RuntimeError):
        tc.certify_pushforward(coreset, plane, network, samples=1000)
    assert network.training


@pytest.mark.slow
def test_a_trained_generator(coreset: tc.Coreset) -> None:
    """A small network fitted to the banana: its images are nearly as far apart as the banana's."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(2, 32), nn.ELU(), nn.Linear(32, 2))
        optimizer = torch.optim.Adam(network.parameters(), 0.02)
        for _ in range(200):
            y = torch.randn(256, 2)
            optimizer.zero_grad()
            (network(y) - banana(y)).square().mean().backward()
            optimizer.step()
    learnt = tc.certify_pushforward(coreset, plane, network, p=1, samples=20_000)
    true = tc.certify_pushforward(coreset, plane, banana, p=1, samples=20_000)
    assert learnt.upper == pytest.approx(true.upper, rel=0.2)
    assert learnt.upper < learnt.lipschitz_upper


@pytest.mark.parametrize(
    "network",
    [
        nn.Conv2d(2, 3, 3, padding=1),
        nn.Conv2d(2, 4, 3, stride=2, dilation=2, padding=2, groups=2),
        nn.Conv1d(3, 2, 5),
        nn.Sequential(nn.Conv2d(2, 2, 3), nn.LeakyReLU(2.0), nn.Flatten(), nn.Linear(2 * 6 * 6, 4), nn.GELU()),
    ],
    ids=["same", "strided groups", "line", "chain"],
)
def test_constants_bound_the_jacobian(network: nn.Module) -> None:
    generator = torch.Generator().manual_seed(0)
    for parameter in network.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator))
    line = isinstance(network, nn.Conv1d)
    y = torch.randn((1, 3, 16) if line else (1, 2, 8, 8), generator=generator)
    jacobian = torch.autograd.functional.jacobian(network, y).reshape(-1, y.numel())
    norm = float(torch.linalg.matrix_norm(jacobian, 2))
    assert norm <= tc.lipschitz_constant(network) * (1 + 1e-6)


def test_activations_are_no_steeper_than_said() -> None:
    t = torch.linspace(-10, 10, 20_001, dtype=torch.float64, requires_grad=True)
    for layer in (nn.ReLU(), nn.Tanh(), nn.Sigmoid(), nn.SiLU(), nn.GELU(), nn.ELU(2.0), nn.Softplus(), nn.Softsign()):
        (slope,) = torch.autograd.grad(layer(t).sum(), t)
        assert float(slope.abs().max()) <= tc.lipschitz_constant(layer), layer


def test_unknown_layers_and_bad_maps(coreset: tc.Coreset) -> None:
    with pytest.raises(TypeError, match="no Lipschitz constant is known for LSTM"):
        tc.lipschitz_constant(nn.Sequential(nn.LSTM(2, 2)))
    with pytest.raises(ValueError, match="network: got 1 rows for 30 samples; expected one row for each"):
        tc.certify_pushforward(coreset, plane, lambda y: y.sum()[None], samples=1000)
    with pytest.raises(ValueError, match=r"network output: \d+ of 30 rows hold NaN or inf"):
        tc.certify_pushforward(coreset, plane, lambda y: y.log(), samples=1000)
    with pytest.raises(ValueError, match="lipschitz: got -1"):
        tc.certify_pushforward(coreset, plane, banana, lipschitz=-1, samples=1000)
