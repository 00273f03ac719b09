"""One method in a process of its own: its memory is its own, its threads disturb nobody, and it can be given up.

`python -m tests.benchmarks.apart WORK METHOD SEED OPTIMUM FILE` writes a record as JSON; an optimum of nan is unknown.
"""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

from .measure import Measurement, measure, memory
from .method import Method
from .methods import find_method
from .problems import PLANS, ROOT, Unavailable, Work, make_work
from .record import Record
from .truth import optimum, semi_dual

MODULE = "tests.benchmarks.apart"


def run_apart(work: str, method: str, seed: int, best: float, patience: float) -> Record:
    """The record of a run in another process; whatever happens there is a record, too."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.json"
        command = [sys.executable, "-m", MODULE, work, method, str(seed), repr(best), str(path)]
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            _, errors = child.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            reason = f"given up after {patience:.0f} s, {_memory_of(child.pid)}"
            child.kill()
            child.communicate()
            return Record(work=work, method=method, seed=seed, status="timed out", reason=reason)
        if child.returncode == 0 and path.is_file():
            return Record(**json.loads(path.read_text()))
        lines = errors.strip().splitlines()
        how = f"killed by signal {-child.returncode}" if child.returncode < 0 else lines[-1] if lines else "no message"
        return Record(work=work, method=method, seed=seed, status="failed", reason=how)


def run_here(work_name: str, method_name: str, seed: int, best: float) -> Record:
    """The record of a run in this process, judged against the optimum if that is known."""
    record = Record(work=work_name, method=method_name, seed=seed)
    try:
        work = make_work(work_name, seed)
        method = find_method(PLANS[work_name].task, method_name)
        return judged(record, work, measured(work, method), best)
    except ImportError as error:
        record.status, record.reason = "not installed", str(error)
    except Unavailable as error:
        record.status, record.reason = "unavailable", str(error)
    except Exception as error:  # a peer may raise anything, and the others still have their turn
        record.status, record.reason = "failed", f"{type(error).__name__}: {error}".partition("\n")[0]
    return record


def measured(work: Work, method: Method) -> Measurement:
    """One run of a coreset or loss, whose seeds repeat them; several of a transport."""
    return measure(work, method) if work.task == "transport" else measure(work, method, repeats=1)


def judged(record: Record, work: Work, found: Measurement, best: float) -> Record:
    """Fill in times and the true worth of the outcome."""
    outcome = found.outcome
    record.runs = found.seconds
    record.seconds = min(found.seconds)
    record.hard_pass, record.minimum_only, record.peak = found.hard_pass, found.minimum_only, found.peak
    record.note = "; ".join(filter(None, [outcome.note, *found.warnings]))
    if outcome.points is not None:
        record.value, width = optimum(outcome.points, work.samples)
        if width > 1e-9:
            record.note += f"; W2^2 known to {width:.0e}"
    elif outcome.potential is not None and work.task == "transport":
        record.value = semi_dual(work.points, work.samples, outcome.potential)
        record.gap = (best - record.value) / best
    else:
        record.value = outcome.value
        if outcome.value is not None and math.isfinite(best):
            record.gap = abs(outcome.value - best) / best
    return record


def _memory_of(pid: int) -> str:
    try:
        return f"at {memory('VmHWM', Path(f'/proc/{pid}/status')) / 2**30:.2f} GiB at most, imports and data included"
    except OSError:
        return "memory unknown"


if __name__ == "__main__":
    work_name, method_name, seed, best, path = sys.argv[1:]
    record = run_here(work_name, method_name, int(seed), float(best))
    Path(path).write_text(json.dumps(dataclasses.asdict(record)))
