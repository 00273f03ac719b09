"""coreax's solvers, run by a Python that has `coreax`, which needs its own environment; it needs no torch.

    PYTHON -P tests/benchmarks/peer_coreax.py IN.npz OUT.npz

IN holds `rows` (m, d), `size` and `seed`. OUT gets, for each solver, the row numbers that it chooses, their weights and
processor seconds, and `blur`, the length scale of the kernel that all of them use, by coreax's median heuristic.
Settings are those of coreax's own benchmarks (`coreax.benchmark_util`), where kernel thinning goes by `MapReduce`. Each
runs on one core, and twice if the first run, which compiles, was short; the second counts.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

OVERSAMPLING = 4  # of Compress++, whose time it multiplies by 4 for each more
LEAF = 1024  # rows of a part that kernel thinning sees at once: its time is quadratic, 6 minutes for 10,000 rows
SOLVERS = {
    "kernel herding": "Kernel Herding",
    "kernel herding, refined": "Iterative Herding",
    "kernel thinning": "Kernel Thinning",
    "Stein thinning": "Stein Thinning",
    "Compress++": "Compress++",
    "RPCholesky": "RP Cholesky",
}
PARTED = ("kernel thinning",)
WEIGHTED = ("kernel herding", "RPCholesky")  # run again with weights from coreax's quadratic programme
LONG = 5.0  # seconds: what takes longer runs once, compilation included


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and the processor seconds of its last run."""
    seconds = 0.0
    for _ in range(2):
        began = time.process_time()
        found = work()
        seconds = time.process_time() - began
        if seconds > LONG:
            break
    return found, seconds


def solve(rows: np.ndarray, size: int, seed: int) -> dict[str, Any]:
    """All solvers, by name."""
    import jax
    import jax.numpy as jnp
    from coreax import Data
    from coreax.benchmark_util import initialise_solvers
    from coreax.solvers import TreeRecombination
    from coreax.weights import MMDWeightsOptimiser

    data = Data(jnp.asarray(rows, jnp.float32))
    made = initialise_solvers(data, jax.random.key(seed), OVERSAMPLING)
    parted = initialise_solvers(data, jax.random.key(seed), OVERSAMPLING, LEAF)
    kernel = made["Kernel Herding"](size).kernel
    found: dict[str, Any] = {"blur": float(kernel.length_scale)}

    def keep(name: str, work: Callable[[], tuple[Any, Any]]) -> None:
        (numbers, weights), seconds = timed(work)
        found[f"rows: {name}"], found[f"weights: {name}"] = np.asarray(numbers, np.int64), np.asarray(weights, float)
        found[f"seconds: {name}"] = seconds

    def reduced(solver: Any, weigh: bool = False) -> tuple[Any, Any]:
        coreset = solver.reduce(data)[0]
        if weigh:
            coreset = coreset.solve_weights(MMDWeightsOptimiser(kernel))
        return jax.block_until_ready((coreset.unweighted_indices, coreset.points.weights))

    for name, called in SOLVERS.items():
        solver = (parted if name in PARTED else made)[called](size)
        keep(name, lambda solver=solver: reduced(solver))  # type: ignore[misc]
        if name in WEIGHTED:
            keep(f"{name}, weights", lambda solver=solver: reduced(solver, True))  # type: ignore[misc]
    # The means of size - 1 kernel functions, about random rows, come out right: the span of Nystrom's eigenfunctions.
    about = data.data[np.random.default_rng(seed).choice(len(rows), size - 1, replace=False)]
    keep("recombination", lambda: reduced(TreeRecombination(lambda x: kernel.compute(x, about)[0])))
    return found


def main(source: str, target: str) -> None:
    """Run all on one core."""
    if hasattr(os, "sched_setaffinity"):  # jax takes a thread for each core that it sees
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    given = np.load(source)
    np.savez(target, **solve(given["rows"], int(given["size"]), int(given["seed"])))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
