"""Labelled data: a coreset of each class, or of points and labels together by one distance.

`joint` makes one distribution of samples and labels, `build` finds points, `allocation` says how many each class gets,
and `coreset` is what comes of it.
"""

from ...names import Allocation
from .allocation import allocate
from .build import build_labeled_coreset
from .coreset import LabeledCoreset
from .joint import joint_source

__all__ = ["Allocation", "LabeledCoreset", "allocate", "build_labeled_coreset", "joint_source"]
