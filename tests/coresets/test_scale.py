"""Builds in units of the columns, and rows that keep their numbers."""

import numpy as np
import pytest
import torch

import torchcoreset as tc
from tests.data import seeded

UNEVEN = torch.randn(800, 2, generator=seeded(), dtype=torch.float64) * torch.tensor([1.0, 1000.0]) + 1e6
FRESH = torch.randn(800, 2, generator=seeded(1), dtype=torch.float64) * torch.tensor([1.0, 1000.0]) + 1e6
QUICK = {"restarts": 1, "tolerance": 1e-2}


@pytest.mark.parametrize("scale", ["standard", "robust", "whiten", [1.0, 1000.0]], ids=str)
def test_distances_are_in_the_units_and_points_in_those_of_the_data(scale):
    result = tc.build_coreset(UNEVEN, 8, scale=scale, **QUICK)
    scaling = result.coreset.scaling
    points = scaling.apply(result.coreset.points.detach())
    exact = tc.transport(points, scaling.apply(UNEVEN), tolerance=1e-6)
    assert result.distance == pytest.approx(exact.value**0.5, rel=1e-2)
    assert tc.build_coreset(scaling.apply(UNEVEN), 8, **QUICK).distance == pytest.approx(result.distance, rel=0.05)
    certificate = tc.certify(result.coreset, FRESH)
    expected = tc.certify(points, scaling.apply(FRESH))
    assert certificate.lower < exact.value**0.5 * 1.1 < 1.3 * certificate.upper
    assert (certificate.lower, certificate.upper) == pytest.approx((expected.lower, expected.upper), rel=0.05)
    assert certificate.unit == scaling.words
    assert expected.unit == "the unit of the data"
    assert scaling.words in repr(certificate)


def test_an_offset_and_a_unit_of_the_data_change_nothing():
    plain = tc.build_coreset(UNEVEN, 8, scale="standard", **QUICK)
    other = tc.build_coreset(UNEVEN * torch.tensor([1e-3, 1e3]) - 1e5, 8, scale="standard", **QUICK)
    assert plain.distance == pytest.approx(other.distance, rel=1e-6)


@pytest.mark.parametrize("algorithm", ["fixed_point", "sgd", "gradient"])
def test_every_algorithm(algorithm):
    seen = []
    init = UNEVEN[:8]
    result = tc.build_coreset(
        UNEVEN,
        8,
        scale="standard",
        algorithm=algorithm,
        init=init,
        steps=20,
        callback=lambda step: seen.append(step.points),
    )
    assert (seen[0].mean(0) - UNEVEN.mean(0)).abs().lt(torch.tensor([2.0, 2000.0])).all()
    assert result.distance < 3
    assert result.row_numbers.tolist() == list(range(800))


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors"])
def test_files_keep_the_units(tmp_path, suffix):
    if suffix == ".safetensors":
        pytest.importorskip("safetensors", reason="needs safetensors")
    result = tc.build_coreset(UNEVEN, 4, scale="whiten", **QUICK)
    result.coreset.save(tmp_path / f"c{suffix}")
    loaded = tc.Coreset.load(tmp_path / f"c{suffix}")
    assert repr(loaded) == repr(result.coreset)
    assert tc.certify(loaded, FRESH).upper == tc.certify(result, FRESH).upper
    with pytest.warns(UserWarning, match="these rows built the coreset"):
        tc.certify(loaded, UNEVEN)
    np.savez(
        tmp_path / "bad.npz",
        points=np.zeros((2, 1)),
        weights=[0.5, 0.5],
        scaling='{"how": "x", "centre": [1], "unit": [1]}',
    )
    with pytest.raises(ValueError, match=r"the scaling in .*bad.npz makes no sense"):
        tc.Coreset.load(tmp_path / "bad.npz")


def test_rows_keep_their_numbers():
    """An assignment can be joined to the table, whatever was held out or drawn."""
    build, fresh = tc.hold_out(UNEVEN, 0.5)
    for source in (build, fresh):
        for samples in (None, 100):
            result = tc.build_coreset(source, 4, samples=samples, scale="standard", **QUICK)
            numbers = result.row_numbers
            assert len(numbers) == len(result.transport.assignment) == (samples or 400)
            nearest = torch.cdist(
                *(result.coreset.scaling.apply(rows) for rows in (UNEVEN[numbers], result.coreset.points.detach()))
            )
            moved = nearest.argmin(1) != result.transport.assignment
            assert moved.float().mean() < 0.2  # balanced cells differ from the nearest ones near their boundaries
    assert set(tc.build_coreset(build, 4, **QUICK).row_numbers.tolist()).isdisjoint(
        tc.build_coreset(fresh, 4, **QUICK).row_numbers.tolist()
    )


def test_numbers_of_weighted_and_counted_rows(tmp_path):
    weights = torch.arange(800.0) % 3
    weighted = tc.as_source(UNEVEN, weights)
    rows, _, numbers = weighted.numbered(50, seeded())
    assert torch.equal(rows, UNEVEN[numbers])
    assert (weights[numbers] > 0).all()
    counted = tc.as_source(UNEVEN, weights, weights_are="counts")
    for limit in (None, 100):
        rows, _, numbers = counted.numbered(limit, seeded())
        assert torch.equal(rows, UNEVEN[numbers])
    part, _ = tc.hold_out(counted, 0.5)
    rows, _, numbers = part.numbered(None, seeded())
    assert torch.equal(rows, UNEVEN[numbers])
    np.save(tmp_path / "f.npy", UNEVEN.numpy())
    part, _ = tc.hold_out(tmp_path / "f.npy", 0.5)
    for limit in (None, 30):
        rows, _, numbers = part.numbered(limit, seeded())
        assert torch.equal(rows, UNEVEN[numbers])


def test_sources_without_rows_have_no_numbers():
    result = tc.build_coreset(torch.distributions.Normal(0.0, 1.0), 4, samples=200, **QUICK)
    assert result.row_numbers is None
    assert tc.build_coreset([UNEVEN], 4, **QUICK).row_numbers is None
