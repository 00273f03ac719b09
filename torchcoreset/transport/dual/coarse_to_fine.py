"""Where Newton begins: the same problem with fewer points, and again with fewer, until it is cheap from anywhere.

    x' (n/8, d) some of the points, each with the weight of the points nearest to it      f (m,) smoothed c-transform

A few points and samples tell where the potential is high and where it is low. What they have learnt reaches all points
through the samples: v_i = -eta log sum_k a_k exp((f_k - c_ki) / eta) gives every point the mass that it should have,
if the samples' own potential f is right. See Merigot (2011) for the multiscale idea.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ..passes import Engine, SmoothedCells
from ..problem import Problem
from .newton import LOOSE, TIGHT, anneal

FEWER = 8  # points that one of the next coarser problem stands for
FEWEST = 32  # points of the coarsest problem: below 256 points a start from nothing is faster (measured)
COARSE, MANY = 20, 1 << 17  # samples a point, and samples beyond which half as many do: their lists fill a GiB
LEAST_SAMPLES = 1024
SPLIT = 0.6  # softness at which a coarser problem hands over
BROAD, BROAD_SPLIT = 5, 0.4  # samples a point, and softness to reach with them, while each sample goes to many points


def coarse_sample(engine: Engine) -> Engine:
    """As many samples as the first Newton steps need."""
    count = COARSE * len(engine.problem.x)
    return engine.subsample(max(LEAST_SAMPLES, min(count, max(count // 2, MANY))))


def coarse_potential(engine: Engine, least: float, target: float | None = None) -> tuple[Tensor, SmoothedCells, float]:
    """A potential (n,) for a few samples a point, its soft pass and its smoothing; as `anneal`.

    Masses are right where these are all samples, and else nearly: more samples follow.
    """
    n = len(engine.problem.x)
    v, eta = first_potential(engine, least)
    if n >= FEWER * FEWEST:
        few = engine.subsample(max(LEAST_SAMPLES, BROAD * n))
        v, _, eta = anneal(few.candidates(v, eta), v, eta, least, BROAD_SPLIT, LOOSE)
    sample = coarse_sample(engine)
    return anneal(sample.candidates(v, eta), v, eta, least, target, TIGHT if sample is engine else LOOSE)


def first_potential(engine: Engine, least: float) -> tuple[Tensor, float]:
    """A potential (n,) to begin with, and the smoothing at which to begin; `least` as for `anneal`."""
    problem = engine.problem
    if len(problem.x) < FEWER * FEWEST:
        tiny = torch.finfo(problem.x.dtype).tiny  # where all coincide; its own power may be zero
        return torch.zeros_like(problem.b), max(max(problem.spread, tiny) ** (problem.p / 2), tiny)
    coarser = engine.on(merged(engine))
    v, _, eta = coarse_potential(coarser, least, SPLIT)
    few = coarse_sample(coarser)
    f = few.softmin(v, eta)
    transposed = Problem(x=few.problem.y, b=few.problem.a, y=problem.x, a=problem.b, equal=False, p=problem.p)
    return engine.on(transposed).softmin(f, eta), eta


def merged(engine: Engine) -> Problem:
    """The problem with every FEWER-th point, each with the weights of those nearest to it."""
    problem = engine.problem
    n = len(problem.x)
    generator = torch.Generator().manual_seed(n)
    chosen = torch.randperm(n, generator=generator, device="cpu")[: n // FEWER].to(problem.x.device)
    few = torch.unique(problem.x[chosen], dim=0)  # rounding tells equal points apart
    equal = problem.b.new_full((len(few),), 1 / len(few))
    nearest = engine.on(Problem(x=few, b=equal, y=problem.x, a=problem.b, equal=False, p=problem.p))
    b = nearest.hard(torch.zeros_like(equal)).mass
    return replace(problem, x=few[b > 0], b=b[b > 0] / b.sum())
