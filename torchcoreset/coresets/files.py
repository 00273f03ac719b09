"""Files of coresets as archives of arrays by name: written whole or not at all."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..archives import require_safetensors, suffix_of, wide
from .atomic import replacing


def write_arrays(
    path: str | Path, tensors: Mapping[str, Tensor], text: Mapping[str, str], labels: NDArray[Any] | None = None
) -> None:
    """Write tensors and text by name; a process that dies meanwhile leaves the old file, or none.

    Labels, if there are any, are numbers or text, one for each point. Text is an array of text in a .npz file, a list
    in a .pt file, and JSON in the header of a .safetensors file.
    """
    path, suffix = Path(path), suffix_of(path)
    if suffix == ".safetensors":
        require_safetensors()
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    more: dict[str, Any] = dict(text)
    if labels is not None and labels.dtype.kind != "U":
        held["labels"] = torch.from_numpy(np.ascontiguousarray(labels))
    elif labels is not None:
        more["labels"] = {".npz": labels, ".pt": labels.tolist()}.get(suffix, json.dumps(labels.tolist()))
    content = io.BytesIO()  # of which a full disk is an OSError: torch and safetensors raise others
    if suffix == ".safetensors":
        from safetensors.torch import save

        content.write(save(held, metadata=more))
    elif suffix == ".npz":
        columns: dict[str, Any] = {**{name: _array(tensor) for name, tensor in held.items()}, **more}
        np.savez(content, **columns)
    else:
        torch.save({**held, **more}, content)
    with replacing(path) as beside:
        beside.write_bytes(content.getbuffer())


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = (wide(tensor) if tensor.is_floating_point() else tensor).numpy()
    return array
