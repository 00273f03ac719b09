"""Coarse to fine: the potential of a problem with fewer points, carried to all of them.

    x' (n/8, d) some of the points, each with the weight of the points nearest to it      f (m,) smoothed c-transform

The coarser problem is solved in the same way, down to FEWEST points. Its potential is carried over by one Sinkhorn
half-step: v_i = -eta log sum_k a_k exp((f_k - c_ki) / eta) gives each point its weight at the samples' potential f.
Source: Merigot (2011), A multiscale approach to optimal transport; differs in that points are merged, not samples.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ..passes import Engine, SmoothedCells
from ..problem import Problem
from .newton import LOOSE, TIGHT, eps_scaling

FEWER = 8  # points that one of the next coarser problem stands for
FEWEST = 32  # points of the coarsest problem: below 256 points a start from zero is faster (measured)
COARSE = 20  # samples a point of the first Newton steps
MANY = 1 << 17  # samples beyond which half as many are taken: their lists fill a GiB
LEAST_SAMPLES = 1024  # of a subsample: below, the constant time of a pass dominates
SPLIT = 0.6  # softness at which a coarser problem hands over to the finer one
BROAD = 5  # samples a point of the steps at large eta, where each sample goes to many points
BROAD_SPLIT = 0.4  # softness at which these hand over to COARSE samples a point


def coarse_sample(engine: Engine) -> Engine:
    """As many samples as the first Newton steps need."""
    count = COARSE * len(engine.problem.x)
    return engine.subsample(max(LEAST_SAMPLES, min(count, max(count // 2, MANY))))


def coarse_potential(engine: Engine, least: float, target: float | None = None) -> tuple[Tensor, SmoothedCells, float]:
    """A potential (n,) for a few samples a point, its soft pass and its smoothing; as `eps_scaling`.

    Masses are right where these are all samples, and else nearly: more samples follow.
    """
    n = len(engine.problem.x)
    v, eta = first_potential(engine, least)
    if n >= FEWER * FEWEST:
        few = engine.subsample(max(LEAST_SAMPLES, BROAD * n))
        v, _, eta = eps_scaling(few.candidates(v, eta), v, eta, least, BROAD_SPLIT, LOOSE)
    sample = coarse_sample(engine)
    error = TIGHT if sample.problem.count == engine.problem.count else LOOSE
    return eps_scaling(sample.candidates(v, eta), v, eta, least, target, error)


def first_potential(engine: Engine, least: float) -> tuple[Tensor, float]:
    """A potential (n,) to begin with, and the smoothing at which to begin; `least` as for `eps_scaling`."""
    problem = engine.problem
    if len(problem.x) < FEWER * FEWEST:
        tiny = torch.finfo(problem.x.dtype).tiny  # where all coincide; its own power may be zero
        typical = coarse_sample(engine).problem.typical_cost  # the steps that follow see no other samples
        return torch.zeros_like(problem.b), max(typical, problem.cost.of_square(tiny), tiny)
    coarser = engine.on(merged(engine))
    v, _, eta = coarse_potential(coarser, least, SPLIT)
    few = coarse_sample(coarser)
    f = few.softmin(v, eta)
    transposed = Problem(x=few.problem.y, b=few.problem.a, y=problem.x, a=problem.b, equal=False, cost=problem.cost)
    return engine.on(transposed).softmin(f, eta), eta


def merged(engine: Engine) -> Problem:
    """The problem with every FEWER-th point, each with the weights of those nearest to it."""
    problem = engine.problem
    n = len(problem.x)
    generator = torch.Generator().manual_seed(n)
    chosen = torch.randperm(n, generator=generator, device="cpu")[: n // FEWER].to(problem.x.device)
    few = torch.unique(problem.x[chosen], dim=0)  # rounding tells equal points apart
    equal = problem.b.new_full((len(few),), 1 / len(few))
    nearest = engine.on(Problem(x=few, b=equal, y=problem.x, a=problem.b, equal=False, cost=problem.cost))
    b = nearest.hard(torch.zeros_like(equal)).mass
    return replace(problem, x=few[b > 0], b=b[b > 0] / b.sum())
