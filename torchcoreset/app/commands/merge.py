"""`torchcoreset merge`: coresets of parts of the data become one, and the bound that follows from theirs."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

import torchcoreset as tc

from ...transport import as_cost
from ..files import CoresetFile, check_out, read_coreset, write_coreset
from ..outcome import Outcome
from ..settings import MergeSettings, UsageError
from .certify import power


def run(settings: MergeSettings) -> Outcome:
    """Read the parts, merge them, say how far the result can be from their rows, write it."""
    if not settings.coresets:
        raise UsageError("merge: got no coreset files; name those of the parts.")
    held = [read_coreset(name) for name in settings.coresets]
    check_out(Path(settings.out), "--out", held[0].columns)
    p = _power(settings.coresets, held)
    masses, rows = _masses(settings, held)
    build: dict[str, Any] = {"restarts": settings.restarts, "tolerance": settings.tolerance, "seed": settings.seed}
    merged = tc.merge(
        [_part(one) for one in held], masses, settings.size, p=p, progress=False if settings.quiet else None, **build
    )
    bound, scaling = merged.bound, held[0].scaling
    unit = "" if scaling is None else f", in {scaling.words}"
    record: dict[str, Any] = {
        "format": 1,
        "version": version("torchcoreset"),
        "size": merged.coreset.size,
        "dimension": merged.coreset.points.shape[1],
        "p": p,
        "bounds": [0.0, None] if bound is None else [bound.lower, bound.upper],
        "bias": None if bound is None or not as_cost(p).mean_is_best else bound.bias,
        "distance_unit": "the data's own" if scaling is None else scaling.words,
        "seed": settings.seed,
        "merged_from": [Path(name).name for name in settings.coresets],
        "masses": masses,
        "rows": rows,
        "data_mark": merged.coreset.built_on,
        "columns": held[0].columns,
        "label": held[0].metadata.get("label"),
        "label_kind": held[0].metadata.get("label_kind"),
        "scaling": held[0].metadata.get("scaling"),
    }
    parts = f"{len(held)} file{'' if len(held) == 1 else 's'}"
    lines = [f"{merged.coreset.size} points for the {merged.union.size} of {parts}"]
    if merged.transport is not None:
        lines.append(f"W{p:g} to these points: {merged.distance:.6g}{unit}")
    if bound is None:
        unknown = next(name for name, one in zip(settings.coresets, held, strict=True) if _distance(one) is None)
        lines.append(f"no bound: {unknown} does not say how far it is from all its rows.")
    else:
        lines.append(
            f"W{p:g} to the rows of the parts: at most {bound.upper:.6g}, and at least {bound.lower:.6g}{unit}"
        )
    labels = None if merged.labeled is None else merged.labeled.labels
    result = CoresetFile(merged.coreset.points.detach(), merged.coreset.weights, labels, record)
    write_coreset(Path(settings.out), result)
    lines.append(f"written  {settings.out}")
    return Outcome({"command": "merge", **record, "out": settings.out}, lines)


def _distance(held: CoresetFile) -> float | None:
    """What W_p to the rows of its build does not exceed, if its file says so."""
    # The bounds of an interrupted run are those of its points before the last step; trimmed ones leave rows out.
    if held.metadata.get("status") == "interrupted" or held.metadata.get("trim"):
        return None
    bound: float | None = (held.metadata.get("bounds") or (None, None))[1]
    return bound


def _part(held: CoresetFile) -> Any:
    """A file as `merge` takes it: with its labels, units, origin and bound."""
    coreset: Any = held.coreset()
    coreset.weights.copy_(held.weights)  # normalising again would change the last digits
    coreset.scaling, coreset.built_on = held.scaling, held.metadata.get("data_mark")
    if held.labels is not None:
        classes, place = np.unique(held.labels, return_inverse=True)
        coreset = tc.LabeledCoreset(coreset, classes, torch.from_numpy(place.astype(np.int64)), ())
    upper, bias = _distance(held), held.metadata.get("bias")
    if upper is None:
        return coreset
    known = upper if bias is None else min(max(float(bias), 0.0), upper)
    return coreset, tc.PartBound(share=1.0, upper=upper, confidence=1.0, of="given", bias=known)


def _power(names: list[str], held: list[CoresetFile]) -> float:
    """The power that all files are of, whose columns have to be the same too."""
    wanted = power(None, held[0])
    for name, one in zip(names[1:], held[1:], strict=True):
        own = power(None, one)
        if own != wanted:
            raise UsageError(
                f"{name} is of p={own:g}, and {names[0]} of p={wanted:g}; expected one power. Build all with "
                "the same --p."
            )
        if one.columns != held[0].columns:
            here, first = (", ".join(file.columns[:8]) for file in (one, held[0]))
            raise UsageError(
                f"{name} has the columns {here}, and {names[0]} has {first}; "
                "expected the same in the same order. Build all with the same --columns."
            )
    return wanted


def _masses(settings: MergeSettings, held: list[CoresetFile]) -> tuple[list[float] | None, int | None]:
    """Masses of the parts, None for equal ones; and their rows together, where these are the masses."""
    if settings.masses is None:
        return None, None
    if settings.masses == "rows":
        rows: list[int] = []
        for name, one in zip(settings.coresets, held, strict=True):
            count = one.metadata.get("rows")
            if not isinstance(count, int) or count < 1:
                raise UsageError(f"--masses: {name} does not say of how many rows it is; expected numbers: 0.7,0.3.")
            rows.append(count)
        return [float(count) for count in rows], sum(rows)
    try:
        masses = [float(word) for word in settings.masses.split(",")]
    except ValueError as error:
        raise UsageError(f"--masses: got {settings.masses!r}; expected numbers, such as 0.7,0.3, or 'rows'.") from error
    if len(masses) != len(held):
        raise UsageError(f"--masses: got {len(masses)} for {len(held)} files; expected one for each.")
    return masses, None
