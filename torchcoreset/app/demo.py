"""The demo: a coreset of real handwritten digits, or of your own file, beside k-means and random subsets."""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from ..coresets import BuildResult, Coreset, build_coreset
from ..pictures import Panel, draw_comparison
from ..sources import read_table
from ..transport import as_cost
from .measure import Measured, measure, measure_random_rows
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
    result, seconds = timed(lambda: build_coreset(data, size, p, seed=options.seed))
    free, free_seconds = timed(lambda: build_coreset(data, size, p, weights="free", seed=options.seed))
    random = measure_random_rows("random subset", size, data, None, p, options.seed)
    equal = [(measured("coreset", result), f"{seconds:.2f}")]
    weighted = [(measured("coreset, free weights", free), f"{free_seconds:.2f}")]
    if (found := k_means(data, size, options.seed)) is not None:
        clusters, taken = found
        equal.append((measure("KMeans, its centres", Coreset(clusters.points), data, None, p), f"{taken:.2f}"))
        weighted.append((measure("KMeans, shares as weights", clusters, data, None, p), f"{taken:.2f}"))
    equal.append((random, f"(+- {random.spread:.2g})"))
    unit = f"W{p:g}"
    print(f"{f'{size} points':28}{'weights':>17}{unit:>10}{'at least':>10}{'seconds':>11}")
    for row, taken_or_spread in equal + weighted:
        weights = span(row.coreset.weights)
        print(f"{row.name:28}{weights:>17}{row.distance:>10.5g}{row.lower:>10.5g}{taken_or_spread:>11}")
    where = "on the rows of the data"
    if result.distance > 0:
        where = f"{random.distance / result.distance:.2f} times closer to the data than random rows"
    print(f"\nThe coreset is {where}. {len(result.history)} steps, {result.status.value}.")
    print(
        "With equal weights each point stands for the same share of the data, and is used like a row of it: drawn,\n"
        "batched, counted, or given to code that takes no weights. Where weights can be used, free ones come nearer.\n"
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


def measured(name: str, built: BuildResult) -> Measured:
    """A result of `build_coreset` as a line of the table."""
    plan = built.transport
    return Measured(name, built.coreset, built.distance, as_cost(built.p).root(max(plan.lower, 0.0)), plan.gap)


def span(weights: Tensor) -> str:
    """The least and the largest weight, or "equal"."""
    lightest, heaviest = (float(weight) for weight in torch.aminmax(weights))
    return "equal" if heaviest - lightest < 1e-6 * heaviest else f"{lightest:.2g} to {heaviest:.2g}"


def timed(build: Callable[[], BuildResult]) -> tuple[BuildResult, float]:
    """A result, and the wall-clock seconds that it took."""
    began = time.perf_counter()
    return build(), time.perf_counter() - began


def k_means(data: Tensor, size: int, seed: int) -> tuple[Coreset, float] | None:
    """Centres of scikit-learn's KMeans, weighted by their shares of the rows, and seconds.

    None where scikit-learn is not installed, or has to find more clusters than there are rows, which it refuses.
    """
    try:
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning
    except ImportError:
        return None
    if size > len(data):
        return None
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of repeated rows: fewer distinct ones than clusters
        found = KMeans(size, random_state=seed).fit(data.numpy())
    seconds = time.perf_counter() - began
    counts = torch.from_numpy(found.labels_).long().bincount(minlength=size)
    return Coreset(torch.from_numpy(found.cluster_centers_).float(), counts / len(data)), seconds


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
