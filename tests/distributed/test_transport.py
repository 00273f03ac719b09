"""`transport` on two ranks is transport on the union."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from torchcoreset.errors import RankError
from torchcoreset.transport.ranks import call
from torchcoreset.transport.ranks.call import problem_on
from torchcoreset.transport.ranks.group import Ranks
from torchcoreset.transport.ranks.shard import engine_on
from torchcoreset.transport.solving import limits

from .pair import Pair

pytestmark = pytest.mark.distributed


def cloud(m: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(m, d, generator=generator, dtype=dtype) * torch.linspace(1, 2, d, dtype=dtype)


def parts(rows: Tensor, first: int) -> list[Tensor]:
    return [rows[:first], rows[first:]]


def solve(rank: int, x: Tensor, shards: list[Tensor], weights: list[Tensor] | None, options: dict) -> tc.Transport:
    return tc.transport(
        x, shards[rank], sample_weights=None if weights is None else weights[rank], group="world", **options
    )


def approached(rank: int, task: Callable[..., Any], *args: Any) -> Any:
    """What a task gives where no problem is so small that every rank solves it directly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "is_direct", lambda *_: False)
        patch.setattr(call, "is_direct", lambda *_: False)
        patch.setattr(limits, "MOST_PAIRS", 0)
        return task(rank, *args)


def assert_union(found: list[tc.Transport], whole: tc.Transport, within: float = 1e-9) -> None:
    for result in found:
        assert result.value == pytest.approx(whole.value, rel=within)
        assert result.lower == pytest.approx(whole.lower, rel=within)
        assert torch.allclose(result.potential, whole.potential, rtol=0, atol=within * whole.value)
        # At an exact optimum some samples lie on a boundary, and rounding says on which side.
        boundary = 0 if result.gap > 1e-14 else 3 / whole.plan.shape[0]
        assert torch.allclose(result.cell_mass, whole.cell_mass, rtol=0, atol=boundary + 1e-12)
        assert result.steps == whole.steps
        assert result.status is whole.status
    assert torch.equal(found[0].potential, found[1].potential)
    assert torch.allclose(torch.cat([result.transform for result in found]), whole.transform, atol=1e-9)
    rows = [found[0].plan.rows, found[1].plan.rows + found[0].plan.shape[0]]
    plan = tc.Coupling(
        torch.cat(rows),
        torch.cat([result.plan.cols for result in found]),
        torch.cat([result.plan.mass for result in found]),
        whole.plan.shape,
    )
    assert torch.allclose(plan.to_sparse().to_dense(), whole.plan.to_sparse().to_dense(), atol=1e-12)


@pytest.mark.parametrize(
    ("m", "first", "n", "d", "weighted", "options"),
    [
        (6000, 3000, 20, 2, False, {}),
        (6000, 700, 20, 3, False, {"exact": True}),
        (6000, 5000, 20, 2, True, {"p": 1, "tolerance": 1e-4}),
        (800, 100, 20, 2, False, {}),  # small: every rank solves it
        (5000, 2000, 10, 1, False, {"p": 1.5}),  # the line
    ],
)
def test_it_is_that_of_the_union(pair: Pair, m: int, first: int, n: int, d: int, weighted: bool, options: dict) -> None:
    y, x = cloud(m, d), cloud(n, d, seed=1)
    weights = torch.rand(m, generator=torch.Generator().manual_seed(2), dtype=torch.float64) if weighted else None
    shards = None if weights is None else parts(weights, first)
    task = solve, x, parts(y, first), shards, options

    def whole(rank: int) -> tc.Transport:
        return tc.transport(x, y, sample_weights=weights, **options)

    assert_union(pair.all(*task), whole(0))
    assert_union(pair.all(approached, *task), approached(0, whole))


def test_one_rank_has_what_float32_cannot_hold(pair: Pair) -> None:
    # all compute in float64 then, or rows of two widths would meet
    y, x = 1e3 * cloud(6000, 2, dtype=torch.float32), cloud(20, 2, seed=1, dtype=torch.float32)
    y[-1] = 1e19
    whole = tc.transport(x, y)
    for result in pair.all(solve, x, parts(y, 3000), None, {}):
        assert result.value == pytest.approx(whole.value, rel=1e-3)
        assert result.lower <= whole.value * (1 + 1e-12)
        assert result.gap <= 1e-3


