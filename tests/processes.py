"""Code in a process of its own, forked from one that has imported torch: to import it again takes two seconds."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path

# It imports torch alone, so that what importing the package does can be seen in a child. torch itself imports _dynamo
# with the first optimizer.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["torch", "torch._dynamo"])

COMMAND = "import runpy, sys; sys.argv[0] = 'torchcoreset'; runpy.run_module('torchcoreset', run_name='__main__')"

# For code that measures memory: glibc gives back at once what is a megabyte or more. Its own threshold moves, and what
# it keeps then counts as taken.
MMAP = "import ctypes; ctypes.CDLL(None).mallopt(-3, 1_000_000)  # M_MMAP_THRESHOLD\n"


class Started:
    """Code that is running, as `__main__`, in this folder and with this environment.

    Args:
        code: Python; COMMAND is `python -m torchcoreset`.
        arguments: its `sys.argv[1:]`.
    """

    def __init__(self, code: str, *arguments: str) -> None:
        self._folder = Path(tempfile.mkdtemp())
        self._last: dict[str, str] | None = None
        where = self._folder, os.getcwd(), dict(os.environ)
        self._process = SERVER.Process(target=_execute, args=(code, arguments, *where))
        self._process.start()

    @property
    def status(self) -> int | None:
        """Its exit status, or None while it runs."""
        return self._process.exitcode

    def said(self, stream: str = "out") -> str:
        """What it has printed so far, or to "err"."""
        if self._last is not None:
            return self._last[stream]
        path = self._folder / stream
        return path.read_text() if path.exists() else ""

    def interrupt(self) -> None:
        """What Ctrl-C sends."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGINT)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.join()
        self._last = {stream: self.said(stream) for stream in ("out", "err")}
        shutil.rmtree(self._folder, ignore_errors=True)

    def wait(self, timeout: float = 120) -> int:
        """Its exit status. More seconds than these fail the test."""
        self._process.join(timeout)
        status = self.status
        self.kill()
        assert status is not None, f"no end in {timeout} s\n{self.said('err')}"
        return status

    def end(self, timeout: float = 120) -> str:
        """What it has printed at its end. An error fails the test."""
        assert self.wait(timeout) == 0, self.said("err")
        return self.said()


def run(code: str, *arguments: str, timeout: float = 120) -> str:
    """What the code prints."""
    return Started(code, *arguments).end(timeout)


def _execute(code: str, arguments: tuple[str, ...], folder: Path, cwd: str, environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv[1:] = arguments
    for stream, name in (sys.stdout, "out"), (sys.stderr, "err"):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), stream.fileno())
    try:
        exec(compile(code, "<code of a test>", "exec"), {"__name__": "__main__"})
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc()
        raise SystemExit(1) from None
    finally:
        sys.stdout.flush()
