"""The comparison of rows runs, without the peers of another Python."""

import numpy as np
import pytest

from tests.benchmarks import rows


def test_the_comparison(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "htru2.npz", X=np.random.default_rng(0).normal(size=(150, 3)))
    found = rows.main(["--data", str(tmp_path), "--size", "6", "htru2"])["htru2"]
    ours, random = "build_coreset(rows=True)", "random rows"
    for kind in ("equal", "free"):
        for p in (1, 2):
            assert found[kind, ours, p][0] < found[kind, random, p][0]
    assert "htru2: 6 of 150 rows, 3 columns" in capsys.readouterr().out
