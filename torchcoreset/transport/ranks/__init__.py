"""Samples on several processes: every rank holds all points, and a part of the samples.

`group` has the three verbs: ranks sum, gather and agree. With them `shard` wraps a problem and its engine, and `call`
says how a call with a group begins. Nothing beside this room knows of ranks but functions that have a `group`.
"""

from .call import problem_on, solve_on, total_of
from .group import Ranks, agree, as_ranks, check_group, fingerprint, told_to, totals_of
from .shard import engine_on

__all__ = [
    "Ranks", "agree", "as_ranks", "check_group", "engine_on", "fingerprint", "problem_on", "solve_on", "told_to",
    "total_of", "totals_of",
]  # fmt: skip
