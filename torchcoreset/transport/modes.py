"""The modes of torch that a solve must not inherit from its caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch


@contextmanager
def plain_modes() -> Iterator[None]:
    """No graph, tensors that may be kept and written to, and every product in the dtype of its factors.

    Inference tensors could not take part in a later backward pass. Autocast would look for the nearest points in half
    precision: what is summed over other cells is no lower bound.
    """
    with torch.inference_mode(False), torch.no_grad(), _no_autocast("cpu"), _no_autocast("cuda"):
        yield


def _no_autocast(device: str) -> AbstractContextManager[object]:
    """Autocast switched off where it is on: to enter and leave it takes as long as a small product."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()
