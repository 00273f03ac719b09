"""Tables larger than memory, in files and in parts: to open one, to draw from it, and to go through it once.

    python -m tests.benchmarks.tables [--rows N] [--folder FOLDER]

writes 8 columns of float32 (CSV: a tenth of the rows) and prints seconds and the peak of memory above that before. The
limit is what the reader itself takes: pyarrow for all columns of all blocks, NumPy for the pages of an array.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import torchcoreset as tc

from .machine import facts
from .measure import STATUS, memory, reset_peak

COLUMNS, BLOCK, PARTS = 8, 1 << 18, 10
DRAWS, DRAWN, BATCH = 20, 5_000, 10_000


@dataclass(frozen=True)
class Read:
    """Seconds, and bytes of memory above that before; None where the system does not tell."""

    seconds: float
    peak: int | None


def write(folder: Path, rows: int) -> dict[str, Path]:
    """The same table as NPY, as Parquet in one file and in parts, as Feather, and a tenth of it as CSV."""
    import pyarrow as arrow
    from pyarrow import csv, ipc, parquet

    names = [f"x{k}" for k in range(COLUMNS)]
    schema = arrow.schema([(name, arrow.float32()) for name in names])
    paths = {name: folder / f"table.{name}" for name in ("npy", "parquet", "feather", "csv")} | {
        "parts": folder / "parts"
    }
    paths["parts"].mkdir()
    array = np.lib.format.open_memmap(paths["npy"], mode="w+", dtype=np.float32, shape=(rows, COLUMNS))
    random = np.random.default_rng(0)
    with (
        parquet.ParquetWriter(paths["parquet"], schema) as whole,
        ipc.new_file(paths["feather"], schema) as feather,
        csv.CSVWriter(paths["csv"], schema) as text,
    ):
        for start in range(0, rows, BLOCK):
            block = random.standard_normal((min(BLOCK, rows - start), COLUMNS), dtype=np.float32)
            array[start : start + len(block)] = block
            table = arrow.table(dict(zip(names, block.T, strict=True)), schema=schema)
            whole.write_table(table)
            feather.write_table(table)
            if start < rows // 10:
                text.write_table(table)
    for k, part in enumerate(np.array_split(np.arange(rows), PARTS)):
        columns = dict(zip(names, np.array(array[part[0] : part[-1] + 1]).T, strict=True))
        parquet.write_table(arrow.table(columns), paths["parts"] / f"{k}.parquet", row_group_size=BLOCK)
    return paths


def timed(work: Callable[[], Any]) -> tuple[Read, Any]:
    """What a piece of work takes, and what it returns."""
    before, began = reset_peak(), time.perf_counter()
    found = work()
    seconds = time.perf_counter() - began
    return Read(seconds, None if before is None else max(0, memory("VmHWM", STATUS) - before)), found


def bare(path: Path) -> None:
    """Read all of a table by its own reader, block after block."""
    from pyarrow import csv, dataset

    if path.suffix == ".npy":
        array = np.load(path, mmap_mode="r")
        for start in range(0, len(array), BLOCK):
            array[start : start + BLOCK].sum()
    elif path.suffix == ".csv":
        for _ in csv.open_csv(path):
            pass
    else:
        for _ in dataset.dataset(path, format="feather" if path.suffix == ".feather" else "parquet").to_batches():
            pass


def measure_table(path: Path) -> list[Read]:
    """Opening, draws, one pass in batches, and the limit."""
    opened, source = timed(lambda: tc.as_source(path))
    generator = torch.Generator().manual_seed(0)
    draws, _ = timed(lambda: [source.draw(DRAWN, generator) for _ in range(DRAWS)])
    passed, rows = timed(lambda: sum(len(batch) for batch, _ in source.batches(BATCH, generator)))
    assert rows == source.size
    return [opened, draws, passed, timed(lambda: bare(path))[0]]


def main(arguments: list[str] | None = None) -> dict[str, list[Read]]:
    """Write the tables, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.tables", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--folder", help="where to write the tables, which are removed at the end")
    options = parser.parse_args(arguments)
    found = {}
    print(f"{options.rows:,} rows of {COLUMNS} columns, float32 (CSV: a tenth)\n{facts()}")
    heads = ("open", f"{DRAWS} draws of {DRAWN:,}", f"a pass of {BATCH:,}", "the reader alone")
    print(f"{'':10}" + "".join(f"{head:>26}" for head in heads), flush=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for name, path in write(Path(folder), options.rows).items():
            found[name] = measure_table(path)
            cells = [f"{one.seconds:.2f} s, {(one.peak or 0) / 2**20:.0f} MiB" for one in found[name]]
            print(f"{name:10}" + "".join(f"{cell:>26}" for cell in cells), flush=True)
    return found


if __name__ == "__main__":
    main()
