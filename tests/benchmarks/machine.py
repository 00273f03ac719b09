"""Facts about the machine and what is installed, without which a number of seconds means little."""

from __future__ import annotations

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path

import torch

PACKAGES = ("torch", "numpy", "POT", "ott-jax", "jax", "geomloss", "k-means-constrained", "torchcoreset")


def facts() -> dict[str, object]:
    """Processor, cores, threads, load, versions, date."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "processor": processor(),
        "cores": os.cpu_count(),
        "torch threads": torch.get_num_threads(),
        "load at start": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
    }


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
