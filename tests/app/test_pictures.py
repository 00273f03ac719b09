"""Pictures of cells, bounds and certificates: written, of the right places, and refused where they make no sense."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

import torchcoreset as tc
from torchcoreset.app.pictures import _raster, draw_bounds, draw_cells, draw_certificates

DATA = torch.randn(2000, 2, generator=torch.Generator().manual_seed(0))


def colours(path) -> int:
    picture = np.asarray(Image.open(path).convert("RGB"))
    assert min(picture.shape[:2]) > 400
    return len(np.unique(picture.reshape(-1, 3), axis=0))


def test_cells(tmp_path) -> None:
    result = tc.build_coreset(DATA, 12)
    draw_cells(
        tmp_path / "new" / "cells.png",
        DATA.numpy(),
        result.coreset.points.detach().numpy(),
        result.transport.potential.numpy(),
    )
    assert colours(tmp_path / "new" / "cells.png") > 100


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_the_cells_drawn_are_those_of_the_transport(p: float) -> None:
    plan = tc.transport(DATA[:6], DATA, p=p)
    low, high = DATA.min(0).values.numpy(), DATA.max(0).values.numpy()
    cells = _raster(low, high, DATA[:6].numpy(), plan.potential.numpy(), p, pixels=400)
    place = np.rint((DATA.numpy() - low) / (high - low) * 399).astype(int)
    drawn = cells[place[:, 1], place[:, 0]]
    assert (drawn == plan.assignment.numpy()).mean() > 0.97  # all but those on an edge


def test_cells_are_drawn_in_the_plane_only(tmp_path) -> None:
    with pytest.raises(ValueError, match="data: got 3 columns and points with 3; expected 2"):
        draw_cells(tmp_path / "cells.png", np.zeros((5, 3)), np.zeros((2, 3)), np.zeros(2))


def test_bounds_and_certificates(tmp_path) -> None:
    history = tc.build_coreset(DATA, 12, init="random").history
    draw_bounds(
        tmp_path / "bounds.png",
        np.array([step.value for step in history]),
        np.array([step.lower for step in history]),
    )
    draw_certificates(tmp_path / "sizes.png", [20, 10, 40], [0.2, 0.31, 0.1], [0.21, 0.33, 0.12], epsilon=0.15)
    assert colours(tmp_path / "bounds.png") > 20
    assert colours(tmp_path / "sizes.png") > 20
