"""`certify` on two ranks is that on the union of what they draw."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal
from torchcoreset.errors import RankError
from torchcoreset.guarantees.evaluation.shared_rows import SharedRows
from torchcoreset.transport.ranks.group import Ranks

from .pair import Pair

pytestmark = pytest.mark.distributed


def certified(rank: int | None, x: Tensor, rows: Tensor, options: dict) -> tc.Certificate:
    """From iterators, which are read in their order: rank r has every second row, from the r-th on."""
    own, group = (rows, None) if rank is None else (rows[rank::2], "world")
    return tc.certify(x, iter(own.split(500)), group=group, **options)


@pytest.mark.parametrize("options", [{"samples": 8001}, {"samples": 6000, "p": 1}, {"samples": 8000, "bound": 150.0}])
def test_it_is_that_of_the_union(pair: Pair, options: dict) -> None:
    x, rows = normal(10, 2, seed=1), normal(40_000, 2, seed=0)
    whole = certified(None, x, rows, options)
    found = pair.all(certified, x, rows, options)
    for of_rank in found:
        for name in ("lower", "upper", "dual", "value", "standard_error", "tail_share", "moved"):
            assert getattr(of_rank, name) == pytest.approx(getattr(whole, name), rel=1e-9, abs=1e-12), name
        assert of_rank.samples == whole.samples
        assert of_rank.potential_samples == whole.potential_samples
        assert torch.allclose(of_rank.cell_mass, whole.cell_mass, rtol=0, atol=1e-12)
    assert found[0].upper == found[1].upper


def many(rank: int | None, x: Tensor, rows: Tensor) -> tc.Certificate:
    """With room for few candidates, so that the fresh samples are kept and their transport is solved."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torchcoreset.guarantees.evaluation.cell_statistics.MOST_ELEMENTS", 100)
        return certified(rank, x, rows, {"samples": 8000})


def test_where_points_are_many(pair: Pair) -> None:
    x, rows = normal(20, 2, seed=1), normal(40_000, 2, seed=0)
    whole = many(None, x, rows)
    for found in pair.all(many, x, rows):
        assert found.dual == pytest.approx(whole.dual, rel=1e-9)
        assert abs(found.value - whole.value) < 0.25 * whole.standard_error  # what its solve may lose
        assert found.moved == pytest.approx(whole.moved, rel=0.1)
        assert torch.allclose(found.cell_mass, whole.cell_mass, rtol=0, atol=1e-12)


def bent(y: Tensor) -> Tensor:
    return torch.stack((y[:, 0], y[:, 0] ** 2 + y[:, 1]), 1)


def pushed(rank: int | None, x: Tensor, rows: Tensor) -> tc.PushforwardCertificate:
    own, group = (rows, None) if rank is None else (rows[rank::2], "world")
    return tc.certify_pushforward(x, iter(own.split(500)), bent, samples=6001, group=group)


def test_a_map(pair: Pair) -> None:
    x, rows = normal(10, 2, seed=1), normal(30_000, 2, seed=0)
    whole = pushed(None, x, rows)
    for found in pair.all(pushed, x, rows):
        for of_rank, of_all in ((found.image, whole.image), (found.data, whole.data)):
            for name in ("lower", "upper", "dual", "value", "standard_error", "samples"):
                assert getattr(of_rank, name) == pytest.approx(getattr(of_all, name), rel=1e-9), name
            assert torch.allclose(of_rank.cell_mass, of_all.cell_mass, rtol=0, atol=1e-12)


def square(y: Tensor) -> Tensor:
    return y.square().sum(1)


def in_mean(rank: int | None, x: Tensor, rows: Tensor, evaluations: int) -> tc.ExpectationError:
    own, group = (rows, None) if rank is None else (rows[rank::2], "world")
    return tc.expectation_error(x, iter(own.split(500)), square, samples=8000, evaluations=evaluations, group=group)


