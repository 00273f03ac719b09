"""What a cell holds while mass is moved: its samples, their masses, and what each would pay for leaving.

k samples      i, j cells (n)      price_kj = c_kj - c_ki of leaving cell i for cell j
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class CellSamples:
    """The boundary samples of one cell.

    Args:
        cell: which.
        rows: (k,) its samples.
        mass: (k,) what each has here.
        price: (k, n) what each would pay for leaving to each cell; overwritten.
        cheapest: (n,) the least price for leaving to each cell, infinite to its own, and kept up to date.
    """

    def __init__(self, cell: int, rows: Ints, mass: Floats, price: Floats, cheapest: Floats) -> None:
        self.cell, self._cheapest = cell, cheapest
        self.rows: list[int] = rows.tolist()
        self.mass: list[float] = mass.tolist()
        self._price = price  # rows beyond those in use are spare
        self._place = {k: place for place, k in enumerate(self.rows)}

    @property
    def price(self) -> Floats:
        """(k, n) of the samples here."""
        return self._price[: len(self.rows)]

    def add(self, k: int, mass: float, cost: Floats) -> None:
        """Take in mass of a sample, whose costs (n,) to all points are given."""
        place = self._place.get(k)
        if place is not None:
            self.mass[place] += mass
            return
        place = len(self.rows)
        if place == len(self._price):
            grown = np.empty((2 * place + 8, len(cost)))
            grown[:place] = self._price
            self._price = grown
        np.subtract(cost, cost[self.cell], out=self._price[place])
        np.minimum(self._cheapest, self._price[place], out=self._cheapest)
        self._cheapest[self.cell] = np.inf
        self._place[k] = place
        self.rows.append(k)
        self.mass.append(mass)

    def send(
        self, target: CellSamples, amount: float, limit: float, cost: Floats, mass_tolerance: float
    ) -> tuple[float, float]:
        """Send samples that pay at most `limit`, cheapest first, until they are an amount; the last one is split.

        What would be left of a sample below `mass_tolerance` goes too: crumbs of rounding would travel for ever.

        Returns:
            What they pay, and the amount that has gone.
        """
        price = self.price[:, target.cell]
        places = np.flatnonzero(price <= limit)
        places = places[price[places].argsort(kind="stable")]
        paid, left, emptied = 0.0, amount, []
        for place in places.tolist():
            k, held = self.rows[place], self.mass[place]
            part = held if held - left <= mass_tolerance else left
            paid += part * float(price[place])
            target.add(k, part, cost[k])
            self.mass[place] = held - part
            left -= part
            if part >= held:
                emptied.append(place)
            if left <= mass_tolerance:
                break
        self._remove(emptied)
        return paid, amount - left

    def violations(self, v: Floats, arc_tolerance: float) -> list[tuple[int, float, int]]:
        """Give up the samples that violate slackness at v by more than that: each, its mass and its nearest cell."""
        length = self.price - v
        nearest = length.argmin(1)
        places = np.flatnonzero(length.min(1) < -v[self.cell] - arc_tolerance).tolist()
        leaving = [(self.rows[place], self.mass[place], int(nearest[place])) for place in places]
        self._remove(places)
        return leaving

    def _remove(self, places: list[int]) -> None:
        """Forget samples; the last ones move to their places."""
        for place in sorted(places, reverse=True):
            last = len(self.rows) - 1
            del self._place[self.rows[place]]
            if place != last:
                self._price[place] = self._price[last]
                self.rows[place], self.mass[place] = self.rows[last], self.mass[last]
                self._place[self.rows[place]] = place
            self.rows.pop()
            self.mass.pop()
        if places:
            self._renew()

    def _renew(self) -> None:
        self.price.min(0, out=self._cheapest, initial=np.inf)
        self._cheapest[self.cell] = np.inf
