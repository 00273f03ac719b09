"""The tables of the divergences are printed, and say what they measure."""

import pytest

from tests.benchmarks import divergences

pytestmark = pytest.mark.filterwarnings("ignore")


def test_accuracy() -> None:
    head, columns, *rows = divergences.accuracy_table(5, 60, blurs=(1.0,)).splitlines()
    assert "n=5, m=60" in head
    assert columns.split() == ["p", "blur", "long", "backend", "marginal", "value", "gradient", "seconds"]
    assert len(rows) == 10
    for row in rows:
        gradient = float(row.split()[-2])
        assert gradient < (1e-3 if "newton" in row else 1)


def test_speed() -> None:
    head, columns, *rows = divergences.speed_table(5, 60, d=2, blur=0.5, rounds=1).splitlines()
    assert "1 rounds by turns" in head
    assert columns.split() == ["first", "later", "ratio", "gradient", "error"]
    assert [row.split("  ")[0] for row in rows] == [
        "ours, newton", "ours, geomloss", "SamplesLoss, scaling=0.5", "SamplesLoss, scaling=0.9"
    ]  # fmt: skip
    assert float(rows[0].split()[-1]) < 1e-2
