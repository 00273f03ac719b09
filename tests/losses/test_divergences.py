"""One word changes what a coreset minimises: dispatch, memory and state of `CoresetLoss` for every divergence."""

import copy
import functools
import gc
import inspect
import io
import pickle
import weakref
from dataclasses import fields
from typing import get_type_hints

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal32 as normal
from torchcoreset.losses import sinkhorn
from torchcoreset.losses.coreset_loss import DIVERGENCES
from torchcoreset.losses.online import OnlineSettings
from torchcoreset.names import Divergence
from torchcoreset.testing import E1

OPTIONS = {
    "wasserstein": {},
    "sinkhorn": {"blur": 0.5, "backend": "newton"},
    "energy": {},
    "mmd": {"blur": 1.0},
}
FUNCTIONS = {
    "wasserstein": tc.wasserstein,
    "sinkhorn": functools.partial(tc.sinkhorn_divergence, blur=0.5, backend="newton"),
    "energy": tc.energy_distance,
    "mmd": functools.partial(tc.mmd, blur=1.0),
}
every_divergence = pytest.mark.parametrize("divergence", OPTIONS)


def make(divergence: str, **changes) -> tc.CoresetLoss:
    return tc.CoresetLoss(divergence=divergence, **OPTIONS[divergence], **changes)


SIGNATURES = {
    "wasserstein": tc.wasserstein,
    "sinkhorn": tc.sinkhorn_divergence,
    "energy": tc.energy_distance,
    "mmd": tc.mmd,
}


def options_of(function) -> dict[str, tuple[object, object]]:
    """Type and default of each option in a signature."""
    hints, taken = get_type_hints(function), inspect.signature(function).parameters
    given = {"self", "points", "samples", "point_weights", "sample_weights", "start"}
    return {name: (hints[name], taken[name].default) for name in taken.keys() - given}


@every_divergence
def test_the_function_has_the_options_of_the_settings(divergence: str) -> None:
    settings = DIVERGENCES[divergence]
    declared = {field.name: (get_type_hints(settings)[field.name], field.default) for field in fields(settings)}
    assert options_of(SIGNATURES[divergence]) == declared


def test_the_loss_has_the_options_of_all_settings_and_their_types() -> None:
    declared = [get_type_hints(settings) for settings in (*DIVERGENCES.values(), OnlineSettings)]
    types = {name: hint | None for hints in declared for name, hint in hints.items()}
    assert all(hint | None == types[name] for hints in declared for name, hint in hints.items())
    taken = options_of(tc.CoresetLoss.__init__)
    assert taken.pop("divergence") == (Divergence, "wasserstein")
    assert taken.pop("online") == (bool, False)
    assert {name: hint | None for name, (hint, _) in taken.items()} == types
    assert {default for _, default in taken.values()} == {None}


def test_every_divergence_is_tested() -> None:
    assert OPTIONS.keys() == DIVERGENCES.keys()


@every_divergence
def test_the_value_is_that_of_the_function(divergence: str) -> None:
    x, y, b, a = normal(6, 2), normal(100, 2, seed=1), normal(6, seed=2).abs(), normal(100, seed=3).abs()
    loss = make(divergence)
    value = loss(x, y, b, a)
    assert value.item() == FUNCTIONS[divergence](x, y, point_weights=b, sample_weights=a).item()
    assert loss.last.value == pytest.approx(value.item(), rel=1e-6)


@every_divergence
def test_one_scale(divergence: str) -> None:
    """Between two single points every divergence but MMD is the cost itself."""
    x, y = torch.tensor([[0.0]]), torch.tensor([[3.0]])
    if divergence != "mmd":
        loss = make(divergence)
        assert loss(x, y).item() == pytest.approx(3**loss.p)


@every_divergence
def test_a_descent_goes_down(divergence: str) -> None:
    loss, x, y = make(divergence), torch.nn.Parameter(normal(8, 2)), 2 * normal(200, 2, seed=1)
    optimizer = torch.optim.Adam([x], lr=0.1)
    first = loss(x, y).item()
    for _ in range(50):
        optimizer.zero_grad()
        loss(x, y).backward()
        optimizer.step()
    assert loss(x, y).item() < 0.7 * first


@every_divergence
def test_memory_changes_no_value(divergence: str) -> None:
    loss, y = make(divergence), normal(200, 2, seed=1)
    for seed in range(3):
        x = normal(8, 2, seed=seed + 5)
        assert loss(x, y).item() == pytest.approx(make(divergence)(x, y).item(), rel=2e-3, abs=1e-6)


@every_divergence
def test_eval_leaves_no_trace(divergence: str) -> None:
    loss, x, y = make(divergence).eval(), normal(5, 2), normal(80, 2, seed=1)
    assert loss(x, y).item() == loss(x, y).item()
    assert loss.potential.shape == (0,)


@every_divergence
def test_copies_are_equal_and_hold_no_samples(divergence: str) -> None:
    loss, x, y = make(divergence), normal(5, 2).requires_grad_(), normal(80, 2, seed=1)
    for _ in range(2):
        loss(x, y).backward()
    value = loss(x, y).item()
    file = io.BytesIO()
    torch.save(loss, file)
    assert file.tell() < 20_000
    file.seek(0)
    for twin in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss)), torch.load(file, weights_only=False)):
        assert twin.last is None
        assert twin.settings == loss.settings
        assert torch.equal(twin.potential, loss.potential)
        assert twin(x, y).item() == pytest.approx(value, rel=2e-3)


