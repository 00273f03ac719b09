"""Equal points are merged: bounds, plans and gradients are those of all of them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import CLOUDS, cloud, normal, seeded
from torchcoreset.transport import make_problem, solve, solve_dual
from torchcoreset.transport.presolve import parts, plan
from torchcoreset.transport.reductions import places_of

M = 2500


def equal_points(kind: str, n: int = 24) -> tuple[Tensor, Tensor]:
    """Points of which many are equal, in any order, and samples of a cloud."""
    y = cloud(kind, M)
    of = torch.randint(n // 3, (n,), generator=seeded(1))
    return (y[: n // 3] + normal(n // 3, y.shape[1], seed=3))[of], y


def unmerged(monkeypatch: pytest.MonkeyPatch, x: Tensor, y: Tensor, p: float, *weights: Tensor | None) -> tc.Transport:
    """The result without merging."""
    with monkeypatch.context() as patch:
        patch.setattr(plan, "places_of", lambda _: None)
        patch.setattr(parts, "near_places", lambda *_: None)
        return tc.transport(x, y, p, *weights, exact=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", CLOUDS)
def test_bounds_and_plans_are_those_of_all_points(kind: str, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = equal_points(kind)
    n, b, a = len(x), None, None
    if weighted:
        b, a = (torch.rand(count, generator=seeded(2), dtype=torch.float64) ** 4 for count in (n, M))
        b[:3], a[:50] = 0, 1e-15
    found = tc.transport(x, y, 2, b, a, exact=True)
    expected = unmerged(monkeypatch, x, y, 2, b, a)
    assert found.value == pytest.approx(expected.value, rel=1e-9)
    assert found.gap <= 1e-9
    mass_b = torch.full((n,), 1 / n, dtype=torch.float64) if b is None else b / b.sum()
    mass_a = torch.full((M,), 1 / M, dtype=torch.float64) if a is None else a / a.sum()
    torch.testing.assert_close(found.plan.column_sums(), mass_b, rtol=0, atol=1e-12)
    sums = torch.bincount(found.plan.rows, found.plan.mass, minlength=M)
    torch.testing.assert_close(sums, mass_a, rtol=1e-9, atol=1e-14)  # a line leaves out less
    apart = (y[found.plan.rows].double() - x[found.plan.cols].double()).square().sum(1)
    assert float(found.plan.mass @ apart) == pytest.approx(found.value, rel=1e-9)
    assert len(found.plan.rows) <= M + 2 * n
    assert float(mass_b @ found.potential) == pytest.approx(0, abs=1e-9 * float(found.potential.abs().max()) + 1e-12)
    assert float(found.cell_mass.sum()) == pytest.approx(1)
    assert float((found.cell_mass - mass_b).abs().sum()) / 2 == pytest.approx(found.marginal_error, abs=1e-9)
    reduced = (
        torch.cdist(y.double(), x.double(), compute_mode="donot_use_mm_for_euclid_dist") ** 2 - found.potential
    ).amin(1)
    torch.testing.assert_close(found.transform, reduced, rtol=1e-6, atol=1e-6 * float(reduced.abs().max()))


@pytest.mark.parametrize("seed", range(4))
def test_samples_too_light_to_have_a_length_keep_their_point(seed: int) -> None:
    """They ended beyond the last part of a place, or in another's, and a light point beside a heavy sample had none."""
    heavy, generator = 7, seeded(seed)
    places = normal(4, 2, seed=seed).double()
    x, y = places[torch.randint(4, (40,), generator=generator)], places[torch.randint(4, (134,), generator=generator)]
    a = 10 ** (-18 * torch.rand(134, generator=generator, dtype=torch.float64))
    b = torch.rand(40, generator=generator, dtype=torch.float64).where(torch.rand(40, generator=generator) < 0.5, 1e-9)
    a[heavy], b[-3:] = 10.0, 0.0
    found = tc.transport(x + 30, y, 1.5, b, a, exact=True)
    rows, cols, mass = found.plan.rows, found.plan.cols, found.plan.mass
    torch.testing.assert_close(found.plan.column_sums(), b / b.sum(), rtol=0, atol=2e-12)
    torch.testing.assert_close(torch.bincount(rows, mass, minlength=134), a / a.sum(), rtol=1e-9, atol=0)
    assert bool((found.assignment >= 0).all())
    assert float(mass @ (y[rows] - x[cols] - 30).norm(dim=1) ** 1.5) == pytest.approx(found.value, rel=1e-12)


