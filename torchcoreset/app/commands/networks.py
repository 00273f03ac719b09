"""The network of `push`: a module or function from code that the user has named, or a program that torch has saved."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...archives import load_tensors
from ...errors import meant, no_file
from ..settings import UsageError

EXPORTED = (".pt2",)  # torch.export.save
SCRIPTS = (".pt", ".pth", ".ts")  # torch.jit.save

Network = Callable[[Tensor], Any]


def load_network(where: str, state: str | None) -> Network:
    """A module or function by the place of its code, which is run, or a saved program; and its weights, as data."""
    if Path(where).suffix.lower() in (*EXPORTED, *SCRIPTS):
        if state is not None:
            raise UsageError("--state: given with a saved program, which holds its weights; leave it out.")
        return _program(Path(where))
    place, _, name = where.rpartition(":")
    if not place or not name:
        raise UsageError(
            f"--network: got {where!r}; expected FILE.py:NAME or MODULE:NAME, or a saved program, FILE.pt2 or FILE.pt."
        )
    module = _module(place)
    network = getattr(module, name, None)
    if isinstance(network, type) and issubclass(network, nn.Module):
        network = network()
    if not callable(network):
        raise UsageError(
            f"--network: {place} has no module or function called {name!r}{meant(name, vars(module), '.')}"
        )
    if isinstance(network, nn.Module):
        network.eval()
    if state is not None:
        _load_state(network, state)
    found: Network = network
    return found


def _program(path: Path) -> Network:
    """What torch.export.save or torch.jit.save has written, whose code is run, for rows of any precision."""
    if not path.is_file():
        raise UsageError(f"--network: {no_file(path)}")
    dtype: torch.dtype | None
    if path.suffix.lower() in EXPORTED:
        try:
            exported = torch.export.load(path)
        except Exception as error:  # of many kinds, by zip, json and torch
            raise UsageError(f"--network: {path} is not a program by torch.export.save ({error}).") from error
        inputs = [node for node in exported.graph.nodes if node.name in exported.graph_signature.user_inputs]
        if len(inputs) != 1:
            raise UsageError(f"--network: {path} takes {len(inputs)} inputs; expected one, the rows (m, d).")
        rows = inputs[0].meta["val"]
        if isinstance(rows.shape[0], int):
            raise UsageError(
                f"--network: {path} takes {rows.shape[0]} rows at a time; expected any number. Export it with "
                "dynamic_shapes=({0: torch.export.Dim('rows')},)."
            )
        network, dtype = exported.module(), rows.dtype
    else:
        try:
            network = torch.jit.load(path, map_location="cpu").eval()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise UsageError(
                f"--network: {path} is not a program by torch.jit.save. Weights alone, a state_dict, go with the code "
                "of their network: --network FILE.py:NAME --state FILE.pt."
            ) from error
        dtype = next((tensor.dtype for tensor in network.parameters() if tensor.is_floating_point()), None)
    return lambda rows: network(rows if dtype is None else rows.to(dtype))


def _module(place: str) -> Any:
    if not place.endswith(".py"):
        try:
            return importlib.import_module(place)
        except ImportError as error:
            raise UsageError(f"--network: {place!r} cannot be imported ({error}).") from error
    path = Path(place)
    if not path.is_file():
        raise UsageError(f"--network: {no_file(place)}")
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
        raise UsageError(f"--state: {no_file(state)}")
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
