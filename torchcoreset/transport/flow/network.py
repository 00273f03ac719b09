"""What `balance` and `balance_lists` share: the rounds in which mass is moved, and the account of what that wastes.

    i, j cells (n)      v (n,) potential

Each round raises the potential until cells with a deficit can be reached over free arcs, and lets mass flow over these
until they are blocked. Whatever a move costs beyond the difference of the potential is wasted. So that all waste
together keeps to a budget, an arc counts as free if all the mass that is still to be moved could take such arcs all
the way, and what has been wasted is written off.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from .cell_samples import Floats, Ints

MASS_TOLERANCE = 1e-12  # of the mean point weight: mass below it is rounding, and not moved
HOPS = 2.0  # arcs on the way of the first mass that is sent, as long as nothing is known of them


@dataclass(frozen=True)
class Balanced:
    """Where the mass of the given samples ended up.

    Attributes:
        rows, cols, mass: entries of the plan restricted to the given samples.
        potential: (n,) updated potential.
        rounds: how often shortest paths were sought.
    """

    rows: Ints
    cols: Ints
    mass: Floats
    potential: Floats
    rounds: int


class FlowNetwork(ABC):
    """All cells, and how much of what they hold is too much.

    Args:
        excess: (n,) mass of each cell over the weight of its point; sums to zero.
        v: (n,) potential.
        arc_tolerance: arcs that cost no more than this are free.
        samples: how many may move.
    """

    def __init__(self, excess: Floats, v: Floats, arc_tolerance: float, samples: int) -> None:
        self.excess, self.v, self.arc_tolerance = excess.copy(), v.copy(), arc_tolerance
        self.mass_tolerance = MASS_TOLERANCE / len(v)
        self._most = 20 * (len(v) + samples)  # each round uses up an excess, a deficit, or a sample on some arc
        self._left = self._sent = self._walked = 0.0

    def balanced(self, suboptimality: Sequence[float], enough: float = 0.0) -> Balanced:
        """The plan and potential after wasting no more than each budget (mass times cost), one after the other.

        A excess of no more than `enough` stays.
        """
        rounds = self._clear(suboptimality[0], enough)
        for budget in suboptimality[1:]:
            self._restore_slackness()
            rounds += self._clear(budget, enough)
        rows, cols, mass = self._entries()
        return Balanced(rows, cols, mass, self.v, rounds)

    def _clear(self, budget: float, enough: float) -> int:
        """Move excess that finds a way until it is enough, and waste about a budget; the number of rounds."""
        self._left, self._sent, self._walked = budget, 0.0, 0.0
        for rounds in range(self._most):
            if not self._raise_potential():
                return rounds
            moved = False
            while (remaining := self._remaining()) > enough and self._flow(self._limit(remaining)):
                moved = True
            if remaining <= enough or not moved:  # where costs are so large that rounding hides the way
                return rounds + 1
        return self._most

    def _remaining(self) -> float:
        """Mass that is still to be moved."""
        return float(self.excess[self.excess > self.mass_tolerance].sum())

    def _limit(self, remaining: float) -> float:
        """Length up to which arcs are free while this much mass is still to be moved."""
        hops = self._walked / self._sent if self._sent else HOPS
        return max(self.arc_tolerance, self._left / (remaining * hops))

    @abstractmethod
    def _raise_potential(self) -> bool:
        """Find the distances of all cells from those with an excess; False if no cell with a deficit can be reached.

        Adds to v min(distance, distance of the last deficit): all arcs stay non-negative, and those on shortest paths
        to deficits cost nothing.
        """

    @abstractmethod
    def _flow(self, limit: float) -> bool:
        """Let mass flow over arcs up to `limit` long until all ways of the fewest cells are blocked; whether any could.

        Writes what it wastes, sends and how far off the account.
        """

    @abstractmethod
    def _restore_slackness(self) -> None:
        """Let every sample return to the cell that is nearest now."""

    @abstractmethod
    def _entries(self) -> tuple[Ints, Ints, Floats]:
        """Samples, cells and masses of the plan as it stands."""
