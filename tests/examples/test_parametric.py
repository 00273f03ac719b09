"""Parametric coresets: a Gaussian is found, and mixtures are started and counted as they are said to be."""

from pathlib import Path

import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("yaml")


def test_parametric(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    import parametric

    found = parametric.main(["--small", "--out", str(tmp_path)])
    assert (tmp_path / "parametric.png").stat().st_size > 10_000
    assert {path.name for path in tmp_path.glob("*.csv")} == {"parametric_gaussians.csv", "parametric_mixtures.csv"}
    through = {(row["noise"], row["seed"]): row for row in found["gaussians"]}
    for (noise, _), row in through.items():
        assert row["fitted"] < row["start"]
        if noise == "coreset":
            assert row["fitted"] < 0.15
    assert sum(row["fitted"] for (noise, _), row in through.items() if noise == "random") > 4 * 0.15
    losses = parametric.kinds_of(found["mixtures"])
    assert set(losses) == {(t, w, "sgd") for t in ("equal", "unequal") for w in ("equal", "free", "slow")}
    assert all(len(held) == 2 for held in losses.values())
    assert "Conclusion: a Gaussian fitted through a coreset" in capsys.readouterr().out


def test_free_weights_throw_descent_off_where_equal_weights_do_not() -> None:
    import parametric

    noise = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))
    data = parametric.sample(parametric.TARGETS["equal"], 200)
    sgd = parametric.OPTIMIZERS["sgd"]
    equal, free = (
        [parametric.fit_mixture(data, noise, seed, 40, sgd, (1.0, rate)).losses[-1] for seed in range(3)]
        for rate in (0.0, 1.0)
    )
    assert max(equal) < min(max(free), 2.0)


def test_a_start_converges_within_a_tenth_of_the_best() -> None:
    import parametric

    assert parametric.converged([1.0, 1.09, 1.11, 3.0]) == 2


def test_the_closed_form_of_a_shift_and_a_stretch() -> None:
    import parametric

    mean, root = torch.tensor([3.0, 4.0]), 3 * torch.eye(2)
    assert parametric.closed_form(torch.zeros(2), torch.eye(2), mean, root) == pytest.approx((25 + 8) ** 0.5)
