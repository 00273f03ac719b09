"""The module: what it holds, where it starts, what can be done with it, and its files."""

import copy
import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import torchcoreset as tc

Y = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))


def test_points_are_a_parameter_and_weights_a_buffer() -> None:
    table = Y[:4].clone()
    coreset = tc.Coreset(table, weights=[1, 1, 2, 4])
    assert [name for name, _ in coreset.named_parameters()] == ["points"]
    assert [name for name, _ in coreset.named_buffers()] == ["weights"]
    assert coreset.weights.tolist() == [0.125, 0.125, 0.25, 0.5]
    assert coreset.size == 4
    with torch.no_grad():
        coreset.points += 1
    assert torch.equal(table, Y[:4]), "the points are copied"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floats_keep_their_type(dtype: torch.dtype) -> None:
    coreset = tc.Coreset(Y.to(dtype))
    assert coreset.points.dtype == coreset.weights.dtype == dtype
    assert float(coreset.weights.double().sum()) == pytest.approx(1, abs=40 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("points", [[1, 2, 3], np.arange(3), torch.arange(3)])
def test_integers_become_floats_and_lines_become_columns(points) -> None:
    coreset = tc.Coreset(points)
    assert coreset.points.shape == (3, 1)
    assert coreset.points.dtype == torch.get_default_dtype()


@pytest.mark.parametrize(
    ("points", "weights", "message"),
    [
        (torch.zeros(0, 2), None, r"points: got shape \(0, 2\); expected at least one row"),
        (torch.zeros(2, 3, 4), None, r"points: got shape \(2, 3, 4\); expected \(rows, dimension\). Flatten"),
        (torch.tensor([[1.0], [torch.nan]]), None, "points: 1 of 2 rows hold NaN or inf, the first is row 1"),
        (Y[:2] * 1j, None, "points: got dtype torch.complex64; expected real numbers"),
        (Y[:2], [1.0], r"weights: got shape \(1,\); expected \(2,\)"),
        (Y[:2], [1.0, -1.0], "weights: 1 of 2 weights are negative"),
        (Y[:2], [0.0, 0.0], "weights: all 2 weights are zero"),
    ],
)
def test_unusable_points_and_weights(points: Tensor, weights, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tc.Coreset(points, weights)


def rows_in(points: Tensor, table: Tensor) -> bool:
    return bool((points[:, None] == table).all(2).any(1).all())


@pytest.mark.parametrize("init", ["random", "kmeans++"])
def test_a_start_is_made_of_different_samples(init: str) -> None:
    state = torch.get_rng_state()
    coreset = tc.Coreset.from_source(Y, 10, init=init, seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    assert rows_in(coreset.points, Y)
    assert len(torch.unique(coreset.points.detach(), dim=0)) == 10
    assert coreset.weights.tolist() == pytest.approx([0.1] * 10)
    assert torch.equal(coreset.points, tc.Coreset.from_source(Y, 10, init=init, seed=3).points)
    assert torch.equal(
        coreset.points, tc.Coreset.from_source(Y, 10, init=init, seed=torch.Generator().manual_seed(3)).points
    )
    assert not torch.equal(coreset.points, tc.Coreset.from_source(Y, 10, init=init, seed=4).points)


@pytest.mark.parametrize("init", ["random", "kmeans++"])
def test_more_points_than_rows_repeat_them(init: str) -> None:
    points = tc.Coreset.from_source(Y[:5], 12, init=init).points.detach()
    assert points.shape == (12, 3)
    assert len(torch.unique(points, dim=0)) == 5
    assert rows_in(points, Y[:5])


@pytest.mark.parametrize(
    ("size", "settings", "message"),
    [
        (0, {}, "size: got 0; expected a positive whole number"),
        (2.0, {}, "size: got 2.0; expected"),
        (True, {}, "size: got True; expected"),
        (2, {"init": "best"}, "init: got 'best'; expected one of 'annealed', 'random', 'kmeans\\+\\+'"),
        (2, {"seed": 1.5}, "seed: got 1.5; expected an int or a torch.Generator"),
    ],
)
def test_unusable_starts(size, settings, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tc.Coreset.from_source(Y, size, **settings)


def test_pushforward_applies_the_network_to_each_point() -> None:
    coreset = tc.Coreset(Y[:4], weights=[1, 1, 2, 4])
    image = coreset.pushforward(nn.Linear(3, 2))
    assert image.points.shape == (4, 2)
    assert torch.equal(image.weights, coreset.weights)
    assert image.points.is_leaf
    line = coreset.pushforward(lambda x: x.sum(1))
    torch.testing.assert_close(line.points.detach(), Y[:4].sum(1, keepdim=True))


@pytest.mark.parametrize("training", [False, True])
def test_pushforward_leaves_the_mode_of_the_network(training: bool) -> None:
    network = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Dropout(0.0)).train(training)
    state = {key: value.clone() for key, value in network.state_dict().items()}
    image = tc.Coreset(Y).pushforward(network)
    assert all(module.training is training for module in network.modules())
    assert torch.is_grad_enabled()
    assert all(parameter.grad is None for parameter in network.parameters())
    if not training:
        assert all(torch.equal(value, state[key]) for key, value in network.state_dict().items())
        torch.testing.assert_close(image.points.detach(), network(Y).detach())


def test_pushforward_to_another_number_of_rows() -> None:
    with pytest.raises(ValueError, match="network: got 3 rows for 4 points; expected one row for each point"):
        tc.Coreset(Y[:4]).pushforward(lambda x: x[1:])


def test_expectation_is_the_weighted_mean_and_differentiable() -> None:
    coreset = tc.Coreset([[0.0, 1.0], [2.0, 4.0]], weights=[3, 1])
    assert coreset.expectation(lambda x: x).tolist() == [0.5, 1.75]
    assert coreset.expectation(lambda x: x[:, 0]).item() == 0.5
    assert coreset.expectation(lambda x: x[:, :, None] * x[:, None, :]).shape == (2, 2)
    coreset.expectation(lambda x: x.square().sum(1)).backward()
    assert coreset.points.grad.tolist() == [[0.0, 1.5], [1.0, 2.0]]


def test_expectation_in_the_type_of_the_values() -> None:
    mean = tc.Coreset([[0.0], [2.0]]).expectation(lambda x: x.double())
    assert mean.dtype == torch.float64
    assert mean.item() == 1


@pytest.mark.parametrize("f", [torch.sum, lambda x: x[:1]])
def test_expectation_of_no_function_of_points(f) -> None:
    with pytest.raises(ValueError, match=r"f: got values of shape \(.*\) for 4 points; expected one for each point"):
        tc.Coreset(Y[:4]).expectation(f)


def test_a_dataset_of_pairs() -> None:
    coreset = tc.Coreset(Y[:4], weights=[1, 1, 2, 4])
    points, weights = next(iter(DataLoader(coreset.to_dataset(), batch_size=4)))
    assert torch.equal(points, coreset.points)
    assert torch.equal(weights, coreset.weights)
    assert not points.requires_grad
    coreset.to_dataset().tensors[0].add_(1)
    assert torch.equal(coreset.points, Y[:4])


@pytest.mark.parametrize("suffix", [".pt", ".npz"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("equal", [True, False])
def test_a_file_gives_back_the_same_coreset(suffix: str, dtype: torch.dtype, equal: bool, tmp_path: Path) -> None:
    for seed in range(10):
        weights = None if equal else torch.rand(40, generator=torch.Generator().manual_seed(seed))
        coreset = tc.Coreset(Y.to(dtype), weights)
        path = tmp_path / f"coreset{suffix}"
        coreset.save(path)
        again = tc.Coreset.load(str(path))
        # numpy has no bfloat16: both half precisions come back from .npz as float32, with the same values.
        stored = dtype if suffix == ".pt" else torch.promote_types(dtype, torch.float32)
        assert again.points.dtype == again.weights.dtype == stored
        assert torch.equal(again.points, coreset.points.to(stored))
        assert torch.equal(again.weights, coreset.weights.to(stored))


def test_files_need_no_pickle_and_no_graph(tmp_path: Path) -> None:
    coreset = tc.Coreset(Y)
    coreset.expectation(torch.square).sum().backward()
    coreset.save(tmp_path / "c.pt")
    coreset.save(tmp_path / "c.npz")
    assert set(torch.load(tmp_path / "c.pt", weights_only=True)) == {"points", "weights"}
    with np.load(tmp_path / "c.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["points"], Y.numpy())


@pytest.mark.parametrize("name", ["coreset", "coreset.csv", "coreset.npz.gz"])
def test_another_suffix(name: str, tmp_path: Path) -> None:
    for call in (tc.Coreset(Y).save, tc.Coreset.load):
        with pytest.raises(ValueError, match=r"path: got .*; expected a file name that ends in .pt or .npz"):
            call(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_files_that_hold_something_else(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=Y.numpy(), points=Y.numpy())
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "x.pt")
    with pytest.raises(ValueError, match=r"x.npz holds no weights; expected a file by Coreset.save"):
        tc.Coreset.load(tmp_path / "x.npz")
    with pytest.raises(ValueError, match=r"x.pt holds no points and no weights; expected a file"):
        tc.Coreset.load(tmp_path / "x.pt")
    with pytest.raises(FileNotFoundError):
        tc.Coreset.load(tmp_path / "missing.npz")


def test_state_dict() -> None:
    coreset = tc.Coreset(Y, weights=torch.arange(1, 41))
    fresh = tc.Coreset(torch.zeros_like(Y))
    file = io.BytesIO()
    torch.save(coreset.state_dict(), file)
    file.seek(0)
    assert fresh.load_state_dict(torch.load(file, weights_only=True)) == ([], [])
    assert torch.equal(fresh.points, coreset.points)
    assert torch.equal(fresh.weights, coreset.weights)
    with pytest.raises(RuntimeError, match="size mismatch for points"):
        tc.Coreset(Y[:2]).load_state_dict(coreset.state_dict())


def test_copies_are_independent() -> None:
    coreset = tc.Coreset(Y)
    coreset.expectation(torch.square).sum().backward()
    for twin in (copy.deepcopy(coreset), pickle.loads(pickle.dumps(coreset))):
        assert torch.equal(twin.points, coreset.points)
        with torch.no_grad():
            twin.points.zero_()
        assert torch.equal(coreset.points, Y)


def test_to_another_precision() -> None:
    coreset = tc.Coreset(Y).double()
    assert coreset.points.dtype == coreset.weights.dtype == torch.float64


def test_repr() -> None:
    assert repr(tc.Coreset(Y)) == "Coreset(size=40, dimension=3, weights=equal)"
    assert repr(tc.Coreset([0.0, 1.0], weights=[1, 2])) == "Coreset(size=2, dimension=1, weights=unequal)"


def test_writing_leaves_the_permissions_of_the_process_alone(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file gets those of `open`, and another thread that makes a file meanwhile gets its own."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask belongs to all threads"))
    path, plain = tmp_path / "coreset.npz", tmp_path / "plain"
    plain.touch()
    tc.Coreset(torch.zeros(2, 1)).save(path)
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    tc.Coreset(torch.ones(2, 1)).save(path)
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(file.name for file in tmp_path.iterdir()) == ["coreset.npz", "plain"]


def learnt() -> tc.Coreset:
    return tc.Coreset(torch.randn(4, 2, generator=torch.Generator().manual_seed(0)), [1, 2, 3, 4], learn_weights=True)


def test_learnt_weights_are_a_softmax_of_a_parameter() -> None:
    coreset = learnt()
    torch.testing.assert_close(coreset.weights.detach(), torch.tensor([0.1, 0.2, 0.3, 0.4]))
    assert [name for name, _ in coreset.named_parameters()] == ["points", "weight_logits"]
    assert list(coreset.state_dict()) == ["points", "weight_logits"]
    y = torch.randn(50, 2, generator=torch.Generator().manual_seed(1))
    optimizer = torch.optim.SGD(coreset.parameters(), lr=0.1)
    values = []
    for _ in range(30):
        optimizer.zero_grad()
        value = tc.wasserstein(coreset.points, y, 2, coreset.weights)
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert values[-1] < 0.9 * values[0]
    assert coreset.weights.sum().item() == pytest.approx(1)
    assert not torch.allclose(coreset.weights, torch.tensor([0.1, 0.2, 0.3, 0.4]), atol=0.01)


def test_learnt_weights_go_everywhere_that_weights_go(tmp_path: Path) -> None:
    coreset = learnt()
    weights = coreset.weights.detach()
    coreset.save(tmp_path / "learnt.npz")
    loaded = tc.Coreset.load(tmp_path / "learnt.npz")
    torch.testing.assert_close(loaded.weights, weights, rtol=0, atol=0)
    for other in (copy.deepcopy(coreset), pickle.loads(pickle.dumps(coreset))):
        torch.testing.assert_close(other.weights.detach(), weights, rtol=0, atol=0)
        assert other.weights.requires_grad
    fresh = tc.Coreset(torch.zeros(4, 2), learn_weights=True)
    fresh.load_state_dict(coreset.state_dict())
    torch.testing.assert_close(fresh.weights, coreset.weights)
    assert coreset.double().weights.dtype == torch.float64
    assert not coreset.pushforward(lambda x: x + 1).weights.requires_grad
    assert not coreset.to_dataset().tensors[1].requires_grad
    assert coreset.to_numpy()[1].sum() == pytest.approx(1)
    coreset.expectation(lambda x: x.square().sum(1)).backward()
    assert coreset.weight_logits.grad is not None
    found = tc.certify(coreset, torch.distributions.Normal(torch.zeros(2), torch.ones(2)), samples=2000)
    assert found.lower < found.upper


def test_learnt_weights_are_positive() -> None:
    with pytest.raises(ValueError, match="weights: got 1 of zero with learn_weights=True"):
        tc.Coreset(torch.zeros(3, 2), [0, 1, 2], learn_weights=True)


def test_a_coreset_is_an_array_to_numpy() -> None:
    coreset = tc.Coreset(Y[:5], [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(np.asarray(coreset), Y[:5].numpy())
    assert np.asarray(coreset, dtype=np.float64).dtype == np.float64
    np.asarray(coreset)[0] = 9
    assert torch.equal(coreset.points.detach(), Y[:5])
    result = tc.build_coreset(Y, 3)
    assert torch.equal(result.points, result.coreset.points)
    assert not result.points.requires_grad


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert tc.__version__ == version("torchcoreset")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        tc.nothing  # noqa: B018
