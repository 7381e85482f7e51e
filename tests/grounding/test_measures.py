"""Predicates by what is measured, tables about one entity, and entities that come and go."""

from typing import Any

import pytest
import torch

from fotltn import DataError, check
from fotltn.grounding.dense import present, tables_of_facts
from fotltn.grounding.measures import Entity, Measure
from fotltn.grounding.wide import Wide, read_wide
from fotltn.syntax.load import parse_theory

SIGNATURE = check(
    parse_theory(
        """
        sort car, ped
        predicate Stop(car), Red(car)
        predicate Close(car, ped), Near(ped), Far(ped), Tall(ped)
        static predicate Known(ped)
        predicate Here(ped)
        temporal function height(ped): real
        function age(ped): real
        """,
        source="measures.fot",
    )
).signature
PEDS = {
    "clip": ["a", "a", "a", "b"],
    "t": [0, 1, 1, 2],
    "who": ["p", "p", "q", "r"],
    "h": ["0.1", "0.2", "", "0.4"],
}
CARS = {"clip": ["a", "a", "b"], "t": [0, 1, 2], "stop": [1, 0, 1], "light": ["red", "green", ""]}


def peds(**options: Any) -> Wide:
    given: dict[str, Any] = {"sort": "ped", "entity": "who", "time": "t", "trace": "clip"}
    return Wide(PEDS, **(given | options))


def cars(**options: Any) -> Wide:
    given: dict[str, Any] = {"sort": "car", "entity": Entity("ego"), "time": "t", "trace": "clip"}
    return Wide(CARS, **(given | options))


def degrees(name, *tables, **options):
    """The stated degrees of a predicate by trace, arguments and time."""
    facts, _ = read_wide(tables, SIGNATURE, **options)
    sorts = SIGNATURE.predicates[name].sorts
    rows = facts.rows[name]
    return {
        (facts.traces[tr], *(facts.name(s, tr, int(a)) for s, a in zip(sorts, args, strict=True)),
         int(time)): float(value)
        for tr, args, time, value in zip(rows.trace, rows.args, rows.time, rows.value, strict=True)
    }  # fmt: skip


# --- measures -------------------------------------------------------------------------------------


def test_from_a_number_on():
    found = degrees("Tall", peds(measures={"Tall": Measure("h", at_least=0.2)}))
    assert found == {("a", "p", 0): 0, ("a", "p", 1): 1, ("b", "r", 2): 1}


def test_up_to_a_number():
    found = degrees("Far", peds(measures={"Far": Measure("h", at_most=0.2)}))
    assert found == {("a", "p", 0): 1, ("a", "p", 1): 1, ("b", "r", 2): 0}


@pytest.mark.parametrize(
    ("zero", "one", "wanted"),
    [(0.1, 0.4, [0, 1 / 3, 1]), (0.3, 0.1, [1, 0.5, 0]), (0.15, 0.25, [0, 0.5, 1])],
)
def test_between_two_numbers(zero, one, wanted):
    found = degrees("Near", peds(measures={"Near": Measure("h", zero=zero, one=one)}))
    assert list(found.values()) == pytest.approx(wanted)


def test_halfway_is_one_half():
    measure = Measure("h", zero=0.1, one=0.4)
    table = {**PEDS, "h": [0.25] * 4}
    given = Wide(table, "ped", "who", "t", "clip", measures={"Near": measure})
    assert set(degrees("Near", given).values()) == {0.5}


def test_one_of_some_words_about_the_one_entity_of_a_table():
    given = cars(predicates={"stop": "Stop"}, measures={"Red": Measure("light", among=["red"])})
    assert degrees("Red", given) == {("a", "ego", 0): 1, ("a", "ego", 1): 0}  # empty: not stated
    assert degrees("Stop", given) == {("a", "ego", 0): 1, ("a", "ego", 1): 0, ("b", "ego", 2): 1}


