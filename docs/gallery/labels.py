"""Points of each class

A coreset of each class of a table with labels. A classifier that is trained on 40 of its points is compared with one
that is trained on 40 random rows of the training set.

See [labels, and scikit-learn](../how-to/labels.md).
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import torchcoreset as tc
from torchcoreset.pictures import draw_classes

X, y = load_digits(return_X_y=True)
X = X / 16  # grey levels in [0, 1]
X, y, X_test, y_test = X[:1200], y[:1200], X[1200:], y[1200:]

labeled = tc.build_labeled_coreset(X, y, 40, restarts=1)
points = labeled.points.detach().numpy()
ours = LogisticRegression().fit(points, labeled.labels).score(X_test, y_test)
print(f"accuracy with 40 points: {ours:.2f}")

subsets = [np.random.default_rng(seed).permutation(len(X))[:40] for seed in range(3)]
random = [LogisticRegression().fit(X[rows], y[rows]).score(X_test, y_test) for rows in subsets]
print(f"accuracy with 40 random rows: {np.mean(random):.2f} on average of 3")

draw_classes(labeled, labeled.labels, X, y).savefig("labels.png", dpi=80, bbox_inches="tight")
