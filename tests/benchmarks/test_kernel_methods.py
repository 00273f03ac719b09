"""The comparison with kernel methods runs, without coreax, which has another Python; and its measure is right."""

import numpy as np
import pytest
import torch

from tests.benchmarks import kernel_methods


def test_the_comparison(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "pendigits.npz", X=np.random.default_rng(0).normal(size=(150, 3)))
    found = kernel_methods.main(["--data", str(tmp_path), "--size", "6", "--seeds", "1", "pendigits"])["pendigits"]
    assert found["ours, W2"][0] < found["random rows"][0]
    assert found["ours, mmd, the same kernel"][1] < 1.01 * min(mmd for _, mmd, _ in found.values())
    told = capsys.readouterr().out
    assert "coreax is left out: --peer takes a Python that has it" in told
    assert "pendigits: 6 points for 150 rows, 3 columns" in told


def test_the_discrepancy_by_hand() -> None:
    rows, points = torch.tensor([[0.0], [2.0]]), torch.tensor([[0.0]])
    near = float(np.exp(-2.0))  # exp(-|0 - 2|^2 / 2)
    own = (1 + near) / 2
    expected = (1 - 2 * (1 + near) / 2 + own) ** 0.5
    weights = torch.ones(1, dtype=torch.float64)
    assert kernel_methods.discrepancy(points, weights, rows, 1.0, own) == pytest.approx(expected)


def test_what_coreax_wrote_is_read(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(command: list[str], **_: object) -> None:
        assert command[:2] == ["mine", "-P"]
        given = np.load(command[3])
        assert (given["rows"].shape, int(given["size"]), int(given["seed"])) == ((5, 2), 2, 7)
        np.savez(command[4], **{"rows: a": [1, 3], "weights: a": [1.0, 3.0], "seconds: a": 0.5, "blur": 2.0})

    monkeypatch.setattr(kernel_methods.subprocess, "run", fake)
    rows = torch.arange(10.0).view(5, 2)
    found, blur = kernel_methods.peers("mine", rows, 2, 7)
    points, weights, seconds = found["coreax, a"]
    assert torch.equal(points, rows[[1, 3]])
    assert (weights.tolist(), seconds, blur) == ([0.25, 0.75], 0.5, 2.0)
