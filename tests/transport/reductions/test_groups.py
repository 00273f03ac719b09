"""Groups that are far apart: how they are found, and that they are solved as if each were alone."""

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal
from torchcoreset.transport.problem import make_problem
from torchcoreset.transport.reductions import far_groups
from torchcoreset.transport.solve import solve_dual

every_power = pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])


def apart(sizes: list[int], counts: list[int], origins: list[list[float]]) -> tuple[Tensor, Tensor]:
    at = torch.tensor(origins, dtype=torch.float64)
    d = at.shape[1]
    x = torch.cat([normal(n, d, seed=k) + at[k] for k, n in enumerate(sizes)])
    y = torch.cat([normal(m, d, seed=100 + k) + at[k] for k, m in enumerate(counts)])
    return x, y[torch.randperm(len(y), generator=torch.Generator().manual_seed(7))]


def found(x: Tensor, y: Tensor, *weights: Tensor, mean: float = 1.0) -> list[tuple[int, int]]:
    groups = far_groups(make_problem(x, y, 2, *weights), mean)
    return sorted((len(points), len(samples)) for points, samples in groups)


def test_groups_that_hold_what_they_need() -> None:
    assert found(*apart([2, 3], [20, 30], [[0, 0], [1e6, 0]])) == [(2, 20), (3, 30)]
    assert found(*apart([2, 3], [20, 30], [[0, 0], [0, -1e9]])) == [(2, 20), (3, 30)]
    assert found(*apart([1, 2, 3, 4], [9, 18, 27, 36], [[0, 0], [1e7, 0], [0, 1e7], [1e7, 1e7]])) == [
        (1, 9), (2, 18), (3, 27), (4, 36),
    ]  # fmt: skip


def test_groups_that_exchange_mass_stay_together() -> None:
    assert found(*apart([2, 3], [21, 29], [[0, 0], [1e6, 0]])) == []
    # the first two exchange some, the third needs nobody
    assert found(*apart([2, 2, 3], [21, 19, 30], [[0], [1e7], [2e7]])) == [(3, 30), (4, 40)]


def test_groups_without_points_or_mass_are_none() -> None:
    x, y = apart([2, 3], [20, 30], [[0, 0], [1e6, 0]])
    lonely = torch.cat((y, y[:3] + torch.tensor([0.0, 1e8])))
    a = torch.cat((torch.ones(50), torch.zeros(3)))
    groups = found(x, lonely, None, a)
    assert [points for points, _ in groups] == [2, 3]
    assert sum(samples for _, samples in groups) == 53


def test_near_groups_and_clouds_are_not_looked_at() -> None:
    assert found(*apart([2, 3], [20, 30], [[0, 0], [300.0, 0]])) == []
    assert found(normal(10, 2), normal(200, 2, seed=1)) == []


@every_power
@pytest.mark.parametrize("far", [1e4, 1e6, 1e9, 1e12])
def test_each_group_counts_as_if_it_were_alone(p: float, far: float) -> None:
    # multiples of 2^-10 survive a distance of 1e12
    sizes, counts = [3, 5], [30, 50]
    x = [(1024 * normal(n, 2, seed=n)).round() / 1024 for n in sizes]
    y = [(1024 * normal(m, 2, seed=m)).round() / 1024 for m in counts]
    shift = torch.tensor([0.0, far])
    both = torch.cat((x[0], x[1] + shift)), torch.cat((y[0], y[1] + shift))
    alone = [tc.transport(x[k], y[k], p, exact=True).value for k in (0, 1)]
    whole = tc.transport(*both, p, exact=True)
    assert whole.value == pytest.approx((3 * alone[0] + 5 * alone[1]) / 8, rel=2e-9)
    assert whole.lower <= whole.value
    assert whole.gap <= 1e-9
    for start in (None, whole.potential):
        near = tc.transport(*both, p, start=start)
        assert near.status is tc.Status.CONVERGED
        assert near.lower <= whole.value * (1 + 1e-9)
        assert near.value >= whole.value * (1 - 1e-9)
    dual = solve_dual(make_problem(*both, p), tolerance=1e-3, start=None, max_steps=100)
    assert 0.98 * whole.value <= dual.lower <= whole.value * (1 + 1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_many_samples_a_group(weighted: bool) -> None:
    """Sums of so many weights are rounded by more than the masses of two groups may differ."""
    x, y = apart([1, 2], [100_000, 200_000], [[0, 0], [1e9, 0]])
    a = torch.rand(300_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) if weighted else None
    if a is not None:
        near = y[:, 0] < 1e8
        a[near] *= 0.5 * a[~near].sum() / a[near].sum()
    found = tc.transport(x, y, 2, None, a)
    assert found.status is tc.Status.CONVERGED
    assert found.value < 10


def test_points_of_no_weight_among_groups() -> None:
    x, y = apart([2, 3], [20, 30], [[0, 0], [1e9, 0]])
    b = torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0])
    plan = tc.transport(x, torch.cat((y[:0], *apart([2, 2], [20, 20], [[0, 0], [1e9, 0]])[1:])), 2, b, exact=True)
    assert plan.gap <= 1e-9
    assert float(plan.plan.column_sums()[2]) == 0
