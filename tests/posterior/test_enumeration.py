"""Sampled probabilities equal those of enumeration, within the error of the sample."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import pytest
import torch

from fotltn.logic.check import check as check_theory
from fotltn.logic.defined import definitions_in
from fotltn.posterior import product
from fotltn.posterior import structure as structures
from fotltn.posterior.impossible import NoWorldError
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sampler_of
from fotltn.posterior.sampler import Sampler, Sampling
from fotltn.posterior.structure import structure
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from tests.posterior.oracle import Case, Exact, case, coming_and_going, stated

WORLDS, BURN_IN, SWEEPS = 32, 12, 60

#: With more atoms, enumeration takes too long.
MOST_ATOMS = 14

#: With more, all worlds do not fit into one sampler.
MOST_COUNTED = 10


class Compared(NamedTuple):
    """What became of a theory, and by how many standard errors probabilities of atoms differ."""

    outcome: Literal["too large", "no world", "tied", "certain", "compared"]
    deviations: tuple[float, ...] = ()


def compared(
    one: Case, seed: int, together: Sequence[Sequence[str]] | None = None, *, habits: bool = False,
    even_tied: bool = False,
) -> Compared:  # fmt: skip
    """Compare samples of a theory with enumeration; with habits, under a random prior.

    A theory that ties tracks is compared if they move jointly, or `even_tied`. For `together`, see
    `Exact`.
    """
    certain = replace(one.theory, axioms=tuple(a for a in one.theory.axioms if a.hard))
    defined = definitions_in(certain, one.learned).by_name
    free = [n for n in one.learned if n not in defined]
    exact = Exact(one, free, {n: d.formula for n, d in defined.items()}, together)
    if not 0 < exact.atoms <= MOST_ATOMS:
        return Compared("too large")
    sampling = Sampling(WORLDS, BURN_IN, SWEEPS, seed=seed, learn=False)
    try:
        problem = Problem(
            one.theory, one.tables, one.labels, one.learned, rates=one.rates, sampling=sampling,
            end=one.end,
        )  # fmt: skip
        sampler = sampler_of(problem)
    except NoWorldError:
        assert exact.marginals is None, one.text
        return Compared("no world")
    if sampler.structure.tied and not (even_tied or sampler.joint.pairs):
        return Compared("tied")  # it says that it may be wrong
    if habits and exact.marginals is not None:
        if exact.atoms > MOST_COUNTED:
            return Compared("too large")
        exact.marginals = with_habits(sampler, exact, seed)
    if one.tables.present and exact.marginals is None:
        return Compared("too large")  # axioms demand facts of absent entities
    sums = {n: torch.zeros_like(sampler.tables[n], dtype=torch.float64) for n in one.learned}
    for number in range(BURN_IN + SWEEPS):
        sampler.sweep(number)
        if number >= BURN_IN:
            for name, total in sums.items():
                total += sampler.tables[name] / SWEEPS
    broken = any(bool(count.any()) for count in sampler.broken().values())
    assert broken == (exact.marginals is None), one.text
    if exact.marginals is None:
        return Compared("no world")
    result: list[float] = []
    for name, shares in sums.items():
        p = exact.marginals[name]
        if not p.numel():  # of nobody
            continue
        spread = p * (1 - p)
        error = torch.maximum(shares.std(0) / WORLDS**0.5, (spread / (WORLDS * SWEEPS)).sqrt())
        inside = one.tables.inside.reshape(p.shape[0], *[1] * (p.dim() - 2), -1)
        counts = inside[..., : p.shape[-1]] & (spread > 1e-6)
        difference = shares.mean(0) - p
        assert float(difference[(spread <= 1e-6) & inside[..., : p.shape[-1]]].abs().sum()) < 0.05
        result += (difference / error)[counts].tolist()
    return Compared("compared" if result else "certain", tuple(result))


def give_habits(sampler: Sampler, seed: int) -> None:
    """Give a sampler a random prior."""
    generator = torch.Generator().manual_seed(seed)
    for part in (sampler.prior.initial, sampler.prior.moves, sampler.prior.static):
        for table in part.values():
            draws = torch.rand(table.shape, generator=generator, dtype=torch.float64) + 0.05
            table.copy_((draws / draws.sum(-1, keepdim=True)).log())


def every_world(sampler: Sampler, exact: Exact) -> tuple[Sampler, torch.Tensor]:
    """All worlds, with the prior of a sampler; and which of them obey the hard axioms."""
    number = len(exact.weight)
    all_worlds = Sampler(
        sampler.structure, sampler.known, sampler.evidence, Sampling(number, learn=False)
    )
    all_worlds.prior.initial.update(sampler.prior.initial)
    all_worlds.prior.moves.update(sampler.prior.moves)
    all_worlds.prior.static.update(sampler.prior.static)
    for table in all_worlds.tables.values():
        table.zero_()
    for column, (name, cell) in enumerate(exact.cells):
        all_worlds.tables[name].movedim(0, -1)[cell] = torch.from_numpy(exact.bits[:, column] > 0)
    all_worlds.define()
    return all_worlds, exact.feasible


def with_habits(sampler: Sampler, exact: Exact, seed: int) -> dict[str, torch.Tensor]:
    """Give a sampler a random prior; the probabilities of atoms, by the density of all worlds."""
    give_habits(sampler, seed)
    all_worlds, feasible = every_world(sampler, exact)
    log = torch.where(feasible, all_worlds.density()[:, 0], -torch.inf)
    weight = (log - log.max()).exp()
    weight /= weight.sum()
    return {
        n: (t * weight.reshape(-1, *[1] * (t.dim() - 1))).sum(0)
        for n, t in all_worlds.tables.items()
    }


def every(
    cases: Iterable[tuple[int, Case]], *, habits: bool = False
) -> tuple[Counter[str], list[float]]:
    """How many theories ended how, and all deviations; none is beyond what chance may do."""
    counts: Counter[str] = Counter()
    values: list[float] = []
    for seed, one in cases:
        outcome, differences = compared(one, seed, habits=habits)
        counts[outcome] += 1
        # Of many thousands of normal draws hardly one is beyond 5.5.
        assert max(map(abs, differences), default=0.0) < 5.5, one.text
        values += differences
    assert not counts["tied"]
    return counts, values


def check(cases: Iterable[tuple[int, Case]], *, habits: bool = False) -> Counter[str]:
    """Deviations are like draws of a normal distribution; how many theories ended how."""
    counts, values = every(cases, habits=habits)
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum(v * v for v in values) / len(values))
    # Atoms of a case depend on each other, so that the mean varies more than that of as many draws.
    assert abs(mean) < 6 / math.sqrt(counts["compared"])
    assert 0.8 < deviation < 1.25
    return counts


#: Axioms that tie tracks such that none may move alone, with what is learned.
TIES = [
    ("P V", "forall x, y. G(P(x) <-> V(y))"),
    ("P V", "forall x, y. G(P(x) -> V(y))"),
    ("P V", "G((exists x. P(x)) <-> (exists y. F V(y)))"),
    ("P Q", "forall x, x2. G(P(x) <-> F Q(x2))"),
    ("P V", "forall x, y. G(P(x) & Near(x) -> X V(y) & Has(x, y))"),
    ("P Fix", "forall x, x2. (Fix(x) <-> O P(x2))"),
    ("P V E", "forall x. G(E(x) <-> P(x) & exists y. V(y))\nhard axiom B: G(exists x. E(x))"),
]


def tied(seeds: range) -> Counter[str]:
    """Atoms that are tied are worth few draws, so that only the largest deviation says much."""
    cases = []
    for learned, axiom in TIES:
        for seed in seeds:
            choose = random.Random(seed)
            one = stated(choose, seed, [f"hard axiom A: {axiom}"], learned.split())
            cases.append((seed, one))
    return every(cases)[0]


def test_probabilities_equal_those_of_enumeration():
    assert check((seed, case(seed)) for seed in range(22))["compared"] > 8


def test_what_hard_axioms_tie_moves_together():
    assert tied(range(1))["compared"] > 3


#: Axioms about someone at some time: windows do not hold the time points, tracks remember them.
SOMEONE = [
    "hard axiom A: forall x, y. G(Has(x, y) -> O exists x2. P(x2))",
    "hard axiom A: G((exists x. Near(x)) -> exists x2. F (P(x2) & Near(x2)))",
    "hard axiom A: G((exists x. Near(x)) -> WX F exists x2. P(x2) & !Q(x2))",
    "hard axiom A: forall x. G(Q(x) -> H forall x2. P(x2) | Near(x2))",
    "axiom A weight 1.0: forall x. G(Near(x) -> O exists x2. P(x2) & Q(x2))",
    "axiom A weight 2.0: G((exists x. Near(x)) & F exists x2. P(x2))",
]


def someone(seeds: range) -> int:
    """Compare theories of `SOMEONE`, in which no axiom only tests draws; how many there were."""
    number = 0
    for axiom in SOMEONE:
        for seed in seeds:
            one = stated(random.Random(seed), seed, [axiom], ["P", "Q"])
            plan = structure(one.theory, one.tables, one.learned, one.learned, end=one.end)
            assert all(factor.span for kind in plan.kinds for factor in kind.factors)
            outcome, differences = compared(one, seed, even_tied=True)
            number += outcome == "compared"
            assert max(map(abs, differences), default=0.0) < 5.5, one.text
    return number


def test_someone_at_some_time(monkeypatch):
    monkeypatch.setattr(structures, "_MOST_JOINED", 1)  # so that tracks move one at a time
    assert someone(range(3)) > 8


@pytest.mark.slow
def test_someone_at_some_time_in_many_worlds(monkeypatch):
    monkeypatch.setattr(structures, "_MOST_JOINED", 1)
    assert someone(range(3, 60)) > 150


def present(seeds: range) -> Counter[str]:
    """Who is not there has no true facts, and begins anew when it comes."""
    axioms = [
        "axiom A weight 1.0: forall x. G(P(x) -> Near(x))",
        "hard axiom B: forall x. G(P(x) & Y P(x) -> WX !P(x))",
        "hard axiom C: forall x. G(P(x) -> !Q(x))",
        "axiom D weight 0.3: forall x. G(Q(x) -> F[<=2] P(x))",
        "axiom E weight 2.0: forall x, x2. G(P(x) & Near(x2) -> P(x2) | Q(x2))",
        "hard axiom K1: forall x. G(P(x) -> WY Q(x))",
    ]
    cases = []
    for seed in seeds:
        choose = random.Random(seed)
        some = choose.sample(axioms, 3)
        cases.append((seed, coming_and_going(stated(choose, seed, some, ["P", "Q"]), seed)))
    return every(cases)[0]


def test_entities_come_and_go():
    assert present(range(20, 32))["compared"] > 2


def remembered(seeds: range) -> Iterator[tuple[int, Case]]:
    """A relation that is tied to its arguments; axioms that remember how long something was."""
    axioms = [
        "hard axiom RA: forall x, y. G(Tie(x, y) -> P(x))",
        "hard axiom RB: forall x, y, y2. G(Tie(x, y) & Tie(x, y2) -> y = y2)",
        "hard axiom RC: forall x, y. G(Tie(x, y) & WY !Tie(x, y) -> WX Tie(x, y))",
        "hard axiom RD: forall x, y. G(Tie(x, y) -> F[<=1] (!Tie(x, y) | last))",
        "hard axiom RE: forall x. G(P(x) & WX !P(x) -> G[1,2] !P(x))",
        "hard axiom RF: forall x. G(P(x) & X !P(x) -> Y (exists y. Tie(x, y)))",
        "hard axiom RH: forall x, y. G(Tie(x, y) -> Tie(x, y) S (Tie(x, y) & Has(x, y)))",
        "hard axiom RI: forall x. G(P(x) -> Near(x) | Y P(x))",
        "hard axiom RJ: forall x. Fix(x) <-> F P(x)",
    ]
    for seed in seeds:
        choose = random.Random(seed)
        some = choose.sample(axioms, 4)
        fixed = ["Fix"] if any(" RJ:" in axiom for axiom in some) else []
        yield seed, stated(choose, seed, some, ["P", "Tie", *fixed])


def test_worlds_are_as_likely_as_what_was_learned_says():
    assert check(remembered(range(24)), habits=True)["compared"] > 8


#: Axioms whose windows may lie before the trace, or beyond the presence of a track.
STATIC = [
    "axiom A weight 2: forall x. G(Fix(x) -> Y exists x2. P(x2))",
    "axiom A weight 1: forall x. G(Fix(x) -> H[2,2] forall x2. P(x2))",
    "axiom A weight 2: forall x. (Fix(x) -> WX exists x2. P(x2))",
    "axiom A weight 2: G(WY (first | exists x. !Fix(x)))",
    "hard axiom A: forall x. G(Fix(x) & Near(x) -> Y exists x2. P(x2))",
]


@pytest.mark.parametrize("goes", [False, True], ids=["always there", "comes and goes"])
def test_static_facts_count_where_their_tracks_are_not(goes, monkeypatch):
    monkeypatch.setattr(structures, "_MOST_JOINED", 1)
    values: list[float] = []
    for axiom in STATIC:
        for seed in range(4):
            one = stated(random.Random(seed), seed, [axiom], ["P", "Fix"])
            one = coming_and_going(one, seed) if goes else one
            values += compared(one, seed, habits=True, even_tied=True).deviations
    assert len(values) > 12
    assert max(map(abs, values)) < 5.5


@pytest.mark.parametrize("habits", [False, True])
def test_who_is_not_there_was_nobody_at_any_time(habits, monkeypatch):
    """Tracks that remember whether someone was ever there are drawn beyond their presence."""
    monkeypatch.setattr(structures, "_MOST_JOINED", 1)
    values: list[float] = []
    for axiom in SOMEONE:
        for seed in range(3):
            one = stated(random.Random(seed), seed, [axiom], ["P", "Q"])
            some = compared(coming_and_going(one, seed), seed, habits=habits, even_tied=True)
            values += some.deviations
    assert len(values) > 8
    assert max(map(abs, values)) < 5.5


@pytest.mark.slow
def test_worlds_are_as_likely_as_what_was_learned_says_in_many_theories():
    assert check(remembered(range(24, 400)), habits=True)["compared"] > 100
    cases = ((seed, case(seed)) for seed in range(2040, 2500))
    assert check(cases, habits=True)["compared"] > 150


@pytest.mark.slow
def test_entities_come_and_go_in_many_worlds():
    assert present(range(32, 300))["compared"] > 100


#: An axiom of one track: nothing but `y`, which only given facts speak of, is not of the track.
OF_ONE_TRACK = """
sort a, b
predicate P(a), Has(a, b)
static predicate Fix(a)
hard axiom A: forall x, y. G(P(x) | (Fix(x) S Has(x, y)))
"""


@pytest.mark.parametrize(("entities", "obeyed", "tied"), [(2, {"A"}, ()), (5, set(), ("A",))])
def test_what_only_tests_draws_is_said_to_tie_tracks(entities, obeyed, tied):
    theory = check_theory(parse_theory(OF_ONE_TRACK))
    has = torch.zeros(1, 2, entities, 3)
    tables = Tables(
        {"a": 2, "b": entities}, torch.tensor([3]), 3, {"Has": has}, signature=theory.signature
    )
    plan = structure(theory, tables, ["P", "Fix"], [])
    assert {axiom for axiom, _ in plan.kinds[-1].parts} == obeyed
    assert plan.tied == tied


@pytest.mark.parametrize(
    "seed",
    [
        2137,  # draws that the hard axiom of one track only tested left worlds that break it
        2222,  # a soft axiom refused draws that obey, in favour of tracks that do not
    ],
)
def test_no_world_stays_where_it_breaks_a_hard_axiom(seed):
    assert compared(case(seed), seed, habits=True).outcome == "compared"


MANY = """
sort a, b
predicate A(a), B(a), C(a), D(a), E(a), I(a)
predicate Near(a), Has(a, b)
static predicate K(a, b)
"""


@pytest.mark.parametrize(
    ("axioms", "together", "letters"),
    [
        (["axiom Z weight 1: forall x. G(A(x) -> B(x))",
          "hard axiom One: forall x. G(C(x) | D(x))"],
         ["AB", "CD", "E", "I"], 512),
        # too many values for one track: each predicate has its own, and axioms are ties
        ([f"axiom Z{n} weight 1: forall x. G({p}(x) -> WX {q}(x))"
          for n, (p, q) in enumerate(zip("ABCDE", "BCDEI", strict=True))],
         ["A", "B", "C", "D", "E", "I"], 16),
    ],
)  # fmt: skip
def test_many_predicates_move_apart(axioms, together, letters, monkeypatch):
    monkeypatch.setattr(product, "MOST_LETTERS", letters)
    theory = check_theory(parse_theory(MANY + "\n".join(axioms)))
    counts: Counter[str] = Counter()
    for seed in range(40):
        one = stated(random.Random(seed), seed, axioms, [*"ABCDEI"], MANY)
        outcome, differences = compared(one, seed, together)
        counts[outcome] += 1
        assert max(map(abs, differences), default=0.0) < 5.0
        if counts["compared"] == 3:
            break
    assert counts["compared"] == 3
    names = [*"ABCDEI"]
    plan = structure(theory, one.tables, names, [])
    assert sorted("".join(b.predicate for b in k.moving.bits[: k.free]) for k in plan.kinds) == (
        sorted(together)
    )


@pytest.mark.slow
def test_probabilities_equal_those_of_enumeration_on_two_thousand_theories():
    assert check((seed, case(seed)) for seed in range(22, 2040))["compared"] > 1100


@pytest.mark.slow
def test_what_hard_axioms_tie_moves_together_in_many_worlds():
    assert tied(range(1, 30))["compared"] > 100
