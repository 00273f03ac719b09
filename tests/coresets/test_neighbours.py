"""A coreset beside other libraries: arrays, DataFrames, loggers, and safetensors."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import torchcoreset as tc

pytestmark = pytest.mark.usefixtures("two_starts")

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
Y = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_there_and_back(dtype: torch.dtype) -> None:
    coreset = tc.Coreset(Y[:5].to(dtype), torch.arange(5))
    points, weights = coreset.to_numpy()
    assert points.dtype == weights.dtype == (np.float64 if dtype is torch.float64 else np.float32)
    assert np.array_equal(points, coreset.points.detach().double().numpy())
    points[:] = 0
    assert bool((coreset.points != 0).any())
    again = tc.Coreset(*coreset.to_numpy())
    assert torch.equal(again.points.to(dtype), coreset.points)
    torch.testing.assert_close(again.weights.to(dtype), coreset.weights)


def test_dataframes_there_and_back() -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    coreset = tc.Coreset(Y[:5], torch.arange(5))
    frame = coreset.to_dataframe()
    assert list(frame.columns) == ["x0", "x1", "weight"]
    again = tc.Coreset(frame[["x0", "x1"]], frame["weight"])
    assert torch.equal(again.points, coreset.points)
    torch.testing.assert_close(again.weights, coreset.weights)
    assert isinstance(coreset.to_dataframe(["a", "b"]), pandas.DataFrame)
    for wrong in (["a"], ["a", "a"], ["a", "weight"]):
        with pytest.raises(ValueError, match="columns: got"):
            coreset.to_dataframe(wrong)


def test_pandas_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_dataframe needs pandas"):
        tc.Coreset(Y[:5]).to_dataframe()


def test_safetensors_are_asked_for_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(ImportError, match=r"pip install 'torchcoreset\[safetensors\]'"):
        tc.Coreset(Y[:5]).save(tmp_path / "c.safetensors")


@pytest.mark.parametrize("dtype", DTYPES)
def test_safetensors_give_back_the_same_bits(tmp_path: Path, dtype: torch.dtype) -> None:
    safetensors = pytest.importorskip("safetensors.torch", reason="needs safetensors")
    coreset = tc.build_coreset(Y.to(dtype), 4, steps=10, tolerance=0.1).coreset
    coreset.save(tmp_path / "c.safetensors")
    again = tc.Coreset.load(tmp_path / "c.safetensors")
    assert torch.equal(again.points, coreset.points)
    assert torch.equal(again.weights, coreset.weights)
    assert again.built_on == coreset.built_on is not None
    assert set(safetensors.load_file(tmp_path / "c.safetensors")) == {"points", "weights"}


class FakeRun:
    """What MLflow's module is to a callback."""

    def __init__(self) -> None:
        self.metrics: list[tuple[str, float, int]] = []

    def log_metric(self, name: str, value: float, step: int) -> None:
        self.metrics.append((name, value, step))


def test_a_logger_hears_of_every_step() -> None:
    mlflow = FakeRun()
    result = tc.build_coreset(Y, 4, callback=lambda step: mlflow.log_metric("value", step.value, step=step.step))
    assert mlflow.metrics == [("value", step.value, step.step) for step in result.history]
