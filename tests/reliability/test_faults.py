"""Faults that the property tests have found, each on its smallest case."""

from __future__ import annotations

import math
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchcoreset as tc

Y = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
X = Y[:3].clone()


def read_only(rows: torch.Tensor) -> np.ndarray:
    array = rows.numpy().copy()
    array.setflags(write=False)
    return array


@pytest.mark.parametrize("make", [read_only, lambda y: y.numpy()[::-1], lambda y: y.numpy().astype(">f4")])
def test_arrays_that_torch_cannot_share(make: Any) -> None:
    rows = make(Y)
    assert tc.transport(X, rows).value == pytest.approx(tc.transport(X, torch.tensor(rows.astype("f4"))).value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tc.wasserstein(X, rows)
        tc.Coreset(rows)


@pytest.mark.parametrize("bad", ["text", ["a"], [[1.0, 2.0], [3.0]], None, [None], {}, np.array([["a", "b"]])])
def test_no_table_is_named(bad: Any) -> None:
    for call in (lambda: tc.transport(X, bad), lambda: tc.wasserstein(X, bad), lambda: tc.mmd(X, bad)):
        with pytest.raises((ValueError, TypeError), match=r"^samples: got"):
            call()
    with pytest.raises((ValueError, TypeError), match=r"^points: got"):
        tc.Coreset(bad)
    with pytest.raises((ValueError, TypeError), match=r"^sample_weights: got"):
        tc.transport(X, Y, sample_weights="text" if bad is None else bad)


def test_text_is_no_option() -> None:
    for name, call in {
        "tolerance": lambda: tc.transport(X, Y, tolerance="1e-3"),
        "rate": lambda: tc.build_coreset(Y, 2, algorithm="sgd", rate="1"),
        "share": lambda: tc.hold_out(Y, "half"),
        "seed": lambda: tc.hold_out(Y, seed="a"),
        "bound": lambda: tc.certify(X, Y, bound="1"),
        "lipschitz": lambda: tc.expectation_error(X, Y, lambda y: y[:, 0], lipschitz="1"),
        "forgetting": lambda: tc.CoresetLoss(online=True, forgetting="0.1"),
        "scaling": lambda: tc.CoresetLoss(divergence="sinkhorn", scaling="0.5"),
        "blurs": lambda: tc.compare_divergences(Y, 2, blurs=0.5),
        "blur": lambda: tc.compare_divergences(Y, 2, blurs=["a"]),
        "held_out": lambda: tc.compare_divergences(Y, 2, held_out=[[math.nan, 1.0]]),
        "result": lambda: tc.doctor(X, Y),
        "certificate": lambda: tc.doctor(tc.Coreset(X), Y, certificate=1.0),
    }.items():
        with pytest.raises((ValueError, TypeError), match=rf"^{name}: "):
            call()


def test_a_batch_of_booleans_on_a_stream() -> None:
    loss = tc.CoresetLoss(online=True)
    flags = torch.tensor([[True, False], [False, False]])
    assert loss(X, flags).item() == tc.CoresetLoss(online=True)(X, flags.float()).item()
    assert bool(torch.isfinite(loss(X, flags)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_stream_of_equal_samples_on_equal_points(dtype: torch.dtype) -> None:
    same = torch.full((4, 2), 3.0, dtype=dtype)
    assert tc.CoresetLoss(p=3, online=True)(same[:2].requires_grad_(), same).item() == 0


@pytest.mark.parametrize("options", [{}, {"exact": True}, {"online": True}])
def test_a_value_that_float32_cannot_hold_is_refused(options: dict[str, Any]) -> None:
    loss, far = tc.CoresetLoss(p=3, **options), Y * 1e15
    before = {name: tensor.clone() for name, tensor in loss.state_dict().items()}
    with pytest.raises(ValueError, match=r"^points: the value of .* which torch.float32 cannot hold"):
        loss(X * 1e15, far)
    assert all(torch.equal(tensor, before[name]) for name, tensor in loss.state_dict().items())
    assert math.isfinite(loss(X.double() * 1e15, far.double()).item())


@pytest.mark.parametrize("suffix", [".npz", ".pt"])
@pytest.mark.parametrize("content", [b"", b"PK nonsense", None])
def test_a_damaged_file_is_named(tmp_path: Path, suffix: str, content: bytes | None) -> None:
    path = tmp_path / f"c{suffix}"
    tc.Coreset(X).save(path)
    path.write_bytes(path.read_bytes()[:-40] if content is None else content)
    with pytest.raises(ValueError, match=rf"^path: .* is not a {suffix} file"):
        tc.Coreset.load(path)
    with pytest.raises(FileNotFoundError, match=r"^path: there is no file"):
        tc.Coreset.load(tmp_path / f"none{suffix}")


def test_another_file_is_no_coreset(tmp_path: Path) -> None:
    torch.save([1.0], tmp_path / "list.pt")
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("points.npy", "text")
    for name in ("list.pt", "text.npz"):
        with pytest.raises(ValueError, match=r"^path: "):
            tc.Coreset.load(tmp_path / name)


def test_weights_of_a_foreign_file_are_normalised(tmp_path: Path) -> None:
    np.savez(tmp_path / "c.npz", points=X.numpy(), weights=np.array([1.0, 1.0, 2.0]))
    assert tc.Coreset.load(tmp_path / "c.npz").weights.tolist() == [0.25, 0.25, 0.5]
