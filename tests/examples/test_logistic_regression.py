"""Figure 4, examples/logistic_regression.py, with laplace.py, mcmc.py and logistic_coresets.py."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("yaml")
pytest.importorskip("scipy")


def products(rows: int, d: int = 3, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, d, generator=generator, dtype=torch.float64)
    theta = torch.randn(d, generator=generator, dtype=torch.float64)
    y = torch.bernoulli(torch.sigmoid(x @ theta), generator=generator)
    return x * (2 * y - 1)[:, None]


def ones(z: Tensor) -> Tensor:
    return torch.ones(len(z), dtype=z.dtype)


@pytest.mark.slow
def test_the_small_form_shows_what_the_results_say(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    pytest.importorskip("matplotlib")
    import logistic_regression

    rows, checks = logistic_regression.main(["--small", "--out", str(tmp_path)])
    checked = checks["synthetic"]
    for end in (".png", ".csv", ".json", "_check.json", "_quartiles.csv"):
        assert (tmp_path / f"logistic_regression{end}").stat().st_size > 500
    assert "synthetic, KL in nats" in capsys.readouterr().out

    worst = {(row["method"], row["size"]): 0.0 for row in rows}
    for row in rows:
        key = row["method"], row["size"]
        worst[key] = max(worst[key], row["kl"])
        assert row["points"] <= row["size"]
    for size in (10, 20):
        for name in ("W2 joint, corrected", "W2 joint, corrected, own mode"):
            assert worst[name, size] < 1e-6 < worst["GIGA", size] < worst["uniform", size]
    assert worst["W2 joint, least squares", 20] < worst["GIGA, least squares", 20]
    assert worst["W2 of features", 10] < worst["W2 joint", 10]
    assert worst["GIGA", 20] < worst["W2 joint", 20]  # as in the paper
    assert all(
        abs(row["total"] - 1500) < 0.1 for row in rows if "joint" in row["method"] and "least" not in row["method"]
    )

    assert checked["full_posterior"]["r_hat"] < 1.05
    assert checked["full_posterior"]["mean_error_sd"] < 0.3
    corrected = [row for row in checked["coresets"] if "corrected" in row["method"]]
    assert all(row["importance"] < 0.01 and row["share"] > 0.9 for row in corrected)


def test_uniform_subsamples_are_as_far_as_theory_says() -> None:
    from laplace import kl, laplace

    z = products(4000)
    full, found = laplace(z, ones(z)), []
    for seed in range(40):
        rows = torch.randperm(len(z), generator=torch.Generator().manual_seed(seed))[:400]
        found.append(kl(laplace(z[rows], 10 * ones(z[rows])), full))
    expected = 4000 * 3 / 2 * (1 / 400 - 1 / 4000)  # N d / 2 (1/M - 1/N), to leading order
    assert math.isclose(sum(found) / 40, expected, rel_tol=0.5)


def test_laplace_in_one_dimension_and_of_separable_data() -> None:
    from laplace import laplace, log_posterior, score

    z = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    even = laplace(z, 8 * ones(z))
    assert even.mean.item() == pytest.approx(0, abs=1e-12)
    assert even.precision.item() == pytest.approx(8 * 2 / 4 + 1)
    apart = laplace(z[:1], 20_000 * ones(z[:1]))  # no maximum of the likelihood: the prior holds the mode
    assert score(apart.mean[None], z[:1], 20_000 * ones(z[:1])).abs().item() < 1e-6
    theta = apart.mean.clone().requires_grad_()
    log_posterior(theta[None], z, ones(z)).sum().backward()
    torch.testing.assert_close(theta.grad, score(theta.detach()[None], z, ones(z))[0])


def test_kl_of_gaussians_is_that_of_torch_and_zero_for_equal_ones() -> None:
    from laplace import Gaussian, kl

    generator = torch.Generator().manual_seed(0)
    both = []
    for _ in range(2):
        root = torch.randn(3, 3, generator=generator, dtype=torch.float64)
        mean = torch.randn(3, generator=generator, dtype=torch.float64)
        both.append(Gaussian(mean, root @ root.T + torch.eye(3, dtype=torch.float64)))
    q, p = (torch.distributions.MultivariateNormal(each.mean, precision_matrix=each.precision) for each in both)
    assert kl(*both) == pytest.approx(torch.distributions.kl_divergence(q, p).item())
    assert kl(both[0], both[0]) == pytest.approx(0, abs=1e-12)
    theta = both[0].draw(torch.randn(100_000, 3, generator=generator, dtype=torch.float64))
    torch.testing.assert_close(torch.cov(theta.T), q.covariance_matrix, rtol=0.05, atol=0.02)


def test_posterior_kl_agrees_with_laplace_where_the_posteriors_are_gaussian() -> None:
    from laplace import kl, laplace, posterior_kl

    z = products(3000)
    part = z[:1500], 2 * ones(z[:1500])
    found, share = posterior_kl(part, (z, ones(z)), 2000, torch.Generator().manual_seed(0))
    assert share > 0.9
    assert found == pytest.approx(kl(laplace(*part), laplace(z, ones(z))), rel=0.1, abs=0.02)


@pytest.mark.slow
def test_hamiltonian_monte_carlo_of_a_gaussian_and_its_diagnostics() -> None:
    from mcmc import effective_draws, hmc, split_r_hat

    generator = torch.Generator().manual_seed(0)
    root = torch.tensor([[2.0, 0.0], [1.0, 0.5]], dtype=torch.float64)
    precision = torch.linalg.inv(root @ root.T)
    start = 5 * torch.randn(4, 2, generator=generator, dtype=torch.float64)
    chains, accepted = hmc(
        lambda t: -(t @ precision * t).sum(1) / 2, lambda t: -t @ precision, start, root, 2000, generator
    )
    assert accepted > 0.8
    assert split_r_hat(chains) < 1.02
    assert effective_draws(chains) > 500
    torch.testing.assert_close(torch.cov(chains.flatten(0, 1).T), root @ root.T, rtol=0.15, atol=0.1)
    assert split_r_hat(chains + 5 * torch.arange(4)[:, None, None]) > 1.5
    walk = torch.randn(4, 1000, 1, generator=generator, dtype=torch.float64).cumsum(1)
    assert effective_draws(walk) < 100
    independent = torch.randn(4, 1000, 1, generator=generator, dtype=torch.float64)
    assert 3000 < effective_draws(independent) < 5000


def test_the_squared_distance_of_mean_features_is_the_kl_to_leading_order() -> None:
    from laplace import kl, laplace
    from logistic_coresets import features

    z = products(4000)
    full = laplace(z, ones(z))
    w = 1 + 0.01 * torch.randn(len(z), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    w *= len(z) / w.sum()
    phi = features(z, full, len(z))
    away = (w / w.sum()) @ phi - phi.mean(0)
    assert away.square().sum().item() == pytest.approx(kl(laplace(z, w), full), rel=0.02)


def test_stretched_points_have_the_mean_and_covariance_of_the_rows() -> None:
    from logistic_coresets import joint, stretch

    z = products(1000)
    points, weights = joint(z, 12, 2, 0)
    assert weights.sum().item() == pytest.approx(1000)
    found = stretch(z, points)
    torch.testing.assert_close(found.mean(0), z.mean(0))
    torch.testing.assert_close(torch.cov(found.T, correction=0), torch.cov(z.T, correction=0))
    assert torch.cov(points.T, correction=0).trace() < torch.cov(z.T, correction=0).trace()


def test_weights_by_cells_by_class_and_by_steps_of_a_greedy_algorithm() -> None:
    from logistic_coresets import cell_masses, hilbert, per_class

    z = torch.tensor([[0.0], [1.0], [10.0]], dtype=torch.float64)
    assert cell_masses(z, z[[0, 2]])[1].tolist() == [2, 1]

    x, y = torch.cat((z, -z, z)), torch.tensor([1] * 6 + [0] * 3)
    points, weights = per_class(x, y, 3, 2, "proportional", 0)
    assert points.shape == (3, 1)
    assert sorted(weights.tolist()) == pytest.approx([3, 3, 3])
    assert per_class(x, y, 2, 2, "equal", 0)[1].tolist() == pytest.approx([4.5, 4.5])

    steps: list[Any] = [torch.tensor(w) for w in ([1.0, 0, 0], [2.0, 0, 0], [1.0, 1, 0], [1.0, 1, 1])]
    found = hilbert(z, iter(steps), [1, 2])
    assert found[1][1].tolist() == [2]
    assert found[2][1].tolist() == [1, 1]


@pytest.mark.slow
def test_a_correction_finds_the_posterior_of_all_rows_from_its_own_mode() -> None:
    from laplace import kl, laplace
    from logistic_coresets import correct_at_own_mode, equal, joint, stretch

    z = products(2000, seed=3)
    start = stretch(z, joint(z, 10, 2, 0)[0])
    found = [kl(laplace(*equal(correct_at_own_mode(z, start, k), 2000)), laplace(z, ones(z))) for k in range(4)]
    assert found[0] > 1e-2
    assert found[3] < 1e-8


def test_a_table_has_an_intercept_and_one_product_a_row(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import logistic_regression as figure_4

    monkeypatch.setenv("TORCHCORESET_DATA", str(data_dir))
    text = Path(figure_4.__file__).parents[1].joinpath("configs", "logistic_regression.yaml").read_text("utf-8")
    held = pytest.importorskip("yaml").safe_load(text)
    del held["small"]
    problem = figure_4.Problem.draw(figure_4.Settings(**held), 0, "lr_ds1")
    assert problem.z.shape == (500, 11)
    assert problem.y.bincount().tolist() == [482, 18]
    assert problem.z[:, -1].tolist() == (2.0 * problem.y - 1).tolist()
    torch.testing.assert_close(problem.pilot.mean, problem.full.mean)  # fewer rows than a pilot's are all
