"""`torchcoreset push`: the image of a coreset under a network, and how far it is from the image of the data."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import Tensor, nn

import torchcoreset as tc

from ...archives import load_tensors
from ..files import CoresetFile, DataSettings, check_out, read_coreset, write_coreset
from ..outcome import Outcome
from ..settings import Common, UsageError, Writes, argument, option
from .certify import certificate_record, check_columns, fresh_rows, power, read_as_built

_COMMON = tuple(field.name for field in fields(Common))


@dataclass(frozen=True, kw_only=True)
class PushSettings(Writes, DataSettings):
    """Settings of `push`."""

    coreset: str = argument("coreset file to map")
    network: str = option("FILE.py:NAME or MODULE:NAME, a module or function of rows; its code is run", metavar="WHERE")
    state: str | None = option(".pt file with the state_dict of the network", None, metavar="FILE")
    out: str = option("file to write: .npz, .pt, .safetensors, .csv or .parquet", "image.npz", metavar="FILE")
    data: str = option("table of fresh rows: certifies the image on them", "", metavar="FILE")
    confidence: float = option("with --data: of the interval", 0.95)
    samples: int = option("with --data: most rows for the interval", 100_000, metavar="N")
    seed: int = option("of all random numbers", 0, metavar="N")


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
    except RuntimeError as error:  # from the network's own code, such as layers of another width
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


def load_network(where: str, state: str | None) -> Callable[[Tensor], Any]:
    """A module or function by the place of its code, which the user has named and which is run; weights as data."""
    place, _, name = where.rpartition(":")
    if not place or not name:
        raise UsageError(f"--network: got {where!r}; expected FILE.py:NAME or MODULE:NAME.")
    network = getattr(_module(place), name, None)
    if isinstance(network, type) and issubclass(network, nn.Module):
        network = network()
    if not callable(network):
        raise UsageError(f"--network: {place} has no module or function called {name!r}.")
    if isinstance(network, nn.Module):
        network.eval()
    if state is not None:
        _load_state(network, state)
    found: Callable[[Tensor], Any] = network
    return found


def _module(place: str) -> Any:
    if not place.endswith(".py"):
        try:
            return importlib.import_module(place)
        except ImportError as error:
            raise UsageError(f"--network: {place!r} cannot be imported ({error}).") from error
    path = Path(place)
    if not path.is_file():
        raise UsageError(f"--network: there is no file {place!r}.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # dataclasses and pickled types look themselves up there
    spec.loader.exec_module(module)
    return module


def _load_state(network: Any, state: str) -> None:
    if not isinstance(network, nn.Module):
        raise UsageError("--state: the network is a function; expected a module, which has a state_dict.")
    if not Path(state).is_file():
        raise UsageError(f"--state: there is no file {state!r}.")
    try:
        held = load_tensors(state)
    except Exception as error:  # torch raises pickle, zip and its own errors, some of which advise to trust the file
        raise UsageError(
            f"--state: {state} is not a .pt file of plain tensors; save `network.state_dict()`."
        ) from error
    try:
        network.load_state_dict(held)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise UsageError(f"--state: {state} does not fit the network ({error}).") from error
