"""Traces with their own entities."""

import random
from typing import Any

import pytest
import torch

from fotltn import DataError, check
from fotltn.evaluation import evaluate_core, present
from fotltn.grounding.dense import presence, tables_of_facts
from fotltn.grounding.facts import Facts, read_facts
from fotltn.logic.check import check_formula
from fotltn.semantics.config import CRISP
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula

SIGNATURE = check(
    parse_theory(
        """
        sort ped
        sort light
        static predicate There(ped)
        predicate Crossing(ped)
        predicate Close(ped, ped)
        predicate Sees(ped, light)
        static predicate Big(light)
        function friend(ped): ped
        temporal function looks(ped): light
        temporal function speed(ped): real
        function near(light): ped
        relation lights(light, light)
        relation couples(ped, ped)
        constant main: light
        """,
        source="local.fot",
    )
).signature
NAMES = ("predicate", "arg1", "arg2", "time", "truth", "value", "trace")
CLIPS = {"c1": ["p1", "p2", "p3"], "c2": ["p9"], "c3": [], "c4": ["p2", "p7"]}
LENGTHS = {"c1": 4, "c2": 2, "c3": 3, "c4": 3}


def frame(rows: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(NAMES)}


def clips(seed: int = 5) -> list[tuple[Any, ...]]:
    """Random facts with full functions, mixed over traces."""
    rng = random.Random(seed)
    rows: list[tuple[Any, ...]] = [("Big", "main", None, None, 1, None, None)]
    for clip, peds in CLIPS.items():
        rows.append(("Big", "aux", None, None, 0, None, clip))
        for ped in peds:
            rows.append(("There", ped, None, None, 1, None, clip))
            rows.append(("friend", ped, None, None, None, rng.choice(peds), clip))
            for t in range(LENGTHS[clip]):
                rows.append(("Crossing", ped, None, t, rng.choice([0, 1]), None, clip))
                rows.append(("Sees", ped, rng.choice(["main", "aux"]), t, 1, None, clip))
                rows.append(("Close", ped, rng.choice(peds), t, rng.choice([0, 1]), None, clip))
                rows.append(("looks", ped, None, t, None, rng.choice(["main", "aux"]), clip))
                rows.append(("speed", ped, None, t, None, rng.random(), clip))
    rows.append(("lights", "main", "aux", None, None, None, None))
    rng.shuffle(rows)
    return rows


def read(rows: list[tuple[Any, ...]], **options: Any) -> Facts:
    return read_facts([frame(rows)], SIGNATURE, **options)


def named(facts: Facts) -> set[tuple[Any, ...]]:
    """Facts by the names of their entities and traces."""
    found = set()
    symbols: dict[str, Any] = {**SIGNATURE.predicates, **SIGNATURE.functions, **SIGNATURE.relations}
    for name, part in facts.rows.items():
        result = getattr(symbols[name], "result", "real")
        for i in range(len(part.time)):
            trace = int(part.trace[i])
            args = tuple(
                facts.name(s, trace, int(a))
                for s, a in zip(symbols[name].sorts, part.args[i], strict=True)
            )
            value: Any = part.value[i]
            if result != "real":
                value = facts.name(result, trace, int(value))
            found.add((name, facts.traces[trace], args, int(part.time[i]), value))
    return found


def tables(*kept: str) -> Any:
    """The signature without functions but those named, and without the constant's use."""
    return type(SIGNATURE)(
        SIGNATURE.sorts,
        SIGNATURE.predicates,
        {n: d for n, d in SIGNATURE.functions.items() if n in kept},
        SIGNATURE.constants,
        SIGNATURE.relations,
    )


