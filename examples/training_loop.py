"""A training loop that can be stopped and resumed: points for the distribution of a generator network's samples.

Everything that such a loop may need, in one place: fresh batches from a source, gradients accumulated over several
of them, autocast, compilation, a falling rate with averaged points, TensorBoard, and a checkpoint from which the run
goes on bit for bit as if it had not been stopped.

    python examples/training_loop.py --out run                     # stop it with ctrl-c, and start it again
    python examples/training_loop.py --amp --compile --accumulate 4 --tensorboard
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import torchcoreset as tc

LATENT, DIMENSION = 4, 8
CHECKPOINT_EVERY = 100


class Run:
    """What a checkpoint holds: points and their average, loss, optimizer, schedule, random numbers."""

    def __init__(self, size: int, p: float, steps: int) -> None:
        self.source = tc.Pushforward(torch.distributions.Normal(torch.zeros(LATENT), 1.0), decoder())
        self.generator = torch.Generator().manual_seed(0)
        self.coreset = tc.Coreset(self.source.draw(size, self.generator))
        self.average = torch.optim.swa_utils.AveragedModel(self.coreset)
        self.loss = tc.CoresetLoss(p=p)
        self.optimizer = torch.optim.Adam(self.coreset.parameters(), lr=0.1)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, steps, eta_min=1e-3)
        self.step = 0

    def save(self, path: Path) -> None:
        """Write to another file first: a run that is stopped while it writes keeps its last checkpoint."""
        parts = {
            name: getattr(self, name).state_dict() for name in ("coreset", "average", "loss", "optimizer", "schedule")
        }
        torch.save({**parts, "generator": self.generator.get_state(), "step": self.step}, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def resume(self, path: Path) -> None:
        """Go on from a checkpoint."""
        saved = torch.load(path, weights_only=True)
        for name in ("coreset", "average", "loss", "optimizer", "schedule"):
            getattr(self, name).load_state_dict(saved[name])
        self.generator.set_state(saved["generator"])
        self.step = saved["step"]


def main(arguments: list[str] | None = None) -> Run:
    """Train, or go on training, and print how far the points are from fresh samples."""
    options = read(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    checkpoint = options.out / "checkpoint.pt"
    run = Run(options.size, options.p, options.steps)
    if checkpoint.exists():
        run.resume(checkpoint)
        print(f"going on after step {run.step}")
    log = writer(options.out) if options.tensorboard else lambda *_: None
    evaluate = torch.compile(run.loss) if options.compile else run.loss
    last = min(options.steps, run.step + options.stop_after) if options.stop_after else options.steps
    while run.step < last:
        value = train_step(run, evaluate, options)
        log("batch", value, run.step)
        if run.step % CHECKPOINT_EVERY == 0 or run.step == last:
            run.save(checkpoint)
            # The distance to a batch is larger than that to the distribution: judge on many fresh samples.
            value = judge(run)
            log("fresh samples", value, run.step)
            print(f"step {run.step:5}: W_{options.p:g}^{options.p:g} = {value:.4f} to 20,000 fresh samples")
    return run


def train_step(run: Run, evaluate: Callable[[Tensor, Tensor], Tensor], options: argparse.Namespace) -> float:
    """One step of the optimizer on the mean of several batches."""
    run.optimizer.zero_grad()
    total = 0.0
    for _ in range(options.accumulate):
        # On the CPU autocast means bfloat16; the loss computes in float32 whatever surrounds it.
        with torch.autocast("cpu", torch.bfloat16, enabled=options.amp):
            batch = run.source.draw(options.batch, run.generator)
            value = evaluate(run.coreset.points, batch) / options.accumulate
        value.backward()
        total += value.item()
    run.optimizer.step()
    run.schedule.step()
    run.step += 1
    if run.step > options.steps // 2:
        run.average.update_parameters(run.coreset)
    return total


@torch.no_grad()
def judge(run: Run) -> float:
    """Distance of the averaged points, once there are any, to fresh samples that are the same each time."""
    coreset = run.average.module if run.average.n_averaged > 0 else run.coreset
    samples = run.source.draw(20_000, torch.Generator().manual_seed(1))
    return tc.wasserstein(coreset.points, samples, run.loss.p).item()


def decoder() -> nn.Module:
    """A small generator network with batch normalisation, the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(LATENT, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Linear(32, DIMENSION))
    return layers.eval().requires_grad_(False)


def writer(folder: Path) -> Callable[[str, float, int], Any]:
    """Log numbers for TensorBoard: `tensorboard --logdir FOLDER`."""
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder)).add_scalar


def read(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=20, help="points (%(default)s)")
    parser.add_argument("--p", type=float, default=2, help="power of the distance (%(default)s)")
    parser.add_argument("--steps", type=int, default=500, help="of the optimizer (%(default)s)")
    parser.add_argument("--stop-after", type=int, default=0, help="steps of this call, to be continued by the next")
    parser.add_argument("--batch", type=int, default=1000, help="samples of a batch (%(default)s); 20 a point at least")
    parser.add_argument("--accumulate", type=int, default=1, help="batches of a step (%(default)s)")
    parser.add_argument("--amp", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--compile", action="store_true", help="torch.compile around the loss")
    parser.add_argument("--tensorboard", action="store_true", help="log to the output folder")
    parser.add_argument("--out", type=Path, default=Path("example_output/run"), help="folder (%(default)s)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
