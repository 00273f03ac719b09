"""`build_coreset` on two ranks is that on the union."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal
from torchcoreset.coresets.algorithms import averaging
from torchcoreset.errors import RankError

from .pair import Pair

pytestmark = pytest.mark.distributed


def build(rank: int | None, shards: list[Tensor], weights: list[Tensor] | None, options: dict) -> tc.BuildResult:
    pick = torch.cat if rank is None else lambda parts: parts[rank]
    return tc.build_coreset(
        pick(shards),
        sample_weights=None if weights is None else pick(weights),
        group=None if rank is None else "world",
        progress=False,
        **options,
    )


@pytest.mark.parametrize(
    ("sizes", "weighted", "options"),
    [
        ((3000, 3000), False, {"size": 10, "steps": 10, "restarts": 2}),
        ((18_000, 5000), False, {"size": 12, "steps": 20, "restarts": 1}),  # on a part first
        ((2000, 900), True, {"size": 8, "p": 1, "steps": 10, "restarts": 1}),
        ((1500, 2500), False, {"size": 6, "algorithm": "gradient", "steps": 8, "restarts": 2}),
    ],
)
def test_it_is_that_of_the_union(pair: Pair, sizes: tuple[int, int], weighted: bool, options: dict) -> None:
    shards = list(normal(sum(sizes), 2, seed=0).split(sizes))
    weights = None
    if weighted:
        weights = list(torch.rand(sum(sizes), generator=torch.Generator().manual_seed(1)).double().split(sizes))
    whole = build(None, shards, weights, options)
    found = pair.all(build, shards, weights, options)
    for of_rank in found:
        assert torch.allclose(of_rank.coreset.points, whole.coreset.points, rtol=0, atol=1e-9)
        assert of_rank.transport.value == pytest.approx(whole.transport.value, rel=1e-9)
        assert [step.value for step in of_rank.history] == pytest.approx([step.value for step in whole.history])
        assert [step.samples for step in of_rank.history] == [step.samples for step in whole.history]
        assert of_rank.status is whole.status
    assert torch.equal(found[0].coreset.points, found[1].coreset.points)


def fresh(rank: int) -> tuple[Tensor, float, Tensor]:
    result = tc.build_coreset(
        lambda m: torch.randn(m, 2), 5, samples=8000, steps=5, restarts=1, group="world", progress=False
    )
    return result.coreset.points, result.transport.value, result.transport.transform


def test_a_callable_gives_each_rank_its_own(pair: Pair) -> None:
    first, second = pair.all(fresh)
    assert torch.equal(first[0], second[0])
    assert first[1] == second[1]
    assert len(first[2]) + len(second[2]) == 8000
    assert not torch.equal(first[2][:100], second[2][:100])
    assert torch.equal(pair.all(fresh)[0][0], first[0])


def averaged(rank: int | None, table: Tensor) -> tc.BuildResult:
    """From a callable that goes through a table: a rank's rows are half of what one process draws at once."""
    place = 0

    def draw(rows: int) -> Tensor:
        nonlocal place
        begin, own = place + (rank or 0) * rows, rows
        place += rows if rank is None else 2 * rows
        return table[begin : begin + own]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torchcoreset.coresets.samples.loaded.DEFAULT_SAMPLES", 3000)
        patch.setattr("torchcoreset.coresets.samples.loaded.SAMPLES_PER_POINT", 1)
        return tc.build_coreset(
            draw, 6, init=normal(6, 2, seed=5), steps=60, progress=False, group=None if rank is None else "world"
        )


def test_an_average_over_fresh_samples(pair: Pair) -> None:
    table = normal(150_000, 2, seed=0)
    whole = averaged(None, table)
    assert len(whole.history) > averaging.STEPS
    for found in pair.all(averaged, table):
        assert [step.samples for step in found.history] == [step.samples for step in whole.history]
        assert [step.value for step in found.history] == pytest.approx([step.value for step in whole.history])
        assert torch.allclose(found.coreset.points, whole.coreset.points, rtol=0, atol=1e-9)


def failing(rank: int, how: str) -> None:
    y = normal(3000, 2, seed=rank)
    if how == "ended":
        tc.build_coreset(iter([y]) if rank == 0 else iter([]), 5, group="world", progress=False)
    elif how == "broken":
        calls = 0

        def draw(rows: int) -> Tensor:
            nonlocal calls
            calls += 1
            if rank == 1 and calls > 2:
                raise OSError("gone")
            return torch.randn(rows, 2)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("torchcoreset.coresets.samples.loaded.DEFAULT_SAMPLES", 3000)
            patch.setattr("torchcoreset.coresets.samples.loaded.SAMPLES_PER_POINT", 1)
            tc.build_coreset(draw, 6, steps=40, restarts=1, group="world", progress=False)
    elif how == "columns":
        tc.build_coreset(y[:, : 2 - rank], 5, group="world", progress=False)
    elif how == "half":
        tc.build_coreset(y.bfloat16() if rank else y.half(), 5, group="world", progress=False)
    else:
        tc.build_coreset(y, 5, seed=rank, group="world", progress=False)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("ended", "group: build_coreset failed on rank 1"),
        ("broken", "group: build_coreset failed on rank 1 of 2: OSError: gone"),
        ("columns", "columns of samples: rank 1 has others"),
        ("half", "dtype of samples: rank 1 has others"),
        ("seed", "seed: got 1 on rank 1 and 0 on rank 0"),
    ],
)
def test_what_differs_is_an_error_on_both(pair: Pair, how: str, message: str) -> None:
    first, second = pair.run(failing, how)
    assert isinstance(first, RankError)
    assert str(first).startswith(message)
    assert isinstance(second, {"ended": ValueError, "broken": OSError}.get(how, RankError))


def test_what_a_group_cannot_do() -> None:
    with pytest.raises(ValueError, match="group: got 'world' before any process group"):
        tc.build_coreset(normal(100, 2, seed=0), 5, group="world")


def unusable(rank: int, options: dict) -> None:
    tc.build_coreset(normal(100, 2, seed=0), 5, group="world", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"algorithm": "sgd"}, "group: given with algorithm='sgd'"), ({"sample_weights": "w"}, "sample_weights: got the")],
)
def test_unusable_settings(pair: Pair, options: dict, message: str) -> None:
    for found in pair.run(unusable, options):
        assert isinstance(found, ValueError)
        assert str(found).startswith(message)
