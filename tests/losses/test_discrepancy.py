"""Energy distance and MMD: by double sums, by hand, and their gradients by autograd and finite differences."""

import functools

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal
from torchcoreset.losses import kernels
from torchcoreset.testing import E1
from torchcoreset.transport.entropic import evaluation as entropic

NAMES = ("points", "samples", "point_weights", "sample_weights")


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    tensors = normal(4, 2), 2 * normal(11, 2, seed=1), normal(4, seed=2).abs() + 0.2, normal(11, seed=3).abs() + 0.1
    return tuple(t.requires_grad_() for t in tensors)


def _safe(square: Tensor) -> Tensor:
    positive = square > 0
    return torch.where(positive, torch.where(positive, square, 1.0).sqrt(), 0.0)


def energy(p: float):
    return lambda x, y: -(_safe((x[:, None] - y).square().sum(2)) ** p if p != 2 else (x[:, None] - y).square().sum(2))


def gaussian(x: Tensor, y: Tensor) -> Tensor:
    return (-(x[:, None] - y).square().sum(2) / (2 * 0.7**2)).exp()


def laplace(x: Tensor, y: Tensor) -> Tensor:
    return (-_safe((x[:, None] - y).square().sum(2)) / 0.7).exp()


def polynomial(x: Tensor, y: Tensor) -> Tensor:
    return (1 + x @ y.t()) ** 2


def double_sum(kernel, x: Tensor, y: Tensor, b: Tensor, a: Tensor) -> Tensor:
    b, a = b / b.sum(), a / a.sum()
    return b @ kernel(x, x) @ b / 2 + a @ kernel(y, y) @ a / 2 - b @ kernel(x, y) @ a


def by_mmd(**settings):
    return lambda x, y, b=None, a=None: tc.mmd(x, y, b, a, **settings)


def by_energy(p: float, **settings):
    return lambda x, y, b=None, a=None: tc.energy_distance(x, y, p, b, a, **settings)


LOSSES = {
    "energy 1": (by_energy(1), energy(1)),
    "energy 1.5": (by_energy(1.5), energy(1.5)),
    "energy 2": (by_energy(2), energy(2)),
    "gaussian": (by_mmd(blur=0.7), gaussian),
    "laplace": (by_mmd(kernel="laplace", blur=0.7), laplace),
    "function": (by_mmd(kernel=polynomial), polynomial),
}
every_loss = pytest.mark.parametrize(("loss", "kernel"), LOSSES.values(), ids=LOSSES)


@every_loss
def test_values_and_gradients_are_those_of_the_double_sum(loss, kernel) -> None:
    tensors = inputs()
    value, expected = loss(*tensors), double_sum(kernel, *tensors)
    assert value.item() == pytest.approx(expected.item(), rel=1e-12)
    for one, other in zip(torch.autograd.grad(value, tensors), torch.autograd.grad(expected, tensors), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-13)


@every_loss
def test_gradients_are_finite_differences(loss, kernel) -> None:
    assert torch.autograd.gradcheck(loss, inputs(), eps=1e-6, atol=1e-6, rtol=1e-6)


@every_loss
@pytest.mark.parametrize("argument", range(4), ids=NAMES)
def test_second_derivatives_are_refused(loss, kernel, argument: int) -> None:
    tensors = inputs()
    (gradient,) = torch.autograd.grad(loss(*tensors), tensors[argument], create_graph=True)
    with pytest.raises(RuntimeError, match="a second derivative was asked for"):
        gradient.square().sum().backward()


@every_loss
def test_torch_func_grad_agrees(loss, kernel) -> None:
    x, y = inputs()[:2]
    (expected,) = torch.autograd.grad(loss(x, y), x)
    torch.testing.assert_close(torch.func.grad(loss)(x.detach(), y.detach()), expected, rtol=1e-12, atol=1e-15)


