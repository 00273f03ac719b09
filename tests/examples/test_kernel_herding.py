"""Herding beside coresets: what the tables say of the small form."""

import json
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("yaml")


@pytest.mark.slow
def test_the_coreset_is_closer_than_herding(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    import kernel_herding

    kernel_herding.main(["--small", "--out", str(tmp_path)])
    held = json.loads((tmp_path / "kernel_herding.json").read_text("utf-8"))
    assert held["settings"]["size"] == 8
    w2 = {(row["points"], row["seed"]): row["w2"] for row in held["rows"]}
    for (name, seed), value in w2.items():
        if name.startswith(kernel_herding.HERDING) or name == kernel_herding.RANDOM:
            assert w2[kernel_herding.CORESET, seed] < value
    assert "closer in W_2 than herding at any width in 2 of 2 runs" in capsys.readouterr().out
