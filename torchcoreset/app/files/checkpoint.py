"""Progress of a run on disk, complete at any moment, so that a killed run can be resumed.

A checkpoint is the file OUT.checkpoint beside the output: points of each class (of the one class, if there are no
labels), the number of steps done, and the settings of the run, so that a run with other settings refuses it.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...coresets import Step, replacing
from ..outcome import to_json
from ..settings import UsageError


@dataclass
class ClassProgress:
    """Progress on the points of one class.

    Attributes:
        points: (n, d) the result so far, in the units of the run.
        value: W_p^p on the samples that the last step used.
        lower: its lower bound.
        samples: their number.
        steps: done, those before an interruption included.
    """

    points: Tensor
    value: float
    lower: float
    samples: int
    steps: int


@dataclass
class Checkpoint:
    """Progress of all classes, kept on disk while a run goes on.

    Attributes:
        path: of the file.
        run: settings that decide what is computed; a checkpoint with others is refused.
        every: seconds between two writings, at least.
        classes: by label; the label of a run without labels is None.
    """

    path: Path
    run: dict[str, Any]
    every: float
    classes: dict[Any, ClassProgress] = field(default_factory=dict)
    _written: float = field(default=-float("inf"), repr=False)
    _before: dict[Any, int] = field(default_factory=dict, repr=False)

    def load(self) -> bool:
        """Read the file; False if there is none.

        Raises:
            UsageError: the file is damaged or belongs to a run with other settings.
        """
        if not self.path.is_file():
            return False
        try:
            with open(self.path, "rb") as file, np.load(file, allow_pickle=False) as held:
                state = json.loads(str(held["state"]))
                points = [torch.from_numpy(held[f"points{k}"]) for k in range(len(state["classes"]))]
                found = [
                    (entry["label"], ClassProgress(x, entry["value"], entry["lower"], entry["samples"], entry["steps"]))
                    for entry, x in zip(state["classes"], points, strict=True)
                ]
                run = dict(state["run"])
        except Exception as error:  # zip, zlib, numpy and JSON raise errors of many kinds for a damaged file
            raise UsageError(
                f"--resume: {self.path} is not a checkpoint ({error}). Remove it to begin anew."
            ) from error
        for name, ours in self.run.items():
            theirs = run.get(name)
            if theirs != ours:
                raise UsageError(
                    f"--resume: {self.path} is of a run with {name}={theirs!r}, and this one has {ours!r}. Run with "
                    "the same settings and data, or remove the file to begin anew."
                )
        for label, progress in found:
            self.classes[label] = progress
            self._before[label] = progress.steps
        return True

    def record(self, label: Any, step: Step) -> None:
        """After a step of a class; the file is written if the last writing was long enough ago."""
        assert step.points is not None  # callbacks get points
        done = self._before.get(label, 0) + step.step + 1
        self.classes[label] = ClassProgress(step.points, step.value, step.lower, step.samples, done)
        if time.monotonic() - self._written >= self.every:
            self.write()

    def write(self) -> None:
        """Replace the file with the current progress."""
        entries = [
            {"label": label, "value": c.value, "lower": c.lower, "samples": c.samples, "steps": c.steps}
            for label, c in self.classes.items()
        ]
        arrays: dict[str, Any] = {f"points{k}": c.points.cpu().numpy() for k, c in enumerate(self.classes.values())}
        state = to_json({"run": self.run, "classes": entries}, indent=None)
        with replacing(self.path) as beside, open(beside, "wb") as file:
            np.savez(file, state=state, **arrays)
        self._written = time.monotonic()

    def remove(self) -> None:
        """Remove the file, after the run."""
        self.path.unlink(missing_ok=True)
