"""The cases of cases_2.md on bounds, light points and limits: the stated input, the stated answer."""

import os
import warnings

import numpy as np
import pytest
import torch

import torchcoreset as tc

# Of 1,000 draws, one stalls with 95 % probability if one in 330 of all does.
LIGHT_DRAWS = int(os.environ.get("TORCHCORESET_EXAMPLES", "1000"))


@pytest.mark.parametrize(("p", "truth"), [(1, 0.1), (1.5, 0.1**1.5), (2, 0.01), (3, 0.001)])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("far", [1e4, 1e9, 1e12])
def test_d05_two_groups_far_apart(p: float, truth: float, exact: bool, far: float) -> None:
    x = torch.tensor([[0, 0], [0, 3], [far, 0], [far, 3]], dtype=torch.float64)
    found = tc.transport(x, x + torch.tensor([0.0, 0.1], dtype=torch.float64), p, exact=exact)
    assert found.value == pytest.approx(truth, rel=1e-9)
    assert found.lower == pytest.approx(truth, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("far", [1e4, 1e6, 1e9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_d06_two_normals_far_apart(p: int, far: float, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(int(far) % 1000 + p)
    x, y = (torch.randn(k, 2, generator=generator, dtype=torch.float64) for k in (20, 200))
    x[10:, 0] += far
    y[100:, 0] += far
    x, y = x.to(dtype), y.to(dtype)
    wide = x.double(), y.double()  # what the dtype has left of them is the input
    parts = [tc.transport(*(rows[half] for rows, half in zip(wide, halves, strict=True)), p, exact=True)
             for halves in ((slice(0, 10), slice(0, 100)), (slice(10, 20), slice(100, 200)))]  # fmt: skip
    truth = sum(part.value for part in parts) / 2
    default, exact = tc.transport(x, y, p), tc.transport(x, y, p, exact=True)
    for found in (default, exact):
        assert found.lower <= truth * (1 + 1e-9)
        assert found.value >= truth * (1 - 1e-9)
    assert exact.value == pytest.approx(truth, rel=2e-9)
    assert default.gap <= 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2, 3])
def test_d06_certificates_of_groups_far_apart(p: int) -> None:
    for far in (1e4, 1e8):
        generator = torch.Generator().manual_seed(p)
        x = torch.randn(20, 2, generator=generator, dtype=torch.float64)
        rows = torch.randn(4000, 2, generator=generator, dtype=torch.float64)
        x[10:, 0] += far
        rows[2000:, 0] += far
        rows = rows[torch.randperm(4000, generator=generator)]
        found = tc.certify(x, rows[:2000], p=p, samples=1000, seed=0)
        truth = tc.transport(x, rows, p, exact=True).value ** (1 / p)
        assert found.lower <= truth <= found.upper


@pytest.mark.slow
def test_d06_a_build_of_groups_far_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(600, 2, generator=generator)
    rows[300:, 0] += 1e6
    found = tc.build_coreset(rows, 6, p=2, seed=0)
    again = tc.transport(found.coreset.points.detach().double(), rows.double(), 2, exact=True)
    assert found.transport.lower <= again.value * (1 + 1e-9)
    assert found.transport.value >= again.value * (1 - 1e-6)
    assert again.value < 2  # three points in each group: 0.93 of a normal in the plane


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(("far", "dtype"), [(1e6, torch.float32), (1e6, torch.float64), (1e12, torch.float64)])
def test_d06_streams_of_groups_far_apart(p: int, far: float, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)

    def groups(size: int) -> torch.Tensor:
        rows = torch.randn(size, 2, generator=generator, dtype=torch.float64)
        rows[size // 2 :, 0] += far
        return rows.to(dtype)

    x, loss = groups(10), tc.CoresetLoss(p=p, online=True)
    for _ in range(150):
        loss(x, groups(200))
    assert loss.last.status is tc.StreamStatus.TRACKING
    assert loss.last.estimate == pytest.approx(tc.transport(x, groups(20_000), p).value, rel=0.05)


def test_sentinels_beside_units() -> None:
    """Half a percent of -999999 among units: they need mass that no point beside them has to spare."""
    r = np.random.default_rng(0)
    y = r.normal(size=(400, 2))
    y[:2] = -999_999
    x = r.normal(size=(8, 2))
    default, exact = tc.transport(x, y, 2), tc.transport(x, y, 2, exact=True)
    assert default.lower <= exact.value * (1 + 1e-9)
    assert default.value >= exact.lower * (1 - 1e-9)
    assert exact.gap <= 1e-9


def test_d07_a_point_with_less_than_a_sample() -> None:
    r = np.random.default_rng(206)
    x, y = r.normal(size=(3, 2)) * 2, r.normal(size=(3000, 2))
    weights = (1, 0.03, 0.00034)
    assert tc.transport(x, y, 2, weights).status is tc.Status.CONVERGED
    assert tc.transport(x, y, 2, weights, exact=True).value == pytest.approx(3.8663476, rel=1e-7)


def test_d07_light_points_in_a_loop() -> None:
    r = np.random.default_rng(206)
    points = torch.nn.Parameter(torch.tensor(r.normal(size=(3, 2)) * 2))
    y = torch.tensor(r.normal(size=(3000, 2)))
    loss, optimizer = tc.CoresetLoss(p=2), torch.optim.Adam([points], lr=0.05)
    for _ in range(20):
        optimizer.zero_grad()
        loss(points, y, torch.tensor([1.0, 0.03, 0.00034])).backward()
        optimizer.step()
        assert loss.last.gap <= 1e-3


def light(seed: int) -> None:
    r = np.random.default_rng(seed)
    n, m, d = int(r.integers(2, 12)), int(r.choice([30, 300, 1000])), int(r.integers(2, 4))
    x, y = r.normal(size=(n, d)) * r.choice([0.5, 1, 2, 4]), r.normal(size=(m, d))
    weights = r.dirichlet([r.choice([0.1, 0.2, 0.3])] * n)
    found = tc.transport(x, y, [1, 2, 2, 3][seed % 4], weights)
    assert found.status is tc.Status.CONVERGED, seed


@pytest.mark.slow
def test_d07_no_light_weights_stall() -> None:
    for seed in range(60):
        light(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_d07_none_of_many_light_weights_stalls(part: int) -> None:
    for seed in range(60 + part, LIGHT_DRAWS, 4):
        light(seed)


@pytest.mark.parametrize("max_steps", [1, 5, 20, 100])
def test_d13_a_limit_of_steps_limits_the_work(max_steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a limit leaves in wrong cells is not moved along paths, of which there would be thousands."""
    from torchcoreset.transport.flow import nearest_cells
    from torchcoreset.transport.solving import all_pairs
    from torchcoreset.transport.solving import balance as balance_module

    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(200, 2, generator=generator) + 3, torch.randn(20_000, 2, generator=generator)
    moved, balance, solve_pairs = [], balance_module.balance, all_pairs.solve_pairs

    def counted(cost, cell, mass, excess, v):
        moved.append(float(np.abs(excess).sum()) / 2)
        return balance(cost, cell, mass, excess, v)

    def counted_pairs(cost, a, b, v, earlier):
        cell, _ = nearest_cells(cost[0], v[0])
        moved.append(float(np.abs(np.bincount(cell, a[0], len(b[0])) - b[0]).sum()) / 2)
        return solve_pairs(cost, a, b, v, earlier)

    monkeypatch.setattr(balance_module, "balance", counted)
    monkeypatch.setattr(all_pairs, "solve_pairs", counted_pairs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.ConvergenceWarning)
        found = tc.transport(x, y, 2, max_steps=max_steps)
    assert max(moved, default=0.0) <= 0.1
    assert found.steps <= max(max_steps, 2)
    assert found.lower <= 19.01
    assert found.value >= 19.0
    assert found.value <= 22
    if max_steps == 100:
        assert found.status is tc.Status.CONVERGED
