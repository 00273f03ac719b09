"""The loss of a batch of pairs: values and gradients of a loop, warm starts, and what takes no batch."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import CLOUDS, cloud, normal

COMPILER_WARNINGS = "ignore:`torch.jit", "ignore:The .grad attribute of a Tensor that is not a leaf"


def inputs_of(kind: str, dtype: torch.dtype = torch.float64, batch: int = 3) -> list[Tensor]:
    """Points, samples and the weights of both, (B, ...), some of them zero, all of which need a gradient."""
    n, m = 8, 40
    y = cloud(kind, batch * m).view(batch, m, -1)
    x = y[:, :n] + normal(batch, n, y.shape[-1], seed=3)
    b, a = normal(batch, n, seed=5).abs(), normal(batch, m, seed=6).abs()
    b[0, 2], a[1, 3:9] = 0, 0
    return [tensor.to(dtype).requires_grad_() for tensor in (x, y, b, a)]


def gradients(value: Callable[..., Tensor], inputs: list[Tensor], incoming: Tensor) -> tuple[Tensor, ...]:
    """The values, and the gradients in all inputs for this one of the values."""
    values = value(*inputs)
    return values, *torch.autograd.grad(values, inputs, incoming)


def batched(p: float = 2, **options) -> Callable[..., Tensor]:
    return lambda x, y, b, a: tc.wasserstein(x, y, p, b, a, **options)


def looped(p: float = 2, **options) -> Callable[..., Tensor]:
    """The same values, one call for each pair; what is shared lacks the leading B."""

    def values(x: Tensor, y: Tensor, b: Tensor, a: Tensor) -> Tensor:
        count = max(len(rows) for rows in (x, y) if rows.dim() == 3)
        parts = [
            tensor if tensor.dim() == dimensions else tensor.unbind()
            for tensor, dimensions in ((x, 2), (y, 2), (b, 1), (a, 1))
        ]
        calls = [[part if isinstance(part, Tensor) else part[i] for part in parts] for i in range(count)]
        return torch.stack([tc.wasserstein(x, y, p, b, a, **options) for x, y, b, a in calls])

    return values


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("kind", CLOUDS)
def test_values_and_gradients_are_those_of_a_loop(kind: str, p: float, dtype: torch.dtype) -> None:
    inputs, incoming = inputs_of(kind, dtype), torch.tensor([1.0, -2.0, 0.5], dtype=dtype)
    for found, expected in zip(
        gradients(batched(p), inputs, incoming), gradients(looped(p), inputs, incoming), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12 * float(expected.detach().abs().max()))


def test_gradients_in_what_is_shared_are_summed() -> None:
    x, y, b, a = inputs_of("clusters")
    incoming = torch.tensor([1.0, -2.0, 0.5]).double()

    def shared(tensor: Tensor) -> Tensor:
        return tensor[0].detach().requires_grad_()

    for inputs in (
        [shared(x), y, b, a],
        [x, shared(y), b, a],
        [x, y, shared(b), shared(a)],
        [shared(x), y, shared(b), a],
    ):
        for found, expected in zip(
            gradients(batched(), inputs, incoming), gradients(looped(), inputs, incoming), strict=True
        ):
            assert found.shape == expected.shape
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("p", [1.5, 2])
def test_gradients_are_those_of_finite_differences(p: float) -> None:
    x, y = normal(2, 3, 2).requires_grad_(), normal(2, 7, 2, seed=1).requires_grad_()
    b, a = (0.5 + normal(2, k, seed=k).abs() for k in (3, 7))
    inputs = x, y, b.requires_grad_(), a.requires_grad_()
    assert torch.autograd.gradcheck(batched(p, exact=True), inputs, eps=1e-6, atol=1e-6, rtol=1e-5)
    one = normal(3, 2, seed=8).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: tc.wasserstein(z, y.detach(), p, exact=True), (one,), atol=1e-6)


@pytest.mark.parametrize(
    ("points", "samples", "result"),
    [
        (torch.float32, torch.float64, torch.float32),
        (torch.float64, torch.int64, torch.float64),
        (torch.bfloat16, torch.float32, torch.float32),
    ],
)
def test_the_values_have_the_type_of_the_points_and_gradients_that_of_their_input(points, samples, result) -> None:
    x = normal(2, 4, 2).to(points).requires_grad_()
    y = (3 * normal(2, 9, 2, seed=1)).to(samples)
    values = tc.wasserstein(x, y)
    values.sum().backward()
    assert values.shape == (2,)
    assert values.dtype == result
    assert x.grad.dtype == points
    assert x.grad.shape == x.shape


def test_lists_are_samples_too() -> None:
    x, y = normal(2, 4, 2), normal(2, 9, 2, seed=1)
    assert tc.wasserstein(x, y.tolist()).tolist() == pytest.approx(tc.wasserstein(x, y).tolist(), rel=1e-6)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_no_graph_where_none_is_kept(mode) -> None:
    x, y = normal(2, 4, 2).requires_grad_(), normal(2, 9, 2, seed=1)
    with mode():
        values = tc.wasserstein(x, y)
    assert not values.requires_grad
    assert torch.equal(values, tc.wasserstein(x, y).detach())


def test_inference_tensors_and_autocast() -> None:
    x = normal(4, 2).float().requires_grad_()
    with torch.inference_mode():
        y = normal(2, 9, 2, seed=1).float()
    with torch.autocast("cpu", torch.bfloat16):
        tc.wasserstein(x, y).sum().backward()
    again = x.detach().clone().requires_grad_()
    tc.wasserstein(again, y.clone()).sum().backward()
    assert torch.equal(x.grad, again.grad)


def test_a_value_that_the_type_cannot_hold_is_refused() -> None:
    x, y = torch.zeros(2, 1, 1), torch.ones(2, 1, 1)
    y[1] = 1e30
    with pytest.raises(ValueError, match=r"points: the value of wasserstein is 1e\+60, which torch.float32 cannot"):
        tc.wasserstein(x, y)


def test_second_derivatives_are_refused() -> None:
    x = normal(2, 4, 2).requires_grad_()
    (gradient,) = torch.autograd.grad(tc.wasserstein(x, normal(2, 9, 2, seed=1)).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="a second derivative was asked for"):
        gradient.sum().backward()


def test_a_module_starts_each_pair_from_its_own_potential() -> None:
    x, y = normal(3, 20, 2), normal(3, 120_000, 2, seed=1)  # too many samples to be solved directly
    loss = tc.CoresetLoss(tolerance=1e-5)
    first = loss(x, y)
    assert isinstance(loss.last, tc.TransportBatch)
    assert torch.equal(loss.potential, loss.last.potential)
    assert loss.potential.shape == (3, 20)
    torch.testing.assert_close(first, loss.last.value)
    cold = loss.last.steps
    known = loss.potential.clone()
    again = loss(x + 1e-4, y)
    warm = [tc.transport(x[i] + 1e-4, y[i], tolerance=1e-5, start=known[i]) for i in range(3)]
    assert again.tolist() == [pair.value for pair in warm]
    assert bool((loss.last.steps < cold).all())


@pytest.mark.parametrize("shared", [False, True])
def test_a_module_that_gets_other_shapes_begins_anew(shared: bool) -> None:
    x, y = normal(3, 5, 2), normal(3, 60, 2, seed=1)
    x = x[0] if shared else x
    loss = tc.CoresetLoss()
    for points, samples in ((x, y), (x, y[0]), (x if shared else x[0], y[0]), (x if shared else x[:2], y[:2]), (x, y)):
        expected = tc.wasserstein(points, samples)
        torch.testing.assert_close(loss(points, samples), expected, rtol=2e-3, atol=0)
        assert loss.potential.shape == (*expected.shape, 5)


def test_evaluation_leaves_no_trace_and_state_is_kept() -> None:
    x, y = normal(3, 5, 2), normal(3, 60, 2, seed=1)
    loss = tc.CoresetLoss()
    loss(x, y)
    other = tc.CoresetLoss()
    other.load_state_dict(copy.deepcopy(loss.state_dict()))
    assert torch.equal(other.potential, loss.potential)
    loss.eval()
    before = loss.potential.clone()
    assert torch.equal(loss(x + 0.1, y), loss(x + 0.1, y))
    assert torch.equal(loss.potential, before)
    assert torch.equal(other(x + 0.1, y), loss(x + 0.1, y))
    assert "TransportBatch(3 pairs of 5 points and 60 samples" in repr(loss)


def test_a_batch_is_fitted_by_one_optimizer() -> None:
    y = normal(4, 100, 2, seed=1)
    x = torch.nn.Parameter(y[:, :5].clone())
    loss, optimizer = tc.CoresetLoss(), torch.optim.Adam([x], lr=0.1)
    first = loss(x, y).detach()
    for _ in range(40):
        optimizer.zero_grad()
        loss(x, y).sum().backward()
        optimizer.step()
    assert bool((loss(x, y) < 0.7 * first).all())


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (tc.CoresetLoss(online=True), r"CoresetLoss\(online=True\)"),
        (tc.CoresetLoss(divergence="energy"), "energy_distance"),
        (lambda x, y: tc.sinkhorn_divergence(x, y, blur=0.5), "sinkhorn_divergence"),
        (tc.energy_distance, "energy_distance"),
        (tc.mmd, "mmd"),
    ],
)
def test_other_losses_take_one_pair(call, name: str) -> None:
    x, y = normal(2, 3, 2), normal(2, 9, 2, seed=1)
    with pytest.raises(ValueError, match=rf"points: got shape \(2, 3, 2\); .*{name} takes one pair of clouds"):
        call(x, y)
    with pytest.raises(ValueError, match=rf"samples: got shape \(2, 9, 2\); .*{name} takes one pair of clouds"):
        call(x[0], y)


def test_an_error_changes_nothing() -> None:
    x, y = normal(2, 3, 2), normal(2, 9, 2, seed=1)
    loss = tc.CoresetLoss()
    loss(x, y)
    before = loss.potential
    with pytest.raises(ValueError, match=r"samples\[0\]"):
        loss(x, y / 0 * 0)
    assert loss.potential is before


@pytest.mark.slow
@pytest.mark.filterwarnings(COMPILER_WARNINGS[0])
@pytest.mark.filterwarnings(COMPILER_WARNINGS[1])
def test_a_compiled_step_equals_the_eager_one() -> None:
    x, y = normal(2, 3, 2), normal(2, 9, 2, seed=1)
    results = []
    for compiled in (False, True):
        torch.compiler.reset()
        points, loss = x.clone().requires_grad_(), tc.CoresetLoss()

        def step(x: Tensor, y: Tensor, loss: tc.CoresetLoss = loss) -> Tensor:
            return 2 * loss(1.0 * x, y).mean() + 0.1 * x.square().mean()

        value = (torch.compile(step, backend="eager") if compiled else step)(points, y)
        value.backward()
        results.append((value.detach(), points.grad))
    for eager, other in zip(*results, strict=True):
        torch.testing.assert_close(other, eager)


def test_rows_of_weight_zero_are_padding() -> None:
    x, y = normal(3, 5, 2).requires_grad_(), normal(3, 60, 2, seed=1).requires_grad_()
    b, a = torch.ones(3, 5), torch.ones(3, 60)
    sizes = [(5, 60), (3, 41), (1, 7)]
    for i, (n, m) in enumerate(sizes):
        b[i, n:], a[i, m:] = 0, 0
    for p in (1, 2):
        found = gradients(lambda *rows, p=p: tc.wasserstein(*rows, p, b, a, exact=True), [x, y], torch.ones(3).double())
        for i, (n, m) in enumerate(sizes):
            one = gradients(
                lambda *rows, p=p: tc.wasserstein(*rows, p, exact=True), [x[i, :n], y[i, :m]], torch.ones(()).double()
            )
            torch.testing.assert_close(found[0][i], one[0], rtol=1e-9, atol=1e-9)
            for batch, single, size in zip(found[1:], one[1:], (n, m), strict=True):
                torch.testing.assert_close(batch[i, :size], single, rtol=1e-9, atol=1e-9)
                assert not bool(batch[i, size:].any())
