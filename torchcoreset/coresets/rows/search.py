"""The search for rows: distinct rows near free points, then rounds of medoid steps and of swaps.

    S chosen rows, F(S) = W_p^p(S, samples)

Decisions use the bounds of solved transports: a move is accepted if the upper bound of the new F is less than the
lower bound of the old one, so F never increases. The swaps of a round are solved on costs that are held; a transport
of the rows that come of them confirms that F has fallen, or the round leaves the rows as they were. Swaps are tried in
the order of their estimates; those whose lower bound is not below F are skipped. The search ends when no chosen row can
improve within its cell and none of the TRIES most promising swaps lowers F: a local optimum with respect to these
swaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Generator, Tensor

from ...deterministic import column_medians
from ...tensors import normalised
from ...transport import Cost, Coupling, Status, Transport, as_cost
from ..algorithms import Objective
from .assignment import assign
from .eligible import Eligible
from .medoids import medoids
from .prices import ELEMENTS, cells_of, inverse_hessian, swap_prices
from .screen import MOST, Screen, Solved

GAP = 1e-5  # relative gap of each transport: smaller gains are not detected
TRIES = 250  # swaps that fail one after another, after which a round that has made none ends
SOLVED = 3  # for how many of these a swap counts that the screen let through in vain: as long as it takes, about
STALE = 50  # the same once a swap was made: the estimates are those of the rows before
# Pairs of a sample and a candidate that are priced in a round: half a second (one core). Beyond, candidates are drawn.
PRICED = 1 << 24
PRICED_FREE = 1 << 27  # the same for free weights, which need no flow: two seconds; no swap needs a second look
MEDOID_STEPS = 10  # of a round, most
RANKED = 1 << 14  # swaps that a round may come to, most


@dataclass(frozen=True)
class State:
    """Between two rounds."""

    rows: Tensor  # (n,) places of the chosen rows among the samples
    result: Tensor  # (n, d) the rows themselves
    kept: Tensor  # (n,) bool, which of them have to stay
    potential: Tensor | None = None  # (n,) from which the next transport starts
    ended: bool = False  # whether a round on all candidates has changed nothing
    found: Transport | None = field(default=None, repr=False)  # of these rows; None where it has to be solved

    def record(self) -> dict[str, Any]:
        """The whole state, for a run that is resumed later: another plan of the same value would lead elsewhere."""
        return {**vars(self), "found": None if self.found is None else _recorded(self.found)}

    def resumed(self, record: Mapping[str, Any]) -> State:
        """The state of a record; those of version 0.2 have no transport."""
        found = record.get("found")
        return State(**{**record, "found": None if found is None else _of_record(found)})


def _recorded(found: Transport) -> dict[str, Any]:
    values = {field.name: getattr(found, field.name) for field in fields(found)}
    plan = {field.name: getattr(found.plan, field.name) for field in fields(found.plan)}
    return {**values, "plan": plan, "status": found.status.value}


def _of_record(record: Mapping[str, Any]) -> Transport:
    return Transport(**{**record, "plan": Coupling(**record["plan"]), "status": Status(record["status"])})


def init(points: Tensor, samples: Tensor, eligible: Eligible, p: float | Cost) -> State:
    """Before the first round: distinct rows of samples (m, d) at the least total cost from points (n, d).

    Kept rows take the points that are best for them, other rows those that are left.
    """
    cost, n = as_cost(p), len(points)
    y, x = _centred(samples, points, cost)
    kept, free = (places.to(samples.device) for places in (eligible.kept, eligible.free))
    rows = torch.full((n,), -1, dtype=torch.long, device=samples.device)
    if len(kept):
        costs = cost.pairwise_exact(y[kept], x).cpu().numpy()
        rows[torch.from_numpy(assign(costs.__getitem__, len(kept), n)).to(rows.device)] = kept
    left = (rows < 0).nonzero()[:, 0]
    if len(left):
        near = y[free]
        order = torch.from_numpy(
            assign(lambda i: cost.pairwise(near, x[left[i] : left[i] + 1])[:, 0].cpu().numpy(), len(left), len(free))
        ).to(rows.device)
        rows[left] = free[order]
    stay = torch.ones(n, dtype=torch.bool, device=rows.device)
    stay[left] = False
    return State(rows, samples[rows], stay)


def step(
    state: State,
    objective: Objective,
    samples: Tensor,
    sample_weights: Tensor | None,
    eligible: Eligible,
    generator: Generator,
) -> tuple[State, Transport | None]:
    """A round: medoid steps, then swaps. Returns the next state and the transport of the rows before.

    Args:
        state: before the round.
        objective: what is minimised. Swaps are screened by bounds where weights are fixed or free; those of bounded
            weights, or with a share that stays unmatched, all have their transports solved.
        samples, sample_weights: (m, d) and (m,).
        eligible: rows that may be taken.
        generator: of the candidates, where not all rows can be priced.

    The transport is None once a round has changed nothing.
    """
    if state.ended:
        return state, None
    search = _Search(objective, samples, sample_weights)
    found = state.found
    if found is None:
        found = search.transport(state.rows, state.potential)
    rows, best = search.descend_to_medoids(state, found, eligible)
    rows, best = search.swap(rows, state.kept, best, eligible, generator)
    # Where candidates are drawn, others may still do: it is for the loop to see that the value stands still.
    ended = search.priced_all and bool((rows == state.rows).all())
    return replace(state, rows=rows, result=samples[rows], potential=best.potential, ended=ended, found=best), found


class _Search:
    """One round: the samples in the form that each part of it needs."""

    def __init__(self, objective: Objective, samples: Tensor, weights: Tensor | None) -> None:
        self.objective, self.samples, self.on = objective, samples, objective.on(samples, weights)
        self.cost = as_cost(objective.p)
        self.free = isinstance(objective.weights, str) and not objective.trim  # "free", the only text
        self.priced_all = True
        self.bounded = not self.free and (objective.chosen or objective.trim > 0)
        self.y, _ = _centred(samples, samples[:1], self.cost)
        self.a = normalised(weights, len(samples), "sample_weights", samples.device)

    def transport(self, rows: Tensor, start: Tensor | None) -> Transport:
        return self.on.transport(self.samples[rows], tolerance=GAP, start=start)

    def _lowered(self, rows: Tensor, best: Transport, start: Tensor) -> Transport | None:
        """The transport of these rows, if their value is certainly lower."""
        found = self.transport(rows, start)
        return found if found.value < best.lower else None

    def descend_to_medoids(self, state: State, best: Transport, eligible: Eligible) -> tuple[Tensor, Transport]:
        """Medoid steps while they lower the value."""
        rows, allowed = state.rows, torch.zeros(len(self.y), dtype=torch.bool, device=self.y.device)
        allowed[eligible.free.to(allowed.device)] = True
        for _ in range(MEDOID_STEPS):
            centres = self.objective.on(self.y).centres(self.y[rows], best)
            moved = medoids(rows, ~state.kept, centres, self.y, best.plan, allowed, self.cost)
            lower = None if bool((moved == rows).all()) else self._lowered(moved, best, best.potential)
            if lower is None:
                break
            rows, best = moved, lower
        return rows, best

    def swap(
        self, rows: Tensor, kept: Tensor, best: Transport, eligible: Eligible, generator: Generator
    ) -> tuple[Tensor, Transport]:
        """Try swaps, the most promising first, until too many of them have failed one after another."""
        swaps = self._promising(rows, kept, best, eligible, generator)
        screen = None
        if swaps and not self.bounded and len(self.y) * len(rows) <= MOST:
            screen = Screen(self.y, self.a, rows, None if self.free else best.weights, self.cost)
        failed, most = 0, TRIES
        before, latest = (rows, best), Solved(best.value, best.lower, best.potential.cpu().numpy())
        found: Transport | None = best  # of the rows; None where a flow on the costs held has solved it
        for position, row, height in swaps:
            if failed >= most:
                break
            if bool((rows == row).any()):
                continue
            trial, v = rows.clone(), latest.potential.copy()
            trial[position], v[position] = row, height  # the potential of the row is about that
            if screen is not None:
                bound, v = screen.bound(position, row, v, latest.lower)
                if bound >= latest.lower:
                    failed += 1
                    continue
            solved = screen.solve(position, row, v) if screen is not None and screen.has_flow else None
            transport = None
            if solved is None:
                transport = self.transport(trial, torch.from_numpy(v).to(best.potential))
                solved = Solved(transport.value, transport.lower, transport.potential.cpu().numpy())
            if not solved.value < latest.lower:
                failed += SOLVED
                continue
            rows, latest, found = trial, solved, transport
            failed, most = 0, STALE
            if screen is not None:
                screen.put(position, row)
        if found is None:
            found = self._lowered(rows, best, torch.from_numpy(latest.potential).to(best.potential))
        return before if found is None else (rows, found)

    def _promising(
        self, rows: Tensor, kept: Tensor, best: Transport, eligible: Eligible, generator: Generator
    ) -> list[tuple[int, int, float]]:
        """Positions, the rows to put there and their potentials, in the order of the estimates."""
        candidates = eligible.free.to(rows.device)
        candidates = candidates[~torch.isin(candidates, rows)]
        most = max(1, (PRICED_FREE if self.free else PRICED) // len(self.y))
        self.priced_all = len(candidates) <= most
        if not self.priced_all:
            chosen = torch.randperm(len(candidates), generator=generator, device=generator.device)[:most]
            candidates = candidates[chosen.to(rows.device).sort().values]
        if not len(candidates) or bool(kept.all()):
            return []
        x, v = self.y[rows], best.potential
        cells = cells_of(self.y, x, v, self.cost)
        inverse = None if self.free else inverse_hessian(self.y, self.a, x, v, cells, self.cost)
        estimates, heights = [], []
        for some in candidates.split(max(1, ELEMENTS // len(self.y))):  # type: ignore[no-untyped-call]
            bounds, estimate, height = swap_prices(
                self.y, self.a, best.weights, v, self.y[some], cells, inverse, best.lower, self.cost, free=self.free
            )
            if not self.bounded:
                estimate = estimate.masked_fill(bounds >= best.lower, torch.inf)
            estimate = estimate.masked_fill(kept[:, None], torch.inf)
            estimates.append(estimate)
            heights.append(height)
        ranked = torch.cat(estimates, 1)
        count = min(RANKED, int(ranked.isfinite().sum()))
        order = ranked.flatten().topk(count, largest=False).indices
        k = len(candidates)
        place = order % k
        found = (order // k, candidates[place], torch.cat(heights)[place])
        return list(zip(*(column.tolist() for column in found), strict=True))


def _centred(samples: Tensor, points: Tensor, cost: Cost) -> tuple[Tensor, Tensor]:
    """Samples and points in float64, less the median of the samples: an offset would cost digits of the squares."""
    y = samples.double()
    if not cost.by_products:
        return y, points.double()
    middle = column_medians(y)
    return y - middle, points.double() - middle
