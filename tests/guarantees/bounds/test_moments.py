"""WeightedMoments of a stream, and the widths of intervals."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from torchcoreset.guarantees.bounds.interval import bernstein, clt, hall, hoeffding, student
from torchcoreset.guarantees.bounds.moments import WeightedMoments


def moments(values: Tensor, weights: Tensor | None = None) -> WeightedMoments:
    found = WeightedMoments()
    found.add(values, torch.ones(len(values)) if weights is None else weights)
    return found


@pytest.mark.parametrize("weighted", [False, True])
def test_batches_give_what_the_whole_gives(weighted: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    values = 1e6 + torch.randn(1000, generator=generator, dtype=torch.float64).exp()
    weights = torch.rand(1000, generator=generator, dtype=torch.float64) if weighted else torch.ones(1000)
    found = WeightedMoments()
    for batch, w in zip(values.split([1, 300, 0, 699]), weights.split([1, 300, 0, 699]), strict=True):
        found.add(batch, w)
    w = weights.double() / weights.sum()
    mean = float(w @ values)
    r = w * (values - mean)
    second = float(r.square().sum())
    assert found.mean == pytest.approx(mean, rel=1e-14)
    assert found.standard_error == pytest.approx(math.sqrt(1000 / 999 * second), rel=1e-9)
    assert found.asymmetry == pytest.approx(float(r.pow(3).sum()) / second**1.5, rel=1e-7)
    assert found.tail_share == pytest.approx(float(r.square().max()) / second, rel=1e-8)
    assert found.size == pytest.approx(1 / float(w.square().sum()), rel=1e-12)
    assert found.size_for_spread == pytest.approx(float(w @ (values - mean).square()) / second, rel=1e-8)


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-300, 2.0**300, 2.0**1000])
def test_the_scale_of_the_numbers_is_no_matter(scale: float) -> None:
    """Squares of these are zero or infinite in float64; so are they beside a batch of another scale."""
    values = torch.randn(200, generator=torch.Generator().manual_seed(0), dtype=torch.float64).exp()
    expected, found = moments(values), moments(scale * values)
    assert found.mean == pytest.approx(scale * expected.mean, rel=1e-12)
    assert found.standard_error == pytest.approx(scale * expected.standard_error, rel=1e-12)
    assert (found.asymmetry, found.tail_share) == pytest.approx((expected.asymmetry, expected.tail_share), rel=1e-9)
    assert bernstein(found, 0.05, 60 * scale) == pytest.approx(scale * bernstein(expected, 0.05, 60), rel=1e-12)
    both, whole = WeightedMoments(), torch.cat((values, scale * values))
    both.add(values, torch.ones(200))
    both.add(scale * values, torch.ones(200))
    assert both.mean == pytest.approx(float(whole.mean()), rel=1e-12)
    assert both.standard_error == pytest.approx(moments(whole).standard_error, rel=1e-12)
    assert both.asymmetry == pytest.approx(moments(whole).asymmetry, rel=1e-9)


def test_without_weights_they_are_the_usual_ones() -> None:
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64).exp()
    found, centred = moments(values), values - values.mean()
    assert found.count * found.standard_error**2 == pytest.approx(float(values.var()), rel=1e-9)
    assert found.count**0.5 * found.asymmetry == pytest.approx(
        float(centred.pow(3).mean() / centred.square().mean() ** 1.5), rel=1e-8
    )
    assert found.size == pytest.approx(1000)


def test_constant_numbers_have_no_width() -> None:
    found = moments(torch.full((50,), 3.0))
    assert (found.asymmetry, found.tail_share, clt(found, 0.05, above=True)) == (0, 0, 0)


def test_widths() -> None:
    found = moments(torch.tensor([-1.0, 1.0]).repeat(50))  # variance 100/99, no skewness
    error = math.sqrt(100 / 99 / 100)
    assert clt(found, 0.025, above=True) == pytest.approx(1.959964 * error, rel=1e-6)
    assert hall(found.standard_error, 0.0, 100, 0.025) == pytest.approx((1.984217 * error, 1.984217 * error), rel=1e-6)
    log = math.log(2 / 0.025)
    assert bernstein(found, 0.025, 2.0) == pytest.approx(math.sqrt(2 / 99 * log) + 14 * log / 297, rel=1e-12)
    assert hoeffding(found, 0.025, 2.0) == pytest.approx(2 * math.sqrt(math.log(40) / 200), rel=1e-12)


def test_skewness_widens_the_side_that_is_too_short() -> None:
    found = moments(torch.cat((torch.zeros(90), torch.ones(10))))
    z, skewness = 1.959964, 0.8 / math.sqrt(0.09)
    longer = found.standard_error * (z + skewness * (2 * z * z + 1) / 60)
    assert clt(found, 0.025, above=True) == pytest.approx(longer, rel=1e-5)
    assert clt(found, 0.025, above=False) == pytest.approx(z * found.standard_error, rel=1e-5)


@pytest.mark.parametrize("g", [-0.8, -0.1, 0.05, 0.5])
def test_the_cubic_is_inverted(g: float) -> None:
    below, above = hall(1.0, g, 1e12, 0.025)
    for t, z in ((below, 1.959964), (-above, -1.959964)):
        assert t + g * t**2 / 3 + g**2 * t**3 / 27 + g / 6 == pytest.approx(z, rel=1e-6)
    assert (above > below) == (g > 0)


def test_quantiles_of_students_t() -> None:
    """Tables: 2.045230 and 2.756386 for 29 degrees, 2.228139 for 10."""
    found = (student(0.975, 29), student(0.995, 29), student(0.975, 10))
    assert found == pytest.approx((2.045230, 2.756386, 2.228139), rel=1e-4)


def test_a_bound_on_weighted_numbers_solves_its_inequality() -> None:
    """At the end of the interval the mean of w (f - t) is just what Maurer and Pontil allow."""
    generator = torch.Generator().manual_seed(1)
    f, w = torch.rand(500, generator=generator).double(), 0.2 + torch.rand(500, generator=generator).double()
    found = moments(f, w)
    z = w * (f - (found.mean - bernstein(found, 0.025, 1.0)))
    log, u = math.log(2 / 0.025), float(w.max())
    assert float(z.mean()) == pytest.approx(math.sqrt(2 * float(z.var()) * log / 500) + 7 * u * log / (3 * 499))
    assert bernstein(found, 0.025, 1.0, 2 * u) > bernstein(found, 0.025, 1.0)
    few = moments(f[:40], w[:40].pow(40))  # one row has nearly all the weight
    assert bernstein(few, 0.025, 1.0) == math.inf
