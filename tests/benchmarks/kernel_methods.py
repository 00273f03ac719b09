"""Coresets beside coreax's kernel methods: W_2 to the data, coreax's own measure (MMD), and processor seconds.

    python3 -m venv .venv-coreax && .venv-coreax/bin/pip install coreax
    python -m tests.benchmarks.kernel_methods --peer .venv-coreax/bin/python

coreax has an environment of its own, apart from the versions that other peers pin; without it, it is left out. The
maximum mean discrepancy is that of its kernel, exp(-|x - y|^2 / (2 blur^2)), with the blur of its median heuristic; it
is computed here in float64, as its float32 rounds small ones to zero. Each number is the median over the seeds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import torchcoreset as tc

from .problems import separated, standardised

ROWS = 4096  # a power of four, so that Compress++ leaves none out; kernel thinning takes quadratic time
BLOCK = 1000  # rows of the kernel matrix at a time
SAMPLES = 1000  # rows whose median distance is the blur, without coreax
OURS: dict[str, dict[str, Any]] = {
    "W2": {},
    "W2, rows": {"rows": True},
    "W2, free weights": {"weights": "free"},
    "energy": {"divergence": "energy"},
    "mmd, the same kernel": {"divergence": "mmd"},
}
Made = tuple[Tensor, Tensor, float]  # points (n, d), weights (n,) of sum 1, processor seconds


def pendigits(folder: Path) -> Tensor:
    """Some rows, 16 standardised columns."""
    rows = standardised(torch.from_numpy(np.load(folder / "pendigits.npz")["X"].astype(np.float32)))
    return rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:ROWS]]


SETS: dict[str, Callable[[Path], Tensor]] = {
    "pendigits": pendigits,
    "20 clusters": lambda _: separated(10, ROWS, 8)(0)[1],
}


def ours(rows: Tensor, size: int, seed: int, blur: float) -> dict[str, Made]:
    """Builds with default settings."""
    found = {}
    for name, options in OURS.items():
        width = {"blur": blur} if options.get("divergence") == "mmd" else {}
        began = time.process_time()
        built = tc.build_coreset(rows, size, seed=seed, progress=False, **options, **width).coreset
        found[f"ours, {name}"] = (built.points.detach(), built.weights.double(), time.process_time() - began)
    return found


def peers(python: str | None, rows: Tensor, size: int, seed: int) -> tuple[dict[str, Made], float]:
    """What coreax chooses, and its blur."""
    if python is None:
        few = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:SAMPLES]]
        return {}, float(torch.pdist(few).median() / 2**0.5)
    with tempfile.TemporaryDirectory() as folder:
        source, target = f"{folder}/in.npz", f"{folder}/out.npz"
        np.savez(source, rows=rows.numpy(), size=size, seed=seed)
        program = Path(__file__).with_name("peer_coreax.py")
        # -P: modules of this folder do not hide those of packages.
        subprocess.run([python, "-P", str(program), source, target], check=True, env=without_path())
        held = dict(np.load(target))
    found = {}
    for key, seconds in held.items():
        kind, _, name = key.partition(": ")
        if kind == "seconds":
            weights = torch.from_numpy(held[f"weights: {name}"])
            points = rows[torch.from_numpy(held[f"rows: {name}"])]
            found[f"coreax, {name}"] = (points, weights / weights.sum(), float(seconds))
    return found, float(held["blur"])


def without_path() -> dict[str, str]:
    """The environment without the path of this Python's packages."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def kernel(x: Tensor, y: Tensor, blur: float) -> Tensor:
    """(n, m) values in float64."""
    return torch.cdist(x.double(), y.double()).div_(blur).square_().div_(-2).exp_()


def discrepancy(points: Tensor, weights: Tensor, rows: Tensor, blur: float, own: float) -> float:
    """Maximum mean discrepancy to the rows; `own` is E k(Y, Y') of the rows."""
    across = torch.cat([kernel(block, points, blur) @ weights for block in rows.split(BLOCK)]).mean()  # type: ignore[no-untyped-call]
    square = weights @ kernel(points, points, blur) @ weights - 2 * across + own
    return float(square.clamp(min=0).sqrt())


def compare(rows: Tensor, size: int, seed: int, python: str | None) -> dict[str, tuple[float, float, float]]:
    """By method: W_2, MMD and seconds."""
    made, blur = peers(python, rows, size, seed)
    draw = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))[:size]
    equal = torch.full((size,), 1 / size, dtype=torch.float64)
    own = float(torch.cat([kernel(block, rows, blur).mean(1) for block in rows.split(BLOCK)]).mean())  # type: ignore[no-untyped-call]
    return {
        name: (
            float(tc.transport(points, rows, 2, weights, tolerance=1e-4).value ** 0.5),
            discrepancy(points, weights, rows, blur, own),
            seconds,
        )
        for name, (points, weights, seconds) in {
            **ours(rows, size, seed, blur),
            **made,
            "random rows": (rows[draw], equal, 0.0),
        }.items()
    }


def main(arguments: list[str] | None = None) -> dict[str, dict[str, tuple[float, ...]]]:
    """Compare on each set, and print a table for it."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.kernel_methods", description=__doc__)
    parser.add_argument("--data", default=os.environ.get("TORCHCORESET_DATA", "../shared/data"))
    parser.add_argument("--peer", help="a Python that has coreax")
    parser.add_argument("--size", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}")
    options = parser.parse_args(arguments)
    if options.peer is None:
        print("coreax is left out: --peer takes a Python that has it, as the head of this file says")
    every = {}
    for name in options.sets or SETS:
        rows = SETS[name](Path(options.data))
        runs = [compare(rows, options.size, seed, options.peer) for seed in range(options.seeds)]
        middle = {
            method: tuple(float(np.median([run[method][k] for run in runs])) for k in range(3)) for method in runs[0]
        }
        every[name] = middle
        print(f"\n{name}: {options.size} points for {len(rows):,} rows, {rows.shape[1]} columns\n")
        print("| method | W_2 | MMD | seconds |\n| --- | --- | --- | --- |")
        for method, (distance, mmd, seconds) in middle.items():
            print(f"| {method} | {distance:.4g} | {mmd:.3g} | {seconds:.2g} |", flush=True)
    return every


if __name__ == "__main__":
    main()
