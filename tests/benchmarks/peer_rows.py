"""FasterPAM and kernel thinning, run by a Python that has `kmedoids` and `goodpoints`; it needs no torch.

    PYTHON tests/benchmarks/peer_rows.py IN.npz OUT.npz

IN holds `rows` (m, d), `size` and `seed`; OUT gets the row numbers that each method chooses, and its seconds.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np


def distances(rows: np.ndarray) -> np.ndarray:
    """(m, m) Euclidean distances, float32."""
    square = (rows**2).sum(1)
    apart = square[:, None] + square - 2 * rows @ rows.T
    np.fill_diagonal(apart, 0)
    found: np.ndarray = np.sqrt(np.clip(apart, 0, None)).astype(np.float32)
    return found


def faster_pam(rows: np.ndarray, size: int, seed: int, p: int) -> tuple[np.ndarray, float, float]:
    """The medoids for |y - x|^p, process seconds, and of these the seconds of the distances."""
    import kmedoids

    began = time.process_time()
    costs = distances(rows) ** p
    made = time.process_time()
    found = kmedoids.fasterpam(costs, size, random_state=seed, n_cpu=1)
    ended = time.process_time()
    return np.asarray(found.medoids, dtype=np.int64), ended - began, made - began


def kernel_thinning(rows: np.ndarray, size: int, seed: int) -> tuple[np.ndarray, float]:
    """Of size * 2^g random rows, halved g times, with a Gaussian kernel of the median distance; process seconds."""
    from goodpoints import kt

    random = np.random.default_rng(seed)
    rounds = int(np.log2(len(rows) / size))
    chosen = random.permutation(len(rows))[: size << rounds]
    some = rows[chosen]
    few = some[:1000]
    width = float(np.median(distances(few)[np.triu_indices(len(few), 1)]))

    def kernel(y: np.ndarray, x: np.ndarray) -> Any:
        return np.exp(-((y - x) ** 2).sum(1) / (2 * width**2))

    began = time.process_time()
    kept = kt.thin(some, rounds, kernel, kernel, seed=seed)
    return chosen[np.asarray(kept, dtype=np.int64)], time.process_time() - began


def main(source: str, target: str) -> None:
    """Run both, FasterPAM for p = 1 and 2."""
    given = np.load(source)
    rows, size, seed = given["rows"].astype(np.float64), int(given["size"]), int(given["seed"])
    found: dict[str, Any] = {}
    for p in (1, 2):
        medoids, seconds, matrix = faster_pam(rows, size, seed, p)
        found |= {f"pam{p}": medoids, f"pam{p}_seconds": seconds, f"pam{p}_matrix": matrix}
    found["thinning"], found["thinning_seconds"] = kernel_thinning(rows, size, seed)
    np.savez(target, **found)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
