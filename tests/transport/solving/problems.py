"""What tests of solvers share: problems, settings, and how to put another flow in place of theirs."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.data import normal
from torchcoreset.transport.solving import balance as balance_module
from torchcoreset.transport.solving.state import Settings

KINDS = ("smooth", "clusters", "tails", "repeated", "light weights", "784", "offset", "integers", "tiny")
SETTINGS = Settings(1e-3, False, 100, "auto", False)


def set_balance(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    """Make this the flow of all solves on samples near boundaries."""
    monkeypatch.setattr(balance_module, "balance", function)


def hard_problem() -> tuple[Tensor, Tensor]:
    return normal(100, 4), 2 * normal(20_000, 4, seed=1)


def problem_of(kind: str, n: int, m: int, seed: int) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Points, samples and the weights of both."""
    d = 784 if kind == "784" else 3
    x, y = normal(n, d, seed=seed), 1.5 * normal(m, d, seed=seed + 100)
    b, a = None, None
    match kind:
        case "clusters":
            y = 0.2 * y + 5 * (torch.arange(m) % 7).clamp(max=4)[:, None]
        case "tails":
            y = torch.from_numpy(np.random.default_rng(seed).standard_cauchy((m, d)))
        case "repeated":
            x, y = x[torch.arange(n) // 2], y[torch.arange(m) % max(1, m // 5)]
        case "light weights":
            rng = np.random.default_rng(seed)
            b, a = (torch.from_numpy(rng.random(count) ** 20 + 1e-15) for count in (n, m))
        case "offset":
            x, y = x + 1e6, y + 1e6
        case "integers":
            x, y = (2 * x).round(), (2 * y).round()
        case "tiny":
            x, y = x[: max(2, n // 20)], y[: max(1, m // 50)]
    return x, y, b, a
