"""What rounding may hide: the bound on it, against passes computed from differences in float64."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.data import normal
from torchcoreset.transport import problem as problem_module
from torchcoreset.transport.passes.dense import DenseEngine, DifferencesEngine
from torchcoreset.transport.passes.rounding import doubtful
from torchcoreset.transport.problem import Problem, make_problem, without_offset

every_power = pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def far(p: float, dtype: torch.dtype, apart: float, d: int = 3) -> tuple[Problem, Tensor]:
    """Two groups some distance apart, on integers so that many samples are tied, and a potential."""
    x, y = (2 * normal(12, d)).round(), (3 * normal(400, d, seed=1)).round()
    x[6:, 0] += apart
    y[200:, 0] += apart
    return make_problem(x.to(dtype), y.to(dtype), p), normal(12, seed=2)


@every_power
@both_dtypes
@pytest.mark.parametrize("apart", [0.0, 1e3, 1e6, 1e9])
def test_no_minimum_lies_below_what_is_in_doubt(p: float, dtype: torch.dtype, apart: float) -> None:
    problem, v = far(p, dtype, apart)
    v = v - problem.b @ v
    engine = DenseEngine(problem)
    cell, margin = engine._two_nearest(v)
    cost = engine._cost_to(cell)
    index, loss = doubtful(problem, v, cell, cost, margin, problem.squares)
    lowest = torch.zeros(len(cell), dtype=torch.float64).index_add_(0, index, loss)
    truth = (problem.cost.pairwise_exact(problem.y.double(), problem.x.double()) - v).amin(1)
    assert bool((cost - v[cell] - lowest <= truth + 1e-13 * (1 + cost)).all())


@every_power
@both_dtypes
@pytest.mark.parametrize("apart", [0.0, 1e3, 1e6, 1e9])
def test_the_semi_dual_is_a_lower_bound(p: float, dtype: torch.dtype, apart: float) -> None:
    problem, v = far(p, dtype, apart)
    truth = (
        problem.a @ (problem.cost.pairwise_exact(problem.y.double(), problem.x.double()) - v).amin(1) + problem.b @ v
    )
    engine = DenseEngine(problem)
    first = engine.hard(v)
    again = engine.hard(v + 1e-3 * normal(12, seed=3), first)
    back = engine.hard(v, again)
    for cells in (first, back, engine.sharpened(first)):
        assert cells.dual <= float(truth) + 1e-12 * cells.mean
        assert cells.dual >= float(truth) - 1e-5 * cells.mean - 2 * cells.error
    for cells in (first, again):  # sharpened where doubts are known to be, and where they may be anywhere
        known, anywhere = (engine.sharpened(some) for some in (cells, replace(cells, doubts=None)))
        assert (known.error, known.dual) == (anywhere.error, anywhere.dual)
        assert torch.equal(known.cell, anywhere.cell)


@every_power
def test_passes_from_differences_are_those_of_matrix_products(p: float) -> None:
    problem, v = make_problem(normal(12, 3), normal(300, 3, seed=1), p, normal(12, seed=3).square()), normal(12, seed=2)
    ours, dense = DifferencesEngine(problem), DenseEngine(problem)
    assert torch.equal(ours.hard(v).cell, dense.hard(v).cell)
    assert ours.hard(v).dual == pytest.approx(dense.hard(v).dual, rel=1e-12)
    torch.testing.assert_close(ours.softmin(v, 0.3), dense.softmin(v, 0.3))
    soft, expected = ours.soft(v, 0.3), dense.soft(v, 0.3)
    assert soft.dual == pytest.approx(expected.dual, rel=1e-12)
    torch.testing.assert_close(soft.mass, expected.mass)
    torch.testing.assert_close(soft.gram, expected.gram)
    lists = [engine.lists(v, problem.a.new_full((300,), 0.5), problem.b) for engine in (ours, dense)]
    for found, wanted in zip(*lists, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


@every_power
def test_passes_from_differences_resolve_groups_far_apart(p: float) -> None:
    problem, v = far(p, torch.float64, 1e12)
    truth = problem.cost.pairwise_exact(problem.y, problem.x) - v
    cells = DifferencesEngine(problem).hard(v)
    torch.testing.assert_close(cells.cost - v[cells.cell], truth.amin(1), rtol=1e-12, atol=0)
    assert cells.error <= 1e-11 * cells.mean


def test_few_samples_of_a_cloud_are_in_doubt() -> None:
    for d in (2, 16, 784):
        problem = make_problem(normal(50, d).float(), normal(2000, d, seed=1).float(), 2)
        v = 0.1 * normal(50, seed=2)
        engine = DenseEngine(problem)
        cell, margin = engine._two_nearest(v)
        index, _ = doubtful(problem, v, cell, engine._cost_to(cell), margin, problem.squares)
        assert len(index) <= 0.05 * 2000


def test_bfloat16_products_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.set_float32_matmul_precision` lets products round to 8 or 11 bits on some devices."""
    problem, v = far(2.0, torch.float32, 0.0)
    engine = DenseEngine(problem)
    cell, margin = engine._two_nearest(v)
    counts = []
    for precision in ("highest", "high", "medium"):
        monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda precision=precision: precision)
        counts.append(len(doubtful(problem, v, cell, engine._cost_to(cell), margin, problem.squares)[0]))
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


