"""Any torch optimizer on the exact loss."""

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from torchcoreset.testing import E1, NORMAL

pytestmark = pytest.mark.usefixtures("two_starts")

OPTIMIZERS = {
    "SGD": lambda x: torch.optim.SGD(x, lr=2.0),
    "momentum": lambda x: torch.optim.SGD(x, lr=0.5, momentum=0.8),
    "Adam": lambda x: torch.optim.Adam(x, lr=0.1),
    "AdamW": lambda x: torch.optim.AdamW(x, lr=0.1, weight_decay=0.0),
    "LBFGS": lambda x: torch.optim.LBFGS(x, max_iter=10, line_search_fn="strong_wolfe"),
}


def plane() -> Tensor:
    return torch.randn(100, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("p", [1, 2])
def test_every_optimizer_comes_near_the_fixed_point(name: str, p: int) -> None:
    y = plane()
    best = tc.build_coreset(y, 4, p, init=y[:4])
    steps = 8 if name == "LBFGS" else 60
    result = tc.build_coreset(
        y, 4, p, init=y[:4], algorithm="gradient", optimizer=OPTIMIZERS[name], steps=steps, tolerance=1e-5
    )
    assert result.transport.value <= 1.01 * best.transport.value
    assert result.transport.value <= min(step.value for step in result.history) * (1 + 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
def test_the_default_optimizer_has_converged_when_it_says_so(p: int) -> None:
    result = tc.build_coreset(NORMAL.quantile_sample(3000), 10, p, algorithm="gradient", seed=0)
    assert result.status is tc.Status.CONVERGED or len(result.history) == 300
    assert NORMAL.value(result.coreset.points, p) <= 1.01 * NORMAL.optimal_value(10, p)


def test_a_rising_value_is_no_convergence() -> None:
    y = 100 + torch.linspace(-1, 1, 64)
    result = tc.build_coreset(
        y,
        1,
        init=torch.tensor([90.0]),
        algorithm="gradient",
        optimizer=lambda x: torch.optim.AdamW(x, lr=0.1, weight_decay=0.1),
        steps=40,
    )
    assert result.history[-1].value > result.history[0].value
    assert result.status is tc.Status.MAX_STEPS


def test_the_factory_gets_the_points_once_and_the_optimizer_needs_no_closure() -> None:
    given = []

    class Plain(torch.optim.SGD):
        def step(self, closure=None):
            assert closure is None, "the gradient is at hand"
            return super().step()

    def factory(parameters):
        given.append([parameter.detach().clone() for parameter in parameters])
        return Plain(parameters, lr=1.0)

    result = tc.build_coreset(
        E1.samples, 2, init=E1.points.clone(), algorithm="gradient", optimizer=factory, steps=3, tolerance=0
    )
    assert len(given) == 1
    assert torch.equal(given[0][0], E1.points)
    assert result.coreset.points.flatten().tolist() == [0.5, 2.5]


@pytest.mark.parametrize("p", [1, 2])
def test_one_step_is_the_gradient_step(p: int) -> None:
    visited = []

    def factory(parameters):
        visited.append(parameters[0])
        return torch.optim.SGD(parameters, lr=0.1)

    tc.build_coreset(E1.samples, 2, p, init=E1.points.clone(), algorithm="gradient", optimizer=factory, steps=1)
    expected = {1: [0.025, 9.95], 2: [0.05, 9.25]}[p]
    assert visited[0].flatten().tolist() == pytest.approx(expected)


def test_the_best_points_are_kept_when_the_optimizer_diverges() -> None:
    y = plane()
    result = tc.build_coreset(
        y, 4, algorithm="gradient", optimizer=lambda x: torch.optim.SGD(x, lr=20.0), steps=15, tolerance=0
    )
    assert result.history[-1].value > result.history[0].value
    assert result.transport.value <= min(step.value for step in result.history) * (1 + 1e-3)


def test_it_works_where_gradients_are_off() -> None:
    with torch.no_grad():
        result = tc.build_coreset(plane(), 4, algorithm="gradient", steps=5, tolerance=0)
        assert not torch.is_grad_enabled()
    assert result.history[-1].value < result.history[0].value
    assert torch.is_grad_enabled()
