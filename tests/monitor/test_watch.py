"""Every violation, once: a watch against the cells of the offline evaluator."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from fotltn.analysis.view import View
from fotltn.errors import DataError
from fotltn.logic import core as c
from fotltn.logic.check import CheckedTheory
from fotltn.logic.nnf import nnf
from fotltn.logic.prefix import Prefix, prefix
from fotltn.monitor.events import CellEvent
from fotltn.monitor.levels import Levels
from fotltn.monitor.steps import TraceStep
from fotltn.monitor.watch import End, Watch
from fotltn.semantics import crisp
from fotltn.semantics.config import CRISP
from fotltn.semantics.tables import Names, Tables
from fotltn.syntax import formula as f
from fotltn.syntax.load import parse_theory
from fotltn.syntax.operators import Temporal
from tests.helpers import random_formula
from tests.monitor import cases
from tests.monitor.cases import STATIC, random_atom, random_case, random_quantified, theory_of

Told = Counter[tuple[str, tuple[str, ...], int]]


def offline(theory: CheckedTheory, tables: Tables, end: End, axioms: Sequence[str]) -> Told:
    """The cells that the evaluator calls violated, by axiom, binding and time.

    What could still come is asked of bodies in normal form: there `X false` is no hope.
    """
    told: Told = Counter()
    for axiom in theory.axioms:
        if axiom.name in axioms:
            cells = View(tables, CRISP, end=end).cells(axiom)
            body = nnf(cells.body)
            if end == "undecided" and not tables.present and not prefix(body).layers:
                cells = replace(cells, prefix=Prefix(cells.prefix.layers, body))
            for cell in cells.worst(10**6):
                if cell.violated:
                    told[axiom.name, tuple(cell.binding.values()), cell.time or 0] += 1
    return told


def violations(events: Sequence[CellEvent]) -> Told:
    return Counter(
        (e.axiom, tuple(e.binding.values()), e.time) for e in events if e.kind == "violation"
    )


def always(rng: random.Random) -> f.Formula:
    """`forall … G(…)`, as rules are written, with all that may stand in them."""
    names = rng.sample("xyz", rng.choice([0, 1, 1, 2]))
    binders = tuple(f.Binder(n, rng.choice("aab")) for n in names)
    scope = {b.name: str(b.sort) for b in binders}
    body = random_case(rng, scope, rng.choice([0, 0, 1]), size=4)
    if rng.random() < 0.6:
        asked = random_atom(rng, scope)
        body = f.Implies(f.And(asked, random_atom(rng, scope)), body)
    if rng.random() < 0.3 and binders:
        return f.Unary(Temporal.G, f.Forall(binders, random_atom(rng, scope), body))
    formula: f.Formula = f.Unary(Temporal.G, body)
    return f.Forall(binders, None, formula) if binders else formula


def trace(rng: random.Random) -> tuple[cases.Names, list[TraceStep]]:
    """A random trace with all that is static in its first step."""
    names, steps = cases.random_trace(rng, rng.choice([1, 2, 3, 5, 8, 13]), late=False)
    static = [fact for step in steps for fact in step.facts if fact[0] in STATIC]
    rest = [[fact for fact in step.facts if fact[0] not in STATIC] for step in steps]
    return names, [TraceStep([*static, *rest[0]]), *map(TraceStep, rest[1:])]


def further(rng: random.Random, names: cases.Names) -> list[TraceStep]:
    """How a trace may go on, with the same entities and nothing new that is static."""
    _, steps = cases.random_trace(rng, rng.choice([1, 2, 3, 5]), late=False)
    known = {name for entities in names.values() for name in entities}
    return [
        TraceStep([f for f in step.facts if f[0] not in STATIC and known.issuperset(f[1:])])
        for step in steps
    ]


def tables_of(steps: list[TraceStep], names: cases.Names, theory: CheckedTheory) -> Tables:
    tables = cases.tables_of(steps, names, theory)
    named = Names(entities={sort: tuple(entities) for sort, entities in names.items()})
    return replace(tables, names=named, signature=theory.signature)


def compare(seed: int, count: int, *, presence: bool = False) -> Counter[str]:
    """Random theories on random traces; how much of what kind there was."""
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    for number in range(count):
        formulas = [
            always(rng) if rng.random() < 0.8 else random_quantified(rng, {}, 1) for _ in range(2)
        ]
        theory = theory_of(*formulas)
        names, steps = trace(rng)
        if presence and len(steps) == 1:  # where nothing counts as changing offline
            continue
        # Of nobody, `exists` is hopeless offline, while a watch waits for somebody who comes.
        end: End = "undecided" if names["b"] and rng.random() < 0.5 else "final"
        tables = tables_of(steps, names, theory)
        if presence:
            here = {"a": tables.predicate("m") >= 0.5}
            tables = replace(tables, present=here, stated={"a": ("m",)})
        watch, other, third = (
            Watch(
                theory,
                entities=names,
                presence=["m"] if presence else [],
                resolved=resolved,
                window=3,
            )
            for resolved in (True, True, False)
        )
        events = [event for step in steps for event in watch.step(step)]
        cut = rng.randint(0, len(steps))
        assert events == list(other.steps(steps)), "the same, one by one or many at once"
        assert [e for e in events if e.kind != "resolved"] == [
            *third.steps(steps[:cut]),
            *(event for step in steps[cut:] for event in third.step(step)),
        ]
        assert sorted(map(str, watch.open())) == sorted(map(str, other.open()))
        assert sorted(map(str, watch.open())) == sorted(map(str, third.open()))
        assert watch.standings() == other.standings() == third.standings()
        assert all(e.time <= e.step < len(steps) for e in events)
        early = violations(events).total()
        events += watch.finish(end)
        told, wanted = violations(events), offline(theory, tables, end, list(watch.axioms))
        text = [str(a.source) for a in theory.axioms]
        case = number, text, [s.facts for s in steps], end
        if presence and end == "undecided":  # a normal form may not use all that a body uses
            assert wanted <= told <= offline(theory, tables, "final", list(watch.axioms)), case
        elif end == "undecided" and told != wanted:
            # Automata see that some cells are hopeless which intervals of truth leave open.
            seen["more"] += 1
            assert wanted <= told, case
            for _ in range(10):
                later = [*steps, *further(rng, names)]
                longer = offline(theory, tables_of(later, names, theory), "final", [*watch.axioms])
                assert told <= longer, (*case, later)
        else:
            assert told == wanted, case
        for name, standing in watch.standings().items():
            assert standing.violations == sum(k for (n, _, _), k in told.items() if n == name)
        seen += Counter(
            unwatched=len(watch.unwatched), watched=len(watch.axioms), early=early,
            late=sum(e.time < e.step for e in events), all=told.total(),
            resolved=sum(e.kind == "resolved" for e in events),
        )  # fmt: skip
    return seen


def test_counts_of_many_steps_at_once_are_those_of_one_by_one():
    theory = parse_theory("sort s\npredicate a(s)\naxiom A: forall x. G !a(x)")
    steps = [[("a", f"e{(7 * n) % 5}")] * (n % 3 == 0) for n in range(40)]
    watch, other = (Watch(theory, window=10) for _ in range(2))
    for step in steps:
        watch.step(step)
    list(other.steps(steps))
    assert watch.standings() == other.standings()
    standing = watch.standings()["A"]
    assert (standing.violations, standing.recent, standing.last) == (14, 4, 39)


def check_variety(seen: Counter[str], count: int) -> None:
    assert seen["unwatched"] < seen["watched"] / 2
    assert seen["early"] > count
    assert min(seen["late"], seen["resolved"]) > count / 5
    assert seen["all"] > seen["early"]


def test_violations_are_those_of_the_offline_evaluator():
    check_variety(compare(1, 50), 50)


def test_violations_where_entities_are_not_always_present():
    seen = compare(2, 30, presence=True)
    assert seen["all"] > 20


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_violations_of_thousands_of_theories():
    check_variety(compare(3, 4000), 4000)
    assert compare(4, 2000, presence=True)["all"] > 1600


# --- a known number of steps ----------------------------------------------------------------------


def certain(
    theory: CheckedTheory, trace: Sequence[tuple[bool, ...]], horizon: int
) -> dict[int, int]:
    """The times whose cells are false, with the step from which on no trace that long helps."""
    (axiom,) = theory.axioms
    assert isinstance(axiom.formula, c.Aggregate)
    symbols = list(itertools.product([False, True], repeat=2))
    steps: dict[int, int] = {}
    for now in range(horizon):
        rest = itertools.product(symbols, repeat=horizon - 1 - now)
        traces = [[*trace[: now + 1], *more] for more in rest]
        tables = {n: torch.tensor([[r[i] for r in t] for t in traces]) for i, n in enumerate("uv")}
        model = Tables(
            {}, torch.full((len(traces),), horizon), horizon,
            {n: table.double() for n, table in tables.items()},
        )  # fmt: skip
        value = crisp.evaluate(axiom.formula.arg, model).tensor
        for time in range(now + 1):
            if not value[:, time].any():
                steps.setdefault(time, now)
    return steps


def test_with_a_known_number_of_steps_violations_are_told_as_soon_as_they_are_certain():
    rng = random.Random(11)
    atoms: list[f.Formula] = [f.Atom(n, ()) for n in "uv"]
    told = early = late = 0
    for _ in range(120):
        text = f.Unary(Temporal.G, random_formula(rng, rng.randint(1, 5), atoms))
        theory = theory_of(text, declared="predicate u, v")
        horizon = rng.randint(1, 5)
        trace = [(rng.random() < 0.5, rng.random() < 0.5) for _ in range(horizon)]
        steps = [[(n,) for n, true in zip("uv", row, strict=True) if true] for row in trace]
        watch, other = (Watch(theory, horizon=horizon) for _ in range(2))
        body = getattr(theory.axioms[0].formula, "arg", None)
        if watch.unwatched or getattr(body, "universal", False):  # then cells are of its own body
            continue
        events = [event for step in steps for event in watch.step(step)]
        assert events == list(other.steps(steps))
        assert list(watch.open()) == []
        assert watch.finish() == []
        wanted = certain(theory, trace, horizon)
        assert {e.time for e in events} == wanted.keys(), (str(text), trace)
        assert all(e.step >= wanted[e.time] for e in events), (str(text), trace)
        told += len(events)
        late += sum(e.step > wanted[e.time] for e in events)
        plain = Watch(theory)
        early += sum(e.step < horizon - 1 for e in events)
        early -= sum(e.step < horizon - 1 for step in steps for e in plain.step(step))
    assert told > 100
    assert early > 5, "the number of steps tells more"
    assert late < told / 20, "nearly all as soon as can be"


def test_a_trace_may_not_be_longer_than_its_horizon():
    watch = Watch(parse_theory("predicate a\naxiom A: G F a"), horizon=2)
    assert watch.step([]) == []
    (cell, *_) = watch.open()
    assert (cell.due, cell.fails) == (1, True)
    assert [(e.time, e.step) for e in watch.step([])] == [(0, 1), (1, 1)]
    with pytest.raises(DataError, match="the horizon is 2, but there are more steps"):
        watch.step([])


def test_far_from_its_end_a_trace_is_followed_as_any_other():
    text = "sort s\npredicate a(s), b(s)\naxiom A: forall x. G(a(x) -> F[<=3] b(x))"
    text += "\naxiom B: forall x. G(a(x) -> F b(x))\naxiom C: forall x. G(a(x) -> X[9000] b(x))"
    far, plain = Watch(parse_theory(text), horizon=10**9), Watch(parse_theory(text))
    for number in range(60):
        step = [("a", f"e{number % 7}")] * (number % 3 == 0) + [("b", f"e{number % 5}")]
        assert far.step(step) == plain.step(step)
    dues = [{cell.axiom: cell.due for cell in watch.open()} for watch in (far, plain)]
    assert dues[0].pop("B") == 10**9 - 1
    assert dues[1].pop("B") is None
    assert dues[0] == dues[1]


# --- one thing at a time -----------------------------------------------------------------------


def told(text: str, steps: Sequence[Any], **options) -> list[str]:
    """What a watch tells of `axiom A` step by step, shortly."""
    watch = Watch(parse_theory(text), **options)
    events = [event for step in steps for event in watch.step(step)]
    return [f"{e.kind} {','.join(e.binding.values())} {e.time}@{e.step}" for e in events]


def test_every_violation_is_told_when_it_is_certain():
    text = "predicate a, b\naxiom A: G(a -> F[1,2] b)"
    steps = [[("a",)], [("a",)], [], [], [("b",)]]
    assert told(text, steps) == ["violation  0@2", "violation  1@3"]
    steps = [[("a",)], [], [("b",)], [("a",)], [("b",)]]
    assert told(text, steps, resolved=True) == ["resolved  0@2", "resolved  3@4"]


def test_what_made_it_so_is_told():
    text = "sort s\npredicate a(s), b(s)\nhard axiom A: forall x. G(a(x) & !b(x) -> X b(x))"
    watch = Watch(parse_theory(text))
    assert watch.step([("a", "u")]) == []
    (cell,) = watch.open()
    assert (cell.binding, cell.time, cell.needs, cell.due, cell.fails) == (
        {"x": "u"}, 0, "X b(u)", 1, True,
    )  # fmt: skip
    (event,) = watch.step([])
    assert event.hard
    assert [(e.formula, e.time, e.truth) for e in event.because] == [
        ("a(u)", 0, True), ("b(u)", 0, False), ("X b(u)", 0, False), ("b(u)", 1, False),
    ]  # fmt: skip
    assert list(watch.open()) == []


def test_a_cell_is_told_once_however_often_it_fails():
    text = "sort s\npredicate a, b(s), d\naxiom A: G(a -> WX d & (forall x. F[<=2] b(x)))"
    steps = [[("a",), ("b", "u", 0.0), ("b", "v", 0.0)], [], [], []]
    assert told(text, steps) == ["violation  0@1"]


def test_parts_that_contradict_each_other_are_told_at_once():
    text = "predicate p, a\naxiom A: G(p -> F a & G !a)"
    assert told(text, [[("p",)], [], [("a",)]], resolved=True) == ["violation  0@0"]
    text = "sort s\npredicate p(s), q(s), a(s)\n"
    text += "axiom A: forall x. G((p(x) -> F a(x)) & (q(x) -> G !a(x)))"
    steps = [[("p", "u")], [("q", "u")], [("p", "u"), ("q", "u"), ("q", "v")], [("a", "v")]]
    assert told(text, steps) == ["violation u 2@2", "violation v 2@3"]


def test_what_was_told_is_not_remembered_for_ever():
    watch = Watch(parse_theory("predicate a, b\naxiom A: G(!a & (b -> X b))"))
    for number in range(4000):
        watch.step([("a",), ("b",)] if number % 5 else [("a",)])
    assert watch.standings()["A"].violations == 4000
    assert len(watch.axioms["A"].told) <= 1000


def test_entities_are_there_from_when_they_come():
    text = "sort s\npredicate a(s), n\naxiom A: forall x. G a(x)\naxiom B: G(n -> exists x. !a(x))"
    steps = [[("a", "u"), ("n",)], [("a", "u"), ("a", "v")], [("a", "u"), ("n",)]]
    assert told(text, steps) == ["violation  0@0", "violation v 2@2"]
    named = {"s": ["u", "v"]}
    assert told(text, steps, entities=named) == ["violation v 0@0", "violation v 2@2"]


def test_static_facts_come_with_their_entities():
    text = "sort s\nstatic predicate k(s)\npredicate a(s)\naxiom A: forall x. G(k(x) -> a(x))"
    steps = [[("a", "u")], [("k", "v"), ("a", "v")], [("a", "u")]]
    assert told(text, steps) == ["violation v 2@2"]
    with pytest.raises(DataError, match="static: it cannot change for entities that are present"):
        told(text, [*steps, [("k", "u")]])


def test_the_wording_of_what_cannot_be_watched():
    text = "predicate a, b\naxiom A: G(a -> O(X b))\naxiom B: G(a -> X b)"
    watch = Watch(parse_theory(text))
    assert watch.unwatched == {"A": "a past operator has a future operator below it"}
    assert list(watch.axioms) == ["B"]


@pytest.mark.parametrize("axiom", ["forall x where X k(x). a(x)", "G forall x where X k(x). a(x)"])
def test_a_guard_that_looks_ahead_cannot_be_watched(axiom):
    text = f"sort s\nstatic predicate k(s)\npredicate a(s)\naxiom A: {axiom}"
    assert Watch(parse_theory(text)).unwatched == {"A": "a guard looks ahead"}


def test_a_guard_outside_of_time_is_read_at_the_first_step():
    text = "sort s\nstatic predicate k(s)\npredicate a(s)\naxiom A: forall x where {}. G a(x)"
    steps = [[("k", "u")], [], []]
    assert told(text.format("Y k(x)"), steps) == []
    assert told(text.format("WY k(x)"), steps) == [f"violation u {t}@{t}" for t in range(3)]


def test_pairs_functions_and_constants():
    text = """
    sort car, person
    predicate Near(car, person), Stop(car)
    temporal function speed(car): real
    relation pairs(car, person)
    constant ego: car
    axiom A: forall (x, y) in pairs. G(Near(x, y) -> speed(x) < 3 | X Stop(x))
    axiom B: G(Stop(ego) -> speed(ego) < 1)
    """
    header = {
        "entities": {"car": ["ego", "bus"], "person": ["ann", "bo"]},
        "facts": [["pairs", "ego", "ann"], ["pairs", "bus", "bo"]],
    }

    def step(ego: float, *facts):
        return {"facts": facts, "values": [["speed", "ego", ego], ["speed", "bus", 5]]}

    watch = Watch(parse_theory(text), header=header)
    steps = [
        step(2, ["Near", "ego", "ann"], ["Near", "ego", "bo"], ["Near", "bus", "bo"]),
        step(4, ["Near", "ego", "ann"], ["Stop", "ego"]),
        step(0, ["Stop", "ego"]),
    ]
    events = [event for one in steps for event in watch.step(one)]
    assert [(e.axiom, tuple(e.binding.values()), e.time, e.step) for e in events] == [
        ("A", ("bus", "bo"), 0, 1), ("B", (), 1, 1),
    ]  # fmt: skip


def test_thousands_of_nested_next():
    watch = Watch(parse_theory(f"predicate a, b\naxiom A: G(a -> {'X ' * 3000}b)"))
    assert watch.step([("a",)]) == []
    events = list(watch.steps([[]] * 3000))
    assert [(e.time, e.step) for e in events] == [(0, 3000)]


def test_what_is_forgotten_is_dropped():
    text = "sort s\npredicate a(s), b(s)\naxiom A: forall x. G(a(x) -> F b(x))"
    steps = [[("a", "u")], [("a", "v")], [("b", "v")], [("b", "v")], [("b", "u"), ("a", "u")]]
    for at_once in (False, True):
        watch = Watch(parse_theory(text), forget=2)
        events = [e for s in steps for e in watch.step(s)] if at_once else [*watch.steps(steps)]
        told = [(e.kind, e.binding["x"], e.time, e.step) for e in events]
        assert told == [("dropped", "u", 0, 3)], "nothing was true of u at steps 2 and 3"
        assert watch.roster.came["s"] == {"v": 1, "u": 4}


def test_memory_is_for_who_is_there():
    """Thousands come and go; what is known of them goes with them."""
    text = "sort s\npredicate a(s), b(s)\naxiom A: forall x. G(O a(x) & b(x) -> F b(x))"
    watch = Watch(parse_theory(text), forget=10)
    for number in range(1000):
        watch.step([("a", f"e{number}"), ("b", f"e{number - 3}")])
    sizes = [len(c.memory) for c in watch.conditions.known.values() if hasattr(c, "memory")]
    assert max(sizes) < 30
    assert len(watch.roster.came["s"]) < 30
    assert sum(1 for _ in watch.open()) == 0


def test_rates_go_by_the_last_steps():
    watch = Watch(parse_theory("predicate a\naxiom A: G a"), window=4)
    for true in (0, 0, 0, 1, 1, 1):
        watch.step([("a",)] * true)
    standing = watch.standings()["A"]
    assert (standing.violations, standing.recent, standing.rate, standing.last) == (3, 1, 0.25, 2)


@pytest.mark.parametrize(
    ("kind", "binding", "time", "line"),
    [
        ("violation", {"x": "ego", "y": "bo"}, 4, "step 5: A violated: x = ego, y = bo, time 4"),
        ("violation", {"x": "ego"}, 5, "step 5: A violated: x = ego"),
        ("resolved", {}, 4, "step 5: A resolved: time 4"),
        ("undecided", {}, 5, "step 5: A undecided"),
        ("dropped", {"x": "ego"}, 0, "step 5: A dropped: x = ego, time 0"),
    ],
)
def test_the_line_of_an_event(kind, binding, time, line):
    assert str(CellEvent(kind, "A", False, binding, time, 5)) == line


def test_levels():
    def event(axiom: str, hard: bool = False) -> CellEvent:
        return CellEvent("violation", axiom, hard, {}, 0, 0)

    few = Levels(at_most=2)
    assert [few.lets(event("A"), now) for now in (0, 1, 2, 60.5, 61.5)] == [
        True, True, False, True, True,
    ]  # fmt: skip
    assert few.held_back == 1
    calm = Levels(quiet=10)
    assert [calm.lets(event(n), now) for n, now in (("A", 0), ("B", 1), ("A", 9), ("A", 11))] == [
        True, True, False, True,
    ]  # fmt: skip
    assert [Levels(hard_only=True).lets(event("A", hard), 0) for hard in (True, False)] == [
        True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0}, "above 0 and at most 1"),
        ({"window": 0}, "at least one step"),
        ({"forget": 0}, "at least one step"),
        ({"presence": ["b"]}, "'b' does not say where entities are present"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(DataError, match=message):
        Watch(parse_theory("predicate a, b\naxiom A: G a"), **options)


def test_a_step_with_an_error_changes_nothing():
    watch = Watch(parse_theory("sort s\npredicate a(s)\naxiom A: forall x. G a(x)"))
    watch.step([("a", "u")])
    with pytest.raises(DataError, match="unknown predicate 'aa'"):
        watch.step([("a", "w"), ("aa", "v")])
    assert watch.step([("a", "u")]) == []
    assert list(watch.roster.came["s"]) == ["u"]
    with pytest.raises(DataError, match=r"is 0\.2 here, but 0\.9 before"):
        watch.step([("a", "u", 0.9), ("a", "u", 0.2)])
    events = list(watch.steps([[], [("a", "u")]]))
    assert [(e.time, e.step) for e in events] == [(2, 2)]
