"""One method in a process of its own: its memory is its own, its threads disturb nobody, and it can be given up."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
import time
from pathlib import Path

from tests.processes import SERVER

from .machine import use_cores
from .measure import Measurement, measure, memory
from .method import Method
from .methods import find_method
from .plans import PLANS, make_work
from .problems import CORESETS, Unavailable, Work
from .record import Record
from .truth import optimum, semi_dual

LOST = "not judged in time"  # the note of a run whose value was not known when patience ended


def run_apart(work: str, method: str, seed: int, patience: float) -> Record:
    """The record of a run in another process; whatever happens there is a record, too."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "errors").touch()  # the process may end before it writes any
        began = time.perf_counter()
        child = SERVER.Process(target=_run_there, args=(work, method, seed, folder))
        child.start()
        child.join(patience)
        late = child.exitcode is None
        used = _memory_of(child.pid) if late else ""
        child.kill()
        child.join()
        left = _left_in(folder)
        if left is not None and (late or child.exitcode == 0):
            return left
        if late:
            seconds = time.perf_counter() - began
            reason = f"given up after {seconds:.0f} s, {used}"
            return Record(work=work, method=method, seed=seed, status="timed out", reason=reason, seconds=seconds)
        code = child.exitcode or 0
        lines = (folder / "errors").read_text(errors="replace").strip().splitlines()
        how = f"killed by signal {-code}" if code < 0 else lines[-1] if lines else "no message"
        return Record(work=work, method=method, seed=seed, status="failed", reason=how)


def _run_there(work: str, method: str, seed: int, folder: Path) -> None:
    """What the other process does: times are kept before they are judged, which may take longer than patience lasts."""
    for stream, path in (1, Path(os.devnull)), (2, folder / "errors"):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
    if find_method(PLANS[work].task, method).threads_as_cores:
        use_cores()
    run_here(work, method, seed, folder)


def run_here(work_name: str, method_name: str, seed: int, folder: Path | None = None) -> Record:
    """The record of a run in this process, judged; written to the folder, if there is one, as soon as it is timed."""
    record = Record(work=work_name, method=method_name, seed=seed)
    try:
        work = make_work(work_name, seed)
        found = measured(work, find_method(PLANS[work_name].task, method_name))
        timed(record, found)
        _keep(dataclasses.replace(record, note="; ".join(filter(None, [record.note, LOST]))), folder)
        judge(record, work, found)
    except ImportError as error:
        record.status, record.reason = "not installed", str(error)
    except Unavailable as error:
        record.status, record.reason = "unavailable", str(error)
    except Exception as error:  # a peer may raise anything, and the others still have their turn
        record.status, record.reason = "failed", f"{type(error).__name__}: {error}".partition("\n")[0]
    _keep(record, folder)
    return record


def measured(work: Work, method: Method) -> Measurement:
    """One run of a coreset, whose seeds repeat it; several of what is short."""
    return measure(work, method, repeats=1) if work.task in CORESETS else measure(work, method)


def timed(record: Record, found: Measurement) -> None:
    """Fill in times, memory and what the method says of itself."""
    record.runs = found.seconds
    record.seconds = min(found.seconds)
    record.processor, record.hard_pass, record.peak = found.processor, found.hard_pass, found.peak
    record.value = found.outcome.value
    record.note = "; ".join(filter(None, [found.outcome.note, *found.warnings]))


def judge(record: Record, work: Work, found: Measurement) -> None:
    """Fill in the true worth of the outcome."""
    outcome = found.outcome
    if outcome.points is not None:
        record.value, width = optimum(outcome.points, work.samples, work.p, CORESETS[work.task])
        if width > 1e-9:
            record.note += f"; W2^2 known to {width:.0e}"
    elif outcome.potential is not None:
        record.lower = semi_dual(work.points, work.samples, outcome.potential, work.p)
    if outcome.own is not None:
        record.own = outcome.own()


def _keep(record: Record, folder: Path | None) -> None:
    """Write the record, the whole of it or nothing: the process may be ended at any time."""
    if folder is not None:
        (folder / "partial").write_text(json.dumps(dataclasses.asdict(record)))
        (folder / "partial").replace(folder / "record.json")


def _left_in(folder: Path) -> Record | None:
    path = folder / "record.json"
    return Record(**json.loads(path.read_text())) if path.is_file() else None


def _memory_of(pid: int | None) -> str:
    try:
        return f"at {memory('VmHWM', Path(f'/proc/{pid}/status')) / 2**30:.2f} GiB at most, imports and data included"
    except OSError:
        return "memory unknown"
