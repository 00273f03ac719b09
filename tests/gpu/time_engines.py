"""Milliseconds of one hard pass and of two soft passes, by engine: python -m tests.gpu.time_engines

The broad soft pass smooths by a tenth of the mean cost, most samples are undecided; the sharp one by a thousandth.
Variants of the Triton engine show what its constants are worth: -dot takes matrix tiles, -loop coordinates, -8 warps.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Iterator

import torch

from torchcoreset.transport.passes.choose import make_engine
from torchcoreset.transport.problem import make_problem

SIZES = [
    (100, 10_000, 2), (100, 100_000, 16), (500, 20_000, 16), (1_000, 331_000, 8), (1_000, 1_000_000, 2),
    (1_000, 1_000_000, 8), (1_000, 200_000, 16), (1_000, 200_000, 32), (1_000, 200_000, 64), (1_000, 100_000, 128),
    (1_000, 50_000, 784), (10_000, 200_000, 8),
]  # fmt: skip
ENGINES = ["dense", "keops", "triton", "triton-dot", "triton-loop", "triton-8"]
KEOPS_DIMENSIONS = 16  # so that the table does not wait for its compiler
SOFT_POINTS = 2_000  # beyond which a soft pass is all curvature, n x n x m
TRITON = "torchcoreset.transport.passes.fused.triton"  # imported where triton is
CONSTANTS = {"dot": ("DOT_FROM", 1), "loop": ("DOT_FROM", 1 << 30), "8": ("WARPS", 8)}


@contextlib.contextmanager
def variant(name: str) -> Iterator[str]:
    """The engine's name, while one constant of its file is another."""
    engine, _, change = name.partition("-")
    if not change:
        yield engine
        return
    triton = importlib.import_module(TRITON)
    constant, value = CONSTANTS[change]
    kept = getattr(triton, constant)
    setattr(triton, constant, value)
    try:
        yield engine
    finally:
        setattr(triton, constant, kept)


def milliseconds(call: Callable[[], object]) -> float:
    """Best of several calls, the device waited for."""
    call()
    best, began = float("inf"), time.perf_counter()
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
        if time.perf_counter() - began > 0.5:
            break
    return best * 1e3


def row(n: int, m: int, d: int, name: str, p: float) -> str:
    """One line of the table."""
    generator = torch.Generator("cuda").manual_seed(0)
    y = torch.randn(m, d, device="cuda", generator=generator)
    problem = make_problem(torch.randn(n, d, device="cuda", generator=generator), y, p)
    v = torch.zeros_like(problem.b)
    head = f"{p:<4g} {n:>6} {m:>8} {d:>4}  {name:<12}"
    if name == "keops" and d > KEOPS_DIMENSIONS:
        return f"{head} not tried"
    try:
        with variant(name) as engine:
            passes = make_engine(problem, engine)
            hard = milliseconds(lambda: passes.hard(v))
            if n > SOFT_POINTS:
                return f"{head} {hard:>9.2f}"
            mean = float(problem.a @ passes.hard(v).cost)
            broad, sharp = (milliseconds(lambda eta=mean * part: passes.soft(v, eta)) for part in (0.1, 0.001))
    except (RuntimeError, ImportError, ValueError) as error:
        return f"{head} {error}"
    return f"{head} {hard:>9.2f} {broad:>9.2f} {sharp:>9.2f}"


def main() -> None:
    """Print the table."""
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(f"{'p':<4} {'n':>6} {'m':>8} {'d':>4}  {'engine':<12} {'hard ms':>9} {'broad ms':>9} {'sharp ms':>9}")
    for n, m, d in SIZES:
        for p in (2.0, 1.0) if (n, d) == (1_000, 8) else (2.0,):
            for name in ENGINES:
                print(row(n, m, d, name, p), flush=True)


if __name__ == "__main__":
    main()
