"""Each ailment is found where it is, and not where it is not."""

from __future__ import annotations

import pytest
import torch

import torchcoreset as tc

pytestmark = pytest.mark.usefixtures("two_starts")

DATA = torch.rand(5000, 2, generator=torch.Generator().manual_seed(0))
TOPICS = ["cell masses", "empty cells", "duplicates", "tails", "precision", "scales"]


def test_a_healthy_coreset() -> None:
    result = tc.build_coreset(DATA, 10)
    report = tc.doctor(result, DATA, certificate=tc.certify(result, lambda m: torch.rand(m, 2), samples=20_000))
    assert [finding.topic for finding in report.findings] == ["status", *TOPICS, "certificate"]
    assert report.healthy, report
    assert all(line.startswith("ok") for line in str(report).splitlines())
    assert "the population is between" in report["certificate"].message


def test_a_run_that_was_cut_short() -> None:
    report = tc.doctor(tc.build_coreset(DATA, 10, steps=2), DATA)
    assert report["status"].level == "warning"
    assert "Allow more steps" in report["status"].message


def test_duplicates_and_idle_points() -> None:
    points = torch.tensor([[0.2, 0.2], [0.2, 0.2], [0.8, 0.8], [9.0, 9.0], [0.5, 0.1]])
    report = tc.doctor(tc.Coreset(points, weights=[1, 1, 1, 1, 0]), DATA)
    assert report["duplicates"].message.startswith("1 of 5 points coincide")
    assert "1 points have weight 0" in report["empty cells"].message
    assert "nearest to no sample" in report["empty cells"].message
    assert not report.healthy


def test_tails() -> None:
    heavy = torch.randn(20_000, 1, generator=torch.Generator().manual_seed(1))
    assert tc.doctor(tc.build_coreset(heavy, 50), heavy)["tails"].level == "warning"


def test_scales() -> None:
    wide = DATA * torch.tensor([1.0, 100.0])
    found = tc.doctor(tc.Coreset.from_source(wide, 5), wide)["scales"]
    assert found.message.startswith("column 1 spreads 100 times as wide")
    still = DATA * torch.tensor([1.0, 0.0])
    assert tc.doctor(tc.Coreset.from_source(still, 5), still)["scales"].level == "note"


def test_precision() -> None:
    far = torch.cat((DATA[:, :1] * 1e-3, torch.randint(2, (5000, 1), generator=torch.Generator().manual_seed(2))), 1)
    narrow = far * torch.tensor([1.0, 300.0])
    points = torch.cat((narrow[narrow[:, 1] == 0][:4], narrow[narrow[:, 1] > 0][:4]))
    report = tc.doctor(tc.Coreset(points, [1 / 8] * 8), narrow[:4000], p=2)
    assert report["precision"].message.startswith(("float32", "float64"))
    sharp = tc.Coreset(torch.tensor([[0.0, 0.0], [0.0, 300.0]]))
    even = torch.cat((narrow[narrow[:, 1] == 0][:1000], narrow[narrow[:, 1] > 0][:1000]))
    assert tc.doctor(sharp, even)["precision"].level == "warning"


def test_discrete_data_cannot_fill_cells_evenly() -> None:
    coin = torch.tensor([[0.0], [1.0]]).repeat(100, 1)
    found = tc.doctor(tc.Coreset(torch.tensor([[0.0], [0.5], [1.0]])), coin)["cell masses"]
    assert found.level == "note"
    assert "many samples coincide" in found.message


def test_unknown_topic_and_samples() -> None:
    report = tc.doctor(tc.Coreset(DATA[:3]), DATA)
    with pytest.raises(KeyError):
        report["mood"]
    with pytest.raises(ValueError, match="samples: got 0"):
        tc.doctor(tc.Coreset(DATA[:3]), DATA, samples=0)
