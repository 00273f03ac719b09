"""How many points for a distance

`size_for` takes a distance in place of a number of points. It builds a few sizes, certifies them, and returns the
smallest of those tried that is certified within the distance; `least` bounds from below how many points it takes.

See [a size for a distance](../how-to/certify.md#a-size-for-a-distance).
"""

import torch

import torchcoreset as tc
from torchcoreset.pictures import draw_certificates

generator = torch.Generator().manual_seed(0)


def square(m):
    return torch.rand(m, 2, generator=generator)


answer = tc.size_for(0.2, square, samples=1000)
print(answer.message)

draw_certificates(answer.tried, epsilon=0.2).savefig("size.png", dpi=80)
