"""Herding beside coresets: what the tables say of the small form."""

import json
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("yaml")


@pytest.mark.slow
def test_the_coreset_is_closer_than_herding(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    import kernel_herding

    found = kernel_herding.main(["--small", "--out", str(tmp_path)])
    held = json.loads((tmp_path / "kernel_herding.json").read_text("utf-8"))
    assert held["settings"]["sizes"] == [4, 8]
    w2 = {(row["method"], row["size"], row["seed"]): row["w2"] for row in held["rows"]}
    for (name, size, seed), value in w2.items():
        if name.startswith(kernel_herding.HERDING) or name == kernel_herding.RANDOM:
            assert w2[kernel_herding.CORESET, size, seed] < value
    assert "is closer in W2 than herding, width 0.25: 2 of 2; " in capsys.readouterr().out
    assert {row["runs"] for row in found} == {2}
    for name in ("kernel_herding", "kernel_herding_points"):
        assert (tmp_path / f"{name}.svg").stat().st_size > 10_000


def test_every_way_places_as_many_points_as_it_is_asked_for() -> None:
    import kernel_herding

    settings = kernel_herding.Settings(
        rows=100, judged=10, sizes=[5], drawn=5, relative_blurs=[0.5], steps=3, runs=1, jobs=1
    )
    found = kernel_herding.placed(kernel_herding.mixture(100, seed=0), 5, settings)
    assert all(points.shape == (5, 2) and points.isfinite().all() for points in found.values())
    assert {kernel_herding.CORESET, kernel_herding.RANDOM, "herding, width 0.5"} <= set(found)
