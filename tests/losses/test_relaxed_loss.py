"""Gradients of losses whose plan chooses the weights of the points, or leaves mass unmatched."""

import pytest
import torch

import torchcoreset as tc
from tests.data import normal

CHOICES = ("free", (0.5, 2.0), None)


def slope(f: object, at: torch.Tensor, step: float = 1e-5) -> torch.Tensor:
    """Central differences of a function of a tensor."""
    found = torch.zeros_like(at).flatten()
    for k in range(at.numel()):
        shift = torch.zeros_like(at).flatten()
        shift[k] = step
        shift = shift.view_as(at)
        found[k] = (f(at + shift) - f(at - shift)) / (2 * step)
    return found.view_as(at)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("trim", [0.0, 0.1])
@pytest.mark.parametrize("weights", CHOICES, ids=str)
def test_gradients_are_those_of_finite_differences(weights: object, trim: float, p: float) -> None:
    x, y = normal(4, 2).requires_grad_(), normal(13, 2, seed=1).requires_grad_()
    a = (1 + torch.rand(13, dtype=torch.float64, generator=torch.Generator().manual_seed(3))).requires_grad_()

    def value(points: torch.Tensor, samples: torch.Tensor, masses: torch.Tensor) -> torch.Tensor:
        return tc.wasserstein(points, samples, p, weights, masses, trim=trim, exact=True)

    value(x, y, a).backward()
    with torch.no_grad():
        torch.testing.assert_close(x.grad, slope(lambda t: value(t, y, a), x), rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(y.grad, slope(lambda t: value(x, t, a), y), rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(a.grad, slope(lambda t: value(x, y, t), a), rtol=1e-5, atol=1e-7)


def test_fixed_weights_have_a_gradient_where_mass_stays_unmatched() -> None:
    x, y = normal(4, 2), normal(21, 2, seed=1)
    b = (1 + torch.arange(4, dtype=torch.float64)).requires_grad_()
    tc.wasserstein(x, y, 2, b, trim=0.1, exact=True).backward()
    with torch.no_grad():
        expected = slope(lambda t: tc.wasserstein(x, y, 2, t, trim=0.1, exact=True), b)
    torch.testing.assert_close(b.grad, expected, rtol=1e-5, atol=1e-7)


def test_a_training_loop_with_free_weights_is_k_means() -> None:
    y = torch.cat((normal(300, 2), normal(100, 2, seed=1) + 8))
    x = torch.nn.Parameter(y[[0, 399]].clone())
    loss = tc.CoresetLoss(p=2)
    optimizer = torch.optim.SGD([x], lr=0.5)
    for _ in range(60):
        optimizer.zero_grad()
        loss(x, y, "free").backward()
        optimizer.step()
    torch.testing.assert_close(x.detach(), torch.stack((y[:300].mean(0), y[300:].mean(0))), rtol=1e-3, atol=1e-3)
    assert loss.last.weights.tolist() == pytest.approx([0.75, 0.25])


def test_outliers_do_not_pull() -> None:
    y = torch.cat((normal(990, 2), torch.full((10, 2), 1e6).double()))
    x = torch.nn.Parameter(normal(5, 2, seed=2))
    loss = tc.CoresetLoss(p=2, trim=0.01)
    value = loss(x, y)
    value.backward()
    assert value.item() == pytest.approx(tc.wasserstein(x, y[:990]).item(), rel=2e-3)
    assert x.grad.abs().max() < 10


def test_an_option_that_nobody_uses_is_refused() -> None:
    with pytest.raises(ValueError, match="trim: given with divergence='energy'"):
        tc.CoresetLoss(divergence="energy", trim=0.1)
    with pytest.raises(ValueError, match="trim: given with online=True"):
        tc.CoresetLoss(online=True, trim=0.1)
    with pytest.raises(ValueError, match="trim: got 2"):
        tc.CoresetLoss(trim=2)


@pytest.mark.parametrize("divergence", ["sinkhorn", "energy", "mmd"])
def test_other_divergences_take_no_choice(divergence: str) -> None:
    loss = tc.CoresetLoss(divergence=divergence)
    with pytest.raises(ValueError, match=r"point_weights: got .free.; expected one weight for each row"):
        loss(normal(3, 2), normal(9, 2), "free")


def test_a_stream_takes_no_choice() -> None:
    with pytest.raises(ValueError, match=r"point_weights: got .free.; expected one weight for each row"):
        tc.CoresetLoss(online=True)(normal(3, 2), normal(9, 2), "free")
