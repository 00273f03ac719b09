"""Scenario reduction (examples/scenarios.py): the programme, its cost, and what reductions do to it."""

from pathlib import Path

import numpy as np
import pytest

for package in ("matplotlib", "sklearn", "scipy", "tqdm", "yaml"):
    pytest.importorskip(package)


def test_the_cost_of_one_scenario_by_hand() -> None:
    import scenarios

    # Demand 1 everywhere, no wind: base 0.6 and peak 0.3 run all 8,760 hours, and 0.1 is not served.
    held = np.concatenate((np.ones((1, 8)), np.zeros((1, 8))), 1)
    hours = scenarios.HOURS.sum()
    expected = 0.6 * 250 + 0.3 * 60 + hours * (0.6 * 0.03 + 0.3 * 0.09 + 0.1 * 3)
    assert hours == 8760
    assert scenarios.cost(np.array([0.0, 0.6, 0.3]), held) == pytest.approx(expected)
    # Wind that always blows serves all of it, and base has nothing to do.
    windy = np.ones((1, 16))
    assert scenarios.cost(np.array([1.0, 0.6, 0.3]), windy) == pytest.approx(110 + 0.6 * 250 + 0.3 * 60)


def test_the_programme_finds_the_least_cost_and_counts_weights() -> None:
    import scenarios

    held = scenarios.scenarios(6, 0)
    weights = np.array([0.3, 0.1, 0.1, 0.2, 0.2, 0.1])
    x = scenarios.decide(held, weights)
    least = scenarios.cost(x, held, weights)
    generator = np.random.default_rng(0)
    others = [np.maximum(x + 0.05 * generator.normal(size=3), 0) for _ in range(200)]
    assert min(scenarios.cost(other, held, weights) for other in others) >= least
    repeated = scenarios.decide(held[[0, 0, 0, 1, 2, 3, 3, 4, 4, 5]], np.full(10, 0.1))
    assert scenarios.cost(repeated, held, weights) == pytest.approx(least, rel=1e-9)


@pytest.mark.slow
def test_small_form_shows_that_means_of_cells_plan_for_too_little(tmp_path: Path) -> None:
    import scenarios

    found = scenarios.main(["--small", "--out", str(tmp_path)])
    held = {(row["method"], row["size"]): row for row in found}
    regret = {name: sum(held[name, size]["regret"] for size in (5, 20)) for name in ("support points", "W2 coreset")}
    assert regret["support points"] < 0.5 * regret["W2 coreset"]
    assert held["W2 coreset, stretched", 20]["bias"] < held["W2 coreset", 20]["bias"]
    assert ("W2 coreset, stretched", 5) not in held
    assert (tmp_path / "scenarios.svg").stat().st_size > 10_000
