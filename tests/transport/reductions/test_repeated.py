"""Equal samples are merged: bounds, plans, labels and gradients are those of all of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import CLOUDS, cloud, normal, seeded
from torchcoreset.transport import make_problem, repeats_of, solve_dual
from torchcoreset.transport.reductions import repeated

M = 3000


def copies(kind: str, distinct: int = 200, m: int = M) -> tuple[Tensor, Tensor, Tensor]:
    """Distinct rows of a cloud, samples (m, d) drawn from them, and which of the rows each is."""
    rows = torch.unique(cloud(kind, distinct), dim=0)
    of = torch.cat((torch.arange(len(rows)), torch.randint(len(rows), (m - len(rows),), generator=seeded(1))))
    return rows, rows[of], of


def uneven(m: int) -> Tensor:
    """Weights (m,) over six decades, of which some are zero."""
    a = 10 ** (6 * torch.rand(m, generator=seeded(2), dtype=torch.float64))
    a[::7] = 0
    return a


def check_plan(found: tc.Transport, x: Tensor, y: Tensor, p: float, a: Tensor, b: Tensor) -> None:
    plan = found.plan
    assert plan.shape == (len(y), len(x))
    assert bool((plan.mass >= 0).all())
    assert len(plan.rows.unique()) == len(y), "every sample occurs"
    sums = torch.bincount(plan.rows, plan.mass, minlength=len(y))
    torch.testing.assert_close(sums, a / a.sum(), rtol=1e-8, atol=1e-15)
    torch.testing.assert_close(plan.column_sums(), b, rtol=0, atol=1e-9)
    apart = (y[plan.rows].double() - x[plan.cols].double()).norm(dim=1) ** p
    assert float(plan.mass @ apart) == pytest.approx(found.value, rel=1e-6, abs=1e-12)
    assert len(plan.rows) <= len(y) + 2 * len(x), "few samples are split"


@pytest.mark.parametrize("kind", CLOUDS)
@pytest.mark.parametrize(("p", "weighted", "bits"), [(2, False, 32), (1, True, 64), (3, False, 64)])
def test_it_is_the_problem_of_weighted_rows(kind: str, p: float, weighted: bool, bits: int) -> None:
    rows, y, of = copies(kind)
    y = y.float() if bits == 32 else y
    x = (y[:12] + 0.1 * normal(*y[:12].shape).to(y)).contiguous()
    a = uneven(M) if weighted else torch.ones(M, dtype=torch.float64)
    found = tc.transport(x, y, p, None, a if weighted else None)
    few = tc.transport(x, rows.to(y), p, None, torch.bincount(of, a))
    assert found.status is tc.Status.CONVERGED
    assert found.value == pytest.approx(few.value, rel=1e-3, abs=1e-12)
    assert found.lower <= few.value * (1 + 1e-9)
    check_plan(found, x, y, p, a, torch.full((12,), 1 / 12, dtype=torch.float64))
    reduced = (y[:, None].double() - x.double()).norm(dim=2) ** p - found.potential
    scale = float(reduced.abs().max())
    torch.testing.assert_close(found.transform, reduced.amin(1), rtol=1e-5, atol=1e-5 * scale)
    if not weighted:  # each point gets as many samples as its weight is worth
        counts = torch.bincount(found.assignment, minlength=12)
        assert int((counts - M / 12).abs().max()) <= 1


@pytest.mark.parametrize("weights", [None, "free", (0.5, 2.0)], ids=str)
@pytest.mark.parametrize("trim", [0.0, 0.1])
def test_plans_that_choose_leave_whole_samples_unmatched(weights: object, trim: float) -> None:
    rows, y, of = copies("ints")
    x = rows[:8] + 0.3
    found = tc.transport(x, y, 2, weights, trim=trim, tolerance=1e-6)
    few = tc.transport(x, rows, 2, weights, torch.bincount(of), trim=trim, tolerance=1e-6)
    assert found.value == pytest.approx(few.value, rel=1e-6)
    matched = torch.bincount(found.plan.rows, found.plan.mass, minlength=M) * (1 - trim) * M
    assert float(matched.max()) <= 1 + 1e-8
    assert float(matched.sum()) == pytest.approx((1 - trim) * M)
    assert int((found.assignment < 0).sum()) == round(trim * M)
    assert int(((matched > 1e-6) & (matched < 1 - 1e-6)).sum()) <= 8


@pytest.mark.parametrize(
    "cost",
    [tc.costs.Cosine(), tc.costs.Scaled([1.0, 2.0, 0.5]), lambda y, x: (y - x).abs().sum(-1)],
    ids=["cosine", "scaled", "a function"],
)
def test_other_costs(cost: object) -> None:
    rows, y, of = copies("normal")
    x = rows[:7] + 0.1
    found = tc.transport(x, y, 1, cost=cost)
    few = tc.transport(x, rows, 1, None, torch.bincount(of), cost=cost)
    assert found.value == pytest.approx(few.value, rel=1e-6)
    assert found.plan.shape == (M, 7)


def test_equal_samples_share_their_gradient_by_weight() -> None:
    rows, y, of = copies("normal")
    x, a = rows[:9] + 0.2, uneven(M)
    a[of == 5] = 0  # a row without any weight
    y, few = y.requires_grad_(), rows.clone().requires_grad_()
    tc.wasserstein(x, y, 2, None, a, exact=True).backward()
    total = torch.bincount(of, a)
    tc.wasserstein(x, few, 2, None, total, exact=True).backward()
    assert y.grad is not None
    assert few.grad is not None
    expected = few.grad[of] * (a / total.where(total > 0, 1.0)[of])[:, None]
    torch.testing.assert_close(y.grad, expected, rtol=1e-6, atol=1e-12)
    both = torch.stack((y.detach(), y.detach() + 1)).requires_grad_()
    tc.wasserstein(torch.stack((x, x + 1)), both, 2, None, a, exact=True).sum().backward()
    assert both.grad is not None
    torch.testing.assert_close(both.grad[0], y.grad, rtol=1e-6, atol=1e-12)


def test_gradients_in_points_and_weights_are_those_of_the_rows() -> None:
    rows, y, of = copies("clusters")
    grads = []
    for samples, a in ((y, torch.ones(M)), (rows, torch.bincount(of).float())):
        x, b = (rows[:6] + 0.2).requires_grad_(), torch.ones(6).requires_grad_()
        tc.wasserstein(x, samples, 2, b, a, exact=True).backward()
        grads.append((x.grad, b.grad))
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-5, atol=1e-9)


def test_other_doors() -> None:
    rows, y, of = copies("repeated", 400)
    assert len(rows) == 4
    built = tc.build_coreset(y, 6, restarts=1)
    assert built.transport.plan.shape == (M, 6)
    assert built.transport.value == pytest.approx(tc.transport(built.coreset, rows, 2, None, torch.bincount(of)).value)
    problem = make_problem(rows[:3] + 0.1, y, 2)
    dual = solve_dual(problem, tolerance=1e-4, start=None, max_steps=100)
    assert dual.transform.shape == (M,)
    assert float(dual.transform.mean()) == pytest.approx(dual.lower, rel=1e-6)


LAYOUTS = {
    "anywhere": lambda rows: rows[torch.randint(len(rows), (20_000,), generator=seeded(3))],
    "side by side": lambda rows: rows.repeat_interleave(8, 0),
    "again and again": lambda rows: rows.repeat(8, 1),
    "half of all in one": lambda rows: torch.cat((rows, rows[:1].expand(len(rows), -1))),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("d", [1, 3, 784])
def test_they_are_found_wherever_they_lie(layout: str, d: int) -> None:
    rows = normal(2500 if d < 784 else 300, d).float()
    y = LAYOUTS[layout](rows)
    if len(y) < repeated.FEWEST:
        y = torch.cat((y,) * 4)
    found = repeats_of(y)
    assert found is not None
    assert torch.equal(y[found.first[found.of]], y)
    assert len(found.first) == len(torch.unique(y, dim=0))


def test_numbers_that_are_equal_and_have_other_bits() -> None:
    y = torch.arange(300).double().repeat(10)[:, None] * torch.tensor([[1.0, 0.0]])
    y[::2] *= torch.tensor([1.0, -1.0])  # -0.0
    found = repeats_of(y)
    assert found is not None
    assert len(found.first) == 300


def test_distinct_rows_and_few_copies_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    y = normal(20_000, 2)
    assert repeats_of(y) is None
    y[::50] = 1.0
    assert repeats_of(y) is None
    assert repeats_of(torch.ones(repeated.FEWEST - 1, 2)) is None
    monkeypatch.setattr(repeated, "row_keys", lambda rows: torch.zeros(len(rows), dtype=torch.int64))
    assert repeats_of(y) is None, "equal sums of rows that differ"


def test_a_real_table(data_dir) -> None:
    y = torch.from_numpy(np.load(data_dir / "pendigits.npz")["X"])[:, :1].float().repeat(1, 2)  # 101 values
    x = torch.linspace(5, 95, 10)[:, None].repeat(1, 2)
    found = tc.transport(x, y)
    check_plan(found, x, y, 2, torch.ones(len(y)).double(), torch.full((10,), 0.1, dtype=torch.float64))


def test_light_samples_right_on_points_are_matched() -> None:
    """Nothing may stay unmatched here, though some samples weigh nothing, and others less, at costs of zero."""
    y = torch.arange(12, dtype=torch.float64)[:, None].expand(-1, 2)
    weights = torch.tensor([0.0, 1, 2] * 4, dtype=torch.float64)
    found = tc.transport(y[weights > 0], y, 2, weights[weights > 0], weights)
    assert torch.equal(found.assignment < 0, weights == 0)


def test_a_heavy_sample_gives_light_points_their_share() -> None:
    """Pieces of less than 1e-9 of a sample were taken for rounding: a hundred points had none."""
    y = torch.arange(40, dtype=torch.float64)[:, None].expand(-1, 2).repeat(60, 1)
    a = torch.full((len(y),), 1e-9, dtype=torch.float64).index_fill_(0, torch.tensor([7]), 1.0)
    b = 10 ** torch.linspace(-12, 0, 200, dtype=torch.float64)
    found = tc.transport(normal(200, 2).double() + 20, y, 2, b, a)
    torch.testing.assert_close(found.plan.column_sums(), b / b.sum(), rtol=0, atol=5e-12)
    sent = torch.bincount(found.plan.rows, found.plan.mass, minlength=len(y))
    torch.testing.assert_close(sent, a / a.sum(), rtol=2e-9, atol=1e-16)
