"""All methods, by task and name, in the order of the table."""

from __future__ import annotations

from . import ours, peer_flash, peer_geomloss, peer_kmeans, peer_ott, peer_pot
from .method import Method
from .plans import Plan

ALL = [
    *ours.METHODS,
    *peer_pot.METHODS,
    *peer_ott.METHODS,
    *peer_geomloss.METHODS,
    *peer_flash.METHODS,
    *peer_kmeans.METHODS,
]


def methods_for(plan: Plan) -> list[Method]:
    """Those that the plan names, or all that do its task on its device."""
    able = [method for method in ALL if method.task == plan.task and method.device in {"any", plan.device}]
    return [method for method in able if not plan.methods or method.name in plan.methods]


def find_method(task: str, name: str) -> Method:
    """One of them."""
    return next(method for method in ALL if (method.task, method.name) == (task, name))
