"""The cases of cases.md that speak of streams, training code and the machine, one test each."""

import math
import socket

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import torchcoreset as tc
from tests.data import normal32 as normal
from tests.processes import Started, run
from torchcoreset.transport.passes.choose import make_engine
from torchcoreset.transport.problem import make_problem

pytestmark = pytest.mark.usefixtures("two_starts")

either_power = pytest.mark.parametrize("p", [1, 2])
either_loss = pytest.mark.parametrize("online", [False, True], ids=["solved", "online"])


def step_by(loss: nn.Module, points: nn.Parameter, optimizer: torch.optim.Optimizer, batch: Tensor) -> Tensor:
    optimizer.zero_grad()
    value = loss(points, batch)
    value.backward()
    optimizer.step()
    return value.detach()


@either_power
@either_loss
def test_a04_training_under_autocast(p: int, online: bool) -> None:
    y, points = 300 * torch.ones(4, 784, dtype=torch.float16), nn.Parameter(torch.zeros(1, 784))
    loss, optimizer = tc.CoresetLoss(p=p, online=online), torch.optim.SGD([points], lr=0.25)
    values = []
    for _ in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            values.append(step_by(loss, points, optimizer, y).item())
    assert values[0] == pytest.approx(8400**p, rel=1e-2)
    assert values[2] < values[1] < values[0]
    assert points.dtype == torch.float32


@either_power
def test_a11_many_rows_at_once_and_in_parts(p: int) -> None:
    y = torch.cartesian_prod(torch.arange(280.0), torch.arange(250.0))
    x, v = y[::68][:1024] + 0.25, 50 * normal(1024).double()
    assert (len(x), len(y)) == (1024, 70_000)
    whole = make_engine(make_problem(x, y, p), "auto").hard(v).dual
    parts = [make_engine(make_problem(x, part, p), "auto").hard(v).dual for part in y.split(10_000)]
    assert whole == pytest.approx(sum(parts) / 7, rel=1e-5)


MEMORY = """
import torch, torchcoreset as tc
from pathlib import Path

def peak():
    return max(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)

x, y = torch.randn(64, 784), torch.randn(4096, 784)
for p in (1, 2):
    for online in (False, True):
        loss = tc.CoresetLoss(p=p, online=online)
        loss(x[:2].clone().requires_grad_(), y[:8]).backward()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = peak()
        loss(x.clone().requires_grad_(), y).backward()
        print((peak() - before) / 1024)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("process_memory")
def test_a11_nothing_of_size_n_m_d() -> None:
    """For either power, solved and online."""
    peaks = [float(line) for line in run(MEMORY).split()]
    assert len(peaks) == 4
    assert max(peaks) < 300, f"{peaks} MiB; n x m x d in float32 would take 784"


@pytest.mark.parametrize("form", ["loader", "tensor"])
def test_a13_a_short_last_batch_counts_by_its_rows(form: str) -> None:
    y = torch.tensor([0.0] * 8 + [10.0] * 2)
    batches = DataLoader(TensorDataset(y), batch_size=4) if form == "loader" else y
    held, weights = tc.as_source(batches).materialize(None, torch.Generator())
    assert tc.wasserstein(torch.zeros(1, 1), held, 2, sample_weights=weights).item() == pytest.approx(20)
    result = tc.build_coreset(batches, 1, init=torch.zeros(1, 1), steps=1)
    assert result.history[0].value == pytest.approx(20)
    source, generator = tc.as_source(y, weights=torch.ones(10)), torch.Generator().manual_seed(0)
    shares = [(share.sum().item(), rows) for rows, share in source.batches(4, generator)]
    assert sum(share * rows.square().mean().item() for share, rows in shares) == pytest.approx(20)


DDP = """
import os, sys, torch, torchcoreset as tc
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank, port = int(sys.argv[1]), sys.argv[2]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo")
torch.distributed.init_process_group("gloo", rank=rank, world_size=2)


class Fit(nn.Module):
    def __init__(self, coreset, online):
        super().__init__()
        self.coreset, self.loss = coreset, tc.CoresetLoss(p=2, online=online)

    def forward(self, y):
        return self.loss(self.coreset.points, y)


def train(coreset, batches, rate, online, broadcast):
    fit = DistributedDataParallel(Fit(coreset, online), broadcast_buffers=broadcast)
    optimizer = torch.optim.SGD(fit.parameters(), lr=rate)
    for batch in batches:
        optimizer.zero_grad()
        fit(batch).backward()
        optimizer.step()
    return coreset.points.detach(), fit.module.loss


