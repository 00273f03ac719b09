"""From any source to a coreset.

`build` is the function: what it is asked (`settings`), where points move (`space`), and which algorithm moves them on
which samples (`descents`).
"""

from .build import build_coreset
from .settings import DEFAULT_STEPS, renamed_keep

__all__ = ["DEFAULT_STEPS", "build_coreset", "renamed_keep"]
