"""The two processes."""

from collections.abc import Iterator

import pytest

from .pair import Pair


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two ranks, ready for tasks."""
    ranks = Pair(tmp_path_factory.mktemp("ranks"))
    yield ranks
    ranks.close()
