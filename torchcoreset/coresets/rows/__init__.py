"""Coresets of rows: n distinct rows of the data in place of free points, chosen to lower the exact W_p^p.

`eligible` says which rows may be taken. `assignment` takes distinct rows near free points; `medoids` moves each of them
to the best row of its cell; `prices` bounds and estimates what every swap of a chosen row for another would lead to, in
one pass over samples and candidates, and `screen` recognises those that cannot pay. `search` puts them together: a
`State`, `init` and `step` as the outer algorithms have them.
"""

from . import search
from .eligible import Eligible, RowChoice

__all__ = ["Eligible", "RowChoice", "search"]
