"""Coresets by optimal transport: a few points that stand for a distribution, with bounds on the distance."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .public import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """A public name. The first that is used imports all of them.

    With them comes torch, which takes a second that the help of the command line can do without.
    """
    if name == "__version__":
        from importlib.metadata import version

        return version("torchcoreset")
    if name == "__all__" or not name.startswith("_"):  # tools ask modules for many such names
        public = import_module(".public", __name__)
        globals().update({known: getattr(public, known) for known in public.__all__}, __all__=public.__all__)
    try:
        return globals()[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__"), "__version__"})


class _Package(ModuleType):
    """A package in which `transport` is the function, also after the folder of that name has been imported.

    Python binds an imported folder to its name in the package, where it would hide the function.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value.transport if name == "transport" and isinstance(value, ModuleType) else value)


sys.modules[__name__].__class__ = _Package