def test_arguments_of_a_measure_and_several_of_one_column():
    measures = {
        "Close": Measure("h", at_least=0.2, arguments=[Entity("ego"), "who"]),
        "Near": Measure("h", zero=0, one=1),
    }
    found = degrees("Close", cars(), peds(measures=measures))
    assert found == {("a", "ego", "p", 0): 0, ("a", "ego", "p", 1): 1, ("b", "ego", "r", 2): 1}
    assert degrees("Near", peds(measures=measures))["b", "r", 2] == 0.4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "measured in exactly one way: at_least, at_most, zero and one, or among"),
        ({"at_least": 1, "at_most": 2}, "measured in exactly one way"),
        ({"zero": 1}, "measured in exactly one way"),
        ({"zero": 1, "at_least": 2}, "measured in exactly one way"),
        ({"zero": 2, "one": 2}, "both at 2; choose two different numbers, or at_least = 2"),
        ({"at_least": float("inf")}, "must be finite numbers"),
    ],
)
def test_a_measure_that_is_none(options, message):
    with pytest.raises(DataError, match=message):
        Measure("h", **options)


@pytest.mark.parametrize(
    ("measures", "message"),
    [
        ({"Tall": Measure("hh", at_least=1)}, "no column 'hh'\n.*did you mean 'h'"),
        ({"Tal": Measure("h", at_least=1)}, "unknown predicate 'Tal'"),
        ({"height": Measure("h", at_least=1)}, "'height' is a function, but only predicates"),
        ({"Close": Measure("h", at_least=1)}, "'Close' takes 2 arguments, but the table gives 1"),
        ({"Tall": Measure("who", at_least=1)}, "row 1 of .*column 'who': 'p' is not a number"),
    ],
)
def test_measures_that_do_not_fit(measures, message):
    with pytest.raises(DataError, match=f"(?s){message}"):
        read_wide([peds(measures=measures)], SIGNATURE)


# --- one entity -----------------------------------------------------------------------------------


def test_empty_lines_are_nobody():
    table = {"clip": ["a", None, "a"], "t": [0, None, 1], "stop": [1, None, 0]}
    given = Wide(table, "car", Entity("ego"), "t", "clip", {"stop": "Stop"})
    assert len(degrees("Stop", given)) == 2


def test_a_wrong_sort_is_told():
    given = Wide(CARS, "ped", Entity("ego"), "t", "clip", {"stop": "Stop"})
    with pytest.raises(DataError, match="'Stop' takes a 'car', but 'ego' is of sort 'ped'"):
        read_wide([given], SIGNATURE)


def test_a_table_of_nothing():
    with pytest.raises(DataError, match="must name at least one column"):
        read_wide([Wide(CARS, "car", Entity("ego"))], SIGNATURE)


# --- presence -------------------------------------------------------------------------------------


def test_presence_over_time_and_for_the_whole_trace():
    table = {**PEDS, "h": [0.1, 0.2, 0.3, 0.4]}
    given = Wide(
        table, "ped", "who", "t", "clip", {"h": "height"}, features=["h"],
        presence=["Known", "Here"],
    )  # fmt: skip
    facts, features = read_wide([given], SIGNATURE, local=["ped"])
    assert facts.present == {"ped": ("Here",)}
    model = tables_of_facts(facts, _with("height", "Known", "Here"))
    assert model.predicate("Known")[..., 0].tolist() == [[1, 1], [1, 0]]
    here = [[[1, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 0]]]
    assert model.predicate("Here").tolist() == here
    assert present(facts, "ped").int().tolist() == here
    height = [[[0.1, 0.2, 0], [0, 0.3, 0]], [[0, 0, 0.4], [0, 0, 0]]]
    assert model.function("height").tolist() == height  # 0 where nobody is
    assert features["ped"].values[..., 0].tolist() == height


