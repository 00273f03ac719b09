"""The two lowest numbers of each column, against sorting."""

import math

import pytest
import torch
from torch import Tensor

from torchcoreset.transport.nearest import FOLD_FROM, GROUPS, lowest_place, two_lowest

EDGES = [FOLD_FROM + step for step in (-1, 0, 1, GROUPS - 1, GROUPS, GROUPS + 1)]
every_length = pytest.mark.parametrize("n", [1, 2, 3, 31, 32, 33, 100, *EDGES, 511, 512, 600, 699, 700])


def check(table: Tensor) -> None:
    """Values are those of `topk`; the index is that of the first of the lowest numbers."""
    lowest, place, second = two_lowest(table.clone())
    if len(table) == 1:
        assert second.isinf().all()
    else:
        assert torch.equal(torch.stack((lowest, second)), table.topk(2, 0, largest=False).values)
    assert torch.equal(table.gather(0, place[None])[0], lowest)
    assert torch.equal(lowest, table.amin(0))
    assert torch.equal(lowest_place(table), place)
    first = torch.where(table == lowest, torch.arange(len(table))[:, None], len(table)).amin(0)
    assert torch.equal(place, first)


@every_length
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_they_are_those_of_sorting(n: int, dtype: torch.dtype, generator: torch.Generator) -> None:
    table = torch.randn(n, 40, dtype=dtype, generator=generator)
    place = two_lowest(table.clone())[1]
    assert torch.equal(place, table.argmin(0))
    assert torch.equal(lowest_place(table), place)
    check(table)


@every_length
def test_ties_are_both_found(n: int, generator: torch.Generator) -> None:
    check(torch.randint(0, 3, (n, 40), generator=generator).float())
    check(torch.zeros(n, 3))
    # each pair of places that may share the minimum: in one part of the fold, in two, in what is left over
    last = torch.full((n, n), 5.0).fill_diagonal_(1.0)
    last[-1] = 1.0
    check(last)


@every_length
def test_infinities_are_numbers_like_others(n: int, generator: torch.Generator) -> None:
    table = torch.randn(n, 40, generator=generator)
    check(table.masked_fill(torch.rand(n, 40, generator=generator) < 0.5, math.inf))
    check(torch.full((n, 3), math.inf))
    one = torch.full((n, n), math.inf).fill_diagonal_(0.0)
    lowest, place, second = two_lowest(one.clone())
    assert place.tolist() == list(range(n))
    assert lowest.tolist() == [0.0] * n
    assert second.isinf().all()
