"""Gradients three ways: the envelope, autograd through the cost of the optimal plan, finite differences."""

import functools

import ot
import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal
from torchcoreset.losses import envelope
from torchcoreset.testing import DISCRETE_PROBLEMS, LINE_PROBLEMS

every_power = pytest.mark.parametrize("p", [1, 1.5, 2, 3])
NAMES = ("points", "samples", "point_weights", "sample_weights")


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Points, samples and generic weights, so that the optimal potential is unique; all need gradients."""
    generator = torch.Generator().manual_seed(seed)
    draw = functools.partial(normal, generator=generator)
    tensors = draw(4, 2), 2 * draw(7, 2), draw(4).abs() + 0.2, draw(7).abs() + 0.1
    return tuple(t.requires_grad_() for t in tensors)


def value(x: Tensor, y: Tensor, b: Tensor, a: Tensor, p: float) -> Tensor:
    return tc.wasserstein(x, y, p, b, a, exact=True)


@every_power
@pytest.mark.parametrize("seed", range(3))
def test_position_gradients_are_those_of_the_optimal_plan(p: float, seed: int) -> None:
    x, y, b, a = inputs(seed)
    cost = (y[:, None] - x).norm(dim=2) ** p
    plan = torch.from_numpy(ot.emd(*((w / w.sum()).detach().numpy() for w in (a, b)), cost.detach().numpy()))
    expected = torch.autograd.grad((plan * cost).sum(), (x, y))
    torch.testing.assert_close(torch.autograd.grad(value(x, y, b, a, p), (x, y)), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "p", [1, pytest.param(1.5, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("argument", range(4), ids=NAMES)
def test_gradients_are_finite_differences(p: float, argument: int) -> None:
    tensors = list(inputs())
    for other in range(4):
        tensors[other].requires_grad_(other == argument)
    assert torch.autograd.gradcheck(functools.partial(value, p=p), tuple(tensors), eps=1e-6, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("problem", DISCRETE_PROBLEMS, ids=lambda problem: problem.name)
@pytest.mark.parametrize("p", [1, 2])
def test_gradients_by_hand(problem, p: int) -> None:
    x = problem.points.clone().requires_grad_()
    value(x, problem.samples, problem.point_weights, problem.sample_weights, p).backward()
    torch.testing.assert_close(x.grad, problem.gradients[p], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("problem", LINE_PROBLEMS, ids=lambda problem: problem.name)
@pytest.mark.parametrize("p", [1, 2])
def test_gradients_on_many_samples_are_those_of_the_distribution(problem, p: int) -> None:
    x = (1.3 * problem.optimal_points(6, p) + 0.1).requires_grad_()
    tc.wasserstein(x, problem.quantile_sample(20_000), p).backward()
    torch.testing.assert_close(x.grad, problem.gradient(x.detach(), p), rtol=0, atol=3e-3)


def test_the_incoming_gradient_is_respected() -> None:
    grads = []
    for outer in (lambda w: w, lambda w: 3 * w, lambda w: w**2, lambda w: 2 * w.detach() * w):
        tensors = inputs()
        outer(value(*tensors, 2)).backward()
        grads.append([t.grad for t in tensors])
    once, thrice, squared, expected = grads
    torch.testing.assert_close(thrice, [3 * g for g in once], rtol=1e-12, atol=0)
    torch.testing.assert_close(squared, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("argument", range(2, 4), ids=NAMES[2:])
def test_the_scale_of_weights_does_not_matter(argument: int) -> None:
    tensors = inputs()
    value(*tensors, 2).backward()
    # gradients of a function that ignores the scale are orthogonal to its argument
    w = tensors[argument]
    assert float(w.grad @ w.detach()) == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("argument", range(4), ids=NAMES)
def test_only_what_is_asked_for_gets_a_gradient(argument: int) -> None:
    tensors = [t.detach() for t in inputs()]
    tensors[argument].requires_grad_()
    value(*tensors, 1).backward()
    assert [t.grad is not None for t in tensors] == [i == argument for i in range(4)]


def test_what_is_not_asked_for_is_not_computed(monkeypatch) -> None:
    x, y, b, a = inputs()
    monkeypatch.setattr(envelope, "weight_gradient", None)  # a call would raise
    value(x, y, b.detach(), a.detach(), 1).backward()
    assert x.grad is not None


def test_gradients_have_the_type_of_what_they_belong_to() -> None:
    types = torch.float16, torch.float64, torch.float32, torch.float64
    tensors = [t.detach().to(dtype).requires_grad_() for t, dtype in zip(inputs(), types, strict=True)]
    result = tc.wasserstein(*tensors[:2], 2, *tensors[2:])
    result.backward()
    assert result.dtype == torch.float32
    assert tuple(t.grad.dtype for t in tensors) == types


@pytest.mark.parametrize("argument", range(4), ids=NAMES)
def test_second_derivatives_are_refused(argument: int) -> None:
    tensors = inputs()
    (gradient,) = torch.autograd.grad(value(*tensors, 2), tensors[argument], create_graph=True)
    with pytest.raises(RuntimeError, match="only first derivatives exist here"):
        gradient.square().sum().backward()


def test_a_first_derivative_with_create_graph_is_right() -> None:
    x, y, b, a = inputs()
    plain = torch.autograd.grad(value(x, y, b, a, 2), x)
    torch.testing.assert_close(torch.autograd.grad(value(x, y, b, a, 2), x, create_graph=True), plain, rtol=0, atol=0)


@pytest.mark.parametrize("argument", range(4), ids=NAMES)
def test_torch_func_grad_agrees(argument: int) -> None:
    tensors = inputs()
    expected = torch.autograd.grad(value(*tensors, 2), tensors[argument])[0]
    plain = [t.detach() for t in tensors]
    actual = torch.func.grad(functools.partial(value, p=2), argnums=argument)(*plain)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-14)


def test_the_backward_can_run_twice() -> None:
    tensors = inputs()
    result = value(*tensors, 2)
    result.backward(retain_graph=True)
    once = tensors[0].grad.clone()
    result.backward()
    torch.testing.assert_close(tensors[0].grad, 2 * once)


def test_inputs_changed_in_place_before_the_backward_are_noticed() -> None:
    x, y, b, a = inputs()
    result = value(x, y, b, a, 2)
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()
