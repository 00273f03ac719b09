"""The demo: a coreset of real handwritten digits, or of your own file, beside random subsets of the same size."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch
from torch import Tensor

from ..coresets import build_coreset
from ..pictures import Panel, draw_comparison
from ..sources import read_table
from ..transport import as_cost
from .measure import measure_random_rows
from .outcome import note, printable
from .outputs import check_outputs

OUTPUT = Path("demo_output")


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m torchcoreset.app.demo", description=__doc__)
    parser.add_argument("file", nargs="?", help="table of numbers: .csv, .tsv, .parquet, .npy, or .npz with X")
    parser.add_argument("--size", type=int, default=50, help="number of points (50)")
    parser.add_argument("--p", type=float, default=2, help="power of the distance: 2 (default) or 1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUTPUT, help=f"folder for the picture and the points ({OUTPUT})")
    parser.add_argument("--force", action="store_true", help="replace the picture and the points of an earlier run")
    options = parser.parse_args(arguments)
    try:
        run(options)
    except (ValueError, OSError, ImportError) as error:
        note(f"error: {error}")
        return 2
    return 0


def run(options: argparse.Namespace) -> None:
    """Build, compare, print and draw."""
    picture, points = options.out / "coreset.png", options.out / "coreset.npz"
    check_outputs([("--out", picture), ("--out", points)], [options.file] if options.file else [], force=options.force)
    name, data, image_shape = digits() if options.file is None else table(Path(options.file))
    size, p = options.size, options.p
    print(f"{printable(name)}\n")
    began = time.perf_counter()
    result = build_coreset(data, size, p, seed=options.seed)
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    free = build_coreset(data, size, p, weights="free", seed=options.seed)
    free_seconds = time.perf_counter() - began
    random = measure_random_rows("random subset", size, data, None, p, options.seed)
    unit, root = f"W{p:g}", as_cost(p).root
    print(f"{'':28}{'points':>8}{unit:>12}{'at least':>12}{'gap':>10}{'seconds':>10}")
    for label, distance, least, gap, more in (
        *(
            (name, built.distance, root(max(built.transport.lower, 0.0)), built.transport.gap, f"{taken:.2f}")
            for name, built, taken in (("coreset", result, seconds), ("with free weights", free, free_seconds))
        ),
        (random.name, random.distance, random.lower, random.gap, ""),
    ):
        print(f"{label:28}{size:>8}{distance:>12.4g}{least:>12.4g}{gap:>10.0e}{more:>10}", end="")
        print("" if more else f"   (+- {random.spread:.2g})\n")
    closer = f"{random.distance / result.distance:.2f} times closer to" if result.distance > 0 else "on the rows of"
    print(f"The coreset is {closer} the data. {len(result.history)} steps, {result.status.value}.")
    lightest, heaviest = (float(weight) for weight in torch.aminmax(free.coreset.weights))
    print(
        "Its points weigh the same: each can be used as a sample. Free weights (p = 2: k-means) come nearer,\n"
        f"and go from {lightest:.2g} to {heaviest:.2g}.\n"
    )
    panels = [
        Panel(f"coreset of {size} points", result.coreset, f"{unit} = {result.distance:.4g}"),
        Panel("with free weights", free.coreset, f"{unit} = {free.distance:.4g}"),
        Panel(f"random subset of {size}", random.coreset, f"mean {unit} = {random.distance:.4g}"),
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    draw_comparison(data, panels, image_shape).savefig(picture)
    result.coreset.save(points)
    print(f"picture  {picture}\npoints   {points}   (tc.Coreset.load reads it; so does numpy)\n")
    if options.file is None:
        command = f"{_interpreter()} -m torchcoreset.app.demo yourfile.csv --size {size}"
        print(f"Your own data:   {command}")


def digits() -> tuple[str, Tensor, tuple[int, int]]:
    """scikit-learn's handwritten digits (Alpaydin and Kaynak 1998), which its package ships."""
    from sklearn.datasets import load_digits

    data = torch.from_numpy(load_digits().data).float()
    return f"{len(data):,} handwritten digits of 8 x 8 pixels, grey levels 0 to 16 (scikit-learn)", data, (8, 8)


def table(path: Path) -> tuple[str, Tensor, None]:
    """A table of numbers from a file; rows are samples."""
    try:
        source = read_table(path, flatten=True).source
    except ValueError as error:
        raise ValueError(
            f"{error} The demo takes all columns; `torchcoreset build` chooses some of them "
            "(pip install 'torchcoreset[cli]')."
        ) from error
    data = source.materialize(None, torch.Generator())[0].float()
    return f"{len(data):,} rows of {data.shape[1]} columns ({path.name})", data, None


def _interpreter() -> str:
    """The interpreter as one would type it here."""
    path = Path(sys.executable)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else "python"


if __name__ == "__main__":
    sys.exit(main())
