"""Labels are the stated facts, no more and no fewer."""

import random
from typing import Any

import numpy as np
import pytest
import torch

from fotltn import DataError
from fotltn.grounding.collect import Rows
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.facts import Facts, read_facts
from fotltn.grounding.labels import labels
from tests.grounding.common import SIGNATURE
from tests.grounding.test_dense import facts_only

NAMES = ("Car", "Stop", "Close", "Rain")


def facts(seed: int = 0, **options: Any) -> Facts:
    """Random facts in two traces, static ones in both."""
    rng = random.Random(seed)
    frame: dict[str, list[Any]] = {
        n: [] for n in ("predicate", "arg1", "arg2", "time", "truth", "trace")
    }
    stated = set()
    for _ in range(200):
        name = rng.choice(NAMES)
        arity = len(SIGNATURE.predicates[name].sorts)
        first, second = [*(rng.choice("abcde") for _ in range(arity)), None, None][:2]
        time = None if name == "Car" else rng.randrange(6)
        trace = None if name == "Car" else rng.choice("xy")
        if (name, first, second, time, trace) in stated:
            continue
        stated.add((name, first, second, time, trace))
        row = [name, first, second, time, rng.choice([0, 1, 0.5]), trace]
        for column, cell in zip(frame.values(), row, strict=True):
            column.append(cell)
    return read_facts([frame], SIGNATURE, **options)


def test_stated_facts_are_labels():
    known = facts()
    found = labels(known, SIGNATURE, NAMES)
    assert list(found.truth) == list(NAMES)
    assert found.sorts == {n: SIGNATURE.predicates[n].sorts for n in NAMES}
    assert len(found) == found.total == sum(len(known.rows[n].value) for n in NAMES)
    assert set(found.truth["Stop"].tolist()) == {0.0, 0.5, 1.0}  # what is false is stated too
    model = tables_of_facts(known, facts_only(*NAMES))
    for name in NAMES:
        table = model.predicate(name)
        index, truth = found.index[name], found.truth[name]
        assert (index.dtype, truth.dtype) == (torch.int64, torch.float64)
        assert index.shape == (table.dim(), len(truth))
        assert torch.equal(table[tuple(index)], truth)
        assert index.unique(dim=1).shape == index.shape
        rest = table.clone()
        rest[tuple(index)] = 0
        assert not rest.any()  # nothing true is left out


def test_static_facts_are_in_every_trace_at_time_0():
    found = labels(facts(), SIGNATURE, ["Car"]).index["Car"]
    assert set(found[0].tolist()) == {0, 1}
    assert set(found[-1].tolist()) == {0}
    first, second = found[1:, found[0] == 0], found[1:, found[0] == 1]
    assert torch.equal(first.sort().values, second.sort().values)


def test_facts_made_by_hand_may_name_no_trace():
    rows = Rows(
        np.array([-1, 1, -1]),
        np.array([[0], [1], [2]]),
        np.array([-1] * 3),
        np.array([1.0, 0, 0.5]),
    )
    known = Facts(
        ("x", "y", "z"), {"agent": ("a", "b", "c"), "place": ()}, {"Car": rows}, (1, 1, 1)
    )
    found = labels(known, SIGNATURE, ["Car"])
    assert found.index["Car"].T.tolist() == [
        [0, 0, 0], [1, 0, 0], [2, 0, 0], [1, 1, 0], [0, 2, 0], [1, 2, 0], [2, 2, 0],
    ]  # fmt: skip
    assert found.truth["Car"].tolist() == [1, 1, 1, 0, 0.5, 0.5, 0.5]


def test_a_predicate_without_facts():
    known = read_facts([{"predicate": ["Car"], "arg1": ["a"]}], SIGNATURE)
    found = labels(known, SIGNATURE, ["Close", "Rain", "Car"], dtype=torch.float32)
    assert found.index["Close"].shape == (4, 0)
    assert found.index["Rain"].shape == (2, 0)
    assert {n: t.dtype for n, t in found.truth.items()} == dict.fromkeys(found.truth, torch.float32)
    assert len(found) == 1


def test_only_and_take():
    whole = labels(facts(), SIGNATURE, NAMES)
    some = whole.only(["Stop", "Car"])
    assert list(some.truth) == list(some.index) == list(some.sorts) == ["Stop", "Car"]
    assert torch.equal(some.index["Stop"], whole.index["Stop"])
    mask = whole.truth["Stop"] == 1
    taken = whole.take({"Stop": mask})
    assert taken.truth["Stop"].tolist() == [1.0] * int(mask.sum())
    assert torch.equal(taken.index["Stop"], whole.index["Stop"][:, mask])
    assert len(taken) == int(mask.sum())
    assert list(taken.truth) == list(NAMES)


def test_what_cannot_be_labelled():
    with pytest.raises(DataError) as found:
        labels(facts(), SIGNATURE, ["Stpo"])
    assert str(found.value) == "error: no predicate 'Stpo' to label; did you mean 'Stop'?"
    whole = labels(facts(), SIGNATURE, ["Stop"])
    with pytest.raises(DataError, match="no predicate 'Car' to label; available: 'Stop'"):
        whole.only(["Car"])
    with pytest.raises(DataError, match="no predicate 'Car' to label"):
        whole.take({"Car": torch.ones(1, dtype=torch.bool)})
    with pytest.raises(DataError, match=r"the mask of 'Stop' must be a Boolean tensor of shape"):
        whole.take({"Stop": torch.ones(3)})
