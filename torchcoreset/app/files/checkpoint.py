"""Progress of a run on disk, complete at any moment, so that a killed run can be resumed.

A checkpoint is the file OUT.checkpoint beside the output, from before the first step on: the record of the run of each
class (of the one class, if there are no labels), and the settings of the run, so that one with other settings refuses
it.
"""

from __future__ import annotations

import io
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ...archives import load_tensors
from ...coresets import remove, replacing
from ..outcome import note
from ..settings import UsageError


@dataclass
class Checkpoint:
    """Progress of all classes, kept on disk while a run goes on.

    Attributes:
        path: of the file.
        run: settings that decide what is computed; a checkpoint with others is refused.
        every: seconds between two writings, at least.
        classes: by label, what `build_coreset(checkpoint=...)` gave last; the label of a run without labels is None.
        found: whether an earlier run has left a file, which was read.
    """

    path: Path
    run: dict[str, Any]
    every: float
    classes: dict[Any, dict[str, Any]] = field(default_factory=dict)
    found: bool = False
    _written: float = field(default=-float("inf"), repr=False)
    _warned: bool = field(default=False, repr=False)

    def load(self) -> bool:
        """Read the file; False if there is none.

        Raises:
            UsageError: the file is damaged or belongs to a run with other settings.
        """
        if not self.path.is_file():
            return False
        try:
            held = load_tensors(self.path)
            run, classes = dict(held["run"]), {label: dict(record) for label, record in held["classes"].items()}
        except Exception as error:  # zip, pickle and torch raise errors of many kinds for a damaged file
            raise UsageError(f"--resume: {self.path} is not a checkpoint. Remove it to begin anew.") from error
        for name, ours in self.run.items():
            theirs = run.get(name)
            if theirs != ours:
                raise UsageError(
                    f"--resume: {self.path} is of a run with {name}={theirs!r}, and this one has {ours!r}. Run with "
                    "the same settings and data, or remove the file to begin anew."
                )
        self.classes, self.found = classes, True
        return True

    def keep(self, label: Any, record: dict[str, Any]) -> None:
        """After a step of a class; the file is written if the last writing was long enough ago."""
        first = not self.has_steps
        self.classes[label] = record
        if first or time.monotonic() - self._written >= self.every:
            self.write()

    @property
    def has_steps(self) -> bool:
        """Whether a step of any class is done."""
        return any(record["history"] for record in self.classes.values())

    def steps(self, label: Any) -> int:
        """Steps done of a class."""
        history = self.classes[label]["history"]
        return int(history[-1][0]) + 1 if history else 0

    def write(self) -> bool:
        """Replace the file with the current progress; False, and one warning, where the disk does not take it."""
        self._written = time.monotonic()
        content = io.BytesIO()  # torch itself raises no OSError where the disk is full
        torch.save({"run": self.run, "classes": self.classes}, content)
        try:
            with replacing(self.path) as beside:
                beside.write_bytes(content.getbuffer())
        except OSError as error:
            if not self._warned:
                note(
                    f"warning: the checkpoint {self.path} cannot be written ({error.strerror}); the run goes on, and "
                    "tries again. Make room if it may be interrupted."
                )
            self._warned = True
            return False
        return True

    def remove(self) -> None:
        """Remove the file, after the run."""
        remove(self.path)
