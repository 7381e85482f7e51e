"""Wide tables: predicates and features by column."""

import random
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pytest
import torch

from fotltn import DataError, check
from fotltn.grounding.facts import Facts, read_facts
from fotltn.grounding.features import Features
from fotltn.grounding.wide import Entity, Wide, read_wide
from fotltn.syntax.load import parse_theory

SIGNATURE = check(
    parse_theory(
        """
        sort agent
        sort place
        static predicate Car(agent)
        static predicate Seen(agent)
        predicate Stop(agent)
        predicate Here(agent)
        predicate Close(agent, agent)
        predicate In(agent, place)
        predicate Rain
        function owner(agent): agent
        temporal function speed(agent): real
        relation pairs(agent, agent)
        """,
        source="wide.fot",
    )
).signature


def wide(source: Any, **options: Any) -> Wide:
    return Wide(**({"source": source, "sort": "agent", "entity": "who", "time": "t"} | options))


def read(*tables: Wide, **options: Any) -> tuple[Facts, dict[str, Features]]:
    return read_wide(tables, SIGNATURE, **options)


def named(facts: Facts) -> dict[str, list[tuple[Any, ...]]]:
    """For each symbol its rows (trace, arguments, time, value) by name."""
    symbols: dict[str, Any] = {**SIGNATURE.predicates, **SIGNATURE.functions}
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name, part in facts.rows.items():
        for trace, args, time, value in zip(
            part.trace, part.args, part.time, part.value, strict=True
        ):
            names = [
                str(facts.name(s, trace, a)) for s, a in zip(symbols[name].sorts, args, strict=True)
            ]
            row = (facts.traces[trace], tuple(names), int(time), float(value))
            found.setdefault(name, []).append(row)
    return {name: sorted(rows) for name, rows in found.items()}


# --- facts -----------------------------------------------------------------------------------


def test_predicates():
    table = {
        "who": ["a", "b", "a"],
        "t": [0, 0, 1],
        "stop": [1, 0.25, None],
        "rain": ["true", "true", "False"],
        "other": ["?", "?", "?"],
    }
    given = {"stop": "Stop", "rain": "Rain"}
    facts, features = read(wide(table, predicates=given, arguments={"rain": []}))
    assert named(facts) == {
        "Stop": [("", ("a",), 0, 1.0), ("", ("b",), 0, 0.25)],
        "Rain": [("", (), 0, 1.0), ("", (), 1, 0.0)],
    }
    assert (facts.entities["agent"], facts.lengths, facts.warnings) == (("a", "b"), (2,), ())
    assert features == {}


def test_the_same_as_a_long_table(tmp_path):
    """A random wide table in every format, and its facts as rows of a long one."""
    rng = random.Random(1)
    cells: dict[str, list[Any]] = {n: [] for n in ("clip", "who", "t", "stop", "car", "speed")}
    long: dict[str, list[Any]] = {
        n: [] for n in ("predicate", "arg1", "time", "truth", "value", "trace")
    }
    cars = {who: rng.choice([0.0, 1.0]) for who in "abc"}
    for clip in ("x", "y"):
        for who in "cab":
            for t in range(4):
                stop, speed = rng.choice([None, rng.random()]), rng.random()
                row: list[Any] = [clip, who, t, stop, cars[who], speed]
                for column, cell in zip(cells.values(), row, strict=True):
                    column.append(cell)
                stated: list[list[Any]] = [["speed", who, t, None, speed, clip]]
                stated += [["Stop", who, t, stop, None, clip]] if stop is not None else []
                stated += [["Car", who, None, cars[who], None, clip]] if t == 0 else []
                for fact in stated:
                    for column, cell in zip(long.values(), fact, strict=True):
                        column.append(cell)
    table = pa.table(cells)
    csv.write_csv(table, tmp_path / "w.csv")
    parquet.write_table(table, tmp_path / "w.parquet")
    wanted = read_facts([long], SIGNATURE)
    for source in (cells, table, tmp_path / "w.csv", str(tmp_path / "w.parquet")):
        given = {"stop": "Stop", "car": "Car", "speed": "speed"}
        facts, _ = read(wide(source, trace="clip", predicates=given))
        assert named(facts) == named(wanted)
        assert (facts.lengths, facts.traces) == (wanted.lengths, wanted.traces)
        assert facts.warnings == ()


