"""Engines against each other, how one is chosen, and what is said when one cannot work."""

import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import seeded
from torchcoreset.transport import as_cost
from torchcoreset.transport.passes import choose
from torchcoreset.transport.passes.choose import make_engine
from torchcoreset.transport.passes.dense import DenseEngine
from torchcoreset.transport.passes.engine import Engine
from torchcoreset.transport.passes.fused import CompiledEngine, compiled
from torchcoreset.transport.problem import Problem, make_problem

pytestmark = pytest.mark.usefixtures("two_starts")

interpreted = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs triton and TRITON_INTERPRET=1, which runs its kernels on the CPU",
)


def some_problem(p: float, n: int, m: int, d: int, dtype: torch.dtype) -> Problem:
    """A weighted problem with a far outlier."""
    generator = torch.Generator().manual_seed(n + m + d)
    x, y = (torch.randn(count, d, dtype=dtype, generator=generator) for count in (n, m))
    y[0] = 10.0
    b, a = (torch.rand(count, dtype=torch.float64, generator=generator) + 0.1 for count in (n, m))
    return make_problem(x, y, p, b, a)


def check_agreement(engine: Engine, dense: DenseEngine) -> None:
    """Both engines see the same cells, margins, masses and curvature, to the rounding of the dtype."""
    problem = dense.problem
    eps = torch.finfo(problem.x.dtype).eps
    largest = float((problem.x.norm(dim=1).max() + problem.y.norm(dim=1).max()) ** problem.cost.p)
    v = 0.3 * torch.randn(len(problem.x), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    v = v.to(problem.x.device)
    ours, theirs = engine.hard(v), dense.hard(v)
    torch.testing.assert_close(engine.costs(), dense.costs(), rtol=0, atol=16 * eps * largest)
    moved = ours.cell != theirs.cell
    assert bool((theirs.margin[moved] <= 8 * eps * largest).all()), "only ties may be broken differently"
    torch.testing.assert_close(ours.margin, theirs.margin, rtol=0, atol=16 * eps * largest)
    assert ours.cost.dtype == ours.mass.dtype == torch.float64
    assert ours.dual == pytest.approx(theirs.dual, abs=16 * eps * largest)
    if not bool(moved.any()):
        assert torch.equal(ours.cell, theirs.cell)
        assert torch.equal(ours.cost, theirs.cost)
        torch.testing.assert_close(ours.mass, theirs.mass, rtol=0, atol=1e-14)  # CUDA sums weights in any order
        for given in (None, ours.cell):
            for found, expected in zip(engine.assigned(v, given), dense.assigned(v), strict=True):
                assert found.dtype == expected.dtype
                torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12 * largest)
    for eta in (1.0, 0.1):
        soft, reference = engine.soft(v, eta), dense.soft(v, eta)
        near = {"rtol": 0, "atol": 64 * eps * max(1.0, largest**0.5 / eta)}
        torch.testing.assert_close(soft.mass, reference.mass, **near)
        torch.testing.assert_close(soft.gram, reference.gram, **near)
        assert float(soft.mass.sum()) == pytest.approx(1, abs=64 * eps)
        assert soft.dual == pytest.approx(reference.dual, abs=16 * eps * largest)
        assert soft.softness == pytest.approx(reference.softness, abs=near["atol"])


def check_coincidence(engine: Engine) -> None:
    """Where points lie on samples, costs are zero and nothing is infinite."""
    n = len(engine.problem.x)
    v = torch.zeros_like(engine.problem.b)
    hard, soft = engine.hard(v), engine.soft(v, 0.1)
    assert hard.cell.tolist() == list(range(n))
    assert hard.cost.abs().max() == 0
    _, transform, mass, gradient, moments = engine.assigned(v)
    assert not bool(transform.any() or gradient.any() or moments.any())
    assert mass.tolist() == [1 / n] * n
    assert hard.margin.isfinite().all() or n == 1
    assert soft.mass.isfinite().all()
    assert soft.gram.isfinite().all()


SHAPES = [(1, 50, 1), (3, 40, 2), (7, 100, 2), (130, 200, 5), (65, 130, 16), (70, 65, 37)]


