"""Bugs that were reproduced in other libraries, and do not exist here."""

from __future__ import annotations

import math

import pytest
import torch

from fotltn import SEMANTICS, DataError, parse_formula
from fotltn.dsl import And, Or, exists, forall, predicates, variables
from fotltn.semantics import aggregate
from fotltn.semantics.config import PMean
from fotltn.syntax.operators import Temporal
from tests.helpers import value_of as evaluate
from tests.semantics.textbook import holds, propositional

FUZZY = [name for name, s in SEMANTICS.items() if not s.boolean]


@pytest.mark.parametrize("name", FUZZY)
def test_a_subformula_may_be_used_twice(name):
    """LTNtorch: `px = P(x); And(px, Q(y)); Or(px, Q(y))` raises IndexError, px is changed."""
    x, y = variables("x y")
    P, Q = predicates("P Q")  # noqa: N806
    px = P(x)
    tables = {
        "P": torch.rand(2, requires_grad=True),
        "Q": torch.rand(3, requires_grad=True),
    }
    shared = And(And(px, Q(y)), Or(px, Q(y)))
    anew = And(And(P(x), Q(y)), Or(P(x), Q(y)))
    found = evaluate(shared, tables, semantics=name)
    assert found.shape == (2, 3)
    assert found.equal(evaluate(anew, tables, semantics=name))
    assert px == P(x)
    assert evaluate(px, tables, semantics=name).shape == (2,)


