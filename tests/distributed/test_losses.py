"""`CoresetLoss` on two ranks is that on the union, and its gradients are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import torchcoreset as tc
from tests.data import normal
from torchcoreset.errors import RankError
from torchcoreset.transport.ranks.group import Ranks

from .pair import Pair

pytestmark = pytest.mark.distributed

Batches = list[tuple[Tensor, ...]]


def stream(sizes: tuple[int, ...], steps: int, d: int = 2) -> Batches:
    """Batches, each in parts of these sizes."""
    return [normal(sum(sizes), d, seed=seed).split(sizes) for seed in range(steps)]


def descend(
    rank: int | None, x: Tensor, batches: Batches, options: dict, weights: tuple[Tensor, ...] | None = None
) -> tuple[list[float], Tensor, dict[str, Tensor]]:
    """Gradient descent: on a rank, or without one on the unions of the batches."""
    loss = tc.CoresetLoss(**options, **({} if rank is None else {"group": "world"}))
    points = nn.Parameter(x.clone())
    optimizer = torch.optim.SGD([points], lr=0.5)
    pick = torch.cat if rank is None else lambda parts: parts[rank]
    a = None if weights is None else pick(weights)
    values = []
    for batch in batches:
        optimizer.zero_grad()
        value = loss(points, pick(batch), None, a)
        value.backward()
        optimizer.step()
        values.append(float(value.detach()))
    return values, points.detach(), loss.state_dict()


@pytest.mark.parametrize(
    ("sizes", "steps", "options"),
    [
        ((30, 30), 60, {"online": True}),
        ((7, 50), 60, {"online": True, "p": 1}),
        ((700, 900), 12, {"online": True}),  # curvatures from subsamples
        ((2500, 1500), 8, {"tolerance": 1e-5}),
        ((300, 200), 8, {"tolerance": 1e-5}),
    ],
)
def test_it_is_that_of_the_union(pair: Pair, sizes: tuple[int, ...], steps: int, options: dict) -> None:
    x, batches = normal(12, 2, seed=99), stream(sizes, steps)
    values, points, state = descend(None, x, batches, options)
    found = pair.all(descend, x, batches, options)
    for rank_values, rank_points, rank_state in found:
        assert rank_values == pytest.approx(values, rel=1e-9)
        assert torch.allclose(rank_points, points, rtol=0, atol=1e-9)
        for name, tensor in state.items():
            assert torch.allclose(rank_state[name], tensor, rtol=1e-6, atol=1e-9), name
    assert torch.equal(found[0][1], found[1][1])
    assert all(torch.equal(found[0][2][name], found[1][2][name]) for name in state)
    again = pair.all(descend, x, batches, options)
    assert torch.equal(again[0][1], found[0][1])


def test_sums_that_do_not_fit_into_the_first_message(pair: Pair) -> None:
    x, batches = normal(150, 8, seed=99), stream((400, 300), 4, d=8)
    values, points, _ = descend(None, x, batches, {"online": True})
    for rank_values, rank_points, _ in pair.all(descend, x, batches, {"online": True}):
        assert rank_values == pytest.approx(values, rel=1e-9)
        assert torch.allclose(rank_points, points, rtol=0, atol=1e-9)


def counted(rank: int, x: Tensor, batches: Batches) -> list[int]:
    """Messages of each step."""
    sent, exchange = [], Ranks._exchange
    loss = tc.CoresetLoss(online=True, group="world")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ranks, "_exchange", lambda ranks, message: (sent.append(len(counts)), exchange(ranks, message)))
        counts: list[int] = []
        for batch in batches:
            loss(x, batch[rank])
            counts.append(sent.count(len(counts)))
    return counts


def test_a_step_takes_one_message_and_another_where_the_curvature_is_due(pair: Pair) -> None:
    for sizes in ((20, 30), (700, 500)):
        for counts in pair.all(counted, normal(8, 2, seed=99), stream(sizes, 60)):
            assert set(counts[1:]) == {1, 2}
            assert counts.count(1) > 25


def test_weighted_batches(pair: Pair) -> None:
    x, batches = normal(6, 2, seed=99), stream((20, 40), 30)
    weights = torch.rand(60, generator=torch.Generator().manual_seed(3), dtype=torch.float64).split((20, 40))
    values, points, _ = descend(None, x, batches, {"online": True}, weights)
    for rank_values, rank_points, _ in pair.all(descend, x, batches, {"online": True}, weights):
        assert rank_values == pytest.approx(values, rel=1e-9)
        assert torch.allclose(rank_points, points, rtol=0, atol=1e-9)


def gradients(
    rank: int | None, x: Tensor, y: tuple[Tensor, ...], b: Tensor, a: tuple[Tensor, ...], options: dict
) -> list[Tensor]:
    pick = torch.cat if rank is None else lambda parts: parts[rank]
    inputs = [tensor.clone().requires_grad_() for tensor in (x, pick(y), b, pick(a))]
    loss = tc.CoresetLoss(**options, **({} if rank is None else {"group": "world"}))
    loss(*inputs).backward()
    return [tensor.grad for tensor in inputs]


@pytest.mark.parametrize("options", [{"tolerance": 1e-6}, {"online": True}, {"p": 1, "exact": True}])
def test_gradients_in_all_four(pair: Pair, options: dict) -> None:
    sizes = (1400, 900)
    x, y = normal(10, 3, seed=1), normal(sum(sizes), 3, seed=2).split(sizes)
    b = torch.linspace(1, 2, 10, dtype=torch.float64)
    a = torch.rand(sum(sizes), generator=torch.Generator().manual_seed(3), dtype=torch.float64).split(sizes)
    whole = gradients(None, x, y, b, a, options)
    found = pair.all(gradients, x, y, b, a, options)
    for of_rank in found:
        torch.testing.assert_close(of_rank[0], whole[0], rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(of_rank[2], whole[2], rtol=1e-9, atol=1e-11)
    for at in (1, 3):
        torch.testing.assert_close(torch.cat([of_rank[at] for of_rank in found]), whole[at], rtol=1e-8, atol=1e-11)


class Generator(nn.Module):
    """Samples from noise, and the points they are compared with."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2, dtype=torch.float64)
        with torch.no_grad():
            self.layer.weight.copy_(torch.eye(2) * 1.5)
            self.layer.bias.fill_(0.3)
        self.points = nn.Parameter(normal(8, 2, seed=5))

    def forward(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        return self.points, self.layer(noise)


def train(rank: int | None, noise: tuple[Tensor, ...]) -> dict[str, Tensor]:
    """One backward of a generator, wrapped where there are ranks."""
    model = Generator()
    if rank is None:
        tc.CoresetLoss()(*model(torch.cat(noise))).backward()
    else:
        wrapped = DistributedDataParallel(model)
        value = tc.CoresetLoss(group="world")(*wrapped(noise[rank]))
        (torch.distributed.get_world_size() * value).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def test_a_wrapped_generator(pair: Pair) -> None:
    noise = normal(2000, 2, seed=0).split((900, 1100))
    whole = train(None, noise)
    for found in pair.all(train, noise):
        torch.testing.assert_close(found["layer.weight"], whole["layer.weight"], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(found["layer.bias"], whole["layer.bias"], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(found["points"], 2 * whole["points"], rtol=1e-9, atol=1e-12)


def exhausted(rank: int, batches: Batches, how: str) -> tuple[int, str, bool]:
    """A loop in which rank 1 has two batches fewer; steps done, the error, and whether it left the state as it was."""
    points = nn.Parameter(normal(5, 2, seed=99))
    loss = tc.CoresetLoss(online=True, group="world")
    steps = 0
    mine = [parts[rank] for parts in batches]
    if rank == 1:
        mine = mine[:-2] + ([mine[-1][:0]] if how == "empty" else [])
    before = loss.state_dict()
    try:
        for batch in mine:
            before = loss.state_dict()
            loss(points, batch).backward()
            steps += 1
        if how == "certify":
            tc.certify(points.detach(), normal(1000, 2, seed=0), group="world")
    except (RankError, ValueError) as error:
        after = loss.state_dict()
        return steps, str(error), all(torch.equal(before[name], after[name]) for name in before)
    return steps, "", True


@pytest.mark.parametrize(
    ("how", "message"),
    [("ended", "waited in vain"), ("empty", "failed on rank 1"), ("certify", "rank 1 in certify")],
)
def test_a_rank_that_runs_out_of_data(pair: Pair, how: str, message: str) -> None:
    first, second = pair.run(exhausted, stream((20, 20), 6), how, patience=1.0)
    assert (first[0], second[0]) == (4, 4)
    assert first[2]
    assert second[2] or how == "certify"  # its last step was whole
    assert message in first[1]
    assert how == "ended" or "different calls" in second[1] or "samples: got shape (0, 2)" in second[1]


def other_state(rank: int, batches: Batches) -> None:
    points, loss = normal(5, 2, seed=99), tc.CoresetLoss(online=True, group="world")
    loss(points, batches[0][rank])
    if rank == 1:
        loss.load_state_dict({name: tensor + 1 for name, tensor in loss.state_dict().items()})
    loss(points, batches[1][rank])


def test_ranks_with_another_memory(pair: Pair) -> None:
    for found in pair.run(other_state, stream((20, 20), 2)):
        assert isinstance(found, RankError)
        assert str(found).startswith("state: rank 1 has others than rank 0")


def broken(rank: int, batches: Batches, name: str, number: float, where: set[int]) -> tuple[float, int, list[int]]:
    """A step after something was written to what is remembered: its value, batches remembered, messages sent."""
    points, loss = normal(5, 2, seed=99), tc.CoresetLoss(online=True, group="world")
    for batch in batches[:-1]:
        loss(points, batch[rank])
    if rank in where:
        getattr(loss, name).view(-1)[0] = number
    sent, exchange = [], Ranks._exchange
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ranks, "_exchange", lambda ranks, message: (sent.append(1), exchange(ranks, message)))
        value = loss(points + 0.01 * normal(5, 2, seed=3), batches[-1][rank])
    return float(value), loss.last.batches, sent


@pytest.mark.parametrize(
    ("name", "number"),
    [("potential", torch.nan), ("potential", 0.125), ("counters", torch.nan), ("curvature", torch.nan),
     ("overdue", 1e3)],
)  # fmt: skip
def test_a_memory_that_is_broken_on_one_rank(pair: Pair, name: str, number: float) -> None:
    batches = stream((20, 20), 4)
    for where in ({0}, {1}):
        for found in pair.run(broken, batches, name, number, where, patience=3.0):
            assert isinstance(found, RankError)
            assert str(found).startswith("state: rank 1 has others than rank 0")


def test_a_potential_that_is_broken_on_all_ranks_begins_anew(pair: Pair) -> None:
    batches = stream((20, 20), 4)
    first, second = pair.all(broken, batches, "potential", torch.nan, {0, 1})
    assert first == second
    assert first[1] == 1
    whole = tc.CoresetLoss(online=True)(normal(5, 2, seed=99) + 0.01 * normal(5, 2, seed=3), torch.cat(batches[-1]))
    assert first[0] == pytest.approx(float(whole), rel=1e-9)


def test_group_is_for_transport() -> None:
    with pytest.raises(ValueError, match="group: given with divergence='energy'"):
        tc.CoresetLoss(divergence="energy", group="world")
    with pytest.raises(ValueError, match="group: got 'all'"):
        tc.CoresetLoss(group="all")
