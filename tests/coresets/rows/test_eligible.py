"""Which rows may be taken: what is asked of them, and its errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import torchcoreset as tc

ROWS = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": [3]}, r"^keep: given without rows; expected row numbers with rows=True"),
        ({"exclude": [3]}, r"^exclude: given without rows; expected row numbers with rows=True"),
        ({"rows": [1, 2]}, r"^rows: got list; expected True or False\. Rows to take go into keep"),
        ({"rows": True, "keep": [1, 1]}, r"^keep: got row 1 more than once"),
        ({"rows": True, "keep": [0.5]}, r"^keep: got 0\.5; expected row numbers, whole"),
        ({"rows": True, "exclude": [-1]}, r"^exclude: got -1; expected row numbers, whole"),
        ({"rows": True, "exclude": torch.zeros(40, dtype=torch.bool)}, r"^exclude: got a mask; expected row numbers"),
        ({"rows": True, "keep": [1, 2], "exclude": [2]}, r"^keep, exclude: got row 2 in both"),
        ({"rows": True, "keep": [40]}, r"^keep: got row 40; expected numbers of the source's rows, 0 to 39"),
        ({"rows": True, "keep": [0, 1, 2, 3, 4, 5]}, r"^keep: got 6 rows for size=5"),
        ({"rows": True, "size": 41}, r"^size: got 41 with rows=True for 40 different rows; expected at most 40"),
        (
            {"rows": True, "size": 39, "exclude": [0, 1]},
            r"^size: got 39 with rows=True for 40 different rows \(2 excluded\); expected at most 38",
        ),
        (
            {"rows": True, "size": 39, "exclude": [0], "sample_weights": [0.0, 0.0, *[1.0] * 38]},
            r"\(1 excluded, 2 of weight zero\); expected at most 38",
        ),
        ({"rows": True, "algorithm": "sgd"}, r"^rows: given with algorithm='sgd'"),
        ({"rows": True, "samples": 20, "keep": list(range(40)), "size": 40}, r"not among the 20 rows in memory of 40"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tc.build_coreset(ROWS, **{"size": 5, **options})


@pytest.mark.parametrize("source", [torch.distributions.Normal(0.0, 1.0), iter([ROWS])])
def test_rows_without_numbers_are_refused(source: Any) -> None:
    with pytest.raises(ValueError, match=r"^rows: got a source whose rows have no numbers"):
        tc.build_coreset(source, 5, rows=True)


def test_a_callable_is_the_checkpoint_that_keep_was() -> None:
    records: list[Any] = []
    with pytest.warns(DeprecationWarning, match=r"^keep: got a callable; .* Write checkpoint="):
        tc.build_coreset(ROWS, 3, keep=records.append, steps=2)
    assert len(records) == 3
    with pytest.raises(ValueError, match=r"^keep: got a callable beside checkpoint"):
        tc.build_coreset(ROWS, 3, keep=print, checkpoint=print)


def test_a_record_of_free_points_is_not_one_of_rows() -> None:
    records: list[Any] = []
    tc.build_coreset(ROWS, 3, checkpoint=records.append, steps=2)
    with pytest.raises(ValueError, match=r"^resume: got a record of a run with rows=None, and this one has True"):
        tc.build_coreset(ROWS, 3, rows=True, resume=records[-1])


@pytest.mark.parametrize("kept", [[3, 8], (3, 8), {3, 8}, np.array([3, 8]), torch.tensor([8, 3])])
def test_row_numbers_in_any_form(kept: Any) -> None:
    found = tc.build_coreset(ROWS, 5, rows=True, keep=kept, exclude=range(10, 30)).rows
    assert found is not None
    assert {3, 8} <= set(found.tolist())
    assert not set(found.tolist()) & set(range(10, 30))
