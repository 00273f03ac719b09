"""Columns in units of their own, and back."""

import numpy as np
import pytest
import torch

from tests.data import seeded
from torchcoreset.sources import Scaling, as_source, fingerprint_of, scaled

TURN = torch.tensor([[3.0, 1.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.1]], dtype=torch.float64)
ROWS = torch.randn(5000, 3, generator=seeded(), dtype=torch.float64) @ TURN + 1e6

NAMES = ("standard", "robust", "whiten")


@pytest.mark.parametrize("how", ["standard", "robust", "whiten", [1.0, 2.0, 3.0]], ids=str)
def test_there_and_back(how):
    scaling = Scaling.of(as_source(ROWS), how)
    rows = scaling.apply(ROWS)
    assert (scaling.undo(rows) - ROWS).abs().max() < 1e-9
    assert scaling.apply(ROWS.float()).dtype == torch.float32
    again = Scaling.from_record(scaling.to_record(), 3)
    assert torch.equal(again.apply(ROWS), rows)
    assert again.words == scaling.words


def test_what_each_makes_of_the_columns():
    standard, robust, whiten = (
        Scaling.of(as_source(ROWS), how).apply(ROWS) for how in ("standard", "robust", "whiten")
    )
    assert (standard.mean(0).abs() < 1e-6).all()
    assert (standard.std(0, correction=0) - 1).abs().max() < 1e-9
    assert (robust.quantile(0.75, 0) - robust.quantile(0.25, 0) - 1.3489795).abs().max() < 1e-2
    assert (torch.cov(whiten.T, correction=0) - torch.eye(3)).abs().max() < 1e-6
    assert torch.equal(Scaling.of(as_source(ROWS), [1.0, 2.0, 4.0]).apply(ROWS), ROWS / torch.tensor([1.0, 2.0, 4.0]))


def test_blocks_of_a_large_table_are_joined(monkeypatch):
    whole = {how: Scaling.of(as_source(ROWS), how) for how in ("standard", "whiten")}
    monkeypatch.setattr("torchcoreset.sources.scaling.ROWS", 333)
    for how, expected in whole.items():
        found = Scaling.of(as_source(ROWS), how)
        assert (found.unit - expected.unit).abs().max() < 1e-9
        assert (found.centre - expected.centre).abs().max() < 1e-8


def test_weights_count():
    rows, weights = torch.tensor([[0.0], [1.0], [9.0]]), [1, 3, 0]
    scaling = Scaling.of(as_source(rows, weights))
    assert (scaling.centre.item(), scaling.unit.item()) == pytest.approx((0.75, (3 / 16) ** 0.5))
    assert Scaling.of(as_source(rows, weights), "robust").centre.item() == 1.0
    repeated = Scaling.of(as_source(torch.tensor([[0.0], [1.0], [1.0], [1.0]])), "robust")
    counted = Scaling.of(as_source(rows, weights, weights_are="counts"), "robust")
    assert torch.equal(counted.unit, repeated.unit)


def test_heavy_tails_do_not_decide_robust_units():
    rows = torch.randn(2000, 1, generator=seeded())
    spoilt = torch.cat((rows, torch.full((20, 1), 1e9)))
    assert Scaling.of(as_source(spoilt)).unit.item() > 1e7
    assert Scaling.of(as_source(spoilt), "robust").unit.item() == pytest.approx(1, abs=0.1)


def test_columns_that_do_not_spread():
    constant = as_source(torch.tensor([[5.0, 1e6], [5.0, 1e6], [5.0, 1e6]]))
    for how in ("standard", "robust"):
        assert Scaling.of(constant, how).unit.tolist() == [1, 1]
    assert torch.equal(Scaling.of(constant, "whiten").unit, torch.eye(2, dtype=torch.float64))
    mostly = torch.cat((torch.zeros(900, 1), torch.randn(100, 1, generator=seeded())))
    assert 0.1 < Scaling.of(as_source(mostly), "robust").unit.item() < 1  # quartiles coincide: the deviation serves


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("none", "scale: got 'none'; expected one of 'standard', 'robust', 'whiten'"),
        ([1.0], r"scale: got numbers of shape \(1,\); expected \(3,\)"),
        ([1.0, 2.0, 0.0], r"scale: got the unit 0; expected \(3,\), a positive unit"),
        ([1.0, 0.0, 1.0], "a positive unit"),
        ([1.0, np.nan, 1.0], "a positive unit"),
    ],
)
def test_what_is_no_scale(how, message):
    with pytest.raises(ValueError, match=message):
        Scaling.of(as_source(ROWS), how)


def test_an_iterator_cannot_be_read_twice():
    with pytest.raises(ValueError, match="scale: an iterator can be read only once"):
        Scaling.of(as_source(iter([ROWS])))
    assert Scaling.of(as_source(iter([ROWS[:5]])), [1.0, 1.0, 2.0]).unit.tolist() == [1, 1, 2]


def test_endless_sources_give_a_sample():
    scaling = Scaling.of(as_source(torch.distributions.Normal(3.0, 2.0)))
    assert (scaling.centre.item(), scaling.unit.item()) == pytest.approx((3, 2), abs=0.02)


def test_records_of_the_first_version_are_read():
    old = Scaling.from_record({"mean": [1.0, 2.0], "deviation": [3.0, 4.0]})
    assert (old.how, old.centre.tolist(), old.unit.tolist()) == ("standard", [1, 2], [3, 4])
    for how, unit in (("standard", [1.0, 2.0]), ("x", [1.0])):
        with pytest.raises(ValueError, match="got"):
            Scaling.from_record({"how": how, "centre": [1.0], "unit": unit})


def test_a_scaled_source_is_known_again():
    source = as_source(ROWS)
    assert fingerprint_of(scaled(source, Scaling.of(source))) == fingerprint_of(source)