def check(*settings):
    x, _ = train(tc.Coreset(torch.zeros(1)), [torch.tensor([0.0, 1.0, 2.0, 3.0]).chunk(2)[rank]], 0.25, *settings)
    assert abs(x.item() - 0.75) < 1e-6, x
    generator = torch.Generator().manual_seed(rank)
    # DDP starts every rank from the points of rank 0.
    start = tc.Coreset(torch.randn(4, 2, generator=generator))
    x, loss = train(start, [torch.randn(100, 2, generator=generator) for _ in range(5)], 0.5, *settings)
    both = [torch.empty(4, 2) for _ in range(2)]
    torch.distributed.all_gather(both, x)
    assert (both[0] - both[1]).abs().max() <= 1e-6, both
    potentials = [torch.empty(4, dtype=torch.float64) for _ in range(2)]
    torch.distributed.all_gather(potentials, loss.potential)
    assert not torch.equal(*potentials)  # each rank has its own, from its own batches
    assert loss.online is False or loss.last.batches == 5, loss.last


for online in (False, True):
    for broadcast in (False, True):
        print(f"online={online}, broadcast={broadcast}", file=sys.stderr)
        check(online, broadcast)
torch.distributed.barrier()  # a rank that leaves while the other still talks can abort it
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.distributed
def test_a19_data_parallel_ranks_keep_equal_points() -> None:
    """Solved and online, with and without buffers that are sent to all."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    ranks = [Started(DDP, str(rank), port) for rank in range(2)]
    for rank in ranks:
        rank.end(timeout=60)


@either_power
@pytest.mark.parametrize("start", ["fresh", pytest.param("carried", marks=pytest.mark.slow)])
def test_a24_the_distance_to_a_batch_is_larger_than_to_the_distribution(p: int, start: str) -> None:
    # Each of the four batches equally often, in any order: their mean is the expectation, without the error of draws.
    x, every = torch.tensor([0.0, 1.0]), torch.cartesian_prod(*2 * [torch.tensor([0.0, 1.0])])
    draws = every.repeat(60, 1)[torch.randperm(240, generator=torch.Generator().manual_seed(0))]
    loss, values = tc.CoresetLoss(p=p), []
    for batch in draws if start == "carried" else every:
        values.append((loss if start == "carried" else tc.CoresetLoss(p=p))(x, batch).item())
    assert sum(values) / len(values) == pytest.approx(0.25, abs=1e-3)
    loss(x, every[0])
    assert loss.eval()(x, torch.tensor([0.0, 1.0])).item() == pytest.approx(0, abs=1e-4)


@pytest.mark.slow
def test_a24_a_running_potential_has_no_bias() -> None:
    x, generator = torch.tensor([0.0, 1.0]), torch.Generator().manual_seed(0)
    loss, values = tc.CoresetLoss(p=2, online=True), []
    for batch in torch.randint(2, (1500, 2), generator=generator).float():
        values.append(loss(x, batch).item())
    assert sum(values[-1000:]) / 1000 == pytest.approx(0, abs=0.03), "0.25 where each batch is solved"
    assert loss.last.estimate == pytest.approx(0, abs=0.05)


@pytest.mark.slow
def test_a08_identical_rows_end_in_time_online() -> None:
    points, loss = nn.Parameter(normal(5, 2)), tc.CoresetLoss(online=True)
    optimizer = torch.optim.SGD([points], lr=0.2)  # all rows go to one point at a time, whatever its weight
    values = [step_by(loss, points, optimizer, torch.ones(1000, 2)).item() for _ in range(200)]
    assert all(math.isfinite(value) for value in values)
    assert tc.transport(points, torch.ones(1, 2)).value < 1e-3


@either_power
@pytest.mark.parametrize("form", ["transposed", "expanded"])
def test_a22_views_online(p: int, form: str) -> None:
    base = torch.arange(16).reshape(2, 8).float()
    y = base[:, ::2].t() if form == "transposed" else torch.tensor([[1.0, 2.0]]).expand(64, 2)
    base_before, x, results = base.clone(), (4 * normal(3, 2)).requires_grad_(), []
    for batch in (y, y.clone().contiguous()):
        loss = tc.CoresetLoss(p=p, online=True)
        loss(x, batch)
        value = loss(x, batch)
        results.append((value.item(), torch.autograd.grad(value, x)[0]))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-6)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=0, atol=1e-6)
    assert torch.equal(base, base_before)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "best"), [(1, 0.0), (2, 25.0)])
def test_a23_one_point_online_is_the_mean_or_the_median(p: int, best: float) -> None:
    rows, points = torch.tensor([0.0, 0.0, 0.0, 100.0]), nn.Parameter(torch.tensor([50.0]))
    loss, average = tc.CoresetLoss(p=p, online=True), 50.0
    optimizer = torch.optim.SGD([points], lr=1.0)
    for k, batch in enumerate(rows[torch.randint(4, (2000, 8), generator=torch.Generator().manual_seed(0))], 1):
        optimizer.param_groups[0]["lr"] = (20 if p == 1 else 0.5) * k**-0.7
        step_by(loss, points, optimizer, batch)
        average += (points.item() - average) * min(1.0, 3 / (k + 2))
    assert average == pytest.approx(best, abs=0.7)


A31 = """
import torch, torchcoreset as tc
from torch.utils.data import DataLoader, TensorDataset
y = torch.randn(4096, 2, generator=torch.Generator().manual_seed(0))
x, loss = y[:64].clone().requires_grad_(), tc.CoresetLoss(online=True)
loss(x, y).backward()
for (batch,) in DataLoader(TensorDataset(y), batch_size=512, num_workers=2):
    loss(x, batch).backward()
