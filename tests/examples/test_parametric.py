"""Parametric coresets: a Gaussian is found, and mixtures are started and counted as they are said to be."""

from pathlib import Path

import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("yaml")


@pytest.mark.slow
def test_parametric(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    import parametric

    text = Path(parametric.__file__).parents[1].joinpath("configs", "parametric.yaml").read_text("utf-8")
    config = tmp_path / "smaller.yaml"
    config.write_text(text.replace("mixture_steps: 30", "mixture_steps: 8").replace("noise: 8", "noise: 5"), "utf-8")
    found = parametric.main(["--config", str(config), "--small", "--out", str(tmp_path)])
    assert (tmp_path / "parametric.png").stat().st_size > 5_000  # one panel with one size
    for name in ("parametric", "parametric_mixtures", "parametric_points"):
        assert (tmp_path / f"{name}.svg").stat().st_size > 10_000
    assert {path.name for path in tmp_path.glob("*.csv")} == {
        "parametric_gaussians.csv", "parametric_mixtures.csv", "parametric_quartiles.csv"
    }  # fmt: skip
    fits = [row for row in found["gaussians"] if row["method"] in parametric.NOISE]
    fitted = {(row["method"], row["seed"]): row["fitted"] for row in fits}
    assert all(row["fitted"] < 0.5 * row["start"] for row in fits)
    assert all(fitted["coreset", seed] < min(0.15, fitted["random", seed]) for seed in (0, 1))
    losses = parametric.kinds_of(found["mixtures"])
    assert set(losses) == {(t, w, "sgd") for t in ("equal", "unequal") for w in ("equal", "free", "slow")}
    assert all(len(held) == 2 for held in losses.values())
    assert "Conclusion: a Gaussian fitted through a coreset" in capsys.readouterr().out


def test_noise_of_every_kind_and_what_the_stretch_does() -> None:
    import parametric

    for d in (1, 3):
        made = {kind: make(40, d, 0) for kind, make in parametric.NOISE.items()}
        assert all(noise.shape == (40, d) and noise.isfinite().all() for noise in made.values())
        stretched = made["coreset, stretched"]
        torch.testing.assert_close(stretched.mean(0), torch.zeros(d), atol=1e-6, rtol=0)
        torch.testing.assert_close(stretched.T @ stretched / 40, torch.eye(d), atol=1e-5, rtol=0)


@pytest.mark.slow
def test_free_weights_throw_descent_off_where_equal_weights_do_not() -> None:
    import parametric

    noise = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
    data = parametric.sample(parametric.TARGETS["equal"], 200)
    sgd = parametric.OPTIMIZERS["sgd"]
    equal, free = (
        [parametric.fit_mixture(data, noise, seed, 30, sgd, (1.0, rate)).losses[-1] for seed in range(3)]
        for rate in (0.0, 1.0)
    )
    assert max(equal) < min(max(free), 2.0)


def test_a_start_converges_within_a_tenth_of_the_best_of_the_same_model() -> None:
    import parametric

    ends = [("equal", 1.0), ("equal", 1.09), ("equal", 1.11), ("free", 2.0), ("free", 9.0), ("slow", 1.9)]
    rows = [{"target": "equal", "weights": kind, "optimizer": "sgd", "loss": loss} for kind, loss in ends]
    assert list(parametric.converged(rows).values()) == [2, 1, 1]


def test_the_closed_form_of_a_shift_and_a_stretch() -> None:
    import parametric

    mean, root = torch.tensor([3.0, 4.0]), 3 * torch.eye(2)
    assert parametric.closed_form(torch.zeros(2), torch.eye(2), mean, root) == pytest.approx((25 + 8) ** 0.5)
