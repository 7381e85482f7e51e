"""Contradictions: found where enumeration finds no world, with nothing that could be left out."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from fotltn.grounding.labels import Labels
from fotltn.logic.check import check
from fotltn.logic.parts import predicates_in
from fotltn.posterior import contradictions
from fotltn.posterior.contradictions import SearchEnd, certain, refuse, search
from fotltn.posterior.evidence import LabelEvidence, NoiseRates
from fotltn.posterior.ground import definition_clauses
from fotltn.posterior.impossible import Contradiction, NoWorldError, irreducible
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sample
from fotltn.posterior.sampler import Sampler, Sampling
from fotltn.posterior.solver import Solver
from fotltn.posterior.structure import Structure, statements, structure
from fotltn.semantics import crisp
from fotltn.semantics.tables import Names, Tables
from fotltn.syntax.load import parse_theory
from tests.posterior.oracle import Case, case

FEW = Sampling(worlds=4, burn_in=4, sweeps=4, learn=False)


# --- the solver ------------------------------------------------------------------------------


def test_the_solver_agrees_with_all_assignments():
    for seed in range(400):
        choose = random.Random(seed)
        number = choose.randint(2, 9)
        solver = Solver()
        variables = [solver.variable(choose.random() < 0.5) for _ in range(number)]

        def literals(count: int) -> list[int]:
            chosen = choose.sample(variables, min(number, count))  # noqa: B023
            return [v + choose.randint(0, 1) for v in chosen]  # noqa: B023

        clauses = [literals(choose.randint(1, 3)) for _ in range(choose.randint(2, 40))]
        half = len(clauses) // 2
        for clause in clauses[:half]:
            solver.add(clause)
        solver.solve([], 1000)
        for clause in clauses[half:]:
            solver.add(clause)
        assumptions = literals(choose.randint(0, 4))

        def possible(some: list[int]) -> bool:
            return any(
                all(any(bits[x >> 1] != x & 1 for x in one) for one in clauses)  # noqa: B023
                and all(bits[x >> 1] != x & 1 for x in some)
                for bits in itertools.product((False, True), repeat=number)  # noqa: B023
            )

        assert solver.solve(assumptions, 10_000) == possible(assumptions)
        if possible(assumptions):
            model = solver.model
            assert all(any(model[x >> 1] != x & 1 for x in one) for one in clauses)
            assert all(model[x >> 1] != x & 1 for x in assumptions)
        else:
            assert solver.core <= set(assumptions)
            assert not possible(list(solver.core))


def test_a_search_that_takes_too_long_says_so():
    solver = Solver()  # five pigeons, four holes
    at = [[solver.variable(True) for _ in range(4)] for _ in range(5)]
    for pigeon in at:
        solver.add(pigeon)
    for one, other in itertools.combinations(range(5), 2):
        for hole in range(4):
            solver.add([at[one][hole] ^ 1, at[other][hole] ^ 1])
    assert solver.solve([], 2) is None
    assert solver.solve([], 10_000) is False


def test_items_are_reduced_to_those_that_are_needed():
    calls = []

    def contradict(some: list[int]) -> bool:
        calls.append(some)
        return {3, 17, 40} <= set(some)

    assert sorted(irreducible(range(100), contradict)) == [3, 17, 40]
    assert len(calls) < 40
    assert irreducible([], contradict) == []


# --- against enumeration ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Enumerated:
    """All worlds of a case: where clauses hold, and what learned facts are."""

    truths: dict[str, list[tuple[tuple[str, ...], Tensor]]]
    worlds: Mapping[str, Tensor]
    count: int


def enumerated(one: Case, plan: Structure) -> Enumerated | None:
    """For each axiom the truth of its clauses in every world, if there are few."""
    tables, signature = one.tables, one.theory.signature
    cells = []
    for name in plan.free:
        decl = signature.predicates[name]
        for trace, length in enumerate(tables.lengths.tolist()):
            for args in itertools.product(*(range(tables.sizes[s]) for s in decl.sorts)):
                points = range(1 if decl.static else length)
                cells += [(name, (trace, *args, time)) for time in points]
    if not 0 < len(cells) <= 10:
        return None
    count, batch = 1 << len(cells), tables.batch
    worlds: dict[str, Tensor] = {}
    for name in plan.free:
        decl = signature.predicates[name]
        shape = (*(tables.sizes[s] for s in decl.sorts), 1 if decl.static else tables.horizon)
        worlds[name] = torch.zeros(count, batch, *shape, dtype=torch.float64)
    for column, (name, cell) in enumerate(cells):
        bits = torch.arange(count) >> column & 1
        worlds[name].movedim(0, -1)[cell] = bits.double()

    def laid() -> Tables:
        flat = {n: t.reshape(count * batch, *t.shape[2:]) for n, t in worlds.items()}
        fixed = {
            n: tables.predicate(n).repeat(count, *[1] * (tables.predicate(n).dim() - 1))
            for n in tables.predicates
        }
        lengths = tables.lengths.repeat(count)
        return replace(tables, lengths=lengths, predicates={**fixed, **flat})

    for name, definition in plan.definitions.items():
        decl = signature.predicates[name]
        axes, value = crisp.evaluate(definition.formula, laid())
        value = value.reshape(*value.shape[:1], *([-1] if axes else [1]), value.shape[-1])
        value = value.expand(-1, tables.sizes[decl.sorts[0]], -1)
        value = value[..., :1] if decl.static else value
        worlds[name] = value.reshape(count, batch, *value.shape[1:]).double()
    truths: dict[str, list[tuple[tuple[str, ...], Tensor]]] = {}
    hard = [clause for clause in plan.clauses if clause.weight is None]
    for clause in (*hard, *definition_clauses(plan, tables).values()):
        axes, value = crisp.evaluate(clause.body, laid())
        names = tuple(axis.name for axis in axes)
        shaped = value.reshape(count, batch, *value.shape[1:])
        inside = tables.inside.reshape(1, batch, *[1] * len(axes), -1)
        truths.setdefault(clause.axiom, []).append((names, shaped | ~inside))
    return Enumerated(truths, worlds, count)


def possible(every: Enumerated, evidence: LabelEvidence) -> bool:
    """Whether some world obeys all."""
    good = torch.ones(every.count, dtype=torch.bool)
    for parts in every.truths.values():
        for _, value in parts:
            good &= value.flatten(1).all(1)
    for name, truth in evidence.labels.truth.items():
        if truth.numel():
            sure = certain(evidence, name)
            cells = every.worlds[name][(slice(None), *evidence.labels.index[name][:, sure])]
            good &= (cells == truth[sure]).all(1)
    return bool(good.any())


def agree(contradiction: Contradiction, every: Enumerated) -> list[Tensor]:
    """For each axiom and label of a contradiction the worlds in which it is true."""
    columns = []
    for one in contradiction.axioms:
        holds = torch.ones(every.count, dtype=torch.bool)
        for names, value in every.truths[one.axiom]:
            if not set(names) <= set(one.binding):
                continue  # of another clause of the same axiom
            numbers = [int(one.binding[name].split("#")[1]) for name in names]
            holds &= _at(value, int(one.trace), numbers, one.time)
        columns.append(holds)
    for label in contradiction.labels:
        inner = label.text.partition("(")[2].rstrip(")")
        numbers = [int(part.split("#")[1]) for part in inner.split(", ")]
        value = every.worlds[label.predicate or ""]
        columns.append(_at(value, int(label.trace), numbers, label.time or 0) == label.truth)
    return columns


def _at(value: Tensor, trace: int, numbers: list[int], time: int) -> Tensor:
    """A cell of tables (world, trace, arguments …, time) in every world."""
    for number in (trace, *numbers, time):
        value = value[:, number]
    return value


def compare(seeds: range) -> tuple[int, int, int]:
    """How many contradictions and worlds there were, and how many of the former are minimal."""
    contradictions = worlds = reduced = 0
    for seed in seeds:
        one = case(seed)
        choose = random.Random(seed)
        rates = {n: choose.choice([NoiseRates(0, 0), NoiseRates(0.1, 0)]) for n in one.learned}
        evidence = LabelEvidence(one.labels, rates)
        plan = statements(one.theory, one.tables, one.learned, end=one.end)
        every = enumerated(one, plan)
        if every is None:
            continue
        start = {n: t[choose.randrange(every.count)].bool() for n, t in every.worlds.items()}
        ended = search(plan, one.tables, evidence, start)
        assert (ended.world is not None) == possible(every, evidence), one.text
        if ended.world is not None:
            worlds += 1
            _obeys(ended, every, evidence, plan.free)
            continue
        contradiction = ended.contradiction
        assert contradiction is not None
        contradictions += 1
        columns = agree(contradiction, every)
        assert not bool(torch.stack(columns).all(0).any())
        used = {
            n for a in one.theory.axioms if a.name in contradiction.names
            for n in predicates_in(a.formula)
        }  # fmt: skip
        single = all(len(every.truths[name]) == 1 for name in contradiction.names)
        if single and not plan.definitions and used <= set(one.learned):
            reduced += 1  # no world has less than what all worlds obey: nothing can be left out
            for number in range(len(columns)):
                rest = torch.stack([torch.ones(every.count).bool(), *columns])
                rest[number + 1] = True
                assert bool(rest.all(0).any()), one.text
    return contradictions, worlds, reduced


def _obeys(
    ended: SearchEnd, every: Enumerated, evidence: LabelEvidence, free: Sequence[str]
) -> None:
    assert ended.world is not None
    same = torch.ones(every.count, dtype=torch.bool)
    for name in free:
        same &= (every.worlds[name] == ended.world[name].double()).flatten(1).all(1)
    assert int(same.sum()) == 1
    for parts in every.truths.values():
        for _, value in parts:
            assert bool(value[same].all())
    for name, truth in evidence.labels.truth.items():
        if truth.numel():
            sure = certain(evidence, name)
            index = tuple(evidence.labels.index[name][:, sure])
            assert bool((ended.world[name][index].double() == truth[sure]).all())


def test_there_is_a_contradiction_where_enumeration_finds_no_world():
    contradictions, worlds, reduced = compare(range(150))
    assert contradictions > 20
    assert worlds > 20
    assert reduced > 5


@pytest.mark.slow
def test_there_is_a_contradiction_where_enumeration_finds_no_world_in_a_thousand_theories():
    compare(range(120, 1120))


# --- messages --------------------------------------------------------------------------------

SIGNATURE = """
sort a, s
predicate On(a), Off(a), Lit(s), Near(a, s)
static predicate Kept(a)
"""


def facts(**labels: list[tuple[int, ...]]) -> Labels:
    """Labels by predicate: rows of trace, arguments, time and truth."""
    columns = {n: torch.tensor(rows).T for n, rows in labels.items()}
    return Labels(
        {n: t[:-1] for n, t in columns.items()}, {n: t[-1].double() for n, t in columns.items()}
    )


def message(axioms: str, labels: Labels, learned: str, traces: int = 1, **rates: NoiseRates) -> str:
    theory = check(parse_theory(SIGNATURE + axioms))
    near = torch.zeros(traces, 2, 1, 4)
    near[:, 0, 0, 1] = 1.0
    known = {"Near": near, "Kept": torch.tensor([[[1.0], [0.0]]])}
    tables = Tables(
        {"a": 2, "s": 1}, torch.full((traces,), 4), 4,
        {n: t for n, t in known.items() if n not in learned.split()}, signature=theory.signature,
        names=Names(("day", "night")[:traces], {"a": ("ann", "bob"), "s": ("lamp",)}),
    )  # fmt: skip
    with pytest.raises(NoWorldError) as error:
        sample(Problem(theory, tables, labels, learned.split(), rates=rates, sampling=FEW))
    return str(error.value)


SURE = NoiseRates(0, 0)


def test_axioms_that_contradict_each_other():
    axioms = """
    hard axiom Always: forall x. G On(x)
    hard axiom Never: forall x. G(Off(x) -> !On(x))
    hard axiom Once: forall x. F[<=1] Off(x)
    hard axiom Other: forall x. G(On(x) -> WX On(x))
    """
    assert message(axioms, facts(), "On Off") == (
        "error: no world obeys all of this: Always at x = ann, time 0; Always at x = ann, time 1; "
        "Never at x = ann, time 0; Never at x = ann, time 1; Once at x = ann, time 0\n"
        "      = make one of 'Always', 'Never', 'Once' soft"
    )


def test_certain_labels_that_contradict_an_axiom_of_one_track():
    axioms = "hard axiom Stays: forall x. G(On(x) -> WX On(x))\n"
    labels = facts(On=[(0, 0, 1, 1), (0, 0, 3, 0), (0, 1, 0, 0)])
    assert message(axioms, labels, "On", On=SURE) == (
        "error: no world obeys all of this: Stays at x = ann, time 1; Stays at x = ann, time 2; "
        "label On(ann)@1 = true; label On(ann)@3 = false\n"
        "      = make 'Stays' soft; or give labels of 'On' a rate of errors above 0, or correct one"
    )


def test_given_facts_with_labels_of_different_tracks():
    axioms = "hard axiom Lights: forall x, y. G(On(x) & Near(x, y) -> WX Lit(y))\n"
    labels = facts(On=[(1, 0, 1, 1)], Lit=[(1, 0, 2, 0), (0, 0, 2, 0)])
    assert message(axioms, labels, "On Lit", traces=2, On=SURE, Lit=SURE) == (
        "error: no world obeys all of this in trace 'night': Lights at x = ann, y = lamp, time 1; "
        "label On(ann)@1 = true; label Lit(lamp)@2 = false; given Near(ann, lamp)@1 = true\n"
        "      = make 'Lights' soft; or give labels of 'On', 'Lit' a rate of errors above 0, or "
        "correct one; or correct a given fact"
    )


def test_labels_of_what_is_defined():
    axioms = "hard axiom Def: forall y. G(Lit(y) <-> exists x. Near(x, y) & On(x))\n"
    labels = facts(On=[(0, 0, 1, 0)], Lit=[(0, 0, 1, 1)])
    assert message(axioms, labels, "On Lit", On=SURE, Lit=NoiseRates(0.2, 0)) == (
        "error: no world obeys all of this: Def at y = lamp, time 1; label Lit(lamp)@1 = true; "
        "label On(ann)@1 = false; given Near(bob, lamp)@1 = false\n"
        "      = make 'Def' soft; or give labels of 'Lit', 'On' a rate of errors above 0, or "
        "correct one; or correct a given fact"
    )


def test_formulas_of_given_facts_are_told_as_they_are_written():
    axioms = "hard axiom Only: forall x. G(On(x) -> exists y. Near(x, y))\n"
    labels = facts(On=[(0, 1, 2, 1)])
    assert message(axioms, labels, "On", On=SURE) == (
        "error: no world obeys all of this: Only at x = bob, time 2; label On(bob)@2 = true; "
        "given (exists y. Near(x, y))@2 = false for x = bob\n"
        "      = make 'Only' soft; or give labels of 'On' a rate of errors above 0, or "
        "correct one; or correct a given fact"
    )


def test_given_facts_that_break_an_axiom_by_themselves():
    axioms = (
        "hard axiom Keeps: forall x. G(Kept(x) -> exists y. Near(x, y))\n"
        "hard axiom Stays: forall x. G(On(x) -> WX On(x))\n"
    )
    assert message(axioms, facts(), "On") == (
        "error: no world obeys all of this: Keeps at x = ann, time 0; given Kept(ann) = true; "
        "given (exists y. Near(x, y))@0 = false for x = ann\n"
        "      = make 'Keeps' soft; or correct a given fact"
    )


def test_the_error_carries_the_contradiction_as_data():
    theory = check(parse_theory(SIGNATURE + "hard axiom Stays: forall x. G(On(x) -> WX On(x))\n"))
    tables = Tables({"a": 1}, torch.tensor([2]), 2, {}, signature=theory.signature)
    labels = facts(On=[(0, 0, 0, 1), (0, 0, 1, 0)])
    with pytest.raises(NoWorldError) as error:
        sample(Problem(theory, tables, labels, ["On"], rates={"On": SURE}, sampling=FEW))
    contradiction = error.value.contradiction
    assert contradiction is not None
    assert contradiction.as_dict() == {
        "axioms": [{"axiom": "Stays", "binding": {"x": "a#0"}, "trace": "0", "time": 0}],
        "labels": [
            {
                "text": "On(a#0)",
                "predicate": "On",
                "trace": "0",
                "time": 0,
                "truth": True,
                "binding": {},
            },
            {
                "text": "On(a#0)",
                "predicate": "On",
                "trace": "0",
                "time": 1,
                "truth": False,
                "binding": {},
            },
        ],
        "facts": [],
    }


def test_labels_that_are_seldom_wrong_contradict_nothing():
    theory = check(parse_theory(SIGNATURE + "hard axiom Stays: forall x. G(On(x) -> WX On(x))\n"))
    tables = Tables({"a": 1}, torch.tensor([2]), 2, {}, signature=theory.signature)
    labels = facts(On=[(0, 0, 0, 1), (0, 0, 1, 0)])
    rates = {"On": NoiseRates(1e-6, 1e-3)}
    posterior = sample(Problem(theory, tables, labels, ["On"], rates=rates, sampling=FEW))
    assert posterior.marginals["On"].tolist() == [[[0.0, 0.0]]]


def test_worlds_that_had_no_time_to_obey_are_told(monkeypatch):
    theory = check(parse_theory(SIGNATURE + "hard axiom Stays: forall x. G(On(x) -> WX On(x))\n"))
    tables = Tables({"a": 1}, torch.tensor([2]), 2, {}, signature=theory.signature)
    plan = structure(theory, tables, ["On"], [])
    sampler = Sampler(plan, tables, LabelEvidence(facts(), {}), FEW)
    sampler.tables["On"][:] = False
    refuse(sampler, "last")  # nothing is true, and nothing broken
    sampler.tables["On"][:3, 0, 0, 0] = True
    with pytest.raises(NoWorldError) as error:
        refuse(sampler, "last")
    hint = "sample with a longer burn-in, or make one of these axioms soft"
    assert str(error.value) == f"error: 3 of 4 sampled worlds break 'Stays'\n      = {hint}"
    sampler.tables["On"][..., 0] = True
    refuse(sampler, "burnt in")  # there is time to obey
    with pytest.raises(NoWorldError) as error:
        refuse(sampler, "last")
    assert str(error.value) == (
        f"error: 4 of 4 sampled worlds break 'Stays'\n      = there are worlds that do not; {hint}"
    )
    monkeypatch.setattr(contradictions, "_MOST_FACTS", 1)  # too many to look among
    with pytest.raises(NoWorldError) as error:
        refuse(sampler, "last")
    assert str(error.value) == f"error: 4 of 4 sampled worlds break 'Stays'\n      = {hint}"
