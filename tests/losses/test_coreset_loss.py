"""The loss as a module: memory, state, purity in eval mode, copies."""

import copy
import io
import math
import pickle

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal32 as normal
from torchcoreset.testing import E1


@pytest.fixture
def trained() -> tuple[tc.CoresetLoss, Tensor]:
    """A loss and its points after two steps."""
    loss, x = tc.CoresetLoss(p=1), torch.nn.Parameter(normal(3, 2))
    optimizer = torch.optim.SGD([x], lr=0.1)
    for seed in (1, 2):
        optimizer.zero_grad()
        loss(x, normal(60, 2, seed=seed)).backward()
        optimizer.step()
    return loss, x


def state(loss: tc.CoresetLoss) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in loss.state_dict().items()}


def assert_same_state(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_value_is_that_of_the_function() -> None:
    tensors = normal(6, 2), normal(100, 2, seed=1), normal(6, seed=2).abs(), normal(100, seed=3).abs()
    loss = tc.CoresetLoss(p=1.5)
    assert loss(*tensors).item() == tc.wasserstein(*tensors[:2], 1.5, *tensors[2:]).item()
    assert loss.last.value == pytest.approx(loss(*tensors).item(), rel=2e-3)


def test_a_fresh_loss_has_no_memory_and_a_used_one_remembers() -> None:
    loss = tc.CoresetLoss()
    assert loss.last is None
    assert loss.potential.shape == (0,)
    loss(E1.points, E1.samples)
    assert torch.equal(loss.potential, loss.last.potential)
    assert loss.potential.dtype == torch.float64
    assert list(loss.parameters()) == []


def test_memory_saves_steps() -> None:
    x, y = normal(50, 4), 2 * normal(60_000, 4, seed=1)
    loss = tc.CoresetLoss()
    loss(x, y)
    first = loss.last.steps
    loss(x + 1e-3, y)
    assert loss.last.steps < first


@pytest.mark.slow
def test_the_number_of_points_may_change(trained) -> None:
    loss, _ = trained
    assert loss(E1.points, E1.samples).item() == 4.0
    assert loss.potential.shape == (2,)


def test_the_potential_leaves_no_graph() -> None:
    loss = tc.CoresetLoss()
    tensors = [t.requires_grad_() for t in (normal(4, 2), normal(50, 2, seed=1))]
    for _ in range(2):
        loss(*tensors).backward()
    assert not loss.potential.requires_grad
    assert not loss.last.transform.requires_grad


def test_eval_leaves_no_trace(trained) -> None:
    loss, x = trained
    loss.eval()
    before, y = state(loss), normal(80, 2, seed=7)
    first, second = loss(x, y), loss(x, y)
    assert first.item() == second.item()
    assert_same_state(state(loss), before)
    first.backward()
    assert x.grad.isfinite().all()


def test_fresh_losses_in_eval_stay_fresh() -> None:
    loss = tc.CoresetLoss().eval()
    loss(E1.points, E1.samples)
    assert loss.potential.shape == (0,)


@pytest.mark.parametrize(
    "bad",
    [
        {"samples": torch.tensor([[0.0, 0.0], [math.nan, 0.0]])},
        {"samples": torch.zeros(0, 2)},
        {"samples": torch.zeros(4, 3)},
        {"samples": torch.zeros(2, 2), "sample_weights": torch.tensor([1.0, -1.0])},
        {"samples": torch.zeros(2, 2), "point_weights": torch.zeros(3)},
    ],
)
def test_an_error_changes_nothing(trained, bad: dict) -> None:
    loss, x = trained
    before, points, last = state(loss), x.detach().clone(), loss.last
    with pytest.raises(ValueError, match=r"samples|weights"):
        loss(x, **bad)
    assert_same_state(state(loss), before)
    assert torch.equal(x, points)
    assert loss.last is last
    assert loss(x, normal(60, 2, seed=2)).isfinite()


def test_an_exact_loss_that_fails_says_so() -> None:
    x, y = normal(100, 4).double(), 2 * normal(20_000, 4, seed=1).double()
    with pytest.raises(tc.ConvergenceError):
        tc.CoresetLoss(exact=True, max_steps=1)(x, y)
    loss = tc.CoresetLoss(tolerance=1e-6, max_steps=1)
    with pytest.warns(tc.ConvergenceWarning, match="max_steps") as caught:
        loss(x, y)
    assert caught[0].message.result is loss.last
    assert loss.last.status is tc.Status.MAX_STEPS


def test_the_state_goes_into_a_fresh_instance(trained) -> None:
    loss, x = trained
    fresh = tc.CoresetLoss(p=1)
    assert fresh.load_state_dict(loss.state_dict(), strict=True) == ([], [])
    assert_same_state(state(fresh), state(loss))
    y = normal(80, 2, seed=7)
    assert fresh(x, y).item() == loss(x, y).item()


def test_the_state_goes_into_a_used_instance_and_into_a_parent(trained) -> None:
    loss, _ = trained
    parents = torch.nn.ModuleDict({"loss": loss}), torch.nn.ModuleDict({"loss": tc.CoresetLoss(p=1)})
    parents[1]["loss"](E1.points, E1.samples)
    parents[1].load_state_dict(parents[0].state_dict())
    assert torch.equal(parents[1]["loss"].potential, loss.potential)


def test_a_loaded_state_is_a_copy(trained) -> None:
    loss, x = trained
    fresh = tc.CoresetLoss(p=1)
    saved = loss.state_dict()
    fresh.load_state_dict(saved)
    before = saved["potential"].clone()
    fresh(x, normal(60, 2, seed=5))
    assert torch.equal(saved["potential"], before)


def test_a_state_without_its_potential_is_refused_and_one_with_nonsense_too(trained) -> None:
    with pytest.raises(RuntimeError, match="Missing key"):
        tc.CoresetLoss().load_state_dict({})
    with pytest.raises(RuntimeError, match="size mismatch"):
        tc.CoresetLoss().load_state_dict({"potential": torch.zeros(2, 2, 2)})  # (2, 2) would be that of a batch


def through_pickle(loss: tc.CoresetLoss) -> tc.CoresetLoss:
    return pickle.loads(pickle.dumps(loss))


def through_torch_save(loss: tc.CoresetLoss) -> tc.CoresetLoss:
    file = io.BytesIO()
    torch.save(loss, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, through_pickle, through_torch_save])
