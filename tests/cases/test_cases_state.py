"""The cases of cases_2.md that speak of state: D30, D31, D32 and D34, and what else has their causes.

D33, ranks with other settings, is in tests/distributed/test_settings.py, and DDP in tests/distributed/test_state.py.
"""

from __future__ import annotations

import copy
import importlib
import io
import linecache
import math
import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

import torchcoreset as tc
from tests.data import normal
from torchcoreset.errors import warn_user
from torchcoreset.sklearn import WassersteinCoreset
from torchcoreset.transport.solve import solve

same_samples = importlib.import_module("torchcoreset.transport.same_samples")

pytestmark = pytest.mark.usefixtures("two_starts")

either_loss = pytest.mark.parametrize("online", [False, True], ids=["solved", "online"])


class Fit(nn.Module):
    """Points and their loss, behind a layer with buffers of its own."""

    def __init__(self, *, online: bool, n: int = 5, d: int = 2) -> None:
        super().__init__()
        self.points, self.loss = nn.Parameter(normal(n, d, seed=3)), tc.CoresetLoss(online=online)
        self.norm = nn.BatchNorm1d(d, dtype=torch.float64)

    def forward(self, batch: Tensor) -> Tensor:
        return self.loss(self.points, self.norm(batch))


def steps(fit: Fit, averages: list[AveragedModel], seeds: range) -> None:
    optimizer = torch.optim.SGD([fit.points], lr=0.1)
    for seed in seeds:
        optimizer.zero_grad()
        fit(normal(64, 2, seed=seed)).backward()
        optimizer.step()
        for average in averages:
            average.update_parameters(fit)


@either_loss
@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("average", [None, get_ema_multi_avg_fn(0.75)], ids=["swa", "ema"])
def test_d30_averages_made_before_the_first_call_and_after_it(online: bool, use_buffers: bool, average: Any) -> None:
    fit = Fit(online=online)
    early = AveragedModel(fit, multi_avg_fn=average, use_buffers=use_buffers)
    steps(fit, [early], range(3))
    late = AveragedModel(fit, multi_avg_fn=average, use_buffers=use_buffers)
    kept = {name: tensor.clone() for name, tensor in late.module.loss.state_dict().items()}
    steps(fit, [early, late], range(3, 6))
    # Points are averaged, and the loss of an average has learnt from no batch but its own.
    assert not torch.equal(early.module.points, fit.points)
    assert early.module.loss.potential.numel() == 0
    assert all(torch.equal(kept[name], tensor) for name, tensor in late.module.loss.state_dict().items())
    assert kept["potential"].numel() == 5
    update_bn([normal(32, 2, seed=seed) for seed in range(3)], early)
    for model in (early, late):
        model.eval()
        assert math.isfinite(model(normal(64, 2, seed=9)).item())


@either_loss
def test_d30_the_number_of_points_may_change_beside_an_average_of_something_else(online: bool) -> None:
    loss, layer = tc.CoresetLoss(online=online), nn.Linear(2, 2, dtype=torch.float64)
    model = nn.ModuleDict({"layer": layer, "loss": loss})
    average = AveragedModel(model, use_buffers=True)
    for n in (3, 7, 2):
        loss(normal(n, 2), layer(normal(40, 2, seed=n)))
        average.update_parameters(model)
    assert int(average.n_averaged) == 3


@either_loss
def test_d30_states_before_and_after_the_first_call_go_into_each_other(online: bool) -> None:
    fresh, used = Fit(online=online), Fit(online=online)
    steps(used, [], range(3))
    before, after = copy.deepcopy(fresh.state_dict()), copy.deepcopy(used.state_dict())
    assert before.keys() == after.keys()
    for state in (after, before, after):
        file = io.BytesIO()
        torch.save(state, file)
        file.seek(0)
        fresh.load_state_dict(torch.load(file, weights_only=True), strict=True)
        assert fresh.loss.potential.shape == state["loss.potential"].shape
    batch = normal(64, 2, seed=20)
    assert fresh(batch).item() == used(batch).item()
    average, other = AveragedModel(used), AveragedModel(Fit(online=online))
    other.load_state_dict(average.state_dict())
    assert torch.equal(other.module.loss.potential, used.loss.potential)


