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

import argparse
import math
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

import torchcoreset as tc

CONFIG = Path(__file__).parents[1] / "configs" / "sinkhorn_vs_exact.yaml"
COLOURS = {"Sinkhorn": "#2e6f95", "OT_eta": "#d1495b", "W1": "#8d6a9f", "W2^2": "#333333", "energy": "#5b8c5a"}


def main(arguments: list[str] | None = None) -> list[tc.Comparison]:
    """Fit, judge, print the table and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, default=CONFIG, help="YAML file (%(default)s)")
    parser.add_argument("--small", action="store_true", help="the small form that the file describes")
    parser.add_argument("--out", type=Path, default=Path("example_output"), help="folder for the figure (%(default)s)")
    options = parser.parse_args(arguments)
    config = read_config(options.config, small=options.small)
    data = load(config)
    scale = float((data - data.median(0).values).norm(dim=1).median())
    rows = tc.compare_divergences(
        data,
        config["size"],
        p=config["p"],
        blurs=[scale * relative for relative in config["relative_blurs"]],
        backend=config["backend"],
        steps=config["steps"],
        seed=config["seed"],
    )
    print(
        f"{config['size']} points for {len(data) // 2} samples, judged on {len(data) - len(data) // 2} others; ", end=""
    )
    print(f"scale of the data {scale:.3g}\n\n{table(rows)}")
    options.out.mkdir(parents=True, exist_ok=True)
    figure = options.out / "sinkhorn_vs_exact.png"
    draw(rows, data, scale, figure)
    print(f"\nfigure  {figure}")
    return rows


def read_config(path: Path, *, small: bool) -> dict[str, Any]:
    """The settings in a YAML file; those under `small` replace the others if asked for."""
    config: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    replaced = config.pop("small", {})
    return {**config, **replaced} if small else config


def load(config: dict[str, Any]) -> Tensor:
    """The data: (rows, d), float32."""
    if config["data"] == "digits":
        from sklearn.datasets import load_digits

        return torch.tensor(load_digits().data, dtype=torch.float32)
    if config["data"] == "mixture":
        generator = torch.Generator().manual_seed(config["seed"])
        angle = torch.randint(8, (config["rows"],), generator=generator) * (math.pi / 4)
        centres = 3 * torch.stack((angle.cos(), angle.sin()), 1)
        return centres + 0.3 * torch.randn(config["rows"], 2, generator=generator)
    raise SystemExit(f"data: got {config['data']!r}; expected 'mixture' or 'digits'")


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
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

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
    figure.savefig(path)
    plt.close(figure)


if __name__ == "__main__":
    main()
