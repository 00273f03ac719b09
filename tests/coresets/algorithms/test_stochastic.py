"""Algorithm 1: the direction, the length of a step, the average, and fresh batches."""

import statistics

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from torchcoreset.coresets.algorithms import Objective, stochastic
from torchcoreset.sources import as_source
from torchcoreset.testing import E1, NORMAL

pytestmark = pytest.mark.usefixtures("two_starts")

STANDARD = torch.distributions.Normal(0.0, 1.0)


def steps_on(
    y, x: Tensor, p: float, count: int, *, weights=None, batch_size: int = 100, rate: float = 1.0, average_from: int = 0
):
    """States after each of so many steps, and what was measured before."""
    b = torch.full((len(x),), 1 / len(x), dtype=torch.float64) if weights is None else weights
    source, generator = as_source(y), torch.Generator().manual_seed(0)
    state = stochastic.init(x, p)
    for _ in range(count):
        state, result = stochastic.step(
            state, Objective(b, p), source, batch_size, generator, rate=rate, average_from=average_from
        )
        yield state, result


@pytest.mark.parametrize("p", [1, 2])
def test_the_first_step_goes_against_the_gradient(p: int) -> None:
    ((state, result),) = steps_on(E1.samples, E1.points, p, 1, rate=0.5)
    # The potential of a first batch is only roughly that of the batch; on E1 its cells are right or nearly so.
    assert 0.9 * E1.values[p] < result.value <= E1.values[p] * (1 + 1e-9)
    moved = state.points - E1.points
    assert bool((moved * E1.gradients[p] <= 0).all())
    assert tc.transport(state.points, E1.samples, p).value < E1.values[p]


def test_a_full_step_on_all_samples_takes_p2_to_the_means() -> None:
    ((state, _),) = steps_on(E1.samples, E1.points, 2, 1)
    assert state.points.flatten().tolist() == pytest.approx([0.5, 2.5])


def test_steps_shrink_and_the_second_half_is_averaged() -> None:
    x = torch.tensor([[8.0]], dtype=torch.float64)
    states = [state for state, _ in steps_on(torch.zeros(4, 1).double(), x, 1, 6, average_from=3)]
    visited = [float(state.points) for state in states]
    expected = 8.0
    for k, point in enumerate(visited, 1):
        expected -= 8 * k**-0.5 * (1 if expected > 0 else -1 if expected < 0 else 0)
        assert point == pytest.approx(expected)
    assert float(states[-1].result) == pytest.approx(sum(visited[3:]) / 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_start_is_not_written_to(dtype: torch.dtype) -> None:
    x = E1.points.to(dtype, copy=True)
    before = x.clone()
    *_, (state, _) = steps_on(E1.samples, x, 2, 3, batch_size=4, rate=0.5)
    assert torch.equal(x, before)
    assert state.result.dtype == dtype


def test_every_batch_is_fresh_and_as_large_as_asked() -> None:
    batches = [
        state.largest_batch for state, _ in steps_on(STANDARD, torch.tensor([[-1.0], [1.0]]), 2, 3, batch_size=17)
    ]
    assert all(batch.shape == (17, 1) for batch in batches)
    assert len(torch.unique(torch.cat(batches))) == 51


def test_points_without_weight_stay() -> None:
    x = torch.tensor([[-1.0], [5.0], [1.0]])
    weights = torch.tensor([0.5, 0.0, 0.5]).double()
    *_, (state, _) = steps_on(STANDARD, x, 2, 4, weights=weights, batch_size=50)
    assert float(state.result[1]) == 5
    assert bool(state.result.isfinite().all())


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
def test_the_normal_distribution_to_one_percent(p: int) -> None:
    result = tc.build_coreset(torch.distributions.Normal(0.0, 1.0), 10, p, algorithm="sgd", samples=1000, steps=400)
    assert len(result.history) == 400
    assert NORMAL.value(result.coreset.points, p) <= 1.01 * NORMAL.optimal_value(10, p)


@pytest.mark.slow
def test_small_batches_do_no_harm() -> None:
    excess = []
    for seed in range(3):
        result = tc.build_coreset(STANDARD, 10, algorithm="sgd", batch_size=20, steps=1500, samples=1000, seed=seed)
        excess.append(NORMAL.value(result.coreset.points, 2) / NORMAL.optimal_value(10, 2) - 1)
    assert statistics.median(excess) < 0.01, "6 % where each batch's dual is solved"


def test_no_step_goes_beyond_the_samples() -> None:
    # Full steps on one or two samples a point: a divisor of b_i alone would diverge.
    for state, _ in steps_on(lambda rows: torch.randn(rows, 8), torch.randn(20, 8).double(), 2, 60, batch_size=30):
        assert float(state.points.abs().max()) < 6


def test_a_stream_that_moves_is_told() -> None:
    batches = (torch.randn(200, 2) + (5.0 if k > 20 else 0.0) for k in range(60))
    with pytest.warns(tc.DriftWarning, match="has moved"), pytest.warns(UserWarning, match="ended"):
        tc.build_coreset(batches, 4, algorithm="sgd", batch_size=200, steps=100)
