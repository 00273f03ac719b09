"""Inputs that went wrong: scales that rows without weight, outliers or the axes decided, starts, memory.

D12 scales of the measure, D14 working memory, D17 blurs in loops that succeed, D18 starts of tiny problems, D19 weights
of points in any order.
"""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal
from tests.processes import MMAP, run

either_backend = pytest.mark.parametrize("backend", ["newton", "geomloss"])


DEFAULTS = {
    "mmd": tc.mmd,
    "laplace": lambda *measures: tc.mmd(*measures, kernel="laplace"),
    "newton": lambda x, y, b=None, a=None: tc.sinkhorn_divergence(x, y, 2, b, a, backend="newton"),
    "relative": lambda x, y, b=None, a=None: tc.sinkhorn_divergence(x, y, 2, b, a, backend="newton", relative_blur=0.5),
    "geomloss": lambda x, y, b=None, a=None: tc.sinkhorn_divergence(x, y, 2, b, a, tolerance=0.5),
}
every_default = pytest.mark.parametrize("loss", DEFAULTS.values(), ids=DEFAULTS)


@pytest.mark.parametrize(("name", "expected"), [("mmd", 0.0197), ("newton", 0.331), ("relative", 0.158)])
def test_d12_rows_without_weight(name: str, expected: float) -> None:
    x, y = torch.tensor([3.0, 5.0]), torch.tensor([3.0, 4.0, 5.0] + 5 * [500.0])
    value = DEFAULTS[name](x, y, None, torch.tensor([1.0] * 3 + [0.0] * 5)).item()
    assert value == pytest.approx(expected, rel=5e-3)
    assert value == pytest.approx(DEFAULTS[name](x, y[:3]).item(), rel=1e-6)


@every_default
def test_d12_a_default_belongs_to_the_measure(loss) -> None:
    x, y = normal(6, 3), torch.cat((normal(60, 3, seed=1).exp(), torch.ones(20, 3).double()))
    counts = torch.randint(0, 4, (80,), generator=torch.Generator().manual_seed(2))
    value = loss(x, y, None, counts.double()).item()
    turn = torch.linalg.qr(normal(3, 3, seed=3))[0]
    order = torch.randperm(80, generator=torch.Generator().manual_seed(4))
    for other in (
        loss(x, y.repeat_interleave(counts, 0)),
        loss(x, y[order], None, counts[order].double()),
        loss(x, torch.cat((y, y - 1e6)), None, torch.cat((counts, 0 * counts)).double()),
        loss(x @ turn, y @ turn, None, counts.double()),
    ):
        assert other.item() == pytest.approx(value, rel=1e-6)


@every_default
def test_d12_the_axes_of_a_plain_table(loss) -> None:
    x, y, turn = (
        normal(5, 2),
        normal(40, 2, seed=1) * torch.tensor([1.0, 9.0]),
        torch.linalg.qr(normal(2, 2, seed=2))[0],
    )
    assert loss(x @ turn, y @ turn).item() == pytest.approx(loss(x, y).item(), rel=1e-6)
    assert loss(-x[:, :1], -y[:, :1]).item() == pytest.approx(loss(x[:, :1], y[:, :1]).item(), rel=1e-6)


@either_backend
@pytest.mark.parametrize("p", [1, 2])
def test_d12_one_outlier_sets_no_blur_and_no_schedule(backend: str, p: int) -> None:
    x, y = normal(10, 2), normal(800, 2, seed=1)
    loss = tc.CoresetLoss(p, divergence="sinkhorn", backend=backend, tolerance=0.1)
    loss(x, y)
    before = loss.last
    y[3] = 1e7
    loss(x, y)
    assert loss.last.blur == pytest.approx(before.blur, rel=1e-2)
    assert loss.last.diameter == pytest.approx(before.diameter, rel=0.1)
    assert loss.last.marginal_error < 0.1
    if backend == "geomloss":
        assert loss.last.steps <= before.steps + 5


