"""The loss as a function: values, types, modes, messages."""

import math

import numpy as np
import pytest
import torch

import torchcoreset as tc
from tests.data import normal32 as normal
from torchcoreset.testing import E1


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_the_value_is_that_of_the_solver(p: float) -> None:
    x, y = normal(6, 2), normal(100, 2, seed=1)
    weights = normal(6, seed=2).abs(), normal(100, seed=3).abs()
    value = tc.wasserstein(x, y, p, *weights)
    assert value.dim() == 0
    assert value.item() == pytest.approx(tc.transport(x, y, p, *weights).value, rel=1e-6)


@pytest.mark.parametrize(
    ("points", "samples", "result"),
    [
        (torch.float32, torch.float64, torch.float32),
        (torch.float64, torch.float32, torch.float64),
        (torch.float32, torch.float16, torch.float32),
        (torch.float16, torch.float32, torch.float32),
        (torch.bfloat16, torch.float32, torch.float32),
        (torch.float32, torch.int64, torch.float32),
    ],
)
@pytest.mark.parametrize("exact", [False, True])
def test_the_value_has_the_type_of_the_points(points, samples, result, exact: bool) -> None:
    value = tc.wasserstein(E1.points.to(points), E1.samples.to(samples), exact=exact)
    assert value.dtype == result
    assert value.item() == 28.5


def test_vectors_are_columns_and_gradients_keep_their_shape() -> None:
    x = torch.tensor([0.0, 10.0], requires_grad=True)
    tc.wasserstein(x, torch.arange(4.0), p=1).backward()
    assert x.grad.tolist() == [-0.25, 0.5]


def test_lists_and_arrays_are_samples_too() -> None:
    x = E1.points.clone().requires_grad_()
    assert tc.wasserstein(x, E1.samples.numpy(), sample_weights=[1, 1, 1, 1]).item() == 28.5
    tc.wasserstein(x, E1.samples.tolist(), point_weights=[1, 1]).backward()
    assert x.grad.flatten().tolist() == [-0.5, 7.5]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_no_graph_where_none_is_kept(mode) -> None:
    x = E1.points.clone().requires_grad_()
    with mode():
        assert torch.is_grad_enabled() is False
        value = tc.wasserstein(x, E1.samples)
        assert torch.is_grad_enabled() is False
    assert torch.is_grad_enabled()
    assert not value.requires_grad
    assert value.item() == 28.5


def test_grad_mode_survives_an_error() -> None:
    with pytest.raises(ValueError, match="samples: 1 of 1 rows"):
        tc.wasserstein(E1.points, torch.tensor([[math.nan]]))
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("p", [1, 2])
def test_points_on_samples_have_finite_gradients(p: int) -> None:
    y = normal(64, 3)
    x = y[:8].clone().requires_grad_()
    tc.wasserstein(x, y, p).backward()
    assert x.grad.isfinite().all()


def test_a_start_is_used() -> None:
    x, y = normal(100, 4).double(), 2 * normal(20_000, 4, seed=1).double()
    start = tc.transport(x, y, exact=True).potential
    value = tc.wasserstein(x, y, tolerance=1e-6, start=start, max_steps=5)
    assert value.item() == pytest.approx(tc.transport(x, y, exact=True).value, rel=1e-6)


def test_a_wide_gap_warns_at_the_caller() -> None:
    x, y = normal(100, 4).double(), 2 * normal(20_000, 4, seed=1).double()
    with pytest.warns(tc.ConvergenceWarning, match="Allow more steps") as caught:
        tc.wasserstein(x, y, tolerance=1e-6, max_steps=1)
    assert caught[0].filename == __file__
    assert caught[0].message.result.status is tc.Status.MAX_STEPS
    with pytest.raises(tc.ConvergenceError):
        tc.wasserstein(x, y, exact=True, max_steps=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"points": torch.tensor([0, 10])}, "points: got dtype torch.int64; expected a floating type"),
        ({"points": torch.tensor(1.0)}, "points: got a single number"),
        ({"samples": torch.tensor(1.0)}, "samples: got a single number"),
        ({"samples": torch.ones(2, 1, 28, 28)}, r"samples: got shape \(2, 1, 28, 28\).*flatten\(1\)"),
        ({"samples": torch.ones(3, 2)}, "same last dimension"),
        ({"samples": torch.ones(4, 1, device="meta")}, "device meta with points on cpu"),
        ({"samples": torch.zeros(0, 1)}, "at least one row"),
        ({"sample_weights": torch.tensor([1.0, -1.0, 1.0, 1.0])}, "sample_weights: 1 of 4 weights"),
        ({"point_weights": torch.ones(3)}, "point_weights: got shape"),
        ({"p": 0}, "p: got 0"),
        ({"tolerance": -1.0}, "tolerance: got -1.0"),
        ({"exact": "no"}, "exact: got 'no'; expected True or False"),
        ({"exact": 1}, "exact: got 1; expected True or False"),
        ({"max_steps": True}, "max_steps: got True"),
        ({"start": torch.zeros(3)}, "start: got shape"),
    ],
)
def test_unusable_inputs_are_named(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tc.wasserstein(**{"points": E1.points, "samples": E1.samples} | changes)


def test_exact_may_be_a_boolean_of_numpy() -> None:
    assert tc.wasserstein(E1.points, E1.samples, exact=np.True_) == tc.wasserstein(E1.points, E1.samples, exact=True)


def test_autocast_does_not_reach_the_solver() -> None:
    x, y = normal(6, 32).requires_grad_(), normal(300, 32, seed=1)
    plain = tc.wasserstein(x, y)
    with torch.autocast("cpu", torch.bfloat16):
        cast = tc.wasserstein(x, y)
    assert cast.dtype == torch.float32
    assert cast.item() == plain.item()
    assert torch.equal(*(torch.autograd.grad(value, x)[0] for value in (plain, cast)))


@pytest.mark.parametrize("call", [tc.wasserstein, tc.CoresetLoss(), tc.CoresetLoss(online=True)])
def test_a_coreset_or_a_batch_with_labels_says_what_to_pass(call) -> None:
    coreset = tc.Coreset(normal(3, 2))
    with pytest.raises(TypeError, match=r"points: got a Coreset; .* Of a coreset pass `.points`, and `.weights`"):
        call(coreset, normal(9, 2))
    with pytest.raises(
        ValueError, match=r"samples: got a list with tensors of shapes \(9, 2\), \(9,\); .* `batch\[0\]`"
    ):
        call(normal(3, 2), [normal(9, 2), torch.zeros(9)])
