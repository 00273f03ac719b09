"""The cases of cases.md that need a loss or a solve, one test each: the stated input, the stated answer."""

import copy
import io
import math
import pickle

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal32 as normal
from tests.processes import run
from torchcoreset.testing import E1, line_transport

either_power = pytest.mark.parametrize("p", [1, 2])


def column(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)[:, None]


def value_and_gradient(x: Tensor, y: Tensor, p: float, **settings) -> tuple[float, Tensor]:
    x = x.detach().clone().requires_grad_()
    value = tc.CoresetLoss(p=p, **settings)(x, y)
    value.backward()
    return value.item(), x.grad


def e1() -> tuple[torch.nn.Parameter, Tensor]:
    return torch.nn.Parameter(E1.points.float()), E1.samples.float()


@either_power
@pytest.mark.parametrize(
    ("x", "y"),
    [
        (torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([[3.0, 4.0], [0.0, 0.0]])),
        (column(0, 1), column(0, 0, 1, 1)),
    ],
)
def test_a01_points_on_samples(x: Tensor, y: Tensor, p: int) -> None:
    value, gradient = value_and_gradient(x, y, p)
    assert value == pytest.approx(0, abs=1e-6)
    assert float(gradient.abs().max()) <= 1e-6


@either_power
def test_a01_training_from_a_subset_of_the_samples_stays_finite(p: int) -> None:
    y = normal(64, 3)
    x = torch.nn.Parameter(y[torch.randperm(64, generator=torch.Generator().manual_seed(1))[:8]].clone())
    loss, optimizer = tc.CoresetLoss(p=p), torch.optim.Adam([x], lr=0.05)
    for _ in range(50):
        optimizer.zero_grad()
        value = loss(x, y)
        value.backward()
        optimizer.step()
        assert value.isfinite()
        assert x.isfinite().all()
        assert loss.potential.isfinite().all()


@pytest.mark.parametrize("shift", [0, 512695])
@pytest.mark.parametrize(("p", "expected", "slope"), [(1, 109, -1), (2, 11881, -218)])
def test_a02_a_large_common_offset(p: int, expected: float, slope: float, shift: float) -> None:
    value, gradient = value_and_gradient(column(512695) - shift, column(512804) - shift, p)
    assert value == pytest.approx(expected, rel=1e-5)
    assert gradient.item() == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize(("p", "expected", "slope"), [(1, 8400, -1 / 28), (2, 70_560_000, -600)])
def test_a04_half_precision_under_autocast(p: int, expected: float, slope: float) -> None:
    x, y = torch.zeros(1, 784, dtype=torch.float16), 300 * torch.ones(4, 784, dtype=torch.float16)
    x.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        value = tc.CoresetLoss(p=p)(x, y)
    value.backward()
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(expected, rel=1e-2)
    assert x.grad.dtype == torch.float16
    torch.testing.assert_close(x.grad.float(), torch.full((1, 784), float(slope)), rtol=1e-2, atol=0)


def test_a05_the_convention_is_the_full_power_not_rooted() -> None:
    assert [tc.wasserstein(column(0), column(3), p).item() for p in (1, 2)] == [3, 9]
    assert [tc.wasserstein(*e1(), p).item() for p in (1, 2)] == [4, 28.5]


def test_a06_the_state_of_a_used_loss_loads_strictly() -> None:
    x, loss = normal(3, 2), tc.CoresetLoss(p=2)
    for seed in range(5):
        loss(x, normal(16, 2, seed=seed + 1))
    fresh = tc.CoresetLoss(p=2)
    assert fresh.load_state_dict(loss.state_dict(), strict=True) == ([], [])
    assert torch.equal(fresh.potential, loss.potential)
    y = normal(16, 2, seed=9)
    assert fresh.eval()(x, y).item() == loss.eval()(x, y).item()


