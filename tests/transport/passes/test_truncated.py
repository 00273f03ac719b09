"""Soft passes over lists, against those over all points; what is listed, and when lists are made anew."""

import importlib
import math

import pytest
import torch
from torch import Tensor

from torchcoreset.transport.passes import truncated as candidates_module
from torchcoreset.transport.passes.dense import SUPPLY, DenseEngine
from torchcoreset.transport.passes.nearest import places_below
from torchcoreset.transport.passes.truncated import LEAST_REACH, REACH, TruncatedEngine
from torchcoreset.transport.problem import make_problem

dense_module = importlib.import_module("torchcoreset.transport.passes.dense")
every_power = pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
either_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def some_engine(
    p: float = 2.0, n: int = 60, m: int = 900, *, weighted: bool = True, dtype=torch.float64
) -> DenseEngine:
    generator = torch.Generator().manual_seed(n + m)
    x, y = (torch.randn(count, 2, dtype=torch.float64, generator=generator).to(dtype) for count in (n, m))
    b, a = (torch.rand(count, dtype=torch.float64, generator=generator) + 0.1 for count in (n, m))
    return DenseEngine(make_problem(x, y, p, b, a) if weighted else make_problem(x, y, p))


def some_potential(n: int = 60, scale: float = 0.1) -> Tensor:
    return scale * torch.randn(n, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def lists_of(engine: DenseEngine, v: Tensor, eta: float) -> TruncatedEngine:
    return TruncatedEngine(engine.problem, engine.meter, engine._search, v, eta)


def cost_of(engine: DenseEngine) -> Tensor:
    return (engine.problem.y[:, None] - engine.problem.x).double().norm(dim=2) ** engine.problem.cost.p


def as_table(rows: Tensor, cols: Tensor, shape: tuple[int, int]) -> Tensor:
    """How often each pair is listed."""
    return torch.bincount(rows.long() * shape[1] + cols, minlength=shape[0] * shape[1]).view(shape)


@every_power
@either_dtype
@pytest.mark.parametrize("eta", [0.1, 0.02])
def test_sums_are_those_over_all_points(
    p: float, dtype: torch.dtype, eta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense_module, "DECIDED", -1.0)
    engine, v = some_engine(p, dtype=dtype), some_potential()
    lists = lists_of(engine, v, eta)
    assert lists.filled < 0.9
    ours, theirs = lists.soft(v, eta), engine.soft(v, eta)
    # each point left out has a share below exp(-REACH) relative to the largest b_i exp((v_i - c) / eta)
    lost = 60 * math.exp(-REACH)
    assert -1e-5 * eta <= ours.dual - theirs.dual <= lost * eta
    assert float((ours.mass - theirs.mass).abs().sum()) <= 2 * lost
    assert float(ours.mass.sum()) == pytest.approx(1, abs=1e-5)
    assert ours.softness == pytest.approx(theirs.softness, abs=lost)
    assert torch.equal(ours.gram, ours.gram.t()) or torch.allclose(ours.gram, ours.gram.t(), atol=1e-6)


@every_power
def test_with_all_points_in_reach_sums_are_exact(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_module, "DECIDED", -1.0)
    monkeypatch.setattr(candidates_module, "SMALL", -1.0)
    monkeypatch.setattr(candidates_module, "ENOUGH", 10**9)
    engine, v = some_engine(p), some_potential()
    lists = lists_of(engine, v, 1e3)
    assert lists.filled == 1
    ours, theirs = lists.soft(v, 0.3), engine.soft(v, 0.3)
    assert ours.dual == pytest.approx(theirs.dual, rel=1e-11)
    assert ours.softness == pytest.approx(theirs.softness, rel=1e-9)
    torch.testing.assert_close(ours.mass, theirs.mass, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(ours.gram, theirs.gram, rtol=1e-8, atol=1e-12)


def test_the_overlap_of_some_samples_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, v = some_engine(n=20, m=6000), some_potential(20)
    lists = lists_of(engine, v, 0.3)
    monkeypatch.setattr(candidates_module, "ENOUGH", 10**9)
    whole = lists.soft(v, 0.3).gram
    monkeypatch.setattr(candidates_module, "ENOUGH", 200)
    part = lists.soft(v, 0.3).gram
    assert not torch.equal(part, whole)
    assert float((part - whole).norm()) <= 0.2 * float(whole.norm())


@every_power
@pytest.mark.parametrize("parts", [False, True])
def test_everything_in_reach_is_listed_once(p: float, parts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if parts:
        monkeypatch.setitem(importlib.import_module("torchcoreset.transport.passes.engine").CHUNK_ELEMENTS, "cpu", 1)
        monkeypatch.setattr(dense_module, "CHUNK", 1)
    engine, v = some_engine(p), some_potential()
    margin, supply = 0.2, SUPPLY * engine.problem.b
    rows, cols, cost = engine.lists(v, torch.full((900,), margin), supply)
    torch.testing.assert_close(cost, cost_of(engine)[rows.long(), cols.long()].to(cost.dtype))
    assert rows.dtype == cols.dtype == torch.int32
    assert bool((rows.diff() >= 0).all())
    table = as_table(rows, cols, (900, 60))
    assert int(table.max()) == 1
    reduced = cost_of(engine) - v
    beyond = reduced - reduced.amin(1, keepdim=True) - margin
    assert bool((table[beyond < -1e-9] == 1).all())
    # what is listed from beyond the margin belongs to points that lacked supply
    near = engine.problem.a @ (beyond <= 1e-9).double()
    assert bool((near[(table > (beyond <= 1e-9)).any(0)] < supply[(table > (beyond <= 1e-9)).any(0)]).all())


@pytest.mark.parametrize("lack", [4.0, 1e6])
def test_every_point_is_supplied(lack: float) -> None:
    # the first point is so unattractive that nobody lists it of his own accord; the others are listed by some
    engine, v = some_engine(weighted=False), some_potential()
    v[0] = -1e3
    supply = lack * engine.problem.b
    rows, cols, _ = engine.lists(v, torch.full((900,), 0.01), supply)
    table = as_table(rows, cols, (900, 60))
    assert int(table.max()) == 1
    listed = engine.problem.a @ table.double()
    assert bool((listed >= supply.clamp(max=1) - 1e-9).all())
    reduced = cost_of(engine) - v
    loss = reduced[:, 0] - reduced.amin(1)
    assert float(loss[table[:, 0] == 1].max()) <= float(loss[table[:, 0] == 0].min()) if lack < 60 else table.all()


def test_lists_of_a_solve_supply_every_point() -> None:
    engine, v = some_engine(weighted=False), some_potential()
    v[:5] = -1e3
    lists = lists_of(engine, v, 1e-3)
    listed = torch.bincount(lists._cols, minlength=60) / 900
    assert bool((listed >= SUPPLY / 60 - 1e-9).all())
    assert lists.soft(v, 1e-3).mass.isfinite().all()


def test_lists_are_made_anew_when_the_potential_has_moved_far() -> None:
    engine, v, eta = some_engine(), some_potential(), 0.02
    lists = lists_of(engine, v, eta)
    kept = lists._cols
    near, far = v.clone(), v.clone()
    near[0] += 0.99 * (REACH - LEAST_REACH) * eta
    far[0] += 1.01 * (REACH - LEAST_REACH) * eta
    assert not lists.renew(v, eta)
    assert not lists.renew(v + 100, eta)  # an offset moves nobody
    assert not lists.renew(near, eta)
    assert lists._cols is kept
    before = engine.meter.spent
    assert lists.renew(far, eta)
    assert engine.meter.spent == before + 1
    assert not lists.renew(far, eta)
    fresh = lists_of(engine, far, eta)
    assert torch.equal(lists._rows, fresh._rows)
    assert torch.equal(lists._cols, fresh._cols)
    assert lists.soft(far, eta).dual == fresh.soft(far, eta).dual


def test_lists_are_made_anew_for_a_wider_smoothing_only() -> None:
    engine, v = some_engine(), some_potential()
    lists = lists_of(engine, v, 0.02)
    assert not lists.renew(v, 0.005)
    assert lists.renew(v, 0.08)
    assert not lists.renew(v, 0.08)


def test_a_pass_counts_by_its_entries() -> None:
    engine, v = some_engine(), some_potential()
    lists = lists_of(engine, v, 0.02)
    before = engine.meter.spent
    lists.soft(v, 0.02)
    assert engine.meter.spent - before == pytest.approx(lists.filled)


def test_lists_are_taken_where_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, v = some_engine(), some_potential()
    assert engine.candidates(v, 0.01) is engine
    monkeypatch.setattr(dense_module, "SPARSE_FROM", 60)
    assert isinstance(engine.candidates(v, 0.01), TruncatedEngine)
    assert engine.candidates(v, 1e3) is engine  # every point in reach of every sample
    monkeypatch.setattr(dense_module, "DENSE_POINTS", 59)
    assert isinstance(engine.candidates(v, 1e3), TruncatedEngine)


def test_places_are_found_alike_with_numpy_and_without() -> None:
    block = torch.rand(30, 70, generator=torch.Generator().manual_seed(0))
    bound = block.amin(1, keepdim=True) + 0.1
    bound[3] = block[3, 5]  # the bound is within
    assert torch.equal(places_below(block, bound), (block <= bound).flatten().nonzero()[:, 0])


def test_the_curvature_of_a_pass_outlives_its_lists() -> None:
    engine, v = some_engine(), some_potential()
    lists = lists_of(engine, v, 0.05)
    expected = lists.soft(v, 0.05).gram
    later = lists.soft(v, 0.05)
    assert lists.renew(v + 10 * some_potential(scale=1.0), 0.5)
    assert torch.equal(later.gram, expected)
