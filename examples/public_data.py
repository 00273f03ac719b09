"""The paper's data sets: from the folder named by TORCHCORESET_DATA or shared/data beside the checkout, or OpenML."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

OPENML = {
    "pendigits": "pendigits",
    "credit_default": "default-of-credit-card-clients",
    "htru2": "HTRU2",
    "cod_rna": "codrna",
}
# Data sets whose stored copies are called otherwise, or are several files.
FILES = {"cod_rna_all": ("cod_rna", "cod_rna_test"), "mnist": ("mnist_t10k",)}


def folder() -> Path:
    """Where stored copies are looked for."""
    named = os.environ.get("TORCHCORESET_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"


def load(name: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows (N, d) and labels (N,) of a data set, unscaled.

    Args:
        name: "digits" (comes with scikit-learn), "pendigits", "credit_default", "htru2", "cod_rna" (59,535 rows),
            "cod_rna_all" (331,152 rows; stored copies only) or "mnist" (its 10,000 test images; stored copies only).

    Raises:
        SystemExit: neither a stored copy nor OpenML; says what to do.
    """
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        return X.astype(np.float32), y.astype(np.int64)
    names = FILES.get(name, (name,))
    paths = [folder() / f"{each}.npz" for each in names]
    if all(path.is_file() for path in paths):
        held = [np.load(path, allow_pickle=False) for path in paths]
        X, y = (np.concatenate([part[key] for part in held]) for key in ("X", "y"))
        return X.astype(np.float32, copy=False), y
    if name not in OPENML:
        raise SystemExit(
            f"{name}: not in {folder()}; set TORCHCORESET_DATA to the folder with the data sets, "
            "or take data: digits, which comes with scikit-learn."
        )
    from sklearn.datasets import fetch_openml

    try:
        X, y = fetch_openml(OPENML[name], as_frame=False, return_X_y=True)
    except Exception as error:
        raise SystemExit(
            f"{name}: not in {folder()}, and OpenML could not be read ({error}). "
            "Set TORCHCORESET_DATA to the folder with the data sets, or try again with a network."
        ) from error
    return np.asarray(X, np.float32), np.unique(y, return_inverse=True)[1].astype(np.int64)


def standardise(X: NDArray[np.float32]) -> NDArray[np.float32]:
    """Columns with mean 0 and standard deviation 1; a column that never changes becomes 0."""
    X = X.astype(np.float64)
    spread = X.std(0)
    scaled: NDArray[np.float32] = ((X - X.mean(0)) / np.where(spread > 0, spread, 1)).astype(np.float32)
    return scaled
