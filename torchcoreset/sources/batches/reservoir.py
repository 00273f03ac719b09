"""A uniform random sample of a pass of unknown length, in bounded memory."""

from collections.abc import Iterator

import torch
from torch import Generator, Tensor


def reservoir(batches: Iterator[Tensor], limit: int, generator: Generator) -> Tensor | None:
    """Keep `limit` rows of a pass, every subset being equally likely (Vitter 1985, Algorithm R).

    Row t, counted from 0, takes the place of a row kept before it with probability limit / (t + 1). A batch
    is handled at once; where two of its rows want one place, the later one has it, as if they came one after
    the other.

    Args:
        batches: rows, (rows, d) each.
        limit: most rows to keep, at least 1.
        generator: where the random numbers come from.

    Returns:
        The kept rows, (rows, d), in the order of the pass; None if it has no batches.
    """
    pieces: list[Tensor] = []
    seen = 0
    for rows in batches:
        room = max(limit - seen, 0)
        pieces.append(rows[:room])
        late = rows[room:]
        seen += min(len(rows), room)
        if len(late) > 0:
            return _replace(torch.cat(pieces), late, batches, generator)
    return torch.cat(pieces) if pieces else None


def _replace(kept: Tensor, late: Tensor, batches: Iterator[Tensor], generator: Generator) -> Tensor:
    """Go on with `late`, which follows the kept rows, and the rest of the pass; writes to `kept`."""
    order = torch.arange(len(kept), device="cpu")
    seen = len(kept)
    rows: Tensor | None = late
    while rows is not None:
        arrival = torch.arange(seen, seen + len(rows), device="cpu")
        uniform = torch.rand(len(rows), generator=generator, device=generator.device, dtype=torch.float64)
        place = (uniform.cpu() * (arrival + 1)).long()
        accepted = (place < len(kept)).nonzero().flatten()
        winners = dict(zip(place[accepted].tolist(), accepted.tolist(), strict=True))
        places, chosen = (torch.tensor(list(k), dtype=torch.long, device="cpu") for k in (winners, winners.values()))
        kept = kept.to(torch.promote_types(kept.dtype, rows.dtype))
        kept[places.to(kept.device)] = rows[chosen.to(rows.device)].to(kept.dtype)
        order[places] = arrival[chosen]
        seen += len(rows)
        rows = next(batches, None)
    return kept[order.argsort().to(kept.device)]
