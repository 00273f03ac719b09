"""Entropic potentials from geomloss' annealed Sinkhorn iteration, judged like any others.

geomloss lowers eps^(1/p) from the diameter to the blur, by a factor `scaling` a step, and stops, converged or not.
Only its potential is taken: `evaluate` gives the value and the marginal error that belong to it, so that an iteration
which stopped early shows. Its conventions: cost |x - y|^p / p and eps = blur^p, so that ours are p times both.

What is guarded against here, in geomloss 0.3.1: gradients are left enabled after a call, and whatever an exception
leaves; a diameter of zero breaks the schedule; distances for p = 1 are at least 1e-4 whatever the unit, hence the unit
of length is the blur.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
from dataclasses import replace

import torch

from ..extent import diameter
from ..passes import KEOPS_DIMENSIONS, load_keops, running, warn_of_dimensions
from ..problem import Problem, as_float64
from ..result import Status
from .evaluation import Entropic, evaluate
from .sinkhorn import marginal_target

ENGINES = ("auto", "dense", "keops")
DENSE_ELEMENTS = 5000**2  # geomloss holds the n x m costs twice, and as much again at work
ROUNDING = 1e-3  # largest error of an exponent at which float32 will do


def geomloss_entropic(problem: Problem, blur: float, *, scaling: float, tolerance: float, engine: str) -> Entropic:
    """OT_eta between points and samples, at the potential that geomloss stops with.

    Args:
        problem: with a cost that geomloss has. Computed in its own dtype, or in float64 where float32 would spoil the
            exponents.
        blur: length > 0.
        scaling: ratio of successive blurs, in (0, 1); nearer to 1 is slower and more accurate.
        tolerance: marginal error up to which the result counts as converged.
        engine: "dense" (geomloss' "tensorized"), "keops" (its "online"), or "auto".

    Raises:
        ImportError: geomloss, or the engine asked for, is not installed.
        RuntimeError: KeOps cannot compile or run; names the remedy.
    """
    engine = choose_engine(problem, engine)
    if importlib.util.find_spec("geomloss") is None:
        raise ImportError(
            "backend: 'geomloss' needs geomloss, which is not installed. Use backend='newton', or pip install geomloss."
        )
    if engine == "keops":
        load_keops()
    with contextlib.redirect_stdout(io.StringIO()):  # it imports pykeops, which reports on CUDA
        from geomloss import SamplesLoss
    eta = problem.cost.smoothing(blur)
    spoiled = problem.rounding > ROUNDING * eta
    work = as_float64(problem) if spoiled else problem
    x, y = work.x / blur, work.y / blur
    length = max(1.0, diameter(problem) / blur)
    loss = SamplesLoss(
        "sinkhorn", p=problem.cost.geomloss, blur=1.0, scaling=scaling, diameter=length, debias=False, potentials=True,
        backend="online" if engine == "keops" else "tensorized",
    )  # fmt: skip
    weights = work.b.to(x.dtype), work.a.to(x.dtype)
    # The context restores the mode that geomloss changes, after an exception too.
    with torch.no_grad(), running() if engine == "keops" else contextlib.nullcontext():
        potential, _ = loss(weights[0], x, weights[1], y)
    found = evaluate(as_float64(problem), potential.detach().flatten().double() * eta, eta)
    # Two softmins to begin with, two a step, two to end with, and the look at the result.
    steps = 2 * (math.ceil(math.log(length) / -math.log(scaling)) + 2) + 5
    allowed = marginal_target(problem, eta, tolerance)
    return replace(found, steps=steps, status=Status.CONVERGED if found.marginal_error <= allowed else Status.MAX_STEPS)


def choose_engine(problem: Problem, engine: str) -> str:
    """ "dense" or "keops": what was asked for, or for "auto" dense while the costs fit and where KeOps is no help."""
    d, elements = problem.x.shape[1], len(problem.x) * len(problem.y)
    if engine == "auto":
        helpful = (
            elements > DENSE_ELEMENTS and d <= KEOPS_DIMENSIONS and importlib.util.find_spec("pykeops") is not None
        )
        return "keops" if helpful else "dense"
    if engine == "keops":
        warn_of_dimensions(d)
    return engine
