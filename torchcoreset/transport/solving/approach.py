"""Newton on the semi-dual, from any start to a nearly optimal potential of all samples.

    v (n,) potential      g (n,) gradient b - mass of the cells

1. Coarse: Newton with shrinking smoothing carries v most of the way, on few points, then on all with 5 n, 20 n and
   100 n samples; a potential of nearby points is blurred and annealed, or taken as it is.
2. Fine: a few passes over all samples; the gradient is theirs, the curvature that of the last subsample, corrected
   by each step. After the first pass only samples that may have left their cell are evaluated.
"""

from __future__ import annotations

import math

from torch import Tensor

from .. import dual
from ..dual import Curvature, LazyHessian
from ..passes import Engine, LaguerreCells
from .balance import may_list_all
from .limits import FEWEST_STEPS, SORTED, sorts
from .state import SolveState, marginal_error, plan_cost
from .wrong_mass import LOST_ERROR, few_are_wrong, is_far, near_error, start_error

# Coarse.
FINE = 100  # samples a point in the last subsample: the curvature of fewer is too noisy for the steps on all samples
MOST = 1 << 18  # most samples in it; beyond, their lists fill more than some hundred MiB
BLUNT_ETA = 1.5  # least smoothings, within which a potential is as sharp as it needs to be
# Relative rise of the dual below which the masses on that subsample are not made right: all samples correct them, too.
WORTH = 1e-3
BLURRED = 0.4  # softness at which a warm start that is not near begins
# Fine: corrections on all samples.
CORRECTIONS = 12  # most Newton steps on all samples; what is left over is moved by the flow
FEW_CORRECTIONS = 3  # the same where a flow on all pairs does the rest, and the last has left as much in wrong cells
# Most of them that have to be damped, where the flow may offer all samples, and these are so few a point. With heavy
# tails and 200 to 700 samples a point it would take three times as long (measured).
DAMPED, DAMPED_PER_POINT = 1, 50
GOOD_RISE = 0.1  # part of the predicted rise below which the step was too long for its curvature
TRUST_CUT = 8.0  # what the trust radius is divided by then
TRUST_FEW = 2.0  # trust in etas below which no step is tried, if few samples are in wrong cells
TRUST_MANY = 0.1  # the same if many are
REST = 0.1  # tolerances by which the dual may stay below its predicted maximum, where the curvature is at hand


def ascend(
    state: SolveState, start: Tensor | None, left: float = REST, *, briefly: bool = False
) -> tuple[LaguerreCells, Curvature | LazyHessian | None]:
    """Approach and correct: the cells of a potential near the best, and the curvature there if it can be needed.

    No curvature is made for a potential that is certainly within `left` tolerances of the best, by that very model.
    `briefly` gives up after a few corrections unless they help: a flow on all pairs does the rest.
    """
    cells, curvature = approach(state, start)
    if curvature is not None:
        cells = correct(state, cells, curvature, left, while_it_helps=briefly)
        if (
            start is not None
            and start_error(state) <= LOST_ERROR  # beyond, it was not begun from
            and not briefly
            and is_far(state.problem, cells)
        ):
            return ascend(state, None, min(left, REST))
    return cells, curvature