# Of the version before, which kept them in buffers: CoresetLoss() and CoresetLoss(online=True) after three batches.
OLD = {
    "potential": [-0.2909863632163141, 0.2909863632163141],
    "curvature": [[0.3679091195230909, 0.14727916763902946], [0.14727916763902946, 0.4397705764509704]],
    "coupling": [[0.0, 0.0], [0.2945583352780589, 0.0]],
    "pull": [[0.0], [-0.2945583352780589]],
    "anchor": [[0.0], [1.0]],
    "residual": [0.15, -0.15],
    "overdue": [0.0, 0.0],
    "counters": [2.0, 3.0, 24.0, 3.0, 1.4723188764095207, 0.30661390441079345, 3.0, 0.05625, 0.8387076313781645,
                 2.624116976217937, 0.065, 0.0, 0.0],
    "origin": [-0.26988979613008557],
    "long": [[-0.047545867791783124, 0.5783514422949653], [0.5783514422949653, 1.02942309671772]],
    "recent": [[0.012500255064456095, 0.21652489447761855], [0.21652489447761855, 0.09635982025565816]],
    "spans": [3.0, 0.04166666666666667, 0.125],
    "drifts": [0.0, 0.0],
}  # fmt: skip
POINTS, BATCH = torch.tensor([[0.0], [1.0]], dtype=torch.float64), torch.arange(8, dtype=torch.float64) / 8


def old_state(*, online: bool, used: bool) -> dict[str, Tensor]:
    if not online:
        return {"potential": torch.tensor([-0.12824591622184256, 0.12824591622184256] if used else []).double()}
    state = {name: torch.tensor(values, dtype=torch.float64) for name, values in OLD.items()}
    return state if used else {name: tensor.new_empty((0,) * tensor.dim()) for name, tensor in state.items()}


@either_loss
@pytest.mark.parametrize("used", [False, True])
def test_old_states_and_old_pickles_load(online: bool, used: bool) -> None:
    state = old_state(online=online, used=used)
    loss = tc.CoresetLoss(online=online)
    loss.load_state_dict(state, strict=True)
    value = loss(POINTS, BATCH).item()
    assert value == pytest.approx(0.03419431839184295 if online and used else 0.0859375, rel=1e-12)
    assert not online or loss.last.batches == (4 if used else 1)

    module = tc.CoresetLoss(online=online)  # as it was pickled then
    attributes = {name: kept for name, kept in module.__getstate__().items() if name not in state}
    old = tc.CoresetLoss.__new__(tc.CoresetLoss)
    old.__setstate__({**attributes, "_buffers": dict(state)})
    assert old(POINTS, BATCH).item() == value
    assert not list(old.buffers())
    assert old.state_dict().keys() == state.keys()


def test_a_state_that_cannot_be_used_is_refused_whole() -> None:
    loss = tc.CoresetLoss(online=True)
    loss(POINTS, BATCH)
    before = {name: tensor.clone() for name, tensor in loss.state_dict().items()}
    for spoilt, message in (
        ({"curvature": torch.zeros(3)}, r"curvature: size mismatch: got shape \(3,\); expected a 2-dimensional"),
        ({"curvature": torch.zeros(2, 2, device="meta")}, "curvature: got a tensor on the meta device"),
        ({"drifts": [1, 2]}, "drifts: got a list; expected a tensor"),
        ({"another": torch.zeros(3)}, "Unexpected key"),
    ):
        with pytest.raises(RuntimeError, match=message):
            loss.load_state_dict({**old_state(online=True, used=True), **spoilt})
        if "another" not in spoilt:
            assert all(torch.equal(before[name], tensor) for name, tensor in loss.state_dict().items())
    with pytest.raises(RuntimeError, match=r"Missing key.*potential"):
        loss.load_state_dict({})
    parent = nn.ModuleDict({"loss": loss})
    with pytest.raises(RuntimeError, match=r"Unexpected key.*potential"):  # of the parent, which has none
        parent.load_state_dict({**parent.state_dict(), "potential": torch.zeros(2)})