@either_power
def test_a07_as_many_points_as_samples(p: int) -> None:
    y = normal(6, 10)
    value, gradient = value_and_gradient(y[torch.tensor([3, 0, 5, 1, 4, 2])], y, p)
    assert value <= 1e-6
    assert float(gradient.abs().max()) <= 1e-5


@either_power
@pytest.mark.parametrize("copies", [1, 2])
def test_a10_zero_diameter(p: int, copies: int) -> None:
    value, gradient = value_and_gradient(column(1), torch.ones(copies, 1), p)
    assert value == pytest.approx(0, abs=1e-6)
    assert gradient.item() == 0


def test_a12_samples_of_another_type() -> None:
    x, _ = e1()
    for y in (torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64), E1.samples, E1.samples.numpy()):
        value = tc.CoresetLoss(p=2)(x, y)
        assert value.item() == 28.5
        assert value.dtype == x.dtype == torch.float32


@pytest.mark.parametrize("weights", [[1.0, -1.0, 1.0], [1.0, math.nan, 1.0], [1.0, math.inf, 1.0]])
def test_a15_unusable_weights(weights: list[float]) -> None:
    loss, x, y = tc.CoresetLoss(), column(0, 10), column(0, 1, 2)
    loss(x, y)
    before = loss.potential.clone()
    with pytest.raises(ValueError, match="sample_weights: 1 of 3 weights"):
        loss(x, y, sample_weights=torch.tensor(weights))
    assert torch.equal(loss.potential, before)


@pytest.mark.parametrize("weights", [[1.0, 3.0], [10.0, 30.0], [0.25, 0.75]])
@either_power
def test_a16_weights_of_any_sum(weights: list[float], p: int) -> None:
    value = tc.CoresetLoss(p=p)(column(0), column(0, 1), sample_weights=torch.tensor(weights))
    assert value.item() == pytest.approx(0.75)


def test_a16_equal_weights_in_float32_are_no_weights() -> None:
    x, y, loss = normal(5, 2), normal(3001, 2, seed=1), tc.CoresetLoss(exact=True)
    weighted = loss(x, y, sample_weights=torch.full((3001,), 1 / 3001))
    assert weighted.item() == pytest.approx(loss(x, y).item(), rel=1e-5)


def test_a17_a_bad_batch_leaves_no_trace() -> None:
    x, loss, good = torch.nn.Parameter(normal(3, 2)), tc.CoresetLoss(), normal(16, 2, seed=1)
    bad = good.clone()
    bad[7, 1] = math.nan
    loss(x, good)
    points, potential = x.detach().clone(), loss.potential.clone()
    with pytest.raises(ValueError, match="samples: 1 of 16 rows"):
        loss(x, bad)
    assert torch.equal(x, points)
    assert torch.equal(loss.potential, potential)
    assert loss(x, good).isfinite()


def test_a18_samples_that_need_gradients() -> None:
    x, y, loss = torch.nn.Parameter(column(0)), column(3).requires_grad_(), tc.CoresetLoss(p=2)
    for _ in range(2):
        y.grad = None
        loss(x, y).backward()
        assert y.grad.item() == 6
        assert not loss.potential.requires_grad


def test_a20_copies_of_a_trained_loss() -> None:
    x, y = e1()
    loss, optimizer = tc.CoresetLoss(p=1), torch.optim.SGD([x], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss(x, y).backward()
        optimizer.step()
    potential, expected = loss.potential.clone(), loss.eval()(*e1()).item()
    file = io.BytesIO()
    torch.save(loss, file)
    file.seek(0)
    for twin in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss)), torch.load(file, weights_only=False)):
        assert twin(*e1()).item() == expected
        twin.train()(normal(5, 2), normal(40, 2, seed=1))
        assert torch.equal(loss.potential, potential)


@pytest.mark.parametrize(("p", "expected", "nearest"), [(1, 4, 1.5), (2, 28.5, 3.5)])
def test_a21_transport_is_balanced(p: int, expected: float, nearest: float) -> None:
    plan = tc.transport(E1.points, E1.samples, p)
    assert plan.value == expected != nearest
    assert plan.lower <= plan.value
    assert plan.plan.column_sums().tolist() == [0.5, 0.5]
    assert float((plan.cell_mass - 0.5).abs().sum()) / 2 <= plan.marginal_error + 1e-12


