"""Pictures: rendered, of the right places, and refused where they make no sense."""

from __future__ import annotations

import io
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import torchcoreset as tc
from torchcoreset import pictures

pytest.importorskip("matplotlib")

pytestmark = pytest.mark.usefixtures("two_starts")

DATA = torch.randn(2000, 2, generator=torch.Generator().manual_seed(0))
WIDE = torch.randn(1000, 12, generator=torch.Generator().manual_seed(1)) * torch.arange(1.0, 13)


@dataclass
class Certified:
    lower: float
    upper: float
    p: float = 2.0


@dataclass
class Bounds:
    value: float
    lower: float


def rendered(figure) -> np.ndarray:
    """The pixels, (height, width, 3); no text or mark lies outside the picture."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    pixels = np.asarray(Image.open(buffer).convert("RGB"))
    assert min(pixels.shape[:2]) > 300
    assert (pixels[[0, -1]] == 255).all()
    assert (pixels[:, [0, -1]] == 255).all()
    return pixels


def has(pixels: np.ndarray, colour: str) -> bool:
    rgb = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
    return bool((np.abs(pixels.astype(int) - rgb).max(-1) <= 3).any())


RED, BLUE, GREY = "#d1495b", "#2e6f95", "#c9c9c9"


@pytest.fixture(scope="module")
def result() -> tc.BuildResult:
    return tc.build_coreset(DATA, 12)


@pytest.mark.slow
def test_cells(result) -> None:
    pixels = rendered(pictures.draw_cells(result.coreset, DATA, result.transport.potential))
    assert has(pixels, RED)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 100


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_the_cells_drawn_are_those_of_the_transport(p: float) -> None:
    from torchcoreset.pictures.cells import _raster

    plan = tc.transport(DATA[:6], DATA, p=p)
    low, high = DATA.min(0).values.numpy(), DATA.max(0).values.numpy()
    cells = _raster(low, high, DATA[:6].numpy(), plan.potential.numpy(), p, pixels=400)
    place = np.rint((DATA.numpy() - low) / (high - low) * 399).astype(int)
    drawn = cells[place[:, 1], place[:, 0]]
    assert (drawn == plan.assignment.numpy()).mean() > 0.97  # all but those on an edge


@pytest.mark.parametrize("d", [1, 2, 3, 12])
def test_a_coreset_over_its_data_in_any_dimension(d: int) -> None:
    weights = torch.tensor([0.5, 0.3, 0.1, 0.1])
    for coreset in (tc.Coreset(WIDE[:4, :d], weights), WIDE[:4, :d], WIDE[:4, :d].numpy()):
        figure = pictures.draw_coreset(coreset, WIDE[:, :d], columns=[f"c{k}" for k in range(d)])
        assert has(rendered(figure), RED)
    axis = figure.axes[0]
    assert axis.get_title() == "4 points for 1,000 rows"
    assert ("of the variance" in axis.get_xlabel()) == (d > 2)


def test_marks_are_as_large_as_weights() -> None:
    figure = pictures.draw_coreset(tc.Coreset(DATA[:2], torch.tensor([0.75, 0.25])), DATA)
    sizes = figure.axes[0].collections[-1].get_sizes()
    assert sizes[0] == pytest.approx(3 * sizes[1])


def test_distribution_functions_on_the_line() -> None:
    figure = pictures.draw_coreset(torch.tensor([[3.0], [1.0]]), torch.tensor([[0.0], [2.0], [4.0]]))
    steps = figure.axes[0].patches[0].get_data()
    assert steps.values.tolist() == [0, 0.5, 1]
    assert steps.edges[1:3].tolist() == [1, 3]


@pytest.mark.slow
def test_pairs_take_the_widest_columns() -> None:
    figure = pictures.draw_pairs(WIDE[:5], WIDE)
    assert [axis.get_xlabel() for axis in figure.axes if axis.get_xlabel()] == [f"column {k}" for k in range(7, 12)]
    assert has(rendered(figure), RED)
    few = pictures.draw_pairs(WIDE[:5], WIDE, of=[0, 2], columns=list("abcdefghijkl"))
    assert [axis.get_xlabel() for axis in few.axes if axis.get_xlabel()] == ["a", "c"]


def test_images_hold_every_point_once() -> None:
    points = torch.arange(6.0)[:, None].expand(6, 12) + 1
    figure = pictures.draw_images(points, (3, 4), title="six")
    grid = figure.axes[0].images[0].get_array()
    assert [int((grid == level).sum()) for level in range(2, 7)] == [12] * 5
    rendered(figure)


def test_images_of_a_label_share_no_line_with_others() -> None:
    points = torch.arange(7.0)[:, None].expand(7, 12) + 1
    labels = ["b", "a", "b", "c", "b", "b", "a"]
    figure = pictures.draw_images(points, (3, 4), labels=labels)
    axis, grid = figure.axes[0], figure.axes[0].images[0].get_array()
    assert [text.get_text() for text in axis.get_yticklabels()] == ["a", "b", "c"]
    lines = {label: set() for label in labels}
    for place in range(1, len(labels)):  # of the first, black is the colour between images, too
        lines[labels[place]].update(np.unique(np.nonzero(grid == place + 1)[0]).tolist())
    assert max(lines["a"]) < min(lines["b"]) <= max(lines["b"]) < min(lines["c"])
    labeled = tc.LabeledCoreset(tc.Coreset(points), np.array(["a", "b"]), torch.tensor([0, 1, 1, 0, 1, 1, 0]), ())
    assert [t.get_text() for t in pictures.draw_images(labeled, (3, 4)).axes[0].get_yticklabels()] == ["a", "b"]
    rendered(figure)


def test_columns_by_name() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(WIDE[:200, :4].numpy(), columns=["height", "weight", "age", "income"])
    for data, columns in ((frame, None), (WIDE[:200, :4], list(frame.columns))):
        figure = pictures.draw_pairs(WIDE[:5, :4], data, of=["age", "height"], columns=columns)
        assert [axis.get_xlabel() for axis in figure.axes if axis.get_xlabel()] == ["age", "height"]
    axis = pictures.draw_coreset(WIDE[:5, :2], frame[["height", "weight"]]).axes[0]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("height", "weight")


def test_the_chosen_size_is_marked() -> None:
    answer = SimpleNamespace(tried=[(20, Certified(0.2, 0.21)), (10, Certified(0.31, 0.33))], size=20, epsilon=0.25)
    axis = pictures.draw_certificates(answer).axes[0]
    shown = [text.get_text() for text in axis.get_legend().get_texts()]
    assert shown == ["certified interval", "chosen: 20 points", "asked for: 0.25"]
    mark = next(line for line in axis.lines if line.get_label() == shown[1])
    assert [*mark.get_xdata(), *mark.get_ydata()] == [20, 0.21]


def test_bounds_of_a_result_are_roots_of_its_power() -> None:
    result = tc.build_coreset(DATA[:200], 4, 1, steps=2)
    for figure in (pictures.draw_bounds(result), pictures.draw_bounds(result.history, 1)):
        assert figure.axes[0].lines[0].get_ydata().tolist() == [step.value for step in result.history]


@pytest.mark.parametrize("images", [None, (3, 4)])
def test_comparison(images) -> None:
    panels = [pictures.Panel("coreset", tc.Coreset(WIDE[:6]), "W2 = 1"), pictures.Panel("random", WIDE[6:9])]
    pixels = rendered(pictures.draw_comparison(WIDE, panels, images))
    assert has(pixels, RED)
    assert has(pixels, BLUE)
    assert has(pixels, GREY)


def test_classes() -> None:
    labels = np.where(DATA[:, 0] > 0, "right", "left")
    labeled = tc.build_labeled_coreset(DATA, labels, 6)
    figure = pictures.draw_classes(labeled, labeled.labels, DATA, labels)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["left", "right"]
    rendered(figure)


def test_bounds_and_certificates() -> None:
    history = tc.build_coreset(DATA, 12, init="random").history
    assert has(rendered(pictures.draw_bounds(history)), RED)
    tried = [(20, Certified(0.2, 0.21)), (10, Certified(0.31, 0.33)), (40, Certified(0.0, 0.12))]
    figure = pictures.draw_certificates(tried, epsilon=0.15)
    assert has(rendered(figure), BLUE)
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["10", "20", "40"]


TWO, THREE = np.zeros((2, 2)), np.zeros((5, 3))


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: pictures.draw_cells(np.zeros((2, 3)), THREE, np.zeros(2)), "data: got 3 columns; expected 2"),
        (lambda: pictures.draw_cells(TWO, TWO, np.zeros(3)), "potential: got 3 numbers for 2 points"),
        (lambda: pictures.draw_coreset(TWO, THREE), "data: got 3 columns for points with 2"),
        (lambda: pictures.draw_coreset(TWO * np.nan, TWO), "coreset: got numbers that are not finite"),
        (lambda: pictures.draw_coreset(TWO, np.zeros(3)), r"data: got shape \(3,\)"),
        (lambda: pictures.draw_pairs(THREE, THREE, of=[1]), r"of: got \[1\] of 3 columns"),
        (lambda: pictures.draw_pairs(THREE, THREE, of=[1, 3]), r"of: got \[1, 3\] of 3 columns"),
        (lambda: pictures.draw_images(THREE, (2, 2)), r"image_shape: got \(2, 2\), which is 4 pixels; expected 3"),
        (lambda: pictures.draw_classes(TWO, [1], TWO, [1, 2]), r"labels: got shape \(1,\) for 2 rows"),
        (lambda: pictures.draw_classes(TWO[:, :1], [1, 2], TWO[:, :1], [1, 2]), "data: got 1 column"),
        (lambda: pictures.draw_comparison(TWO, []), "panels: got none"),
        (lambda: pictures.draw_bounds([]), "history: got no steps"),
        (lambda: pictures.draw_bounds([tc.Step(0, 1.0, 1.0, float("nan"), 5, 0.1)]), "history: got steps of sgd"),
        (lambda: pictures.draw_bounds(3), "history: got int; expected a BuildResult"),
        (lambda: pictures.draw_certificates([]), "tried: got none"),
        (lambda: pictures.draw_certificates([3]), "tried: got other things than pairs"),
        (lambda: pictures.draw_certificates([(1, Certified(1, 2))], chosen=2), "chosen: got 2; expected one of the"),
        (lambda: pictures.draw_coreset("x", TWO), "coreset: got str, which holds other things than numbers"),
        (lambda: pictures.draw_coreset(TWO, "x"), "data: got str"),
        (lambda: pictures.draw_coreset(TWO, TWO, columns=["a"]), "columns: got 1 names for 2 columns"),
        (lambda: pictures.draw_cells(TWO, TWO, None), "potential: got NoneType; expected"),
        (lambda: pictures.draw_cells(TWO, TWO, [0.0, 1.0], p="2"), "p: got '2'; expected a number >= 1"),
        (lambda: pictures.draw_pairs(THREE, THREE, of=["a"]), "of: got the name 'a' of columns without names"),
        (lambda: pictures.draw_pairs(THREE, THREE, of=["ab"], columns=["a", "b", "abc"]), "did you mean 'abc'"),
        (lambda: pictures.draw_pairs(THREE, THREE, of=[0.5]), "of: got 0.5; expected places of columns"),
        (lambda: pictures.draw_images(THREE, 3), r"image_shape: got 3; expected \(height, width\)"),
        (lambda: pictures.draw_images(THREE, (3, 1), labels=[1]), r"labels: got shape \(1,\) for 5 points"),
        (lambda: pictures.draw_comparison(TWO, [TWO]), "panels: got list; expected a list of Panel"),
        (lambda: pictures.draw_certificates([(1, Certified(1, 2, 1)), (2, Certified(1, 2, 2))]), "for p = "),
    ],
)
def test_what_cannot_be_drawn_is_said(draw, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw()


@pytest.mark.parametrize(
    "same",
    [
        torch.zeros(5, 1),
        torch.zeros(5, 2),
        pytest.param(torch.zeros(5, 4), marks=pytest.mark.slow),
        torch.zeros(1, 3),
    ],
)
def test_data_without_any_spread_are_drawn(same) -> None:
    rendered(pictures.draw_coreset(same[:1], same))
    if same.shape[1] > 1:
        rendered(pictures.draw_pairs(same[:1], same))
    if same.shape[1] == 2:
        rendered(pictures.draw_cells(same[:1], same, torch.zeros(1)))
