"""The timing of builds: the table that is printed, and its rows."""

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")
pytest.importorskip("yaml")


@pytest.mark.slow
def test_timing(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    import timing

    means = timing.main(["--small", "--out", str(tmp_path)])
    assert (tmp_path / "timing.png").stat().st_size > 5_000
    assert [(row["p"], row["size"]) for row in means] == [(2, 5), (2, 10), (1, 5)]
    assert all(row["seconds"] > 0 and row["steps"] > 0 and 0 <= row["gap"] < 1e-3 for row in means)
    assert means[1]["distance"] < means[0]["distance"]
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("| digits | 1,797 | 64 |") for line in lines) == 3
    assert any(line.startswith("Conclusion: ") for line in lines)
