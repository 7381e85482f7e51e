"""Definitions in theories: which forms are seen, which axioms hold by them, and that they do."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pytest

from fotltn import check
from fotltn.logic.check import CheckedTheory, check_formula
from fotltn.logic.defined import Definitions, definitions_in
from fotltn.logic.parts import changes
from fotltn.semantics import crisp
from fotltn.semantics.tables import Tables, spread
from fotltn.syntax import formula as f
from fotltn.syntax import theory as th
from fotltn.syntax.load import parse_theory
from fotltn.syntax.operators import Temporal
from fotltn.syntax.parse import parse_formula
from tests.semantics import worlds

SYMBOLS = """
sort a, b
predicate rain, P(a), Q(a), Link(a, b), V(a, b), Big(b)
static predicate Old(a), New(a), Near(a, b)
function next(a): a
function age(a): real
temporal function speed(a): real
constant zero: a
relation pairs(a, b)
"""


def theory_of(*axioms: str) -> CheckedTheory:
    lines = [f"hard axiom A{number}: {text}" for number, text in enumerate(axioms)]
    return check(parse_theory("\n".join([SYMBOLS, *lines])))


def found_in(*axioms: str, learned: str = "rain P Q Link V Big Old New Near") -> Definitions:
    return definitions_in(theory_of(*axioms), learned.split())


def formula_of(text: str, theory: CheckedTheory):
    return check_formula(parse_formula(text), theory.signature).formula


ONE = [
    (["forall x. G(P(x) <-> Q(x) & rain)"], "P(x)", "Q(x) & rain"),
    (["forall x. G(Q(x) & rain <-> P(x))"], "P(x)", "Q(x) & rain"),
    (["G forall x. (P(x) <-> O Q(x))"], "P(x)", "O Q(x)"),
    (["G(rain <-> exists x. Q(x))"], "rain", "exists x. Q(x)"),
    (["forall y: b. forall x. G(Link(x, y) <-> Q(x) & Big(y))"], "Link(x, y)", "Q(x) & Big(y)"),
    (["forall y. G forall x. G(Link(x, y) <-> Q(x) & Big(y))"], "Link(x, y)", "Q(x) & Big(y)"),
    (["forall x, y. G(V(x, y) <-> X Link(x, y))"], "V(x, y)", "X Link(x, y)"),
    (["forall x. G(!P(x) <-> Q(x) & rain)"], "P(x)", "!(Q(x) & rain)"),
    (["forall x. G(P(x) <-> !(Q(x) & rain))"], "P(x)", "!(Q(x) & rain)"),
    (["forall x. G(!!P(x) <-> Q(x) & rain)"], "P(x)", "Q(x) & rain"),
    (["forall x. G(!P(x) <-> !(Q(x) S rain))"], "P(x)", "Q(x) S rain"),
    (["forall x. G(P(x) <-> age(x) > 3)"], "P(x)", "age(x) > 3"),
    (["forall x. G(P(x) <-> Q(next(x)) | x = zero)"], "P(x)", "Q(next(x)) | x = zero"),
    (["forall x. G(P(x) <-> true)"], "P(x)", "true"),
    (["forall x. G(P(x) <-> exists y where Near(x, y). Big(y))"], "P(x)",
     "exists y where Near(x, y). Big(y)"),
    # static heads: at the first point
    (["forall x. Old(x) <-> F P(x)"], "Old(x)", "F P(x)"),
    (["forall x. F P(x) <-> Old(x)"], "Old(x)", "F P(x)"),
    (["forall x. Old(x) <-> P(x)"], "Old(x)", "P(x)"),
    (["forall x. G(Old(x) <-> New(x) & age(x) > 2)"], "Old(x)", "New(x) & age(x) > 2"),
    (["forall x. Old(x) -> F P(x)", "forall y. G(P(y) -> Old(y))"], "Old(x)", "F P(x)"),
    (["forall x. G(Old(x) -> P(x))", "forall y. G P(y) -> Old(y)"], "Old(x)", "G P(x)"),
    # two axioms
    (["forall x. G(P(x) -> O Q(x))", "forall x. G(O Q(x) -> P(x))"], "P(x)", "O Q(x)"),
    (["forall u. G(P(u) -> O Q(u))", "forall x. G(!P(x) -> !O Q(x))"], "P(u)", "O Q(u)"),
    (["forall u. G(!O Q(u) -> !P(u))", "G forall x. (O Q(x) -> P(x))"], "P(u)", "O Q(u)"),
    (
        ["forall x, y. G(Link(x, y) -> exists z: a. V(z, y) & P(x))",
         "forall y. G forall v: a. ((exists x: a. V(x, y) & P(v)) -> Link(v, y))"],
        "Link(x, y)", "exists z. V(z, y) & P(x)",
    ),
    (
        ["(forall x. G(P(x) -> O Q(x))) & (forall x. G(O Q(x) -> P(x)))"],
        "P(x)", "O Q(x)",
    ),
    # a variable of one side alone
    (
        ["forall x, y. G(Link(x, y) & Big(y) -> P(x))",
         "forall u. G(P(u) -> exists v: b. Big(v) & Link(u, v))"],
        "P(x)", "exists y. Link(x, y) & Big(y)",
    ),
    (
        ["forall x. G(P(x) -> exists y. Link(x, y))", "forall y, x. G(Link(x, y) -> P(x))"],
        "P(x)", "exists y. Link(x, y)",
    ),
    (
        ["forall x, y. G(P(x) -> Link(x, y))", "forall x. G(!P(x) -> exists y. !Link(x, y))"],
        "P(x)", "forall y: b. Link(x, y)",
    ),
    (
        ["forall x. G(P(x) -> exists y. Link(x, y))",
         "forall x. G(!P(x) -> !exists y. Link(x, y))"],
        "P(x)", "exists y. Link(x, y)",
    ),
    (
        ["forall x. G(!P(x) -> forall y. !Link(x, y))",
         "forall x. G(P(x) -> exists y. Link(x, y))"],
        "P(x)", "!(forall y. !Link(x, y))",
    ),
    (
        ["forall x, y, z: a. G(Link(x, y) & V(z, y) -> P(x))",
         "forall x. G(P(x) -> exists y. exists z: a. V(z, y) & Link(x, y))"],
        "P(x)", "exists y: b, z: a. Link(x, y) & V(z, y)",
    ),
    (
        ["forall x. Old(x) -> exists y. F Link(x, y)", "forall x, y. G(Link(x, y) -> Old(x))"],
        "Old(x)", "exists y. F Link(x, y)",
    ),
    (
        ["forall x. forall y where Near(x, y). G(Big(y) -> P(x))",
         "forall x. G(P(x) -> exists y where Near(x, y). Big(y))"],
        "P(x)", "exists y. Near(x, y) & Big(y)",
    ),
    # several axioms, each with an alternative, or with a part
    (
        ["forall x. G(P(x) -> Q(x) | rain)", "forall x. G(rain -> P(x))",
         "forall z. G(Q(z) -> P(z))"],
        "P(x)", "Q(x) | rain",
    ),
    (
        ["forall x. G(P(x) -> Q(x))", "forall x. G(P(x) -> rain)",
         "forall x. G(rain & Q(x) -> P(x))"],
        "P(x)", "rain & Q(x)",
    ),
    (
        ["forall x. G(P(x) -> exists y. Link(x, y) & (Big(y) | rain))",
         "forall x. G((exists y. (Big(y) | rain) & Link(x, y)) -> P(x))"],
        "P(x)", "exists y. Link(x, y) & (Big(y) | rain)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("axioms", "head", "formula"), ONE)
def test_what_axioms_define(axioms, head, formula):
    theory = theory_of(*axioms)
    name = head.partition("(")[0]
    definitions = definitions_in(theory, [name])
    definition = definitions.by_name[name]
    assert f"{name}({', '.join(a.name for a in definition.axes)})".removesuffix("()") == head
    assert definition.formula == formula_of(formula, theory)
    assert definition.axioms == definitions.axioms == tuple(a.name for a in theory.axioms)
    assert definitions_in(theory, []) == Definitions({}, ())


@pytest.mark.parametrize(
    "axioms",
    [
        ["forall x. G(P(x) -> Q(x) & rain)"],  # one way
        ["forall x. P(x) <-> O Q(x)"],  # at the first point alone
        ["forall x. F(P(x) <-> O Q(x))"],
        ["forall x. G[<=3](P(x) <-> O Q(x))"],
        ["forall x. H(P(x) <-> O Q(x))"],
        ["exists x. G(P(x) <-> O Q(x))"],
        ["forall x where Old(x). G(P(x) <-> O Q(x))"],  # a guard
        ["forall x. G(Old(x) -> (P(x) <-> O Q(x)))"],
        ["forall x, z. G(P(x) <-> O Q(z))"],  # a variable too many
        ["G(P(zero) <-> rain)", "forall x. G(P(next(x)) <-> rain)"],
        ["forall (x, y) in pairs. G(Link(x, y) <-> P(x))"],
        ["forall x. G(P(x) <-> Y P(x))"],  # itself
        ["forall x. G(Old(x) <-> Q(x))"],  # which need not be the same at all points
        ["forall x. G(P(x) -> O Q(x))", "forall x. G(O Q(next(x)) -> P(x))"],
        ["forall x. G(P(x) -> O Q(x))", "forall x. G(Q(x) -> P(x))"],
        ["forall x. G(P(x) -> O Q(x))", "forall x. O Q(x) -> P(x)"],
        ["forall x, z: a. G(P(x) & P(z) <-> O Q(x))"],
        [
            "forall x, y. G(Link(x, y) -> exists z: a. V(z, y) & P(x))",
            "forall x, y. G((exists z: a. V(x, y) & P(z)) -> Link(x, y))",
        ],
        ["forall x, y. G(Big(y) -> P(x))", "forall x. G(P(x) -> forall y. Big(y))"],
        ["forall x. G(P(x) -> Q(x) | rain)", "forall x. G(rain -> P(x))"],
        ["forall x. G(P(x) -> Q(x))", "forall x. G(rain & Q(x) -> P(x))"],
        # what guards say now need not be so later
        [
            "forall x. forall y where Link(x, y). G(Big(y) -> P(x))",
            "forall x. G(P(x) -> exists y where Link(x, y). Big(y))",
        ],
        # X needs a next point, but no y; if there is none, these are not the same
        ["forall x. G(P(x) -> exists y. WX Big(y))", "forall x. G(WX (exists y. Big(y)) -> P(x))"],
    ],
)
def test_what_is_no_definition(axioms):
    assert found_in(*axioms, learned="P Link Old") == Definitions({}, ())


def test_the_left_side_of_two_predicates_is_the_head():
    both = found_in("forall x. G(P(x) <-> Q(x))")
    assert [*both.by_name] == ["P"]
    assert both.axioms == ("A0",)
    assert [*found_in("forall x. G(P(x) <-> Q(x))", learned="Q").by_name] == ["Q"]


def test_the_first_definition_counts_and_none_closes_a_circle():
    definitions = found_in(
        "forall x. G(P(x) <-> O Q(x))",
        "forall x. G(P(x) <-> F Q(x))",  # P has one
        "forall x. G(Q(x) <-> Y P(x))",  # P uses Q
        "forall x. G(P(x) -> rain)",
        learned="P Q",
    )
    assert [*definitions.by_name] == ["P"]
    assert definitions.by_name["P"].axioms == definitions.axioms == ("A0",)
    long = found_in(
        "forall x. G(P(x) <-> X Q(x))",
        "G(rain <-> exists x. P(x))",
        "forall x. G(Q(x) <-> X rain)",
        learned="P Q rain",
    )
    assert [*long.by_name] == ["P", "rain"]
    assert long.axioms == ("A0", "A1")


def test_definitions_come_after_those_that_they_use():
    definitions = found_in(
        "G(rain <-> exists x. P(x))", "forall x. G(P(x) <-> X Q(x))", "forall x. G(Q(x) <-> Old(x))"
    )
    assert [*definitions.by_name] == ["Q", "P", "rain"]
    assert definitions.axioms == ("A0", "A1", "A2")


def test_an_axiom_that_says_more_does_not_hold_by_definition():
    definitions = found_in(
        "forall x. G((P(x) <-> O Q(x)) & (P(x) -> rain))",
        "forall z. G(O Q(z) -> P(z))",
        learned="P",
    )
    assert definitions.by_name["P"].axioms == ("A0", "A1")
    assert definitions.axioms == ("A1",)


def test_soft_axioms_define_nothing():
    """Neither alone nor as one of two directions; nor do they hold by a definition."""
    theory = theory_of(
        "forall x. G(P(x) <-> O Q(x))",
        "forall x. G(P(x) -> rain)",
        "forall x, y. G(V(x, y) -> X Link(x, y))",
        "forall x, y. G(X Link(x, y) -> V(x, y))",
    )

    def with_soft(*names: str) -> Definitions:
        axioms = tuple(replace(a, hard=a.name not in names) for a in theory.axioms)
        return definitions_in(replace(theory, axioms=axioms), ["P", "V"])

    assert with_soft().axioms == ("A0", "A2", "A3")
    assert [*with_soft("A0").by_name] == ["V"]
    assert [*with_soft("A2").by_name] == [*with_soft("A3").by_name] == ["P"]
    assert with_soft("A3").axioms == ("A0",)
    assert with_soft("A0", "A1", "A2", "A3") == Definitions({}, ())


def test_shared_parts_are_compared_once():
    deep = "rain"
    for _ in range(60):  # written out, this would have 2**60 parts
        deep = f"(rain <-> {deep})"
    definitions = found_in(f"forall x. G(P(x) <-> Q(x) & {deep})", learned="P")
    assert [*definitions.by_name] == ["P"]


@pytest.mark.parametrize(
    ("formula", "over_time"),
    [("Old(x) & age(x) > 1 & exists y. Near(x, y)", False), ("true", False), ("P(x)", True),
     ("speed(x) > 1", True), ("first", True), ("F Old(x)", True), ("Old(x) U New(x)", True),
     ("X Old(x)", True)],
)  # fmt: skip
def test_what_changes_over_time(formula, over_time):
    theory = theory_of()
    assert changes(theory.signature, formula_of(formula, theory)) is over_time


# --- random theories --------------------------------------------------------------------------


def random_axioms(rng: random.Random, sizes) -> list[f.Formula]:
    """Axioms that define something, most of them, in all ways in which they may."""
    name, sorts = rng.choice([*worlds.PREDICATES.items()])
    static = name in worlds.STATIC

    state = rng.getstate()

    def sides(names: list[str]) -> tuple[f.Formula, f.Formula]:
        scope = dict(zip(names, sorts, strict=True))
        inner = random.Random(repr(state))
        body = worlds.random_first_order(inner, scope, sizes, 1, graded=False)
        head: f.Formula = f.Atom(name, tuple(map(f.Var, names)))
        return (f.Not(head) if inner.random() < 0.2 else head), body

    names = ["u", "v"][: len(sorts)]
    always = not static or rng.random() < 0.3
    if rng.random() < 0.3:  # one side has a variable more
        sort = rng.choice(["a", "b"])
        extra, scope = f.Binder("e", sort), {**dict(zip(names, sorts, strict=True)), "e": sort}
        atom = f.Atom(name, tuple(map(f.Var, names)))
        inner = worlds.random_first_order(rng, scope, sizes, 1, graded=False)
        if rng.random() < 0.5:
            one, other = f.Implies(atom, f.Exists((extra,), None, inner)), f.Implies(inner, atom)
        else:
            one, other = f.Implies(f.Forall((extra,), None, inner), atom), f.Implies(atom, inner)
        return [
            _prefixed(rng, one, names, sorts, always),
            _prefixed(rng, other, [*names, "e"], [*sorts, sort], always),
        ]
    head, body = sides(names)
    if rng.random() < 0.5:
        pair = (head, body) if rng.random() < 0.5 else (body, head)
        return [_prefixed(rng, f.Iff(*pair), names, sorts, always)]
    first = f.Implies(head, body)
    head, body = sides(others := ["w", "n"][: len(sorts)])
    second = f.Implies(body, head)
    if rng.random() < 0.3:
        second = f.Implies(f.Not(head), f.Not(body))
    return [
        _prefixed(rng, first, names, sorts, always),
        _prefixed(rng, second, others, sorts, always),
    ]


def _prefixed(rng, node: f.Formula, names: list[str], sorts, always: bool) -> f.Formula:
    binders = tuple(f.Binder(n, s) for n, s in zip(names, sorts, strict=True))
    inside = rng.random() < 0.5
    if always and inside:
        node = f.Unary(Temporal.G, node, None, False)
    if binders and rng.random() < 0.5:
        node = f.Forall(binders, None, node)
    else:
        for binder in rng.sample(binders, len(binders)):
            node = f.Forall((binder,), None, node)
    if always and not inside:
        node = f.Unary(Temporal.G, node, None, False)
    return node


def with_definitions(definitions: Definitions, tables: Tables) -> Tables:
    """Tables in which what is defined is what its formula says, static ones at the first point."""
    for name, definition in definitions.by_name.items():
        value = crisp.evaluate(definition.formula, tables)
        table = spread(value, definition.axes).expand(
            tables.batch, *map(tables.size, definition.axes), tables.horizon
        )
        if tables.signature.predicates[name].static:
            table = table[..., :1]
        tables = replace(tables, predicates={**tables.predicates, name: table.double()})
    return tables


def with_one_flipped(tables: Tables, name: str, rng: random.Random) -> Tables:
    """The same, but for one fact within a trace."""
    table = tables.predicate(name).clone()
    trace = rng.randrange(tables.batch)
    places = [rng.randrange(size) for size in table.shape[1:-1]]
    times = min(int(tables.lengths[trace]), table.shape[-1])
    cell = (trace, *places, rng.randrange(times))
    table[cell] = 1 - table[cell]
    return replace(tables, predicates={**tables.predicates, name: table})


@pytest.mark.parametrize("block", range(10))
def test_axioms_that_hold_by_definition_hold(block):
    """On random theories and worlds, by the crisp evaluator; and they hold by nothing else."""
    defined = consumed = 0
    for seed in range(60 * block, 60 * block + 60):
        rng = random.Random(seed)
        batch = worlds.random_batch(rng, partial(rng.choice, [0.0, 1.0]))
        sizes = batch[0].sizes
        written = [a for _ in range(rng.randint(1, 4)) for a in random_axioms(rng, sizes)]
        rng.shuffle(written)
        axioms = [th.Axiom(f"A{n}", a, hard=rng.random() < 0.8) for n, a in enumerate(written)]
        theory = check(replace(worlds.THEORY.source, axioms=tuple(axioms)))
        learned = rng.sample([*worlds.PREDICATES], rng.randint(1, 5))
        definitions = definitions_in(theory, learned)
        assert {*definitions.by_name} <= {*learned}
        assert all(theory.axiom(a).hard for d in definitions.by_name.values() for a in d.axioms)
        tables = with_definitions(definitions, worlds.tables_of(written[0], batch))
        for name in definitions.axioms:
            truth = crisp.evaluate(theory.axiom(name).formula, tables)
            assert bool(truth.tensor[..., 0].all()), (seed, str(theory.axiom(name).source))
        for name, definition in definitions.by_name.items():
            if not tables.predicate(name).numel():
                continue
            broken = [theory.axiom(a).formula for a in definition.axioms]
            other = with_one_flipped(tables, name, rng)
            truths = [bool(crisp.evaluate(one, other).tensor[..., 0].all()) for one in broken]
            assert not all(truths), (seed, definition)
        defined += len(definitions.by_name)
        consumed += len(definitions.axioms)
    assert defined > 20
    assert consumed > 20
