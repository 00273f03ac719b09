"""How the settings of the stochastic peers were found: `python -m tests.benchmarks.tune`, which takes its time.

Over a small grid of rates and batches the number of steps is doubled until a gap is reached; the cheapest run that
reaches it is what the table uses. This is done on the very work of the table and knowing its optimum, as no user could.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable

import torch

from . import peer_ott, peer_pot, truth
from .method import Outcome
from .plans import FULL, make_work
from .problems import Work

GAPS = (1e-3, 1e-4)
CAP = 6.0  # seconds for one run
GRIDS = {
    "ott": ((0.06, 0.2, 0.6, 2.0), (512, 2048, 8192), 128),
    "pot": ((0.1, 0.3, 1.0, 3.0, 10.0), (32, 256), 64),
}


def main() -> None:
    """Tune on the transport work named, or on all of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.tune", description=__doc__)
    parser.add_argument("works", nargs="*", help="names of transport work; all if none")
    parser.add_argument("--peer", choices=tuple(GRIDS), help="one of them only")
    options = parser.parse_args()
    for name in options.works or stochastic_work():
        work = make_work(name)
        best = truth.optimum(work.points, work.samples)[0]
        for peer in [options.peer] if options.peer else GRIDS:
            tune(peer, work, best)


def stochastic_work() -> list[str]:
    """The transport work of the tables that all methods do."""
    plans = {name: plan for section in FULL.sections for name, plan in section.plans.items()}
    return [name for name, plan in plans.items() if plan.task == "transport" and not plan.methods]


def tune(peer: str, work: Work, best: float) -> None:
    """Print the cheapest settings that reach each gap, and the smallest gap seen."""
    rates, batches, fewest = GRIDS[peer]
    fastest: dict[float, tuple[float, object]] = {}
    smallest: tuple[float, float, object] = (float("inf"), 0.0, None)
    for rate, batch in itertools.product(rates, [batch for batch in batches if batch <= len(work.samples)]):
        steps, before = fewest, float("inf")
        while True:
            settings, run = ready(peer, work, rate, batch, steps)
            seconds, gap = judge(run, work, best)
            print(f"  {seconds:.3f} s, gap {gap:.1e}, {settings}", flush=True)
            for target in GAPS:
                if gap <= target and seconds < fastest.get(target, (CAP,))[0]:
                    fastest[target] = (seconds, settings)
            smallest = min(smallest, (gap, seconds, settings), key=lambda entry: entry[0])
            stuck = gap > 0.9 * before and steps > 4 * fewest
            if gap <= min(GAPS) or stuck or 2 * seconds > fastest.get(min(GAPS), (CAP,))[0]:
                break
            steps, before = 2 * steps, gap
    for target, (seconds, settings) in fastest.items():
        print(f"{peer} {work.name}: gap {target:.0e} after {seconds:.3f} s with {settings}", flush=True)
    print(f"{peer} {work.name}: smallest gap, seconds, settings: {smallest}", flush=True)


def ready(peer: str, work: Work, rate: float, batch: int, steps: int) -> tuple[object, Callable[[], Outcome]]:
    """Settings, and a run with them."""
    if peer == "ott":
        adam = peer_ott.Adam(rate, batch, steps)
        return adam, peer_ott.with_settings(work, adam)
    descent = peer_pot.Descent(rate, batch, steps)
    return descent, peer_pot.with_settings(work, descent)


def judge(run: Callable[[], Outcome], work: Work, best: float) -> tuple[float, float]:
    """Seconds of processor time, which other work on the machine disturbs least, and true gap."""
    seconds = []
    for _ in range(2):
        began = time.process_time()
        potential = run().potential
        seconds.append(time.process_time() - began)
    assert isinstance(potential, torch.Tensor)
    return min(seconds), (best - truth.semi_dual(work.points, work.samples, potential)) / best


if __name__ == "__main__":
    main()
