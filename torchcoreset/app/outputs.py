"""What a command may write: nothing over what it reads, and over a file that is there only where that is asked for."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

READ = ("data", "coreset", "coresets", "state", "network", "config")  # settings that name what a command reads
WRITTEN = ("out", "plot", "assignment")  # settings that name what it writes
PARTS = (".csv", ".parquet")  # outputs that would be read as one more part of a table in a folder

Outputs = list[tuple[str, Path]]  # the option that names a file, or from which its name follows, and the file


def check_settings(settings: Any, config: str = "") -> None:
    """Raise ValueError unless what a command writes can be written without a loss; called before it begins.

    Args:
        settings: of the command. One that can be resumed sees itself to the files that its earlier run has left.
        config: name of the file that the settings are from.
    """
    given = [config, *(getattr(settings, name, "") for name in READ)]
    inputs = [name for value in given for name in (value if isinstance(value, list) else [value]) if name]
    inputs += [name.rpartition(":")[0] for name in inputs if ":" in name]  # FILE.py:NAME
    outputs, force = written_by(settings), getattr(settings, "force", False)
    if force and not outputs:
        raise ValueError("--force: given where nothing is written; expected it with --plot.")
    check_outputs(outputs, inputs, force=force or hasattr(settings, "resume"))


def written_by(settings: Any) -> Outputs:
    """All files that a command with these settings writes."""
    named = [(f"--{name}", Path(getattr(settings, name))) for name in WRITTEN if getattr(settings, name, None)]
    more = [(flag, sidecar(path)) for flag, path in named if flag == "--out" and path.suffix.lower() == ".csv"]
    more += [("--out", checkpoint_of(settings.out))] if hasattr(settings, "resume") and hasattr(settings, "out") else []
    return named + more


def sidecar(path: Path) -> Path:
    """The file beside a CSV file that says what the table does not."""
    return path.with_name(path.name + ".json")


def checkpoint_of(out: str) -> Path:
    """The file beside an output that keeps a run's progress until it has ended."""
    return Path(f"{out}.checkpoint")


def check_outputs(outputs: Outputs, inputs: Iterable[str], *, force: bool) -> None:
    """Raise ValueError if an output is a folder, an input or among its parts, another output, or there already.

    Args:
        outputs: all files that will be written.
        inputs: names of files, folders and patterns that are read; names of nothing are passed over.
        force: whether files that are there may be replaced; those that are read never are.
    """
    read = [(name, Path(part)) for name in inputs for part in (name, *glob.glob(name, recursive=True))]
    for place, (flag, path) in enumerate(outputs):
        if path.is_dir():
            raise ValueError(f"{flag}: {str(path)!r} is a folder; expected the name of a file.")
        for name, part in read:
            if same_file(path, part):
                raise ValueError(f"{flag}: {str(path)!r} is what is read ({name}); expected another name for it.")
            if path.suffix.lower() in PARTS and part.is_dir() and part.resolve() in path.resolve().parents:
                raise ValueError(f"{flag}: {str(path)!r} would become a part of the table {name}. Name another folder.")
        for other, before in outputs[:place]:
            if same_file(path, before):
                raise ValueError(f"{flag}: {str(path)!r} is the file of {other} too; expected two different names.")
    if not force:
        refuse_existing(outputs)


def refuse_existing(outputs: Outputs) -> None:
    """Raise ValueError for the first of these files that is there."""
    for flag, path in outputs:
        if os.path.lexists(path):
            raise ValueError(f"{flag}: {str(path)!r} exists. Name another file, or pass --force to replace it.")


def same_file(one: Path, other: Path) -> bool:
    """Whether two names lead to one file, by links too, or would if it were there."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there
        return False