@every_divergence
def test_the_state_is_the_potential_alone(divergence: str) -> None:
    loss, x, y = make(divergence), normal(5, 2), normal(80, 2, seed=1)
    loss(x, y)
    assert list(loss.state_dict()) == ["potential"]
    fresh = make(divergence)
    assert fresh.load_state_dict(loss.state_dict(), strict=True) == ([], [])
    assert torch.equal(fresh.potential, loss.potential)


@every_divergence
def test_an_error_changes_nothing(divergence: str) -> None:
    loss, x, y = make(divergence), normal(5, 2), normal(80, 2, seed=1)
    loss(x, y)
    last, potential = loss.last, loss.potential.clone()
    for bad in (torch.zeros(0, 2), torch.full((3, 2), torch.nan), torch.zeros(4, 3)):
        with pytest.raises(ValueError, match="samples: "):
            loss(x, bad)
    assert loss.last is last
    assert torch.equal(loss.potential, potential)


def test_newton_starts_from_the_last_potential() -> None:
    loss, x, y = make("sinkhorn"), normal(20, 2), normal(2000, 2, seed=1)
    loss(x, y)
    first = loss.last.steps
    assert torch.equal(loss.potential, loss.last.potential)
    loss(x + 1e-3, y)
    assert loss.last.steps < first
    loss.potential[0] = 1e30
    assert loss(x, y).item() == pytest.approx(make("sinkhorn")(x, y).item(), rel=1e-3)


def test_the_samples_own_term_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    solved: list[int] = []
    plain = sinkhorn.self_entropic

    def counting(rows: Tensor, *args: object, **settings: object):
        solved.append(len(rows))
        return plain(rows, *args, **settings)

    monkeypatch.setattr(sinkhorn, "self_entropic", counting)
    loss, y, weights = make("sinkhorn"), normal(80, 2, seed=1), torch.ones(80)
    x = torch.nn.Parameter(normal(5, 2))
    for _ in range(3):
        loss(x, y, sample_weights=weights).backward()
    assert solved == [5, 80, 5, 5]
    y.add_(1)
    loss(x, y, sample_weights=weights)
    weights[0] = 2
    loss(x, y, sample_weights=weights)
    loss(x, y)
    loss(x, y.clone())
    assert solved[4:] == [5, 80, 5, 80, 5, 80, 5, 80]
    make("sinkhorn", constant=False)(x, y).backward()
    make("sinkhorn", debias=False)(x, y).backward()
    assert solved[12:] == [5]
    with torch.inference_mode():
        frozen = y + 0
    for _ in range(2):
        loss(x, frozen)
        loss(x, y.numpy())
    assert solved[13:] == [5, 80] * 4


def test_samples_are_not_kept_alive() -> None:
    loss, y = make("energy"), normal(80, 2)
    loss(normal(5, 2), y)
    known = weakref.ref(y)
    loss.last = None
    del y
    gc.collect()
    assert known() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"divergence": "kl"}, "divergence: got 'kl'; expected one of 'wasserstein', 'sinkhorn', 'energy', 'mmd'"),
        ({"blur": 0.1}, "blur: given with divergence='wasserstein', .* only with 'sinkhorn' or 'mmd'. Leave it out"),
        ({"divergence": "sinkhorn", "exact": True}, "exact: given with divergence='sinkhorn'"),
        ({"divergence": "energy", "tolerance": 0.1}, "tolerance: given with divergence='energy'"),
        ({"divergence": "energy", "blur": 0.1}, "blur: given with divergence='energy'"),
        ({"divergence": "mmd", "p": 2}, "p: given with divergence='mmd'"),
        ({"divergence": "mmd", "backend": "newton"}, "backend: given with divergence='mmd'"),
        ({"divergence": "energy", "p": 3}, "p: got 3"),
        ({"divergence": "sinkhorn", "p": 3}, "p: got 3; geomloss has 1 and 2"),
        ({"divergence": "sinkhorn", "blur": -1}, "blur: got -1"),
    ],
)
def test_unusable_settings_are_refused_at_construction(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tc.CoresetLoss(**options)


def test_settings_read_like_attributes() -> None:
    loss = tc.CoresetLoss(divergence="sinkhorn", blur=0.1)
    assert (loss.p, loss.blur, loss.backend, loss.debias) == (2, 0.1, "geomloss", True)
    assert (tc.CoresetLoss().p, tc.CoresetLoss(divergence="energy").p) == (2, 1)
    with pytest.raises(AttributeError, match="exact"):
        _ = loss.exact
    loss.blur = 0.2
    assert loss.settings.blur == 0.2
    with pytest.raises(ValueError, match="blur: got -1"):
        loss.blur = -1
    assert loss.blur == 0.2


def test_repr_names_the_divergence_and_its_settings() -> None:
    loss = tc.CoresetLoss(divergence="energy")
    assert repr(loss) == "CoresetLoss(divergence='energy', p=1, constant=True)"
    loss(E1.points, E1.samples)
    assert "last=Discrepancy(2 points, 4 samples, value=1.875)" in repr(loss)
    assert repr(tc.CoresetLoss(divergence="sinkhorn", blur=0.1)) == (
        "CoresetLoss(divergence='sinkhorn', p=2, blur=0.1, debias=True, constant=True, backend='geomloss', "
        "engine='auto')"
    )
