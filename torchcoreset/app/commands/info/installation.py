"""What this installation can do."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from ...outcome import Outcome

PACKAGES = {
    "geomloss": "Sinkhorn divergences by geomloss",
    "jsonargparse": "this command line",
    "matplotlib": "pictures",
    "pandas": "DataFrames",
    "pyarrow": "CSV and Parquet files",
    "pykeops": "engine keops",
    "safetensors": "coresets in .safetensors files",
    "scikit-learn": "the estimator and example:digits",
    "tqdm": "progress bars",
}


def installation() -> Outcome:
    """Versions, threads, GPUs, and which optional packages are there."""
    record: dict[str, Any] = {
        "command": "info",
        "kind": "installation",
        "version": version("torchcoreset"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cuda": [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())],
        "packages": {name: _version(name) for name in PACKAGES},
    }
    lines = [
        f"torchcoreset {record['version']}, Python {record['python']}, torch {record['torch']} on "
        f"{record['threads']} threads, GPU: {', '.join(record['cuda']) or 'none'}"
    ]
    lines += [
        f"  {name:14}{record['packages'][name] or 'not installed':16}{purpose}" for name, purpose in PACKAGES.items()
    ]
    return Outcome(record, lines)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
