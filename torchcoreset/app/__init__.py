"""What people run: the command line, and the demo and its pictures. Nothing here is imported with the library.

cli            a command's way from words to an exit code      settings     words and YAML, checked alike
command_*      one command each, calling the public names      outcome      what a command says, in words and JSON
data_files     tables that come in                             coreset_files    coresets that go out, and come back
scaling        standardised columns, and back                  checkpoint   what a kill survives
picture_files  figures as files                                example_tables, demo    things to try

The command line needs the extra `cli` (jsonargparse, pyarrow, matplotlib, tqdm), the demo the extra `demo`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code. 2, and how to get it, where jsonargparse is not installed."""
    try:
        from .cli import main as run
    except ImportError as error:
        if error.name not in ("jsonargparse", "yaml"):
            raise
        print("error: the command line needs jsonargparse: pip install 'torchcoreset[cli]'.", file=sys.stderr)
        return 2
    return run(arguments)
