"""All that a GPU should show, in under eight minutes.

    python -m tests.benchmarks.on_gpu            # run it; where torch sees no CUDA device, say what it would do
    python -m tests.benchmarks.on_gpu --plan     # say it anyway

Three parts, each with a limit of its own: the tests marked `gpu`; the engines beside each other
(`tests/gpu/time_engines.py`); transports on the GPU beside geomloss, flash-sinkhorn and POT, whose `emd2` runs on the
CPU. It prints a summary and writes gpu.json. What is not installed is left out, and said.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import torch

from .__main__ import run_work
from .machine import ROOT, facts
from .methods import methods_for
from .page import OUTPUT, render
from .plans import ON_GPU
from .record import Record
from .report import summarised

TESTS_LIMIT, ENGINES_LIMIT = 170, 110  # seconds; with the minutes of ON_GPU under eight minutes
MARK = re.compile(r"\bmark\.gpu\b")


def main(arguments: list[str] | None = None) -> None:
    """Run all parts, or say what they are."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.on_gpu", description=__doc__)
    parser.add_argument("--plan", action="store_true", help="say what would be done")
    parser.add_argument("--out", type=Path, default=OUTPUT, help=f"folder for gpu.json ({OUTPUT})")
    options = parser.parse_args(arguments)
    if options.plan or not torch.cuda.is_available():
        print(plan())
        if not torch.cuda.is_available():
            print("Nothing is run: torch sees no CUDA device.")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    measured: dict[str, object] = {"machine": facts(), "device": torch.cuda.get_device_name()}

    def keep(name: str, found: object) -> None:
        """Written after each part: what comes later may be cut off."""
        measured[name] = found
        measured["seconds of the run"] = round(time.perf_counter() - began)
        (options.out / "gpu.json").write_text(json.dumps(measured, indent=1) + "\n")

    keep("tests", limited(tests(), TESTS_LIMIT))
    keep("engines", limited(engines(), ENGINES_LIMIT))
    records = transports(60 * ON_GPU.minutes)
    keep("transports", [dataclasses.asdict(record) for record in summarised(records)])
    print(f"\n{summary(measured, records)}\nwritten to {options.out / 'gpu.json'}")


def plan() -> str:
    """What is run, and for how long at most."""
    lines = [f"tests marked gpu, {TESTS_LIMIT} s at most:", f"    {' '.join(tests()[1:])}"]
    lines += [f"engines, {ENGINES_LIMIT} s at most:", f"    {' '.join(engines()[1:])}"]
    lines += [f"transports on the GPU, {ON_GPU.minutes:g} minutes at most:"]
    for section in ON_GPU.sections:
        for name, row in section.plans.items():
            lines.append(f"    {name}: {'; '.join(method.name for method in methods_for(row))}")
    return "\n".join(lines)


def tests() -> list[str]:
    """The command that runs tests marked gpu, of the files that have some: others need not be imported."""
    marked = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if MARK.search(path.read_text("utf-8"))]
    files = [str(path.relative_to(ROOT)) for path in marked]
    return [sys.executable, "-m", "pytest", "-qmgpu", *files, "-p", "no:cacheprovider"]


def engines() -> list[str]:
    """The command that compares engines."""
    return [sys.executable, "-m", "tests.gpu.time_engines"]


def limited(command: list[str], seconds: float) -> dict[str, object]:
    """What a command printed, as it came, until it ended or its time was up."""
    print(f"\n$ {' '.join(command[1:])}", flush=True)
    began = time.perf_counter()
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, check=False
        )
        printed, status = done.stdout, str(done.returncode)
    except subprocess.TimeoutExpired as error:
        printed, status = error.stdout or b"", f"ended after {seconds:g} s"
    lines = printed.decode(errors="replace").strip().splitlines()
    print("\n".join(lines), flush=True)
    return {"status": status, "seconds": round(time.perf_counter() - began, 1), "lines": lines}


def transports(seconds: float) -> list[Record]:
    """Every method on the work of the GPU, while there is time."""
    began = time.perf_counter()
    records: list[Record] = []
    for name in [name for section in ON_GPU.sections for name in section.plans]:
        records += run_work(name, ON_GPU, lambda: seconds + began - time.perf_counter(), print)
    return records


def summary(measured: dict[str, object], records: list[Record]) -> str:
    """A line for each command and the table of the transports."""
    lines = [f"{measured['device']}, {measured['seconds of the run']} s in all"]
    for name in ("tests", "engines"):
        found = measured[name]
        assert isinstance(found, dict)
        last = found["lines"][-1] if found["lines"] else "nothing printed"
        lines.append(f"{name}: status {found['status']}, {found['seconds']} s; {last}")
    machine = measured["machine"]
    assert isinstance(machine, dict)
    return "\n".join([*lines, "", render(ON_GPU, records, machine)])


if __name__ == "__main__":
    main()
