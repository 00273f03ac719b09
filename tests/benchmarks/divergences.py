"""What the Sinkhorn divergence costs and how far it is off, both backends and geomloss called plainly.

    python -m tests.benchmarks.divergences              # a few minutes on two cores
    python -m tests.benchmarks.divergences --quick      # small work, some seconds

Two tables. Accuracy: value and gradient of OT_eta against a long float64 Sinkhorn iteration. Speed: one training step,
value and gradient of the debiased divergence in the points, by turns so that both meet the same noise.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import torchcoreset as tc
from tests.data import normal32 as normal

PLAIN = (0.5, 0.9)  # geomloss' own default for `scaling`, and the nearest to 1 that anyone waits for at m = 10,000
MOST_ITERATIONS = 20_000


@dataclass(frozen=True)
class Step:
    """A value and its gradient in the points, and the seconds that they took."""

    value: float
    gradient: Tensor
    seconds: float
    note: str = ""


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.divergences", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small work")
    quick = parser.parse_args(arguments).quick
    warnings.simplefilter("ignore")
    print(accuracy_table(*((20, 300) if quick else (50, 2000)), blurs=(0.1, 1.0) if quick else (0.05, 0.1, 0.3, 1.0)))
    print()
    print(speed_table(*((20, 1000) if quick else (100, 10_000)), d=2, blur=0.3, rounds=1 if quick else 3))


def accuracy_table(n: int, m: int, blurs: tuple[float, ...]) -> str:
    """OT_eta between n points and m samples of N(0, I_2) by each backend, against a long iteration."""
    x, y = normal(n, 2, seed=0), normal(m, 2, seed=1)
    lines = [
        f"OT_eta, n={n}, m={m}, d=2, float32; errors against float64 Sinkhorn, whose own marginal error comes first",
        f"{'p':>2}{'blur':>6}{'long':>9}  {'backend':30}{'marginal':>10}{'value':>10}{'gradient':>10}{'seconds':>9}",
    ]
    backends = [("newton", {}), ("newton", {"tolerance": 1e-8})]
    backends += [("geomloss", {"scaling": scaling}) for scaling in (0.5, 0.9, 0.99)]
    for p in (1, 2):
        for blur in blurs:
            value, gradient, error = long_sinkhorn(x, y, p, blur)
            for backend, settings in backends:
                loss = tc.CoresetLoss(p, divergence="sinkhorn", blur=blur, debias=False, backend=backend, **settings)
                step = timed(loss.eval(), x, y)
                off = float((step.gradient.double() - gradient).norm() / gradient.norm())
                name = ", ".join([backend, *(f"{key}={number:g}" for key, number in settings.items())])
                lines.append(
                    f"{p:>2}{blur:>6g}{error:>9.0e}  {name:30}{loss.last.marginal_error:>10.0e}"
                    f"{abs(step.value / value - 1):>10.0e}{off:>10.0e}{step.seconds:>9.3f}"
                )
    return "\n".join(lines)


def speed_table(n: int, m: int, d: int, blur: float, rounds: int) -> str:
    """One step of the debiased divergence, ours with its memory and geomloss' `SamplesLoss` called plainly."""
    x, y = normal(n, d, seed=0), normal(m, d, seed=1)
    ways: dict[str, Callable[[int], Step]] = {
        "ours, newton": ours(x, y, blur),
        "ours, geomloss": ours_by_geomloss(x, y, blur),
    }
    ways |= {f"SamplesLoss, scaling={scaling}": plain(x, y, blur, scaling) for scaling in PLAIN}
    reference = tc.CoresetLoss(divergence="sinkhorn", blur=blur, backend="newton", tolerance=1e-9, constant=False)
    truth = timed(reference, x.double(), y.double()).gradient
    first = {name: way(0) for name, way in ways.items()}
    later: dict[str, list[Step]] = {name: [] for name in ways}
    for round_ in range(1, rounds + 1):
        for name, way in ways.items():
            later[name].append(way(round_))
    best = statistics.median(step.seconds for step in later["ours, newton"])
    lines = [
        f"one step, p=2, n={n}, m={m}, d={d}, blur={blur:g}, float32, {rounds} rounds by turns; ratio to ours, newton",
        f"{'':28}{'first':>9}{'later':>9}{'ratio':>8}{'gradient error':>16}",
    ]
    for name in ways:
        seconds = statistics.median(step.seconds for step in later[name])
        off = float((first[name].gradient.double() - truth).norm() / truth.norm())
        lines.append(f"{name:28}{first[name].seconds:>9.3f}{seconds:>9.3f}{seconds / best:>8.1f}{off:>16.0e}")
    return "\n".join(lines)


def ours(x: Tensor, y: Tensor, blur: float) -> Callable[[int], Step]:
    """A loss in training; each round moves the points as a step would."""
    loss = tc.CoresetLoss(divergence="sinkhorn", blur=blur, backend="newton")
    return lambda round_: timed(loss, moved(x, round_), y)


def ours_by_geomloss(x: Tensor, y: Tensor, blur: float) -> Callable[[int], Step]:
    """The same with geomloss' potentials."""
    loss = tc.CoresetLoss(divergence="sinkhorn", blur=blur, backend="geomloss")
    return lambda round_: timed(loss, moved(x, round_), y)


def plain(x: Tensor, y: Tensor, blur: float, scaling: float) -> Callable[[int], Step]:
    """geomloss on its own, doubled for the full cost."""
    from geomloss import SamplesLoss

    loss = SamplesLoss("sinkhorn", p=2, blur=blur, scaling=scaling)
    return lambda round_: timed(lambda points, samples: 2 * loss(points, samples), moved(x, round_), y)


def moved(x: Tensor, round_: int) -> Tensor:
    """Points a small step away from x."""
    return x + 0.01 * round_ * normal(*x.shape, seed=2) if round_ else x


def timed(loss: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> Step:
    """Value and gradient, with the seconds of both."""
    points = x.clone().requires_grad_()
    began = time.perf_counter()
    value = loss(points, y)
    value.backward()
    seconds = time.perf_counter() - began
    assert points.grad is not None
    return Step(value.item(), points.grad, seconds)


def long_sinkhorn(x: Tensor, y: Tensor, p: int, blur: float) -> tuple[float, Tensor, float]:
    """OT_eta, its gradient in x and the marginal error left, by alternate soft c-transforms in float64."""
    x, y, eta = x.double(), y.double(), p * blur**p
    cost = torch.cdist(y, x, compute_mode="donot_use_mm_for_euclid_dist") ** p / eta
    v, n = torch.zeros(len(x), dtype=torch.float64), len(x)
    log_b, log_a = -torch.tensor(n).double().log(), -torch.tensor(len(y)).double().log()
    for _ in range(MOST_ITERATIONS):
        f = -(v - cost + log_b).logsumexp(1)
        after = -(f[:, None] - cost + log_a).logsumexp(0)
        error = float((1 - (v - after).exp()).abs().sum()) / n / 2
        if error <= 1e-12:
            break
        v = after
    points = x.clone().requires_grad_()
    costs = torch.cdist(y, points, compute_mode="donot_use_mm_for_euclid_dist") ** p / eta
    value = eta * (-(v - costs + log_b).logsumexp(1).mean() + v.mean())
    (gradient,) = torch.autograd.grad(value, points)
    return value.item(), gradient, error


if __name__ == "__main__":
    main()
