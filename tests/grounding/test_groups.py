"""Traces in groups, by a column."""

import pytest
import torch

from fotltn import DataError
from fotltn.grounding.groups import of_traces, read_groups
from fotltn.grounding.labels import Labels

TABLE = {
    "clip": ["b", "a", "c", "a", "d"],
    "kind": ["train", "test", " val ", "test", "none"],
}
WORDS = {"train": ["train", "val"], "test": ["test"]}


def groups(table=TABLE, traces=("a", "b", "c"), words=WORDS, **columns):
    given = {"trace": "clip", "column": "kind"} | columns
    return read_groups(table, words=words, traces=traces, **given)


def test_traces_by_their_words():
    assert groups() == {"train": (1, 2), "test": (0,)}
    assert groups(traces=("d", "a", "b", "c")) == {"train": (2, 3), "test": (1,)}


def test_a_file(tmp_path):
    file = tmp_path / "g.csv"
    file.write_text("clip,kind\nb,train\na,test\nc,val\n", "utf-8")
    assert groups(file) == {"train": (1, 2), "test": (0,)}
    file.write_text("clip,kind\nb,train\na,test\nc,val\nb,test\n", "utf-8")
    with pytest.raises(DataError, match=r"g.csv:5: the trace 'b' is 'test' here, but 'train' ear"):
        groups(file)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"column": "kin"}, "no column 'kin'; did you mean 'kind'"),
        ({"trace": "trace"}, "no column 'trace'; available: 'clip', 'kind'"),
        ({"traces": ("a", "e")}, "no row assigns a group to 'e'"),
        ({"words": {"train": ["trian"]}}, "no cell is 'trian'; did you mean 'train'"),
    ],
)
def test_what_does_not_fit(options, message):
    with pytest.raises(DataError, match=message):
        groups(**options)


def test_labels_of_some_traces():
    index = torch.tensor([[0, 1, 1, 2], [0, 0, 1, 0], [0, 0, 0, 0]])
    labels = Labels({"P": index}, {"P": torch.tensor([0.0, 1.0, 0.5, 1.0])}, {"P": ("s",)})
    found = of_traces(labels, (1, 2))
    assert found.index["P"].tolist() == [[1, 1, 2], [0, 1, 0], [0, 0, 0]]
    assert found.truth["P"].tolist() == [1.0, 0.5, 1.0]
    assert of_traces(labels, ()).total == 0
