"""Rows of the data as points (k-medoids)

Means of images are blurred. With `rows=True` the points are distinct rows of the table: a subset of 30 images to
label or to show, each of which stands for a thirtieth of all.

See [rows of the data as points](../how-to/rows.md).
"""

import torch
from sklearn.datasets import load_digits

import torchcoreset as tc
from torchcoreset.pictures import draw_images

data = torch.tensor(load_digits().data[:900], dtype=torch.float32)
result = tc.build_coreset(data, 30, rows=True, restarts=1)
print("rows", result.rows[:8].tolist(), "...")
free = tc.build_coreset(data, 30, restarts=1)
print(f"W2: {result.distance:.2f} of these rows, {free.distance:.2f} of free points")

draw_images(result.coreset, (8, 8)).savefig("rows.png", dpi=90)