def test_points_that_are_merged_first(pair: Pair) -> None:
    y, x = cloud(30000, 4), cloud(260, 4, seed=1)
    whole = tc.transport(x, y, tolerance=1e-4)
    for result in pair.all(solve, x, parts(y, 9000), None, {"tolerance": 1e-4}):
        assert result.lower == pytest.approx(whole.lower, rel=1e-12)
        assert torch.allclose(result.potential, whole.potential, rtol=0, atol=1e-12)
        # Detours within the tolerance depend on rounding: samples times 1 + 1e-15 change this value in one process too.
        assert abs(result.value - whole.value) <= whole.value * max(result.gap, whole.gap)


@pytest.mark.parametrize("size", [0.0, 1e-9])
def test_points_that_coincide_divide_their_samples_on_both_ranks(pair: Pair, size: float) -> None:
    y, x = cloud(6000, 2), cloud(7, 2, seed=1)[torch.arange(20) % 7] + size * cloud(20, 2, seed=2)
    whole = tc.transport(x, y)
    found = pair.all(approached, solve, x, parts(y, 1000), None, {})
    for result in found:
        assert result.value == pytest.approx(whole.value, rel=1e-3)
        assert result.lower <= whole.value * (1 + 1e-12)
        assert result.gap <= 1e-3
    received = sum(result.plan.column_sums() for result in found)
    assert torch.allclose(received, torch.full((20,), 1 / 20, dtype=torch.float64), rtol=0, atol=1e-12)


def test_a_start_is_followed(pair: Pair) -> None:
    y, x = cloud(8000, 2), cloud(25, 2, seed=1)
    for moved in (1e-3, 0.3):  # near, and far enough to be blurred and annealed again
        start = tc.transport(x + moved, y).potential
        options = {"start": start, "tolerance": 1e-5}
        assert_union(pair.all(solve, x, parts(y, 3000), None, options), tc.transport(x, y, **options))


def test_idle_points_and_sorted_shards(pair: Pair) -> None:
    y, x = cloud(6000, 2), cloud(20, 2, seed=1)
    y = y[y[:, 0].argsort()]
    b = torch.ones(20)
    b[3] = 0
    options = {"point_weights": b, "tolerance": 1e-4}
    assert_union(pair.all(solve, x, parts(y, 2500), None, options), tc.transport(x, y, **options))


def select(rank: int, values: list[Tensor], k: int) -> float:
    return float(Ranks(torch.distributed.group.WORLD).kth_smallest(values[rank], k))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_selection(pair: Pair, dtype: torch.dtype) -> None:
    values = torch.rand(1000, generator=torch.Generator().manual_seed(0), dtype=dtype)
    values[:5], values[990:] = 0, torch.inf
    for k in (1, 6, 400, 995):
        assert pair.all(select, parts(values, 300), k) == [float(values.sort().values[k - 1])] * 2


def gathered(rank: int, rows: int) -> list[tuple[Tensor, ...]]:
    own = torch.arange(rows)[rank::2]
    return Ranks(torch.distributed.group.WORLD).gather(own.half(), own[:, None].float(), own, own.double())


@pytest.mark.parametrize("rows", [0, 1, 2, 5])
def test_rows_of_every_width_are_gathered(pair: Pair, rows: int) -> None:
    for found in pair.all(gathered, rows):
        for rank, columns in enumerate(found):
            assert [column.dtype for column in columns] == [torch.half, torch.float, torch.long, torch.double]
            assert all(column.flatten().tolist() == list(range(rows))[rank::2] for column in columns)


def divide(rank: int, received: list[Tensor], excess: Tensor) -> Tensor:
    x, y = cloud(len(excess), 2), cloud(10, 2, seed=1)
    ranks = Ranks(torch.distributed.group.WORLD)
    shard, _ = problem_on(ranks, "tests", x, y, 2, None, None, lambda _: None)
    return engine_on(ranks, "dense")(shard, torch.inf).own_excess(received[rank], excess)