@pytest.mark.parametrize("p", [1, 1.5, 3])
def test_other_powers(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = equal_points("smooth")
    assert tc.transport(x, y, p, exact=True).value == pytest.approx(unmerged(monkeypatch, x, y, p).value, rel=1e-9)


def test_all_points_in_one_place() -> None:
    y = normal(M, 3)
    found = tc.transport(torch.ones(7, 3).double(), y, exact=True)
    assert found.value == pytest.approx(float((y.double() - 1).square().sum(1).mean()))
    torch.testing.assert_close(found.plan.column_sums(), torch.full((7,), 1 / 7, dtype=torch.float64))


@pytest.mark.parametrize("m", [M, 100])
def test_points_of_one_place_part_along_the_widest_column(m: int) -> None:
    y = normal(m, 2) * torch.tensor([1.0, 5.0])
    x = torch.zeros(4, 2, dtype=torch.float64, requires_grad=True)
    tc.wasserstein(x, y).backward()
    before = tc.transport(x, y, exact=True).value
    with torch.no_grad():
        x -= 0.5 * 4 * x.grad / 2
    assert tc.transport(x, y, exact=True).value < 0.7 * before
    assert len(x[:, 1].round(decimals=1).unique()) == 4


def test_equal_points_of_a_batch_part_as_alone() -> None:
    y = normal(100, 2).repeat(3, 1, 1) * torch.tensor([1.0, 5.0])
    x = torch.stack((torch.zeros(4, 2), normal(4, 2, seed=1), torch.tensor([[0.0, 1], [0, 2], [1, 3], [2, 3]])))
    for alone, found in zip((tc.transport(*pair) for pair in zip(x, y, strict=True)), tc.transport(x, y), strict=True):
        assert found.value == pytest.approx(alone.value)
        torch.testing.assert_close(found.plan.column_sums(), alone.plan.column_sums())
    shares = tc.transport(x, y)[0].plan
    assert sorted(y[0, shares.rows, 1][shares.cols == 0])[-1] <= sorted(y[0, shares.rows, 1][shares.cols == 1])[0]


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e-3])
@pytest.mark.parametrize("exact", [False, True])
def test_points_that_nearly_coincide(size: float, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = equal_points("normal")
    x = x.double() + size * normal(*x.shape, seed=4)
    found, expected = tc.transport(x, y, exact=exact), unmerged(monkeypatch, x, y, 2)
    assert found.value == pytest.approx(expected.value, rel=1e-9 if exact else 1e-3)
    assert found.lower <= expected.value * (1 + 1e-12)
    assert found.gap <= (1e-9 if exact else 1e-3)
    torch.testing.assert_close(
        found.plan.column_sums(), torch.full((len(x),), 1 / len(x), dtype=torch.float64), rtol=0, atol=1e-12
    )
    dual = solve_dual(make_problem(x, y), tolerance=1e-4, start=None, max_steps=100)
    assert dual.lower == pytest.approx(expected.value, rel=1e-4)


def test_a_start_is_that_of_the_places() -> None:
    x, y = equal_points("smooth")
    cold = tc.transport(x, y, exact=True)
    warm = tc.transport(x, y, exact=True, start=cold.potential)
    assert warm.value == pytest.approx(cold.value, rel=1e-12)
    assert warm.steps <= cold.steps


def test_the_dual_alone() -> None:
    x, y = equal_points("smooth")
    dual = solve_dual(make_problem(x, y), tolerance=1e-4, start=None, max_steps=100)
    assert dual.potential.shape == (len(x),)
    assert dual.lower == pytest.approx(tc.transport(x, y, exact=True).value, rel=1e-4)


def test_distinct_points_are_left_alone() -> None:
    x = normal(50, 2)
    assert places_of(x) is None
    assert places_of(x + 1e-12 * normal(50, 2, seed=1)) is None
    places = places_of(torch.cat((x, -0.0 * x[:1], 0.0 * x[:1])))
    assert places is not None, "0.0 and -0.0 are equal"
    assert len(places.first) == 51


def test_points_that_all_samples_share_with_weights_of_zero() -> None:
    x, y = torch.zeros(6, 2).double(), normal(M, 2)
    x[4:] = 1
    b = torch.tensor([0.0, 0, 0, 0, 1, 1])
    found = solve(make_problem(x, y, 2, b), tolerance=1e-6, exact=False, start=None, max_steps=100)
    assert found.plan.column_sums().tolist() == pytest.approx([0, 0, 0, 0, 0.5, 0.5])
    assert torch.isfinite(found.potential).all()