def test_arguments_from_columns_and_fixed_ones():
    table = {
        "who": ["a", "b"],
        "t": [0, 1],
        "other": ["b", None],
        "to_other": [1, None],
        "to_ego": [0.5, 0],
        "zone": ["park", "road"],
        "in": [1, 1],
        "boss": ["b", "ego"],
    }
    given = {"to_other": "Close", "to_ego": "Close", "in": "In", "boss": "owner"}
    arguments = {
        "to_other": ["who", "other"],
        "to_ego": [Entity("ego"), "who"],
        "in": ["who", "zone"],
    }
    facts, _ = read(wide(table, predicates=given, arguments=arguments))
    assert named(facts) == {
        "Close": [("", ("a", "b"), 0, 1.0), ("", ("ego", "a"), 0, 0.5), ("", ("ego", "b"), 1, 0.0)],
        "In": [("", ("a", "park"), 0, 1.0), ("", ("b", "road"), 1, 1.0)],
        "owner": [("", ("a",), -1, 1.0), ("", ("b",), -1, 2.0)],
    }
    assert facts.entities == {"agent": ("a", "b", "ego"), "place": ("park", "road")}


def test_long_and_wide_share_numbers():
    long = {
        "predicate": ["Stop", "Car"],
        "arg1": ["z", "a"],
        "time": [5, None],
        "trace": ["q", "q"],
    }
    table = {"who": ["a", "y"], "t": [0, 1], "clip": ["p", "q"], "stop": [1, 0]}
    facts, _ = read(wide(table, trace="clip", predicates={"stop": "Stop"}), facts=[long])
    assert facts.traces == ("q", "p")
    assert facts.entities["agent"] == ("z", "a", "y")
    assert facts.lengths == (6, 1)
    assert named(facts)["Stop"] == [
        ("p", ("a",), 0, 1.0),
        ("q", ("y",), 1, 0.0),
        ("q", ("z",), 5, 1.0),
    ]


def test_a_row_without_facts_is_an_entity_and_a_time():
    facts, _ = read(wide({"who": ["a", "b"], "t": [0, 7], "stop": [None, None]}))
    assert (facts.entities["agent"], facts.lengths, facts.rows) == (("a", "b"), (8,), {})


def test_presence():
    table = {"who": ["a", "b", "a"], "t": [0, 2, 2]}
    facts, _ = read(wide(table, presence="Here"), wide(table, presence="Seen"))
    assert named(facts) == {
        "Here": [("", ("a",), 0, 1.0), ("", ("a",), 2, 1.0), ("", ("b",), 2, 1.0)],
        "Seen": [("", ("a",), -1, 1.0), ("", ("b",), -1, 1.0)],
    }
    assert facts.warnings == ()


def test_presence_stated_twice_is_no_repetition():
    table = {"who": ["a"], "t": [0]}
    facts, _ = read(wide(table, presence="Here"), wide(table, presence="Here"))
    assert named(facts) == {"Here": [("", ("a",), 0, 1.0)]}
    assert facts.warnings == ()


def test_static_tables_hold_in_every_trace():
    moves = {"who": ["a", "a"], "t": [0, 0], "clip": ["x", "y"], "stop": [1, 0]}
    kinds = {"who": ["a"], "car": [1], "size": [4.5]}
    facts, features = read(
        wide(moves, trace="clip", predicates={"stop": "Stop"}),
        wide(kinds, time=None, predicates={"car": "Car"}, features=["size"]),
    )
    assert named(facts)["Car"] == [("x", ("a",), -1, 1.0), ("y", ("a",), -1, 1.0)]
    assert features["agent"].values.tolist() == [[[[4.5]]], [[[4.5]]]]


