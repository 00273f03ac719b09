"""The examples can be imported as they import each other when they are run: by name."""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(autouse=True)
def examples_on_the_path(monkeypatch: pytest.MonkeyPatch, two_starts: None) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