@both_dtypes
def test_a_shift_rounds_no_number(dtype: torch.dtype) -> None:
    offset = normal(30, 2).to(dtype) + 1e6
    less, _ = without_offset(offset, offset.clone(), 1e6 + 5)
    assert float(less.abs().max()) < 10
    both = torch.cat((normal(30, 2), normal(30, 2) + 1e9)).to(dtype)
    same, _ = without_offset(both, both.clone(), 1e9 + 5)
    assert torch.equal(same, both)
    mixed = torch.stack((offset[:, 0], both[15:45, 0]), 1)  # one column of each kind
    columns, _ = without_offset(mixed, mixed.clone(), 1e9 + 5)
    assert torch.equal(columns[:, 1], mixed[:, 1])
    assert float(columns[:, 0].abs().max()) < 100
    for rows in (offset, both, mixed, normal(2000, 2).to(dtype), normal(2000, 2).to(dtype) + 3, normal(50, 3).round()):
        less, _ = without_offset(rows, rows.clone(), float(rows.abs().max()))
        exact = rows.double()[:, None] - rows.double()[None, :20]  # differences of float32 are exact in float64
        if dtype == torch.float32:
            assert torch.equal(less.double()[:, None] - less.double()[None, :20], exact)
        else:
            torch.testing.assert_close(less[:, None] - less[None, :20], exact, rtol=0, atol=0)


def test_many_numbers_are_copied_only_for_an_offset_that_costs_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem_module, "SHOWN", 50)
    rows = (3 * normal(200, 4)).round()  # whole numbers, from which any whole shift could be taken
    for offset, shifted in ((0.0, False), (2.0, False), (1e4, True)):
        y = rows + offset
        x, less = without_offset(y[:20], y, float(y.abs().max()))
        assert (less.data_ptr() != y.data_ptr()) == shifted
        assert torch.equal(x[:, None] - less[None], y[:20, None] - y[None])
        assert x.data_ptr() != y.data_ptr()  # points may be stepped while the problem is kept


@pytest.mark.parametrize("scale", [0.0, 1e-45, 1e-41, 1e-38, 1e30])
@both_dtypes
def test_a_shift_of_the_smallest_and_largest_numbers(dtype: torch.dtype, scale: float) -> None:
    rows = (scale * (normal(20, 2) + 5)).to(dtype)
    less, _ = without_offset(rows, rows.clone(), float(rows.abs().max()))
    assert torch.equal(less - less[:1], rows - rows[:1])


@both_dtypes
def test_blocks_of_rows_are_one_table(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = normal(5, 3).round().to(dtype) + 9, (5 * normal(3000, 3)).round().to(dtype) + 9
    a = torch.rand(3000, generator=torch.Generator().manual_seed(1))
    y[2500, 1] += 2**-30 if dtype == torch.float64 else 2**-12  # beyond the rows that are looked at first
    whole = make_problem(x, y, 2, None, a)
    monkeypatch.setattr(problem_module, "BLOCK", 50)
    parts = make_problem(x, y, 2, None, a)
    assert torch.equal(parts.y, whole.y)
    torch.testing.assert_close(parts.mean_sample(), whole.a @ whole.y.double())
    assert parts.spread == pytest.approx(whole.spread, rel=1e-9)


def test_a_problem_never_shares_memory_with_its_points() -> None:
    x = normal(5, 2)
    assert make_problem(x, normal(20, 2)).x.data_ptr() != x.data_ptr()
