"""Coresets of a generator's noise, on scikit-learn's digits."""

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")
pytest.importorskip("sklearn")
pytest.importorskip("yaml")


@pytest.mark.slow
def test_generator_noise(tmp_path: Path) -> None:
    import generator_noise

    state = torch.random.get_rng_state()
    quartiles = generator_noise.main(["--small", "--out", str(tmp_path)])
    assert torch.equal(torch.random.get_rng_state(), state)
    for name in ("generator_noise", "generator_noise_images"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    rows = json.loads((tmp_path / "generator_noise.json").read_text("utf-8"))["rows"]
    found = {(row["method"], row["seed"]): row for row in rows}
    for seed in (0, 1):
        order = [generator_noise.DIRECT, generator_noise.CORESET, generator_noise.SOBOL, generator_noise.RANDOM]
        direct, coreset, sobol, random = (found[name, seed]["pixels"] for name in order)
        assert direct < coreset < sobol < random
        assert found[generator_noise.THROUGH, seed]["pixels"] < coreset
        assert found[generator_noise.CORESET, seed]["features"] < found[generator_noise.RANDOM, seed]["features"]
    below = {row["method"]: (row["pixels_below_random"], row["pixels_below_sobol"]) for row in quartiles}
    assert below[generator_noise.CORESET] == (2, 2)
    assert below[generator_noise.RANDOM] == (0, 0)


def test_quasi_random_noise_is_normal_and_another_one_for_each_seed() -> None:
    import generator_noise

    noise = generator_noise.sobol(256, 3, seed=0)
    assert noise.mean(0).tolist() == pytest.approx([0, 0, 0], abs=0.02)
    assert noise.std(0).tolist() == pytest.approx([1, 1, 1], abs=0.03)
    # Each 1/256 of the distribution has one of the points, in every coordinate.
    assert (
        (torch.special.ndtr(noise.double()) * 256)
        .floor()
        .sort(0)
        .values.equal(torch.arange(256.0, dtype=torch.float64)[:, None].expand(256, 3))
    )
    assert not torch.equal(noise, generator_noise.sobol(256, 3, seed=1))


def test_images_that_are_nowhere_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import generator_noise

    monkeypatch.setenv("TORCHCORESET_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match="data: digits"):
        generator_noise.load("mnist")
