"""`torchcoreset push`: the image of a coreset under a network, and how far it is from the image of the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import Tensor, nn

import torchcoreset as tc

from ..files import CoresetFile, check_out, read_coreset, write_coreset
from ..outcome import Outcome
from ..settings import Common, DataSettings, PushSettings, UsageError
from .certify import certificate_record, check_columns, fresh_rows, power, read_as_built
from .networks import load_network

_COMMON = tuple(field.name for field in fields(Common))


def run(settings: PushSettings) -> Outcome:
    """Map, certify if there are data, write."""
    check_out(Path(settings.out), "--out")
    of_data = [field.name for field in fields(DataSettings) if field.name not in ("data", *_COMMON)]
    given = [f"--{name.replace('_', '-')}" for name in of_data if getattr(settings, name) is not None]
    if given and not settings.data:
        raise UsageError(f"{', '.join(given)}: given without --data; expected it with the table that it speaks of.")
    held = read_coreset(settings.coreset)
    network = load_network(settings.network, settings.state)
    if isinstance(network, nn.Module):  # rows of a table and weights of a network often differ in precision
        network.to(held.points.dtype)
    try:
        image = held.coreset().pushforward(network, seed=settings.seed)
    except (RuntimeError, AssertionError) as error:  # from the network's own code, such as layers of another width
        raise UsageError(
            f"--network: it fails on the {held.points.shape[1]} columns of the points ({error})."
        ) from error
    p = power(None, held)
    metadata: dict[str, Any] = {
        "format": 1,
        "version": version("torchcoreset"),
        "size": image.size,
        "dimension": image.points.shape[1],
        "p": p,
        "seed": settings.seed,
        "network": settings.network,
        "pushed_from": Path(settings.coreset).name,
        "columns": [f"x{k}" for k in range(image.points.shape[1])],
        "label": held.metadata.get("label"),
        "label_kind": held.metadata.get("label_kind"),
    }
    lines = [f"{image.size} points, from {held.points.shape[1]} columns to {image.points.shape[1]}"]
    if settings.data:
        found = _certified(settings, held, network, p)
        metadata["certificate"] = certificate_record(found.image)
        lines.append(
            f"{found.lower:.6g} <= W{p:g}(image of the points, image of the data) <= {found.upper:.6g}   "
            f"with confidence {settings.confidence:g}, from {found.image.samples:,} rows"
        )
    write_coreset(Path(settings.out), CoresetFile(image.points.detach(), image.weights, held.labels, metadata))
    lines.append(f"written  {settings.out}")
    return Outcome({"command": "push", **metadata, "out": settings.out}, lines)


def _certified(
    settings: PushSettings, held: CoresetFile, network: Callable[[Tensor], Any], p: float
) -> tc.PushforwardCertificate:
    """The interval for the images, in the units of the data: networks are fed with those."""
    table = read_as_built(settings, held)
    check_columns(held, table, settings.coreset)
    fresh = fresh_rows(held, table, quiet=settings.quiet)
    return tc.certify_pushforward(
        held.coreset(), fresh, network, p, settings.confidence, settings.samples, seed=settings.seed
    )
