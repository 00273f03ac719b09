"""Run the benchmarks: `make bench` takes half an hour on two cores, `make bench-quick` less than two minutes.

One thread unless asked otherwise: where cores are shared with other work, threads wait for each other longer than they
compute, and small work takes ten times as long.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from .apart import run_apart
from .growth import draw_growth
from .machine import facts, use_threads
from .methods import methods_for
from .page import OUTPUT, render
from .plans import FULL, PLANS, QUICK, Programme
from .record import Record
from .report import LEGEND, table, write_json

GROWTH = "growth"


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the long table, write the page's tables, JSON and plots."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small work, one start each")
    parser.add_argument("--only", metavar="NAME", help=f"work whose name contains this, or '{GROWTH}'; any work")
    parser.add_argument("--threads", type=int, default=1, help="threads of every method (1)")
    parser.add_argument("--out", type=Path, default=OUTPUT, help=f"folder for what is written ({OUTPUT})")
    options = parser.parse_args(arguments)
    programme = QUICK if options.quick else FULL
    works = chosen(programme, options.only)
    if not works:
        parser.error(f"--only {options.only}: no such work; there are {'; '.join([*PLANS, GROWTH])}")
    use_threads(options.threads)
    # One row that is run again does not take the place of all.
    stem = ("quick" if options.quick else "full") + ("-only" if options.only else "")
    options.out.mkdir(parents=True, exist_ok=True)
    run_programme(programme, works, options.out, stem)


def chosen(programme: Programme, only: str | None) -> list[str]:
    """Names of the work to run, in order: growth before the last section."""
    if only is None:
        *first, last = programme.sections
        early = [name for section in first for name in section.plans]
        return list(dict.fromkeys([*early, *programme.growth(), *last.plans]))
    if only == GROWTH:
        return list(programme.growth())
    return [name for name, plan in PLANS.items() if only in name and plan.device == "cpu"]


def run_programme(programme: Programme, works: list[str], out: Path, stem: str) -> None:
    """All of it. What has been measured is written after each piece of work, so that an interrupted run leaves it."""
    began = time.perf_counter()
    machine = facts()

    def tell(message: str) -> None:
        print(f"[{time.perf_counter() - began:6.1f} s] {message}", flush=True)

    def write(picture: str = "") -> None:
        write_json(out / f"{stem}.json", records, machine)
        (out / f"{stem}.md").write_text(render(programme, records, machine, picture), "utf-8")

    records: list[Record] = []
    for name in works:
        records += run_work(name, programme, lambda: 60 * programme.minutes + began - time.perf_counter(), tell)
        write()
    machine["seconds of the run"] = round(time.perf_counter() - began)
    write(drawn(programme, records, out / f"growth-{stem}.png", tell))
    print(f"\n{table(records)}\n\n{LEGEND}\n\n{machine}\nwritten to {out}")


def drawn(programme: Programme, records: list[Record], path: Path, tell: Callable[[str], None]) -> str:
    """The name of the growth plots, or nothing where there are none."""
    try:
        return path.name if draw_growth(programme.sweeps, records, path) else ""
    except ImportError as error:
        tell(f"no plots: {error}")
        return ""


def run_work(name: str, programme: Programme, left: Callable[[], float], tell: Callable[[str], None]) -> list[Record]:
    """All methods on one piece of work, each in a process of its own, while there are seconds left."""
    plan = PLANS[name]
    records = []
    for seed in range(min(plan.seeds, programme.seeds)):
        for method in methods_for(plan):
            patience = min(plan.patience, left())
            if patience > 0:
                record = run_apart(name, method.name, seed, patience)
            else:
                reason = f"the run's {programme.minutes:g} minutes were used up"
                record = Record(work=name, method=method.name, seed=seed, status="not run", reason=reason)
            told = f"{record.seconds:.3g} s" if record.status == "ok" else f"{record.status}: {record.reason}"
            tell(f"{name}, {method.name}: {told}")
            records.append(record)
    return records


if __name__ == "__main__":
    main()
