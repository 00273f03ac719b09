"""The colour palette of a picture

The pixels of a picture are samples in the space of colours. Eight points of equal weight each stand for an eighth of
the pixels; eight of free weight are k-means, and give rare colours a point of their own.

See [weights](../how-to/weights.md).
"""

import numpy as np
import torch
from matplotlib import pyplot as plt
from sklearn.datasets import load_sample_image

import torchcoreset as tc

picture = load_sample_image("flower.jpg")[::4, ::4] / np.float32(255)
pixels = torch.from_numpy(picture).reshape(-1, 3)

figure, axes = plt.subplots(2, 3, figsize=(9, 4), gridspec_kw={"height_ratios": [6, 1]})
axes[0, 0].imshow(picture)
axes[0, 0].set_title(f"{len(pixels):,} pixels")
for column, weights in ((1, None), (2, "free")):
    coreset = tc.build_coreset(pixels, 8, weights=weights, samples=2000).coreset
    palette, shares = coreset.points.detach().clamp(0, 1), coreset.weights
    nearest = torch.cdist(pixels, palette).argmin(1)
    order = shares.argsort(descending=True)
    axes[0, column].imshow(palette[nearest].reshape(picture.shape).numpy())
    axes[0, column].set_title(f"8 colours, weights {weights or 'equal'}")
    axes[1, column].imshow(palette[order][None].numpy())
    print(f"weights {weights or 'equal':6}", *(f"{share:.3f}" for share in shares[order]))
for axis in axes.flat:
    axis.axis("off")
figure.savefig("palette.png", dpi=80, bbox_inches="tight")