def test_names_and_sizes():
    facts = read(clips(), local=["ped"])
    assert sorted(facts.traces) == ["c1", "c2", "c3", "c4"]
    assert set(facts.entities) == {"light"}
    assert set(facts.local) == {"ped"}
    own = dict(zip(facts.traces, facts.local["ped"], strict=True))
    assert {clip: sorted(peds) for clip, peds in own.items()} == CLIPS
    assert facts.sizes() == {"light": 2, "ped": 3}
    for trace, clip in enumerate(facts.traces):
        for number in range(-1, 4):
            known = own[clip][number] if 0 <= number < len(own[clip]) else None
            assert facts.name("ped", trace, number) == known
    assert facts.name("light", 1, 0) in ("main", "aux")
    assert facts.name("light", 1, 2) is None


def test_the_facts_are_the_same_by_name():
    shared, local = read(clips()), read(clips(), local=["ped"])
    assert named(local) == named(shared)
    assert local.lengths == shared.lengths
    assert (local.sizes()["ped"], shared.sizes()["ped"]) == (3, 5)


def test_numbers_are_in_order_of_appearance():
    rows = [
        ("Crossing", ped, None, 0, 1, None, clip)
        for clip, ped in [("a", "z"), ("b", "y"), ("a", "y"), ("b", "z"), ("a", "z"), ("a", "x")]
    ]
    assert read(rows, local=["ped"]).local["ped"] == (("z", "y", "x"), ("y", "z"))


def test_presence():
    facts = read(clips(), local=["ped"])
    wanted = [[i < len(CLIPS[clip]) for i in range(3)] for clip in facts.traces]
    assert presence(facts, "ped").tolist() == wanted
    assert presence(facts, "light").tolist() == [[True, True]] * 4
    assert presence(read(clips()), "ped").tolist() == [[True] * 5] * 4
    with pytest.raises(DataError, match="unknown sort 'pde'; did you mean 'ped'"):
        presence(facts, "pde")


def test_every_cell_of_the_tables():
    facts = read(clips(), local=["ped"])
    model = tables_of_facts(facts, tables("friend", "looks", "speed"))
    stated = {row[:4]: row[4] for row in named(facts)}
    numbers = {n: i for i, n in enumerate(facts.entities["light"])}
    assert dict(model.sizes) == {"ped": 3, "light": 2}
    assert model.constants["light"] == numbers
    assert "ped" not in model.constants
    crossing = model.predicate("Crossing")
    assert crossing.shape == (4, 3, 4)
    for trace, clip in enumerate(facts.traces):
        for number in range(3):
            ped = facts.name("ped", trace, number)
            for time in range(LENGTHS[clip]):
                truth = stated.get(("Crossing", clip, (ped,), time), 0.0)
                assert crossing[trace, number, time] == truth
                speed = stated.get(("speed", clip, (ped,), time), 0.0)
                assert model.functions["speed"][trace, number, time] == speed
                if ped is not None:
                    light = numbers[stated["looks", clip, (ped,), time]]
                    assert model.functions["looks"][trace, number, time] == light
            if ped is not None:
                friend = int(model.functions["friend"][trace, number, 0])
                assert facts.name("ped", trace, friend) == stated["friend", clip, (ped,), -1]


FORMULAS = [
    "forall x where There(x). F Crossing(x)",
    "exists x where There(x). G(Crossing(x) -> exists y where There(y). Close(x, y))",
    "forall x: ped where There(x). Crossing(friend(x)) S Crossing(x)",
    "exists x: ped where There(x). Sees(x, main) U Sees(x, looks(x))",
]


@pytest.mark.parametrize("text", FORMULAS)
@pytest.mark.parametrize("seed", range(3))
def test_guarded_formulas_see_only_the_entities_of_their_trace(text, seed):
    """Each trace has the truth that it has alone, with none but its own entities."""
    signature = tables("friend", "looks", "speed")
    formula = check_formula(parse_formula(text), signature).formula

    def truth(facts: Facts) -> torch.Tensor:
        model: Tables = tables_of_facts(facts, signature)
        value = evaluate_core(formula, model, CRISP)
        return present(value, (), model, at="all", batched=True)

    facts = read(clips(seed), local=["ped"])
    whole = truth(facts)
    for trace, clip in enumerate(facts.traces):
        alone = read([row for row in clips(seed) if row[-1] in (clip, None)])
        length = alone.lengths[0]
        assert torch.equal(whole[trace, :length], truth(alone)[0, :length])


