"""Rows are given once, and as many as there are."""

from __future__ import annotations

import pytest
import torch

import torchcoreset as tc
from torchcoreset.guarantees.evaluation.fresh import FreshRows


def fresh(source: object) -> FreshRows:
    return FreshRows(tc.as_source(source), torch.device("cpu"), torch.Generator().manual_seed(0))


def test_an_iterator_is_read_no_further_than_asked() -> None:
    read = []
    rows = fresh(read.append(k) or torch.full((10, 1), float(k)) for k in range(9))
    assert (rows.left, rows.ahead(25), len(read)) == (None, 25, 3)
    assert rows.take(15).y[:, 0].tolist() == [0.0] * 10 + [1.0] * 5
    assert (rows.ahead(15), len(read)) == (15, 3)
    assert (rows.ahead(1000), rows.left, rows.expected(50)) == (75, 75, 50)
    taken = rows.take(5)
    assert (taken.y[0, 0], rows.left) == (1, 70)
    rows.put_back(taken)
    assert torch.equal(rows.take(5).y, taken.y)
    assert sum(batch.size for batch in rows.batches(60)) == 60
    assert (rows.take(100).size, rows.left, rows.ahead(3)) == (10, 0, 0)


def test_an_end_that_comes_while_rows_are_taken() -> None:
    rows = fresh(iter([torch.zeros(10, 1)]))
    assert (rows.take(40).size, rows.left, rows.take(1).y.shape) == (10, 0, (0, 0))


def test_weights_have_mean_one_and_idle_rows_do_not_come() -> None:
    rows = fresh(tc.as_source(torch.arange(6.0), [0, 1, 1, 0, 2, 4]))
    assert rows.left == 4
    taken = rows.take(10)
    given = torch.tensor([0, 1, 1, 0, 2, 4]).double()[taken.y[:, 0].long()]
    assert taken.w.tolist() == pytest.approx((given / 2).tolist())
    assert sorted(taken.y[:, 0].tolist()) == [1, 2, 4, 5]
    assert fresh(tc.as_source(torch.arange(6.0), torch.full((6,), 1e-3))).take(6).w.tolist() == [1.0] * 6