def batches(d: int) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Batches in many layouts, of which the last have moved; some weighted."""
    for k in range(14):
        rows = normal(d, 40, seed=k).t() if k % 2 else normal(40, d, seed=k)
        yield rows + 5 * (k > 10), normal(40, seed=k).abs() if k % 3 == 0 else None


@either_loss
@pytest.mark.filterwarnings("ignore::torchcoreset.errors.DriftWarning")
@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 3), (40, 2)])
def test_d31_no_two_tensors_of_a_state_share_memory(online: bool, n: int, d: int, tmp_path: Any) -> None:
    from safetensors.torch import load_model, save_file, save_model

    loss, points = tc.CoresetLoss(online=online), normal(d, n).t()  # not contiguous, which safetensors refuses
    for rows, weights in batches(d):
        loss(points, rows, None, weights)
        state = loss.state_dict()
        given = [points, rows, *(value for value in vars(loss.last).values() if isinstance(value, Tensor))]
        places = [tensor.untyped_storage().data_ptr() for tensor in state.values()]
        assert len(set(places)) == len(places)
        assert not set(places) & {tensor.untyped_storage().data_ptr() for tensor in given}
        for name, tensor in state.items():
            assert tensor.is_contiguous(), name
            assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size(), name
    save_file(state, tmp_path / "state.safetensors")
    save_model(nn.ModuleDict({"loss": loss}), str(tmp_path / "model.safetensors"))
    again = nn.ModuleDict({"loss": tc.CoresetLoss(online=online)})
    load_model(again, str(tmp_path / "model.safetensors"))
    assert again["loss"](points, rows).item() == loss(points, rows).item()


@either_loss
def test_d31_functional_calls_take_and_give_the_state(online: bool) -> None:
    loss, fresh, points = tc.CoresetLoss(online=online), tc.CoresetLoss(online=online), normal(5, 2)
    for seed in range(3):
        loss(points, normal(64, 2, seed=seed))
    state, rows = dict(loss.state_dict()), normal(64, 2, seed=7)
    value = torch.func.functional_call(fresh, state, (points, rows))
    assert value.item() == loss(points, rows).item()
    assert fresh.potential.numel() == 0  # what has been learnt is in the state that was passed
    assert all(torch.equal(state[name], tensor) for name, tensor in loss.state_dict().items())
    fit = Fit(online=online)
    steps(fit, [], range(2))
    state, value = fit.eval().state_dict(), fit(rows)
    gradient = torch.func.grad(lambda x: torch.func.functional_call(fit, {**state, "points": x}, (rows,)))(fit.points)
    assert torch.equal(gradient, torch.autograd.grad(value, fit.points)[0])


@either_loss
@pytest.mark.parametrize("way", ["copy", "deepcopy", "pickle", "save"])
def test_copies_learn_on_their_own(online: bool, way: str) -> None:
    loss, points = tc.CoresetLoss(online=online), normal(5, 2)
    loss(points, normal(64, 2))
    file = io.BytesIO()
    torch.save(loss, file)
    file.seek(0)
    twin = {
        "copy": lambda: copy.copy(loss), "deepcopy": lambda: copy.deepcopy(loss),
        "pickle": lambda: pickle.loads(pickle.dumps(loss)), "save": lambda: torch.load(file, weights_only=False),
    }[way]()  # fmt: skip
    assert loss(points, normal(64, 2, seed=1)).item() == twin(points, normal(64, 2, seed=1)).item()
    kept = {name: tensor.clone() for name, tensor in twin.state_dict().items()}
    assert all(torch.equal(kept[name], tensor) for name, tensor in loss.state_dict().items())
    loss(points + 0.1, normal(64, 2, seed=2))
    assert all(torch.equal(kept[name], tensor) for name, tensor in twin.state_dict().items())
    assert not torch.equal(kept["potential"], loss.potential)


@either_loss
def test_types_devices_and_modes_between_calls(online: bool) -> None:
    points, plain, mixed = normal(5, 2), tc.CoresetLoss(online=online), tc.CoresetLoss(online=online)
    for seed, change in enumerate(("half", "double", "bfloat16", "float", "share_memory", "cpu")):
        rows = normal(64, 2, seed=seed)
        value = plain(points, rows)
        with torch.inference_mode(seed % 2 == 1), torch.autocast("cpu", torch.bfloat16):
            assert mixed(points, rows).item() == value.item()
            getattr(mixed, change)()
            mixed = copy.deepcopy(mixed)
    for name, tensor in plain.state_dict().items():
        assert torch.equal(mixed.state_dict()[name], tensor), name
    leaf = points.clone().requires_grad_()
    mixed(leaf, normal(64, 2, seed=9)).backward()
    assert leaf.grad is not None


@either_loss
@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf"
)  # asked for by torch's compiler
def test_a_compiled_module_is_not_compiled_again_as_its_state_grows(online: bool) -> None:
    torch.compiler.reset()
    fit = Fit(online=online)
    compiled = torch.compile(fit, backend="eager")
    average = AveragedModel(compiled)
    steps(fit, [], range(1))
    compiled(normal(64, 2)).backward()
    with torch._dynamo.config.patch(error_on_recompile=True):
        for seed in range(3):
            compiled(normal(64, 2, seed=seed)).backward()
            average.update_parameters(compiled)
    assert fit.loss.potential.numel() == 5


@either_loss
@pytest.mark.parametrize("assign", [False, True])
def test_modules_made_on_the_meta_device(online: bool, assign: bool) -> None:
    used = Fit(online=online)
    steps(used, [], range(3))
    state, rows = copy.deepcopy(used.state_dict()), normal(64, 2, seed=9)
    with torch.device("meta"):
        empty = Fit(online=online)
    empty = empty if assign else empty.to_empty(device="cpu")
    empty.load_state_dict(state, assign=assign)
    assert empty(rows).item() == used(rows).item()
    # What has been there and back has no values left, and is known to have none.
    gone = used.loss.to("meta").to_empty(device="cpu")
    assert all(tensor.numel() == 0 for tensor in gone.state_dict().values())
    assert gone(used.points, rows).isfinite()


def table(rows: int = 200, d: int = 2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, d))


@pytest.mark.slow
@pytest.mark.parametrize("fitted", [False, True], ids=["stream", "fit"])
@pytest.mark.parametrize(("name", "value"), [("p", 1), ("n_points", 7)])
def test_d32_what_points_belong_to_may_not_change_between_batches(fitted: bool, name: str, value: int) -> None:
    model = WassersteinCoreset(5, random_state=0)
    (model.fit if fitted else model.partial_fit)(table())
    model.partial_fit(table(seed=1))
    points, batches = model.points_.copy(), model.n_iter_
    known = getattr(model, name)
    model.set_params(**{name: value})
    message = f"{name}: got {value} for points that were found with {name}={known}; .*set_params.*fit.*clone"
    with pytest.raises(ValueError, match=message):
        model.partial_fit(table(seed=2))
    assert np.array_equal(model.points_, points)
    assert model.n_iter_ == batches
    fresh = clone(model).partial_fit(table(seed=2))
    assert (len(fresh.points_), fresh.p_) == (fresh.n_points, fresh.p)
    assert (len(model.fit(table()).points_), model.p_) == (model.n_points, model.p)
    model.partial_fit(table(seed=2))


def test_d32_other_settings_between_batches() -> None:
    model = WassersteinCoreset(5, random_state=0).partial_fit(table())
    model.set_params(p=2.0, learning_rate=0.1, init="random", tol=0.1).partial_fit(table(seed=1))
    with pytest.raises(ValueError, match="3 features, but WassersteinCoreset is expecting 2 features"):
        model.partial_fit(table(d=3))
    assert model.n_iter_ == 2
    slow, fast = (copy.deepcopy(model).set_params(learning_rate=rate) for rate in (1e-6, 1.0))
    moved = [np.abs(other.partial_fit(table(seed=2)).points_ - model.points_).max() for other in (slow, fast)]
    assert moved[0] < moved[1]


def test_d32_what_was_fitted_keeps_its_power() -> None:
    rows = np.concatenate([table(300, 1), 8 + 3 * table(100, 1, seed=1)])
    model = WassersteinCoreset(4, p=1, random_state=0).fit(rows)
    labels, score = model.predict(rows), model.score(rows)
    assert score == pytest.approx(-model.value_, rel=1e-2)
    model.set_params(p=3)
    assert np.array_equal(model.predict(rows), labels)
    assert model.score(rows) == score
    del model.p_  # an estimator that was pickled before it was kept
    model.set_params(p=1)
    assert np.array_equal(model.predict(rows), labels)


def test_d32_a_first_batch_that_is_refused_leaves_nothing() -> None:
    model = WassersteinCoreset(3, random_state=0)
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        model.partial_fit(table(20), sample_weight=np.zeros(20))
    assert not hasattr(model, "points_")
    model.partial_fit(table(20, d=3))
    assert model.points_.shape == (3, 3)


def wrapped(loss: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """Inside other modules, whose frames are torch's."""

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = loss
            self.register_forward_pre_hook(lambda module, inputs: None)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.inner(x, y)  # HERE

    return AveragedModel(Outer())


