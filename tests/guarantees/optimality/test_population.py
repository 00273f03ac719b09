"""The bound for the distribution behind the rows: it holds as often as it says, and never where it is told exactly."""

from __future__ import annotations

import pytest
import torch

import torchcoreset as tc
from tests.data import line, normal, plane, seeded
from torchcoreset.guarantees import fewest_points
from torchcoreset.sources import as_source
from torchcoreset.testing import BEST_KNOWN, NORMAL


@pytest.mark.parametrize("p", [1, 2])
def test_it_covers_one_point_whose_best_value_is_known(p: float) -> None:
    # For one point and p = 2 the mean over pairs is unbiased for the variance: no slack hides a wrong spread.
    truth = 1.0 if p == 2 else NORMAL.value(torch.zeros(1, 1), 1)
    held = [tc.optimality_bound(normal(200, 1, seed=seed), 1, p, confidence=0.9).lower <= truth for seed in range(100)]
    assert sum(held) >= 84  # 0.9 less two standard deviations


@pytest.mark.parametrize("size", [2, 5, 20])
def test_it_is_below_the_best_known_value(size: int) -> None:
    best = BEST_KNOWN["normal"][size].value
    for seed in range(3):
        bound = tc.optimality_bound(plane, size, confidence=0.99, samples=4000, seed=seed)
        assert 0.4 * best < bound.lower < best
        assert (bound.method, bound.samples, bound.confidence) == ("population", 2000, 0.99)
    bounded = tc.optimality_bound(plane, size, weights=(0.5, 2.0), confidence=0.99, samples=4000)
    assert 0 < bounded.lower < bound.lower


def test_moves_and_units_change_nothing() -> None:
    y = normal(300, 2)
    value = tc.optimality_bound(y, 4, confidence=0.95).lower
    assert tc.optimality_bound(100 * y, 4, confidence=0.95).lower == pytest.approx(1e4 * value)
    assert tc.optimality_bound(y + 1e6, 4, confidence=0.95).lower == pytest.approx(value, rel=1e-6)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    y = normal(300, 2)
    value = tc.optimality_bound(y, 4, 1.5, confidence=0.95).lower
    monkeypatch.setattr("torchcoreset.guarantees.optimality.population.BLOCK", 7 * 150)
    assert tc.optimality_bound(y, 4, 1.5, confidence=0.95).lower == pytest.approx(value)


def test_no_fewer_points_are_within_a_distance() -> None:
    best = {size: BEST_KNOWN["normal"][size].value ** 0.5 for size in (3, 5, 10)}
    for size, distance in best.items():
        fewest = fewest_points(distance, as_source(plane), 2, 100, confidence=0.95, samples=2000, seed=0)
        assert 1 < fewest <= size
    assert fewest_points(1e-3, as_source(plane), 2, 20, confidence=0.95, samples=2000, seed=0) == 21
    assert fewest_points(2.0, as_source(line), 2, 20, confidence=0.95, samples=2000, seed=0) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"confidence": 1.0}, "confidence: got 1.0"),
        ({"method": "shift"}, "method: got 'shift' with a confidence"),
        ({"weights": "free"}, "weights: got free weights with a confidence"),
        ({"sample_weights": torch.rand(100, generator=seeded())}, "source: got rows with weights of their own"),
        ({"samples": 20}, "source: got 20 rows"),
    ],
)
def test_what_cannot_be_bounded_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tc.optimality_bound(**({"source": normal(100, 2), "size": 3, "confidence": 0.95} | changes))


def test_it_compares_with_certificates_not_builds() -> None:
    y = normal(300, 2)
    bound, built = tc.optimality_bound(y, 4, confidence=0.95), tc.build_coreset(y[:100], 4, progress=False)
    assert bound.within(tc.certify(built, y[100:]).upper) > 0
    with pytest.raises(TypeError, match="give `upper` of the certificate"):
        bound.within(built)