@every_loss
def test_blocks_change_nothing(loss, kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = inputs()
    whole = torch.autograd.grad(loss(*tensors), tensors)
    monkeypatch.setattr(entropic, "chunk_elements", lambda device: 1)
    monkeypatch.setattr(entropic, "SPARE_ROWS", 3)
    monkeypatch.setattr(kernels, "FUNCTION_ELEMENTS", 12)
    for one, other in zip(torch.autograd.grad(loss(*tensors), tensors), whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-15)


@every_loss
def test_identical_and_coincident_clouds(loss, kernel) -> None:
    x = normal(8, 2)
    y = x.clone()
    x.requires_grad_()
    value = loss(x, y)
    value.backward()
    assert value.item() == pytest.approx(0, abs=1e-12)
    torch.testing.assert_close(x.grad, torch.zeros_like(x), rtol=0, atol=1e-12)
    one = torch.ones(1, 1, requires_grad=True)
    at_one = loss(one, torch.ones(2, 1))
    at_one.backward()
    assert at_one.item() == pytest.approx(0, abs=1e-12)
    assert one.grad.item() == 0


@pytest.mark.parametrize("constant", [True, False])
def test_the_constant_changes_no_gradient_in_the_points(constant: bool) -> None:
    x, y = inputs()[:2]
    for with_it, without in (
        (by_energy(1), by_energy(1, constant=False)),
        (by_mmd(blur=1), by_mmd(blur=1, constant=False)),
    ):
        grads = [torch.autograd.grad(loss(x, y), x)[0] for loss in (with_it, without)]
        assert torch.equal(*grads)
    difference = (tc.energy_distance(x, y, constant=False) - tc.energy_distance(x, y)).item()
    assert difference == pytest.approx(_safe((y[:, None] - y).square().sum(2)).mean().item() / 2)


def test_the_gradient_in_the_samples_is_that_of_the_value_without_the_constant() -> None:
    assert torch.autograd.gradcheck(by_energy(1, constant=False), inputs(), eps=1e-6, atol=1e-6)


def test_by_hand() -> None:
    assert tc.energy_distance(torch.tensor([0.0]), torch.tensor([3.0])).item() == 3
    assert tc.energy_distance(torch.tensor([0.0]), torch.tensor([3.0]), p=2).item() == 9
    assert tc.energy_distance(E1.points, E1.samples).item() == pytest.approx(5 - 5 / 2 - 1.25 / 2)
    assert tc.energy_distance(E1.points, E1.samples, 2).item() == pytest.approx(3.5**2)  # means 5 and 1.5


def test_energy_at_two_compares_means_alone() -> None:
    x, y, b, a = inputs()
    means = [(w / w.sum()) @ rows for rows, w in ((x, b), (y, a))]
    expected = (means[0] - means[1]).square().sum()
    assert tc.energy_distance(x, y, 2, b, a).item() == pytest.approx(expected.item())


def test_a_large_offset_costs_no_digits() -> None:
    x, y = normal(20, 2, dtype=torch.float32), normal(200, 2, seed=1, dtype=torch.float32)
    near, far = (tc.energy_distance(x + shift, y + shift).item() for shift in (0, 4096))
    assert far == pytest.approx(near, rel=2e-2)


def test_support_points_on_the_line() -> None:
    """Two support points of N(0, 1): the derivative of E |x - Y| is 2 Phi(x) - 1, that of |x - x'| is 1."""
    y = torch.distributions.Normal(0.0, 1.0).icdf((torch.arange(2000).double() + 0.5) / 2000)
    x = torch.nn.Parameter(torch.tensor([-2.0, 0.5], dtype=torch.float64))
    loss, optimizer = tc.CoresetLoss(divergence="energy"), torch.optim.LBFGS([x], max_iter=50)

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(x, y)
        value.backward()
        return value

    optimizer.step(closure)
    quantile = 0.6744897501960817  # 2 Phi(x) - 1 = 1/2
    assert sorted(x.tolist()) == pytest.approx([-quantile, quantile], abs=2e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_types(dtype: torch.dtype) -> None:
    x, y = normal(6, 3).to(dtype).requires_grad_(), normal(40, 3, seed=1).to(dtype)
    for loss in (tc.energy_distance, functools.partial(tc.mmd, blur=1.0)):
        x.grad = None
        with torch.autocast("cpu", torch.bfloat16):
            value = loss(x, y)
        value.backward()
        assert (value.dtype, x.grad.dtype) == (torch.float32, dtype)
        assert value.item() == pytest.approx(loss(x.double(), y.double()).item(), rel=1e-5)


def test_a_wide_kernel_warns_at_the_caller() -> None:
    with pytest.warns(UserWarning, match="mmd: a blur of 100 exceeds the diameter of the data, 10") as caught:
        tc.mmd(E1.points, E1.samples, blur=100)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_grad_mode_is_left_alone(mode) -> None:
    x, y = normal(4, 2).requires_grad_(), normal(20, 2, seed=1)
    with mode():
        for loss, _ in LOSSES.values():
            assert not loss(x, y).requires_grad
            assert not torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (functools.partial(tc.energy_distance, p=0.5), r"p: got 0.5; expected a number in \[1, 2\]"),
        (functools.partial(tc.energy_distance, p=2.5), "p: got 2.5"),
        (functools.partial(tc.energy_distance, point_weights=torch.ones(3)), "point_weights: got shape"),
        (functools.partial(tc.mmd, kernel="cosine"), "kernel: got 'cosine'"),
        (functools.partial(tc.mmd, kernel=gaussian, blur=1.0), "blur: given beside a kernel function"),
        (functools.partial(tc.mmd, blur=-1.0), "blur: got -1.0"),
        (functools.partial(tc.mmd, kernel=lambda x, y: x @ x.t()), r"kernel: gave \(4, 4\) for rows of shapes"),
        (functools.partial(tc.mmd, kernel=lambda x, y: 1.0), "kernel: gave float for rows"),
    ],
)
def test_unusable_inputs_are_named(loss, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loss(E1.points, E1.samples)
