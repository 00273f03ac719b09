"""What is known of one method on one piece of work, as it travels between processes and into the JSON file."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Record:
    """One run; fields stay None where there is nothing to say.

    Attributes:
        work, method, seed: what was run.
        status: "ok", "not installed", "unavailable", "failed" or "timed out".
        reason: for the last four.
        seconds: best of the repeats in `runs`.
        hard_pass, minimum_only: seconds of one, measured beside it.
        peak: bytes above the data.
        value: W_2^2; for coresets the exact one of the points found.
        gap: true relative distance from the optimum (transport), from the best value found (coreset).
        note: what the method says of itself, and its warnings.
    """

    work: str
    method: str
    seed: int = 0
    status: str = "ok"
    reason: str = ""
    seconds: float | None = None
    runs: list[float] = field(default_factory=list)
    hard_pass: float | None = None
    minimum_only: float | None = None
    peak: int | None = None
    value: float | None = None
    gap: float | None = None
    note: str = ""
