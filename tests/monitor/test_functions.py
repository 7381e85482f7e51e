"""Functions, relations and constants: verdicts against brute force, degrees against evaluate."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

from fotltn.logic.check import check
from fotltn.monitor.monitor import Monitor
from fotltn.monitor.steps import Header, TraceStep
from fotltn.semantics import crisp, reference
from fotltn.semantics.config import GODEL
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from tests.helpers import value_of
from tests.semantics.textbook import Table, World, holds
from tests.semantics.worlds import (
    DECLARED,
    FUNCTIONS,
    PREDICATES,
    STATIC,
    arguments,
    random_batch,
    random_quantified,
)


def steps_of_world(world: World) -> tuple[Header, list[TraceStep]]:
    """A world as a header and steps."""
    names = {s: [f"{s}{i}" for i in range(n)] for s, n in world.sizes.items()}
    for name, sort in (("c", "a"), ("d", "b")):
        names[sort][world.constants[name]] = name
    pairs = [("rel", names["a"][x], names["b"][y]) for x, y in world.relations["rel"]]

    def facts(t: int | None) -> list[tuple[object, ...]]:
        found = []
        for name, sorts in PREDICATES.items():
            for place, degree in _at(world.predicates[name], name, t):
                args = [names[s][i] for s, i in zip(sorts, place, strict=True)]
                found.append((name, *args, degree))
        return found

    def values(t: int | None) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = []
        for name, (sort, result) in FUNCTIONS.items():
            for (number,), value in _at(world.functions[name], name, t):
                shown = value if result == "real" else names[result][int(value)]
                found.append((name, names[sort][number], shown))
        return found

    header = Header([*facts(None), *pairs], values(None), entities=names)
    return header, [TraceStep(facts(t), values(t)) for t in range(world.length)]


def _at(table: Table, name: str, t: int | None) -> list[tuple[tuple[int, ...], float]]:
    if name in STATIC:
        return [] if t is not None else list(table.items())
    return [(place[:-1], value) for place, value in table.items() if place[-1] == t]


def cut(world: World, length: int) -> World:
    """The first points of a world."""

    def short(tables: dict[str, Table]) -> dict[str, Table]:
        return {
            n: {x: u for x, u in t.items() if n in STATIC or x[-1] < length}
            for n, t in tables.items()
        }

    parts = short(dict(world.predicates)), short(dict(world.functions))
    return World(length, world.sizes, *parts, world.constants, world.relations)


def cases(seed: int, count: int, degree: Callable[[random.Random], float]):
    rng = random.Random(seed)
    for _ in range(count):
        (world,) = random_batch(rng, lambda: degree(rng), empty=False, traces=1)
        formulas = [random_quantified(rng, {}, world.sizes, depth=2) for _ in range(2)]
        texts = "\n".join(f"axiom A{i}: {g}" for i, g in enumerate(formulas))
        yield world, formulas, check(parse_theory(DECLARED + texts)), rng


def test_verdicts():
    true = total = 0
    for world, formulas, theory, _ in cases(1, 60, lambda rng: float(rng.random() < 0.5)):
        header, steps = steps_of_world(world)
        monitor = Monitor(theory, header=header, values="none")
        for _ in monitor.steps(steps):
            pass
        for formula, state in zip(formulas, monitor.finish(), strict=True):
            wanted = holds(formula, world, 0)
            assert (state.verdict == "satisfied") is wanted, (str(formula), world)
            true, total = true + wanted, total + 1
    assert 0.2 < true / total < 0.8


def test_values():
    compared = 0
    for world, formulas, theory, rng in cases(2, 20, lambda rng: rng.random()):
        header, steps = steps_of_world(world)
        how = rng.choice(["stable-product", "godel", "product"])
        monitor = Monitor(theory, header=header, semantics=how)
        for t, step in enumerate(steps):
            monitor.step(step)
            given = arguments([cut(world, t + 1)], lengths=False)
            del given["features"]
            for formula, value in zip(formulas, monitor.values().values(), strict=True):
                if value.now is not None:
                    wanted = value_of(formula, **given, semantics=how, engine=False)
                    assert abs(value.now - float(wanted)) < 1e-9, (str(formula), how, t)
                    assert value.low - 1e-9 <= value.now <= value.high + 1e-9
                    compared += 1
    assert compared > 30


# --- values that are not stated ------------------------------------------------------------------

HEIGHTS = check(
    parse_theory("""
        sort s
        predicate here(s)
        temporal function h(s): real
        function w(s): real
        axiom A: forall x. G(here(x) -> h(x) >= 1)
        axiom B: forall x. F(here(x) & X h(x) > w(x))
        axiom C: G exists x. h(x) < 0.5
        axiom D: forall x, y. x = y | F h(x) > h(y)
        axiom E: G forall x. h(x) <= 2 S here(x)
        axiom F1: forall x. G(h(x) = 1 | H[<=2] here(x))
    """)
)


def test_values_that_are_not_stated_have_a_default():
    """Also those of entities that come late."""
    rng = random.Random(5)
    verdicts = set()
    for _ in range(14):
        length = rng.randint(1, 6)
        names = [f"e{i}" for i in range(rng.randint(1, 3))]
        came = {n: rng.randrange(length) for n in names}
        here = torch.zeros(1, len(names), length)
        heights = torch.zeros(1, len(names), length)
        weights = torch.zeros(1, len(names), 1)
        monitor = Monitor(HEIGHTS, header=Header(default=0.0), values="all", semantics="godel")
        for t in range(length):
            facts, values = [], []
            for i, name in enumerate(names):
                if came[name] == t or (came[name] < t and rng.random() < 0.6):
                    here[0, i, t], heights[0, i, t] = 1, rng.choice([0.0, 1.0, 3.0])
                    facts.append(("here", name))
                    values.append(("h", name, heights[0, i, t].item()))
                if t == came[name] == 0:
                    weights[0, i] = rng.choice([0.0, 2.0])
                    values.append(("w", name, weights[0, i].item()))
            states = monitor.step(facts, values)
            seen = [i for i, n in enumerate(names) if came[n] <= t]
            order = sorted(seen, key=lambda i: list(monitor.domain.names["s"]).index(names[i]))
            model = Tables(
                {"s": len(seen)}, torch.tensor([t + 1]), t + 1,
                {"here": here[:, order, : t + 1]},
                {"h": heights[:, order, : t + 1], "w": weights[:, order]},
            )  # fmt: skip
            found = monitor.values()
            for axiom in HEIGHTS.axioms:
                now = bool(crisp.evaluate(axiom.formula, model).tensor[0, 0])
                if states[axiom.name].now is not None:
                    assert states[axiom.name].now is now, (axiom.name, t)
                value = reference.evaluate(axiom.formula, model, GODEL, dtype=torch.float64)
                wanted = float(value.tensor[0, 0])
                assert found[axiom.name].now == pytest.approx(wanted, abs=1e-9), (axiom.name, t)
        for axiom, state in zip(HEIGHTS.axioms, monitor.finish(), strict=True):
            now = bool(crisp.evaluate(axiom.formula, model).tensor[0, 0])
            assert (state.verdict == "satisfied") is now
            verdicts.add((axiom.name, now))
    assert len(verdicts) > 8, "most axioms were sometimes true and sometimes false"


def test_monitors_of_many_traces_share_their_automata():
    first = Monitor(HEIGHTS, header=Header(default=0.0), values="none")
    first.step([("here", "a")], [("h", "a", 3.0)])
    states = len(first.crisp.table.states)
    second = Monitor(HEIGHTS, header=Header(default=0.0), values="none", like=first)
    alone = Monitor(HEIGHTS, header=Header(default=0.0), values="none")
    for facts in ([("here", "b")], [("here", "c")], []):
        assert second.step(facts) == alone.step(facts)
    assert second.crisp.table is first.crisp.table
    assert len(first.crisp.table.states) == states
    first.crisp.table.most = 1  # forget what nobody is at
    assert second.step([("here", "a")]) == alone.step([("here", "a")])
    assert first.step([], [("h", "a", 1.0)])["A"].verdict == "open"
