"""Figure 1 in its small form: intervals that are in order, and what they are said to show."""

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")
pytest.importorskip("yaml")


@pytest.mark.slow
def test_banana(tmp_path: Path) -> None:
    import banana

    quartiles = banana.main(["--small", "--out", str(tmp_path)])
    for name in ("banana", "banana_points"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    rows = json.loads((tmp_path / "banana.json").read_text("utf-8"))["rows"]
    assert len(rows) == 2 * 5
    ends = {(row["method"], row["seed"]): row for row in rows}
    for seed in (0, 1):
        for name in (banana.IMAGE, banana.RANDOM):
            assert ends[name, seed]["lower"] <= ends[name, seed]["upper"] <= ends[name, seed]["coupling"] * 1.05
        assert ends[banana.DIRECT, seed]["lower"] <= ends[banana.DIRECT, seed]["upper"]
        assert ends[banana.DIRECT, seed]["upper"] < ends[banana.IMAGE, seed]["lower"]
        assert ends[banana.NOISE, seed]["upper"] < ends[banana.NOISE_SAMPLE, seed]["lower"]
        # ten points of the Gaussian: 0.34916 squared is the least distance that is known
        assert 0.34916**0.5 * 0.99 < ends[banana.NOISE, seed]["upper"] < 0.34916**0.5 * 1.03
    found = {row["method"]: row for row in quartiles}
    assert found[banana.IMAGE]["below_random"] == 1
    assert found[banana.DIRECT]["below_image"] == 2


def test_the_map_is_the_papers() -> None:
    import banana

    assert banana.banana(torch.tensor([[3.0, 1.0], [-2.0, 0.5]])).tolist() == [[3, 10], [-2, 4.5]]
