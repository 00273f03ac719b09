"""The command line and the demo. Nothing here is imported with the library.

cli        from arguments to an exit code          settings   arguments and YAML files, checked alike
commands   one module each                         outcome    what a command prints, in words and as JSON
stored     coreset files as arrays, without torch  files      tables, coresets, pictures, checkpoints
outputs    nothing that is there is written over   choices    from settings to arguments of the library
demo       a first example                         measure    distances of coresets and of random rows

The command line needs the extra `cli` (jsonargparse, pyarrow, matplotlib, tqdm), the demo the extra `demo`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code. 2, and how to get it, where jsonargparse is not installed."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        print(f"torchcoreset {version('torchcoreset')}")
        return 0
    try:
        from .cli import main as run
    except ImportError as error:
        if error.name not in ("jsonargparse", "yaml"):
            raise
        print("error: the command line needs jsonargparse: pip install 'torchcoreset[cli]'.", file=sys.stderr)
        return 2
    return run(words)
