"""A progress bar on long work: tqdm where it is installed and somebody looks at the terminal or notebook."""

from __future__ import annotations

import importlib.util
import math
import sys
from types import TracebackType
from typing import Any


class ProgressBar:
    """A bar that counts steps and shows the value and gap (NaN: unknown) of the last one; silent when nobody looks.

    `show` is True or False; None shows the bar if tqdm is installed, and stderr is a terminal or the code of a notebook
    runs. Work that ends before its last step leaves a full bar.

    Raises:
        ImportError: `show` is True and tqdm is missing.
    """

    def __init__(self, total: int, show: bool | None, label: str) -> None:
        self._bar: Any = None
        if show is None:
            show = (sys.stderr.isatty() or _in_notebook()) and importlib.util.find_spec("tqdm") is not None
        if show:
            try:
                from tqdm import auto
            except ImportError as error:
                raise ImportError(
                    "progress=True needs tqdm: pip install 'torchcoreset[progress]', or pass progress=False."
                ) from error
            self._bar = auto.tqdm(total=total, desc=label, unit="step")

    def start_at(self, steps: int) -> None:
        """So many steps were done before."""
        if self._bar is not None:
            self._bar.update(steps)

    def update(self, value: float, gap: float) -> None:
        """One step is done."""
        if self._bar is not None:
            known = "" if math.isnan(gap) else f", gap {gap:.0e}"
            self._bar.set_postfix_str(f"value {value:.5g}{known}", refresh=False)
            self._bar.update()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is None:
            return
        if error is None and self._bar.n < self._bar.total:
            done, began = self._bar.n, self._bar.start_t
            self._bar.reset(total=done)  # of the widget too, which would be red
            self._bar.start_t = began
            self._bar.update(done)
        self._bar.close()


def _in_notebook() -> bool:
    """Whether a kernel of Jupyter runs this code: its stderr is no terminal, and is looked at."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "IPKernelApp" in getattr(shell, "config", {})
