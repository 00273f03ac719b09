"""`torchcoreset certify`: an interval for the distance to the population, from rows that the build has not seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import torchcoreset as tc

from ...sources import Source, Table, scaled
from ..files import CoresetFile, check_table, header, read_coreset, read_table
from ..outcome import NOT_REACHED, OK, Outcome, note, unit_of
from ..settings import CertifySettings, DataSettings, UsageError


def run(settings: CertifySettings) -> Outcome:
    """Certify and say what was found."""
    held = read_coreset(settings.coreset)
    table = read_as_built(settings, held)
    check_columns(held, table, settings.coreset)
    p = power(settings.p, held)
    trim = float(held.metadata.get("trim") or 0.0) if settings.trim is None else settings.trim
    if trim and settings.trim is None:
        note(f"note: the farthest {trim:.3g} of the rows may stay unmatched, as in the build.", quiet=settings.quiet)
    source = scaled(fresh_rows(held, table, quiet=settings.quiet), held.scaling)
    found = tc.certify(
        held.coreset(held.scaling),
        source,
        p,
        settings.confidence,
        settings.samples,
        bound=settings.bound,
        trim=trim,
        seed=settings.seed,
    )
    words = None if held.scaling is None else held.scaling.words
    unit = unit_of(held.columns, words if held.cost is None else found.unit)
    used, size = found.samples + found.potential_samples, source.size
    left_out = f", without the farthest {trim:.3g}" if trim else ""
    left = "" if size is None or used >= size else f", of {size:,}"
    asymptotic = found.asymptotic.removeprefix("nothing: ")
    lines = [
        f"{found.lower:.6g} <= W{p:g} <= {found.upper:.6g}   with confidence {found.confidence:g}, in {unit}{left_out}",
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
        "tail_share", "trim",
    )  # fmt: skip
    return {name: getattr(found, name) for name in names}


def power(given: float | None, held: CoresetFile) -> float:
    """The power asked for, that of the build, or 2."""
    return float(given if given is not None else held.metadata.get("p") or 2)


def read_as_built(settings: DataSettings, held: CoresetFile) -> Table:
    """The table, read as in the build where nothing else is asked for and the table has the columns.

    A file of the name of the build's table is read as that was. Of another table the columns are known by their names,
    if it has names; those of arrays are numbers, which may mean anything.
    """
    check_table(settings)
    read = _read_of(held.metadata)
    if not read:
        return read_table(settings)
    same = held.metadata.get("data") in (settings.data, Path(settings.data).name)
    names = None if same else header(settings)
    arrays = names is None and (settings.key is not None or settings.data.endswith((".npz", ".pt", ".pth")))
    given: dict[str, Any] = {field.name: getattr(settings, field.name) for field in fields(DataSettings)}
    for field, value in read.items():
        if field not in given or given[field] is not None:
            continue
        fits = same or field == "dates" or (field == "columns" and not arrays)
        if fits or (names is not None and field in ("label", "weights", "id") and value in names):
            given[field] = value
    weights = read.get("weights")
    if weights is not None and settings.weights is None:
        if given["weights"] is not None:
            note(f"note: rows are weighted by {weights!r}, as in the build.", quiet=settings.quiet)
        else:
            note(f"warning: the build weighted rows by {weights!r}, which {settings.data} lacks: its rows count alike.")
    if weights is not None and given["weights_are"] is None and str(given["weights"]) == str(weights):
        given["weights_are"] = read.get("weights_are")
    if "categories" in read and given["one_hot"] is None:
        given["one_hot"] = read["one_hot"]
    return read_table(DataSettings(**given), read.get("categories"))


def _read_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What the build was told of its table, by the names of the settings."""
    if "read" in metadata or "data" not in metadata:
        return dict(metadata.get("read", {}))
    old = {"columns": "columns", "key": "key", "weights": "row_weights", "weights_are": "row_weights_are"}
    return {field: metadata[key] for field, key in old.items() if metadata.get(key) is not None}


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
    if fingerprint is None or table.fingerprint not in fingerprint.split():
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
