"""Coresets of rows: n distinct rows of the data instead of free points, chosen to minimise the exact W_p^p.

`eligible` determines which rows may be chosen. `assignment` finds distinct rows near free points; `medoids` moves each
of them to the best row of its cell; `prices` bounds and estimates the value after every swap of a chosen row for
another, in one pass over samples and candidates, and `screen` rules out swaps that cannot lower the value. `search`
combines them, with a `State`, `init` and `step` like the outer algorithms.
"""

from . import search
from .eligible import Eligible, RowChoice

__all__ = ["Eligible", "RowChoice", "search"]