assert loss.last.batches == 9
assert x.grad.isfinite().all()
"""


def test_a31_workers_feed_a_stream() -> None:
    run(A31)


A33 = """
import sys, torch, torchcoreset as tc
torch.use_deterministic_algorithms(True)
y = torch.randn(2000, 3, generator=torch.Generator().manual_seed(0)).to(sys.argv[1])
weights = torch.rand(2000, generator=torch.Generator().manual_seed(1)).to(y.device)

def loop(p, online):
    points, loss = torch.nn.Parameter(y[:16].clone()), tc.CoresetLoss(p=p, online=online)
    optimizer = torch.optim.SGD([points], lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        loss(points, y, sample_weights=weights).backward()
        optimizer.step()
    return points.detach(), loss.potential

def build(p, algorithm):
    options = {"steps": 10, "sample_weights": weights, "samples": 2000, "restarts": 2}
    return tc.build_coreset(y, 16, p, algorithm=algorithm, **options).coreset.points

for p in (1, 2):
    for online in (False, True):
        assert all(torch.equal(one, other) for one, other in zip(loop(p, online), loop(p, online))), (p, online)
    for algorithm in ("fixed_point", "gradient", "sgd"):
        assert torch.equal(build(p, algorithm), build(p, algorithm)), (p, algorithm)
"""


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a33_deterministic_mode_raises_nothing_and_gives_equal_bits(device: str, monkeypatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    run(A33, device, timeout=300)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit", "ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("inside", ["loss", "step"])
@either_loss
def test_a34_compiled_and_eager_copies(inside: str, online: bool) -> None:
    batches = [normal(rows, 2, seed=10 + i) for i, rows in enumerate((32, 32, 17, 32, 17))]
    results = []
    for compiled in (False, True):
        torch.compiler.reset()
        points, loss = nn.Parameter(normal(4, 2)), tc.CoresetLoss(p=2, online=online)
        optimizer, called = torch.optim.SGD([points], lr=0.2), loss
        if compiled:
            called = torch.compile(loss if inside == "loss" else lambda x, y, loss=loss: loss(x, y), backend="eager")
        values = [step_by(called, points, optimizer, batch) for batch in batches]
        results.append((torch.stack(values), loss.potential))
    for eager, other in zip(*results, strict=True):
        torch.testing.assert_close(other, eager, rtol=1e-4, atol=0)


@pytest.mark.parametrize("divergence", ["wasserstein", "sinkhorn", "energy", "mmd"])
def test_a35_images_and_extra_batch_dimensions_are_refused(divergence: str) -> None:
    loss = tc.CoresetLoss(divergence=divergence)
    with pytest.raises(ValueError, match=r"samples: got shape \(8, 1, 28, 28\); .*\.flatten\(1\)"):
        loss(normal(4, 784), normal(8, 1, 28, 28))
    batches = ((normal(4, 2), normal(3, 5, 2), "samples"), (normal(3, 4, 2), normal(5, 2), "points"))
    for points, samples, name in batches:
        if divergence == "wasserstein":  # three clouds
            assert tc.wasserstein(points, samples).shape == (3,)
            continue
        with pytest.raises(ValueError, match=rf"{name}: got shape \(3, "):
            loss(points, samples)
    assert loss.potential.shape == (0,)
    images = normal(8, 1, 28, 28)
    result = tc.build_coreset(tc.as_source(images, flatten=True), 2, steps=2)
    assert math.isclose(
        result.transport.value, tc.transport(result.coreset.points, images.flatten(1)).value, rel_tol=1e-3
    )


def test_a36_the_head_of_a_sorted_stream_is_what_its_sample_holds() -> None:
    """Documented: an iterator may be endless, so it is read no further than needed; a length changes that."""
    batches = list(torch.cat((torch.zeros(500, 1), torch.full((500, 1), 10.0))).split(50))
    head, _ = tc.as_source(iter(batches)).materialize(300, torch.Generator())
    assert head.max() == 0
    sample, _ = tc.as_source(batches).materialize(300, torch.Generator().manual_seed(0))
    assert 3 < sample.mean() < 7
    result = tc.build_coreset(iter(batches), 2)
    assert result.coreset.points.flatten().sort().values.tolist() == pytest.approx([0, 10], abs=0.5)


def test_a36_a_sorted_stream_is_told_and_shown() -> None:
    """Documented: the order of a stream is the caller's; what it is told is a drift."""
    loss, x = tc.CoresetLoss(online=True), torch.tensor([0.0, 10.0])
    batches = torch.cat((torch.zeros(500), torch.full((500,), 10.0))).split(50)
    with pytest.warns(tc.DriftWarning, match="Shuffle the data"):
        statuses = [(loss(x, batch).isfinite().item(), loss.last.status)[1] for batch in batches]
    assert tc.StreamStatus.DRIFTING in statuses[10:]
    assert loss.potential.isfinite().all()
