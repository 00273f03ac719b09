"""The ranks of a process group: what they say to each other, and what happens when one of them falls silent.

Every rank holds all points and some of the samples. Sums over samples are added up over the ranks, in float64 and one
message; rows that all need are gathered in the order of the ranks. All ranks go on with the same numbers, bit for bit,
and so take the same decisions: they must run the same software on the same kind of device.

A call begins with `agree`: each rank checks its inputs and tells the others how that went. So bad input on one rank, or
other settings, is an error on all, and no rank waits for a sum that never comes. Sums that are known by then ride in
that message, which is as long for all calls. A rank that does not call at all is noticed by the group's timeout.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import torch
from torch import Tensor

from ...errors import RankError
from ...tensors import is_real

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

T = TypeVar("T")

# What ranks may be in the middle of: two ranks in different calls must not add up each other's sums.
CALLS = (
    "transport", "CoresetLoss(online=True)", "certify", "certify_pushforward", "expectation_error", "build_coreset",
    "tests", "wasserstein",
)  # fmt: skip
# Numbers in the message that a call begins with, which takes no longer than a few bytes: 8 KiB a rank. All messages are
# as long: gloo aborts the process if those of two ranks differ in length.
ROOM = 1025
BITS = 16  # of a number that one round of a selection settles: half a megabyte of counts
LONGEST = 300  # characters of another rank's error
LONGEST_SETTINGS = 1000  # and of all its settings
SAME_EVERYWHERE = "Take the same steps with the same settings, in the same mode and from the same state, everywhere."


class Ranks:
    """The processes of a group: the `rank` of this one, and the `size` of the group."""

    def __init__(self, group: ProcessGroup) -> None:
        import torch.distributed as dist

        self._dist, self._group = dist, group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        # NCCL talks between GPUs only, and each rank has its own as the current device.
        on_gpu = "nccl" in str(dist.get_backend(group))
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")

    def total(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """Sums over the ranks of tensors of equal shapes, float64: one message."""
        flat = torch.cat([part.detach().double().flatten() for part in parts]).to(self._device)
        self._exchange(lambda: self._dist.all_reduce(flat, group=self._group))
        pieces = torch.split(flat.to(parts[0].device), [part.numel() for part in parts])
        return tuple(piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True))

    def table(self, row: Tensor) -> Tensor:
        """A row (k,) of equal length from every rank, (size, k)."""
        sent = row.detach().to(self._device).contiguous()
        rows = [torch.empty_like(sent) for _ in range(self.size)]
        self._exchange(lambda: self._dist.all_gather(rows, sent, group=self._group))
        return torch.stack(rows).to(row.device)

    def gather(self, *columns: Tensor, counts: Sequence[int] | None = None) -> list[tuple[Tensor, ...]]:
        """Rows of every rank, as many as each has: for each rank the columns, (rows, ...), in their own types.

        They travel as bytes in one message, after another for the `counts` of rows, (size,), where these are unknown.
        """
        if counts is None:
            counts = self.table(torch.tensor([len(columns[0])], device="cpu")).flatten().tolist()
        widths = [column.element_size() * math.prod(column.shape[1:]) for column in columns]
        sent = torch.zeros(max(counts), sum(widths), dtype=torch.uint8, device=self._device)
        for column, place in zip(columns, torch.split(sent, widths, 1), strict=True):
            place[: len(column)] = _row(column.detach()).view(torch.uint8).view(len(column), place.shape[1])
        whole = [torch.empty_like(sent) for _ in counts]
        self._exchange(lambda: self._dist.all_gather(whole, sent, group=self._group))
        return [
            tuple(
                _row(part).view(column.dtype).view(count, *column.shape[1:]).to(column.device)
                for column, part in zip(columns, torch.split(rows[:count], widths, 1), strict=True)
            )
            for count, rows in zip(counts, whole, strict=True)
        ]

    def kth_smallest(self, values: Tensor, k: int) -> Tensor:
        """The k-th smallest of the non-negative floats (m,) of all ranks, counted from 1; 0-d, in their type.

        Floats above zero are ordered as their bits are, so the answer is found BITS bits at a time by counting.
        """
        kind = torch.int64 if values.dtype == torch.float64 else torch.int32
        bits, width = values.contiguous().view(kind).long(), 64 if kind == torch.int64 else 32
        found = 0
        for shift in range(width - BITS, -1, -BITS):
            counts = torch.bincount((bits >> shift) & ((1 << BITS) - 1), minlength=1 << BITS)
            below = self.total(counts)[0].cumsum(0)
            digit = int((below < k).sum())
            k -= int(below[digit - 1]) if digit else 0
            bits = bits[(bits >> shift) & ((1 << BITS) - 1) == digit]
            found |= digit << shift
        return torch.tensor(found, dtype=kind, device=values.device).view(values.dtype)

    def texts(self, text: str, longest: int = LONGEST) -> list[str]:
        """A text from every rank, cut to so many characters."""
        sent = list(text[:longest].encode())
        row = torch.zeros(4 * longest, dtype=torch.uint8, device="cpu")
        row[: len(sent)] = torch.tensor(sent, dtype=torch.uint8, device="cpu")
        return [bytes(line).rstrip(b"\0").decode(errors="replace") for line in self.table(row).tolist()]

    def _exchange(self, message: Callable[[], Any]) -> None:
        """Send and receive; a timeout or a closed connection is raised as a RankError that explains it."""
        try:
            message()
        except RuntimeError as error:
            raise RankError(
                f"group: rank {self.rank} of {self.size} waited in vain for the others: "
                f"{str(error).splitlines()[0][:LONGEST]} Another rank has failed, ended or run out of data, or takes "
                "longer than the group's timeout. Give every rank as many batches, end the loop on all ranks when one "
                "has no more, or set a longer timeout in init_process_group; this group cannot be used any further."
            ) from error


def _row(values: Tensor) -> Tensor:
    """A copy in one dimension: what has a single row counts as contiguous, but may begin where no float64 can."""
    return values.clone(memory_format=torch.contiguous_format).flatten()


def agree(
    ranks: Ranks | None,
    call: str,
    prepare: Callable[[], tuple[T, Sequence[float] | Tensor]],
    *,
    same: Sequence[str] = (),
    why: str = "",
    settings: Mapping[str, Any] | None = None,
) -> tuple[T, Tensor]:
    """Call `prepare` on every rank, and raise on all if it fails on one: one message, which also exchanges numbers.

    Args:
        ranks: None for this process alone; then nothing is exchanged.
        call: the name of the call, one of CALLS.
        prepare: checks the inputs of this rank; returns the prepared inputs, and (k,) float64 numbers, of which the
            first ROOM are sent to the other ranks.
        same: names of the first numbers, which have to be the same on all ranks.
        why: what to do if `prepare` fails on another rank, for the message.
        settings: numbers, words and None by name, which have to be the same on all ranks.

    Returns:
        What `prepare` returned here, and the numbers of all ranks, (size, ROOM) on the CPU, padded with zeros.

    Raises:
        RankError: `prepare` failed on another rank, which raises its own error; or another rank is in another call, or
            has other settings or numbers.
    """
    told = torch.zeros(3 + ROOM, dtype=torch.float64, device="cpu")
    if ranks is None:
        return prepare()[0], told[None, 3:]
    error, made = None, None
    try:
        made, numbers = prepare()
        numbers = torch.as_tensor(numbers, dtype=torch.float64, device="cpu")[:ROOM]
        told[3 : 3 + len(numbers)] = numbers
    except Exception as failure:
        error = failure
    written = "\n".join(f"{name}={_text_of(value)}" for name, value in (settings or {}).items())
    digest = hashlib.blake2b(written.encode(), digest_size=6).digest()  # 48 bits, which float64 holds
    told[:3] = told.new_tensor([CALLS.index(call), error is not None, int.from_bytes(digest, "big")])
    table = ranks.table(told)
    calls, failed = table[:, 0].long().tolist(), table[:, 1].nonzero()[:, 0].tolist()
    if len(set(calls)) > 1:
        others = ", ".join(f"rank {rank} in {CALLS[at]}" for rank, at in enumerate(calls))
        raise RankError(
            f"group: the ranks are in different calls: {others}; expected all in the same. Make every rank go "
            "through the same calls in the same order, and end all of them when the first has no more data."
        ) from error
    if failed:
        messages = ranks.texts("" if error is None else f"{type(error).__name__}: {error}")
        if error is not None:
            raise error
        raise RankError(
            f"group: {call} failed on rank {failed[0]} of {ranks.size}: {messages[failed[0]]} {why}".rstrip()
        )
    if bool((table[:, 2] != table[0, 2]).any()):
        raise RankError(_difference(ranks.texts(written, LONGEST_SETTINGS)))
    for name, column in zip(same, table[:, 3:].t(), strict=False):
        other = ((column != column[0]) & ~(column.isnan() & column[0].isnan())).nonzero()[:, 0].tolist()
        if other:
            raise RankError(
                f"{name}: rank {other[0]} has others than rank 0 ({float(column[other[0]]):.17g} and "
                f"{float(column[0]):.17g}); expected the same on all ranks. Broadcast points and weights from rank 0, "
                f"as DistributedDataParallel does. {SAME_EVERYWHERE}"
            )
    assert made is not None
    return made, table[:, 3:]


@contextmanager
def told_to(ranks: Ranks | None, call: str) -> Iterator[None]:
    """An error in here, before the first message of a call, is told to the other ranks, which would wait in vain."""
    try:
        yield
    except Exception as error:
        if ranks is not None:
            agree(ranks, call, partial(_raise, error))
        raise


def _raise(error: Exception) -> NoReturn:
    raise error


def _text_of(value: Any) -> str:
    """A setting as text, in which equal numbers look alike whatever their type."""
    if not is_real(value):
        return repr(value)
    number = float(value)
    return repr(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _difference(texts: Sequence[str]) -> str:
    """Of the settings of all ranks, which one differs and how."""
    first, *others = [dict(line.split("=", 1) for line in text.splitlines() if "=" in line) for text in texts]
    for rank, other in enumerate(others, 1):
        for name in (*first, *other):
            if first.get(name) != other.get(name):
                return (
                    f"{name}: got {other.get(name)} on rank {rank} and {first.get(name)} on rank 0; expected the same "
                    f"on all ranks. {SAME_EVERYWHERE}"
                )
    return f"group: the ranks have other settings; expected the same on all ranks. {SAME_EVERYWHERE}"


def totals_of(ranks: Ranks | None) -> Callable[[Tensor], Tensor]:
    """From a sum over the samples here to that over the samples of all ranks."""
    return (lambda sums: sums) if ranks is None else (lambda sums: ranks.total(sums)[0])


def fingerprint(values: Tensor) -> float:
    """A number that changes with any of the values."""
    flat = values.detach().double().flatten()
    return float(flat @ torch.arange(1, len(flat) + 1, dtype=torch.float64, device=flat.device).cos())


def as_ranks(group: Any) -> Ranks | None:
    """The ranks of a group: "world" or a `torch.distributed.ProcessGroup`; None for None, this process alone.

    Raises:
        ValueError: it is none of these, this process does not belong to it, or no process group has been initialised.
    """
    if group is None:
        return None
    import torch.distributed as dist

    check_group(group)
    if not dist.is_available() or not dist.is_initialized():
        raise ValueError(
            f"group: got {group!r} before any process group was initialised. Start with torchrun and call "
            "torch.distributed.init_process_group first, or leave group out."
        )
    chosen = dist.group.WORLD if isinstance(group, str) else group
    if chosen is None or dist.get_rank(chosen) < 0:
        raise ValueError("group: got a group that this process does not belong to; expected one that it is a rank of.")
    return Ranks(chosen)


def check_group(group: Any) -> None:
    """Raise ValueError unless it is None, "world" or a process group."""
    if group is None or (isinstance(group, str) and group == "world"):
        return
    import torch.distributed as dist

    if isinstance(group, str) or not dist.is_available() or not isinstance(group, dist.ProcessGroup):
        raise ValueError(
            f"group: got {group!r}; expected None (this process alone), 'world' (all ranks) or a "
            "torch.distributed.ProcessGroup."
        )
