"""How many points: on the line and in the square, where the answer is known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from torchcoreset.planning.growth import fit_growth


def line(count: int) -> Tensor:
    return torch.rand(count, 1, dtype=torch.float64)


def test_the_line() -> None:
    """U[0, 1]: W2 = 1 / sqrt(12 n^2), so 0.02 takes 15 points, or a few more to be certified."""
    found = tc.size_for(0.02, line, samples=20_000)
    assert found.reached
    assert 15 <= found.size <= 18
    assert found.certificate.upper <= 0.02
    assert found.coreset.size == found.size
    assert 9 <= found.least <= 15
    assert f"fewer than {found.least} cannot be" in found.message
    assert found.growth.dimension == pytest.approx(1, rel=0.3)  # of upper ends, which sampling errors raise
    assert 1 - found.certificate.confidence == pytest.approx(0.05 / 8)


@pytest.mark.slow
def test_the_square() -> None:
    """n W2^2 tends to 5 / (18 sqrt 3), and is 0.172 at n=10: 0.1 takes 16 to 18 points."""
    found = tc.size_for(0.1, lambda m: torch.rand(m, 2), samples=20_000)
    assert 16 <= found.size <= 19
    assert found.growth.dimension == pytest.approx(2, rel=0.15)


@pytest.mark.slow
def test_out_of_reach() -> None:
    found = tc.size_for(1e-3, lambda m: torch.rand(m, 2), samples=5000, max_size=200)
    assert not found.reached
    assert found.size is None
    assert len(found.tried) <= 8
    assert "0.001 was not reached" in found.message
    assert "max_size is 200" in found.message
    assert repr(found) == f"SizeResult({found.message})"


def test_effort_is_bounded() -> None:
    found = tc.size_for(0.01, line, samples=2000, max_builds=2)
    assert len(found.tried) == 2
    assert found.least > 15  # 0.01 takes 29
    assert "allow more builds" in found.message or "may be as near" in found.message


def test_nothing_is_said_of_fewer_points_where_it_cannot_be() -> None:
    rows = torch.rand(1000, 1, generator=torch.Generator().manual_seed(0))
    assert tc.size_for(0.2, tc.as_source(rows, torch.ones(1000)), max_builds=1).least is None
    assert tc.size_for(0.2, rows[:300], max_builds=1).least is None
    assert tc.size_for(0.2, rows, max_builds=1, weights="free").least is None
    assert tc.size_for(0.2, rows, max_builds=1, trim=0.1).least is None
    assert tc.size_for(5.0, rows, max_builds=1, max_size=1).least == 1
    equal, bounded = (tc.size_for(0.02, rows, max_builds=1, weights=weights).least for weights in (None, (0.5, 2.0)))
    assert 1 < bounded < equal


def test_a_table_is_split() -> None:
    table = torch.rand(6000, 1, generator=torch.Generator().manual_seed(0))
    found = tc.size_for(0.05, table, p=1)
    assert 5 <= found.size <= 8  # W1 = 1 / (4 n)
    assert found.certificate.samples <= 3000


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:source. one of:UserWarning")
def test_tails_are_told() -> None:
    with pytest.warns(UserWarning, match=r"a tenth of the cells carries \d+% of the cost: the tails decide") as caught:
        tc.size_for(0.1, torch.distributions.Normal(0.0, 1.0), samples=10_000, max_builds=4)
    assert {one.filename for one in caught} == {__file__}


def test_growth_of_a_distance_that_does_not_fall() -> None:
    assert fit_growth([10, 20], [1.0, 1.0]).size(0.5) == float("inf")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0}, "epsilon: got 0; expected a positive distance"),
        ({"source": iter([torch.zeros(5, 1)])}, "source: got StreamSource.*expected a table or dataset"),
        ({"max_size": 0}, "max_size: got 0"),
        ({"max_builds": 1.5}, "max_builds: got 1.5"),
        ({"confidence": 2}, "confidence: got 2"),
    ],
)
def test_unusable_arguments(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tc.size_for(**({"epsilon": 0.1, "source": line} | changes))
