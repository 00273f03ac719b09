"""The commands, a module each, which call the public names of the library."""

from collections.abc import Callable
from typing import Any

from ..outcome import Outcome
from . import bound, build, certify, compare, info, merge, push, size
from .run import RunSettings, read_config

COMMANDS: dict[str, tuple[type[Any], Callable[[Any], Outcome], str]] = {
    "build": (build.BuildSettings, build.run, "find the points of a coreset for a table"),
    "certify": (certify.CertifySettings, certify.run, "bound the distance to the population"),
    "compare": (compare.CompareSettings, compare.run, "measure coresets beside random rows"),
    "merge": (merge.MergeSettings, merge.run, "make one coreset of those of several parts"),
    "bound": (bound.BoundSettings, bound.run, "say what no points can be nearer than"),
    "push": (push.PushSettings, push.run, "map a coreset through a network"),
    "size": (size.SizeSettings, size.run, "find how many points a distance needs"),
    "info": (info.InfoSettings, info.run, "say what a file or this installation holds"),
}

__all__ = ["COMMANDS", "RunSettings", "read_config"]
