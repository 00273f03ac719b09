"""Small problems, and those with few samples a point: all samples are balanced, without an approach."""

import numpy as np
import ot
import pytest
import torch

import torchcoreset as tc
from tests.data import normal, seeded, seeds
from tests.transport.solving.problems import KINDS, problem_of
from torchcoreset.transport.presolve import arithmetic
from torchcoreset.transport.problem import make_problem
from torchcoreset.transport.solve import solve
from torchcoreset.transport.solving import limits
from torchcoreset.transport.solving.state import SolveState

SIZES = ((10, 100), (50, 200), (100, 200), (133, 400), (400, 133), (150, 150), (40, 2000))


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_solved_to_the_optimum(kind: str, p: float) -> None:
    for seed, (n, m) in enumerate(SIZES):
        x, y, b, a = problem_of(kind, n, m, seed)
        found = tc.transport(x, y, p, b, a)
        cost = torch.cdist(y.double(), x.double(), compute_mode="donot_use_mm_for_euclid_dist").numpy() ** p
        mass_b, mass_a = (
            np.full(count, 1 / count) if weights is None else (weights / weights.sum()).numpy()
            for weights, count in ((b, len(x)), (a, len(y)))
        )
        optimum = float(ot.emd2(mass_a, mass_b, cost, numItermax=10**7))
        assert found.value == pytest.approx(optimum, rel=1e-6), (n, m)
        assert found.lower <= optimum * (1 + 1e-9), (n, m)
        assert found.gap <= 1e-6, (n, m)
        plan = found.plan.to_sparse().to_dense().numpy()
        np.testing.assert_allclose(plan.sum(0), mass_b, atol=1e-12)
        np.testing.assert_allclose(plan.sum(1), mass_a, atol=1e-12)
        v, f = found.potential.numpy(), found.transform.numpy()
        np.testing.assert_allclose(f, (cost - v).min(1), rtol=1e-9, atol=1e-9 * np.abs(v).max())
        assert mass_b @ v == pytest.approx(0, abs=1e-9 * np.abs(v).max() + 1e-15)


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("exact", [False, True])
def test_in_any_dtype(dtype: torch.dtype, exact: bool) -> None:
    x, y = normal(30, 4).to(dtype), normal(300, 4, seed=1).to(dtype)
    found = tc.transport(x, y, exact=exact)
    assert found.gap <= (1e-9 if exact else 1e-6)
    assert found.value == pytest.approx(tc.transport(x.double(), y.double(), exact=True).value, rel=1e-6)


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("seed", seeds(4, quick=1))
def test_from_any_start(seed: int) -> None:
    x, y = normal(40, 2, seed=seed), normal(500, 2, seed=seed + 50)
    cold = tc.transport(x, y)
    for start in (cold.potential, cold.potential + 3, 10 * normal(40, seed=seed), 1e6 * normal(40, seed=seed)):
        found = tc.transport(x, y, start=start)
        assert found.value == pytest.approx(cold.value, rel=1e-9)
        assert found.gap <= 1e-8  # a start of 1e6 leaves so many digits


@pytest.mark.parametrize("kind", KINDS)
def test_a_warm_solve_of_few_pairs_is_one_call_from_any_start(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many samples there are; equal ones are merged first. From zero, where the start is worse."""
    x, y, b, a = problem_of(kind, 12, 6000, 5)
    y = y[:, :40]
    x = (x[:, :40] + 0.01 * normal(len(x), y.shape[1])).to(y)
    for p in (1, 2, 3):
        cold = tc.transport(x, y, p, b, a, exact=True)
        monkeypatch.setattr(arithmetic, "SolveState", None)
        for start in (cold.potential, cold.potential + 1e3 * cold.value * normal(len(x), seed=1)):
            found = tc.transport(x, y, p, b, a, exact=True, start=start)
            assert found.value == pytest.approx(cold.value, rel=1e-9)
            assert found.plan.column_sums() == pytest.approx(cold.plan.column_sums(), rel=0, abs=1e-12)
        monkeypatch.undo()


def test_a_cold_solve_of_few_pairs_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    y, corners = normal(8000, 2), 0.8 * torch.tensor([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    made, make = [], SolveState.__init__
    monkeypatch.setattr(SolveState, "__init__", lambda *given: made.append(given) or make(*given))
    for most, calls in ((limits.COLD_PAIRS, 0), (1 << 14, 1)):
        monkeypatch.setattr(limits, "COLD_PAIRS", most)
        x = corners + 0.5
        found = tc.transport(x, y)
        assert len(made) == calls
        b, a = np.full(4, 1 / 4), np.full(8000, 1 / 8000)
        assert found.value == pytest.approx(ot.emd2(b, a, ot.dist(x.double().numpy(), y.double().numpy())), rel=1e-3)
        assert found.gap <= 1e-3


@pytest.mark.usefixtures("direct")
def test_points_without_weight_are_left_out() -> None:
    x, y = normal(20, 2), normal(100, 2, seed=1)
    b = torch.ones(20)
    b[::3] = 0
    found = tc.transport(x, y, 2, b)
    assert found.value == pytest.approx(tc.transport(x[b > 0], y).value, rel=1e-9)
    assert found.plan.column_sums()[b == 0].abs().max() == 0


def test_both_roads_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in KINDS:
        x, y, b, a = problem_of(kind, 60, 900, 0)
        direct = tc.transport(x, y, 2, b, a, exact=True)
        with monkeypatch.context() as patch:
            patch.setattr(limits, "is_direct", lambda *_: False)
            patch.setattr(limits, "MOST_PAIRS", 0)
            approached = tc.transport(x, y, 2, b, a, exact=True)
        assert direct.value == pytest.approx(approached.value, rel=1e-8), kind


@pytest.mark.parametrize("m", [400, 3000, 30_000])
@pytest.mark.parametrize("kind", KINDS)
def test_a_flow_from_the_cells_of_an_earlier_plan_is_exact(kind: str, m: int) -> None:
    if kind == "784" and m > 3000:
        pytest.skip("takes seconds")
    x, y, b, a = problem_of(kind, 40, m, 0)
    earlier = tc.transport(x, y, 2, b, a)
    moved = x + (y.mean(0) - x) / 2
    truth = tc.transport(moved, y, 2, b, a, exact=True).value
    anywhere = torch.randint(len(x), (len(y),), generator=seeded())
    for cells in (earlier.plan.cells(), anywhere):
        for start in (earlier.potential, 1e3 * normal(len(x), seed=1)):
            found = solve(
                make_problem(moved, y, 2, b, a), tolerance=1e-3, exact=False, start=start, max_steps=100, earlier=cells
            )
            assert found.lower <= truth * (1 + 1e-9)
            assert truth * (1 - 1e-9) <= found.value
            assert found.gap <= 1e-3
            sums = torch.zeros(len(y), dtype=torch.float64).index_add_(0, found.plan.rows, found.plan.mass)
            assert torch.allclose(sums, make_problem(moved, y, 2, b, a).a, rtol=1e-9, atol=0)
            assert torch.allclose(found.plan.column_sums(), found.weights, rtol=0, atol=1e-11)


@pytest.mark.usefixtures("direct")
def test_a_start_far_above_the_costs_leaves_no_mean() -> None:
    """Its digits hide a mean of its size, which the lower bound takes for 0."""
    x, y = normal(6, 3, seed=1).double(), normal(80, 3).double()
    best = tc.transport(x, y, exact=True).potential
    for shift in (1e6, 3e7, -1e8):
        found = tc.transport(x, y, start=best + shift)
        assert float(found.weights @ found.potential) == pytest.approx(0, abs=1e-14)
