"""What makes a problem smaller, or several of it, and how the result becomes that of the whole again.

Points of weight zero are left out (`support`), equal samples become one (`repeated`) and so do equal points
(`coincident`), and groups so far apart that no mass goes from one to another are solved by themselves (`groups`).
"""

from .coincident import Places, may_coincide, median_spread, near_places, places_of
from .groups import Group, far_groups, group_problem
from .repeated import FEWEST, Distinct, distinct, repeats_of
from .support import c_transform, extend, restrict, restrict_start

__all__ = [
    "FEWEST", "Distinct", "Group", "Places", "c_transform", "distinct", "extend", "far_groups", "group_problem",
    "may_coincide", "median_spread", "near_places", "places_of", "repeats_of", "restrict", "restrict_start",
]  # fmt: skip
