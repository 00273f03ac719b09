"""Fixtures for every test, and the reasons for which marked tests are skipped."""

from __future__ import annotations

import gc
import importlib.util
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# In one of the processes of pytest-xdist; set before torch is imported, and inherited by what a test starts.
if WORKER := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ["OMP_NUM_THREADS"] = "1"  # of torch and of BLAS: the processes take all cores already
    # KeOps does not lock its cache, so each process has its own, kept between runs since compiling takes minutes.
    cache = Path.home() / ".cache" / "torchcoreset-tests" / f"keops-{WORKER}"
    os.environ.setdefault("KEOPS_CACHE_FOLDER", str(cache))

import torch  # noqa: E402

# Examples of docstrings, where no mark can stand.
SLOW_EXAMPLES = {"torchcoreset.coresets.compare.compare_divergences"}


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of data sets: TORCHCORESET_DATA, or else ../shared/data beside the checkout."""
    named = os.environ.get("TORCHCORESET_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no data: {folder} is not a folder; set TORCHCORESET_DATA to the one with the data sets")
    return folder


@pytest.fixture(scope="session")
def process_memory() -> None:
    """For tests that read the memory of a process where Linux tells it."""
    if not Path("/proc/self/status").is_file():
        pytest.skip("memory is read from /proc/self/status, which this system lacks")


@pytest.fixture
def generator() -> torch.Generator:
    """A fresh CPU generator, seeded with 0."""
    return torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def quick_to_compile(request: pytest.FixtureRequest) -> None:
    """KeOps compiles without optimisation, in half of the time: each formula of the tests runs for milliseconds."""
    if request.node.get_closest_marker("keops"):
        request.getfixturevalue("_keops_without_optimisation")


@pytest.fixture(scope="session")
def _keops_without_optimisation() -> None:
    from torchcoreset.transport.passes.fused.keops import load_keops

    load_keops()
    from pykeops.config import pykeops_base

    pykeops_base.cpp_flags = pykeops_base.get_cpp_flags().replace("-O3", "-O0").replace("-flto=auto", "")


@pytest.fixture
def two_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds begin by default with the better of 2 starts: the best of 8 take most of the time of a small build."""
    monkeypatch.setattr("torchcoreset.coresets.start.restarts.MOST", 2)


@pytest.hookimpl(tryfirst=True)  # before those that are slow are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with the reason, what this machine cannot run. What starts several processes is slow.

    Slow tests come first: short ones are what one process of pytest-xdist takes from another at the end. Those with
    KeOps begin, so that one process runs them all: each has a cache of its own, where every formula has to be compiled.
    """
    missing = {}
    if not torch.cuda.is_available():
        missing["gpu"] = "needs a CUDA device, and torch sees none"
    if importlib.util.find_spec("pykeops") is None:
        missing["keops"] = "needs pykeops: pip install 'torchcoreset[keops]'"
    if not torch.distributed.is_available():
        missing["distributed"] = "needs a torch built with torch.distributed"
    for item in items:
        if item.get_closest_marker("distributed") or item.name in SLOW_EXAMPLES:
            item.add_marker(pytest.mark.slow)
        for marker, reason in missing.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))
    items.sort(key=lambda item: [item.get_closest_marker(mark) is None for mark in ("slow", "keops")])


def pytest_collection_finish() -> None:
    """Leave the tests and what they import out of garbage collection: walking through it takes a tenth of the time."""
    gc.collect()
    gc.freeze()
