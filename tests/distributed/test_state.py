"""D31: a loss inside DistributedDataParallel, whose ranks may have other sizes and other numbers of batches."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import torchcoreset as tc
from tests.data import normal

from .pair import Pair

pytestmark = pytest.mark.distributed
either_loss = pytest.mark.parametrize("online", [False, True], ids=["solved", "online"])


class Fit(nn.Module):
    def __init__(self, n: int, **options: Any) -> None:
        super().__init__()
        self.points, self.loss = nn.Parameter(normal(n, 2, seed=5)), tc.CoresetLoss(**options)
        self.norm = nn.BatchNorm1d(2, dtype=torch.float64)

    def forward(self, batch: Tensor, shown: int | None = None) -> Tensor:
        return self.loss(self.points[:shown], self.norm(batch))


def uneven(rank: int, online: bool, broadcast: bool) -> tuple[Tensor, Tensor, int]:
    """Rank 1 has three batches fewer, and its first call is of the loss alone, with other points."""
    fit = Fit(5, online=online)
    if rank == 1:
        fit.loss(normal(3, 2, seed=1), normal(64, 2, seed=2))
    wrapped = DistributedDataParallel(fit, broadcast_buffers=broadcast)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    with wrapped.join():
        for step in range(6 - 3 * rank):
            optimizer.zero_grad()
            wrapped(normal(64, 2, seed=10 * rank + step)).backward()
            optimizer.step()
    return fit.points.detach(), fit.norm.running_mean, fit.loss.potential.numel()


@either_loss
@pytest.mark.parametrize("broadcast", [False, True])
def test_d31_join_and_broadcast_buffers(pair: Pair, online: bool, broadcast: bool) -> None:
    first, second = pair.all(uneven, online, broadcast)
    assert torch.isfinite(first[0]).all()
    assert (first[2], second[2]) == (5, 5)


def other_sizes(rank: int, online: bool) -> tuple[int, Tensor]:
    """Each rank shows as many of the points as it likes, and loads a state of its own."""
    fit = Fit(6, online=online)
    wrapped = DistributedDataParallel(fit, broadcast_buffers=True)
    for step in range(3):
        wrapped(normal(64, 2, seed=10 * rank + step), 4 + rank).backward()
    state = fit.state_dict()
    if rank == 0:  # as a run that is resumed where only one rank has read the file
        fresh = Fit(6, online=online)
        fresh.load_state_dict(state)
        wrapped = DistributedDataParallel(fresh, broadcast_buffers=True)
    else:
        wrapped = DistributedDataParallel(Fit(6, online=online), broadcast_buffers=True)
    wrapped(normal(64, 2, seed=10 * rank + 5), 4 + rank).backward()
    return fit.loss.potential.numel(), wrapped.module.points.grad


@either_loss
def test_d31_ranks_of_other_sizes(pair: Pair, online: bool) -> None:
    first, second = pair.all(other_sizes, online)
    assert (first[0], second[0]) == (4, 5)
    assert torch.equal(first[1], second[1])


def sent(rank: int, loss: tc.CoresetLoss, x: Tensor, y: Tensor) -> float:
    return loss(x, y).item()


@either_loss
def test_a_loss_is_passed_to_spawned_processes(pair: Pair, online: bool) -> None:
    loss, x, y = tc.CoresetLoss(online=online), normal(5, 2, seed=0), normal(64, 2, seed=1)
    loss(x, normal(64, 2, seed=2))
    assert pair.all(sent, loss, x, y) == [loss(x, y).item()] * 2


def states(rank: int, batches: list[Tensor]) -> None:
    loss, x = tc.CoresetLoss(online=True, group="world"), nn.Parameter(normal(5, 2, seed=0))
    for batch in batches:
        value = loss(x, batch[rank::2], torch.tensor([1.0, 1.0, 0.0, 1.0, 2.0]))
        value.backward()
        tensors = list(loss.state_dict().values())
        tensors += [value for value in vars(loss.last).values() if isinstance(value, Tensor)]
        places = [tensor.untyped_storage().data_ptr() for tensor in tensors]
        assert len(set(places[:13])) == 13
        assert not set(places[:13]) & set(places[13:])
        assert all(t.untyped_storage().nbytes() == t.numel() * 8 for t in tensors[:13])
    dist.barrier()


def test_d31_no_two_tensors_of_a_joined_state_share_memory(pair: Pair) -> None:
    pair.all(states, list(normal(600, 2, seed=0).split(60)))


def warned(rank: int) -> list[str]:
    fit = DistributedDataParallel(Fit(40, max_steps=1, tolerance=1e-9))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(normal(400, 2, seed=rank))
    return [one.filename for one in caught if issubclass(one.category, UserWarning)]


def test_d34_a_warning_of_a_wrapped_module_points_to_the_user(pair: Pair) -> None:
    for found in pair.all(warned):
        assert found == [__file__]
