"""What it costs to share samples between ranks: how a step splits into work and messages, on 1 and 2 ranks.

    python -m tests.benchmarks.scale_out [--quick]

Two kinds of step, with as many samples in all on any number of ranks: a transport of n points that have moved a little
since the last one (a step of the fixed point), and an online step. Each rank is one process with one thread, gloo
between them. Time in messages is time spent waiting for them, so it holds what the ranks differ in speed as well. Then
a calculation on paper for 8 GPUs and 10^9 samples.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import torchcoreset as tc
from tests.processes import SERVER
from torchcoreset.transport.ranks.group import Ranks

from .machine import facts

POINTS, DIMENSION = 100, 8
RANKS = (1, 2)


@dataclass(frozen=True, kw_only=True)
class Split:
    """A step on a number of ranks, means over steps.

    Attributes:
        step: what was timed.
        ranks: how many.
        samples: on all ranks.
        seconds: of a step.
        waiting: of it in messages, on rank 0.
        messages: of a step.
    """

    step: str
    ranks: int
    samples: int
    seconds: float
    waiting: float
    messages: float


class Clock:
    """Adds up the time that a process spends in messages."""

    def __init__(self) -> None:
        self.seconds, self.messages = 0.0, 0
        exchange = Ranks._exchange

        def timed(ranks: Ranks, message: Callable[[], Any]) -> None:
            began = time.perf_counter()
            exchange(ranks, message)
            self.seconds += time.perf_counter() - began
            self.messages += 1

        Ranks._exchange = timed  # this process is for nothing else


def steps(rank: int, ranks: int, store: str, samples: dict[str, int], repeats: int, pipe: Any) -> None:
    """Time both kinds of steps on one rank."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    clock = Clock()
    for name in ("transport", "online"):
        generator = torch.Generator().manual_seed(rank)
        y = torch.randn(samples[name] // ranks, DIMENSION, generator=generator)
        x = torch.randn(POINTS, DIMENSION, generator=torch.Generator().manual_seed(99))
        loss = tc.CoresetLoss(online=name == "online", group="world")
        for _ in range(2 if name == "transport" else 30):  # what a first step does, and the curvature of a young stream
            loss(x, y)
        clock.seconds, clock.messages = 0.0, 0
        began = time.perf_counter()
        for _ in range(repeats):
            x = x + 1e-3
            loss(x, y)
        seconds = time.perf_counter() - began
        pipe.send(
            Split(
                step=name, ranks=ranks, samples=samples[name], seconds=seconds / repeats,
                waiting=clock.seconds / repeats, messages=clock.messages / repeats,
            )
        )  # fmt: skip
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # torch 2.13 now and then aborts in gloo's threads when Python ends


def measured(samples: dict[str, int], repeats: int) -> list[Split]:
    """Both kinds of steps on 1 and 2 ranks."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for ranks in RANKS:
            pipes, processes = [], []
            for rank in range(ranks):
                here, there = SERVER.Pipe()
                store = f"file://{Path(folder) / str(ranks)}"
                processes.append(
                    SERVER.Process(target=steps, args=(rank, ranks, store, samples, repeats, there), daemon=True)
                )
                processes[-1].start()
                pipes.append(here)
            try:
                for _ in samples:
                    if not pipes[0].poll(300):
                        raise TimeoutError(f"{ranks} ranks: no answer in 300 seconds")
                    found.append(pipes[0].recv())
                for process in processes:
                    process.join(60)
            finally:
                for process in processes:
                    process.kill()
    return found


def table(found: list[Split]) -> str:
    """The splits as text."""
    lines = ["step        ranks    samples   ms a step   ms in messages   messages   speed-up"]
    alone = {split.step: split.seconds for split in found if split.ranks == 1}
    lines += [
        f"{split.step:10s} {split.ranks:6d} {split.samples:10,d} {1e3 * split.seconds:11.2f} "
        f"{1e3 * split.waiting:16.2f} {split.messages:10.1f} {alone[split.step] / split.seconds:10.2f}"
        for split in found
    ]
    return "\n".join(lines)


def on_paper(messages: float) -> str:
    """8 GPUs and 10^9 samples, from figures that are stated."""
    gpus, samples, n, d = 8, 10**9, POINTS, DIMENSION
    rate = 331_000 * 1000 / 3.6e-3  # elements of c - v a second: a soft pass on an H200, transport/passes/choose.py
    latency, bandwidth = 50e-6, 100e9  # of a small NCCL message within one machine, and bytes a second: assumed
    work = samples * n / gpus / rate
    subsample, boundary = 100 * n, 16 * n + 6 * samples**0.5  # the second: quotas, and an excess as chance makes it
    gathered = 8 * (subsample * (4 * d + 16) + boundary * (4 * d + 24))
    memory = samples / gpus * (4 * d + 8 + 8 + 8 + 4)
    return "\n".join(
        (
            f"On paper: {gpus} GPUs, {samples:.0e} samples, n = {n}, d = {d}, float32",
            f"  one pass over all samples  {1e3 * work:8.1f} ms   at {rate:.1e} elements a second and GPU (a soft pass "
            "on an H200, transport/passes/choose.py; a hard one is cheaper)",
            f"  its message of n + 1 sums  {1e3 * latency:8.2f} ms   assumed",
            f"  messages of a warm step    {1e3 * messages * latency:8.2f} ms   as many as were counted above",
            f"  rows gathered in a step    {1e3 * gathered / bandwidth:8.2f} ms   {gathered / 1e6:.1f} MB at "
            f"{bandwidth:.0e} bytes a second, assumed",
            f"  memory on each GPU         {memory / 1e9:8.1f} GB   samples, weights, cells, costs, margins",
        )
    )


def main(arguments: list[str] | None = None) -> list[Split]:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few samples and steps")
    quick = parser.parse_args(arguments).quick
    samples = {"transport": 40_000, "online": 4000} if quick else {"transport": 1_000_000, "online": 20_000}
    found = measured(samples, 3 if quick else 20)
    print(facts())
    print(table(found))
    print(on_paper(next(split.messages for split in found if split.ranks == 2 and split.step == "transport")))
    return found


if __name__ == "__main__":
    main()
