"""Figure 1 in its small form: intervals that are in order, and what they are said to show."""

import csv
from pathlib import Path

import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("yaml")


@pytest.mark.slow
def test_banana(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    import banana

    rows = banana.main(["--small", "--out", str(tmp_path)])
    assert (tmp_path / "banana.png").stat().st_size > 10_000
    with (tmp_path / "banana.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(rows) == 2 * 5
    assert all(row["lower"] <= row["upper"] <= row["coupling"] * 1.05 for row in rows)
    ends = {(row["points"], row["seed"]): row for row in rows}
    for seed in (0, 1):
        assert ends[banana.DIRECT, seed]["upper"] < ends[banana.IMAGE, seed]["lower"]
        assert ends[banana.NOISE, seed]["upper"] < ends[banana.NOISE_SAMPLE, seed]["lower"]
        # ten points of the Gaussian: 0.34916 squared is the least distance that is known
        assert 0.34916**0.5 * 0.99 < ends[banana.NOISE, seed]["upper"] < 0.34916**0.5 * 1.03
    assert "in 1 of 2 runs, and farther than the coreset computed directly in 2;" in capsys.readouterr().out


def test_the_map_is_the_papers() -> None:
    import banana

    assert banana.banana(torch.tensor([[3.0, 1.0], [-2.0, 0.5]])).tolist() == [[3, 10], [-2, 4.5]]
