"""Moments of a stream, and the widths of intervals."""

from __future__ import annotations

import math

import pytest
import torch

from torchcoreset.guarantees.interval import bernstein, clt, mcdiarmid
from torchcoreset.guarantees.moments import Moments


def test_batches_give_what_the_whole_gives() -> None:
    values = 1e6 + torch.randn(1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64).exp()
    found = Moments()
    for batch in values.split([1, 300, 0, 699]):
        found.add(batch)
    centred = values - values.mean()
    assert found.mean == pytest.approx(float(values.mean()), rel=1e-14)
    assert found.variance == pytest.approx(float(values.var()), rel=1e-9)
    assert found.skewness == pytest.approx(float(centred.pow(3).mean() / centred.square().mean() ** 1.5), rel=1e-8)
    assert found.tail_share == pytest.approx(float(centred.square().max() / centred.square().sum()), rel=1e-9)


def test_constant_numbers_have_no_width() -> None:
    found = Moments()
    found.add(torch.full((50,), 3.0))
    assert (found.skewness, found.tail_share, clt(found, 0.05, above=True)) == (0, 0, 0)


def test_widths() -> None:
    found = Moments()
    found.add(torch.tensor([-1.0, 1.0]).repeat(50))  # variance 100/99, no skewness
    error = math.sqrt(100 / 99 / 100)
    assert clt(found, 0.025, above=True) == pytest.approx(1.959964 * error, rel=1e-6)
    log = math.log(2 / 0.025)
    assert bernstein(found, 0.025, 2.0) == pytest.approx(math.sqrt(2 / 99 * log) + 14 * log / 297, rel=1e-12)
    assert mcdiarmid(100, 0.025, 2.0) == pytest.approx(2 * math.sqrt(math.log(40) / 200), rel=1e-12)


def test_skewness_widens_the_side_that_is_too_short() -> None:
    found = Moments()
    found.add(torch.cat((torch.zeros(90), torch.ones(10))))
    z, skewness = 1.959964, 0.8 / math.sqrt(0.09)
    longer = found.standard_error * (z + skewness * (2 * z * z + 1) / 60)
    assert clt(found, 0.025, above=True) == pytest.approx(longer, rel=1e-5)
    assert clt(found, 0.025, above=False) == pytest.approx(z * found.standard_error, rel=1e-5)
