"""Inputs off the beaten track: paired variables, functions, sorts of nobody, long traces."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from fotltn.errors import LimitError
from fotltn.evaluation import evaluate_core
from fotltn.grounding.labels import Labels
from fotltn.logic.check import check, check_formula
from fotltn.posterior import posterior as posterior_module
from fotltn.posterior.evidence import LabelEvidence, NoiseRates
from fotltn.posterior.posterior import Posterior
from fotltn.posterior.problem import Problem
from fotltn.posterior.run import sample, sampler_of
from fotltn.posterior.sampler import Sampler, Sampling
from fotltn.posterior.structure import structure
from fotltn.semantics.sparse import sparse_table
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula
from tests.posterior.oracle import Case
from tests.posterior.test_enumeration import compared

SIGNATURE = """
sort a, b
predicate P(a), Q(a), Tie(a, b), V(b), D(b), N, Loop(a, a)
static predicate Fix(a), Old(a, b)
predicate Near(a), Has(a, b), Rain
function next(a): a
temporal function at(a): b
constant ego: a
relation pairs(a, b), couples(a, a)
"""


def case(learned: str, sizes: tuple[int, int], lengths: list[int], axioms: str) -> Case:
    """A theory over random given tables, with random labels of what is learned."""
    theory = check(parse_theory(SIGNATURE + axioms))
    choose, signature = random.Random(axioms), theory.signature
    number, horizon = dict(zip("ab", sizes, strict=True)), max(lengths)

    def shape(symbol: Any) -> tuple[int, ...]:
        return (len(lengths), *(number[s] for s in symbol.sorts), 1 if symbol.static else horizon)

    def drawn(symbol: Any, below: int) -> Tensor:
        size = shape(symbol)
        numbers = [choose.randrange(max(1, below)) for _ in range(torch.Size(size).numel())]
        return torch.tensor(numbers, dtype=torch.int64).reshape(size)

    tables = Tables(
        number, torch.tensor(lengths), horizon,
        {n: drawn(signature.predicates[n], 2).double() for n in ("Near", "Has", "Rain")},
        functions={n: drawn(f, number[f.result]) for n, f in signature.functions.items()},
        constants={"a": {"ego": 0, "#0": number["a"] - 1, "#1": 0}},
        relations={
            n: torch.tensor(
                [t for t in itertools.product(*(range(number[s]) for s in r.sorts))
                 if choose.random() < 0.7],
                dtype=torch.int64,
            ).reshape(-1, 2)
            for n, r in signature.relations.items()
        },
        signature=signature,
    )  # fmt: skip
    names = learned.split()
    index, truth = {}, {}
    for name in names:
        spots = itertools.product(*map(range, shape(signature.predicates[name])))
        static = signature.predicates[name].static
        cells = [s for s in spots if (static or s[-1] < lengths[s[0]]) and choose.random() < 0.4]
        width = len(signature.predicates[name].sorts) + 2
        index[name] = torch.tensor(cells, dtype=torch.int64).reshape(-1, width).T
        truth[name] = torch.tensor([choose.choice([0.0, 1.0, 0.7]) for _ in cells]).double()
    rates = {n: NoiseRates(0.2, 0.1) for n in names}
    return Case(theory, tables, Labels(index, truth), tuple(names), rates, axioms, "undecided")


@pytest.mark.parametrize(
    ("learned", "sizes", "lengths", "axioms"),
    [
        # paired variables, of tracks that move together and of others
        ("P Tie", (2, 1), [2], "hard axiom A: forall (x, y) in pairs. G(Tie(x, y) -> P(x))"),
        ("P Tie", (2, 1), [2], "hard axiom A: G(Rain -> exists (u, w) in pairs. Tie(u, w) & P(u))"),
        ("N P", (2, 2), [3], "hard axiom A: G(N <-> exists (u, w) in couples. P(u) & !P(w))"),
        ("P V", (2, 2), [2], "axiom A weight 2: forall (x, y) in pairs. G(P(x) <-> V(y))"),
        # sorts of nobody
        ("P V", (2, 0), [3], "hard axiom A: forall x. G(P(x) | Near(x) | exists y. V(y))"),
        ("P Tie", (2, 0), [2], "axiom A: forall x, y. G(Near(x) | P(x) & Tie(x, y))"),
        ("P D", (2, 0), [2], "hard axiom A: G(forall y. D(y) <-> exists x. P(x))"),
        ("P", (2, 0), [2], "axiom A weight 2: forall x. G(Near(x) | forall y. P(x) & Has(x, y))"),
        # names of entities, some of which look like numbers
        ("P", (2, 1), [3], 'hard axiom A: G(P("#0") -> P("#1"))'),
        ("P", (2, 2), [3], 'axiom A weight 2: forall y. G(Has(ego, y) -> !P(ego) | Y P("#0"))'),
        ("P Fix", (2, 1), [1, 2], "hard axiom A: Fix(ego) <-> forall x. F P(x)"),
        # functions
        ("P", (2, 1), [3], "axiom A weight 2: forall x. G(P(x) <-> P(next(x)))"),
        ("V", (2, 2), [3], "axiom A weight 2: forall x. G(V(at(x)) <-> Near(x))"),
        ("Old", (2, 2), [3], "hard axiom A: forall x. G(Near(x) -> Old(x, at(x)))"),
        # a definition that does not speak of its entity, in a soft axiom about many
        (
            "Fix D", (2, 2), [2],
            "hard axiom B: forall y. G(D(y) <-> Fix(ego))\n"
            "axiom A: forall x, y. G(Near(x) -> !D(y))",
        ),
        # one argument twice
        ("Loop", (2, 1), [2], "hard axiom A: forall x. G(Loop(x, x) <-> exists y. Loop(x, y))"),
        ("P Loop", (2, 1), [1], "hard axiom A: forall x, y. G(Loop(x, y) & x = y -> P(x))"),
        # nothing but propositions
        ("N", (1, 1), [1, 4], "axiom A: G(N <-> Y[2] N | Rain)"),
    ],
)  # fmt: skip
def test_probabilities_of_awkward_theories_equal_those_of_enumeration(
    learned, sizes, lengths, axioms
):
    one = case(learned, sizes, lengths, axioms)
    outcome, differences = compared(one, seed=1, even_tied=True)
    assert outcome == "compared"
    assert max(map(abs, differences)) < 5


def test_a_soft_axiom_weighs_its_cells_one_by_one():
    theory = check(
        parse_theory(
            "sort a\npredicate P(a), Q(a)\n"
            "axiom A weight 0.5: forall x, y. G(P(x) & (Q(x) | Q(y)))\n"
        )
    )
    tables = Tables({"a": 3}, torch.tensor([2]), 2, {}, signature=theory.signature)
    sampling = Sampling(1, learn=False)
    sampler = sampler_of(Problem(theory, tables, Labels({}, {}), ["P", "Q"], sampling=sampling))
    broken = sampler.soft()["A"]
    assert broken.tolist() == [[3 * 3 * 2]]  # pairs and points: nothing is true yet
    before = sampler.density()
    sampler.tables["P"][:] = True
    assert sampler.soft()["A"].tolist() == [[3 * 3 * 2]]  # the other part is false as before
    sampler.tables["Q"][:] = True
    torch.testing.assert_close(sampler.density() - before, 0.5 * broken.double())


def sampled(
    text: str, sizes: Mapping[str, int], points: int, learned: list[str],
    labels: Mapping[str, tuple[Tensor, Tensor]], **options: Any,
) -> Posterior:  # fmt: skip
    """Worlds of one trace, with labels by predicate: index and truth."""
    theory = check(parse_theory(text))
    tables = Tables(
        sizes, torch.tensor([points]), points, options.pop("given", {}), signature=theory.signature
    )
    told = Labels({n: i for n, (i, _) in labels.items()}, {n: t for n, (_, t) in labels.items()})
    return sample(Problem(theory, tables, told, learned, **options))


def grid(*sizes: int) -> Tensor:
    """The index of every cell of the only trace."""
    return torch.cartesian_prod(torch.arange(1), *map(torch.arange, sizes)).T


@pytest.mark.parametrize(
    ("body", "cells"),
    [
        ("forall x. G(Knows(x, x) -> P(x))", 5),
        ("forall x, y. G(Knows(x, x) & Knows(y, y) -> P(x) | P(y))", 13),
        ("forall x, y. G(Knows(x, y) & Knows(y, x) -> P(x))", 9),
    ],
)
def test_bindings_that_several_facts_name_count_once(body, cells):
    theory = check(parse_theory(f"sort a\npredicate P(a), Knows(a, a)\naxiom A: {body}\n"))
    who = [[[1, 1], [1, 1], [1, 1]], [[0, 1], [1, 1], [0, 0]], [[1, 0], [0, 1], [0, 1]]]
    facts = torch.tensor([who]).nonzero().T
    truth = torch.ones(facts.shape[1], dtype=torch.float64)
    given = {"Knows": sparse_table(facts, truth, (1, 3, 3, 2), default=0.0)}
    tables = Tables({"a": 3}, torch.tensor([2]), 2, given, signature=theory.signature)
    sampler = sampler_of(Problem(theory, tables, Labels({}, {}), ["P"], sampling=Sampling(1)))
    assert sampler.soft()["A"].tolist() == [[cells]]


@pytest.mark.parametrize("hard", ["hard ", ""])
def test_a_guard_inside_g_is_part_of_each_cell(hard):
    """Who is chosen at each time obeys by itself: no tracks are tied, and cells count alone."""
    one = case("P Q", (3, 1), [4], f"{hard}axiom Rule: G forall x where Near(x). (P(x) -> Q(x))")
    same = f"{SIGNATURE}{hard}axiom Rule: forall x. G(Near(x) & P(x) -> Q(x))"
    later, plain = (
        sampler_of(Problem(theory, one.tables, one.labels, one.learned, sampling=Sampling(4)))
        for theory in (one.theory, check(parse_theory(same)))
    )
    for sampler in (later, plain):
        assert not sampler.structure.tied
        assert len(sampler.movers) == 1
        for number in range(3):
            sampler.sweep(number)
    for name in ("P", "Q"):
        assert torch.equal(later.tables[name], plain.tables[name])


def test_long_traces_are_drawn():
    # All that is drawn of a long track weighs almost nothing, since so many labels are unlikely.
    points = 2200
    truth = (torch.arange(points) // 7 % 2).bool()
    generator = torch.Generator().manual_seed(0)
    labels = truth ^ (torch.rand(points, generator=generator) < 0.1)
    posterior = sampled(
        "sort a\npredicate P(a)\naxiom A: forall x. G(P(x) -> P(x))", {"a": 1}, points, ["P"],
        {"P": (grid(1, points), labels.double())},
        rates={"P": NoiseRates(0.1, 0.1)}, sampling=Sampling(2, 3, 2),
    )  # fmt: skip
    assert float(((posterior.marginals["P"][0, 0] > 0.5) == truth).double().mean()) > 0.9


MANY = """
sort a
static predicate Z(a)
predicate P(a)
hard axiom L: forall x. G(P(x) -> Z(x))
hard axiom One: forall x, y. Z(x) & Z(y) -> x = y
"""


def test_no_number_of_labels_outweighs_a_hard_axiom():
    # Two of eight have labels without end that they are Z, and only one can be. Either gives way.
    points = 40
    truth = torch.zeros(8, points, dtype=torch.float64)
    truth[:2] = 1
    posterior = sampled(
        MANY, {"a": 8}, points, ["Z", "P"], {"P": (grid(8, points), truth.reshape(-1))},
        rates={"P": NoiseRates(0.1, 0.1)}, sampling=Sampling(16, 24, 5),
    )  # fmt: skip
    shares = posterior.marginals["Z"][0, :, 0].tolist()
    assert shares[0] + shares[1] == pytest.approx(1)
    assert 0.2 < shares[0] < 0.8
    assert sum(shares[2:]) == 0


def test_an_axiom_that_only_labels_would_break_is_obeyed():
    # Without labels, that nobody is P does not happen.
    posterior = sampled(
        "sort a\npredicate P(a)\nhard axiom Some: G(exists x. P(x))\n", {"a": 14}, 1, ["P"],
        {"P": (grid(14, 1), torch.zeros(14).double())},
        rates={"P": NoiseRates(0.02, 0.02)}, sampling=Sampling(8, 10, 5),
    )  # fmt: skip
    assert bool(posterior.worlds["P"].any(2).all())


def test_worlds_that_would_break_what_is_watched_go_back():
    text = "sort a\npredicate P(a)\nhard axiom Some: G(exists x. P(x))\n"
    theory = check(parse_theory(text))
    tables = Tables({"a": 2}, torch.tensor([2, 1]), 2, {}, signature=theory.signature)
    nothing = LabelEvidence(Labels({}, {}), {"P": NoiseRates(0.1, 0.1)})
    plan = structure(theory, tables, ["P"], [], watched=["Some"])
    sampler = Sampler(plan, tables, nothing, Sampling(64, 100, 200, learn=False))
    total = torch.zeros(2, 2, 2).double()
    for number in range(300):
        before = sampler.tables["P"].any(2)
        sampler.sweep(number)
        after = sampler.tables["P"].any(2) | ~tables.inside
        went = before.all(-1) & ~after.all(-1)
        assert number < sampler.sampling.settled or not bool(went.any())
        if number >= 100:
            assert bool(after.all())
            total += sampler.tables["P"].double().mean(0) / 200
    # At one point, three of four worlds obey, and in two of them an entity is P.
    assert float(total[1, :, 0].mean()) == pytest.approx(2 / 3, abs=0.02)


def test_as_many_worlds_are_stored_as_are_wanted():
    for sweeps, stored in ((10, 4), (10, 6), (3, 7), (8, 8)):
        posterior = sampled(
            MANY, {"a": 1}, 2, ["Z", "P"], {}, sampling=Sampling(2, 2, sweeps, stored=stored)
        )
        assert posterior.count == 2 * min(sweeps, stored)


def test_long_chains_of_connectives_are_followed():
    names = [f"Q{n}" for n in range(400)]
    for join, sign in (("|", ""), ("&", "!")):
        chain = f" {join} ".join(f"{sign}{name}(x)" for name in names)
        text = f"sort a\npredicate P(a), {', '.join(f'{n}(a)' for n in names)}\n"
        text += f"hard axiom A: forall x. G(P(x) <-> {chain})\n"
        given = {name: torch.zeros(1, 1, 2).double() for name in names}
        how = Sampling(2, 1, 2)
        posterior = sampled(text, {"a": 1}, 2, ["P"], {}, given=given, sampling=how)
        assert posterior.marginals["P"].tolist() == [[[float(join == "&")] * 2]]


def test_operators_that_nest_without_end_are_refused():
    text = "sort a\npredicate P(a), D(a)\n"
    deep = "(P(x) | WX " * 200 + "P(x)" + ")" * 200
    with pytest.raises(LimitError) as told:
        sampled(f"{text}hard axiom A: forall x. G({deep})\n", {"a": 1}, 2, ["P"], {})
    assert str(told.value) == "error: 'A' nests 402 operators; at most 100 are followed"
    defined = f"{text}hard axiom A: forall x. G(D(x) <-> {deep})\n"
    with pytest.raises(LimitError, match="the definition of 'D' nests 402 operators"):
        sampled(defined, {"a": 1}, 2, ["P", "D"], {})


def test_a_refusal_names_the_predicate_and_the_axiom():
    text = "sort a\npredicate P(a)\n"
    far = f"hard axiom Far: forall x. G(P(x) -> {'WX ' * 10}P(x))\n"
    with pytest.raises(LimitError, match=r"cannot sample 'P': the automaton of 'Far' has more"):
        sampled(text + far, {"a": 1}, 12, ["P"], {})


def test_what_is_asked_of_worlds_may_nest_as_elsewhere():
    deep = "(P(x) | X " * 200 + "P(x)" + ")" * 200
    easy = "sort a\npredicate P(a)\naxiom A weight 0.1: forall x. G P(x)\n"
    posterior = sampled(easy, {"a": 2}, 3, ["P"], {}, sampling=Sampling(4, 1, 8))
    asked, same = (
        check_formula(parse_formula(text), posterior.tables.signature)
        for text in (deep, "F[<=200] P(x)")
    )
    truth = posterior.truth(asked).tensor
    assert truth.equal(posterior.truth(same).tensor)
    assert bool(truth.any())
    assert not bool(truth.all())


def test_worlds_that_do_not_fit_are_asked_one_after_the_other(monkeypatch):
    """Where all worlds at once take too much memory; one that does not fit alone is refused."""
    easy = "sort a\npredicate P(a)\naxiom A weight 0.1: forall x. G P(x)\n"
    posterior = sampled(easy, {"a": 3}, 3, ["P"], {}, sampling=Sampling(8, 1, 8))
    asked = check_formula(parse_formula("X P(x)"), posterior.tables.signature)
    truth, seen = posterior.truth(asked).tensor, []

    def evaluate(formula, tables, semantics, *, most=3):
        seen.append(tables.batch)
        if tables.batch > most:
            raise LimitError("too much")
        return evaluate_core(formula, tables, semantics)

    monkeypatch.setattr(posterior_module, "evaluate_core", evaluate)
    assert posterior.truth(asked).tensor.equal(truth)
    assert seen[:3] == [8, 4, 2]
    assert max(seen[2:]) == 2
    monkeypatch.setattr(posterior_module, "evaluate_core", partial(evaluate, most=0))
    with pytest.raises(LimitError, match="too much"):
        posterior.truth(asked)
