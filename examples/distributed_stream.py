"""A coreset of a stream that several processes draw from, each its own part: one loss, one set of points.

    torchrun --standalone --nproc-per-node 2 examples/distributed_stream.py [--steps 500]

Every rank draws batches of its own, as many rows as it likes. `CoresetLoss(online=True, group="world")` makes one batch
of them all, so the running potential, the value and the gradient in the points are the same on every rank, and plain
optimizer steps keep the points equal: no DistributedDataParallel is needed around them. Then `certify` says how far the
points are from the distribution, from samples that the ranks share out between them.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

import torchcoreset as tc

POINTS, DIMENSION = 20, 2


def ring(rows: int, generator: torch.Generator) -> Tensor:
    """Samples of a ring of radius 2 with some width, (rows, 2)."""
    angle = 2 * torch.pi * torch.rand(rows, generator=generator)
    radius = 2 + 0.2 * torch.randn(rows, generator=generator)
    return radius[:, None] * torch.stack((angle.cos(), angle.sin()), 1)


def train(steps: int, batch: int, seed: int) -> tuple[nn.Parameter, tc.CoresetLoss]:
    """Descend on the batches of all ranks."""
    rank = dist.get_rank()
    generator = torch.Generator().manual_seed(seed + rank)  # equal seeds would draw the same samples everywhere
    start = torch.randn(POINTS, DIMENSION, generator=torch.Generator().manual_seed(seed))  # equal points on all ranks
    points = nn.Parameter(start)
    loss = tc.CoresetLoss(p=2, online=True, group="world")
    optimizer = torch.optim.SGD([points], lr=0.3 * POINTS / 2)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 1 / (1 + k / 50))
    for _ in range(steps):
        optimizer.zero_grad()
        loss(points, ring(batch + 20 * rank, generator)).backward()  # the ranks' batches may differ in length
        optimizer.step()
        schedule.step()
    return points, loss


def main(arguments: list[str] | None = None) -> tc.Certificate:
    """Train, certify, and print on rank 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=100, help="rows a step of rank 0; the others draw more")
    parser.add_argument("--samples", type=int, default=100_000, help="of the certificate, on all ranks together")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if not dist.is_torchelastic_launched() and "RANK" not in os.environ:
        parser.error("start it with torchrun: torchrun --standalone --nproc-per-node 2 examples/distributed_stream.py")
    # A rank that is lost is noticed after this time. With GPUs: backend "nccl", and torch.cuda.set_device first.
    dist.init_process_group("gloo", timeout=timedelta(minutes=2))
    points, loss = train(options.steps, options.batch, options.seed)

    def source(rows: int) -> Tensor:
        return ring(rows, torch.default_generator)  # which `certify` seeds, differently on each rank

    certificate = tc.certify(points.detach(), source, samples=options.samples, seed=options.seed, group="world")
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks, {os.environ.get('OMP_NUM_THREADS', 'all')} threads each")
        print(loss.last)
        print(certificate)
    dist.barrier()  # whoever leaves first would close connections that the others still use
    dist.destroy_process_group()
    return certificate


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # torch 2.13 now and then aborts in gloo's threads when Python ends
