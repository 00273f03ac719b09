"""Every engine against the dense one, on a CUDA device."""

import importlib.util
from dataclasses import replace

import pytest
import torch

import torchcoreset as tc
from tests.transport.passes.test_engines import check_agreement, check_coincidence, some_problem
from torchcoreset.transport.passes.choose import make_engine
from torchcoreset.transport.passes.dense import DenseEngine
from torchcoreset.transport.problem import make_problem

pytestmark = pytest.mark.gpu

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")


def cuda_problem(p, n, m, d, dtype):
    problem = some_problem(p, n, m, d, dtype)
    return replace(problem, **{name: getattr(problem, name).cuda() for name in "xbya"})


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dense_agrees_with_the_cpu(p, dtype):
    problem = some_problem(p, 70, 3_000, 5, dtype)
    here, there = DenseEngine(problem), DenseEngine(cuda_problem(p, 70, 3_000, 5, dtype))
    v = torch.zeros(70, dtype=torch.float64)
    assert there.hard(v.cuda()).dual == pytest.approx(here.hard(v).dual, rel=1e-5)
    soft = there.soft(v.cuda(), 0.5)
    torch.testing.assert_close(soft.mass.cpu(), here.soft(v, 0.5).mass, rtol=1e-3, atol=1e-5)


@needs_triton
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize(
    ("n", "m", "d"),
    [(1, 50, 1), (7, 100, 2), (130, 20_000, 5), (65, 130, 15), (65, 130, 16), (70, 20_000, 37), (1000, 70_000, 8)],
)
def test_triton_agrees_with_dense(p, n, m, d):
    problem = cuda_problem(p, n, m, d, torch.float32)
    check_agreement(make_engine(problem, "triton"), DenseEngine(problem))
    check_coincidence(make_engine(make_problem(problem.x[:60], problem.x[:60], p), "triton"))


@needs_triton
def test_equal_calls_give_equal_bits():
    problem = cuda_problem(2.0, 300, 50_000, 3, torch.float32)
    v = torch.zeros_like(problem.b)
    first, second = (make_engine(problem, "triton").soft(v, 0.1) for _ in range(2))
    assert first.dual == second.dual
    assert torch.equal(first.mass, second.mass)


@needs_triton
def test_auto_takes_triton_where_it_pays():
    assert type(make_engine(cuda_problem(2.0, 1000, 20_000, 8, torch.float32), "auto")).__name__ == "TritonEngine"
    assert type(make_engine(cuda_problem(2.0, 10, 100, 8, torch.float32), "auto")) is DenseEngine
    assert type(make_engine(cuda_problem(2.0, 1000, 20_000, 8, torch.float64), "auto")) is DenseEngine


@pytest.mark.keops
@pytest.mark.slow
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_keops_agrees_with_dense(p, dtype):
    for n in (1, 40):
        problem = cuda_problem(p, n, 7_000, 3, dtype)
        check_agreement(make_engine(problem, "keops"), DenseEngine(problem))


@pytest.mark.parametrize("engine", ["auto", "dense", pytest.param("triton", marks=needs_triton)])
@pytest.mark.parametrize("p", [1, 2])
def test_transport_is_within_its_gap(engine, p):
    y = torch.randn(200_000, 4, generator=torch.Generator().manual_seed(0)).cuda()
    x = y[:200].clone()
    plan = tc.transport(x, y, p, engine=engine)
    other = tc.transport(x, y, p, engine="dense")
    assert plan.gap <= 1e-3
    assert plan.lower <= other.value * (1 + 1e-6)
    assert other.lower <= plan.value * (1 + 1e-6)