@pytest.mark.parametrize("name", FUZZY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_guards_keep_the_precision(name, dtype):
    """LTNtorch: the result of a guarded quantifier is float64, whatever went in."""
    tables = {"q": torch.rand(3, dtype=dtype), "keep": torch.tensor([1, 0, 1])}
    for text in ("forall x where keep(x). q(x)", "exists x where !keep(x) & keep(x). q(x)"):
        assert evaluate(text, tables, semantics=name).dtype == dtype


@pytest.mark.parametrize("name", SEMANTICS)
def test_an_empty_variable_is_no_nan(name):
    """LTNtorch #4: Forall over an empty variable is NaN, but 1 with a guard."""
    tables = {"q": torch.zeros(0, 2), "s": torch.ones(2, 2)}
    for text, expected in [
        ("forall x. q(x)", 1),
        ("forall x where q(x). q(x)", 1),
        ("exists x. q(x)", 0),
        ("exists x where q(x). q(x)", 0),
        ("forall y where !s(y). s(y)", 1),
        ("exists y where !s(y). s(y)", 0),
    ]:
        found = evaluate(text, tables, semantics=name, at="all").double()
        assert found.tolist() == pytest.approx([expected] * 2, abs=1e-12), text


def test_pairing_ends_with_its_quantifier():
    """LTN-TF: `undiag` ignores its locks, so that variables stay paired, or do not."""
    table = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    x, y = variables("x y")
    (E,) = predicates("E")  # noqa: N806
    tables, relations = {"E": table}, {"same": [[0, 0], [1, 1]]}
    (pair,) = parse_formula("forall (x, y) in same. E(x, y)").binders  # type: ignore[attr-defined]
    paired, free = forall(pair, E(x, y)), forall(x, y, E(x, y))
    alone = [evaluate(g, tables, relations=relations, p=1).item() for g in (paired, free)]
    assert alone == pytest.approx([0.85, 0.5])
    for both in (paired & free, free & paired):
        together = evaluate(both, tables, relations=relations, p=1).item()
        assert together == pytest.approx(alone[0] * alone[1])
    inside = forall(pair, E(x, y) & exists(y, E(x, y)))
    rows = [0.9 * 0.5, 0.8 * 0.5]
    assert evaluate(inside, tables, relations=relations, p=1).item() == pytest.approx(sum(rows) / 2)


@pytest.mark.parametrize("name", SEMANTICS)
@pytest.mark.parametrize("a", [0.0, 1.0])
def test_negated_next_at_the_end(name, a):
    """FLTLf: ¬X a becomes X ¬a, and ¬WX a becomes WX ¬a; wrong where there is no next point."""
    for text, expected in [
        ("!(X a)", 1), ("!(WX a)", 0), ("WX !a", 1), ("X !a", 0), ("!(Y a)", 1), ("!(WY a)", 0),
    ]:  # fmt: skip
        found = evaluate(text, {"a": [a]}, semantics=name).double().item()
        assert found == pytest.approx(expected, abs=1e-12), text


@pytest.mark.parametrize("name", SEMANTICS)
def test_tables_are_not_written_to(name):
    """FLTLf: `G(F(a))` turns the input 0.1, 0.9, 0.2 into 0.9, 0.9, 0.2."""
    degrees = [1.0, 0.0, 1.0] if name == "crisp" else [0.1, 0.9, 0.2]
    table = torch.tensor(degrees)
    for op in Temporal:
        inner = f"{op.ascii} a" if op.value.arity == 1 else f"a {op.ascii} a"
        evaluate(f"G(F({inner})) & X(a U !a)", {"a": table}, semantics=name, at="all")
        assert table.tolist() == degrees, op
    evaluate("a", {"a": table}, semantics=name, at="all")[:] = 0
    assert table.tolist() == degrees, "nor is the result a view of the table"


@pytest.mark.parametrize("op", Temporal, ids=lambda op: op.ascii)
def test_what_parses_evaluates(op):
    """FLTLf: `BF[2] a` and `S(a)` parse, then raise AttributeError: their classes do not exist."""
    bounds = ("", "[2]") if op.steps else ("", "[2]", "[<=2]", "[>=1]", "[1,2]")
    marks = ("",) if op.steps else ("", "+")
    for mark in marks:
        for bound in bounds:
            prefix = f"{op.ascii}{mark}{bound}"
            text = f"{prefix} a" if op.value.arity == 1 else f"a {prefix} b"
            formula = parse_formula(text)
            tables = {"a": [1.0, 0.0, 1.0, 1.0], "b": [0.0, 1.0, 0.0, 1.0]}
            expected = [float(holds(formula, propositional(tables), t)) for t in range(4)]
            for name in ("crisp", "godel"):
                found = evaluate(formula, tables, semantics=name, at="all").double().tolist()
                assert found == expected, (text, name)


@pytest.mark.parametrize("name", SEMANTICS)
def test_chained_implications_keep_every_operand(name):
    """FLTLf: `a -> b -> a` silently drops its third operand."""
    formula = parse_formula("a -> b -> c")
    assert str(formula) == "a -> b -> c"
    assert formula == parse_formula("a -> (b -> c)")
    tables = {"a": [1.0], "b": [1.0], "c": [0.0]}
    kept = evaluate(formula, tables, semantics=name).double().item()
    assert kept == pytest.approx(0, abs=1e-3)
    dropped = evaluate("a -> b", tables, semantics=name).double().item()
    assert dropped == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", SEMANTICS)
def test_weak_until_can_fail_at_the_end(name):
    """T-ILR: `a W b` with a = 1, 0 and b = 0, 0 is 1, since its last step is TRUE."""
    semantics = SEMANTICS[name]
    if isinstance(semantics.always, PMean) and name != "crisp":
        semantics = semantics.with_p(math.inf)
    for a, expected in (([1.0, 0.0], [0, 0]), ([1.0, 1.0], [1, 1])):
        found = evaluate("a W b", {"a": a, "b": [0.0, 0.0]}, semantics=semantics, at="all")
        assert found.double().tolist() == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("sentinel", [-1.0, -2.0, 2.0])
def test_no_degree_is_a_sentinel(sentinel):
    """T-ILR: -1, -2 and 2 in the truth tensor mean padding or constants."""
    with pytest.raises(DataError, match="predicate 'a' has the degree"):
        evaluate("F a", {"a": [0.5, sentinel]})


def test_beyond_the_end_is_no_degree():
    """T-ILR and FLTLf mark missing points by values; here lengths say where a trace ends."""
    table = torch.tensor([[0.5, 0.7], [0.5, 0.7]])
    found = evaluate("WX a", {"a": table}, lengths=[1, 2], at="all")
    assert found[0, 0] == 1
    assert found[0, 1].isnan()
    assert found[1].tolist() == [pytest.approx(0.7), 1]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("p", [1.0, 4.0, 50.0, math.inf])
def test_smooth_extremes_take_their_arguments_in_order(p, masked):
    """stlcg++: `minish_softmax` and `minish_logsumexp` raise TypeError, their arguments shifted."""
    u = torch.rand(3, 4, 5)
    mask = torch.rand(3, 4, 5) > 0.2 if masked else None
    for dims in ((0,), (-1,), (0, 2)):
        high = aggregate.p_mean(u, p, dims, mask)
        low = aggregate.p_mean_error(u, p, dims, mask)
        kept = u if mask is None else torch.where(mask, u, torch.nan)
        shape = kept.movedim(dims, tuple(range(-len(dims), 0))).flatten(-len(dims))
        inside = shape.nan_to_num(0).amax(-1), shape.nan_to_num(1).amin(-1)
        assert (low >= inside[1] - 1e-12).all()
        assert (high <= inside[0] + 1e-12).all()
        assert (low <= high + 1e-12).all()
        if p == math.inf:
            torch.testing.assert_close((high, low), inside)