def approach(state: SolveState, start: Tensor | None) -> tuple[LaguerreCells, Curvature | LazyHessian | None]:
    """The cells of a potential near the optimum of all samples, and the curvature there."""
    problem, engine = state.problem, state.engine
    if len(problem.x) == 1:
        return state.evaluate(state.zero), None
    if sorts(problem):
        v, plan = dual.sorted_transport(engine.subsample(SORTED).problem)  # all of them
        plan = engine.own(plan)
        state.keep_plan(plan, plan_cost(engine, plan))
        return state.evaluate(v), None
    first = state.first
    if state.mean == 0:
        first = first or state.evaluate(state.zero)
        state.mean = first.mean
        if state.mean == 0:  # every sample lies on a point: all that is left is to share them
            return first, None
    mean = state.mean
    # A finer smoothing than the gap asked for gains nothing.
    least = max(64 * problem.rounding, 0.1 * state.tolerance * mean)
    engine.meter.limit = state.max_steps / 2
    if start is not None and first is not None and start_error(state) <= LOST_ERROR:
        return approach_from(state, first, least)
    if state.max_steps < FEWEST_STEPS:
        return first or state.evaluate(state.zero), None
    v, soft, eta = dual.coarse_potential(engine, least)
    # With heavy tails the smoothing allowed leaves most samples undecided: more of them tell no more (measured).
    blunt = eta <= BLUNT_ETA * least and soft.softness > BLURRED
    lost = may_list_all(problem) and (blunt or dual.has_failed(soft, problem.b))  # the flow takes it from here
    if dual.coarse_sample(engine) is not engine and not engine.exhausted() and not lost:
        sample = fine_sample(engine)
        lists = sample.candidates(v, eta)
        if lists is sample:  # lists for a sharper softmin than v is right for would hold too little
            eta = max(least, dual.next_eta(eta, soft.softness, dual.target_softness(sample)))
        worth = max(least, min(state.tolerance, WORTH) * mean)
        v, soft, eta = dual.eps_scaling(lists, v, eta, least, least_increase=worth)
    return state.evaluate(v), dual.LazyHessian(
        lambda: dual.curvature_of(soft, eta, problem.b), problem.b * soft.softness, eta
    )


def fine_sample(engine: Engine) -> Engine:
    """The last subsample, whose curvature guides the steps on all samples."""
    return engine.subsample(min(FINE * len(engine.problem.x), MOST))


def approach_from(
    state: SolveState, first: LaguerreCells, least: float
) -> tuple[LaguerreCells, Curvature | LazyHessian]:
    """The same from the cells of a potential of nearby points."""
    b, m, start = state.problem.b, state.problem.count, first.potential
    sample = fine_sample(state.engine)
    far = start_error(state) > near_error(state.problem)
    # Between its two nearest points a sample is undecided if its margin is below eta.
    undecided = max(1, math.ceil((BLURRED if far else dual.target_softness(sample)) * m))
    eta = max(float(state.engine.kth_smallest(first.margin, undecided)), least)
    if not far:

        def settled() -> Curvature:
            return dual.tune_eta(sample.candidates(start, eta), start, eta, least)

        return first, LazyHessian(settled, b * (undecided / m), eta)
    v, soft, eta = dual.eps_scaling(sample.candidates(start, eta), start, eta, least)
    return state.evaluate(v), dual.curvature_of(soft, eta, b)


def correct(
    state: SolveState,
    cells: LaguerreCells,
    curvature: Curvature | LazyHessian,
    left: float = REST,
    *,
    while_it_helps: bool = False,
) -> LaguerreCells:
    """Newton steps with the gradient of all samples, while they pay: a pass costs less than moving many samples.

    `while_it_helps` makes no more than FEW_CORRECTIONS where one leaves as much mass in wrong cells as before.
    """
    trust, correction, damped = state.engine.trust, dual.LimitedMemory(curvature), 0
    few_a_point = state.problem.count <= DAMPED_PER_POINT * len(state.problem.x)
    most_damped = DAMPED if may_list_all(state.problem) and few_a_point else CORRECTIONS
    for number in range(1, CORRECTIONS + 1):
        g, lacking = state.problem.b - cells.mass, state.tolerance * cells.dual
        few = few_are_wrong(state.problem, cells)
        if few and correction.predicted_increase(g) <= left * lacking:
            break
        direction = correction.solve(g, trust)
        damped += correction.is_damped
        if damped > most_damped:  # far from the best a dozen steps gain less than one flow
            break
        expected_rise = float(g @ direction) / 2
        good = few and expected_rise <= REST * lacking
        if good or state.steps >= state.max_steps or trust < (TRUST_FEW if few else TRUST_MANY):
            break
        trial = state.evaluate(cells.potential + direction, cells)
        rise = trial.dual - cells.dual
        correction.learn(direction, trial.mass - cells.mass)
        helped = marginal_error(trial, state.problem) < marginal_error(cells, state.problem)
        if rise > 0:
            cells = trial
            # Few wrong points may predict a rise without end.
            if rise <= REST * lacking and few_are_wrong(state.problem, cells):
                break
        if rise < GOOD_RISE * expected_rise:
            trust = min(trust, float(direction.abs().max()) / correction.eta) / TRUST_CUT
        if while_it_helps and not helped and number >= FEW_CORRECTIONS:
            break
    return cells
