"""The timing of builds (examples/timing.py): what is measured, and the tables that are printed."""

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")
pytest.importorskip("tqdm")
pytest.importorskip("yaml")


@pytest.mark.slow
def test_timing(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    import timing

    found = timing.main(["--small", "--out", str(tmp_path)])
    assert (tmp_path / "timing.svg").stat().st_size > 5_000
    assert [(row["method"], row["size"], row["runs"]) for row in found] == [("W2", 5, 2), ("W2", 10, 2), ("W1", 5, 2)]
    assert all(row["seconds"] > 0 and row["steps"] > 0 and 0 <= row["gap"] < 1e-3 for row in found)
    assert found[1]["distance"] < found[0]["distance"]
    lines = capsys.readouterr().out.splitlines()
    # seconds, distances, steps and gaps of both powers
    assert sum(line.startswith("| digits, 1,797 x 64 |") for line in lines) == 8
    assert any(line.startswith("Conclusion: 3 of 3 coresets take less than 10") for line in lines)


def test_a_power_that_is_not_known_is_refused(tmp_path: Path) -> None:
    import timing

    text = (Path(timing.__file__).parents[1] / "configs" / "timing.yaml").read_text("utf-8")
    config = tmp_path / "mine.yaml"
    config.write_text(text.replace("methods: [W2, W1]", "methods: [W3]"), "utf-8")
    with pytest.raises(SystemExit, match="method 'W3': expected some of W2, W1"):
        timing.main(["--config", str(config), "--out", str(tmp_path)])
