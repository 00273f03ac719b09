"""Code in a process of its own, forked from one that has imported torch: to import it again takes two seconds."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import traceback
from pathlib import Path

# It imports torch alone, so that what importing the package does can be seen in a child.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["torch"])


class Started:
    """Code that is running.

    Args:
        code: what runs as `__main__`, in this folder and with this environment.
        arguments: its `sys.argv[1:]`.
    """

    def __init__(self, code: str, *arguments: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._process = SERVER.Process(
            target=_execute, args=(code, arguments, self._folder.name, os.getcwd(), dict(os.environ))
        )
        self._process.start()

    def end(self, timeout: float) -> str:
        """What it prints. An error, and more seconds than these, fail the test."""
        self._process.join(timeout)
        code = self._process.exitcode
        self._process.kill()
        said, errors = (Path(self._folder.name, name).read_text() for name in ("out", "err"))
        self._folder.cleanup()
        assert code is not None, f"no end in {timeout} s\n{errors}"
        assert code == 0, errors
        return said


def run(code: str, *arguments: str, timeout: float = 120) -> str:
    """What the code prints."""
    return Started(code, *arguments).end(timeout)


def _execute(code: str, arguments: tuple[str, ...], folder: str, cwd: str, environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv[1:] = arguments
    for stream, name in (sys.stdout, "out"), (sys.stderr, "err"):
        os.dup2(os.open(Path(folder, name), os.O_WRONLY | os.O_CREAT), stream.fileno())
    try:
        exec(compile(code, "<code of a test>", "exec"), {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        raise SystemExit(1) from None
    finally:
        sys.stdout.flush()