def test_functions_are_total_where_entities_exist():
    rows = [row for row in clips() if row[:2] != ("friend", "p7")]
    with pytest.raises(DataError) as found:
        tables_of_facts(read(rows, local=["ped"]), tables("friend"))
    wanted = "error: the function 'friend' has no value for (p7) in trace 'c4'"
    assert str(found.value) == wanted


def test_functions_from_other_sorts_into_a_local_one():
    rows = [
        ("near", light, None, None, None, ped, clip)
        for clip, ped in [("a", "x"), ("b", "y"), ("b", "x")]
        for light in (["main"] if ped == "x" else ["aux"])
    ]
    facts = read([*rows, ("near", "aux", None, None, None, "x", "a")], local=["ped"])
    assert facts.local["ped"] == (("x",), ("y", "x"))
    table = tables_of_facts(facts, tables("near")).functions["near"]
    light = facts.entities["light"].index
    assert table[0, :, 0].tolist() == [0, 0]
    assert table[1, [light("aux"), light("main")], 0].tolist() == [0, 1]


def test_one_trace_needs_no_name():
    rows = [
        ("There", "x", None, None, 1, None, None),
        ("couples", "x", "y", None, None, None, None),
    ]
    facts = read(rows, local=["ped"])
    assert facts.local == {"ped": (("x", "y"),)}
    assert tables_of_facts(facts, tables()).relations["couples"].tolist() == [[0, 1]]


def test_many_traces_need_little_room():
    """346 clips of 2 pedestrians are tables of 346 × 2, not of 346 × 692."""
    rows = [
        ("Crossing", f"p{clip}_{i}", None, 3, 1, None, f"clip{clip}")
        for clip in range(346)
        for i in range(2)
    ]
    facts = read(rows, local=["ped"])
    assert facts.sizes()["ped"] == 2
    assert tables_of_facts(facts, tables()).predicate("Close").shape == (346, 2, 2, 4)


TWO: list[tuple[Any, ...]] = [
    ("Crossing", "x", None, 0, 1, None, "a"),
    ("Crossing", "x", None, 0, 1, None, "b"),
]
BAD: dict[str, tuple[list[tuple[Any, ...]], str]] = {
    "static without a trace": (
        [*TWO, ("There", "x", None, None, 1, None, None)],
        "row 3 of the data frame: 'There' has no trace, but each entity of sort 'ped' belongs to "
        "one trace",
    ),
    "temporal without a trace": (
        [*TWO, ("Sees", "x", "main", 0, 1, None, None)],
        "row 3 of the data frame: 'Sees' has no trace, but each entity of sort 'ped' belongs to "
        "one trace",
    ),
    "a result": (
        [*TWO, ("near", "main", None, None, None, "x", None)],
        "row 3 of the data frame: 'near' has no trace, but each entity of sort 'ped' belongs to "
        "one trace",
    ),
    "a relation": (
        [*TWO, ("couples", "x", "x", None, None, None, None)],
        "row 3 of the data frame: the relation 'couples' is the same in all traces, but each "
        "entity of sort 'ped' belongs to one trace",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_facts_of_a_local_sort_name_their_trace(case):
    rows, wanted = BAD[case]
    with pytest.raises(DataError) as found:
        read(rows, local=["ped"])
    assert str(found.value) == f"error: {wanted}"


def test_constants_are_of_no_local_sort():
    with pytest.raises(DataError, match="the constant 'main' has the sort 'light', which is local"):
        read(TWO, local=["light"])


def test_an_unknown_local_sort():
    with pytest.raises(DataError, match="unknown local sort 'pet'; did you"):
        read(TWO, local=["pet"])