def test_local_sorts():
    table = {
        "clip": ["x", "y", "y"],
        "who": ["a", "b", "a"],
        "t": [0, 0, 1],
        "stop": [None, 1, None],
        "v": [1.0, 2.0, 3.0],
    }
    options: dict[str, Any] = {"trace": "clip", "predicates": {"stop": "Stop"}, "features": ["v"]}
    facts, features = read(wide(table, presence="Here", **options), local=["agent"])
    assert facts.local == {"agent": (("a",), ("b", "a"))}
    assert features["agent"].values[..., 0].tolist() == [[[1, 0], [0, 0]], [[2, 0], [0, 3]]]
    with pytest.raises(DataError) as found:
        read(wide(table, **options), local=["agent"])
    assert "the feature 'v' has no value for 'b' at time 1 in trace 'y' (and 1 more)" in str(
        found.value
    )
    with pytest.raises(DataError) as found:
        read(wide(table, **options), wide({"who": ["a"]}, time=None), local=["agent"])
    assert str(found.value) == (
        "error: row 1 of data frame 2: 'agent' has no trace, but each entity of sort 'agent' "
        "belongs to one trace"
    )


# --- features --------------------------------------------------------------------------------


def test_features_have_axes_trace_entity_time_feature(tmp_path):
    rng = random.Random(2)
    sizes = {"x": 3, "y": 2}
    known = {
        (clip, who, t): (rng.gauss(0, 1), rng.randrange(9))
        for clip, n in sizes.items()
        for who in "ab"
        for t in range(n)
    }
    order = list(known)
    rng.shuffle(order)
    table = pa.table(
        {
            "clip": [key[0] for key in order],
            "who": [key[1] for key in order],
            "t": [key[2] for key in order],
            "v": [known[key][0] for key in order],
            "n": [known[key][1] for key in order],
        }
    )
    csv.write_csv(table, tmp_path / "w.csv")
    for source in (table, tmp_path / "w.csv"):
        facts, features = read(wide(source, trace="clip", features=["n", "v"]))
        found = features["agent"]
        assert found.names == ("n", "v")
        assert (found.values.shape, found.values.dtype) == ((2, 2, 3, 2), torch.float64)
        for trace, clip in enumerate(facts.traces):
            for entity, who in enumerate(facts.entities["agent"]):
                for t in range(3):
                    v, n = known.get((clip, who, t), (0.0, 0))
                    assert found.values[trace, entity, t].tolist() == [n, v]
    _, features = read(wide(table, trace="clip", features=["v"]), dtype=torch.float32)
    assert features["agent"].values.dtype == torch.float32


def test_static_and_temporal_features_go_together():
    moves = {"who": ["a", "b", "a", "b"], "t": [0, 0, 1, 1], "v": [1, 2, 3, 4]}
    kinds = {"who": ["b", "a"], "size": [0.5, 0.25], "truck": [True, False]}
    _, features = read(
        wide(moves, features=["v"]), wide(kinds, time=None, features=["size", "truck"])
    )
    assert features["agent"].names == ("v", "size", "truck")
    assert features["agent"].values.tolist() == [
        [[[1, 0.25, 0], [3, 0.25, 0]], [[2, 0.5, 1], [4, 0.5, 1]]]
    ]
    _, features = read(wide(kinds, time=None, features=["size"]))
    assert features["agent"].values.shape == (1, 2, 1, 1)


def test_one_feature_in_several_tables():
    parts = [
        wide({"who": ["a"], "t": [t], "clip": ["x"], "v": [t + 1]}, trace="clip", features=["v"])
        for t in range(3)
    ]
    _, features = read(*parts)
    assert features["agent"].values.flatten().tolist() == [1, 2, 3]
    assert features["agent"].names == ("v",)


def test_text_features_are_one_hot():
    table = {
        "who": ["a", "a", "b"],
        "t": [0, 1, 0],
        "sky": ["sun", " rain ", "sun"],
        "v": [1, 2, 3],
    }
    words = {"sky": ["rain", "sun", "snow"]}
    _, features = read(wide(table, features=["sky", "v"], categories=words, presence="Here"))
    assert features["agent"].names == ("sky=rain", "sky=sun", "sky=snow", "v")
    assert features["agent"].values.tolist() == [
        [[[0, 1, 0, 1], [1, 0, 0, 2]], [[0, 1, 0, 3], [0, 0, 0, 0]]]
    ]


