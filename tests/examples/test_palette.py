"""Palettes with colours that are used equally (examples/palette.py)."""

from pathlib import Path

import pytest
import torch

for package in ("matplotlib", "sklearn", "tqdm", "yaml", "PIL"):
    pytest.importorskip(package)


def test_both_errors_by_hand() -> None:
    import palette

    # Four pixels, three of them black: with equal use one of these has to be white, 255 away in each channel.
    pixels = torch.tensor([[0.0] * 3, [0.0] * 3, [0.0] * 3, [255.0] * 3])
    found = palette.judge(pixels[2:], pixels)
    assert found["nearest"] == pytest.approx(0, abs=1e-2)
    assert found["equal"] == pytest.approx((3 * 255**2 / 4) ** 0.5)
    assert found["least_used"] == 0.5


def test_median_cut_halves_at_the_median() -> None:
    import palette

    grey = torch.tensor([0.0] * 4 + [200.0] * 4)[:, None].expand(8, 3)
    assert sorted(palette.median_cut(grey, 2)[:, 0].tolist()) == [0, 200]
    assert len(palette.median_cut(grey, 5)) == 2  # no box is left that could be cut


@pytest.mark.slow
def test_small_form_shows_what_equal_weights_cost_and_buy(tmp_path: Path) -> None:
    import palette

    found = palette.main(["--small", "--out", str(tmp_path)])
    held = {(row["method"], row["size"]): row for row in found}
    for size in (4, 8):
        equal, free = held["equal weights", size], held["free weights", size]
        assert equal["equal"] < 0.8 * free["equal"]
        assert equal["nearest"] > free["nearest"]
        assert free["nearest"] < held["median cut", size]["nearest"]
    assert (tmp_path / "palette.svg").stat().st_size > 10_000