@either_power
@pytest.mark.parametrize("form", ["transposed", "expanded"])
def test_a22_views(p: int, form: str) -> None:
    base = torch.arange(16).reshape(2, 8).float()
    y = base[:, ::2].t() if form == "transposed" else torch.tensor([[1.0, 2.0]]).expand(64, 2)
    base_before, y_before, x = base.clone(), y.clone(), 4 * normal(3, 2)
    value, gradient = value_and_gradient(x, y, p)
    expected, expected_gradient = value_and_gradient(x, y_before.contiguous(), p)
    assert value == pytest.approx(expected, rel=1e-6)
    torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=1e-6)
    assert torch.equal(base, base_before)
    assert torch.equal(y, y_before)


@pytest.mark.parametrize(("p", "best", "value"), [(1, 0, 25), (2, 25, 1875)])
def test_a23_one_point_is_the_mean_or_the_median(p: int, best: float, value: float) -> None:
    at_best, gradient = value_and_gradient(column(best), column(0, 0, 0, 100), p)
    assert at_best == value
    assert gradient.abs().item() <= 0.25  # zero is among the subgradients of the median
    square = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
    at_centre, gradient = value_and_gradient(torch.ones(1, 2), square, p)
    assert at_centre == pytest.approx(2 ** (p / 2))
    assert float(gradient.abs().max()) <= 1e-7


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_a25_samples_of_another_precision(dtype: torch.dtype) -> None:
    x, y = e1()
    value = tc.CoresetLoss(p=2)(x, y.to(dtype))
    assert value.item() == 28.5
    assert value.dtype == torch.float32


def test_a25_samples_on_another_device() -> None:
    with pytest.raises(ValueError, match="samples: got device meta with points on cpu"):
        tc.CoresetLoss()(torch.zeros(2, 1), torch.zeros(4, 1, device="meta"))


@pytest.mark.parametrize(("p", "expected", "value"), [(1, [0.025, 9.95], 3.975), (2, [0.05, 9.25], 23.1325)])
def test_a27_a_step_goes_down(p: int, expected: list[float], value: float) -> None:
    x, y = e1()
    loss, optimizer = tc.CoresetLoss(p=p), torch.optim.SGD([x], lr=0.1)
    loss(x, y).backward()
    optimizer.step()
    assert x.flatten().tolist() == pytest.approx(expected)
    assert loss(x, y).item() == pytest.approx(value, rel=1e-3)
    assert line_transport(x, y, p).value == pytest.approx(value, rel=1e-6)


