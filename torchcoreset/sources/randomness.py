"""Random numbers: every one comes from the generator that the caller passes."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Generator, Tensor

_SPARSE = 16  # rows a drawn one; beyond it drawing again on a repeat is cheaper than permuting all rows
_MANY = 1 << 16  # draws; beyond it a dict of them would be slow and large


def make_generator(seed: int | Generator) -> Generator:
    """A CPU generator from a seed, or the one given."""
    if isinstance(seed, Generator):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ValueError(f"seed: got {seed!r}; expected an int or a torch.Generator.")
    return Generator().manual_seed(seed)


@contextmanager
def isolated(generator: Generator) -> Iterator[None]:
    """Run the user's code without gradients and on torch's global random numbers, seeded from `generator`.

    The global state is put back afterwards. NumPy's and Python's own random numbers are not touched.
    """
    seed = int(torch.randint(2**63 - 1, (), generator=generator, device=generator.device))
    used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = list(range(torch.cuda.device_count())) if used else []
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        # torch.manual_seed would also queue a seed for devices not initialised yet: a lasting change.
        torch.default_generator.manual_seed(seed)
        for device in devices:
            torch.cuda.default_generators[device].manual_seed(seed)
        yield


def permutation(size: int, generator: Generator) -> Tensor:
    """All of range(size) in random order, (size,), on the CPU."""
    return torch.randperm(size, generator=generator, device=generator.device).cpu()


def subset(count: int, size: int, generator: Generator) -> Tensor:
    """`count` different numbers of range(size) in random order, (count,), on the CPU."""
    if count * _SPARSE >= size:
        return permutation(size, generator)[:count]
    if count >= _MANY:
        return _large_subset(count, size, generator)
    # The first appearances in independent draws are a uniformly random ordered subset.
    chosen: dict[int, None] = {}
    while len(chosen) < count:
        draws = torch.randint(size, (count,), generator=generator, device=generator.device)
        chosen.update(dict.fromkeys(draws.tolist()))
    return torch.tensor(list(chosen)[:count], device="cpu")


def _large_subset(count: int, size: int, generator: Generator) -> Tensor:
    """Given how many different numbers came up, all sets of that many are equally likely, and so are their parts."""
    chosen = torch.empty(0, dtype=torch.long, device="cpu")
    while len(chosen) < count:
        draws = torch.randint(size, (count - len(chosen) // 2,), generator=generator, device=generator.device)
        chosen = torch.unique(torch.cat((chosen, draws.cpu())))
    return chosen[permutation(len(chosen), generator)[:count]]


def proportional(count: int, cumulative: Tensor, generator: Generator) -> Tensor:
    """`count` indices with replacement; the probabilities' running sum, (size,), ends in exactly 1."""
    # torch.multinomial stops at 2**24 categories. right=True never chooses a row of weight zero.
    uniform = torch.rand(count, generator=generator, device=generator.device, dtype=torch.float64)
    return torch.searchsorted(cumulative, uniform.cpu(), right=True)
