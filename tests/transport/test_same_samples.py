"""Points that move between samples that stay: as if each problem had been made anew."""

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal
from torchcoreset.transport.problem import make_problem
from torchcoreset.transport.reductions import distinct, repeated
from torchcoreset.transport.same_samples import SameSamples
from torchcoreset.transport.solve import solve

ASKED = {"tolerance": 1e-3, "max_steps": 100, "start": None}


def tables(kind: str) -> tuple[Tensor, Tensor]:
    """First points, which may be any, and samples."""
    y = normal(4000, 3)
    match kind:
        case "float32":
            y = y.float()
        case "few":  # of which whatever rounds no number was subtracted
            y = (8 * y[:1000]).round() / 8 + 0.3 * torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
        case "repeated":
            y = y[torch.arange(4000) % 500]
        case "offset":
            y = (8 * y).round() + 2.0**20
        case "rounded offset":
            y = y.float() + 1e6
        case "huge":
            y = (1e19 * y).float()
    return y[::200].clone(), y


@pytest.mark.parametrize("kind", ["smooth", "float32", "repeated", "offset", "rounded offset", "huge"])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_as_if_each_problem_was_made_anew(kind: str, weighted: bool) -> None:
    x, y = tables(kind)
    b, a = (normal(len(x), seed=1).abs(), normal(len(y), seed=2).abs()) if weighted else (None, None)
    same = SameSamples(y, 2, b, a)
    for step in range(4):
        points = x if step == 0 else (x + step / 3 * normal(*x.shape, seed=step)).to(x.dtype)
        found = same.solve(points, **ASKED)
        alone = solve(make_problem(points, y, 2, b, a), exact=False, **ASKED)
        assert found.value == pytest.approx(alone.value, rel=1e-3)
        assert found.gap <= 1e-3
        truth = tc.transport(points.double(), y.double(), 2, b, a, exact=True).value
        assert found.lower <= truth * (1 + 1e-6)
        assert truth <= found.value * (1 + 1e-6)


@pytest.mark.parametrize("kind", ["few", "offset", "rounded offset", "repeated"])
def test_points_that_came_before_leave_no_trace(kind: str) -> None:
    """Or a build that is resumed would differ in the last digits."""
    x, y = tables(kind)
    same = SameSamples(y, 2)
    for step in range(4):
        points = (x + step / 3 * normal(*x.shape, seed=step)).to(x.dtype)
        found, alone = same.solve(points, **ASKED), SameSamples(y, 2).solve(points, **ASKED)
        assert found.value == alone.value
        assert torch.equal(found.potential, alone.potential)


def test_points_far_beyond_an_offset_are_not_rounded_by_it() -> None:
    """Added to what it was subtracted from, it may give the points again although digits were lost between."""
    y = ((1024 * normal(1500, 3)).round() / 1024 + 100).float()
    x = (3e5 * (1 + normal(2, 3, seed=1).abs())).float()
    found = SameSamples(y, 2).solve(x, **ASKED)
    rows, cols = found.plan.rows, found.plan.cols
    cost = found.plan.mass @ (y[rows].double() - x[cols].double()).square().sum(1)
    assert found.value == pytest.approx(float(cost), rel=1e-13)


def test_samples_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr(repeated, "repeats_of", lambda y: looked.append(len(y)))
    x, y = tables("smooth")
    same = SameSamples(y, 2)
    for step in range(3):
        same.solve(x + step, **ASKED)
    assert looked == [4000]


def test_points_of_another_kind_make_another_problem() -> None:
    x, y = tables("float32")
    same = SameSamples(y, 2)
    assert len(same.solve(x, **ASKED).potential) == 20
    assert len(same.solve(x[:7], **ASKED).potential) == 7
    far = same.solve(x[:7].double() * 1e30, **ASKED)
    assert far.value == pytest.approx(tc.transport(x[:7].double() * 1e30, y).value, rel=1e-3)


def test_points_may_be_stepped_while_a_result_is_kept() -> None:
    x, y = tables("smooth")
    same, kept = SameSamples(y, 2), []
    for _ in range(2):
        kept.append(same.solve(x, **ASKED))
        x += 10
    assert kept[0].value < kept[1].value
    again = same.solve(x - 20, **ASKED)
    assert again.value == pytest.approx(kept[0].value, rel=1e-3)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_bad_points_are_named_and_change_nothing(bad: float) -> None:
    x, y = tables("smooth")
    same = SameSamples(y, 2)
    first = same.solve(x, **ASKED)
    wrong = x.clone()
    wrong[3, 1] = bad
    with pytest.raises(ValueError, match=r"^points: "):
        same.solve(wrong, **ASKED)
    assert torch.equal(same.solve(x, **ASKED).potential, first.potential)


def test_what_is_merged_is_solved_with_other_points() -> None:
    x, y = tables("repeated")
    problem = make_problem(x, y, 2)
    moved = distinct(problem).with_points(problem.x + 1, problem.largest + 1)
    assert len(moved.merged.y) == 500
    assert torch.equal(moved.merged.x, problem.x + 1)
    assert torch.equal(moved.problem.x, moved.merged.x)
