"""Small problems, and those with few samples a point: all samples are balanced, without an approach."""

from typing import Any

import numpy as np
import ot
import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.benchmarks.problems import separated
from tests.data import normal, seeded, seeds
from torchcoreset.coresets.start.bisection import leaf_means, leaves
from torchcoreset.transport.passes import make_engine
from torchcoreset.transport.presolve import arithmetic, potential
from torchcoreset.transport.problem import Problem, make_problem
from torchcoreset.transport.solve import solve
from torchcoreset.transport.solving import all_pairs, limits, rounds, run, wrong_mass
from torchcoreset.transport.solving.all_pairs import balance_all_pairs, line_potential
from torchcoreset.transport.solving.limits import is_small, prefers_flow
from torchcoreset.transport.solving.state import Settings, SolveState

KINDS = ("smooth", "clusters", "tails", "repeated", "light weights", "784", "offset", "integers", "tiny")
SIZES = ((10, 100), (50, 200), (100, 200), (133, 400), (400, 133), (150, 150), (40, 2000))


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """An approach is an error."""

    def refuse(*_: object) -> None:
        raise AssertionError("approached")

    for module in (run, potential):
        monkeypatch.setattr(module, "ascend", refuse)


def problem_of(kind: str, n: int, m: int, seed: int) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Points, samples and the weights of both."""
    d = 784 if kind == "784" else 3
    x, y = normal(n, d, seed=seed), 1.5 * normal(m, d, seed=seed + 100)
    b, a = None, None
    match kind:
        case "clusters":
            y = 0.2 * y + 5 * (torch.arange(m) % 7).clamp(max=4)[:, None]
        case "tails":
            y = torch.from_numpy(np.random.default_rng(seed).standard_cauchy((m, d)))
        case "repeated":
            x, y = x[torch.arange(n) // 2], y[torch.arange(m) % max(1, m // 5)]
        case "light weights":
            rng = np.random.default_rng(seed)
            b, a = (torch.from_numpy(rng.random(count) ** 20 + 1e-15) for count in (n, m))
        case "offset":
            x, y = x + 1e6, y + 1e6
        case "integers":
            x, y = (2 * x).round(), (2 * y).round()
        case "tiny":
            x, y = x[: max(2, n // 20)], y[: max(1, m // 50)]
    return x, y, b, a


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


def test_a_cold_solve_of_few_pairs_is_one_call_near_balance(monkeypatch: pytest.MonkeyPatch) -> None:
    y, corners = normal(8000, 2), 0.8 * torch.tensor([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    made, make = [], SolveState.__init__
    monkeypatch.setattr(SolveState, "__init__", lambda *given: made.append(given) or make(*given))
    for shift, calls in ((0.05, 0), (0.5, 1)):
        x = corners + shift
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


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("p", [1, 2, 3])
def test_rows_about_a_line_begin_with_their_order(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (0.0, 1e-3, 0.3):
        x, y = (normal(count, 3, seed=count) * torch.tensor([1.0, width, width]) for count in (100, 1500))
        begun = SolveState(_problem(x, y, p), _settings())
        v = line_potential(begun.problem)
        found = tc.transport(x, y, p, exact=True)
        assert begun.evaluate(v).dual > 0.7 * found.value
        with monkeypatch.context() as patch:
            patch.setattr(all_pairs, "LINE_PAIRS", len(x) * len(y) + 1)
            assert line_potential(begun.problem) is None
            assert tc.transport(x, y, p, exact=True).value == pytest.approx(found.value, rel=1e-9)


def test_rows_that_vary_in_several_directions_do_not() -> None:
    assert line_potential(_problem(normal(100, 2), normal(1500, 2, seed=1))) is None
    same = torch.ones(1500, 2, dtype=torch.float64)
    assert tc.transport(normal(100, 2), same).gap <= 1e-6, "rows without any direction are no error"


def test_both_roads_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in KINDS:
        x, y, b, a = problem_of(kind, 60, 900, 0)
        direct = tc.transport(x, y, 2, b, a, exact=True)
        with monkeypatch.context() as patch:
            patch.setattr(limits, "is_direct", lambda *_: False)
            patch.setattr(limits, "MOST_PAIRS", 0)
            approached = tc.transport(x, y, 2, b, a, exact=True)
        assert direct.value == pytest.approx(approached.value, rel=1e-8), kind


@pytest.mark.usefixtures("direct")
def test_large_problems_with_few_samples_a_point_are_direct_too() -> None:
    x, y = normal(700, 2), normal(5000, 2, seed=1)
    assert len(y) > limits.FEW
    assert tc.transport(x, y).gap <= 1e-6


def test_many_samples_a_point_are_approached() -> None:
    x, y, potential = normal(20, 2), normal(100_000, 2, seed=1), torch.zeros(20, dtype=torch.float64)
    assert not is_small(SolveState(_problem(x, y), _settings()), None)
    assert not is_small(SolveState(_problem(x, y), _settings()), potential)
    assert not is_small(SolveState(_problem(x, y[:5000]), _settings()), None)
    assert is_small(SolveState(_problem(x, y[:5000]), _settings()), potential)
    assert is_small(SolveState(_problem(x, y[:2000]), _settings()), None)
    assert is_small(SolveState(_problem(x, y[:13_000]), _settings()), potential)
    assert not is_small(SolveState(_problem(x.repeat(1, 50), y[:13_000].repeat(1, 50)), _settings()), potential)


def test_between_clusters_a_flow_takes_over_from_newton() -> None:
    x, y = separated(20, 16_000, 8, distance=20)(0)
    b = torch.rand(20, generator=torch.Generator().manual_seed(0)) + 0.5
    start = tc.transport(x, y, 2, b).potential
    x = x + 0.1 * normal(20, 8, seed=1).to(x)
    begun = SolveState(make_problem(x, y, 2, b), _settings())
    assert not is_small(begun, start)
    assert prefers_flow(begun)
    found, exact = tc.transport(x, y, 2, b, start=start), tc.transport(x, y, 2, b, exact=True)
    assert found.value == pytest.approx(exact.value, rel=1e-3)
    assert found.steps <= 4, "Newton's corrections alone are more"


def test_a_lost_start_is_given_up_for_zero() -> None:
    x, y = normal(40, 3), normal(2000, 3, seed=1)
    lost = torch.where(torch.arange(40) == 7, 1e3, 0.0).double()
    begun = SolveState(make_problem(x, y, 2), _settings())
    assert balance_all_pairs(begun, lost)
    assert begun.value == pytest.approx(tc.transport(x, y, exact=True).value, rel=1e-9)


def test_a_flow_begins_where_less_mass_is_in_wrong_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = normal(20, 3), normal(20_000, 3, seed=1)
    x, y = (torch.where(rows[:, :1] > 0, rows + 40, rows) for rows in (x, y))
    # As high as what it costs to cross between the groups, but most samples of each are in one cell.
    guess = tc.transport(x, y).potential
    guess[x[:, 0].argmin()] += 3
    guess[x[:, 0].argmax()] += 3
    problem = _problem(x, y)
    zero, higher = (make_engine(problem, "auto").hard(v) for v in (torch.zeros_like(guess), guess))
    assert higher.dual > zero.dual
    assert (higher.mass - problem.b).abs().sum() > (zero.mass - problem.b).abs().sum()
    pivots, of = [], all_pairs.solve_pairs
    monkeypatch.setattr(all_pairs, "solve_pairs", lambda *args: pivots.append(found := of(*args)) or found)
    for start in (guess, None):
        assert balance_all_pairs(SolveState(problem, _settings()), start)
    assert pivots[0].pivots == pivots[1].pivots


@pytest.mark.usefixtures("direct")
def test_lost_starts_are_given_up_for_a_flow_from_zero_where_that_is_near() -> None:
    y = separated(20, 16_000, 8, distance=20)(0)[1]
    index, sizes = leaves(y, 20, seeded())
    x, lost = leaf_means(y[index], sizes), 1e4 * normal(20, 1, seed=2)[:, 0].double()
    assert not is_small(SolveState(_problem(x, y), _settings()), lost)
    assert tc.transport(x, y, start=lost).gap <= 1e-3


@pytest.mark.parametrize(("pairs", "per_point", "wrong", "approaches"), [
    (1 << 20, 1000, 0.1, False), (1 << 20, 1000, 0.3, True), (1 << 17, 1000, 0.1, True), (1 << 20, 300, 0.1, True),
])  # fmt: skip
def test_a_start_with_much_mass_in_wrong_cells_takes_a_flow_up_to_some_size(
    pairs: int, per_point: int, wrong: float, approaches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"FEW_PAIRS": 0, "FEWEST_PAIRS": 0, "WARM_PAIRS": pairs, "FLOW_PER_POINT": per_point}.items():
        monkeypatch.setattr(limits, name, value)
    monkeypatch.setattr(wrong_mass, "FAILED_ERROR", wrong)
    y = separated(20, 10_000, 8)(0)[1]
    index, sizes = leaves(y, 20, seeded())
    x = leaf_means(y[index], sizes)
    zero = torch.zeros(20, dtype=torch.float64)
    assert 0.1 < float((make_engine(_problem(x, y), "auto").hard(zero).mass - 0.05).abs().sum()) / 2 < 0.3
    approached, ascend = [], run.ascend
    monkeypatch.setattr(run, "ascend", lambda *args, **by: approached.append(True) or ascend(*args, **by))
    assert tc.transport(x, y, start=zero).gap <= 1e-3
    assert bool(approached) == approaches


@pytest.mark.parametrize("far", [False, True])
def test_few_samples_come_before_all_pairs_only_far_from_balance(far: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FEWEST_PAIRS", 0)
    monkeypatch.setattr(run, "starts_by_flow", lambda *_: False)
    monkeypatch.setattr(run, "ascend", lambda state, *_, **__: (state.evaluate(state.zero), None))
    monkeypatch.setattr(run, "is_far", lambda *_: far)
    few: list[SolveState] = []
    monkeypatch.setattr(run, "balance_from_few", lambda state: few.append(state) or False)
    y = separated(20, 10_000, 8)(0)[1]
    index, sizes = leaves(y, 20, seeded())
    assert tc.transport(leaf_means(y[index], sizes), y, start=torch.zeros(20, dtype=torch.float64)).gap <= 1e-3
    assert bool(few) == far


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


def _problem(x: Tensor, y: Tensor, p: float = 2) -> Problem:
    return make_problem(x, y, p)


def _settings() -> Settings:
    return Settings(1e-3, False, 100, "auto", False)


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("kind", ["smooth", "clusters", "offset"])
@pytest.mark.parametrize("m", [500, 3600])
def test_a_warm_solve_is_over_lists_only_where_there_are_many_pairs(
    kind: str, m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, b, a = problem_of(kind, 300, m, 1)
    exact = tc.transport(x, y, 2, b, a, exact=True)
    start = tc.transport(x + 1e-3, y, 2, b, a).potential

    def counted(*arguments: Any) -> Tensor:
        listed.append(True)
        return balance(*arguments)

    balance, listed = all_pairs.balance_boundary, []
    for module in (all_pairs, rounds):
        monkeypatch.setattr(module, "balance_boundary", counted)
    found = tc.transport(x, y, 2, b, a, start=start)
    assert bool(listed) == (len(x) * m >= all_pairs.LISTED_PAIRS)
    assert found.lower <= exact.value * (1 + 1e-9)
    assert exact.value * (1 - 1e-9) <= found.value <= exact.value * (1 + 1e-3)
