"""Features without a value: what networks see then, against one cell after another."""

import math
import random
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pytest
import torch

from fotltn import DataError
from fotltn.grounding.wide import Wide, read_wide
from fotltn.networks.encoders import FeatureInputs, with_changes
from tests.grounding.test_wide import SIGNATURE, read, wide

HOWS = ("mean", "zero", "last")
WORDS = ["red", "blue"]


def cells(rng: random.Random, presence: bool) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Rows by trace, entity and time, some of them empty, and some not there at all."""
    rows: dict[tuple[str, str, int], dict[str, Any]] = {}
    for run in "xy":
        for who in "abc":
            for t in range(5):
                if t < 4 and rng.random() < 0.3 and (presence or t > 0):
                    continue
                speed = None if rng.random() < 0.4 else round(rng.uniform(-9, 9), 2)
                colour = None if rng.random() < 0.4 else rng.choice(WORDS)
                rows[run, who, t] = {"speed": speed, "colour": colour}
    return rows


def slow(rows: dict[Any, dict[str, Any]], how: str, presence: bool) -> torch.Tensor:
    """The features speed, its mark, red, blue and their mark, a cell at a time."""
    values = torch.zeros(2, 3, 5, 5, dtype=torch.float64)
    for b, run in enumerate("xy"):
        for e, who in enumerate("abc"):
            last: dict[str, Any] = {"speed": None, "colour": None}
            for t in range(5):
                row = rows.get((run, who, t))
                if row is None and presence:
                    continue
                seen = row or {"speed": None, "colour": None}
                now = dict(seen)
                for column, cell in seen.items():
                    if cell is not None:
                        last[column] = cell
                    elif how == "last":
                        now[column] = last[column]
                empty = 0.0 if how == "zero" else math.nan
                speed = empty if now["speed"] is None else now["speed"]
                colour = [empty] * 2
                if now["colour"] is not None:
                    colour = [float(word == now["colour"]) for word in WORDS]
                marks = [float(seen[column] is None) for column in ("speed", "colour")]
                values[b, e, t] = torch.tensor([speed, marks[0], *colour, marks[1]])
    return values


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("presence", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_missing_values(how, presence, seed, tmp_path):
    rng = random.Random(seed)
    rows = cells(rng, presence)
    order = [*rows]
    rng.shuffle(order)
    order = [("x", w, 4) for w in "abc"] + [
        r for r in order if r[0] == "y" or r[2] < 4
    ]  # who is who
    table = pa.table({
        "run": [r for r, _, _ in order], "who": [w for _, w, _ in order],
        "t": [t for _, _, t in order],
        "speed": pa.array([rows[k]["speed"] for k in order], pa.float64()),
        "colour": pa.array([rows[k]["colour"] for k in order], pa.string()),
    })  # fmt: skip
    csv.write_csv(table, tmp_path / "w.csv")
    nan = table.set_column(
        3, "speed", pa.array([math.nan if v is None else v for v in table["speed"].to_pylist()])
    )
    csv.write_csv(nan, tmp_path / "nan.csv")
    wanted = slow(rows, how, presence)
    for source in (table, nan, tmp_path / "w.csv", tmp_path / "nan.csv"):
        for missing in (how, {"speed": how, "colour": how}):
            options: dict[str, Any] = {"presence": "Here"} if presence else {}
            one = wide(
                source, trace="run", features=["speed", "colour"], categories={"colour": WORDS},
                missing=missing, **options,
            )  # fmt: skip
            _, features = read(one)
            seen = features["agent"]
            assert seen.names == (
                "speed", "speed missing", "colour=red", "colour=blue", "colour missing"
            )  # fmt: skip
            assert torch.equal(seen.values.isnan(), wanted.isnan())
            assert torch.equal(seen.values.nan_to_num(-1), wanted.nan_to_num(-1))


def test_gaps_of_static_features():
    table = {"who": ["a", "b", "c"], "size": [1.0, None, 3.0]}
    _, features = read(wide(table, time=None, features=["size"], missing="mean"))
    assert features["agent"].values[0, :, 0, 1].tolist() == [0.0, 1.0, 0.0]
    assert features["agent"].values[0, :, 0, 0].isnan().tolist() == [False, True, False]


def test_a_column_that_is_empty_throughout():
    table = {"who": ["a", "b"], "size": pa.nulls(2)}
    _, features = read(wide(table, time=None, features=["size"], missing="mean"))
    assert FeatureInputs(features["agent"].values)()[0, :, 0].tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("seed", range(5))
def test_networks_see_the_mean_of_what_is_there(seed):
    g = torch.Generator().manual_seed(seed)
    values = torch.randn(2, 3, 4, 3, generator=g, dtype=torch.float64) * 5 + 2
    gap = torch.rand(values.shape, generator=g) < 0.3
    gap[..., 2] = False
    present = torch.rand(2, 3, 4, generator=g) < 0.8
    for mask in (None, present):
        inputs = FeatureInputs(values.masked_fill(gap, math.nan), present=mask)
        there = ~gap if mask is None else ~gap & mask.unsqueeze(-1)
        for k in range(3):
            known = values[..., k][there[..., k]]
            mean = sum(known.tolist()) / len(known)
            spread = math.sqrt(sum((v - mean) ** 2 for v in known.tolist()) / len(known))
            wanted = torch.where(there[..., k], (values[..., k] - mean) / spread, 0.0)
            assert torch.allclose(inputs()[..., k], wanted, atol=1e-12)
        later = FeatureInputs(values.masked_fill(~gap, math.nan), present=mask)
        later.load_state_dict(inputs.state_dict())  # the mean is that of training
        unseen = gap if mask is None else gap & mask.unsqueeze(-1)
        assert torch.allclose(
            later(), torch.where(unseen, (values - inputs.mean) / inputs.spread, 0.0), atol=1e-12
        )


def test_a_change_from_or_to_what_is_missing_is_missing():
    values = torch.tensor([1.0, math.nan, 4.0, 9.0]).reshape(1, 1, 4, 1)
    changed = with_changes(values, torch.ones(1, 1, 4, dtype=torch.bool), [1])
    assert changed[0, 0, :, 1].isnan().tolist() == [False, True, True, False]
    assert changed[0, 0, 3, 1] == 5


FRAME = "the data frame"
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "error": (
        {},
        f"row 2 of {FRAME}, column 'speed': empty; expected a finite number\n"
        '      = choose how to fill missing values: missing = "mean", "zero" or "last"',
    ),
    "text": (
        {"missing": "mean", "features": ["word"]},
        f"row 1 of {FRAME}, column 'word': the feature is 'NA'; expected a finite number",
    ),
    "kind": (
        {"missing": "median"},
        "missing: expected one of 'error', 'mean', 'zero', 'last' or a mapping from text to one of "
        "'error', 'mean', 'zero', 'last', not 'median'\n      = did you mean 'mean'?",
    ),
    "no feature": (
        {"missing": {"sped": "mean"}},
        f"{FRAME}: missing is set for 'sped', which is not among the features",
    ),
    "static": (
        {"missing": "last", "time": None},
        f"{FRAME}, column 'speed': a static feature has no last value\n"
        '      = use missing = "mean" or "zero"',
    ),
    "name": (
        {"missing": "mean", "features": ["speed", "speed missing"]},
        f"{FRAME}: the feature 'speed missing' is added, but a column has this name as well",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_gaps(case):
    options, wanted = BAD[case]
    table = {
        "who": ["a", "a"],
        "t": [0, 1],
        "speed": [1.0, None],
        "word": ["NA", "1"],
        "speed missing": [0, 1],
    }
    with pytest.raises(DataError) as raised:
        read(wide(table, **({"features": ["speed"]} | options)))
    assert str(raised.value) == f"error: {wanted}"


def test_tables_of_one_feature_say_the_same_of_gaps():
    def table(how: Any) -> Wide:
        return wide({"who": ["a"], "t": [0], "v": [1]}, features=["v"], missing=how)

    with pytest.raises(
        DataError, match="another table has the feature 'v' with missing = \"mean\""
    ):
        read_wide([table("mean"), table("zero")], SIGNATURE)


def test_a_row_without_a_value_does_not_contradict_one_with_a_value():
    table = {"who": ["a", "a"], "t": [0, 0], "v": [None, 3.0]}
    facts, features = read(wide(table, features=["v"], missing="mean"))
    assert features["agent"].values.tolist() == [[[[3.0, 0.0]]]]
    assert facts.warnings == ()
