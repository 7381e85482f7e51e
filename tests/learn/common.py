"""A stored folder to write, read and compare."""

import pytest
import torch

from fotltn import DataError
from fotltn.learn import store
from fotltn.learn.store import read_folder, write_folder

TENSORS = {
    "weight": torch.arange(6.0).reshape(2, 3),
    "bias": torch.tensor([0.1, -0.0, float("inf"), float("nan")], dtype=torch.float32),
}
DOCUMENTS: dict[str, store.Document] = {
    "theory.fot": "sort agent\naxiom A: ⊤\r\n",
    "config.json": {"epochs": 500, "rate": 0.1, "path": ["a", None, True], "name": "é"},
    "records.json": [1, 2.5, {"a": []}],
}


def write(folder, tensors=TENSORS, documents=DOCUMENTS, kind="model"):
    write_folder(folder, tensors, documents, kind=kind)
    return folder


def same(found, tensors=TENSORS, documents=DOCUMENTS):
    assert found.documents == documents
    assert set(found.tensors) == set(tensors)
    for name, tensor in tensors.items():
        assert found.tensors[name].dtype == tensor.dtype
        assert found.tensors[name].shape == tensor.shape
        assert found.tensors[name].numpy().tobytes() == tensor.detach().numpy().tobytes()


def refusal(folder, kind="model"):
    with pytest.raises(DataError) as error:
        read_folder(folder, kind=kind)
    return str(error.value)
