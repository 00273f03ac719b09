"""A coreset of data that come in parts: each part is built on its own, and the coresets are merged in a tree.

    python examples/map_reduce.py [--parts 10] [--rows 10000] [--size 100] [--on serial|dask|ray]

The map makes a coreset of one part and measures it on all rows of that part, which are then forgotten. The reduction
merges ten coresets at a time; those on the way have four times the points of the last one. Only coresets travel, and
the bound of the last one holds for all rows of all parts. Where the work is done makes no difference to the result.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

import torchcoreset as tc

P = 2
CENTRES = torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [5.0, 5.0], [-3.0, 2.0], [2.0, -4.0]])
SHARES = torch.tensor([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
BUILT_ON = 20_000  # rows of a part that its points are fitted to; it is measured on all of them
FAN_IN = 10  # coresets that are merged at once
WIDER = 4  # times the points of the result in the coresets before it: what they lose, no merge brings back


def rows_of(part: int, rows: int) -> Tensor:
    """The rows (rows, 2) of one part: here drawn from a mixture of normals, elsewhere read from a file."""
    generator = torch.Generator().manual_seed(part)
    component = torch.multinomial(SHARES, rows, True, generator=generator)
    return CENTRES[component] + torch.randn(rows, 2, generator=generator)


def map_part(part: int, rows: int, size: int) -> tc.MergeResult:
    """The coreset of one part, measured on all its rows, whose number is its mass."""
    y = rows_of(part, rows)
    built = tc.build_coreset(y, size, P, samples=BUILT_ON, tolerance=1e-2, restarts=1, seed=part, progress=False)
    return tc.merge([(built.coreset, y)], masses=[rows], p=P)


def merge_parts(*parts: tc.MergeResult, size: int) -> tc.MergeResult:
    """One coreset of several."""
    return tc.merge(parts, masses=[part.mass for part in parts], size=size, restarts=1, progress=False)


def tree(parts: Sequence[Any], size: int, merge: Callable[..., Any] = merge_parts) -> Any:
    """Merge FAN_IN at a time, the last ones to `size` points; parts may be promises of results that `merge` takes."""
    while True:
        last = len(parts) <= FAN_IN
        groups = [parts[first : first + FAN_IN] for first in range(0, len(parts), FAN_IN)]
        parts = [merge(*group, size=size if last else WIDER * size) for group in groups]
        if last:
            return parts[0]


def on_serial(parts: int, rows: int, size: int) -> tc.MergeResult:
    """In this process, one part after another: memory is that of one part."""
    return tree([map_part(part, rows, WIDER * size) for part in range(parts)], size)


def on_dask(parts: int, rows: int, size: int, scheduler: str | None = "processes") -> tc.MergeResult:
    """On Dask, by one of its schedulers; None takes the one that is set, such as a distributed client."""
    import dask

    mapped = [dask.delayed(map_part)(part, rows, WIDER * size) for part in range(parts)]
    return dask.compute(tree(mapped, size, dask.delayed(merge_parts)), scheduler=scheduler)[0]


def on_ray(parts: int, rows: int, size: int) -> tc.MergeResult:
    """On Ray, which starts here unless it is at work already."""
    import ray

    map_remotely = ray.remote(map_part)
    mapped = [map_remotely.remote(part, rows, WIDER * size) for part in range(parts)]
    return ray.get(tree(mapped, size, ray.remote(merge_parts).remote))


PLACES: dict[str, Callable[[int, int, int], tc.MergeResult]] = {"serial": on_serial, "dask": on_dask, "ray": on_ray}


def main(arguments: list[str] | None = None) -> tc.MergeResult:
    """Map, reduce, and compare with a direct build on rows that no part has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=int, default=10)
    parser.add_argument("--rows", type=int, default=10_000, help="of each part")
    parser.add_argument("--size", type=int, default=100, help="points of the result")
    parser.add_argument("--check", type=int, default=100_000, help="fresh rows that both builds are compared on")
    parser.add_argument("--on", choices=PLACES, default="serial")
    options = parser.parse_args(arguments)
    began = time.process_time()
    merged = PLACES[options.on](options.parts, options.rows, options.size)
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # kilobytes, on Linux
    print(
        f"{merged.mass:,.0f} rows in {options.parts} parts, {seconds:.0f} s of this process, {peak:.0f} MiB at its peak"
    )
    print(merged)
    print(merged.bound)
    fresh = rows_of(options.parts, options.check)
    direct = tc.build_coreset(fresh, options.size, P, restarts=1, progress=False)
    for name, coreset in (("merged", merged.coreset), ("direct", direct.coreset)):
        distance = tc.transport(coreset, fresh, P).value ** (1 / P)
        print(f"{name}: W_{P} = {distance:.4f} to {options.check:,} fresh rows")
    return merged


if __name__ == "__main__":
    main()
    sys.stdout.flush()
