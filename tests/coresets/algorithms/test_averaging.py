"""Steps on fresh samples against the best points of one set of samples."""

from __future__ import annotations

import pytest
import torch

import torchcoreset as tc
from torchcoreset.coresets.algorithms import Objective, averaging
from torchcoreset.sources import as_source
from torchcoreset.testing import UNIFORM

pytestmark = pytest.mark.usefixtures("two_starts")

SIZE, COUNT = 10, 400


def uniform(rows: int) -> torch.Tensor:
    return torch.rand(rows, 1, dtype=torch.float64)


def excess(coreset: torch.Tensor, p: int) -> float:
    """W_p^p to the uniform distribution on [0, 1] over that of the best points, minus 1."""
    return UNIFORM.value(coreset.detach(), p) / UNIFORM.optimal_value(SIZE, p) - 1


@pytest.mark.parametrize("p", [1, 2])
def test_the_average_is_nearer_to_the_distribution_than_one_set_of_samples(p: int) -> None:
    held = tc.build_coreset(uniform, SIZE, p=p, samples=COUNT, tolerance=1e-6, seed=0).coreset
    state, generator = averaging.init(held.points.detach()), torch.Generator().manual_seed(1)
    for _ in range(40):
        state, _ = averaging.step(state, Objective(held.weights, p), as_source(uniform), COUNT, generator, 10)
    assert 0 <= excess(state.result, p) < 0.3 * excess(held.points, p)


def test_build_ends_on_fresh_samples_where_few_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchcoreset.coresets.samples.loaded.DEFAULT_SAMPLES", COUNT)
    monkeypatch.setattr("torchcoreset.coresets.samples.loaded.SAMPLES_PER_POINT", 1)
    monkeypatch.setattr("torchcoreset.coresets.samples.loaded.LINE_SAMPLES", 2 * COUNT)
    averaged = tc.build_coreset(uniform, SIZE, seed=0)
    held = tc.build_coreset(uniform, SIZE, seed=0, samples=2 * COUNT)
    assert averaged.history[-1].samples == 2 * COUNT
    assert len(averaged.history) >= averaging.STEPS
    assert excess(averaged.coreset.points, 2) < 0.5 * excess(held.coreset.points, 2)


@pytest.mark.slow
def test_steps_bound_the_fresh_ones_too() -> None:
    result = tc.build_coreset(lambda rows: torch.rand(rows, 2), 150, steps=5, seed=0)
    assert len(result.history) == 5
    assert torch.isfinite(result.coreset.points).all()