def short(**options: Any) -> dict[str, Any]:
    return {"tolerance": 1e-9, "max_steps": 1, **options}


def drifting(call: Callable[[Tensor], object]) -> None:
    for seed in range(24):
        call(normal(64, 2, seed=seed) + 9 * (seed > 12))  # HERE


def online() -> None:
    loss = tc.CoresetLoss(online=True)
    drifting(lambda rows: loss(X, rows))  # HERE


def estimator() -> None:
    model = WassersteinCoreset(5, random_state=0)
    drifting(lambda rows: model.partial_fit(rows[:, :2]))  # HERE


def pipeline() -> None:
    with pytest.MonkeyPatch.context() as patch:  # a build that stops before its transport is what it should be
        patch.setattr(same_samples, "solve", lambda *inputs, **options: stopped(*inputs))
        make_pipeline(StandardScaler(), WassersteinCoreset(5, max_iter=1)).fit(table())  # HERE


def stopped(problem: Any) -> tc.Transport:
    return solve(problem, tolerance=1e-9, exact=False, start=None, max_steps=1)


def short_source() -> None:
    rows = table(200)
    rows[:, 0].sort()
    source = tc.as_source(iter(torch.from_numpy(rows).split(50)))
    source.draw(1000, torch.Generator())  # HERE