def test_features_of_the_absent_are_zero_and_others_an_error():
    table = {"who": ["a", "a", "b"], "t": [0, 1, 1], "v": [5, 6, 7]}
    _, features = read(wide(table, features=["v"], presence="Here"))
    assert features["agent"].values[0, :, :, 0].tolist() == [[5, 6], [0, 7]]
    with pytest.raises(DataError) as found:
        read(wide(table, features=["v"]))
    assert str(found.value) == (
        "error: the feature 'v' has no value for 'b' at time 0\n"
        "      = add rows; or name a presence predicate, which is true where there is a row; "
        'or choose how to fill missing values: missing = "mean", "zero" or "last"'
    )
    known = {"predicate": ["Here"], "arg1": ["b"], "time": [0], "truth": [0]}
    assert read(wide(table, features=["v"], presence="Here"), facts=[known])[1]
    with pytest.raises(DataError, match="no value for 'b' at time 0\n"):
        read(wide(table, features=["v"], presence="Here"), facts=[known | {"truth": [1]}])
    known = {"predicate": ["Stop"], "arg1": ["c"], "time": [0]}
    with pytest.raises(DataError, match=r"no value for 'c' at time 0 \(and 2 more\)"):
        read(wide(table, features=["v"]), facts=[known])
    kinds = wide({"who": ["a"], "size": [1]}, time=None, features=["size"])
    with pytest.raises(DataError, match="the feature 'size' has no value for 'b'\n"):
        read(wide(table, features=["v"], presence="Here"), kinds)


def test_repeated_and_contradicting_rows():
    table = {"who": ["a"] * 3, "t": [0] * 3, "v": [1, 1, 1], "w": [2, 2, 2], "stop": [1, 1, 0]}
    one = wide(table, features=["v", "w"])
    facts, _ = read(one)
    assert [w.message for w in facts.warnings] == ["features of 'agent': 4 repeated values"]
    two = wide(table, predicates={"stop": "Stop"})
    with pytest.raises(DataError) as found:
        read(two)
    assert str(found.value) == (
        "error: row 3 of the data frame, column 'stop': 'Stop' is 0 here, but 1 at row 1 of the "
        "data frame, column 'stop'\n      = a fact has one truth value: remove one of the two rows"
    )
    facts, _ = read(two, on_conflict="majority")
    assert named(facts)["Stop"] == [("", ("a",), 0, 1.0)]
    clash = wide({"who": ["a", "a"], "t": [0, 0], "v": [1, 3], "sky": ["x", "y"]}, features=["v"])
    with pytest.raises(DataError, match="column 'v': the feature 'v' is 3 here, but 1 at row 1 of"):
        read(clash)
    facts, features = read(clash, on_conflict="mean")
    assert features["agent"].values.item() == 2
    message = "features of 'agent': 1 contradictory value settled by 'mean'"
    assert [w.message for w in facts.warnings] == [message]
    words = wide(clash.source, features=["sky"], categories={"sky": ["y", "x"]})
    with pytest.raises(DataError, match=r"the feature 'sky' is 'y' here, but 'x' at(.|\n)*a mean"):
        read(words, on_conflict="mean")
    assert read(words, on_conflict="last")[1]["agent"].values.flatten().tolist() == [1, 0]


def test_a_static_predicate_in_a_table_with_times_must_agree():
    table = {"who": ["a", "a", "b"], "t": [0, 1, 0], "car": [1, 1, 0]}
    facts, _ = read(wide(table, predicates={"car": "Car"}))
    assert named(facts)["Car"] == [("", ("a",), -1, 1.0), ("", ("b",), -1, 0.0)]
    assert facts.warnings == ()
    with pytest.raises(DataError, match="row 2 of the data frame, column 'car': 'Car' is 0 here"):
        read(wide(table | {"car": [1, 0, 0]}, predicates={"car": "Car"}))


def test_yes_and_no_are_truth_values_of_predicates_and_words_of_features():
    rows = {"who": ["a", "a", "a"], "t": [0, 1, 2], "halt": ["yes", "No", None], "wet": ["yes"] * 3}
    table = wide(rows, predicates={"halt": "Stop"}, features=["wet"])
    facts, features = read(table)
    assert named(facts)["Stop"] == [("", ("a",), 0, 1.0), ("", ("a",), 1, 0.0)]
    assert features["agent"].names == ("wet=yes",)
