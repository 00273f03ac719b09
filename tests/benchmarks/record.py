"""What is known of one method on one piece of work, as it travels between processes and into the JSON file."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Record:
    """One run; fields stay None where there is nothing to say.

    Attributes:
        work, method, seed: what was run.
        status: "ok", "not installed", "unavailable", "failed", "timed out" or "not run".
        reason: for the others than "ok".
        seconds: wall clock, best of the repeats in `runs`; of a loss, for one step. Of a run that timed
            out, those after which it was given up, preparation included.
        processor: seconds of processor time, of all threads, of the repeat that took least.
        hard_pass: processor seconds of one hard pass, measured beside it.
        peak: bytes above the data.
        value: W_p^p as the method reports it, a mean over clouds; for coresets the exact one of the points found.
        lower: of a transport, the semi-dual value in float64 of the potential returned: a lower bound.
        gap: true relative distance from the optimum (transport), from the best value found (coreset); filled in when
            all methods have run.
        note: what the method says of itself, and its warnings.
        own: its error by its own measure, in words.
    """

    work: str
    method: str
    seed: int = 0
    status: str = "ok"
    reason: str = ""
    seconds: float | None = None
    processor: float | None = None
    runs: list[float] = field(default_factory=list)
    hard_pass: float | None = None
    peak: int | None = None
    value: float | None = None
    lower: float | None = None
    gap: float | None = None
    note: str = ""
    own: str = ""
