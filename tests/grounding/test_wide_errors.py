"""Wide tables that do not fit: every message says where, what, and what would be right."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fotltn import DataError
from tests.grounding.test_wide import read, wide

BASE = "who,t,stop,v,sky,other\na,0,1,0.5,sun,b\n"
NAMED = {"predicates": {"stop": "Stop"}, "features": ["v", "sky"]}
SKY = {"categories": {"sky": ["sun", "rain"]}}
CLOSE = {"predicates": {"stop": "Close"}, "arguments": {"stop": ["who", "other"]}}
NUMBER = "expected a finite number"
NAME = '\n      = add it to the categories, or set all of them to 0: unknown_categories = "zero"'
SAY = '\n      = choose how to fill missing values: missing = "mean", "zero" or "last"'
CELLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "truth": ("a,1,1.5,1,sun,b", NAMED | SKY,
              "f.csv:3, column 'stop': 'Stop' has the truth '1.5'; expected a degree from 0 to 1"),
    "word": ("a,1,maybe,1,sun,b", NAMED | SKY,
             "f.csv:3, column 'stop': 'Stop' has the truth 'maybe'; expected a degree from 0 to 1"),
    **{
        f"feature {v}": (f"a,1,1,{v},sun,b", NAMED | SKY,
                         f"f.csv:3, column 'v': the feature is '{v}'; {NUMBER}{SAY * (v == 'nan')}")
        for v in ("nan", "inf", "-inf", "fast", "1e999", "NA", "1_0", "0x1")
    },
    "no feature": ("a,1,1,,sun,b", NAMED | SKY, f"f.csv:3, column 'v': empty; {NUMBER}{SAY}"),
    "no category": ("a,1,1,1,,b", NAMED | SKY,
                    f"f.csv:3, column 'sky': empty; expected one of 'sun', 'rain'{SAY}"),
    "category": ("a,1,1,1,snow,b", NAMED | SKY,
                 "f.csv:3, column 'sky': the feature is 'snow'; expected one of 'sun', 'rain'"
                 f"{NAME}"),
    "no entity": (",1,1,1,sun,b", NAMED | SKY,
                  "f.csv:3, column 'who': empty; expected an entity of sort 'agent'"),
    "no time": ("a,,1,1,sun,b", NAMED | SKY,
                "f.csv:3, column 't': empty; expected a whole number of at least 0"),
    **{
        f"time {t}": (f"a,{t},1,1,sun,b", NAMED | SKY,
                      f"f.csv:3, column 't': '{t}' is not a time; expected a whole number of at "
                      "least 0")
        for t in ("1.5", "-1", "soon", "nan")
    },
    "no argument": ("a,1,1,1,sun,", CLOSE,
                    "f.csv:3, column 'other': empty; 'Close' needs an argument of sort 'agent'"),
}  # fmt: skip


@pytest.mark.parametrize("case", CELLS)
def test_bad_cells(tmp_path: Path, monkeypatch, case):
    row, options, wanted = CELLS[case]
    monkeypatch.chdir(tmp_path)
    Path("f.csv").write_text(f"{BASE}{row}\n")
    with pytest.raises(DataError) as found:
        read(wide("f.csv", **options))
    assert str(found.value) == f"error: {wanted}"


def test_bad_cells_of_typed_columns():
    table = pa.table({"who": ["a", "b"], "t": [0, 0], "v": [1.0, float("nan")]})
    with pytest.raises(DataError) as found:
        read(wide(table, features=["v"]))
    place = "row 2 of the data frame, column 'v'"
    assert str(found.value) == f"error: {place}: the feature is 'nan'; {NUMBER}{SAY}"
    with pytest.raises(DataError) as found:
        read(wide(table.set_column(2, "v", pa.array([1.0, None])), features=["v"]))
    assert str(found.value) == f"error: {place}: empty; {NUMBER}{SAY}"


def test_all_errors_come_at_once_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("f.csv").write_text(f"{BASE}a,x,1,1,sun,b\n\n,0,1,1,sun,b\nb,0,7,fast,fog,b\n")
    with pytest.raises(DataError) as found:
        read(wide("f.csv", **NAMED, **SKY))
    places = [
        line.split(":")[2].split(",")[0]
        for line in str(found.value).splitlines()
        if line.startswith("error")
    ]
    assert places == ["3", "5", "6", "6", "6"]


EMPTY: dict[str, list[Any]] = {"who": ["a"], "t": [0], "x": [1], "y": ["b"]}
SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "sort": ({"sort": "agnt"}, "the data frame: unknown sort 'agnt' of a wide table"),
    "column": ({"features": ["z"]}, "the data frame: no column 'z'"),
    "entity": ({"entity": "name"}, "the data frame: no column 'name'"),
    "time": ({"time": "time"}, "the data frame: no column 'time'"),
    "predicate": (
        {"predicates": {"x": "Stpo"}},
        "the data frame, column 'x': unknown predicate 'Stpo'\n      = did you mean 'Stop'?",
    ),
    "relation": (
        {"predicates": {"x": "pairs"}},
        "the data frame, column 'x': unknown predicate 'pairs'",
    ),
    "arity": (
        {"predicates": {"x": "Close"}},
        "the data frame, column 'x': 'Close' takes 2 arguments, but the table gives 1\n"
        "      = name the columns or fixed entities that are its arguments",
    ),
    "nullary": (
        {"predicates": {"x": "Rain"}},
        "the data frame, column 'x': 'Rain' takes 0 arguments, but the table gives 1",
    ),
    "sort of the argument": (
        {"predicates": {"x": "In"}, "arguments": {"x": ["y", "who"]}},
        "the data frame, column 'x': 'In' takes a 'place', but 'who' is of sort 'agent'",
    ),
    "temporal in static": (
        {"time": None, "predicates": {"x": "Stop"}},
        "the data frame, column 'x': 'Stop' changes over time, but the table has no time column",
    ),
    "temporal presence of a static table": (
        {"time": None, "presence": "Here"},
        "the data frame: 'Here' changes over time, but the table has no time column",
    ),
    "presence of two": (
        {"presence": "Close"},
        "the data frame: presence needs a predicate of one 'agent', not 'Close(agent, agent)'",
    ),
    "unknown presence": ({"presence": "Hier"}, "the data frame: unknown predicate 'Hier' for"),
    "arguments of nothing": (
        {"arguments": {"x": ["who"]}},
        "the data frame: arguments are given for 'x', which is not among the predicates",
    ),
    "categories of nothing": (
        {"categories": {"y": ["b"]}},
        "the data frame: categories are given for 'y', which is not among the features",
    ),
    "doubled categories": (
        {"features": ["y"], "categories": {"y": ["b", "b"]}},
        "the data frame: the categories of 'y' must be one or more different words",
    ),
    "doubled feature": (
        {"features": ["x", "x"]},
        "the data frame: the feature 'x' is named twice",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SETTINGS)
def test_tables_that_do_not_fit(case):
    options, wanted = SETTINGS[case]
    with pytest.raises(DataError) as found:
        read(wide(EMPTY, **options))
    assert str(found.value).startswith(f"error: {wanted}")


def test_one_feature_cannot_be_static_and_temporal():
    moves = wide({"who": ["a"], "t": [0], "v": [1]}, features=["v"])
    kinds = wide({"who": ["a"], "v": [1]}, time=None, features=["v"])
    place = "data frame 2, column 'v'"
    with pytest.raises(DataError) as found:
        read(moves, kinds)
    assert str(found.value) == f"error: {place}: another table has the feature 'v' with a time"
    with pytest.raises(DataError) as found:
        read(kinds, moves)
    assert str(found.value) == f"error: {place}: another table has the feature 'v' with no time"
    words = [
        wide(moves.source | {"v": ["x"]}, features=["v"], categories={"v": c})
        for c in (["x", "y"], ["x"])
    ]
    with pytest.raises(DataError, match="another table has the feature 'v' with other categories"):
        read(*words)


def test_several_traces_and_a_horizon():
    table = {"who": ["a", "a"], "t": [0, 3], "clip": ["x", None], "v": [1, 2], "stop": [1, 1]}
    options: dict[str, Any] = {"trace": "clip", "predicates": {"stop": "Stop"}, "features": ["v"]}
    other = {"who": ["a"], "t": [0], "clip": ["y"]}
    with pytest.raises(DataError) as found:
        read(wide(table, **options), wide(other, trace="clip"))
    wanted = "error: row 2 of data frame 1: 'agent' has no trace, but other facts have one"
    assert str(found.value) == wanted
    with pytest.raises(DataError) as found:
        read(wide(table, **options), horizon=2)
    text = "row 2 of the data frame: 'agent' has the time 3, beyond the horizon of 2 time points"
    assert str(found.value) == f"error: {text}"
    facts, features = read(wide(table, **options, presence="Here"), horizon=5)
    assert facts.lengths == (5,)
    assert features["agent"].values.flatten().tolist() == [1, 0, 0, 2, 0]


def test_features_that_are_too_large():
    table = {"who": ["a"], "t": [2**31 - 1], "v": [1]}
    with pytest.raises(DataError, match="the features of 'agent' would have 2,147,483,648 cells"):
        read(wide(table, features=["v"], presence="Here"))