@pytest.mark.parametrize("widest", [16, 32])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize(("n", "m", "d"), SHAPES)
def test_compiled_agrees_with_dense(
    p: float, n: int, m: int, d: int, dtype: torch.dtype, widest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bytes_of_vectors = min(widest, compiled.widest())
    monkeypatch.setattr(compiled, "widest", lambda: bytes_of_vectors)
    problem = some_problem(p, n, m, d, dtype)
    check_agreement(make_engine(problem, "compiled"), DenseEngine(problem))
    check_coincidence(make_engine(make_problem(problem.x[:60], problem.x[:60], p), "compiled"))


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_compiled_passes_do_not_depend_on_threads(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "PART", 400)
    monkeypatch.setattr(compiled, "WORTH", 1)
    problem = some_problem(p, 20, 1050, 3, torch.float32)
    v = torch.linspace(-0.3, 0.3, 20, dtype=torch.float64)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        engine = make_engine(problem, "compiled")
        hard, soft = engine.hard(v), engine.soft(v, 0.2)
        found.append((hard.cell, hard.cost, hard.margin, hard.mass, soft.mass, engine.softmin(v, 0.2)))
    for alone, shared in zip(*found, strict=True):
        assert torch.equal(alone, shared)
    check_agreement(engine, DenseEngine(problem))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shares_are_listed_where_they_are_few(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "PART", 400)
    problem = some_problem(2.0, 50, 1050, 3, dtype)
    v, anew = torch.linspace(-0.3, 0.3, 50, dtype=torch.float64), []

    def computed(engine: Engine, *given: object) -> Tensor:
        anew.append(engine)
        return DenseEngine._gram(engine, *given)

    monkeypatch.setattr(compiled.CompiledEngine, "_gram", computed)
    engine, dense = make_engine(problem, "compiled"), DenseEngine(problem)
    for eta, many in ((3.0, True), (0.05, False)):
        torch.testing.assert_close(engine.soft(v, eta).gram, dense.soft(v, eta).gram, rtol=0, atol=1e-6)
        assert bool(anew) is many
        anew.clear()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_passes_over_products_that_are_held(p: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "HELD_FROM", 3)
    problem = some_problem(p, 260, 300, 3, dtype)
    held, dense = make_engine(problem, "compiled"), DenseEngine(problem)
    held.hold()
    monkeypatch.setattr(compiled, "function", None)  # none is called from here on but for costs, which are others'
    v = torch.linspace(-0.1, 0.1, 260, dtype=torch.float64)
    cells = held.hard(v)
    assert torch.equal(cells.cell, dense.hard(v).cell)
    again, expected = held.hard(v.square(), cells), dense.hard(v.square())
    assert torch.equal(again.cell, expected.cell)
    assert torch.equal(again.cost, expected.cost)
    torch.testing.assert_close(held.costs(), dense.costs())
    index = torch.arange(0, 300, 3)
    few = replace(problem, y=problem.y[index], a=problem.a[index])
    within, supply = torch.full((100,), 0.5), torch.zeros(260, dtype=torch.float64)
    lists = (engine.lists(v, within, supply) for engine in (held.picked(few, index), DenseEngine(few)))
    for ours, theirs in zip(*lists, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_compiled_lists_are_those_of_dense(p: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "PART", 400)
    monkeypatch.setattr(compiled, "LISTED", 1)  # far too little room: it is made when it is needed
    problem = some_problem(p, 41, 333, 3, dtype)
    v = 0.3 * torch.randn(41, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    within = torch.linspace(0, 3, 333, dtype=torch.float64)
    ours, theirs = (make_engine(problem, engine).lists(v, within, 2 * problem.b) for engine in ("compiled", "dense"))
    assert ours[0].dtype == ours[1].dtype == torch.int32
    assert torch.equal(ours[0], theirs[0])
    assert torch.equal(ours[1], theirs[1])
    largest = float((problem.x.norm(dim=1).max() + problem.y.norm(dim=1).max()) ** p)
    torch.testing.assert_close(ours[2], theirs[2], rtol=0, atol=16 * torch.finfo(dtype).eps * largest)


@pytest.mark.parametrize("engine", ["compiled", "dense"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize(("n", "m", "d"), [*SHAPES, (40, 60, 7), (40, 60, 31)])
def test_moments_are_those_of_the_smoothed_plan(
    p: float, n: int, m: int, d: int, dtype: torch.dtype, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "PART", 48)
    problem = some_problem(p, n, m, d, dtype)
    v = 0.3 * torch.randn(n, dtype=torch.float64, generator=seeded())
    sums, mean = make_engine(problem, engine).moments(v + 0.5 * problem.b.log(), 0.5)
    costs = torch.cdist(problem.y.double(), problem.x.double()) ** p
    plan = problem.a[:, None] * ((v - costs) / 0.5 + problem.b.log()).softmax(1)
    rows = torch.cat((problem.y.double(), torch.ones(m, 1)), 1)
    near = {"rtol": 0, "atol": 1e-12 if dtype == torch.float64 else 3e-4}
    torch.testing.assert_close(sums, plan.t() @ rows, **near)
    height = v + problem.b.log() * 0.5
    nearest = max(0.0, float(problem.a @ (costs - height).amin(1) + plan.sum(0) @ height))
    assert mean == pytest.approx(nearest, rel=1e-12 if dtype == torch.float64 else 1e-4)


def test_of_equal_points_the_first_is_nearest() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    y = torch.cat((x, x))
    cells = make_engine(make_problem(x, y), "compiled").hard(torch.zeros(5, dtype=torch.float64))
    assert cells.cell.tolist() == [0, 1, 1, 0, 1] * 2
    assert not cells.margin.any()


def test_rows_that_lie_far_apart_in_memory_are_read() -> None:
    x, y = torch.rand(2, 90, 6, generator=torch.Generator().manual_seed(0))[:, :, ::2]
    v = torch.zeros(30, dtype=torch.float64)
    problem = Problem(
        x=x[:30], y=y.t().contiguous().t(), b=torch.full_like(v, 1 / 30), a=torch.full((90,), 1 / 90).double(),
        equal=True, cost=as_cost(2),
    )  # fmt: skip
    check_agreement(make_engine(problem, "compiled"), DenseEngine(problem))


@pytest.mark.parametrize("p", [1.5, 3.0])
def test_other_powers_are_not_compiled(p: float) -> None:
    problem = some_problem(p, 3, 9, 2, torch.float32)
    assert type(make_engine(problem, "auto")) is DenseEngine
    with pytest.raises(ValueError, match=r"engine: got 'compiled' with .*; expected 'auto' or 'dense': only the"):
        make_engine(problem, "compiled")


@pytest.mark.gpu
def test_compiled_passes_are_for_cpus() -> None:
    problem = make_problem(torch.rand(3, 2, device="cuda"), torch.rand(9, 2, device="cuda"))
    with pytest.raises(ValueError, match=r"engine: got 'compiled' with points on cuda:0; expected the CPU\."):
        make_engine(problem, "compiled")


def test_where_passes_were_not_compiled_auto_is_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = some_problem(2.0, 3, 9, 2, torch.float32)
    assert type(make_engine(problem, "auto")) is CompiledEngine
    monkeypatch.setattr(choose, "is_built", lambda: False)
    assert type(make_engine(problem, "auto")) is DenseEngine


@pytest.mark.keops
@pytest.mark.timeout(600)  # KeOps compiles two formulas for each power and dtype, 30 s each on a busy machine
@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "dtype"), [(1.0, torch.float32), (1.5, torch.float64), (2.0, torch.float32), (2.0, torch.float64)]
)
def test_keops_agrees_with_dense(p: float, dtype: torch.dtype) -> None:
    for n in (1, 40):
        problem = some_problem(p, n, 700, 3, dtype)
        check_agreement(make_engine(problem, "keops"), DenseEngine(problem))
    check_coincidence(make_engine(make_problem(problem.x, problem.x, p), "keops"))


@pytest.mark.keops
@pytest.mark.timeout(600)
@pytest.mark.slow
def test_keops_solves_silently_and_changes_nothing_global(capfd: pytest.CaptureFixture[str]) -> None:
    x, y = torch.randn(2, 300, 3, generator=torch.Generator().manual_seed(0))
    before = torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_rng_state()
    plan = tc.transport(x[:20], y, engine="keops")
    assert capfd.readouterr() == ("", "")
    assert before[:2] == (torch.is_grad_enabled(), torch.get_default_dtype())
    assert torch.equal(before[2], torch.get_rng_state())
    import keopscore
    import pykeops

    assert pykeops.verbose
    assert keopscore.verbose
    assert plan.gap <= 1e-3
    assert plan.value == pytest.approx(tc.transport(x[:20], y, engine="dense").value, rel=2e-3)


@interpreted
@pytest.mark.filterwarnings("ignore:divide by zero encountered in log2:RuntimeWarning")  # numpy's, not a GPU's
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize(("n", "m", "d"), SHAPES)
def test_triton_agrees_with_dense(p: float, n: int, m: int, d: int) -> None:
    problem = some_problem(p, n, m, d, torch.float32)
    check_agreement(make_engine(problem, "triton"), DenseEngine(problem))
    check_coincidence(make_engine(make_problem(problem.x[:60], problem.x[:60], p), "triton"))


@interpreted
def test_triton_in_parts_is_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchcoreset.transport.passes.fused import triton

    problem = some_problem(2.0, 20, 300, 2, torch.float32)
    v = torch.zeros(20, dtype=torch.float64)
    whole = make_engine(problem, "triton").soft(v, 0.5)
    monkeypatch.setattr(triton, "PARTIAL_ELEMENTS", 1)
    parts = make_engine(problem, "triton").soft(v, 0.5)
    torch.testing.assert_close(parts.mass, whole.mass)
    torch.testing.assert_close(parts.gram, whole.gram)


@interpreted
def test_triton_is_dense_in_float64() -> None:
    assert type(make_engine(some_problem(2.0, 3, 9, 2, torch.float64), "triton")) is DenseEngine


def test_a_subsample_keeps_the_kind_of_engine() -> None:
    class Other(DenseEngine):
        pass

    assert type(Other(some_problem(2.0, 3, 90, 2, torch.float32)).subsample(10)) is Other


EVERY_DOOR: list[Callable[[str], object]] = [
    lambda engine: tc.transport(torch.zeros(1, 2), torch.ones(3, 2), engine=engine),
    lambda engine: tc.wasserstein(torch.zeros(1, 2), torch.ones(3, 2), engine=engine),
    lambda engine: tc.CoresetLoss(engine=engine),
    lambda engine: tc.build_coreset(torch.rand(9, 2), 2, engine=engine),
]
doors = pytest.mark.parametrize("door", EVERY_DOOR, ids=["transport", "wasserstein", "CoresetLoss", "build_coreset"])


@doors
@pytest.mark.parametrize("engine", ["auto", "compiled", "dense"])
def test_every_door_takes_an_engine(door: Callable[[str], object], engine: str) -> None:
    door(engine)


@doors
def test_an_unknown_engine_is_refused_with_the_names(door: Callable[[str], object]) -> None:
    with pytest.raises(
        ValueError, match=r"engine: got 'cuda'; expected one of 'auto', 'compiled', 'dense', 'keops', 'triton'\."
    ):
        door("cuda")


@pytest.mark.parametrize("algorithm", ["fixed_point", "sgd", "gradient"])
def test_every_algorithm_hands_the_engine_on(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = spy(monkeypatch)
    y = torch.rand(200, 2, generator=torch.Generator().manual_seed(0))
    tc.build_coreset(y, 3, algorithm=algorithm, steps=2, engine="dense")
    assert asked
    assert set(asked) == {"dense"}


@pytest.mark.parametrize("d", [2, 101, 784])
def test_auto_takes_no_keops_on_a_cpu(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_keops", lambda problem: pytest.fail("auto chose KeOps"))
    monkeypatch.setattr(choose, "_triton", lambda problem: pytest.fail("auto chose triton"))
    plan = tc.transport(torch.zeros(1, d), torch.ones(16, d))
    assert plan.value == pytest.approx(d, rel=1e-4)


@pytest.mark.keops
@pytest.mark.parametrize("d", [100, 101])
def test_keops_warns_of_many_dimensions(d: int, recwarn: pytest.WarningsRecorder) -> None:
    make_engine(some_problem(2.0, 2, 5, d, torch.float32), "keops")  # compiles nothing before its first pass
    told = [str(warning.message) for warning in recwarn if "engine: 'keops'" in str(warning.message)]
    assert len(told) == (d > 100)
    assert all("101 dimensions" in text and "engine='dense'" in text for text in told)


@pytest.mark.keops
@pytest.mark.parametrize("reason", ["g++: not found", ""])
def test_a_keops_that_cannot_compile_says_what_to_do(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pykeops.torch import LazyTensor

    def fail(*_: object, **__: object) -> None:
        raise OSError(reason)

    monkeypatch.setattr(LazyTensor, "Kmin_argKmin", fail)
    # too many samples for a solve that needs no engine
    x, y = torch.zeros(2, 2, requires_grad=True), torch.rand(5000, 2, generator=torch.Generator().manual_seed(0))
    loss = tc.CoresetLoss(engine="keops")
    with pytest.raises(RuntimeError, match=r"engine: 'keops' failed .*OSError.*engine='dense', or .*[.]") as caught:
        loss(x, y)
    assert reason in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)
    assert torch.is_grad_enabled()
    assert loss.last is None
    loss.engine = "dense"
    loss(x, y).backward()
    torch.testing.assert_close(x.grad.sum(0), -2 * y.mean(0))


@pytest.mark.keops
def test_the_remedy_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchcoreset.transport.passes.fused.keops import _remedy

    (tmp_path / "file").touch()
    monkeypatch.setenv("KEOPS_CACHE_FOLDER", str(tmp_path / "file" / "keops"))
    assert "set KEOPS_CACHE_FOLDER" in _remedy()
    assert str(tmp_path / "file") in _remedy()
    monkeypatch.setenv("KEOPS_CACHE_FOLDER", str(tmp_path / "new" / "keops"))
    assert _remedy().startswith("check the C++ compiler")
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("PATH", "")
    assert "compiler" in _remedy()


def test_a_missing_pykeops_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pykeops", None)
    with pytest.raises(ImportError, match=r"engine: 'keops' needs pykeops.*pip install 'torchcoreset\[keops\]'"):
        tc.transport(torch.zeros(1, 2), torch.ones(3, 2), engine="keops")


def test_a_missing_triton_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(ImportError, match=r"engine: 'triton' needs triton.*engine='dense'"):
        tc.transport(torch.zeros(1, 2), torch.ones(3, 2), engine="triton")


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="interpreted kernels run on the CPU")
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
def test_triton_wants_a_gpu() -> None:
    with pytest.raises(ValueError, match=r"engine: got 'triton' with points on cpu; expected a CUDA device"):
        tc.transport(torch.zeros(1, 2), torch.ones(3, 2), engine="triton")


def spy(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the engines that solvers ask for from here on."""
    from torchcoreset.transport.solving import state

    asked: list[str] = []

    def listen(problem: Problem, engine: str) -> Engine:
        asked.append(engine)
        return make_engine(problem, engine)

    monkeypatch.setattr(state, "make_engine", listen)
    return asked


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_the_cheapest_samples_of_points_are_those_of_dense(
    p: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "FEW", 3)
    problem = some_problem(p, 41, 333, 3, dtype)
    generator = torch.Generator().manual_seed(0)
    v = 0.3 * torch.randn(41, dtype=torch.float64, generator=generator)
    highest = torch.rand(333, generator=generator, dtype=dtype)
    points, counts = torch.tensor([40, 2, 3, 17, 30, 31, 5]), torch.tensor([1, 2, 150, 7, 333, 300, 7])
    found = []
    for engine in ("compiled", "dense"):
        row, loss = make_engine(problem, engine)._cheapest(points, counts, v, highest)
        parts = zip(row.split(counts.tolist()), loss.split(counts.tolist()), strict=True)
        found.append([(some.sort().values, losses.sort().values) for some, losses in parts])
    for ours, theirs in zip(*found, strict=True):
        assert torch.equal(ours[0], theirs[0])
        torch.testing.assert_close(ours[1], theirs[1], rtol=0, atol=256 * torch.finfo(dtype).eps)
