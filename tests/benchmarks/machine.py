"""Facts about the machine and what is installed, without which a number of seconds means little."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    *("torchcoreset", "torch", "numpy", "scikit-learn", "POT", "ott-jax", "jax", "geomloss", "k-means-constrained"),
    "flash-sinkhorn",
)


def facts() -> dict[str, object]:
    """Processor, cores, threads, load, versions, date."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load at start": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
    }


def use_threads(count: int) -> None:
    """So many threads for this process and those that it starts; of torch, BLAS and scikit-learn."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    torch.set_num_threads(count)


def use_cores() -> None:
    """As many cores for this process as torch has threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-torch.get_num_threads() :])


def commit() -> str:
    """The commit that is checked out, with a + where files differ from it."""
    try:
        called = [["git", "rev-parse", "--short", "HEAD"], ["git", "status", "--porcelain", "--untracked-files=no"]]
        head, changed = (
            subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout for words in called
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.strip() + ("+" if changed else "")


def processor() -> str:
    """Name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def version(name: str) -> str:
    """Installed version of a package."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
