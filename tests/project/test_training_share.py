"""Means, spreads and categories are those of the rows for training."""

from typing import Any

import numpy as np
import pytest
import torch

import fotltn
from fotltn.errors import DataError
from fotltn.networks.encoders import FeatureInputs

THEORY = "sort pump\npredicate Failed(pump), Here(pump)\nstatic predicate Old(pump)\n"


def rows(rng: np.random.Generator, *, away: bool = False) -> dict[str, list[Any]]:
    keys = [
        (f"d{day}", f"p{pump}", hour)
        for day in range(6)
        for pump in range(5)
        for hour in range(4 + day % 3)
        if not away or rng.random() < 0.8
    ]
    count = len(keys)
    return {
        "day": [k[0] for k in keys],
        "pump": [k[1] for k in keys],
        "hour": [k[2] for k in keys],
        "bar": rng.normal(size=count).tolist(),
        "gap": [None if rng.random() < 0.3 else float(rng.normal()) for _ in keys],
        "word": [str(w) for w in rng.choice(["x", "y"], count)],
        "failed": rng.integers(0, 2, count).tolist(),
    }


def trained(data: Any, away: bool = False, **settings: Any) -> fotltn.Model:
    wide = fotltn.Wide(
        data, "pump", "pump", "hour", "day", predicates={"failed": "Failed"},
        features=["bar", "gap", "word"], missing={"gap": "mean"},
        presence="Here" if away else None,
        unknown_categories=settings.pop("unknown", "error"),
        categories=settings.pop("categories", {}),
    )  # fmt: skip
    facts = {"predicate": ["Old"], "arg1": ["p0"]}
    return fotltn.train(
        THEORY, facts=facts, wide=wide, learn=["Failed"], data=settings, training={"epochs": 1}
    )


def seen(model: fotltn.Model) -> FeatureInputs:
    inputs = model.grounding.inputs_by_sort["pump"]
    assert isinstance(inputs, FeatureInputs)
    return inputs


def training_rows(data: dict[str, list[Any]], model: fotltn.Model, by: str, sort: str | None):
    """The rows that are for training, said once more with names."""
    names = model.facts
    index = {
        part: {
            (names.traces[t], names.entities["pump"][p], h)
            for t, p, h in labels.index["Failed"].T.tolist()
        }
        for part, labels in (("train", model.world.labels), ("test", model.world.test))
        if labels is not None
    }
    keys = list(zip(data["day"], data["pump"], data["hour"], strict=True))

    def about(key: tuple[str, str, int]) -> tuple[str, ...]:
        return key[:1] if by == "traces" or sort is None else key[:2]

    if by == "time":
        last = {about(k): -1 for k in index["test"]}
        for key in index["train"]:
            if about(key) in last:
                last[about(key)] = max(last[about(key)], key[2])
        return [i for i, k in enumerate(keys) if k[2] <= last.get(about(k), 99)]
    place = 0 if by == "traces" else 1
    held = {k[place] for k in index["test"]} - {k[place] for k in index["train"]}
    return [i for i, k in enumerate(keys) if k[place] not in held]


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize(
    ("by", "sort"), [("traces", None), ("entities", "pump"), ("time", None), ("time", "pump")]
)
def test_features_are_centred_by_the_rows_for_training(by, sort, away):
    for seed in range(3):
        data = rows(np.random.default_rng(seed), away=away)
        if not away:  # traces of one length, so that every cell has a row
            chosen = [i for i, hour in enumerate(data["hour"]) if hour < 4]
            data = {name: [column[i] for i in chosen] for name, column in data.items()}
        model = trained(data, away, train=0.5, by=by, sort=sort, seed=seed)
        inputs = seen(model)
        chosen = training_rows(data, model, by, sort)
        assert 0 < len(chosen) < len(data["bar"])
        for number, name in enumerate(("bar", "gap")):
            column = np.array([data[name][i] for i in chosen], dtype=float)
            at = 0 if number == 0 else 1
            assert inputs.mean[at].item() == pytest.approx(np.nanmean(column), abs=1e-5)
            assert inputs.spread[at].item() == pytest.approx(np.nanstd(column), abs=1e-5)
        gap = model.world.fixed.inputs["pump"].values[..., 1].isnan()
        assert (inputs()[..., 1][gap] == 0).all()  # the mean


def test_a_table_says_which_traces_are_for_training(tmp_path):
    data = rows(np.random.default_rng(7), away=True)
    (tmp_path / "split.csv").write_text(
        "day,part\nd0,train\nd1,train\nd2,validation\nd3,test\nd4,other\nd5,test\n"
    )
    split = {
        "file": str(tmp_path / "split.csv"), "trace": "day", "column": "part",
        "validation": ["validation"],
    }  # fmt: skip
    inputs = seen(trained(data, True, split=split))
    column = [b for b, day in zip(data["bar"], data["day"], strict=True) if day in ("d0", "d1")]
    assert inputs.mean[0].item() == pytest.approx(np.mean(column), abs=1e-5)


@pytest.mark.parametrize("settings", [{}, {"train": 0.5}, {"train": 0.5, "by": "facts"}])
def test_without_rows_held_back_all_count(settings):
    data = rows(np.random.default_rng(8), away=True)
    inputs = seen(trained(data, True, **settings))
    assert inputs.present is not None
    every = FeatureInputs(inputs.values, present=inputs.present.squeeze(-1))
    assert torch.equal(inputs.mean, every.mean)
    assert torch.equal(inputs.spread, every.spread)
    assert trained(data, True, **settings).world.counted == {}


def test_words_of_rows_for_testing_alone():
    data = rows(np.random.default_rng(9), away=True)
    model = trained(data, True, train=0.5, by="traces")
    tested = {model.facts.traces[t] for t in model.world.test.index["Failed"][0].tolist()}  # type: ignore[union-attr]
    data["word"] = [
        "new" if day in tested and i % 2 else word
        for i, (day, word) in enumerate(zip(data["day"], data["word"], strict=True))
    ]
    with pytest.raises(
        DataError, match="the feature 'word' of 'pump' is 'new' only in rows for testing"
    ):
        trained(data, True, train=0.5, by="traces")
    lenient = trained(data, True, train=0.5, by="traces", unknown="zero")
    names = lenient.world.fixed.inputs["pump"].names
    assert names == ("bar", "gap", "gap missing", "word=x", "word=y")
    assert lenient.config.data.wide[0].categories == {"word": ("x", "y")}
    every = ["new", "x", "y"]
    six = trained(data, True, train=0.5, by="traces", categories={"word": every})
    assert len(six.world.fixed.inputs["pump"].names) == 6
    here = lenient.apply([{"predicate": ["Old"], "arg1": ["p0"]}, data])
    assert here.predictions().num_rows == len(data["day"])


def test_a_model_has_its_statistics_after_loading(tmp_path):
    data = rows(np.random.default_rng(10), away=True)
    model = trained(data, True, train=0.5, by="time")
    model.save(tmp_path / "model")
    loaded = fotltn.load_model(tmp_path / "model")
    assert torch.equal(seen(loaded).mean, seen(model).mean)
    assert loaded.predictions().equals(model.predictions())