def test_an_expectation(pair: Pair) -> None:
    x, rows = normal(10, 2, seed=1), normal(40_000, 2, seed=0)
    whole = in_mean(None, x, rows, 701)
    for found in pair.all(in_mean, x, rows, 701):
        for name in ("lower", "upper", "error", "standard_error", "expectation", "beta", "variance_ratio"):
            assert getattr(found, name) == pytest.approx(getattr(whole, name), rel=1e-9), name
        assert (found.samples, found.evaluations) == (whole.samples, whole.evaluations) == (8000, 701)


def other_map(rank: int, x: Tensor) -> None:
    tc.certify_pushforward(x, normal(3000, 2, seed=rank), lambda y: y + 1e-3 * rank, samples=1000, group="world")


def other_call(rank: int, x: Tensor) -> None:
    (tc.certify if rank == 0 else lambda *a, **k: tc.expectation_error(*a, square, **k))(
        x, normal(3000, 2, seed=rank), samples=1000, group="world"
    )


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (other_map, "images of the points: rank 1 has others"),
        (other_call, "group: the ranks are in different calls: rank 0 in certify, rank 1 in expectation_error"),
    ],
)
def test_ranks_that_do_something_else(pair: Pair, task: Callable[..., None], message: str) -> None:
    for found in pair.run(task, normal(10, 2, seed=1)):
        assert isinstance(found, RankError)
        assert str(found).startswith(message)


def drawn(rank: int, x: Tensor, sizes: list[int] | None) -> tc.Certificate:
    endless = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
    source = endless if sizes is None else normal(sizes[rank], 2, seed=rank)
    return tc.certify(x, source, samples=20_000, group="world")


def test_fresh_and_uneven_samples(pair: Pair) -> None:
    x = normal(10, 2, seed=1)
    whole = tc.certify(x, torch.distributions.Normal(torch.zeros(2), torch.ones(2)), samples=20_000, seed=5)
    fresh = pair.all(drawn, x, None)
    assert fresh[0].samples == 20_000
    uneven = pair.all(drawn, x, [9000, 3000])
    assert 3000 < uneven[0].samples < 12_000
    for found in (fresh, uneven):
        assert found[0].lower == found[1].lower
        assert found[0].lower < whole.upper
        assert whole.lower < found[0].upper
    again = pair.all(drawn, x, None)
    assert again[0].lower == fresh[0].lower


def of_types(rank: int, x: Tensor, types: list[torch.dtype]) -> tc.Certificate:
    rows = normal(12_000, 2, seed=0)[rank::2].half()  # which every type of at least that precision holds
    return tc.certify(x, iter(rows.to(types[rank]).split(500)), samples=4001, group="world")


@pytest.mark.parametrize("types", [[torch.float64, torch.float32], [torch.float32, torch.float16]])
def test_rows_of_several_types(pair: Pair, types: list[torch.dtype]) -> None:
    x = normal(10, 2, seed=1)
    expected = pair.all(of_types, x, [torch.promote_types(*types)] * 2)
    for found in pair.all(of_types, x, types):
        assert found.lower == expected[0].lower
        assert found.upper == expected[0].upper


def ending(rank: int, x: Tensor) -> tc.Certificate:
    """Rank 1's rows end with the second set for the potential, exactly, and those for the interval are put back."""
    rows = normal(8000, 2, seed=rank)
    return tc.certify(x, iter((rows[:2000] if rank else rows).split(200)), samples=40_000, group="world")


def test_a_rank_whose_rows_end_early(pair: Pair) -> None:
    first, second = pair.all(ending, normal(10, 2, seed=1))
    assert first.lower == second.lower
    assert 2000 < first.samples < 10_000


def taken(rank: int, dtypes: list[torch.dtype]) -> list[Tensor]:
    rows = torch.arange(20, dtype=dtypes[rank]).view(10, 2) + 100 * rank
    shared = SharedRows(
        Ranks(torch.distributed.group.WORLD),
        tc.as_source(iter(rows.split(1))),
        torch.device("cpu"),
        torch.Generator().manual_seed(rank),
    )
    return [shared.take(count).y for count in (1, 1, 3, 1)]