def test_a_surplus_is_divided_between_the_ranks(pair: Pair) -> None:
    received = [torch.tensor([0.1, 0.2, 0.0, 0.1]).double(), torch.tensor([0.3, 0.1, 0.2, 0.0]).double()]
    excess = torch.tensor([0.15, 0.2, -0.05, -0.3]).double()
    parts_of_it = pair.all(divide, received, excess)
    assert torch.allclose(sum(parts_of_it), excess)
    for part, held in zip(parts_of_it, received, strict=True):
        assert abs(float(part.sum())) < 1e-15  # each rank's own plan stays one
        assert bool((part <= held + 1e-15).all())


def failing(rank: int, x: Tensor, shards: list[Tensor], change: str) -> None:
    y = shards[rank]
    if rank == 1 and change == "empty":
        y = y[:0]
    if rank == 1 and change == "points":
        x = x + 1e-3
    if rank == 1 and change == "nan":
        y = y * torch.nan
    tc.transport(x, y, group="world")


@pytest.mark.parametrize(
    ("change", "first", "second"),
    [
        ("empty", "transport failed on rank 1 of 2: ValueError: samples: got shape", "samples: got shape"),
        ("nan", "transport failed on rank 1 of 2: ValueError: samples: 3000 of 3000 rows hold NaN", "samples: 3000"),
        ("points", "points: rank 1 has others than rank 0", "points: rank 1 has others than rank 0"),
    ],
)
def test_bad_input_on_one_rank_is_an_error_on_both(pair: Pair, change: str, first: str, second: str) -> None:
    found = pair.run(failing, cloud(20, 2, seed=1), parts(cloud(6000, 2), 3000), change)
    assert isinstance(found[0], RankError)
    assert str(found[0]).startswith(f"group: {first}" if change != "points" else first)
    assert str(found[1]).startswith(second)


def test_samples_of_one_rank_may_need_float64(pair: Pair) -> None:
    x = torch.tensor([[0.0, 0.0], [1.0, 1.0]])  # float32
    near, far = 0.1 * cloud(300, 2), cloud(300, 2, seed=2) + 1e5  # where float32 is 0.008 apart
    whole = tc.transport(x.double(), torch.cat((near, far)), tolerance=1e-6)
    found = pair.run(solve, x, [near, far], None, {"tolerance": 1e-6})
    assert found[0].value == found[1].value == pytest.approx(whole.value, rel=1e-6)
    assert max(found[0].lower, whole.lower) <= min(found[0].value, whole.value) * (1 + 1e-12)


def leaving(rank: int, x: Tensor, shards: list[Tensor]) -> None:
    if rank == 0:
        tc.transport(x, shards[rank], group="world")
    else:
        import time

        time.sleep(3)


def test_a_rank_that_does_not_call_is_a_clear_error(pair: Pair) -> None:
    found = pair.run(leaving, cloud(20, 2, seed=1), parts(cloud(6000, 2), 3000), patience=1.0)
    assert isinstance(found[0], RankError)
    assert "rank 0 of 2 waited in vain" in str(found[0])


@pytest.mark.parametrize(
    ("group", "message"),
    [("world", "before any process group was initialised"), ("all", "expected None"), (3, "expected None")],
)
def test_group_is_checked(group: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"group: got .*{message}"):
        tc.transport(cloud(3, 2), cloud(10, 2), group=group)


def test_ranks_whose_samples_take_another_shift(pair: Pair) -> None:
    """An offset is subtracted where that rounds nothing: of whole numbers, but not of the other rank's samples."""
    y, x = cloud(6000, 2), (3 * cloud(20, 2, seed=1)).round() + 5
    y[:3000] = (3 * y[:3000]).round() + 5
    whole = tc.transport(x, y)
    for result in pair.all(solve, x, parts(y, 3000), None, {}):
        assert result.value == pytest.approx(whole.value, rel=1e-3)
        assert result.lower <= whole.value * (1 + 1e-12)
        assert whole.lower <= result.value * (1 + 1e-12)
        assert result.gap <= 1e-3


def test_a_batch_of_clouds_is_refused_on_every_rank(pair: Pair) -> None:
    x, y = cloud(20, 2, seed=1), cloud(600, 2)
    for error in pair.run(solve, x, [y[None], y[None]], None, {}):
        assert isinstance(error, ValueError)
        assert "group: got 'world' with a batch of clouds" in str(error)
    one, other = pair.run(solve, x, [y[None], y], None, {})
    assert isinstance(one, ValueError)
    assert isinstance(other, RankError)
    assert "with a batch of clouds" in str(other)
