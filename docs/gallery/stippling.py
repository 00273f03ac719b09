"""A picture in dots

Samples are drawn where the picture is bright, and each of 500 points stands for the same share of the light: stippling
by optimal transport, after de Goes and others (2012). Random dots would form clumps and leave gaps.

See [the mathematics](../mathematics.md#the-fixed-point).
"""

import torch
from matplotlib import pyplot as plt
from sklearn.datasets import load_sample_image

import torchcoreset as tc

picture = load_sample_image("flower.jpg")[::2, ::2, 1].astype(float)  # green shows the petals best
height, width = picture.shape
light = torch.from_numpy(picture**3).flatten()  # the background gets few dots
generator = torch.Generator().manual_seed(0)
drawn = torch.multinomial(light, 6_000, generator=generator)
places = torch.stack((drawn % width, drawn // width), 1) + torch.rand(6_000, 2, generator=generator)

result = tc.build_coreset(places, 500, restarts=1, tolerance=1e-2)
print(result)

plt.figure(figsize=(6.4, 4.2), facecolor="black")
plt.scatter(*result.coreset.points.detach().T, s=9, color="white", linewidths=0)
plt.gca().invert_yaxis()
plt.axis("equal")
plt.axis("off")
plt.savefig("stippling.png", dpi=90)
