"""`torchcoreset certify`: an interval for the distance to the population, from rows that the build has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torchcoreset as tc

from ...sources import Source
from ..files import CoresetFile, DataSettings, Table, check_table, header, read_coreset, read_table, scaled
from ..outcome import NOT_REACHED, OK, Outcome, note
from ..settings import UsageError, argument, option


@dataclass(frozen=True, kw_only=True)
class CertifySettings(DataSettings):
    """Settings of `certify`."""

    coreset: str = argument("coreset file: .npz, .pt, .safetensors, .csv or .parquet")
    data: str = argument("table of fresh rows; of the build's own table the rows held out are taken")
    p: float | None = option("power of the distance; that of the build if not given", None)
    confidence: float = option("of the interval", 0.95)
    samples: int = option("most rows for the interval", 100_000, metavar="N")
    bound: float | None = option("largest possible cost, for a confidence at every number of rows", None)
    at_most: float | None = option("exit with 1 unless the distance is certified to be at most this", None)
    seed: int = option("of all random numbers", 0, metavar="N")


def run(settings: CertifySettings) -> Outcome:
    """Certify and say what was found."""
    held = read_coreset(settings.coreset)
    table = read_table(as_built(settings, held))
    check_columns(held, table, settings.coreset)
    p = power(settings.p, held)
    source = scaled(fresh_rows(held, table, quiet=settings.quiet), held.scaling)
    found = tc.certify(
        held.coreset(held.scaling),
        source,
        p,
        settings.confidence,
        settings.samples,
        bound=settings.bound,
        seed=settings.seed,
    )
    unit = ", in standard deviations of the columns" if held.scaling is not None else ""
    used, size = found.samples + found.potential_samples, source.size
    left = "" if size is None or used >= size else f", of {size:,}"
    asymptotic = found.asymptotic.removeprefix("nothing: ")
    lines = [
        f"{found.lower:.6g} <= W{p:g} <= {found.upper:.6g}   with confidence {found.confidence:g}{unit}",
        f"from {_rows(found)}, and {found.potential_samples:,} others for the potential{left}; gap {found.gap:.1e}",
        f"{asymptotic[0].upper()}{asymptotic[1:]}.",
    ]
    reached = settings.at_most is None or found.upper <= settings.at_most
    if not reached:
        lines.append(f"Not certified to be at most {settings.at_most:g}: take more points, or more rows.")
    return Outcome(certificate_record(found) | {"command": "certify"}, lines, OK if reached else NOT_REACHED)


def _rows(found: tc.Certificate) -> str:
    """How many rows, and what their weights leave of them."""
    rows = f"{found.samples:,} rows"
    even = found.effective_samples > 0.999 * found.samples
    return rows if even else f"{rows} (worth {found.effective_samples:,.0f} of equal weight)"


def certificate_record(found: tc.Certificate) -> dict[str, Any]:
    """The numbers of a certificate."""
    names = (
        "lower", "upper", "p", "confidence", "samples", "effective_samples", "potential_samples", "gap", "method",
        "tail_share",
    )  # fmt: skip
    return {name: getattr(found, name) for name in names}


def power(given: float | None, held: CoresetFile) -> float:
    """The power asked for, that of the build, or 2."""
    return float(given if given is not None else held.metadata.get("p") or 2)


def as_built(settings: DataSettings, held: CoresetFile) -> DataSettings:
    """The settings with what the build has read of its table, where nothing else is asked for and the table has it.

    A file of the name of the build's table is read as that was. Of another table the columns are known by their names,
    if it has names; those of arrays are numbers, which may mean anything.
    """
    check_table(settings)
    known = held.metadata
    if "data" not in known:
        return settings
    given = {field: getattr(settings, field) for field in DataSettings.__dataclass_fields__}
    names, same = header(settings.data), known["data"] in (settings.data, Path(settings.data).name)
    array = names is None and settings.data.endswith((".npz", ".pt", ".pth"))
    if same and settings.key is None:
        given["key"] = known.get("key")
    if settings.columns is None and "columns" in known and (same or not (array or settings.key is not None)):
        given["columns"] = list(known["columns"])
    weights = known.get("row_weights")
    if weights is None:
        return DataSettings(**given)
    if settings.weights is None and (same or (names is not None and str(weights) in names)):
        given["weights"] = weights
        note(f"note: rows are weighted by {weights!r}, as in the build.", quiet=settings.quiet)
    elif settings.weights is None:
        note(f"warning: the build weighted its rows by {weights!r}, which {settings.data} lacks: its rows count alike.")
    if settings.weights_are is None and str(given["weights"]) == str(weights):
        given["weights_are"] = known.get("row_weights_are")
    return DataSettings(**given)


def check_columns(held: CoresetFile, table: Table, name: str) -> None:
    """Raise unless rows and points can be compared."""
    if table.source.dimension != held.points.shape[1]:
        raise UsageError(
            f"DATA: {table.name} has {table.source.dimension} features, and the points of {name} have "
            f"{held.points.shape[1]}; expected as many. Choose columns as in the build: --columns, --label, --weights."
        )


def fresh_rows(held: CoresetFile, table: Table, *, quiet: bool) -> Source:
    """Rows of the table that the build has not seen: those held out of it, or all rows of another table."""
    fingerprint = held.metadata.get("data_mark")
    if fingerprint is None or fingerprint != table.fingerprint:
        return table.source
    share = held.metadata.get("hold_out")
    if share:
        note(f"note: {table.name} is the table of the build; its held-out rows ({share:g}) are used.", quiet=quiet)
        return tc.hold_out(table.source, float(share), seed=int(held.metadata["seed"]))[1]
    note(
        f"warning: {table.name} built this coreset, so the interval is too low. Certify on other rows, or build with "
        "--hold-out 0.5."
    )
    return table.source
