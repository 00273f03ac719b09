"""The Sinkhorn divergence: closed forms, limits, gradients by finite differences, and what both backends promise."""

import functools
import math

import geomloss
import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal
from torchcoreset.testing import E1, entropic_gaussian_line, sinkhorn_gaussian_line
from torchcoreset.transport import data_scale

NAMES = ("points", "samples", "point_weights", "sample_weights")
BY_PARTS = [{}, {"constant": False}, {"debias": False}]
either_backend = pytest.mark.parametrize("backend", ["newton", "geomloss"])
newton = functools.partial(tc.sinkhorn_divergence, backend="newton", tolerance=1e-11, max_steps=1000)


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    tensors = (
        normal(4, 2, seed=seed),
        2 * normal(7, 2, seed=seed + 1),
        normal(4, seed=seed + 2).abs() + 0.2,
        normal(7, seed=seed + 3).abs() + 0.1,
    )
    return tuple(t.requires_grad_() for t in tensors)


def quantiles(count: int) -> Tensor:
    """Points of equal weight like N(0, 1), of variance 1 to a thousandth."""
    return torch.distributions.Normal(0.0, 1.0).icdf((torch.arange(count).double() + 0.5) / count)


@pytest.mark.parametrize(("eta", "value"), [(0.1, 0.999922), (1, 0.992309), (10, 0.650977)])
def test_the_closed_form_between_gaussians(eta: float, value: float) -> None:
    z, settings = quantiles(500), {"blur": math.sqrt(eta / 2), "tolerance": 1e-6}
    assert newton(z, 2 * z, **settings).item() == pytest.approx(value, rel=5e-3)
    assert sinkhorn_gaussian_line(1, 4, eta) == pytest.approx(value, abs=1e-6)
    biased = newton(z, 2 * z, **settings, debias=False).item()
    assert biased == pytest.approx(entropic_gaussian_line(1, 4, eta), rel=5e-3)


def test_the_closed_form_in_the_limit_of_many_points() -> None:
    errors = [
        newton(quantiles(n), 2 * quantiles(n), blur=0.7, tolerance=1e-6).item() - sinkhorn_gaussian_line(1, 4, 0.98)
        for n in (200, 800)
    ]
    assert abs(errors[1]) < abs(errors[0]) / 3


@pytest.mark.parametrize("p", [1, 2])
def test_small_blur_is_wasserstein(p: int) -> None:
    x, y = normal(6, 2), normal(60, 2, seed=1)
    exact = tc.wasserstein(x, y, p, exact=True).item()
    assert newton(x, y, p, blur=1e-3).item() == pytest.approx(exact, rel=1e-2)


