"""Primal-dual min-cost flow from the cells that hold too much mass to those that lack some.

    i, j cells (n)      b (n,) weights of their points      v (n,) potential

Nodes are cells, excess = mass - b. Raise v by shortest distances from the sources, the cells with excess > 0, then send
a blocking flow over arcs of reduced cost <= tolerance, until no sink, with excess < 0, can be reached. A sample gives
arcs from its cell to the others: their reduced cost c_j - v_j - (c_i - v_i) is not negative while the cell of each
sample is its nearest in c - v (complementary slackness), and raising v keeps it so. Without excess, plan and
potential are optimal. Samples may be split, so weights need not be equal.

Source: Ahuja, Magnanti, Orlin (1993), Network Flows: section 9.8 (primal-dual) and 7.5 (blocking flows in layers, after
Dinic). Differs in that

1. an arc between two cells is made of the samples of its tail, and changes while they move;
2. with a suboptimality budget, arcs of some length are admissible: one phase then replaces many. The loss is at most
   tolerance x mass x hops. So the tolerance is what is left of the budget over mass still to be moved x hops;
3. between two budgets complementary slackness is restored: samples return to the cells nearest at the new potential;
4. mass that cannot go on along a path stays on it, as excess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .arcs import Arcs, Floats, Ints
from .dense_arcs import DenseArcs
from .list_arcs import ArcLists, ListArcs

FIRST_HOPS = 2.0  # arcs on a path: a guess for as long as no mass has been sent
PHASES = 20  # for each cell and sample, after which it ends: each uses up an excess, a deficit, or a sample on some arc


@dataclass(frozen=True)
class Balanced:
    """Where the mass of the given samples ended up."""

    # Entries of the plan, of these samples alone
    rows: Ints
    cols: Ints
    mass: Floats
    potential: Floats  # (n,) updated potential
    rounds: int  # how often shortest paths were sought


def balance(
    cost: Floats | ArcLists,
    cell: Ints,
    mass: Floats,
    excess: Floats,
    v: Floats,
    *,
    arc_tolerance: float,
    suboptimality: Sequence[float],
    excess_tolerance: float = 0.0,
) -> Balanced:
    """Move excess mass to the cells that lack it, along cheapest paths; excess that finds none stays where it is.

    Args:
        cost: (k, n) costs of the boundary samples to all points, or lists of those that matter: for many points.
        cell, mass: (k,) of each its cell, nearest in cost - v, and its mass.
        excess: (n,) mass of each cell over the weight of its point; sums to zero.
        v: (n,) potential.
        arc_tolerance: arcs that cost no more than this are free; at rounding, with a suboptimality of 0, the result is
            optimal.
        suboptimality: budgets, mass times cost that the plan may be above the best. After each but the last,
            complementary slackness is restored: an exact result is reached sooner by way of some that are not.
        excess_tolerance: excess of all cells together that may stay where it is.
    """
    v = v.copy()
    if isinstance(cost, ArcLists):
        arcs: Arcs = ListArcs(cost, cell, mass, v, arc_tolerance)
    else:
        arcs = DenseArcs(cost, cell, mass, v, arc_tolerance)
    network = FlowNetwork(arcs, excess, v)
    rounds = network.clear(suboptimality[0], excess_tolerance)
    for budget in suboptimality[1:]:
        network.restore_slackness()
        rounds += network.clear(budget, excess_tolerance)
    rows = np.flatnonzero(arcs.mass)
    return Balanced(arcs.sample[rows], arcs.cell[rows], arcs.mass[rows], network.v, rounds)


class FlowNetwork:
    """Excess and potential of all cells, and the arcs between them; as in `balance`."""

    def __init__(self, arcs: Arcs, excess: Floats, v: Floats) -> None:
        self.arcs, self.excess, self.v = arcs, excess.copy(), v
        self._most = PHASES * (len(v) + len(arcs.mass))
        self.budget = self._sent = self._walked = 0.0

    def clear(self, budget: float, excess_tolerance: float) -> int:
        """Send excess to sinks until little enough is left, within about a budget; the number of phases."""
        self.budget, self._sent, self._walked = budget, 0.0, 0.0
        for phases in range(self._most):
            if not self._raise_potential():
                return phases
            moved = False
            while (remaining := self._remaining()) > excess_tolerance and self._blocking_flow(self._limit(remaining)):
                moved = True
            if remaining <= excess_tolerance or not moved:  # where costs are so large that rounding hides the path
                return phases + 1
        return self._most

    def restore_slackness(self) -> None:
        """Move each row that violates complementary slackness to the cell that is nearest now."""
        arcs, v = self.arcs, self.v
        nearest, cost = arcs.nearest(v)
        least = cost - v[nearest]
        rows = np.flatnonzero((arcs.mass > 0) & (arcs.own - v[arcs.cell] > least[arcs.sample] + arcs.tolerance))
        tails, samples, mass = arcs.cell[rows], arcs.sample[rows], arcs.mass[rows]
        np.subtract.at(self.excess, tails, mass)
        np.add.at(self.excess, nearest[samples], mass)
        moves = (array.tolist() for array in (rows, nearest[samples], cost[samples], mass))
        for row, j, its_cost, part in zip(*moves, strict=True):
            arcs.move(row, j, its_cost, part)
        arcs.regroup(np.union1d(tails, nearest[samples]))

    def _remaining(self) -> float:
        """Mass that is still to be moved."""
        return float(self.excess[self.excess > self.arcs.mass_tolerance].sum())

    def _limit(self, remaining: float) -> float:
        """Reduced cost up to which arcs are admissible while this much mass is still to be moved."""
        hops = self._walked / self._sent if self._sent else FIRST_HOPS
        return max(self.arcs.tolerance, self.budget / (remaining * hops))

    def _raise_potential(self) -> bool:
        """Add min(distance from the sources, that of the last sink) to v; False if no sink can be reached.

        No reduced cost becomes negative, and those on shortest paths to sinks become zero.
        """
        sources, sinks = self.excess > self.arcs.mass_tolerance, self.excess < -self.arcs.mass_tolerance
        if not (sources.any() and sinks.any()):
            return False
        distance = self.arcs.distances(self.v, sources, sinks)
        reached = distance[sinks & np.isfinite(distance)]
        if not len(reached):
            return False
        self.v = self.v + (np.minimum(distance, reached.max()) - reached.max())
        return True

    def _blocking_flow(self, limit: float) -> bool:
        """Send mass over arcs up to `limit` long until all paths of the fewest arcs are blocked; whether any led."""
        self.arcs.admit(self.v, limit)
        level = self._levels()
        self.arcs.layer(level)
        ends = np.flatnonzero((self.excess < -self.arcs.mass_tolerance) & (level < len(level)))
        for end in ends[level[ends].argsort(kind="stable")].tolist():
            while self.excess[end] < -self.arcs.mass_tolerance and (path := self._path(end, level)):
                self._send(path)
                if self.excess[path[0]] <= self.arcs.mass_tolerance:
                    level[path[0]] = len(level)
                    if not (level == 0).any():
                        return True
        return len(ends) > 0

    def _levels(self) -> Ints:
        """(n,) number of admissible arcs from the nearest source; n where none lead."""
        n = len(self.v)
        reached = self.excess > self.arcs.mass_tolerance
        level, beyond = np.where(reached, 0, n), ~reached
        for steps in range(1, n):
            reached = self.arcs.heads(reached) & beyond
            if not reached.any():
                break
            level[reached] = steps
            beyond ^= reached
        return level

    def _path(self, end: int, level: Ints) -> list[int]:
        """Cells on a path from a source, each a level higher, or none; cells to which none leads lose their level."""
        path = [end]
        while path:
            j = path[-1]
            if level[j] == 0:
                return path[::-1]
            i = self.arcs.tail(j)
            if i is None:
                level[j] = len(level)
                path.pop()
            else:
                path.append(i)
        return path

    def _send(self, path: list[int]) -> None:
        """Send what the source and the sink of a path allow; what cannot go on stays on the way.

        A cell on the way that holds next to nothing is no bottleneck as long as what arrives can go on.
        """
        amount = float(min(self.excess[path[0]], -self.excess[path[-1]]))
        for i, j in pairwise(path):
            amount = self.send_over(i, j, amount)
            self.excess[i] -= amount
            self.excess[j] += amount
            self._walked += amount
        self._sent += amount

    def send_over(self, i: int, j: int, amount: float) -> float:
        """Send up to an amount from cell i to j, the cheapest rows first, of which the last is split; what has gone."""
        arcs, left = self.arcs, amount
        rise = float(self.v[j] - self.v[i])
        rows, new = [], []
        for row, cost in arcs.leaving(i, j):
            if left <= arcs.mass_tolerance:
                break
            held = float(arcs.mass[row])
            part = held if held - left <= arcs.mass_tolerance else left  # crumbs of rounding would travel for ever
            self.budget -= part * (cost - float(arcs.own[row]) - rise)
            there = arcs.move(row, j, cost, part)
            rows.append(row)
            if there is not None:
                new.append(there)
            left -= part
        arcs.update(i, j, rows, new)
        return amount - left
