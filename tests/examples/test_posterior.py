"""Thinning of posterior samples (examples/posterior.py): the banana, its judges, and what is measured."""

from pathlib import Path

import numpy as np
import pytest
import torch

for package in ("matplotlib", "sklearn", "tqdm", "yaml"):
    pytest.importorskip(package)


def equal(size: int) -> torch.Tensor:
    return torch.full((size,), 1 / size, dtype=torch.float64)


def test_the_gradient_of_the_banana_is_that_of_its_density() -> None:
    import posterior

    theta = torch.randn(7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    (slope,) = torch.autograd.grad(posterior.banana_log_density(theta).sum(), theta)
    assert torch.allclose(posterior.banana_gradient(theta), slope)


def test_chains_of_the_banana_have_its_moments() -> None:
    import posterior

    draws = posterior.posterior(posterior.BANANA).sample(50, 400, 0).flatten(0, 1)
    assert draws.mean(0).tolist() == pytest.approx([0, 0.5], abs=0.07)
    assert draws.var(0).tolist() == pytest.approx([1, 1.5], rel=0.15)  # x^2 / 2 has variance 1/2, and y adds 1


def test_judges_find_no_error_in_their_own_draws_and_the_right_ones_in_moved_points() -> None:
    import posterior

    judges = posterior.judges(posterior.BANANA, 2000)
    draws = judges.draws @ judges.lower.T + judges.mean
    own = posterior.judged(draws, equal(len(draws)), judges, 0)
    assert max(abs(own[name]) for name in ("mean", "spread", "energy")) < 1e-3
    assert own["tails"] < 0.01  # two ways to interpolate between draws
    # One standard deviation to the right, and twice as wide about the mean.
    shifted = judges.errors(draws + judges.spread, equal(len(draws)))
    assert (shifted["mean"], shifted["tails"]) == (pytest.approx(1, rel=1e-6), pytest.approx(1, rel=0.01))
    wider = judges.errors(judges.mean + 2 * (draws - judges.mean), equal(len(draws)))
    assert (wider["mean"], wider["spread"]) == (pytest.approx(0, abs=1e-9), pytest.approx(1, rel=0.01))


def test_energy_distance_is_twice_that_of_the_library() -> None:
    import posterior

    import torchcoreset as tc

    judges, points = posterior.judges(posterior.BANANA, 1000), torch.zeros(2, 2, dtype=torch.float64)
    points[1] = 1
    white = posterior.whiten(points, judges.mean, judges.lower)
    found = posterior.judged(points, equal(2), judges, 0)["energy"]
    assert found == pytest.approx(2 * tc.energy_distance(white, judges.draws).item(), rel=1e-6)


def test_weighted_quantiles_by_hand() -> None:
    import posterior

    points = torch.tensor([[3.0], [1.0], [2.0]], dtype=torch.float64)
    # steps end at 0.5, 0.75 and 1; their middles are 0.25, 0.625 and 0.875
    weights = torch.tensor([0.25, 0.5, 0.25], dtype=torch.float64)
    assert posterior.quantiles(points, weights, [0.05, 0.4375, 0.875]).flatten().tolist() == pytest.approx([1, 1.5, 3])
    draws = np.random.default_rng(0).normal(size=(1000, 1))
    hazen = np.quantile(draws, [0.05, 0.95], method="hazen")
    assert posterior.quantiles(torch.from_numpy(draws), equal(1000)).flatten().tolist() == pytest.approx(hazen.tolist())


def test_draws_are_taken_once() -> None:
    import posterior

    assert posterior.every_kth(12, 4).tolist() == [1, 4, 7, 10]
    rows = torch.tensor([[0.0], [1.0], [5.0]], dtype=torch.float64)
    assert posterior.nearest(rows, torch.tensor([[0.1], [0.2], [0.3]], dtype=torch.float64)).tolist() == [0, 1, 2]


def test_stein_thinning_takes_draws_of_the_posterior_from_those_of_another() -> None:
    from baselines import stein

    if reason := stein.missing():
        assert "pip install stein-thinning" in reason
        pytest.skip(reason)
    X = np.random.default_rng(0).normal(size=(500, 2))
    X[:250] += 8  # a chain that has not yet arrived
    rows = stein.stein(X, -X, 10)
    assert rows.shape == (10,)
    assert rows.min() >= 250


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:source. one of 2500 samples makes")
def test_small_form_shows_what_coresets_keep_of_the_chains(tmp_path: Path) -> None:
    import posterior

    found = posterior.main(["--small", "--out", str(tmp_path)])
    held = {(row["method"], row["size"]): row for row in found}
    coreset, random = held["W2 coreset", 20], held["random draws", 20]
    assert coreset["w2"] < held["support points", 20]["w2"] * 1.02 < random["w2"]
    assert coreset["mean"] == pytest.approx(coreset["all_mean"], rel=0.05)  # means of cells have the mean of all draws
    stretched = held["W2 coreset, stretched", 20]
    assert stretched["spread"] == pytest.approx(stretched["all_spread"], rel=1e-4)
    assert (tmp_path / "posterior.svg").stat().st_size > 10_000
