"""The north-west corner rule, for mass that no path of the flow could move."""

from __future__ import annotations

import numpy as np

from .network_simplex import Floats, Ints


def north_west_corner(
    rows: Ints, cols: Ints, mass: Floats, excess: Floats, along: tuple[Floats, Floats] | None = None
) -> tuple[Ints, Ints, Floats]:
    """A plan whose column sums are the point weights: excess goes to cells that lack mass; not optimal.

    Args:
        rows, cols, mass: (entries,) a plan; of each cell the first entries leave.
        excess: (n,) its column sums minus the point weights.
        along: a coordinate of each row and of each point; mass is matched in their order, so that little goes far.
    """
    order = np.argsort(cols, kind="stable")
    rows, cols, mass = rows[order], cols[order], mass[order]
    before = np.cumsum(mass) - mass
    first = np.searchsorted(cols, np.arange(len(excess)))
    before -= before[np.minimum(first, len(cols) - 1)][cols]  # mass of the same cell in earlier entries
    leaving = np.clip(np.maximum(excess, 0.0)[cols] - before, 0.0, mass)
    movers = np.flatnonzero(leaving > 0)
    takers = np.flatnonzero(excess < 0)
    if along is not None:
        movers = movers[np.argsort(along[0][rows[movers]], kind="stable")]
        takers = takers[np.argsort(along[1][takers], kind="stable")]
    if not len(movers) or not len(takers):  # all that is wrong is the sum of the masses, by rounding
        return rows, cols, mass
    supply, demand = np.cumsum(leaving[movers]), np.cumsum(-excess[takers])
    demand *= supply[-1] / demand[-1]  # they differ by rounding: no sample is to send more than it has
    ends = np.union1d(supply, demand)
    pieces = np.diff(ends, prepend=0.0)
    piece_ends = ends - pieces / 2
    mover = np.minimum(np.searchsorted(supply, piece_ends), len(movers) - 1)
    taker = np.minimum(np.searchsorted(demand, piece_ends), len(takers) - 1)
    stay = mass - leaving
    kept = (stay > 0) | (mass == 0)
    return (
        np.concatenate((rows[kept], rows[movers[mover]])),
        np.concatenate((cols[kept], takers[taker])),
        np.concatenate((stay[kept], pieces)),
    )
