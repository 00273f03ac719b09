"""All methods, by task and name, in the order of the table."""

from __future__ import annotations

from . import ours, peer_geomloss, peer_kmeans, peer_ott, peer_pot
from .method import Method

ALL = [*ours.METHODS, *peer_pot.METHODS, *peer_ott.METHODS, *peer_geomloss.METHODS, *peer_kmeans.METHODS]

# The network simplex needs the full cost matrix in float64 and far longer than anyone waits.
HOPELESS = {
    ("cod-rna 331k n=1000", "POT free_support_barycenter"),
    ("cod-rna 331k n=1000", "k-means-constrained"),
    ("cod-rna 331k n=1000", "ours, same start"),
}


def methods_for(task: str, work: str) -> list[Method]:
    """Those that can do this work."""
    return [method for method in ALL if method.task == task and (work, method.name) not in HOPELESS]


def find_method(task: str, name: str) -> Method:
    """One of them."""
    return next(method for method in ALL if (method.task, method.name) == (task, name))
