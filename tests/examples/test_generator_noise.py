"""Coresets of a generator's noise, on scikit-learn's digits."""

from pathlib import Path

import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")
pytest.importorskip("yaml")


@pytest.mark.slow
def test_generator_noise(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    import generator_noise

    state = torch.random.get_rng_state()
    rows = generator_noise.main(["--small", "--out", str(tmp_path)])
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (tmp_path / "generator_noise.png").stat().st_size > 10_000
    assert (tmp_path / "generator_noise.csv").is_file()
    found = {(row["points"], row["seed"]): row for row in rows}
    for seed in (0, 1):
        order = [generator_noise.DIRECT, generator_noise.CORESET, generator_noise.NOISE]
        direct, coreset, noise = (found[name, seed]["pixels"] for name in order)
        assert direct < coreset < noise
        assert found[generator_noise.THROUGH, seed]["pixels"] < coreset
        assert found[generator_noise.CORESET, seed]["features"] < found[generator_noise.NOISE, seed]["features"]
    assert "closer in pixels than random noise in 2 of 2 runs" in capsys.readouterr().out


def test_images_that_are_nowhere_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import generator_noise

    monkeypatch.setenv("TORCHCORESET_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match="data: digits"):
        generator_noise.load("mnist")
