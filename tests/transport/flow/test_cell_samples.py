"""What a cell holds: mass goes out cheapest first, is split, comes in, and the least prices follow."""

import numpy as np
import pytest

from torchcoreset.transport.flow.cell_samples import CellSamples

COST = np.array([[0.0, 3.0, 5.0], [0.0, 1.0, 9.0], [1.0, 1.5, 2.0]])


@pytest.fixture
def cells() -> tuple[CellSamples, CellSamples, np.ndarray]:
    """Cell 0 with samples 0 and 1, cell 1 with sample 2, and the least prices."""
    arc = np.array([[np.inf, 1, 5], [-0.5, np.inf, 0.5], [np.inf] * 3])
    first = CellSamples(0, np.array([0, 1]), np.array([0.25, 0.5]), COST[:2] - COST[:2, :1], arc[0])
    second = CellSamples(1, np.array([2]), np.array([0.25]), COST[2:] - COST[2:, 1:2], arc[1])
    return first, second, arc


def test_the_cheapest_go_first_and_the_last_is_split(cells: tuple[CellSamples, CellSamples, np.ndarray]) -> None:
    first, second, arc = cells
    paid, sent = first.send(second, 0.6, 4.0, COST, 1e-15)
    assert (paid, sent) == pytest.approx((0.5 * 1 + 0.1 * 3, 0.6))
    assert (first.rows, second.rows) == ([0], [2, 1, 0])
    assert first.mass == pytest.approx([0.15])
    assert second.mass == pytest.approx([0.25, 0.5, 0.1])
    np.testing.assert_array_equal(arc, [[np.inf, 3, 5], [-3, np.inf, 0.5], [np.inf] * 3])


def test_nobody_pays_more_than_the_limit(cells: tuple[CellSamples, CellSamples, np.ndarray]) -> None:
    first, second, _ = cells
    assert first.send(second, 0.6, 2.0, COST, 1e-15) == (0.5, 0.5)
    assert first.send(second, 0.6, 2.0, COST, 1e-15) == (0.0, 0.0)


def test_crumbs_go_too(cells: tuple[CellSamples, CellSamples, np.ndarray]) -> None:
    first, second, _ = cells
    first.send(second, 0.5 - 1e-16, 2.0, COST, 1e-15)
    assert first.rows == [0]


def test_parts_of_a_sample_meet_again(cells: tuple[CellSamples, CellSamples, np.ndarray]) -> None:
    first, second, _ = cells
    for _ in range(2):
        first.send(second, 0.2, 2.0, COST, 1e-15)
    assert second.rows == [2, 1]
    assert second.mass == pytest.approx([0.25, 0.4])


def test_strays_leave_for_the_nearest_cell(cells: tuple[CellSamples, CellSamples, np.ndarray]) -> None:
    first, second, arc = cells
    v = np.array([0.0, 2.0, 0.0])
    assert first.violations(v, 1e-12) == [(1, 0.5, 1)]
    assert first.rows == [0]
    assert arc[0].tolist() == [np.inf, 3, 5]
    assert second.violations(v, 1e-12) == []
    assert second.violations(-v, 1e-12) == [(2, 0.25, 0)]
    assert second.violations(v, 1e-12) == []
    assert np.isinf(arc[1]).all()
