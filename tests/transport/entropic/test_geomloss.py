"""geomloss as a solver: which of its routines runs, in which precision, and what its result is held to."""

import dataclasses

import pytest
import torch

from tests.data import normal32 as normal
from torchcoreset.transport import Status
from torchcoreset.transport.costs import as_cost
from torchcoreset.transport.entropic import geomloss
from torchcoreset.transport.entropic.sinkhorn import solve_entropic
from torchcoreset.transport.problem import Problem, make_problem


def problem(p: float = 2, n: int = 10, m: int = 200, d: int = 2) -> Problem:
    return make_problem(normal(n, d), normal(m, d, seed=1), p, normal(n, seed=2).abs(), normal(m, seed=3).abs())


def solve(work: Problem, blur: float = 0.5, **changes):
    return geomloss.geomloss_entropic(work, blur, **{"scaling": 0.9, "tolerance": 0.05, "engine": "dense"} | changes)


@pytest.mark.parametrize("p", [1, 2])
def test_nearer_to_one_is_nearer_to_the_optimum(p: int) -> None:
    work = problem(p)
    best = solve_entropic(work, p * 0.5**p, tolerance=1e-10, start=None, max_steps=200, engine="dense")
    found = [solve(work, scaling=scaling) for scaling in (0.5, 0.9, 0.99)]
    errors = [one.marginal_error for one in found]
    assert errors == sorted(errors, reverse=True)
    assert all(one.value <= best.value + 1e-9 for one in found)
    assert found[-1].value == pytest.approx(best.value, rel=1e-4)
    assert found[0].steps < found[1].steps < found[2].steps


def test_the_status_is_that_of_the_plan() -> None:
    for tolerance in (1e-3, 0.3):
        found = solve(problem(), scaling=0.5, tolerance=tolerance)
        assert (found.status is Status.CONVERGED) == (found.marginal_error <= tolerance)


def test_float64_where_float32_would_spoil_the_exponents() -> None:
    work = problem()
    sharp = solve(work, blur=1e-3)
    exact = solve(dataclasses.replace(work, x=work.x.double(), y=work.y.double()), blur=1e-3)
    assert sharp.value == pytest.approx(exact.value, rel=1e-9)


def test_the_unit_of_length_does_not_matter() -> None:
    work = problem(1)
    tiny = dataclasses.replace(work, x=work.x * 1e-5, y=work.y * 1e-5)
    assert solve(tiny, blur=0.5e-5).value == pytest.approx(1e-5 * solve(work).value, rel=1e-4)


@pytest.mark.parametrize(
    ("shape", "engine", "chosen"),
    [
        ((10, 200, 2), "auto", "dense"),
        ((1000, 30_000, 2), "auto", "keops"),
        ((1000, 30_000, 101), "auto", "dense"),
        ((10, 200, 2), "keops", "keops"),
        ((1000, 30_000, 2), "dense", "dense"),
    ],
)
def test_the_engine_follows_size_and_dimension(
    shape: tuple[int, int, int], engine: str, chosen: str, monkeypatch
) -> None:
    monkeypatch.setattr(geomloss.importlib.util, "find_spec", lambda name: name)
    n, m, d = shape
    weights = torch.ones(1).double()
    work = Problem(torch.zeros(1, d).expand(n, d), weights, torch.zeros(1, d).expand(m, d), weights, True, as_cost(2))
    assert geomloss.choose_engine(work, engine) == chosen


def test_auto_does_without_keops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geomloss.importlib.util, "find_spec", lambda name: None)
    weights = torch.ones(1).double()
    work = Problem(
        torch.zeros(1, 2).expand(9000, 2), weights, torch.zeros(1, 2).expand(9000, 2), weights, True, as_cost(2)
    )
    assert geomloss.choose_engine(work, "auto") == "dense"
    with pytest.raises(ImportError, match=r"backend: 'geomloss' needs geomloss.*Use backend='newton'"):
        solve(problem())


@pytest.mark.keops
@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
def test_online_agrees_with_tensorized(p: int) -> None:
    work = problem(p)
    assert solve(work, engine="keops").value == pytest.approx(solve(work).value, rel=1e-4)
