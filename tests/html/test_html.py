"""What notebooks show: well-formed, escaped, and drawn of whatever numbers there are."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import torchcoreset as tc
from torchcoreset.html import card, draw_interval, draw_points, draw_steps

pytestmark = pytest.mark.usefixtures("two_starts")
PLANE = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))


def marks(svg: str) -> np.ndarray:
    """Places and radii of what is drawn, (n, 3), all of them within the picture."""
    root = ElementTree.fromstring(svg)
    found = [[float(mark.get(key, "nan")) for key in ("cx", "cy", "r")] for mark in root.iter() if "circle" in mark.tag]
    places = np.array(found)
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    assert (places[:, :2] >= 0).all()
    assert (places[:, :2] <= [width, height]).all()
    return places


@pytest.mark.parametrize(
    "points",
    [
        PLANE,
        PLANE[:, :1],
        torch.randn(700, 5),
        PLANE[:1],
        PLANE[:1].expand(4, 2),
        1e6 + PLANE.double(),
        torch.distributions.Cauchy(0.0, 1e30).sample((50, 3)),
        torch.rand(3, 784),
    ],
)
def test_points_of_any_kind_are_drawn(points: torch.Tensor) -> None:
    drawn = marks(draw_points(points, torch.full((len(points),), 1 / len(points))))
    assert len(drawn) == min(len(points), 500)


def test_areas_are_weights_and_up_is_up() -> None:
    low, high = marks(draw_points(torch.tensor([[0.0, 0.0], [1.0, 2.0]]), torch.tensor([0.01, 0.04])))
    few = marks(draw_points(PLANE, torch.arange(300.0) + 100))
    assert few[200, 2] ** 2 / few[100, 2] ** 2 == pytest.approx(300 / 200, rel=0.1)
    assert high[0] > low[0]
    assert high[1] < low[1]


def test_what_cannot_be_drawn_is_left_out() -> None:
    assert draw_points(PLANE * torch.nan, torch.ones(300)) == ""
    assert draw_interval(0.0, float("inf"), "W") == ""
    assert draw_interval(float("nan"), 1.0, "W") == ""
    assert draw_steps([1.0], "value") == draw_steps([float("nan")] * 3, "value") == ""
    ElementTree.fromstring(draw_steps([2.0, 1.0, float("nan"), 1.0], "value"))
    ElementTree.fromstring(draw_interval(0.0, 0.0, "W"))


def test_text_is_escaped() -> None:
    html = card("<b>", {"a & b": "<script>"}, "")
    ElementTree.fromstring(html)
    assert "<script>" not in html


def test_results_show_themselves() -> None:
    result = tc.build_coreset(PLANE, 4, scale="standard")
    shown = [
        result,
        result.coreset,
        result.transport,
        tc.build_coreset(PLANE, 3, divergence="energy", steps=3),
        tc.certify(result.coreset, torch.rand(500, 2)),
        tc.build_labeled_coreset(PLANE, ["<a>"] * 100 + ["b"] * 200, 4),
        tc.Coreset(PLANE[:3], learn_weights=True),
    ]
    for one in shown:
        ElementTree.fromstring(one._repr_html_())
    assert f"{result.distance:.6g}" in result._repr_html_()
    assert "standard deviations of the columns" in result._repr_html_()


def test_pictures_take_a_coreset_without_detaching() -> None:
    """As `plt.scatter(*np.asarray(coreset).T)` and `plt.scatter(*result.points.T)` read them."""
    result = tc.build_coreset(PLANE, 4)
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = figure.subplots()
    for points in (np.asarray(result.coreset), result.points):
        drawn = axes.scatter(*points.T).get_offsets()
        assert np.asarray(drawn) == pytest.approx(result.coreset.points.detach().numpy())


def test_a_certificate_has_both_scales() -> None:
    coreset = tc.Coreset(PLANE[:5])
    for p in (1, 2, 3):
        found = tc.certify(coreset, torch.randn(400, 2, generator=torch.Generator().manual_seed(1)), p)
        assert found.lower <= found.distance <= found.upper
        assert found.cost_lower <= found.dual <= found.value <= found.cost_upper
        assert found.cost_upper == pytest.approx(found.upper**p)
        assert found.distance == pytest.approx(found.value ** (1 / p))
