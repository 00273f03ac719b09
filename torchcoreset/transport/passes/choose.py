"""The choice of the engine of a problem: the given one, or for "auto" the one that was fastest in measurements."""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable
from typing import Literal, get_args

import torch

from ...errors import warn_user
from ...tensors import check_name
from ..costs import Cost, as_cost
from ..problem import Problem, as_float64, within_range
from .dense import DenseEngine, DifferencesEngine
from .engine import Engine
from .fused import CompiledEngine, KeopsEngine, computes, is_built, load_triton
from .rounding import unresolved

EngineName = Literal["auto", "compiled", "dense", "keops", "triton"]
# An engine by its name, or by a function that makes one for a problem whose mean cost is known, or infinite.
EngineChoice = str | Callable[[Problem, float], Engine]

# "auto" never takes KeOps. Measured on a 2-core CPU, milliseconds of one pass, dense against KeOps (float32, p = 2):
#     n = 100, m = 100,000, d = 2     hard 20 and 23    soft 51 and 205
#     n = 500, m = 20,000, d = 2      hard 16 and 14    soft 138 and 284
#     n = 100, m = 100,000, d = 8     hard 22 and 62    soft 42 and 335
#     n = 100, m = 100,000, d = 32    hard 30 and 160   soft 49 and 683
# and each new dimension, power and dtype is compiled for 6 to 60 seconds first.
KEOPS_DIMENSIONS = 100  # beyond which KeOps compiles for minutes and runs slower than matrix products
# Bounds within which "auto" takes Triton on CUDA. Measured on an H200, milliseconds of a sharp soft pass, dense and
# triton: 7.2 and 3.6 at (n, m, d) = (1000, 331k, 8), 5.0 and 3.8 at (1000, 200k, 32), 5.7 and 6.2 at (1000, 200k, 64);
# below 2^24 elements both take a millisecond.
TRITON_DIMENSIONS, TRITON_ELEMENTS = 32, 1 << 24


def check_engine(engine: str) -> None:
    """Raise ValueError unless this is the name of an engine."""
    check_name(engine, "engine", get_args(EngineName))


def make_engine(problem: Problem, engine: EngineChoice, mean: float = math.inf) -> Engine:
    """The engine of this name for a checked problem, or in float64, or from differences, where squares hide its mean
    cost.

    `mean` is about the cost to the nearest point, infinite where it is not known to be small.

    Raises:
        ValueError: no engine has this name, or it cannot compute this problem; nor can float64.
        ImportError: the engine's package is not installed.
        RuntimeError: the engine's package cannot be set up; names the remedy.

    Warns:
        UserWarning: "keops" was asked for in more than KEOPS_DIMENSIONS dimensions.
    """
    if not isinstance(engine, str):
        return engine(problem, mean)
    check_engine(engine)
    _check_cost(engine, problem.cost)
    if not problem.cost.by_products:
        return DifferencesEngine(problem)
    if unresolved(problem, mean):
        problem = as_float64(problem)
        if unresolved(problem, mean):
            return DifferencesEngine(within_range(problem))
    problem = within_range(problem)
    return MAKERS[_fastest(problem) if engine == "auto" else engine](problem)


def _fastest(problem: Problem) -> EngineName:
    if problem.x.is_cpu:
        return "compiled" if is_built() and computes(problem.cost) else "dense"
    return "triton" if _triton_pays(problem) else "dense"


def _check_cost(engine: str, cost: Cost) -> None:
    """Raise ValueError for a fused engine that cannot compute this cost."""
    if engine == "compiled" and not computes(cost):
        raise ValueError(
            f"engine: got 'compiled' with {cost!r}; expected 'auto' or 'dense': only the Euclidean distance of "
            "coordinates and its square are compiled."
        )
    if (engine == "keops" and not cost.lazy) or (engine == "triton" and cost.kernel is None):
        raise ValueError(
            f"engine: got {engine!r} with {cost!r}; expected 'auto' or 'dense': only powers of the Euclidean distance "
            "of coordinates have other engines."
        )


def _triton_pays(problem: Problem) -> bool:
    """Whether the fused kernels are the better choice, and work here."""
    x, y = problem.x, problem.y
    wanted = (
        problem.cost.kernel is not None and x.is_cuda and x.dtype == torch.float32 and x.shape[1] <= TRITON_DIMENSIONS
    )
    return wanted and len(x) * len(y) >= TRITON_ELEMENTS and _triton_works(x.device)


@functools.cache
def _triton_works(device: torch.device) -> bool:
    """Whether a small problem can be compiled and run: triton needs a C compiler and a GPU that it knows."""
    if importlib.util.find_spec("triton") is None:
        return False
    x = torch.zeros(2, 1, device=device)
    b = torch.full((2,), 0.5, dtype=torch.float64, device=device)
    try:
        load_triton().TritonEngine(Problem(x=x, b=b, y=x, a=b, equal=True, cost=as_cost(2))).hard(b)
    except RuntimeError:
        return False
    return True


def _compiled(problem: Problem) -> Engine:
    if not problem.x.is_cpu:
        raise ValueError(
            f"engine: got 'compiled' with points on {problem.x.device}; expected the CPU. "
            "Use engine='auto', or move points and samples with .cpu()."
        )
    return CompiledEngine(problem)


def _keops(problem: Problem) -> Engine:
    warn_of_dimensions(problem.x.shape[1])
    return KeopsEngine(problem)


def warn_of_dimensions(d: int) -> None:
    """Warn if KeOps was chosen with more dimensions than it is suited for."""
    if d > KEOPS_DIMENSIONS:
        message = (
            f"engine: 'keops' was asked for in {d} dimensions; expected at most {KEOPS_DIMENSIONS}: its code is "
            "unrolled over the dimensions, takes minutes to compile and runs slowly beyond that. Use engine='dense'."
        )
        warn_user(UserWarning(message))


def _triton(problem: Problem) -> Engine:
    if problem.x.dtype == torch.float64:  # GPUs have few float64 units, which matrix products use best
        return DenseEngine(problem)
    if importlib.util.find_spec("triton") is None:
        raise ImportError(
            "engine: 'triton' needs triton, which is not installed. Use engine='dense', or pip install triton "
            "(it is installed with torch for CUDA on Linux)."
        )
    triton = load_triton()
    if not (problem.x.is_cuda or triton.INTERPRETED):
        raise ValueError(
            f"engine: got 'triton' with points on {problem.x.device}; expected a CUDA device. "
            "Use engine='dense', or move points and samples with .to('cuda')."
        )
    found: Engine = triton.TritonEngine(problem)
    return found


MAKERS: dict[str, Callable[[Problem], Engine]] = {
    "compiled": _compiled,
    "dense": DenseEngine,
    "keops": _keops,
    "triton": _triton,
}
