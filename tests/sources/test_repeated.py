"""Rows with counts: one table of single rows, of which each distinct one is held once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import torchcoreset as tc
from tests.data import seeded
from torchcoreset.sources import RepeatedRows, as_source, once

ROWS = torch.arange(5.0)[:, None]
COUNTS = [3, 0, 1, 2, 4]
ALL = [0, 0, 0, 2, 3, 3, 4, 4, 4, 4]


def counted() -> RepeatedRows:
    source = as_source(ROWS, COUNTS, weights_are="counts")
    assert isinstance(source, RepeatedRows)
    return source


def values(rows: torch.Tensor) -> list[float]:
    return sorted(rows[:, 0].tolist())


def test_copies_are_rows() -> None:
    source = counted()
    assert (source.size, source.weighted, source.weights_are, source.dimension) == (10, False, "counts", 1)
    assert values(torch.cat([rows for rows, weights in source.batches(3, seeded()) if weights is None])) == ALL
    assert values(source.draw(50, seeded())) == ALL
    assert len(source.draw(4, seeded())) == 4
    assert repr(source) == "RepeatedRows(size=10, dimension=1, distinct=5)"


def test_they_are_packed_in_memory() -> None:
    rows, weights = counted().materialize(None, seeded())
    assert rows[:, 0].tolist() == [0, 2, 3, 4]
    assert weights.tolist() == pytest.approx([0.3, 0.1, 0.2, 0.4])
    assert counted().row_numbers.tolist() == [0, 2, 3, 4]
    rows, weights = counted().materialize(3, seeded())
    assert (len(rows), weights) == (3, None)


def test_they_are_split_one_by_one() -> None:
    build, fresh = tc.hold_out(counted(), 0.3, seed=1)
    assert (build.size, fresh.size) == (7, 3)
    assert sorted(values(build.draw(20, seeded())) + values(fresh.draw(20, seeded()))) == ALL


def test_a_build_needs_shares_alone() -> None:
    found = tc.build_coreset(counted(), 2, seed=0)
    expected = tc.build_coreset(torch.tensor(ALL, dtype=torch.float32)[:, None], 2, seed=0)
    assert found.distance == pytest.approx(expected.distance, rel=1e-3)


def test_of_a_file(tmp_path) -> None:
    np.save(tmp_path / "t.npy", np.c_[ROWS.numpy(), np.array(COUNTS, dtype=np.float32)])
    source = as_source(tmp_path / "t.npy", 1, weights_are="counts")
    assert (source.size, source.dimension, source.on_disk) == (10, 1, True)
    assert values(torch.cat([rows for rows, _ in source.batches(3, seeded())])) == ALL


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2, 0.5, 1, 1], "weights: got 0.5 at row 2 with weights_are='counts'; expected whole numbers"),
        ([1e14] * 5, "weights: got counts that sum to 5e.14; expected less than"),
        ([-1, 1, 1, 1, 1], "weights: 1 of 5 weights are negative"),
        (None, "weights_are: got 'counts' without weights"),
    ],
)
def test_unusable_counts(weights, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_source(ROWS, weights, weights_are="counts")


def test_what_weights_are() -> None:
    with pytest.raises(ValueError, match="weights_are: got 'freq'; expected 'importance' or 'counts'"):
        as_source(ROWS, COUNTS, weights_are="freq")
    weighted = as_source(ROWS, COUNTS)
    assert (weighted.weighted, weighted.weights_are, weighted.weightless, weighted.mass) == (True, "importance", 1, 10)
    mapped = tc.Pushforward(weighted, lambda y: y)
    assert (mapped.weights_are, mapped.weightless, mapped.mass) == ("importance", 1, 10)


def test_rows_are_given_once_with_their_weights() -> None:
    weighted = as_source(ROWS, COUNTS)
    rows, weights = once(weighted, 3, seeded())
    assert len(set(rows[:, 0].tolist())) == 3
    given = torch.tensor(COUNTS).double()[rows[:, 0].long()]
    assert torch.allclose(weights, given / given.sum())
    rows, weights = once(weighted, None, seeded())
    assert values(rows) == [0, 2, 3, 4]
    rows, weights = once(counted(), 9, seeded())
    assert (len(rows), weights) == (9, None)
    rows, weights = once(as_source(ROWS), 4, seeded())
    assert (len(set(rows[:, 0].tolist())), weights) == (4, None)
