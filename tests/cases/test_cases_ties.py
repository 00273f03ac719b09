"""Rows that repeat, ties between points, and lengths of steps: inputs on which streams and labels went wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import torchcoreset as tc

pytestmark = pytest.mark.usefixtures("two_starts")

Y = torch.tensor([0.0] * 50 + [1.0] * 30 + [2.0] * 20, dtype=torch.float64)[:, None]  # shares .5, .3, .2


def batches(y: Tensor, size: int, count: int, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [y[torch.randint(len(y), (size,), generator=generator)] for _ in range(count)]


def online(y: Tensor, start: Tensor, size: int, count: int, seed: int = 0) -> tuple[Tensor, tc.CoresetLoss]:
    """SGD on minibatches, the points averaged."""
    x = torch.nn.Parameter(start.clone())
    loss, average = tc.CoresetLoss(p=2, online=True), start.clone()
    for k, batch in enumerate(batches(y, size, count, seed), 1):
        (gradient,) = torch.autograd.grad(loss(x, batch), x)
        with torch.no_grad():
            x -= len(x) / 2 * k**-0.5 * gradient
            average += 3 / (k + 2) * (x - average)
    return average, loss


def one_hot(rows: int = 2000, classes: int = 6) -> Tensor:
    return torch.eye(classes, dtype=torch.float64)[
        torch.from_numpy(np.random.default_rng(0).integers(classes, size=rows))
    ]


# D10: the fixed point reaches 0 on three atoms, and 0.0403 on six.


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_sgd_on_three_atoms(seed: int) -> None:
    result = tc.build_coreset(Y, 10, algorithm="sgd", seed=seed, steps=300)
    assert result.transport.value < 1e-4


@pytest.mark.slow
def test_online_steps_on_three_atoms_and_a_status_that_blames_nobody() -> None:
    start = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 2.0], dtype=torch.float64)[:, None]  # one point too few at 0
    points, loss = online(Y, start + 1e-3 * torch.arange(10)[:, None], 20, 300)
    assert tc.transport(points, Y).value < 1e-3
    assert loss.last.status.value == "tracking"


def test_points_that_stand_still_at_the_optimum_do_not_lag() -> None:
    x = torch.tensor([0.0] * 5 + [1.0] * 3 + [2.0] * 2, dtype=torch.float64)[:, None]
    loss = tc.CoresetLoss(p=2, online=True)
    seen = [(loss(x, batch), loss.last.status.value)[1] for batch in batches(Y, 100, 100, 0)]
    assert set(seen) == {"warming_up", "tracking"}


@pytest.mark.slow
def test_partial_fit_on_three_atoms() -> None:
    pytest.importorskip("sklearn", "1.6")
    from torchcoreset.sklearn import WassersteinCoreset

    model = WassersteinCoreset(10, random_state=0)
    for batch in batches(Y, 100, 150, 0):
        model.partial_fit(batch.numpy())
    assert tc.transport(torch.from_numpy(model.points_), Y).value < 1e-3


@pytest.mark.slow
def test_sgd_on_one_hot_rows_reaches_the_fixed_point() -> None:
    y = one_hot()
    best = tc.build_coreset(y, 12, init="random").transport.value  # as "sgd" starts
    assert tc.build_coreset(y, 12, algorithm="sgd").transport.value < 1.01 * best


@pytest.mark.slow
def test_sgd_on_integers_in_the_plane() -> None:
    y = torch.from_numpy(np.random.default_rng(1).integers(0, 3, (600, 2)).astype(float))
    ends = [tc.build_coreset(y, 7, init="random", seed=seed).transport.value for seed in range(3)]
    assert tc.build_coreset(y, 7, algorithm="sgd", steps=300).transport.value < 1.01 * max(ends)


@pytest.mark.slow
def test_the_mean_gradient_is_that_of_the_plan_where_an_atom_is_shared() -> None:
    # Half of the mass is at 0, which the points at -1 and 1 share.
    y = torch.tensor([-1.0, 0.0, 0.0, 1.0], dtype=torch.float64)[:, None]
    x = torch.tensor([-1.0, 1.0], dtype=torch.float64)[:, None].requires_grad_()
    loss, total = tc.CoresetLoss(p=2, online=True), torch.zeros(2, 1, dtype=torch.float64)
    found = batches(y, 20, 240, 0)
    for k, batch in enumerate(found):
        gradient = torch.autograd.grad(loss(x, batch), x)[0]
        total += gradient if k >= 120 else 0
    (expected,) = torch.autograd.grad(tc.wasserstein(x, y), x)
    torch.testing.assert_close(total / 120, expected, atol=0.05, rtol=0)


def test_gradients_in_the_samples_follow_the_shares() -> None:
    x = torch.tensor([-1.0, 1.0], dtype=torch.float64)[:, None].requires_grad_()
    loss = tc.CoresetLoss(p=2, online=True)
    for _ in range(20):
        y = torch.zeros(40, 1, dtype=torch.float64).requires_grad_()
        loss(x, y)
    value = loss(x, y + 0)
    in_points, in_samples = torch.autograd.grad(value, (x, y))
    assert in_points.sum() + in_samples.sum() == pytest.approx(0, abs=1e-9)  # a shift of all changes nothing
    assert float(in_samples.abs().max()) < 2 / 40 * 0.5, "each is pulled both ways"


@pytest.mark.slow
def test_partial_fit_on_one_hot_rows_reaches_the_fixed_point() -> None:
    # A batch's shares differ from the true ones six times as much as those from the multiples of 1 / 12 that decide
    # who takes what is left over, and each batch has a say in that: the excess falls like 1 / batches.
    pytest.importorskip("sklearn", "1.6")
    from torchcoreset.sklearn import WassersteinCoreset

    y, classes = one_hot(), torch.eye(6, dtype=torch.float64)
    model = WassersteinCoreset(12, random_state=0)
    for batch in batches(y, 300, 500, 0):
        model.partial_fit(batch.numpy())
    best = tc.build_coreset(y, 12).transport.value
    found = tc.transport(torch.from_numpy(model.points_), classes, sample_weights=y.mean(0), exact=True).value
    assert found < 1.01 * best


# D11


def test_labels_of_integers_come_from_the_plan() -> None:
    pytest.importorskip("sklearn", "1.6")
    from torchcoreset.sklearn import WassersteinCoreset

    rows = np.random.default_rng(0).integers(0, 10, (1000, 1)).astype(float)
    assert np.bincount(WassersteinCoreset(8).fit(rows).labels_).tolist() == [125] * 8
    sevenths = np.bincount(WassersteinCoreset(7).fit(rows).labels_)
    assert set(sevenths.tolist()) == {142, 143}


@pytest.mark.parametrize(("n", "m"), [(40, 13), (30, 1000), (50, 77)])
def test_counts_are_right_to_within_a_sample(n: int, m: int) -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(4, (m, 2), generator=generator).double()
    plan = tc.transport(torch.randn(n, 2, generator=generator).double(), y)
    counts = torch.bincount(plan.assignment, minlength=n)
    assert set(counts.tolist()) <= {m // n, -(-m // n)}


# D15


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("start", [[-200.0, -199.0], [-2e4, 1e4]])
def test_a_far_start_arrives(p: int, start: list[float]) -> None:
    y = torch.tensor([0.0, 1.0], dtype=torch.float64).repeat(50)
    init = torch.tensor(start, dtype=torch.float64)
    points = tc.build_coreset(y, 2, p, algorithm="sgd", init=init, steps=400).coreset.points
    assert points.flatten().sort().values.tolist() == pytest.approx([0, 1], abs=1e-2)


@pytest.mark.slow
def test_few_rows_far_out_set_no_length() -> None:
    y = torch.randn(1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y[:30] = 1e7
    points = tc.build_coreset(y, 3, 1, algorithm="sgd", steps=500).coreset.points.flatten().sort().values
    best = tc.build_coreset(y, 3, 1).coreset.points.flatten().sort().values
    assert points.tolist() == pytest.approx(best.tolist(), abs=0.1)


# D17


@pytest.mark.filterwarnings("ignore:.*exceeds the diameter:UserWarning")
@pytest.mark.parametrize("debias", [True, False])
@pytest.mark.parametrize("at", [0.0, 3.0])
def test_a_loop_that_succeeds_goes_on(at: float, debias: bool) -> None:
    y = torch.full((7, 2), at, dtype=torch.float64)
    x = torch.nn.Parameter(torch.full((1, 2), at + 1, dtype=torch.float64))
    loss, optimizer = tc.CoresetLoss(divergence="sinkhorn", blur=0.05, debias=debias), torch.optim.SGD([x], lr=0.3)
    for _ in range(60):
        optimizer.zero_grad()
        value = loss(x, y)
        value.backward()
        optimizer.step()
    assert abs(float(value.detach())) < 1e-16
    assert float((x.detach() - at).abs().max()) < 1e-9
