"""One flow: excess mass of the cells is moved along samples near their boundaries, which gives a feasible plan.

    v (n,) potential      excess (n,) mass of the cells - b

With few points the flow is over all arcs, with many over lists of candidates.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..flow import BoundarySamples, CandidateArcs, Floats, balance, boundary_samples, candidate_arcs, priced_samples
from ..passes import LaguerreCells, true_places, unresolved
from ..problem import Problem
from ..result import Coupling
from .state import ROUNDED, SolveState
from .wrong_mass import few_are_wrong, is_far

# Lists of candidate arcs are 1.5 to 5 times faster than all arcs beyond DENSE_BALANCE points (measured).
DENSE_BALANCE = 256
# Points up to which all arcs are taken nevertheless, where much has to move far or lists did not do, if there is room:
# with 2,000 points and 100,000 samples, all arcs of a third of the samples left mass without a path in every round, and
# wide lists of all samples proved the best plan in 2 s (measured).
MOST_DENSE = 4096
# Tolerance from which a first round without a start offers half as many samples to the flow on all arcs, if few are in
# wrong cells: that takes half the time. The gap is 2 to 3 times as large, between clusters up to 20 times, and still
# below. Builds, which start from potentials, gain nothing (measured).
ROUGH_FROM = 1e-3
ROW_ELEMENTS = 256  # float64 numbers that a boundary sample with its list takes, roughly
BALANCED_ELEMENTS = 1 << 26  # of the cost block of all boundary samples, float64: 512 MiB
# The same in the first round, held twice: 256 MiB. Beyond, lists take a tenth of that, and lead to better plans.
DENSE_ELEMENTS = 1 << 24


def takes_lists(problem: Problem) -> bool:
    """Whether points are so many that lists of candidate arcs are faster than all arcs."""
    return len(problem.x) > DENSE_BALANCE


def may_list_all(problem: Problem) -> bool:
    """Whether a flow along lists may offer all samples: far from the best it takes less than Newton's steps."""
    n, m = len(problem.x), problem.count
    return n > DENSE_BALANCE and m <= BALANCED_ELEMENTS // ROW_ELEMENTS


def balance_boundary(state: SolveState, cells: LaguerreCells, widen: int, priced: int) -> Tensor:
    """A feasible plan from cells; keeps the best upper bound; returns the potential that goes with it.

    Of the samples near the boundary of each cell `widen` times as many are offered as for a potential that is
    nearly right, and `priced` times as many of those that leave for each other cell at the least price.
    """
    problem, v = state.problem, cells.potential
    n = len(problem.x)
    excess = cells.mass - problem.b
    limit = max(n, BALANCED_ELEMENTS // min(n, ROW_ELEMENTS))  # more than that in a block are offered by lists
    rough = state.tolerance >= ROUGH_FROM and few_are_wrong(problem, cells)
    half = widen == 1 and state.first is None and not takes_lists(problem) and rough
    boundary = boundary_samples(state.engine, cells, excess, 0.5 if half else widen, limit)
    if n <= DENSE_BALANCE and priced:
        boundary = priced_samples(state.engine, cells, boundary, priced)
    arguments = tuple(t.cpu().numpy() for t in (boundary.cell, boundary.a, excess, v))
    balanced = balance(arc_costs(state, cells, boundary, excess, widen), *arguments)
    rows, cols, mass = (torch.from_numpy(array).to(v.device) for array in (balanced.rows, balanced.cols, balanced.mass))
    moved = state.engine.own(Coupling(boundary.number[rows], cols, mass, (problem.count, n)))
    fixed = torch.ones(len(problem.y), dtype=torch.bool, device=v.device)
    fixed[moved.rows] = False
    still = true_places(fixed)
    stays = problem.a.index_select(0, still)
    value = float(state.engine.total(stays @ cells.cost.index_select(0, still))[0])
    value += float(mass @ problem.cost.at(boundary.y, problem.x, rows, cols))
    plan = Coupling(
        torch.cat((still, moved.rows)),
        torch.cat((cells.cell.index_select(0, still), moved.cols)),
        torch.cat((stays, moved.mass)),
        moved.shape,
    )
    state.keep_plan(plan, value)
    return torch.from_numpy(balanced.potential).to(v)


def arc_costs(
    state: SolveState, cells: LaguerreCells, boundary: BoundarySamples, excess: Tensor, widen: int
) -> CandidateArcs | Floats:
    """Costs of the arcs from boundary samples: to all points, or along lists of candidates."""
    problem, n = state.problem, len(state.problem.x)
    # At a potential far from the best, samples may lie in cells that cost far more than the plan does.
    mean = min(cells.mean, state.value)
    hidden = unresolved(problem, mean, ROUNDED * state.tolerance, torch.float64)
    near = widen == 1 and not is_far(problem, cells)
    large = len(boundary.y) * n > (DENSE_ELEMENTS if widen == 1 else BALANCED_ELEMENTS)
    if n > MOST_DENSE or ((near or large) and n > DENSE_BALANCE):
        few = Problem(x=problem.x, b=problem.b, y=boundary.y, a=boundary.a, equal=problem.equal, cost=problem.cost)
        finer = state.engine.finer(few) if hidden else None
        part = finer or state.engine.picked(few, boundary.number)  # not counted as a pass
        return candidate_arcs(part, boundary.cell, boundary.margin, cells.potential, -excess, widen)
    exact = hidden or (state.exact and problem.cost.amplifies_rounding)
    block = problem.cost.pairwise_exact if exact else problem.cost.pairwise
    costs: Floats = block(boundary.y.double(), problem.x.double()).cpu().numpy()
    return costs
