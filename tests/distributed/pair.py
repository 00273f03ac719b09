"""Two processes that stay for all tests, with a fresh process group for each task: starting them takes longest."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.processes import SERVER

RANKS = 2
MEETINGS = 3  # tries of the ranks to find each other


class Unmet(Exception):
    """The ranks did not find each other: gloo, now and then, when a connection of the group before closes late."""


class Pair:
    """The processes.

    Args:
        folder: where they meet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._tasks = folder, 0
        self._start()

    def _start(self) -> None:
        self._pipes, self._processes = [], []
        for rank in range(RANKS):
            here, there = SERVER.Pipe()
            process = SERVER.Process(target=serve, args=(rank, there), daemon=True)
            process.start()
            self._pipes.append(here)
            self._processes.append(process)

    def run(self, task: Callable[..., Any], *args: Any, patience: float = 30.0, limit: float = 60.0) -> list[Any]:
        """What `task(rank, *args)` gives on each rank: its result, or the exception that it raised.

        Args:
            patience: seconds after which the group gives up.
            limit: seconds after which the test does: a hang.
        """
        for _ in range(MEETINGS):
            results = self._try(task, args, patience, limit)
            if not any(isinstance(result, Unmet) for result in results):
                break
            self.close()  # torch counts groups by process: one that counts otherwise never meets the other again
        return results

    def _try(self, task: Callable[..., Any], args: tuple[Any, ...], patience: float, limit: float) -> list[Any]:
        if not all(process.is_alive() for process in self._processes):  # a test before has lost one
            self.close()
            self._start()
        self._tasks += 1
        store = f"file://{self._folder}/{self._tasks}"
        for pipe in self._pipes:
            pipe.send((task, args, store, patience))
        results: dict[int, Any] = {}
        waiting = dict(enumerate(self._pipes))
        while waiting:
            ready = wait(list(waiting.values()), limit)
            if not ready:
                self.close()
                raise TimeoutError(f"ranks {list(waiting)} hang in {task.__name__}")
            for rank in [rank for rank, pipe in waiting.items() if pipe in ready]:
                results[rank] = waiting.pop(rank).recv()
                if isinstance(results[rank], Unmet):  # the other would wait for it
                    return [results[rank]]
        return [results[rank] for rank in range(RANKS)]

    def all(self, task: Callable[..., Any], *args: Any) -> list[Any]:
        """The same, where no rank may fail."""
        results = self.run(task, *args)
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.kill()
            process.join()


def serve(rank: int, pipe: Connection) -> None:
    """Do tasks until the end."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    while True:
        task, args, store, patience = pipe.recv()
        try:
            dist.init_process_group(
                "gloo", init_method=store, rank=rank, world_size=RANKS, timeout=timedelta(seconds=patience)
            )
        except RuntimeError as error:
            pipe.send(Unmet(str(error)))
            return
        try:
            result = task(rank, *args)
        except Exception as error:
            error.add_note(traceback.format_exc())
            result = error
        dist.destroy_process_group()
        pipe.send(result)