def test_copies_are_equal_and_independent(trained, duplicate) -> None:
    loss, x = trained
    before = state(loss)
    twin = duplicate(loss)
    assert_same_state(state(twin), before)
    assert twin.last is None
    assert loss.last is not None
    y = normal(80, 2, seed=7)
    value = twin(x, y).item()
    assert_same_state(state(loss), before)
    assert loss(x, y).item() == value


def test_training_goes_on_after_a_look_in_inference_mode(trained) -> None:
    loss, x = trained
    y = normal(60, 2, seed=9)
    with torch.inference_mode():
        loss(x, y)
    assert not loss.potential.is_inference()
    loss(x, y).backward()
    copy.deepcopy(loss)


def test_moving_the_loss_to_another_type_does_no_harm(trained) -> None:
    loss, x = trained
    for move in (tc.CoresetLoss.half, tc.CoresetLoss.float, tc.CoresetLoss.double):
        assert move(loss)(x, normal(60, 2, seed=4)).isfinite()


@pytest.mark.parametrize("spoiled", [math.nan, 1e30])
def test_a_useless_potential_does_no_harm(spoiled: float) -> None:
    loss = tc.CoresetLoss()
    loss(E1.points, E1.samples)
    loss.potential[0] = spoiled
    assert loss(E1.points, E1.samples).item() == 28.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"p": 0.5}, "p: got 0.5"),
        ({"tolerance": 2}, "tolerance: got 2"),
        ({"max_steps": 0}, "max_steps: got 0"),
    ],
)
def test_unusable_settings_are_refused_at_construction(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tc.CoresetLoss(**settings)


def test_repr_shows_settings_and_how_the_last_call_ended() -> None:
    loss = tc.CoresetLoss(p=1)
    assert repr(loss) == "CoresetLoss(p=1, trim=0.0, tolerance=0.001, exact=False, max_steps=100, engine='auto')"
    loss(E1.points, E1.samples)
    assert "last=Transport(2 points, 4 samples, value=4," in repr(loss)
    assert "status=converged" in repr(loss)


def test_no_random_numbers_are_drawn() -> None:
    before = torch.get_rng_state()
    tc.CoresetLoss()(normal(20, 2), normal(5000, 2, seed=1))
    assert torch.equal(torch.get_rng_state(), before)
