"""Features chosen by name or place, and images flattened on request."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.data import Rows, Stream
from torchcoreset.sources import as_source

A, B = torch.arange(6.0).reshape(3, 2), torch.tensor([7.0, 8.0, 9.0])
BOTH = torch.cat((A, B[:, None]), dim=1)


def dicts():
    return [{"id": i, "a": a, "b": b} for i, (a, b) in enumerate(zip(A, B, strict=True))]


def tuples():
    return [(i, a, b) for i, (a, b) in enumerate(zip(A, B, strict=True))]


FORMS = {
    "dict batches": (lambda: [{"id": torch.zeros(3), "a": A, "b": B}], "a", ["a", "b"]),
    "tuple batches": (lambda: [(torch.zeros(3), A, B)], 1, [1, 2]),
    "last of a tuple": (lambda: [(torch.zeros(3), B, A)], -1, [-1, -2]),
    "a loader of dicts": (lambda: DataLoader(Rows(dicts()), batch_size=2), "a", ["a", "b"]),
    "a loader of tuples": (lambda: DataLoader(Rows(tuples()), batch_size=2), 1, [1, 2]),
    "a dataset of dicts": (lambda: Rows(dicts()), "a", ["a", "b"]),
    "a dataset of tuples": (lambda: Rows(tuples()), 1, [1, 2]),
    "an iterable dataset": (lambda: Stream(dicts()), "a", ["a", "b"]),
    "an iterator": (lambda: iter([{"id": torch.zeros(3), "a": A, "b": B}]), "a", ["a", "b"]),
    "a tensor dataset": (lambda: TensorDataset(torch.zeros(3), A, B), 1, [1, 2]),
    "a callable": (lambda: lambda m: {"id": torch.zeros(m), "a": A[:m], "b": B[:m]}, "a", ["a", "b"]),
}


@pytest.mark.parametrize("form", FORMS)
def test_one_or_several_features(form, generator):
    make, one, several = FORMS[form]
    assert as_source(make(), features=one).materialize(3, generator)[0].tolist() == A.tolist()
    found = as_source(make(), features=several).materialize(3, generator)[0]
    assert found.tolist() == BOTH.tolist()
    assert found.dtype == torch.float32


def test_columns_of_a_frame(generator):
    frame = pd.DataFrame({"name": ["x", "y"], "a": [1, 2], "b": [3.0, 4.0], 0: [5.0, 6.0]})
    assert as_source(frame, features=["b", "a"]).materialize(None, generator)[0].tolist() == [[3, 1], [4, 2]]
    assert as_source(frame, features="a").materialize(None, generator)[0].tolist() == [[1], [2]]
    assert as_source(frame, features=0).materialize(None, generator)[0].tolist() == [[5], [6]]
    batches = as_source([frame, frame], features=["b", "a"])
    assert batches.materialize(None, generator)[0].tolist() == [[3, 1], [4, 2]] * 2


IMAGES = torch.arange(2 * 3 * 4, dtype=torch.uint8).reshape(2, 1, 3, 4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: IMAGES,
        IMAGES.numpy,
        lambda: [IMAGES],
        lambda: iter([(IMAGES, torch.zeros(2))]),
        lambda: TensorDataset(IMAGES, torch.zeros(2)),
        lambda: Rows([(image, 0) for image in IMAGES]),
        lambda: Stream([(image, 0) for image in IMAGES]),
        lambda: DataLoader(TensorDataset(IMAGES), batch_size=1),
        lambda: lambda m: IMAGES[:m],
    ],
    ids=["tensor", "array", "list", "iterator", "tensors", "dataset", "iterable", "loader", "callable"],
)
def test_byte_images_are_flattened_on_request(make, generator):
    points, _ = as_source(make(), flatten=True).materialize(2, generator)
    assert points.dtype == torch.float32
    assert points.tolist() == [list(range(12)), list(range(12, 24))]
    with pytest.raises(ValueError, match=r"`.flatten\(1\)`, or `as_source\(..., flatten=True\)`"):
        as_source(make()).materialize(2, generator)


def test_images_beside_vectors(generator):
    batches = [{"image": IMAGES, "label": torch.tensor([1, 2])}]
    points, _ = as_source(batches, features=["image", "label"], flatten=True).materialize(None, generator)
    assert points[:, -1].tolist() == [1, 2]
    assert points.shape == (2, 13)
    rows = Rows([{"image": image, "label": 1.0} for image in IMAGES])
    points, _ = as_source(rows, features=["image", "label"], flatten=True).materialize(None, generator)
    assert points.shape == (2, 13)
    with pytest.raises(ValueError, match=r"row 0: got features of shapes .* Pass flatten=True"):
        as_source(rows, features=["image", "label"]).materialize(None, generator)


def test_distributions_over_matrices(generator):
    source = as_source(torch.distributions.Normal(torch.zeros(2, 2), 1.0), flatten=True)
    assert source.dimension == 4
    assert source.draw(5, generator).shape == (5, 4)


def test_flat_rows_stay_as_they_are(generator):
    assert as_source(A, flatten=True).materialize(None, generator)[0].tolist() == A.tolist()
    assert as_source(B, flatten=True).materialize(None, generator)[0].shape == (3, 1)


@pytest.mark.parametrize(
    ("source", "features", "message"),
    [
        ([{"a": A}], "c", r"samples, batch 0: features='c' is none of the keys \['a'\]"),
        ([{"a": A}], 0, r"features=0 is none of the keys"),
        ([(A, B)], 2, r"features=2 with a tuple of 2; expected a place"),
        ([(A, B)], "a", r"features='a' with a tuple of 2; expected a place"),
        ([A], "a", r"features='a' with a Tensor, which has no parts .* `samples\[:, \[0, 2\]\]`"),
        ([np.eye(2)], ["a", "b"], r"features='a' with a ndarray"),
        ([pd.DataFrame({"a": [1]})], "b", r"features='b' is none of the columns \['a'\]"),
        ([{"a": A, "b": B[:2]}], ["a", "b"], r"got features of \[3, 2\] rows; expected the same number"),
    ],
    ids=str,
)
def test_features_that_are_not_there(source, features, message):
    with pytest.raises(ValueError, match=message):
        as_source(source, features=features)


def test_unusable_arguments():
    for features in (1.5, True, ["a", None], [["a"]]):
        with pytest.raises(TypeError, match=r"features: got .*; expected a name, a number, or a list of them"):
            as_source(A, features=features)
    for features in ([], ["a", "a"]):
        with pytest.raises(ValueError, match=r"features: got .*; expected at least one name or number, and each once"):
            as_source(A, features=features)
    with pytest.raises(TypeError, match="flatten: got 1; expected True or False"):
        as_source(A, flatten=1)
    with pytest.raises(ValueError, match="features, flatten: given with a source; expected them where"):
        as_source(as_source(A), flatten=True)
