"""Running sizes of cells: what turns gradients into steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from torchcoreset.coresets.cell_sizes import RECENT, CellSizes


def batch(distances: list[list[float]], p: float, potential: list[float] | None = None) -> Any:
    """A batch with these distances in each cell, as it was measured at a potential."""
    n = len(distances)
    v = torch.tensor(potential or [0.0] * n, dtype=torch.float64)
    cell = torch.tensor([i for i, found in enumerate(distances) for _ in found], dtype=torch.int64)
    cost = torch.tensor([d**p for found in distances for d in found], dtype=torch.float64)
    weights = torch.full((n,), 1 / n, dtype=torch.float64)
    return SimpleNamespace(potential=v, assignment=cell, transform=cost - v[cell], weights=weights)


def sizes(factors: Tensor, p: float) -> list[float]:
    """L from L^(2-p) / p."""
    found: list[float] = (factors[:, 0] * p).pow(1 / (2 - p)).tolist()
    return found


@pytest.mark.parametrize("potential", [None, [3.0, -3.0]])
def test_the_size_is_a_median_which_samples_far_out_leave(potential: list[float] | None) -> None:
    found = CellSizes(1).step_factors(batch([[1, 2, 1e7], [4, 4, 5]], 1, potential))
    assert sizes(found, 1) == pytest.approx([2, 4])


def test_beyond_2_it_is_a_mean_which_they_pull() -> None:
    found = CellSizes(3).step_factors(batch([[1, 2, 3], [5, 5, 5]], 3))
    assert sizes(found, 3) == pytest.approx([((1 + 8 + 27) / 3) ** (1 / 3), 5])


def test_at_2_no_size_is_asked_for() -> None:
    assert CellSizes(2).step_factors(batch([[1], [7]], 2)).tolist() == [[0.5], [0.5]]


def test_weights_of_samples_move_the_median() -> None:
    weights = torch.tensor([1.0, 1.0, 3.0, 2.5, 2.5])
    found = CellSizes(1).step_factors(batch([[1, 2, 9], [4, 4]], 1), weights)
    assert sizes(found, 1) == pytest.approx([9, 4])


def test_samples_at_the_point_itself_are_the_optimum_for_1_alone() -> None:
    distances = [[0.0, 0.0, 3.0], [1.0, 1.0, 1.0]]
    assert sizes(CellSizes(1).step_factors(batch(distances, 1)), 1) == pytest.approx([0, 1], abs=1e-20)
    assert sizes(CellSizes(1.5).step_factors(batch(distances, 1.5)), 1.5) == pytest.approx([1, 1])


def test_an_empty_cell_begins_at_the_middle_and_never_grows() -> None:
    kept = CellSizes(1)
    assert sizes(kept.step_factors(batch([[2], [4], []], 1)), 1) == pytest.approx([2, 4, 2])
    later = sizes(kept.step_factors(batch([[8], [8], []], 1)), 1)
    assert later[2] == pytest.approx(2)
    assert later[0] > 2


def test_later_batches_weigh_more_and_light_cells_less() -> None:
    kept = CellSizes(1)
    kept.step_factors(batch([[1, 1], [1, 1]], 1))
    found = sizes(kept.step_factors(batch([[3, 3], [3, 3]], 1)), 1)
    assert found == pytest.approx([1 + 2 * RECENT / (RECENT + 1)] * 2)
    lighter = CellSizes(1)
    lighter.step_factors(batch([[1, 1], [1, 1]], 1))
    found = sizes(lighter.step_factors(batch([[3], [3, 3, 3]], 1)), 1)  # half of its share of the mass
    assert found == pytest.approx([1 + RECENT / (RECENT + 1), 1 + 2 * RECENT / (RECENT + 1)])


@pytest.mark.parametrize("p", [1, 1.5, 3])
def test_sizes_scale_with_the_data(p: float) -> None:
    distances = [[1.0, 2.0, 4.0], [3.0]]
    one = CellSizes(p).step_factors(batch(distances, p))
    thousand = CellSizes(p).step_factors(batch([[1000 * d for d in found] for found in distances], p))
    torch.testing.assert_close(thousand, one * 1000 ** (2 - p))