X, Y = normal(20, 2), normal(400, 2, seed=1)


def seen_rows(call: Callable[[tc.BuildResult, Tensor], object]) -> None:
    rows = normal(2000, 2)
    result = tc.build_coreset(rows, 4, steps=3, restarts=1, progress=False)
    call(result, rows)  # HERE


CALLS: dict[str, Callable[[], object]] = {
    "transport": lambda: tc.transport(X, Y, **short()),  # HERE
    "wasserstein": lambda: tc.wasserstein(X, Y, **short()),  # HERE
    "loss": lambda: tc.CoresetLoss(**short())(X, Y),  # HERE
    "inside": lambda: wrapped(tc.CoresetLoss(**short()))(X, Y),
    "grad": lambda: torch.func.grad(tc.CoresetLoss(**short()).eval())(X, Y),  # HERE
    "compiled": lambda: torch.compile(tc.CoresetLoss(**short()), backend="eager")(X, Y),  # HERE
    "sinkhorn": lambda: tc.sinkhorn_divergence(X, Y, blur=100.0),  # HERE
    "sinkhorn loss": lambda: tc.CoresetLoss(divergence="sinkhorn", blur=100.0)(X, Y),  # HERE
    "sinkhorn steps": lambda: tc.sinkhorn_divergence(X, Y, blur=0.01, backend="newton", **short()),  # HERE
    "mmd": lambda: tc.mmd(X, Y, blur=100.0),  # HERE
    "mmd loss": lambda: tc.CoresetLoss(divergence="mmd", blur=100.0)(X, Y),  # HERE
    "online": online,
    "estimator": estimator,
    "pipeline": pipeline,
    "source": short_source,
    "certify": lambda: seen_rows(tc.certify),
    "pushforward": lambda: seen_rows(lambda x, rows: tc.certify_pushforward(x, rows, torch.sin)),  # HERE
    "expectation": lambda: seen_rows(lambda found, rows: tc.expectation_error(found, rows, lambda y: y[:, 0])),  # HERE
    "sgd": lambda: tc.build_coreset(iter(Y.split(100)), 3, algorithm="sgd", steps=9, progress=False),  # HERE
}


@pytest.mark.parametrize("name", CALLS)
def test_d34_warnings_point_to_the_line_of_the_user(name: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[name]()
    ours = [one for one in caught if issubclass(one.category, UserWarning)]
    assert ours
    for one in ours:
        assert one.filename == __file__, f"{one.filename}:{one.lineno}: {one.message}"
        assert "HERE" in linecache.getline(__file__, one.lineno)


def test_d34_a_warning_with_nothing_between() -> None:
    with pytest.warns(UserWarning, match="alone") as caught:
        warn_user(UserWarning("alone"))  # HERE
    assert caught[0].filename == __file__
    assert "HERE" in linecache.getline(__file__, caught[0].lineno)


def test_d34_every_warning_of_the_package_is_given_in_this_way() -> None:
    package = Path(tc.__file__).parent
    others = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "warnings.warn(" in path.read_text("utf-8") or "import warn\n" in path.read_text("utf-8")
    ]
    assert others == ["errors.py"], "call errors.warn_user instead"


@pytest.mark.parametrize(
    "name",
    [
        *("losses.memory Remembered", "losses.wasserstein WassersteinSettings", "losses.sinkhorn SinkhornSettings"),
        *("losses.discrepancy EnergySettings", "losses.discrepancy MMDSettings", "losses.online OnlineSettings"),
        *("losses.coreset_loss CoresetLoss", "coresets.cell_sizes CellSizes", "coresets.history Step"),
        *("coresets.history BuildResult", "coresets.coreset Coreset", "coresets.labeled LabeledCoreset"),
    ],
)
def test_pickles_of_earlier_versions_find_their_classes(name: str) -> None:
    module, _, kind = name.partition(" ")
    assert isinstance(pickle.loads(f"ctorchcoreset.{module}\n{kind}\n.".encode()), type)
