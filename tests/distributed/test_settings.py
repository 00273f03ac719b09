"""D33: ranks that call with other settings get an error that names the setting, on every rank and at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal
from torchcoreset.errors import RankError

from .pair import Pair

pytestmark = pytest.mark.distributed


def transport(options: dict[str, Any], x: Tensor, y: Tensor) -> float:
    return tc.transport(x, y, group="world", **options).value


def wasserstein(options: dict[str, Any], x: Tensor, y: Tensor) -> float:
    return tc.wasserstein(x, y, group="world", **options).item()


def loss(options: dict[str, Any], x: Tensor, y: Tensor) -> float:
    return tc.CoresetLoss(group="world", **options)(x.requires_grad_(), y).item()


def online(options: dict[str, Any], x: Tensor, y: Tensor) -> float:
    follow = tc.CoresetLoss(online=True, group="world", **options)
    return follow(x, y).item()


def build(options: dict[str, Any], x: Tensor, y: Tensor) -> float:
    size = options.pop("size", 5)
    options = {"steps": 3, **options}
    return tc.build_coreset(y, size, progress=False, group="world", **options).transport.value


def certify(options: dict[str, Any], x: Tensor, y: Tensor) -> float:
    return tc.certify(x, y, group="world", **{"samples": 1000, **options}).dual


def pushforward(options: dict[str, Any], x: Tensor, y: Tensor) -> float:
    return tc.certify_pushforward(x, y, torch.sin, group="world", **{"samples": 1000, **options}).image.dual


def sums(rows: Tensor) -> Tensor:
    return rows.sum(1)


def expectation(options: dict[str, Any], x: Tensor, y: Tensor) -> float:
    return tc.expectation_error(x, y, sums, group="world", **{"samples": 1000, **options}).error


CALLS = (transport, wasserstein, loss, online, build, certify, pushforward, expectation)


def differing(rank: int, call: int, options: list[dict[str, Any]], x: Tensor, y: list[Tensor]) -> tuple[Any, Any]:
    """What comes of a call with settings of its own, and of one with equal ones after it."""
    try:
        found: Any = CALLS[call](options[rank], x.clone(), y[rank])
    except (RankError, ValueError) as error:
        found = error
    return found, transport({}, x, y[rank])


def text_of(value: Any) -> str:
    return str(int(value)) if type(value) is float and value.is_integer() else repr(value)


def pairs(call: Callable[..., float], *settings: tuple[str, Any, Any]) -> list[Any]:
    return [pytest.param(CALLS.index(call), *one, id=f"{call.__name__}-{one[0]}") for one in settings]


@pytest.mark.parametrize(
    ("call", "name", "mine", "other"),
    [
        *pairs(transport, ("tolerance", 1e-3, 0.3), ("max_steps", 100, 1), ("p", 2, 1.5), ("exact", False, True),
               ("engine", "auto", "dense")),
        *pairs(wasserstein, ("tolerance", 1e-4, 1e-3), ("p", 1, 2)),
        *pairs(loss, ("tolerance", 1e-3, 1e-7), ("max_steps", 100, 2), ("exact", True, False)),
        *pairs(online, ("forgetting", 0.0, 0.1), ("p", 2, 1), ("engine", "auto", "dense")),
        *pairs(build, ("size", 5, 6), ("steps", 3, 4), ("algorithm", "fixed_point", "gradient"), ("restarts", 1, 2),
               ("init", "random", "annealed"), ("tolerance", 1e-3, 1e-2), ("seed", 0, 1)),
        *pairs(certify, ("p", 2, 1), ("confidence", 0.95, 0.9), ("samples", 1000, 900), ("bound", None, 1e6)),
        *pairs(pushforward, ("lipschitz", 1.0, None)),
        *pairs(expectation, ("evaluations", 100, 200)),
    ],
)  # fmt: skip
def test_another_setting_is_named_on_both(pair: Pair, call: int, name: str, mine: Any, other: Any) -> None:
    x, y = normal(5, 2, seed=9), [normal(700, 2, seed=0), normal(650, 2, seed=1)]
    for found, after in pair.run(differing, call, [{name: mine}, {name: other}], x, y, patience=10.0):
        assert isinstance(found, RankError)
        assert str(found).startswith(f"{name}: got {text_of(other)} on rank 1 and {text_of(mine)} on rank 0;")
        assert isinstance(after, float)  # no message is left over: the group can be used further


@pytest.mark.parametrize(
    ("call", "name", "value"),
    [
        *pairs(transport, ("tolerance", 2), ("engine", "fast"), ("max_steps", 0)),
        *pairs(wasserstein, ("tolerance", 2), ("p", 0.5)),
        *pairs(build, ("size", 0), ("algorithm", "best"), ("restarts", -1), ("steps", 0)),
        *pairs(certify, ("confidence", 2), ("p", 0)),
        *pairs(pushforward, ("lipschitz", -1)),
        *pairs(expectation, ("evaluations", 3)),
    ],
)  # fmt: skip
def test_a_setting_that_one_rank_cannot_use_is_an_error_on_both(pair: Pair, call: int, name: str, value: Any) -> None:
    x, y = normal(5, 2, seed=9), [normal(700, 2, seed=0), normal(650, 2, seed=1)]
    (first, after), (second, again) = pair.run(differing, call, [{}, {name: value}], x, y, patience=10.0)
    assert isinstance(first, RankError)
    assert f"failed on rank 1 of 2: ValueError: {name}: got" in str(first)
    assert isinstance(second, ValueError)
    assert str(second).startswith(f"{name}: got")
    assert isinstance(after, float)
    assert isinstance(again, float)


def other_points(rank: int, call: int, y: Tensor, how: str) -> None:
    x = normal(5, 2, seed=9)
    if rank == 1:
        x = {"n": x[:4], "dtype": x.float(), "whole": x.long(), "list": x.tolist()}[how]
    CALLS[call]({}, x, y)


@pytest.mark.parametrize("call", [0, 1, 3], ids=["transport", "wasserstein", "online"])
@pytest.mark.parametrize(
    ("how", "message"),
    [("n", "number of points: rank 1 has others than rank 0 (4 and 5)"),
     ("dtype", "dtype of the points: rank 1 has others than rank 0 (32 and 64)")],
)  # fmt: skip
def test_other_points(pair: Pair, call: int, how: str, message: str) -> None:
    for found in pair.run(other_points, call, normal(700, 2, seed=0), how, patience=10.0):
        assert isinstance(found, RankError)
        assert str(found).startswith(message)


@pytest.mark.parametrize("call", [1, 3], ids=["wasserstein", "online"])
def test_points_that_a_loss_on_one_rank_refuses(pair: Pair, call: int) -> None:
    first, second = pair.run(other_points, call, normal(700, 2, seed=0), "whole", patience=10.0)
    assert isinstance(first, RankError)
    assert "failed on rank 1 of 2: ValueError: points: got dtype torch.int64" in str(first)
    assert isinstance(second, ValueError)


def one_each(rank: int, y: Tensor) -> None:
    (transport if rank == 0 else loss)({}, normal(5, 2, seed=9), y)


def test_a_loss_is_not_a_transport(pair: Pair) -> None:
    for found in pair.run(one_each, normal(700, 2, seed=0), patience=10.0):
        assert isinstance(found, RankError)
        assert "rank 0 in transport, rank 1 in wasserstein" in str(found)


def steps(rank: int, batches: list[Tensor]) -> None:
    """A loop in which one rank changes a setting on the way."""
    follow, points = tc.CoresetLoss(tolerance=1e-2, group="world"), normal(5, 2, seed=9).requires_grad_()
    for step, batch in enumerate(batches):
        if rank == 1 and step == 2:
            follow.tolerance = 1e-3
        follow(points, batch).backward()


def test_a_setting_that_changes_on_the_way(pair: Pair) -> None:
    for found in pair.run(steps, list(normal(2800, 2, seed=0).split(700)), patience=10.0):
        assert isinstance(found, RankError)
        assert str(found).startswith("tolerance: got 0.001 on rank 1 and 0.01 on rank 0;")
