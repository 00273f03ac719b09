"""Fixtures that decide how all problems are solved: with an approach, or without one."""

import pytest

from torchcoreset.transport.presolve import potential
from torchcoreset.transport.solving import limits, run


@pytest.fixture
def by_approach(monkeypatch: pytest.MonkeyPatch) -> None:
    """No problem is small enough to be solved directly, without Newton; test_direct.py tests those."""
    monkeypatch.setattr(limits, "is_direct", lambda *_: False)
    monkeypatch.setattr(limits, "MOST_PAIRS", 0)
    monkeypatch.setattr(limits, "FEWEST_PAIRS", 0)
    monkeypatch.setattr(limits, "COLD_PAIRS", 0)


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """An approach is an error."""

    def refuse(*_: object) -> None:
        raise AssertionError("approached")

    for module in (run, potential):
        monkeypatch.setattr(module, "ascend", refuse)