@either_backend
@pytest.mark.parametrize("options", [{}, {"blur": 0.05}])
@pytest.mark.parametrize("p", [1, 2])
def test_d17_a_loop_that_succeeds_goes_on(backend: str, options: dict[str, float], p: int) -> None:
    y = torch.ones(4, 1, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for distance in (1, 1e-3, 1e-6, 1e-9, 1e-13, 0.0):
            value = tc.sinkhorn_divergence(y[:1] + distance, y, p, backend=backend, **options).item()
            assert value == pytest.approx(distance**p, rel=1e-2, abs=1e-15)


@pytest.mark.slow
def test_d18_few_samples_a_point_have_several_starts() -> None:
    y = np.random.default_rng(0).normal(size=(20, 2))
    found = [tc.build_coreset(y, 5, seed=seed) for seed in range(10)]
    assert [20 * result.transport.value for result in found] == pytest.approx(10 * [4.487], abs=2e-3)
    assert torch.equal(found[4].coreset.points, tc.build_coreset(y, 5, seed=4, restarts=8).coreset.points)


def lloyd(y: Tensor, x: Tensor, steps: int) -> tuple[Tensor, float]:
    """Shares of the cells of k-means from x, and its mean cost."""
    for _ in range(steps):
        cell = torch.cdist(y, x).argmin(1)
        count = torch.bincount(cell, minlength=len(x))
        x = torch.zeros_like(x).index_add_(0, cell, y) / count[:, None]
    return count / len(y), float((y - x[cell]).square().sum() / len(y))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_d19_weights_in_any_order(seed: int) -> None:
    y = torch.special.ndtri((torch.arange(40_000, dtype=torch.float64) + 0.5) / 40_000)[:, None]
    shares, cost = lloyd(y[::10], y[999::2000], 400)
    weights = shares[torch.randperm(20, generator=torch.Generator().manual_seed(seed))]
    assert cost < 0.0065
    assert tc.build_coreset(y, 20, weights=weights, seed=seed).transport.value < 1.01 * 0.00620779
    few = y[20::40]
    in_order = tc.build_coreset(few, 20, 1, init=few[25::50], weights=shares).transport.value
    assert tc.build_coreset(few, 20, 1, weights=weights).transport.value < 1.005 * in_order


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_d19_in_the_plane(seed: int) -> None:
    """Before, 5 to 11 % above k-means, whose shares these are."""
    y = normal(4000, 2)
    shares, cost = min((lloyd(y, y[10 * k : 10 * k + 10], 60) for k in range(4)), key=lambda found: found[1])
    weights = shares[torch.randperm(10, generator=torch.Generator().manual_seed(seed))]
    assert tc.build_coreset(y, 10, weights=weights, seed=seed).transport.value < 1.03 * cost


@pytest.mark.slow
def test_d19_equal_weights_are_as_ever() -> None:
    y = normal(100, 2)
    first, second = (
        tc.build_coreset(y, 5, steps=3, weights=weights).coreset.points for weights in (None, torch.ones(5))
    )
    assert torch.equal(first, second)


D14 = """
import torch, torchcoreset as tc
generator = torch.Generator().manual_seed(0)
x, y = torch.randn(1024, 16, generator=generator), torch.randn(200_000, 16, generator=generator)
memory = lambda name: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
tc.transport(x[:300], y[:2000])
before = memory("VmRSS")
assert tc.transport(x, y, tolerance=1e-2).gap <= 1e-2
print((memory("VmHWM") - before) / 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of a process from /proc")
def test_d14_memory_is_less_than_a_third_of_the_matrix() -> None:
    third = 1024 * 200_000 * 4 / 2**20 / 3
    # What was given back counts as taken where glibc keeps it: by its own threshold, which moves, 387 to 1,448 MiB.
    assert float(run(MMAP + D14)) < third
