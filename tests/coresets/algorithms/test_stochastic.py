"""Algorithm 1: the direction, the length of a step, the average, and fresh batches."""

import statistics

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from torchcoreset.coresets.algorithms.stochastic import StochasticDescent
from torchcoreset.sources import as_source
from torchcoreset.testing import E1, NORMAL

STANDARD = torch.distributions.Normal(0.0, 1.0)


def descent_on(y, x: Tensor, p: float, *, batch_size: int = 100, rate: float = 1.0, average_from: int = 0):
    weights = torch.full((len(x),), 1 / len(x), dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    return StochasticDescent(x.clone(), weights, as_source(y), batch_size, p, rate, average_from, generator)


@pytest.mark.parametrize("p", [1, 2])
def test_the_first_step_goes_against_the_gradient(p: int) -> None:
    descent = descent_on(E1.samples, E1.points, p, rate=0.5)
    result = descent.evaluate()
    # The potential of a first batch is only roughly that of the batch; on E1 its cells are right or nearly so.
    assert 0.9 * E1.values[p] < result.value <= E1.values[p] * (1 + 1e-9)
    descent.move(result)
    moved = descent.points - E1.points
    assert bool((moved * E1.gradients[p] <= 0).all())
    assert tc.transport(descent.points, E1.samples, p).value < E1.values[p]


def test_a_full_step_on_all_samples_takes_p2_to_the_means() -> None:
    descent = descent_on(E1.samples, E1.points, 2)
    descent.move(descent.evaluate())
    assert descent.points.flatten().tolist() == pytest.approx([0.5, 2.5])


def test_steps_shrink_and_the_second_half_is_averaged() -> None:
    x = torch.tensor([[8.0]], dtype=torch.float64)
    descent = descent_on(torch.zeros(4, 1).double(), x.clone(), 1, average_from=3)
    visited = []
    for _ in range(6):
        descent.move(descent.evaluate())
        visited.append(float(descent.points))
    expected = 8.0
    for k, point in enumerate(visited, 1):
        expected -= 8 * k**-0.5 * (1 if expected > 0 else -1 if expected < 0 else 0)
        assert point == pytest.approx(expected)
    assert float(descent.finish()) == pytest.approx(sum(visited[3:]) / 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_start_is_not_written_to(dtype: torch.dtype) -> None:
    x = E1.points.to(dtype, copy=True)
    before = x.clone()
    source, weights = as_source(E1.samples), torch.full((2,), 0.5).double()
    descent = StochasticDescent(x, weights, source, 4, 2, 0.5, 0, torch.Generator().manual_seed(0))
    for _ in range(3):
        descent.move(descent.evaluate())
    assert torch.equal(x, before)
    assert descent.finish().dtype == dtype


def test_every_batch_is_fresh_and_as_large_as_asked() -> None:
    descent = descent_on(torch.distributions.Normal(0.0, 1.0), torch.tensor([[-1.0], [1.0]]), 2, batch_size=17)
    batches = []
    for _ in range(3):
        descent.move(descent.evaluate())
        batches.append(descent.batch)
    assert all(batch.shape == (17, 1) for batch in batches)
    assert len(torch.unique(torch.cat(batches))) == 51


def test_points_without_weight_stay() -> None:
    x = torch.tensor([[-1.0], [5.0], [1.0]])
    source = as_source(torch.distributions.Normal(0.0, 1.0))
    descent = StochasticDescent(
        x, torch.tensor([0.5, 0.0, 0.5]).double(), source, 50, 2, 1.0, 0, torch.Generator().manual_seed(0)
    )
    for _ in range(4):
        descent.move(descent.evaluate())
    assert float(descent.finish()[1]) == 5
    assert bool(descent.finish().isfinite().all())


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
    descent = descent_on(lambda rows: torch.randn(rows, 8), torch.randn(20, 8).double(), 2, batch_size=30)
    for _ in range(60):
        descent.move(descent.evaluate())
        assert float(descent.points.abs().max()) < 6


def test_a_stream_that_moves_is_told() -> None:
    batches = (torch.randn(200, 2) + (5.0 if k > 20 else 0.0) for k in range(60))
    with pytest.warns(tc.DriftWarning, match="has moved"), pytest.warns(UserWarning, match="ended"):
        tc.build_coreset(batches, 4, algorithm="sgd", batch_size=200, steps=100)
