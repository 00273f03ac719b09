"""Run the benchmarks: `make bench`, or `make bench-quick` for the form that takes under two minutes on two cores."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from .apart import run_apart
from .growth import FULL as FULL_GROWTH
from .growth import QUICK as QUICK_GROWTH
from .growth import draw_growth, measure_growth
from .machine import facts
from .methods import methods_for
from .problems import FULL, PLANS, QUICK, Unavailable, make_work
from .record import Record
from .report import LEGEND, table, write_json
from .truth import optimum

OUTPUT = Path("benchmark_output")
GROWTH = "growth"


def main() -> None:
    """Measure, print the table, write JSON and the picture."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small work, one start each")
    parser.add_argument("--only", metavar="NAME", help=f"work whose name contains this, or '{GROWTH}'; any work")
    parser.add_argument("--out", type=Path, default=OUTPUT, help=f"folder for JSON and picture ({OUTPUT})")
    options = parser.parse_args()
    names = [*PLANS, GROWTH] if options.only else [*(QUICK if options.quick else FULL), GROWTH]
    chosen = [name for name in names if not options.only or options.only in name]
    if not chosen:
        parser.error(f"--only {options.only}: no such work; there are {', '.join(names)}")
    options.out.mkdir(parents=True, exist_ok=True)
    machine = facts()
    began = time.perf_counter()

    def tell(message: str) -> None:
        print(f"[{time.perf_counter() - began:6.1f} s] {message}", flush=True)

    records: list[Record] = []
    growth: list[dict[str, object]] = []
    for name in chosen:
        if name == GROWTH:
            growth = measure_growth(QUICK_GROWTH if options.quick else FULL_GROWTH, tell)
        else:
            records += run_work(name, 1 if options.quick else PLANS[name].seeds, tell)
    stem = "quick" if options.quick else "full"
    if growth:
        try:
            draw_growth(growth, options.out / f"growth-{stem}.png")
        except ImportError as error:
            tell(f"no picture: {error}")
    write_json(options.out / f"{stem}.json", records, machine, growth)
    if records:
        print(f"\n{table(records)}\n\n{LEGEND}")
    print(f"\n{machine}\nwritten to {options.out}")


def run_work(name: str, seeds: int, tell: Callable[[str], None]) -> list[Record]:
    """All methods on one piece of work, each in a process of its own."""
    plan = PLANS[name]
    try:
        work = make_work(name)
    except Unavailable as error:
        tell(f"{name}: {error}")
        return [Record(work=name, method=plan.task, status="unavailable", reason=str(error))]
    best = float("nan")
    if plan.task == "transport":
        best, width = optimum(work.points, work.samples)
        tell(f"{name}: W2^2 = {best:.9g}, proven to {width:.0e}")
    del work
    records = []
    for seed in range(seeds):
        for method in methods_for(plan.task, name):
            record = run_apart(name, method.name, seed, best, plan.patience)
            told = f"{record.seconds:.3g} s" if record.seconds is not None else f"{record.status}: {record.reason}"
            tell(f"{name}, {method.name}: {told}")
            records.append(record)
    return records


if __name__ == "__main__":
    main()