@either_power
def test_a29_samples_made_in_inference_mode(p: int) -> None:
    with torch.inference_mode():
        y = E1.samples.float() + 0
    x, _ = e1()
    loss, optimizer = tc.CoresetLoss(p=p), torch.optim.SGD([x], lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        value = loss(x, y)
        value.backward()
        optimizer.step()
        if step == 0:
            assert value.item() == E1.values[p]


def test_a29_training_after_an_evaluation_in_inference_mode() -> None:
    x, y = e1()
    loss = tc.CoresetLoss(p=2)
    with torch.inference_mode():
        assert loss(x, y).item() == 28.5
    for _ in range(3):
        loss(x, y).backward()
    assert x.grad.flatten().tolist() == [-1.5, 22.5]
    with torch.inference_mode():
        loss(x, y)
    loss.load_state_dict(loss.state_dict())


def test_a30_two_calls_in_eval_mode_are_equal_and_leave_no_trace() -> None:
    x, y = e1()
    loss = tc.CoresetLoss(p=2)
    loss(x + 1, y)
    loss.eval()
    before = loss.potential.clone()
    assert loss(x, y).item() == loss(x, y).item() == 28.5
    assert torch.equal(loss.potential, before)


def test_a30_lbfgs_on_all_the_data() -> None:
    x, y = torch.nn.Parameter(E1.points.clone()), E1.samples
    loss, optimizer = tc.CoresetLoss(p=2, exact=True).eval(), torch.optim.LBFGS([x], max_iter=20)

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(x, y)
        value.backward()
        return value

    optimizer.step(closure)
    assert x.flatten().sort().values.tolist() == pytest.approx([0.5, 2.5], abs=0.02)
    assert loss(x, y).item() == pytest.approx(0.25, abs=1e-3)
    assert tc.wasserstein(x, y, p=1).item() == pytest.approx(0.5, abs=0.02)


A32 = """
import warnings, torch
def settings():
    return (torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads(),
            torch.are_deterministic_algorithms_enabled(), list(warnings.filters), torch.get_rng_state().tolist())
torch.zeros(2, requires_grad=True).sum().backward()
before = settings()
import torchcoreset as tc
assert settings() == before, "import"
loss = tc.CoresetLoss(p=2)
assert settings() == before, "build"
loss(torch.zeros(2, 1, requires_grad=True), torch.arange(4.0)).backward()
assert settings() == before, "call"
"""


@pytest.mark.slow
def test_a32_global_settings_stay_as_they_are() -> None:
    run(A32)


@pytest.mark.parametrize(("p", "expected", "slopes"), [(1, 2.5e7, [0, 0]), (2, 2.49999995e15, [0, -49_999_999])])
def test_a37_one_outlier(p: int, expected: float, slopes: list[float]) -> None:
    value, gradient = value_and_gradient(column(0, 1), column(0, 0, 0, 1e8), p)
    assert value == pytest.approx(expected, rel=1e-4)
    assert gradient.flatten().tolist() == pytest.approx(slopes, rel=1e-6)
    assert p == 2 or float(gradient.abs().max()) <= 0.5


def test_a38_an_empty_batch() -> None:
    x, loss = normal(3, 2), tc.CoresetLoss()
    loss(x, normal(16, 2, seed=1))
    before = loss.potential.clone()
    with pytest.raises(ValueError, match=r"samples: got shape \(0, 2\)"):
        loss(x, torch.zeros(0, 2))
    assert torch.equal(loss.potential, before)


def test_a40_potentials_stay_centred() -> None:
    x, y = e1()
    loss = tc.CoresetLoss(p=2)
    for _ in range(20):
        loss(x, y)
    assert abs(float(loss.potential.mean())) <= 1e-3 * 28.5
    loss.potential += 1000
    assert loss(x, y).item() == pytest.approx(28.5, rel=1e-4)
    assert abs(float(loss.potential.mean())) <= 1e-3 * 28.5
    assert -81 <= float(loss.potential[0] - loss.potential[1]) <= -59


def test_a43_the_state_loads_with_weights_only() -> None:
    x, loss = normal(3, 2), tc.CoresetLoss()
    for seed in range(3):
        loss(x, normal(16, 2, seed=seed + 1))
    file = io.BytesIO()
    torch.save(loss.state_dict(), file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=True)["potential"], loss.potential)


@pytest.mark.parametrize(("p", "value", "gradient"), [(1, 4.0, [-0.25, 0.5]), (2, 28.5, [-0.5, 7.5])])
def test_a44_values_that_no_version_of_a_dependency_may_change(p: int, value: float, gradient: list[float]) -> None:
    found, slope = value_and_gradient(E1.points.float(), E1.samples.float(), p)
    assert found == pytest.approx(value, rel=1e-5)
    torch.testing.assert_close(slope.flatten(), torch.tensor(gradient))
    mean = float(E1.samples.mean())  # one point: W_2^2 is the spread, and W_1 the mean distance
    alone, _ = value_and_gradient(column(mean), E1.samples.float(), p)
    assert alone == pytest.approx({1: 1.0, 2: 1.25}[p], rel=1e-5)
