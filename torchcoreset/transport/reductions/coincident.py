"""Equal points: one that has the weight of all is solved for, and what it receives is divided among them again.

    x (n, d) points, b (n,) their weights      of (n,) the distinct place that each point is at, one of k

What mass costs depends on the place alone. So the bounds, the potential and the gap of the merged problem are those of
the whole, however the samples of a place are divided. They are divided in their order along one column, the one in
which samples vary most: equal points then have neighbouring parts of one cell, so that a gradient step parts them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...deterministic import column_medians, mass_by_cell, running_sum
from ..problem import Problem
from ..result import Coupling, Transport
from .repeated import LEAST_PIECE, MOST_SHARE, SLIVER, row_keys


@dataclass(frozen=True)
class Places:
    """Which points are equal."""

    of: Tensor  # (n,) int64, the place of each point
    first: Tensor  # (k,) int64, a point of each place

    def merged(self, problem: Problem) -> Problem:
        """The problem of the places."""
        return replace(problem, x=problem.x[self.first], b=mass_by_cell(self.of, problem.b, len(self.first)))

    def start(self, v: Tensor | None) -> Tensor | None:
        """Of a potential (n,) what the places have of it, (k,): the highest, which alone has a cell."""
        if v is None:
            return None
        return v.new_full((len(self.first),), -torch.inf).scatter_reduce_(0, self.of, v, "amax")

    def expanded(self, found: Transport, problem: Problem) -> Transport:
        """The result for all points."""
        share = self._shares(problem.b)
        return replace(
            found,
            potential=found.potential[self.of],
            plan=self._divided(found.plan, share, problem.y),
            cell_mass=found.cell_mass[self.of] * share,
            weights=problem.b,
        )

    def _shares(self, b: Tensor) -> Tensor:
        """The part that each point has of the weight of its place, (n,); 0 where that is 0."""
        total = mass_by_cell(self.of, b, len(self.first))
        return b / total.where(total > 0, 1.0)[self.of]

    def _divided(self, plan: Coupling, share: Tensor, y: Tensor) -> Coupling:
        """The plan of the places, divided among their points.

        Entries and points are laid out on the line, those of place p from p to p + 1; an entry goes to the points that
        it meets there. Where it meets one by less than a SLIVER of itself, that is rounding.
        """
        k, device = len(self.first), share.device
        widest = y[:, int((y.amax(0) - y.amin(0)).argmax())]
        order = widest[plan.rows].argsort(stable=True)
        order = order[plan.cols[order].argsort(stable=True)]
        rows, place, mass = plan.rows[order], plan.cols[order], plan.mass[order]
        width = mass / mass_by_cell(place, mass, k)[place]
        ends, sliver = _ends(width, place, k), (SLIVER * width).clamp(max=LEAST_PIECE)
        points = self.of.argsort(stable=True)
        places = torch.arange(k, device=device)
        part_ends = _ends(share[points], self.of[points], k)
        # Of each place the first and the last part of any length: an entry beside them is there by rounding.
        begin = torch.searchsorted(part_ends, places.to(part_ends), right=True)
        end = torch.searchsorted(part_ends, part_ends[torch.searchsorted(self.of[points], places, right=True) - 1])
        first = torch.searchsorted(part_ends, ends - width + sliver).clamp(begin[place], end[place])
        last = torch.searchsorted(part_ends, ends - sliver).clamp(first, end[place])
        count = last - first + 1
        entry = torch.arange(len(rows), device=device).repeat_interleave(count)
        number = torch.arange(len(entry), device=device) - (count.cumsum(0) - count)[entry]  # of each of its pieces
        part = first[entry] + number
        lower = torch.where(number == 0, (ends - width)[entry], part_ends[part - 1])
        upper = torch.where(part == last[entry], ends[entry], part_ends[part])
        length, whole = upper - lower, (count == 1)[entry]  # which may be too short for floats to tell
        piece = torch.where(whole, 1.0, length / mass_by_cell(entry, length, len(rows))[entry]) * mass[entry]
        held = whole | (piece > 0)  # points without weight have no length
        return Coupling(rows[entry[held]], points[part[held]], piece[held], (plan.shape[0], len(share)))


def _ends(lengths: Tensor, place: Tensor, k: int) -> Tensor:
    """Where each length (e,) ends, those of place p beginning at p; places ascend, and the sum of each is 1."""
    ends = running_sum(lengths)
    begin = torch.searchsorted(place, torch.arange(k, device=place.device)).clamp_(max=len(place) - 1)
    ends = ends - (ends - lengths)[begin][place] + place
    return torch.minimum(ends, (place + 1).to(ends))


def places_of(x: Tensor) -> Places | None:
    """Which points (n, d), float32 or float64, are equal; None where all are distinct."""
    n = len(x)
    if not bool(may_coincide(x)):
        return None
    _, of = torch.unique(row_keys(x), return_inverse=True)
    k = int(of.max()) + 1
    if k == n:
        return None
    first = torch.full((k,), n, device=x.device).scatter_reduce_(0, of, torch.arange(n, device=x.device), "amin")
    return Places(of, first) if bool((x == x[first[of]]).all()) else None


def may_coincide(x: Tensor) -> Tensor:
    """Whether any points (..., n, d) have equal first coordinates, (...): a quarter of the time of comparing rows."""
    along = x[..., 0].sort(-1).values
    return (along[..., 1:] == along[..., :-1]).any(-1)


def median_spread(x: Tensor) -> float:
    """Median distance of points (n, d) from their median by columns."""
    return float((x.double() - column_medians(x)).norm(dim=1).median())


def near_places(x: Tensor, within: float) -> Places | None:
    """Which points (n, d) lie within a length of another that stands for them; None where few do.

    Points as near lie next to each other along a random direction, but for others in between. Of those that do, the
    first stands for all that are near it.
    """
    n, y = len(x), x.double()
    direction = torch.randn(x.shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(0), device="cpu")
    along, order = (y @ (direction / direction.norm()).to(x.device)).sort()
    apart = along.diff() > within
    if bool(apart.all()):
        return None
    begins = torch.cat((along.new_ones(1, dtype=torch.bool), apart))
    head = torch.empty_like(order)
    head[order] = order[begins][begins.cumsum(0) - 1]
    own = torch.arange(n, device=x.device)
    head = torch.where((y - y[head]).norm(dim=1) <= within, head, own)
    first, of = torch.unique(head, return_inverse=True)
    return Places(of, first) if len(first) <= MOST_SHARE * n else None
