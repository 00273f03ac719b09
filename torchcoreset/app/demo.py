"""The demo: a coreset of real handwritten digits, or of your own file, beside random subsets of the same size."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..coresets import BuildResult, Coreset, build_coreset
from ..pictures import Panel, draw_comparison
from ..transport import as_cost, transport

OUTPUT = Path("demo_output")
SUBSETS = 5  # random subsets to compare with


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m torchcoreset.app.demo", description=__doc__)
    parser.add_argument(
        "file", nargs="?", help="table of numbers: .csv (a header line is skipped), .npy, or .npz with X"
    )
    parser.add_argument("--size", type=int, default=50, help="number of points (50)")
    parser.add_argument("--p", type=float, default=2, help="power of the distance: 2 (default) or 1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUTPUT, help=f"folder for the picture and the points ({OUTPUT})")
    options = parser.parse_args(arguments)
    try:
        run(options)
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def run(options: argparse.Namespace) -> None:
    """Build, compare, print and draw."""
    name, data, image_shape = digits() if options.file is None else table(Path(options.file))
    size, p, cost = options.size, options.p, as_cost(options.p)
    print(f"{name}\n")
    began = time.perf_counter()
    result = build_coreset(data, size, p, seed=options.seed)
    seconds = time.perf_counter() - began
    subsets = [Coreset.from_source(data, size, seed=options.seed + k) for k in range(SUBSETS)]
    plans = [transport(subset.points, data, p) for subset in subsets]
    distances = [cost.root(plan.value) for plan in plans]
    mean, spread = float(np.mean(distances)), float(np.std(distances))
    unit = f"W{p:g}"
    print(f"{'':28}{'points':>8}{unit:>12}{'at least':>12}{'gap':>10}{'seconds':>10}")
    print(
        f"{'coreset':28}{size:>8}{result.distance:>12.4g}{cost.root(max(result.transport.lower, 0.0)):>12.4g}"
        f"{result.transport.gap:>10.0e}{seconds:>10.2f}"
    )
    label = f"random subset (mean of {SUBSETS})"
    lower = float(np.mean([cost.root(max(plan.lower, 0.0)) for plan in plans]))
    gap = max(plan.gap for plan in plans)
    print(f"{label:28}{size:>8}{mean:>12.4g}{lower:>12.4g}{gap:>10.0e}{'':>10}   (+- {spread:.2g})\n")
    closer = f"{mean / result.distance:.2f} times closer to" if result.distance > 0 else "on the rows of"
    print(f"The coreset is {closer} the data. {_steps(result)}\n")
    picture, points = options.out / "coreset.png", options.out / "coreset.npz"
    panels = [
        Panel(f"coreset of {size} points", result.coreset, f"{unit} = {result.distance:.4g}"),
        Panel(f"random subset of {size}", subsets[0], f"{unit} = {distances[0]:.4g}"),
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    draw_comparison(data, panels, image_shape).savefig(picture)
    result.coreset.save(points)
    print(f"picture  {picture}\npoints   {points}   (tc.Coreset.load reads it; so does numpy)\n")
    if options.file is None:
        command = f"{_interpreter()} -m torchcoreset.app.demo yourfile.csv --size {size}"
        print(f"Your own data:   {command}")


def digits() -> tuple[str, NDArray[np.float32], tuple[int, int]]:
    """scikit-learn's handwritten digits (Alpaydin and Kaynak 1998), which its package ships."""
    from sklearn.datasets import load_digits

    data = load_digits().data.astype(np.float32)
    return f"{len(data):,} handwritten digits of 8 x 8 pixels, grey levels 0 to 16 (scikit-learn)", data, (8, 8)


def table(path: Path) -> tuple[str, NDArray[np.float32], None]:
    """A table of numbers from a file; rows are samples."""
    if path.suffix == ".npy":
        data = np.load(path, allow_pickle=False)
    elif path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            if "X" not in file:
                raise ValueError(f"file: {path} holds {', '.join(file.files)}; expected an array named X.")
            data = file["X"]
    elif path.suffix == ".csv":
        data = _csv(path)
    else:
        raise ValueError(f"file: got {path}; expected a name that ends in .csv, .npy or .npz.")
    data = data.reshape(len(data), -1).astype(np.float32)
    return f"{len(data):,} rows of {data.shape[1]} columns ({path.name})", data, None


def _csv(path: Path) -> NDArray[np.float64]:
    """All columns of a CSV file, which NumPy reads: the demo does without pyarrow."""
    with open(path, encoding="utf-8-sig") as lines:
        first = lines.readline()
    separator = ";" if ";" in first and "," not in first else ","
    header = any(not _is_number(cell) for cell in first.split(separator))
    try:
        data: NDArray[np.float64] = np.loadtxt(
            path, delimiter=separator, skiprows=int(header), ndmin=2, encoding="utf-8-sig"
        )
    except ValueError as error:
        raise ValueError(
            f"file: {path} is no table of numbers ({error}). The demo takes all columns; `torchcoreset build` chooses "
            "some of them (pip install 'torchcoreset[cli]')."
        ) from error
    return data


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _steps(result: BuildResult) -> str:
    return f"{len(result.history)} steps, {result.status.value}."


def _interpreter() -> str:
    """The interpreter as one would type it here."""
    path = Path(sys.executable)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else "python"


if __name__ == "__main__":
    sys.exit(main())
