"""The two lowest numbers of each column and of each row, and the least of many, against sorting."""

import math

import pytest
import torch
from torch import Tensor

from torchcoreset.transport.passes.nearest import (
    FEW,
    FOLD,
    about_least,
    lowest_in_columns,
    lowest_in_rows,
    two_lowest_in_columns,
    two_lowest_in_rows,
)

EDGES = [FEW + step for step in (-1, 0, 1, FOLD - 1, FOLD, FOLD + 1)]
every_length = pytest.mark.parametrize("n", [1, 2, 3, 31, 32, 33, 100, *EDGES, 511, 512, 600, 699, 700])


def check(table: Tensor) -> None:
    """Of rows (rows, n), both ways: values are those of `topk`, the index is of a lowest number."""
    columns = table.t().contiguous()
    for lowest, place, second in (two_lowest_in_rows(table.clone()), two_lowest_in_columns(columns.clone())):
        if table.shape[1] == 1:
            assert second.isinf().all()
        else:
            expected = table.topk(2, largest=False).values
            assert torch.equal(torch.stack((lowest, second), 1), expected)
        assert torch.equal(table.gather(1, place[:, None])[:, 0], lowest)
        assert torch.equal(lowest, table.amin(1))
    for lowest, place in (lowest_in_rows(table), lowest_in_columns(columns)):
        assert torch.equal(lowest, table.amin(1))
        assert torch.equal(table.gather(1, place[:, None])[:, 0], lowest)
    # in columns it is the first of them
    first = torch.where(columns == lowest, torch.arange(len(columns))[:, None], len(columns)).amin(0)
    assert torch.equal(place, first)


@every_length
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_they_are_those_of_sorting(n: int, dtype: torch.dtype, generator: torch.Generator) -> None:
    check(torch.randn(40, n, dtype=dtype, generator=generator))


@every_length
def test_ties_are_both_found(n: int, generator: torch.Generator) -> None:
    check(torch.randint(0, 3, (40, n), generator=generator).float())
    check(torch.zeros(3, n))
    # each pair of places that may share the minimum: in one column of the fold, in two, in what is left over
    last = torch.full((n, n), 5.0).fill_diagonal_(1.0)
    last[:, -1] = 1.0
    check(last)


@every_length
def test_infinities_are_numbers_like_others(n: int, generator: torch.Generator) -> None:
    table = torch.randn(40, n, generator=generator)
    check(table.masked_fill(torch.rand(40, n, generator=generator) < 0.5, math.inf))
    check(torch.full((3, n), math.inf))
    check(torch.full((n, n), math.inf).fill_diagonal_(0.0))


@pytest.mark.parametrize("kind", ["random", "ascending", "equal", "periodic"])
def test_the_least_are_found_whatever_the_order(kind: str) -> None:
    """Where the numbers shown mislead, or many tie, there may be fewer, but none that is not among the least."""
    m, count = 50_000, 1000
    values = {
        "random": torch.rand(m, generator=torch.Generator().manual_seed(0)),
        "ascending": torch.arange(m).float(),
        "equal": torch.ones(m),
        "periodic": (torch.arange(m) % 6 > 0).float(),  # only the zeros are shown
    }[kind]
    found = about_least(values, count)
    assert len(found.unique()) == len(found)
    assert 0.8 * count <= len(found) <= 2 * count
    outside = torch.ones(m, dtype=torch.bool).index_fill_(0, found, False)
    assert float(values[found].max()) <= float(values[outside].min())
