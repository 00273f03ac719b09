"""Tables to try a command on, without a file: `example:ring` and `example:digits`."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import nearest
from ..settings import UsageError

PREFIX = "example:"
NAMES = ("ring", "digits")


def example_table(name: str) -> dict[str, NDArray[np.float32]]:
    """Columns by name, of which the last, "label", is the label of each row.

    "ring": 4,000 samples of eight equally likely Gaussians on a circle. "digits": scikit-learn's 1,797 handwritten
    digits of 8 x 8 pixels.
    """
    if name == "ring":
        generator = torch.Generator().manual_seed(0)
        label = torch.arange(4000, device="cpu") % 8
        angle = label * (math.pi / 4)
        noise = torch.randn(4000, 2, generator=generator, device="cpu")
        rows = 4 * torch.stack((angle.cos(), angle.sin()), 1) + 0.5 * noise
        return {"x": rows[:, 0].numpy(), "y": rows[:, 1].numpy(), "label": label.float().numpy()}
    if name == "digits":
        try:
            from sklearn.datasets import load_digits
        except ImportError as error:
            raise UsageError("example:digits needs scikit-learn: pip install 'torchcoreset[sklearn]'.") from error
        images, digit = load_digits(return_X_y=True)
        columns = {f"pixel{k}": images[:, k].astype(np.float32) for k in range(images.shape[1])}
        return {**columns, "label": digit.astype(np.float32)}
    raise UsageError(f"DATA: there is no {PREFIX}{name}{nearest(name, NAMES)}")
