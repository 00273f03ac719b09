"""Hours of a stream in little time: memory stays where it was.

TORCHCORESET_SOAK is the number of batches; 2,000 by default, and 200,000 for the length of a night.
"""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path

import pytest
import torch

import torchcoreset as tc

BATCHES = int(os.environ.get("TORCHCORESET_SOAK", "2000"))
WARM = 0.25  # of the batches, after which memory must not grow
SLACK = 8 << 20  # bytes: what an allocator gives and takes
TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)


def resident() -> int:
    """VmRSS in bytes, without what is free and only kept for later.

    How much of that there is depends on what ran in this process before: 10 MiB from one certificate to the next were
    seen, and about 1 without it. Only glibc keeps that much, and gives it back on request.
    """
    gc.collect()
    if TRIM is not None:
        TRIM(0)
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) << 10


def growth(seen: list[int]) -> int:
    """How much more the second half of the time took than the first, at their peaks."""
    half = len(seen) // 2
    return max(seen[half:]) - max(seen[:half])


@pytest.mark.slow
@pytest.mark.usefixtures("process_memory")
@pytest.mark.skipif(TRIM is None, reason="needs glibc's malloc_trim")
def test_what_is_kept_is_seen_and_what_is_free_is_not() -> None:
    pieces = [torch.ones(1 << 13) for _ in range(2000)]  # 32 KiB each: from the heap, which has no end to give back
    before = resident()
    held = pieces[::20]
    del pieces
    freed = before - resident()
    assert freed > 40 << 20
    held.append(torch.ones(4 << 20))
    assert resident() > before - freed + SLACK


@pytest.mark.slow
@pytest.mark.usefixtures("process_memory")
@pytest.mark.filterwarnings("ignore::torchcoreset.DriftWarning")
@pytest.mark.parametrize("drifts", [False, True])
def test_an_online_loss_on_a_long_stream(drifts: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    points = torch.nn.Parameter(torch.randn(20, 3, generator=generator))
    loss = tc.CoresetLoss(p=2, online=True, forgetting=0.01 if drifts else None)
    optimizer = torch.optim.SGD([points], lr=1.0)
    seen: list[int] = []
    for k in range(BATCHES):
        rows = torch.randn(100, 3, generator=generator) + (3 * (k * 8 // BATCHES) if drifts else 0)
        optimizer.zero_grad()
        loss(points, rows).backward()
        optimizer.step()
        if k % max(1, BATCHES // 20) == 0 and k >= WARM * BATCHES:
            seen.append(resident())
    assert bool(torch.isfinite(points).all())
    assert growth(seen) < SLACK, [size >> 20 for size in seen]


@pytest.mark.slow
@pytest.mark.usefixtures("process_memory")
def test_certificates_one_after_another() -> None:
    normal = torch.distributions.Normal(torch.zeros(2), 1.0)
    points = tc.Coreset.from_source(normal, 20)
    seen: list[int] = []
    for k in range(max(16, BATCHES // 100)):
        found = tc.certify(points, normal, samples=20_000 if k < 6 else 60_000, seed=k)
        assert 0 < found.lower < found.upper
        if k >= 8:
            seen.append(resident())
    assert growth(seen) < SLACK, [size >> 20 for size in seen]