@pytest.mark.parametrize("p", [1, 1.5, 2])
def test_large_blur_is_the_energy_distance(p: float) -> None:
    tensors = inputs()
    with pytest.warns(UserWarning, match="a blur of 1e\\+04 exceeds the diameter"):
        value = newton(tensors[0], tensors[1], p, *tensors[2:], blur=1e4)
    expected = tc.energy_distance(tensors[0], tensors[1], p, *tensors[2:])
    assert value.item() == pytest.approx(expected.item(), rel=1e-3)
    for one, other in zip(torch.autograd.grad(value, tensors), torch.autograd.grad(expected, tensors), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize("argument", range(4), ids=NAMES)
@pytest.mark.parametrize(("k", "p"), [(0, 1), pytest.param(1, 1.5, marks=pytest.mark.slow), (2, 2)])
def test_gradients_are_finite_differences(k: int, p: float, argument: int) -> None:
    parts = BY_PARTS[(k + argument) % 3]  # so every two of power, argument and parts meet
    tensors = list(inputs())
    for other in range(4):
        tensors[other].requires_grad_(other == argument)

    def value(x: Tensor, y: Tensor, b: Tensor, a: Tensor) -> Tensor:
        return newton(x, y, p, b, a, blur=0.5, **parts)

    assert torch.autograd.gradcheck(value, tuple(tensors), eps=1e-6, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("blur", [0.1, 4.0])
def test_gradients_are_finite_differences_at_other_blurs(blur: float) -> None:
    def value(x: Tensor, y: Tensor, b: Tensor, a: Tensor) -> Tensor:
        return newton(x, y, 2, b, a, blur=blur)

    assert torch.autograd.gradcheck(value, inputs(), eps=1e-6, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
def test_geomloss_gradients_are_finite_differences_once_it_converges(p: int) -> None:
    def value(x: Tensor, y: Tensor, b: Tensor, a: Tensor) -> Tensor:
        return tc.sinkhorn_divergence(x, y, p, b, a, blur=4.0, scaling=0.998)

    assert torch.autograd.gradcheck(value, inputs(), eps=1e-5, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("parts", BY_PARTS, ids=["full", "without constant", "biased"])
def test_backends_agree_once_geomloss_converges(p: int, parts: dict) -> None:
    tensors, found = inputs(), []
    for backend, settings in (("newton", {}), ("geomloss", {"scaling": 0.998})):
        loss = functools.partial(tc.sinkhorn_divergence, blur=4.0, backend=backend, tolerance=1e-3, **settings, **parts)
        value = loss(tensors[0], tensors[1], p, *tensors[2:])
        found.append((value.detach(), *torch.autograd.grad(value, tensors)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("p", [1, 2])
def test_the_scale_is_p_times_that_of_geomloss(p: int) -> None:
    x, y = normal(20, 2), normal(50, 2, seed=1)
    theirs = geomloss.SamplesLoss("sinkhorn", p=p, blur=1.0, scaling=0.99, backend="tensorized")(x, y)
    assert newton(x, y, p, blur=1.0).item() == pytest.approx(p * theirs.item(), rel=1e-3)


def test_why_reach_is_not_offered() -> None:
    """geomloss' unbalanced value has a gradient that finite differences refute."""
    loss = geomloss.SamplesLoss("sinkhorn", p=2, blur=1.0, reach=1.0, scaling=0.99, debias=False, backend="tensorized")
    weights = torch.full((3,), 1 / 3, dtype=torch.float64)
    x, y = normal(3, 1).requires_grad_(), normal(3, 1, seed=1) + 1
    (gradient,) = torch.autograd.grad(loss(weights, x, weights, y), x)
    step = torch.zeros_like(x)
    step[0] = 1e-4
    slope = (loss(weights, x + step, weights, y) - loss(weights, x - step, weights, y)).item() / 2e-4
    assert abs(gradient[0].item() / slope - 1) > 0.1


@either_backend
@pytest.mark.parametrize("p", [1, 2])
def test_identical_clouds(p: int, backend: str) -> None:
    x = normal(30, 3)
    y = x.clone()
    for blur in (0.05, 1.0):
        x.requires_grad_()
        value = tc.sinkhorn_divergence(x, y, p, blur=blur, backend=backend)
        (gradient,) = torch.autograd.grad(value, x)
        assert abs(value.item()) <= (1e-5 if backend == "newton" else 1e-4)
        assert float(gradient.norm(dim=1).sum()) <= (1e-2 if backend == "newton" else 0.1)


@either_backend
def test_coincident_points_have_equal_finite_gradients(backend: str) -> None:
    y = normal(64, 2)
    for p in (1, 2):
        x = torch.cat((y[:3], y[:3])).requires_grad_()
        tc.sinkhorn_divergence(x, y, p, blur=0.5, backend=backend).backward()
        assert x.grad.isfinite().all()
        torch.testing.assert_close(x.grad[:3], x.grad[3:], rtol=1e-6, atol=1e-7)


def test_invariances() -> None:
    x, y, b, a = (t.detach() for t in inputs())
    value = newton(x, y, 2, b, a, blur=0.5).item()
    turn = torch.linalg.qr(normal(2, 2, seed=9)).Q
    order = torch.tensor([2, 0, 3, 1])
    for changed in (
        newton(x + 1e3, y + 1e3, 2, b, a, blur=0.5),
        newton(x @ turn, y @ turn, 2, b, a, blur=0.5),
        newton(x[order], y, 2, b[order], a, blur=0.5),
        newton(10 * x, 10 * y, 2, b, a, blur=5) / 100,
        newton(x, y, 2, 7 * b, a / 3, blur=0.5),
        newton(x, torch.cat((y, y[:1])), 2, b, torch.cat((a, a[:1])) * torch.tensor([0.5, *[1.0] * 6, 0.5]), blur=0.5),
        newton(torch.cat((x, y[:1])), y, 2, torch.cat((b, torch.zeros(1))), a, blur=0.5),
    ):
        assert changed.item() == pytest.approx(value, rel=1e-7)
    assert newton(y, x, 2, a, b, blur=0.5).item() == pytest.approx(value, rel=1e-7)


def test_a_relative_blur_follows_the_data() -> None:
    x, y = normal(6, 2), normal(101, 2, seed=1)
    scale = data_scale(y)
    assert newton(x, y, relative_blur=0.3).item() == pytest.approx(newton(x, y, blur=0.3 * scale).item())
    assert newton(x, y).item() == pytest.approx(newton(x, y, blur=0.05 * scale).item())
    assert newton(1e3 * x, 1e3 * y).item() == pytest.approx(1e6 * newton(x, y).item(), rel=1e-6)
    assert newton(x[:1], x[:1].expand(5, 2)).item() == pytest.approx(0, abs=1e-12)


@either_backend
def test_second_derivatives_are_refused(backend: str) -> None:
    tensors = inputs()
    value = tc.sinkhorn_divergence(tensors[0], tensors[1], 2, *tensors[2:], blur=1.0, backend=backend)
    for gradient in torch.autograd.grad(value, tensors, create_graph=True):
        with pytest.raises(RuntimeError, match="sinkhorn_divergence: a second derivative"):
            gradient.square().sum().backward(retain_graph=True)


@either_backend
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_grad_mode_is_left_alone(mode, backend: str) -> None:
    x, y = normal(4, 2).requires_grad_(), normal(20, 2, seed=1)
    with mode():
        before = torch.is_grad_enabled()
        value = tc.sinkhorn_divergence(x, y, blur=1.0, backend=backend)
        assert torch.is_grad_enabled() is before
    assert torch.is_grad_enabled()
    assert value.requires_grad is before


def test_grad_mode_survives_an_error_in_geomloss(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        torch.set_grad_enabled(False)
        raise ZeroDivisionError

    monkeypatch.setattr(geomloss.SamplesLoss, "forward", broken)
    with pytest.raises(ZeroDivisionError):
        tc.sinkhorn_divergence(normal(4, 2), normal(20, 2, seed=1), blur=1.0)
    assert torch.is_grad_enabled()


@either_backend
def test_torch_func_grad_agrees(backend: str) -> None:
    x, y = normal(4, 2).requires_grad_(), normal(20, 2, seed=1)
    loss = functools.partial(tc.sinkhorn_divergence, blur=1.0, backend=backend)
    (expected,) = torch.autograd.grad(loss(x, y), x)
    torch.testing.assert_close(torch.func.grad(loss)(x.detach(), y), expected, rtol=1e-12, atol=1e-15)


@either_backend
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_types(dtype: torch.dtype, backend: str) -> None:
    x, y = normal(6, 3).to(dtype).requires_grad_(), normal(40, 3, seed=1)
    with torch.autocast("cpu", torch.bfloat16):
        value = tc.sinkhorn_divergence(x, y, blur=1.0, backend=backend)
    value.backward()
    assert value.dtype == torch.promote_types(dtype, torch.float32)
    assert x.grad.dtype == dtype
    assert value.item() == pytest.approx(newton(x.double(), y.to(dtype).double(), blur=1.0).item(), rel=1e-2)


@pytest.mark.slow
def test_float32_is_as_good_as_float64() -> None:
    x, y = normal(50, 2), normal(2000, 2, seed=1)
    for blur in (0.01, 0.1, 1.0):
        values = [tc.sinkhorn_divergence(x.to(t), y.to(t), blur=blur, backend="newton").item() for t in
                  (torch.float32, torch.float64)]  # fmt: skip
        assert values[0] == pytest.approx(values[1], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("p", [1, 2])
def test_the_reported_error_bounds_that_of_the_gradient(p: int) -> None:
    """A unit of misplaced mass changes the gradient by no more than a few times the data's width."""
    y, start = normal(500, 2, seed=1), normal(20, 2)
    grads, errors = [], []
    for backend, settings in (("newton", {"tolerance": 1e-9}), ("newton", {}), ("geomloss", {})):
        loss = tc.CoresetLoss(p, divergence="sinkhorn", blur=0.3, backend=backend, **settings)
        x = start.clone().requires_grad_()
        loss(x, y).backward()
        grads.append(x.grad)
        errors.append(loss.last.marginal_error)
    for gradient, error in zip(grads[1:], errors[1:], strict=True):
        off = float((gradient - grads[0]).norm(dim=1).sum())
        assert off <= 20 * error + 1e-9


def test_an_unconverged_result_warns_at_the_caller() -> None:
    x, y = normal(50, 2), normal(1000, 2, seed=1)
    with pytest.warns(tc.ConvergenceWarning, match="Use backend='newton', or a scaling closer to 1") as caught:
        tc.sinkhorn_divergence(x, y, blur=0.05, scaling=0.5)
    assert caught[0].filename == __file__
    result = caught[0].message.result
    assert result.status is tc.Status.MAX_STEPS
    assert result.marginal_error > 0.1
    with pytest.warns(tc.ConvergenceWarning, match=r"newton\) stopped with .* Allow more steps"):
        tc.sinkhorn_divergence(x, y, blur=0.05, backend="newton", max_steps=3, tolerance=1e-6)


def test_a_result_says_what_it_comes_from() -> None:
    loss = tc.CoresetLoss(divergence="sinkhorn", blur=0.5, backend="newton")
    value = loss(E1.points, E1.samples).item()
    last = loss.last
    assert (last.value, last.blur, last.eta, last.diameter) == (value, 0.5, 0.5, 10.0)
    assert last.transport_value == pytest.approx(
        tc.sinkhorn_divergence(E1.points, E1.samples, blur=0.5, backend="newton", debias=False).item()
    )
    assert last.potential.shape == (2,)
    assert last.transform.shape == (4,)
    assert repr(last).startswith("SinkhornResult(2 points, 4 samples, value=28.3")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"points": torch.tensor([0, 10])}, "points: got dtype torch.int64"),
        ({"samples": torch.ones(3, 2)}, "same last dimension"),
        ({"samples": torch.full((4, 1), math.nan)}, "samples: 4 of 4 rows"),
        ({"sample_weights": torch.tensor([1.0, -1.0, 1.0, 1.0])}, "sample_weights: 1 of 4 weights"),
        ({"p": 3}, "p: got 3; geomloss has 1 and 2. Use backend='newton'"),
        ({"p": 0.5}, "p: got 0.5"),
        ({"blur": 0.0}, "blur: got 0.0; expected a positive"),
        ({"relative_blur": math.nan}, "relative_blur: got nan"),
        ({"blur": 1, "relative_blur": 1}, "blur: got 1 with relative_blur=1"),
        ({"blur": 1e-9}, "blur: got a length of 1e-09 for data whose mean cost is about"),
        ({"blur": 1e99}, r"blur: got a length of 1e\+99"),
        ({"blur": 1e300}, r"blur: got 1e\+300; expected a positive"),
        ({"backend": "pot"}, "backend: got 'pot'"),
        ({"engine": "triton"}, "engine: got 'triton'; geomloss has"),
        ({"engine": "fast"}, "engine: got 'fast'"),
        ({"scaling": 1.0}, "scaling: got 1.0"),
        ({"scaling": 0.5, "backend": "newton"}, "scaling: given with backend='newton'"),
        ({"max_steps": 5}, "max_steps: given with backend='geomloss'"),
        ({"max_steps": 0, "backend": "newton"}, "max_steps: got 0"),
        ({"tolerance": 2.0}, "tolerance: got 2.0"),
        ({"constant": False, "debias": False}, "constant: got False with debias=False"),
    ],
)
def test_unusable_inputs_are_named(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tc.sinkhorn_divergence(**{"points": E1.points, "samples": E1.samples} | changes)
