"""Samples on several processes: `group` sums, gathers and agrees; `shard` wraps a problem and its engine with that."""

from .group import Ranks, agreed, as_ranks, check_group, check_same, mark, told_to, totals_of
from .shard import Shard, ShardEngine, problem_on, problem_with, total_of

__all__ = [
    "Ranks",
    "Shard",
    "ShardEngine",
    "agreed",
    "as_ranks",
    "check_group",
    "check_same",
    "mark",
    "problem_on",
    "problem_with",
    "told_to",
    "total_of",
    "totals_of",
]
