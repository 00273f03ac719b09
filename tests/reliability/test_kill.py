"""A run that is killed at random moments, again and again: what is on disk is whole, and --resume ends it."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import torchcoreset as tc
from tests.processes import COMMAND, Started

pytest.importorskip("jsonargparse", reason="needs jsonargparse: pip install 'torchcoreset[cli]'")

BUILD = (
    "build rows.npy --size 30 --steps {steps} --tolerance 0 --algorithm gradient --restarts 1 --checkpoint-every 0 "
    "--quiet --resume --out {out}"
)
KILLS = 3


def start(out: str, steps: int) -> Started:
    return Started(COMMAND, *BUILD.format(steps=steps, out=out).split())


def stamp(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


@pytest.mark.slow
@pytest.mark.parametrize("out", ["points.npz", "points.pt"])
def test_a_run_survives_kills_at_random_moments(tmp_path: Path, out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = torch.randn(2000, 2, generator=torch.Generator().manual_seed(0))
    np.save(tmp_path / "rows.npy", rows.numpy())
    checkpoint, moments = tmp_path / f"{out}.checkpoint", random.Random(out)
    for _ in range(KILLS):
        before = stamp(checkpoint)
        process = start(out, 100_000)
        for _ in range(2400):  # until this run has written something of its own, and points
            if stamp(checkpoint) != before and torch.load(checkpoint, weights_only=True)["classes"]:
                break
            assert process.status is None, "the run ended by itself"
            time.sleep(0.05)
        time.sleep(moments.uniform(0, 0.5))
        process.kill()
        assert not (tmp_path / out).exists()
        points = torch.load(checkpoint, weights_only=True)["classes"][None]["points"]
        assert points.shape == (30, 2)
        assert bool(points.isfinite().all())
    assert start(out, 2).wait() == 1  # the steps ran out, as they had to at a tolerance of 0
    found = tc.Coreset.load(tmp_path / out)
    assert found.size == 30
    assert bool(torch.isfinite(found.points).all())
    assert {path.name for path in tmp_path.iterdir()} == {"rows.npy", out}, "no temporary files either"
    random_rows = tc.Coreset.from_source(rows, 30)
    assert tc.transport(found.points, rows).value < tc.transport(random_rows.points, rows).value


WRITER = """
import sys, torch, torchcoreset as tc
coreset = tc.Coreset(torch.ones(200_000, 4))
k = 0
while True:
    k += 1
    with torch.no_grad():
        coreset.points.fill_(k)
    coreset.save(sys.argv[1])
    print(k, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors"])
def test_a_kill_while_saving_leaves_a_whole_file(tmp_path: Path, suffix: str) -> None:
    if suffix == ".safetensors":
        pytest.importorskip("safetensors", reason="needs safetensors: pip install 'torchcoreset[safetensors]'")
    path, moments = tmp_path / f"coreset{suffix}", random.Random(suffix)
    for _ in range(3):
        process = Started(WRITER, str(path))
        while not process.said():
            assert process.status is None, process.said("err")
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 0.2))
        process.kill()
        points = tc.Coreset.load(path).points
        assert points.shape == (200_000, 4)
        assert bool((points == points[0, 0]).all())