def test_a_function_needs_a_value_wherever_its_entity_is():
    given = peds(predicates={"h": "height"}, presence="Here")
    facts, _ = read_wide([given], SIGNATURE, local=["ped"])
    with pytest.raises(DataError, match=r"no value for \(q\) at time 1 in trace 'a'"):
        tables_of_facts(facts, _with("height"))
    table = {"who": ["p", "q"], "age": [3, 4], "clip": ["a", "b"]}
    static = Wide(table, "ped", "who", trace="clip", predicates={"age": "age"})
    facts, _ = read_wide([peds(presence="Here"), static], SIGNATURE, local=["ped"])
    with pytest.raises(DataError, match=r"'age' has no value for \(q\) in trace 'a'"):
        tables_of_facts(facts, _with("age"))


def test_without_presence_a_function_is_total():
    table = {**PEDS, "h": [0.1, 0.2, 0.3, 0.4]}
    given = Wide(table, "ped", "who", "t", "clip", {"h": "height"})
    facts, _ = read_wide([given], SIGNATURE, local=["ped"])
    with pytest.raises(DataError, match=r"no value for \(q\) at time 0 in trace 'a'"):
        tables_of_facts(facts, _with("height"))


def _with(*names):
    """The signature with some functions only, since others would lack values."""
    from dataclasses import replace

    functions = {n: d for n, d in SIGNATURE.functions.items() if n in names}
    return replace(SIGNATURE, functions=functions)


def test_features_of_static_and_moving_tables_of_one_entity():
    moving = cars(features=["stop"])
    still = Wide({"clip": ["a", "b"], "size": [2.0, 3.0]}, "car", Entity("ego"), trace="clip",
                 features=["size"])  # fmt: skip
    table = {"clip": ["a", "a", "b", "b", "b"], "t": [0, 1, 0, 1, 2], "stop": [1, 0, 1, 1, 0]}
    moving = Wide(table, "car", Entity("ego"), "t", "clip", features=["stop"])
    _, features = read_wide([moving, still], SIGNATURE)
    assert features["car"].names == ("stop", "size")
    wanted = torch.tensor([[[1, 2], [0, 2], [0, 2]], [[1, 3], [1, 3], [0, 3]]]).double()
    assert torch.equal(features["car"].values[:, 0], wanted)


# --- where there is a row ------------------------------------------------------------------------


def test_a_measure_without_a_column_is_true_of_every_row():
    """An empty argument states nothing, and a row that comes twice counts once."""
    theory = check(parse_theory("sort pump\npredicate Feeds(pump, pump), Noted(pump)")).signature
    pipes = {"from": ["a", "a", "b", "c"], "to": ["b", "b", "c", None], "t": [0, 0, 1, 1]}
    measures = {"Feeds": Measure(arguments=["from", "to"]), "Noted": Measure()}
    facts, _ = read_wide([Wide(pipes, "pump", "from", time="t", measures=measures)], theory)
    assert facts.entities["pump"] == ("a", "b", "c")
    tables = tables_of_facts(facts, theory)
    assert tables.predicate("Feeds")[0].nonzero().tolist() == [[0, 1, 0], [1, 2, 1]]
    assert tables.predicate("Noted")[0].tolist() == [[1, 0], [0, 1], [0, 1]]
    assert not facts.warnings
    with pytest.raises(DataError, match="a measure without a column takes no limits"):
        Measure(among=["x"])


def test_events_of_one_time_do_not_contradict_each_other():
    theory = check(parse_theory("sort pump\npredicate Repair(pump), Check(pump)")).signature
    log = {"pump": ["a", "a", "b"], "t": [0, 0, 1], "event": ["repair", "check", "check"]}

    def read(**more):
        measures = {
            name: Measure("event", among=[name.lower()], **more) for name in ("Repair", "Check")
        }
        facts, _ = read_wide([Wide(log, "pump", "pump", time="t", measures=measures)], theory)
        return tables_of_facts(facts, theory)

    tables = read(only_true=True)
    assert tables.predicate("Repair")[0].tolist() == [[1, 0], [0, 0]]
    assert tables.predicate("Check")[0].tolist() == [[1, 0], [0, 1]]
    with pytest.raises(DataError, match="'Repair' is 0 here, but 1"):
        read()
