"""A coreset as a source: its points with their weights, units and origin."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import torchcoreset as tc
from tests.data import CLOUDS, Rows, cloud, normal, seeded
from torchcoreset.sources import CallableSource, DatasetSource, TensorSource, as_source, fingerprint_of, units_of

QUICK = {"restarts": 1, "tolerance": 1e-2, "steps": 10}
DATA = normal(300, 2)


def coreset_of(kind: str, n: int = 40) -> tc.Coreset:
    """Points of a cloud with very light and zero weights among them."""
    weights = torch.rand(n, generator=seeded(1), dtype=torch.float64)
    weights[0], weights[1:3] = 1e-12, 0
    return tc.Coreset(cloud(kind, n), weights)


@pytest.mark.parametrize("kind", CLOUDS)
def test_points_come_with_their_weights(kind):
    coreset = coreset_of(kind)
    source = as_source(coreset)
    rows, weights = source.materialize(None, seeded())
    assert torch.equal(rows, coreset.points)
    assert torch.allclose(weights, coreset.weights.double(), rtol=1e-15)
    assert (source.weighted, source.weights_are, source.weightless) == (True, "importance", 2)
    assert not rows.requires_grad
    assert repr(source) == f"PointsSource(size=40, dimension={rows.shape[1]}, weighted)"


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("kind", ["clusters", "cauchy", "repeated", "far", "ints"])
def test_builds_and_transports_are_those_of_a_weighted_table(kind, p):
    coreset = coreset_of(kind)
    table = as_source(coreset.points, coreset.weights)
    of_coreset, of_table = (tc.build_coreset(source, 5, p=p, **QUICK) for source in (coreset, table))
    assert torch.equal(of_coreset.coreset.points, of_table.coreset.points)
    expected = tc.transport(of_table.coreset.points, coreset.points, p, sample_weights=coreset.weights)
    assert tc.transport(of_coreset, coreset, p).value == pytest.approx(expected.value, rel=1e-6)


def test_whatever_holds_a_coreset_is_read_as_it():
    built = tc.build_coreset(DATA, 10, **QUICK)
    labeled = tc.build_labeled_coreset(DATA, (DATA[:, 0] > 0).long(), 10, **QUICK)
    for held, coreset in ((built, built.coreset), (labeled, labeled.coreset)):
        rows, weights = as_source(held).materialize(None, seeded())
        assert torch.equal(rows, coreset.points)
        assert torch.equal(weights, coreset.weights)
    again = tc.build_labeled_coreset(labeled, labeled.labels, 4, **QUICK)
    assert again.labels.tolist() == [0, 0, 1, 1]
    assert torch.allclose(again.weights, torch.tensor([0.25] * 4, dtype=torch.float64), atol=0.05)


def test_a_tiny_coreset():
    source = as_source(tc.Coreset([[1.0, 2.0]]))
    assert tc.build_coreset(source, 3, **QUICK).coreset.points.tolist() == [[1.0, 2.0]] * 3


class Network(nn.Module):
    """A sampler with attributes of a coreset's names."""

    def __init__(self) -> None:
        super().__init__()
        self.points, self.weights = nn.Parameter(torch.zeros(3, 2)), torch.ones(3)

    def forward(self, m: int) -> torch.Tensor:
        return torch.rand(m, 2)


def test_networks_and_datasets_with_such_names_are_read_as_before():
    dataset = Rows(DATA)
    dataset.points, dataset.weights = DATA[:3], torch.ones(3)
    assert type(as_source(dataset)) is DatasetSource
    holder = nn.Linear(1, 2)
    holder.coreset = tc.Coreset(DATA[:3])
    assert [type(as_source(one)) for one in (Network(), holder)] == [CallableSource] * 2
    assert type(as_source(tc.Coreset(DATA[:3]).to_dataset())) is TensorSource
    assert type(as_source(TensorDataset(DATA))) is TensorSource
    with pytest.raises(TypeError, match=r"source: got SimpleNamespace; expected a tensor, .* a coreset"):
        as_source(SimpleNamespace(points=[[1.0]], weights=[1.0]))


def test_units_go_on():
    first = tc.build_coreset(DATA * torch.tensor([1.0, 1000.0]), 20, scale="standard", **QUICK)
    scaling = first.coreset.scaling
    assert units_of(first) is units_of(as_source(first)) is scaling
    second = tc.build_coreset(first, 5, **QUICK)
    assert second.coreset.scaling is scaling
    points = [scaling.apply(built.coreset.points.detach()) for built in (second, first)]
    assert second.distance**2 == pytest.approx(tc.transport(*points).value, rel=1e-3)
    assert tc.Coreset.from_source(first, 5).scaling is scaling
    assert all(part.units is scaling for part in tc.hold_out(first))
    assert tc.build_labeled_coreset(first, [0, 1] * 10, 4, **QUICK).coreset.scaling is scaling
    own = tc.build_coreset(first, 5, scale=[1.0, 1.0], **QUICK)
    assert own.coreset.scaling.how == "numbers"
    plain = tc.build_coreset(as_source(first.coreset.points, first.coreset.weights), 5, **QUICK)
    assert plain.coreset.scaling is None


def test_units_that_do_not_fit_are_refused():
    first = tc.build_coreset(DATA, 20, scale="standard", **QUICK)
    with pytest.raises(ValueError, match=r"points: got a coreset whose distances are in standard deviations"):
        tc.transport(first, DATA)
    with pytest.raises(ValueError, match=r"source: got a coreset whose distances are in .* scale=coreset.scaling"):
        tc.certify(DATA[:5], first)
    with pytest.raises(ValueError, match=r"source: got a coreset whose distances are in .* divergences are compared"):
        tc.compare_divergences(first, 4)
    with pytest.raises(ValueError, match="sample_weights: given with a BuildResult as samples, which has its own"):
        tc.transport(DATA[:5], first, sample_weights=torch.ones(20))
    with pytest.raises(ValueError, match="weights: got weights with a BuildResult, which has its own"):
        tc.build_coreset(first, 5, sample_weights=torch.ones(20))
    with pytest.raises(ValueError, match="weights_are: got 'counts' without weights"):
        as_source(first, weights_are="counts")


def test_what_is_built_of_a_coreset_is_known_to_have_seen_its_table():
    first = tc.Coreset.from_source(DATA, 200)
    second = tc.build_coreset(first, 5, **QUICK)
    assert second.coreset.built_on == first.built_on == fingerprint_of(as_source(first))
    for source in (DATA, first):
        with pytest.warns(UserWarning, match="these rows built the coreset"):
            tc.certify(second, source)
    assert fingerprint_of(as_source(tc.Coreset(DATA))) == fingerprint_of(as_source(DATA))