@pytest.mark.parametrize("dtypes", [[torch.float64] * 2, [torch.float16, torch.bfloat16]])
def test_a_rank_without_a_part_of_the_rows(pair: Pair, dtypes: list[torch.dtype]) -> None:
    for found in pair.all(taken, dtypes):
        assert torch.cat(found)[:, 0].tolist() == [0, 100, 2, 102, 4, 104]
        kinds = {rows.dtype for rows in found}
        assert kinds == {torch.float64} if dtypes[0] == dtypes[1] else torch.float32 in kinds


def weighted(rank: int, x: Tensor, weights: list[float | None]) -> tc.Certificate:
    """Rank r's rows lie about r, and all weigh the same."""
    rows, w = rank + 0.1 * normal(2000, 1, seed=rank), weights[rank]
    return tc.certify(
        x, tc.as_source(rows, None if w is None else torch.full((2000,), w, dtype=torch.float64)), p=1, group="world"
    )


@pytest.mark.parametrize("weights", [[1.0, 3.0], [None, 3.0], [1e-190, 3e-190], [1e190, 3e190]])
def test_weights_of_all_ranks_are_on_one_scale(pair: Pair, weights: list[float | None]) -> None:
    """A point at 2 is 2 from a quarter of the mass and 1 from the rest."""
    first, second = pair.all(weighted, torch.tensor([[2.0]], dtype=torch.float64), weights)
    assert (first.lower, first.upper) == (second.lower, second.upper)
    assert first.lower < 1.25 < first.upper
    assert first.upper - first.lower < 0.1
    assert first.effective_samples == pytest.approx(first.samples * 4**2 / 20, rel=0.01)
    assert first.samples + first.potential_samples <= 4000


def test_many_points_and_weights(pair: Pair) -> None:
    found = pair.all(heavy, normal(20, 2, seed=1))
    assert found[0].upper == found[1].upper
    assert found[0].lower < found[0].upper < 1.2


def heavy(rank: int, x: Tensor) -> tc.Certificate:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torchcoreset.guarantees.evaluation.cell_statistics.MOST_ELEMENTS", 100)
        rows = normal(4000, 2, seed=5 + rank)
        return tc.certify(x, tc.as_source(rows, 0.2 + torch.rand(4000, generator=torch.Generator())), group="world")


def failing(rank: int, x: Tensor, how: str) -> None:
    source = normal(9000, 2, seed=rank)
    if rank == 1 and how == "empty":
        source = iter([])
    if rank == 1 and how == "columns":
        source = normal(9000, 3, seed=rank)
    if how == "dtype":
        x = x.float() if rank else x.float().double()
    if rank == 1 and how == "nan":
        source[8000:] = torch.nan
    if rank == 1 and how == "bound":
        source[:] *= 100
    tc.certify(x, source, samples=4000 + (rank if how == "samples" else 0), bound=1000.0, group="world")


@pytest.mark.parametrize(
    ("how", "first", "second"),
    [
        ("empty", "group: certify failed on rank 1", "source: got a list_iterator with no batches"),
        ("columns", "source: the ranks have samples of dimensions", "source: the ranks have samples of dimensions"),
        ("dtype", "dtype of the points: rank 1 has others", "dtype of the points: rank 1 has others"),
        ("nan", "group: certify failed on rank 1", "samples: "),
        ("bound", "group: certify failed on rank 1", "bound: got 1000"),
        ("samples", "samples: got 4001 on rank 1 and 4000 on rank 0", "samples: got 4001 on rank 1"),
    ],
)
def test_a_failure_on_one_rank_is_one_on_both(pair: Pair, how: str, first: str, second: str) -> None:
    found = pair.run(failing, normal(10, 2, seed=1), how)
    assert isinstance(found[0], RankError)
    assert str(found[0]).startswith(first)
    assert str(found[1]).startswith(second)
