"""What the experiments share: settings from a YAML file, repeated runs, and results as CSV and JSON."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import difflib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
import yaml

CONFIGS = Path(__file__).parents[1] / "configs"

Settings = TypeVar("Settings")
Row = dict[str, Any]


def read(settings: type[Settings], name: str, text: str, arguments: list[str] | None = None) -> tuple[Settings, Path]:
    """The settings of an experiment and the folder for what it finds.

    Args:
        settings: a dataclass, a field for each key of the YAML file.
        name: of the experiment, and of its file in `configs`.
        text: what `--help` says.
        arguments: of the command line; those of the process if None.

    Raises:
        SystemExit: an unknown key, with the nearest known one, or a key that is missing.
    """
    parser = argparse.ArgumentParser(description=text.strip().splitlines()[0])
    parser.add_argument("--config", type=Path, default=CONFIGS / f"{name}.yaml", help="YAML file (%(default)s)")
    parser.add_argument("--small", action="store_true", help="the small form that the file describes")
    parser.add_argument("--out", type=Path, default=Path("example_output"), help="folder for results (%(default)s)")
    options = parser.parse_args(arguments)
    held: dict[str, Any] = yaml.safe_load(options.config.read_text("utf-8"))
    small = held.pop("small", {})
    known = [field.name for field in dataclasses.fields(settings)]  # type: ignore[arg-type]
    for key in (*held, *small):
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected some of {', '.join(known)}."
            raise SystemExit(f"{options.config}: unknown key {key!r}; {hint}")
    values = {**held, **(small if options.small else {})}
    missing = [
        field.name
        for field in dataclasses.fields(settings)  # type: ignore[arg-type]
        if field.name not in values and field.default is dataclasses.MISSING
    ]
    if missing:
        raise SystemExit(f"{options.config}: the key {missing[0]!r} is missing.")
    options.out.mkdir(parents=True, exist_ok=True)
    return settings(**values), options.out


def seeds(runs: int, text: str) -> Iterator[int]:
    """0 to runs - 1, with a bar of progress on a terminal."""
    from tqdm import tqdm

    return iter(tqdm(range(runs), desc=text, disable=None, leave=False))


class Task(NamedTuple):
    """One coreset: how, of what, and how large; `given` is what else it needs. Results are kept by its `repr`."""

    settings: Any
    data: str
    method: str
    size: int
    seed: int
    given: Any = None


def tasks(settings: Any, methods: Sequence[str], given: Mapping[str, Any] | None = None) -> list[Task]:
    """A task for every seed, size, data set and method, the long ones of a seed first; `given` by data set.

    Methods that `settings.runs_of` names, where there is such a field, have as many seeds as it says.
    """
    given, runs_of = given or {}, getattr(settings, "runs_of", {})
    return [
        Task(settings, data, method, size, seed, given.get(data))
        for seed in range(settings.runs)
        for size in sorted(settings.sizes, reverse=True)
        for data in settings.data
        for method in methods
        if seed < runs_of.get(method, settings.runs)
    ]


def installed(methods: Sequence[str], packages: Mapping[str, Any]) -> list[str]:
    """The methods without those whose package is missing, which is printed.

    Args:
        packages: modules of `baselines`, by what the names of their methods begin with.
    """
    reasons = {name: package.missing() for name, package in packages.items()}
    left_out = tuple(name for name, reason in reasons.items() if reason and any(m.startswith(name) for m in methods))
    for name in left_out:
        print(reasons[name])
    return [method for method in methods if not method.startswith(left_out)]


def each(work: Callable[[Any], Any], tasks: Sequence[Any], jobs: int, keep: Path) -> list[Any]:
    """`work` of every task, in order, in so many processes of one thread each, with a bar on a terminal.

    Args:
        work: a function of a module; its results can be written as JSON.
        tasks: whose `repr` says all that the result depends on.
        jobs: number of processes; 1 works in this one.
        keep: file that each result is added to. A task that it holds already is not done again, so that an experiment
            that was stopped goes on where it was.
    """
    from tqdm import tqdm

    done = dict(json.loads(line) for line in keep.read_text("utf-8").splitlines()) if keep.exists() else {}
    todo = [task for task in tasks if repr(task) not in done]
    with ExitStack() as stack:
        file = stack.enter_context(keep.open("a", encoding="utf-8"))
        if jobs == 1:
            found: Iterable[Any] = map(work, todo)
        else:
            pool = ProcessPoolExecutor(jobs, get_context("spawn"), torch.set_num_threads, (1,))
            found = stack.enter_context(pool).map(work, todo)
        for task, result in tqdm(zip(todo, found, strict=True), keep.stem, len(todo), disable=None, leave=False):
            done[repr(task)] = result
            file.write(json.dumps([repr(task), result]) + "\n")
            file.flush()
    return [done[repr(task)] for task in tasks]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What `work` returns, and the processor seconds it took, which hardly depend on what else the machine does."""
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


def write(name: str, rows: Sequence[Row], settings: Any, out: Path) -> None:
    """Every row as CSV, and rows with settings and versions as JSON."""
    with (out / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fieldnames=list(dict.fromkeys(key for row in rows for key in row)))
        table.writeheader()
        table.writerows(rows)
    about = {
        "experiment": name,
        "settings": dataclasses.asdict(settings),
        "torch": torch.__version__,
        "torchcoreset": version("torchcoreset"),
        "threads": torch.get_num_threads(),
    }
    (out / f"{name}.json").write_text(json.dumps({**about, "rows": rows}, indent=1), "utf-8")
