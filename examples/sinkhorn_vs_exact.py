"""What does regularisation cost? Coresets by exact, Sinkhorn and energy losses, all judged by exact transport.

One start, one optimizer, one number of steps; only the divergence differs. OT_eta, the entropic cost as it stands,
loses points as the blur grows: 40 become 17, then one for each of the 8 modes, then a single one. Taking the two terms
of a set with itself away makes it the Sinkhorn divergence, which keeps 36 to 40 of them apart at every blur (section
4.2 of Claici, Genevay, Solomon 2020). Where blur is half the scale of the data, the points of OT_eta are still on
their way to each other when the steps run out: 24 are left after 200, 18 after 400, 10 after 600.

    python examples/sinkhorn_vs_exact.py             # one to three minutes on two cores
    python examples/sinkhorn_vs_exact.py --small     # a few seconds
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import experiment
import public_data
import torch
from torch import Tensor

import torchcoreset as tc

COLOURS = {"Sinkhorn": "#2e6f95", "OT_eta": "#d1495b", "W1": "#8d6a9f", "W2^2": "#333333", "energy": "#5b8c5a"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the YAML file says."""

    data: str
    size: int
    p: float
    backend: str
    relative_blurs: list[float]
    steps: int
    seed: int
    rows: int = 4000


def main(arguments: list[str] | None = None) -> list[tc.Comparison]:
    """Fit, judge, print the table and draw the figure."""
    settings, out = experiment.read(Settings, "sinkhorn_vs_exact", __doc__, arguments)
    data = load(settings)
    scale = float((data - data.median(0).values).norm(dim=1).median())
    rows = tc.compare_divergences(
        data,
        settings.size,
        p=settings.p,
        blurs=[scale * relative for relative in settings.relative_blurs],
        backend=settings.backend,
        steps=settings.steps,
        seed=settings.seed,
    )
    print(
        f"{settings.size} points for {len(data) // 2} samples, judged on {len(data) - len(data) // 2} others; ", end=""
    )
    print(f"scale of the data {scale:.3g}\n\n{table(rows)}")
    draw(rows, data, scale, out / "sinkhorn_vs_exact.png")
    return rows


def load(settings: Settings) -> Tensor:
    """The data: (rows, d), float32."""
    if settings.data == "digits":
        return torch.from_numpy(public_data.load("digits")[0])
    if settings.data == "mixture":
        generator = torch.Generator().manual_seed(settings.seed)
        angle = torch.randint(8, (settings.rows,), generator=generator) * (math.pi / 4)
        centres = 3 * torch.stack((angle.cos(), angle.sin()), 1)
        return centres + 0.3 * torch.randn(settings.rows, 2, generator=generator)
    raise SystemExit(f"data: got {settings.data!r}; expected 'mixture' or 'digits'")


def table(rows: list[tc.Comparison]) -> str:
    """One line for each divergence."""
    lines = [f"{'minimised':24}{'its own value':>15}{'exact W1':>12}{'exact W2^2':>12}{'distinct':>10}{'seconds':>9}"]
    for row in rows:
        lines.append(
            f"{row.name:24}{row.value:>15.4g}{row.w1:>12.4f}{row.w2:>12.4f}{row.distinct:>10}{row.seconds:>9.1f}"
        )
    return "\n".join(lines)


def draw(rows: list[tc.Comparison], data: Tensor, scale: float, path: Path) -> None:
    """Exact distance and distinct points against the blur, and two coresets of the same blur beside each other."""
    plt = experiment.pyplot()
    figure, axes = plt.subplots(1, 4, figsize=(17, 4.2), layout="constrained", dpi=130)
    for debias, kind in ((True, "Sinkhorn"), (False, "OT_eta")):
        curve = [row for row in rows if row.divergence == "sinkhorn" and row.debias is debias]
        blurs = [row.blur / scale for row in curve]
        axes[0].loglog(blurs, [row.w2 for row in curve], "o-", color=COLOURS[kind], label=kind)
        axes[1].semilogx(blurs, [row.distinct for row in curve], "o-", color=COLOURS[kind], label=kind)
    for row in rows[:3]:
        axes[0].axhline(row.w2, color=COLOURS[row.name], linestyle="--", linewidth=1, label=row.name)
    axes[0].set(xlabel="blur / scale of the data", ylabel="exact $W_2^2$ to held-out samples")
    axes[1].set(xlabel="blur / scale of the data", ylabel="distinct points left", ylim=(0, None))
    axes[0].legend(frameon=False)
    half = next((row for row in rows if not row.debias and row.distinct <= len(row.points) // 2), rows[-1])
    cured = next(row for row in rows if row.divergence == "sinkhorn" and row.debias and row.blur == half.blur)
    centre = data.mean(0)
    main_axes = torch.linalg.svd(data - centre, full_matrices=False).Vh[:2].T
    for axis, row in zip(axes[2:], (half, cured), strict=True):
        for cloud, size, colour in ((data, 3, "#cccccc"), (row.points, 30, COLOURS[row.name.split(",")[0]])):
            axis.scatter(*((cloud - centre) @ main_axes).T.numpy(), s=size, color=colour, linewidths=0)
        axis.set_title(f"{row.name}: {row.distinct} distinct of {len(row.points)}", fontsize=10)
        axis.set_aspect("equal", adjustable="datalim")
        axis.set_axis_off()
    experiment.save(figure, path)


if __name__ == "__main__":
    main()
