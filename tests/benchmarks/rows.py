"""Rows that stand for a table, beside k-medoids, kernel thinning, facility location and random rows.

    python -m tests.benchmarks.rows [--data FOLDER] [--peers PYTHON] [--size N] [SET ...]

prints W_1 and W_2 to the table, first with equal weights and then with the weights of the nearest rows, and process
seconds. FasterPAM and kernel thinning run in another Python, which has `kmedoids` and `goodpoints`; without it they are
left out. Tables of more than 10,000 rows are 10,000 rows drawn from them, since FasterPAM holds all distances.
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

MOST = 10_000  # rows of a table
RANDOM = 10  # draws of random rows, whose median is printed
SEED = 0
# Whether columns are brought to standard deviations first: those of digits and pens are in one unit.
SETS = {
    "digits": False,
    "pendigits": False,
    "htru2": True,
    "credit_default": True,
    "cod_rna": True,
    "mnist_t10k": False,
}
Chosen = tuple[Tensor, float]  # row numbers (n,), process seconds


def table(folder: Path, name: str) -> Tensor:
    """The rows of a data set, float32."""
    rows = torch.from_numpy(np.load(folder / f"{name}.npz")["X"].astype(np.float32))
    if len(rows) > MOST:
        rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(SEED))[:MOST]]
    if SETS[name]:
        deviation = rows.std(0)
        rows = (rows - rows.mean(0)) / deviation.where(deviation > 0, 1.0)
    return rows


def timed(choose: Callable[[], Tensor]) -> Chosen:
    """Row numbers, and what they took."""
    began = time.process_time()
    return choose(), time.process_time() - began


def ours(rows: Tensor, size: int, p: float, weights: str | None) -> Tensor:
    """Rows of a build."""
    found = tc.build_coreset(rows, size, p, weights=weights, rows=True, seed=SEED, progress=False).rows
    assert found is not None
    return found


def snapped(rows: Tensor, size: int, p: float, weights: str | None) -> Tensor:
    """The nearest rows to free points, each once."""
    points = tc.build_coreset(rows, size, p, weights=weights, seed=SEED, progress=False).coreset.points.detach()
    chosen: list[int] = []
    for point in points:
        apart = (rows - point).norm(dim=1)
        apart[chosen] = torch.inf
        chosen.append(int(apart.argmin()))
    return torch.tensor(chosen)


def facility_location(rows: Tensor, size: int, p: float) -> Tensor:
    """Greedily the row that lowers sum_l min_i |y_l - x_i|^p most."""
    costs = torch.cdist(rows, rows).pow_(p)
    nearest, chosen = costs.max(1).values, []
    for _ in range(size):
        total = torch.cat([torch.minimum(block, nearest).sum(1) for block in costs.split(256)])  # type: ignore[no-untyped-call]
        chosen.append(int(total.argmin()))
        nearest = torch.minimum(nearest, costs[chosen[-1]])
    return torch.tensor(chosen)


def peers(python: str | None, rows: Tensor, size: int) -> dict[str, Any]:
    """What the other Python chooses."""
    if python is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        source, target = f"{folder}/in.npz", f"{folder}/out.npz"
        np.savez(source, rows=rows.numpy(), size=size, seed=SEED)
        program = Path(__file__).with_name("peer_rows.py")
        subprocess.run([python, str(program), source, target], check=True)
        return dict(np.load(target))


def judged(rows: Tensor, chosen: Tensor, p: float, weights: str | None) -> float:
    """W_p from these rows to all."""
    return float(tc.transport(rows[chosen], rows, p, weights, tolerance=1e-4).value ** (1 / p))


def compare(rows: Tensor, size: int, python: str | None) -> dict[tuple[str, str, int], tuple[float, float]]:
    """By weights, method and p: the distance, and process seconds."""
    found: dict[tuple[str, str, int], tuple[float, float]] = {}
    other = peers(python, rows, size)
    for p in (1, 2):
        methods: dict[str, Chosen] = {"facility location": timed(lambda p=p: facility_location(rows, size, p))}  # type: ignore[misc]
        if other:
            medoids = torch.from_numpy(other[f"pam{p}"])
            methods["FasterPAM"] = (medoids, float(other[f"pam{p}_seconds"]))
            methods["kernel thinning"] = (torch.from_numpy(other["thinning"]), float(other["thinning_seconds"]))
        for kind, weights in (("equal", None), ("free", "free")):
            own = {
                "build_coreset(rows=True)": timed(lambda p=p, weights=weights: ours(rows, size, p, weights)),  # type: ignore[misc]
                "free points, snapped": timed(lambda p=p, weights=weights: snapped(rows, size, p, weights)),  # type: ignore[misc]
            }
            for name, (chosen, seconds) in {**own, **methods}.items():
                found[kind, name, p] = (judged(rows, chosen, p, weights), seconds)
            generator = torch.Generator().manual_seed(SEED)
            draws = [torch.randperm(len(rows), generator=generator)[:size] for _ in range(RANDOM)]
            found[kind, "random rows", p] = (float(np.median([judged(rows, one, p, weights) for one in draws])), 0.0)
    return found


def main(arguments: list[str] | None = None) -> dict[str, dict[tuple[str, str, int], tuple[float, float]]]:
    """Compare on each set, and print a table for it."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.rows", description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("TORCHCORESET_DATA", "../shared/data"))
    parser.add_argument("--peers", help="a Python that has kmedoids and goodpoints")
    parser.add_argument("--size", type=int, default=50)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}")
    options = parser.parse_args(arguments)
    every = {}
    for name in options.sets or SETS:
        rows = table(Path(options.data), name)
        every[name] = found = compare(rows, options.size, options.peers)
        print(f"\n{name}: {options.size} of {len(rows):,} rows, {rows.shape[1]} columns")
        print(f"| {'weights':7} | {'method':26} | {'W_1':>9} | {'s':>6} | {'W_2':>9} | {'s':>6} |")
        for kind, method, p in found:
            if p == 1:
                cells = [
                    f"{value:9.5g} | {seconds:6.1f}" for value, seconds in (found[kind, method, q] for q in (1, 2))
                ]
                print(f"| {kind:7} | {method:26} | {' | '.join(cells)} |", flush=True)
    return every


if __name__ == "__main__":
    main()
