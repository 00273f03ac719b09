"""Kernel herding beside coresets: twenty points for a mixture of Gaussians (appendix of Claici, Genevay, Solomon 2020).

Herding adds one point at a time, where the data's mean embedding exceeds that of the points so far by most:

    x_{t+1} = argmax_x  E k(x, Y) - sum_{i <= t} k(x, x_i) / (t + 1)

It is greedy, and it decides every point for good; a coreset moves all of its points until nothing is gained. The
paper's mixture was never published, so this one is our own.

    python examples/kernel_herding.py [--small]

Source: Chen, Welling, Smola (2010), Super-samples from kernel herding, equation 8.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

import torchcoreset as tc

CENTRES = torch.tensor([[-2.0, -1.5], [-1.5, 2.0], [0.5, 0.0], [2.5, 1.5], [2.0, -2.0]])
WIDTHS = torch.tensor([0.7, 0.5, 0.4, 0.8, 0.6])
SHARES = torch.tensor([0.25, 0.15, 0.2, 0.25, 0.15])


def main(arguments: list[str] | None = None) -> dict[str, Tensor]:
    """Place points in four ways, print how well each does by every measure, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="few samples and few steps")
    parser.add_argument("--out", type=Path, default=Path("example_output"), help="folder for the figure (%(default)s)")
    options = parser.parse_args(arguments)
    rows, size, steps = (500, 8, 60) if options.small else (5000, 20, 300)
    fitted, judge = mixture(rows, seed=0), mixture(rows, seed=1)
    blur = float((fitted - fitted.median(0).values).norm(dim=1).median()) / 2
    start = fitted[:size]
    ways: dict[str, Callable[[], Tensor]] = {
        "kernel herding": partial(herd, fitted, size, blur),
        "MMD": partial(descend, tc.CoresetLoss(divergence="mmd", blur=blur), start, fitted, steps),
        "support points": partial(descend, tc.CoresetLoss(divergence="energy"), start, fitted, steps),
        "W2 coreset": partial(exact, start, fitted),
    }
    print(f"{size} points for {rows} samples, judged on {rows} others; Gaussian kernel of width {blur:.2f}\n")
    print(f"{'':18}{'W2^2':>10}{'W1':>10}{'energy':>12}{'MMD^2/2':>12}{'seconds':>10}")
    found = {}
    for name, place in ways.items():
        began = time.perf_counter()
        points = found[name] = place()
        seconds = time.perf_counter() - began
        values = [tc.wasserstein(points, judge, p).item() for p in (2, 1)]
        values += [tc.energy_distance(points, judge).item(), tc.mmd(points, judge, blur=blur).item()]
        print(f"{name:18}{values[0]:>10.4f}{values[1]:>10.4f}{values[2]:>12.2e}{values[3]:>12.2e}{seconds:>10.2f}")
    options.out.mkdir(parents=True, exist_ok=True)
    draw(found, fitted, options.out / "kernel_herding.png")
    print(f"\nfigure  {options.out / 'kernel_herding.png'}")
    return found


def mixture(rows: int, seed: int) -> Tensor:
    """Samples of the mixture, (rows, 2)."""
    generator = torch.Generator().manual_seed(seed)
    part = torch.multinomial(SHARES, rows, replacement=True, generator=generator)
    return CENTRES[part] + WIDTHS[part, None] * torch.randn(rows, 2, generator=generator)


def herd(samples: Tensor, size: int, blur: float) -> Tensor:
    """The first `size` points of kernel herding, each one of the samples (m, d); m x m work."""

    def kernel(rows: Tensor) -> Tensor:
        return torch.cdist(rows, samples).square_().mul_(-0.5 / blur**2).exp_()

    embedding = torch.cat([kernel(block).mean(1) for block in samples.split(1000)])
    taken, chosen = torch.zeros_like(embedding), []
    for count in range(1, size + 1):
        best = int((embedding - taken / count).argmax())
        chosen.append(best)
        taken += kernel(samples[best][None])[0]
    return samples[chosen]


def descend(loss: tc.CoresetLoss, start: Tensor, samples: Tensor, steps: int) -> Tensor:
    """Points that make a loss small: Adam with a rate that falls to zero."""
    points = torch.nn.Parameter(start.clone())
    optimizer = torch.optim.Adam([points], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(points, samples).backward()
        optimizer.step()
        schedule.step()
    return points.detach()


def exact(start: Tensor, samples: Tensor) -> Tensor:
    """A W_2 coreset from the same start."""
    return tc.build_coreset(samples, len(start), p=2, init=start, progress=False).coreset.points.detach()


def draw(found: dict[str, Tensor], samples: Tensor, path: Path) -> None:
    """The points over the samples, a panel for each way."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(found), figsize=(4 * len(found), 4), layout="constrained", dpi=130)
    for axis, (name, points) in zip(axes, found.items(), strict=True):
        axis.scatter(*samples.T.numpy(), s=3, color="#cccccc", linewidths=0)
        axis.scatter(*points.T.numpy(), s=36, color="#d1495b", edgecolors="white", linewidths=0.7)
        axis.set_title(name)
        axis.set_aspect("equal")
        axis.set_axis_off()
    figure.savefig(path)
    plt.close(figure)


if __name__ == "__main__":
    main()
