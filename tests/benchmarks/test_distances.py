"""The tables of distances are printed, and hold what is compared."""

import pytest

from tests.benchmarks import distances

pytestmark = pytest.mark.filterwarnings("ignore")


def test_transports_are_those_of_emd2() -> None:
    head, columns, *rows = distances.transports(80, 6).splitlines()
    assert "n=6, m=80" in head
    assert columns.split() == ["distance", "ours", "off", "emd2", "ratio"]
    assert len(rows) == 2
    assert all(abs(float(row[33:43])) < 2e-3 for row in rows)


def test_builds_and_their_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distances, "STARTS", 2)
    _, _, *rows = distances.builds(50, 2).splitlines()
    cosine, spherical, mixed, prototypes = (float(row[32:43]) for row in rows)
    assert cosine <= 1.1 * spherical
    assert mixed <= 1.1 * prototypes
