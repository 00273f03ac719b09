"""Rows held out, and by what a finite source is known again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import torchcoreset as tc
from torchcoreset.sources import as_source, fingerprint_of

TABLE = torch.arange(40.0).reshape(20, 2)


def test_the_parts_have_no_common_row_and_make_the_whole() -> None:
    build, fresh = tc.hold_out(TABLE, 0.3, seed=1)
    rows = torch.cat([part.materialize(None, torch.Generator())[0] for part in (build, fresh)])
    assert (build.size, fresh.size) == (14, 6)
    assert torch.equal(rows[rows[:, 0].argsort()], TABLE)
    assert fresh.draw(6, torch.Generator().manual_seed(0)).shape == (6, 2)


def test_weights_follow_the_rows() -> None:
    build, _ = tc.hold_out(as_source(TABLE, weights=TABLE[:, 0]))
    rows, weights = build.materialize(None, torch.Generator())
    assert torch.allclose(weights, rows[:, 0].double() / rows[:, 0].double().sum())


def test_rows_of_weight_zero_are_in_neither_part() -> None:
    build, fresh = tc.hold_out(as_source(TABLE, weights=TABLE[:, 0] > 7), 0.5)
    rows = torch.cat([part.materialize(None, torch.Generator())[0] for part in (build, fresh)])
    assert (build.size, fresh.size) == (8, 8)
    assert float(rows[:, 0].min()) == 8
    assert rows[:, 0].unique().tolist() == TABLE[4:, 0].tolist()
    assert sorted(build.row_numbers.tolist() + fresh.row_numbers.tolist()) == list(range(4, 20))
    assert build.mass == pytest.approx(8)


def test_a_map_of_a_table_is_split_as_the_table() -> None:
    build, fresh = tc.hold_out(tc.Pushforward(TABLE, lambda y: 2 * y), 0.3, seed=1)
    for part, expected in zip((build, fresh), tc.hold_out(TABLE, 0.3, seed=1), strict=True):
        assert torch.equal(
            part.materialize(None, torch.Generator())[0], 2 * expected.materialize(None, torch.Generator())[0]
        )


@pytest.mark.parametrize("share", [0, 1, 0.01, 50])
def test_unusable_shares(share) -> None:
    with pytest.raises(ValueError, match="share: got"):
        tc.hold_out(TABLE, share)


def test_only_rows_that_can_be_picked() -> None:
    with pytest.raises(TypeError, match="expected a table or a map-style dataset"):
        tc.hold_out(torch.distributions.Normal(0.0, 1.0))


def test_marks() -> None:
    assert (
        fingerprint_of(as_source(TABLE))
        == fingerprint_of(as_source(TABLE.numpy()))
        == fingerprint_of(as_source(TABLE.double()))
    )
    assert fingerprint_of(as_source(TABLE)) != fingerprint_of(as_source(TABLE + 1))
    assert fingerprint_of(as_source(torch.distributions.Normal(0.0, 1.0))) is None


def test_a_file_has_a_mark_and_its_parts_stay_on_disk(tmp_path) -> None:
    """The mark is that of its first rows: others would have to be searched for."""
    path = tmp_path / "rows.npy"
    np.save(path, TABLE.numpy())
    whole = as_source(path)
    assert fingerprint_of(whole) == fingerprint_of(as_source(path)) is not None
    assert all(part.on_disk for part in tc.hold_out(whole))
