"""One line from tensors to truth goes through the engine, within a budget."""

import random

import pytest
import torch

import fotltn
from fotltn import SEMANTICS, LimitError
from fotltn.engine import compile_formulas
from fotltn.evaluation import evaluate_all
from fotltn.semantics import reference
from fotltn.semantics.config import LTN
from fotltn.semantics.from_tensors import tables_of_tensors
from tests.helpers import value_of
from tests.semantics.worlds import arguments, random_batch, random_quantified

TABLES = {"A": torch.rand(300), "B": torch.rand(300, 40), "P": torch.rand(300, 300)}


@pytest.mark.parametrize("name", SEMANTICS)
def test_the_engine_and_the_equations_agree(name):
    rng = random.Random(5)
    steps = 1 if SEMANTICS[name].boolean else 16
    for _ in range(15):
        worlds = random_batch(rng, lambda: rng.randint(0, steps) / steps)
        formula = random_quantified(rng, {}, worlds[0].sizes, depth=2)
        for at in ("all", 0):
            given = {**arguments(worlds), "semantics": name, "at": at}
            found = value_of(formula, **given)
            expected = value_of(formula, engine=False, **given)
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9, equal_nan=True)


def test_the_reference_is_not_asked(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("by the equations")

    monkeypatch.setattr(reference, "evaluate", refuse)
    assert fotltn.evaluate("F p", {"p": [0.2, 0.6]}, semantics="godel").item() == 0.6
    with pytest.raises(AssertionError, match="by the equations"):
        fotltn.evaluate("F p", {"p": [0.2, 0.6]}, engine=False)
    with pytest.raises(AssertionError, match="by the equations"):  # 0.6^1000 would be 0
        fotltn.evaluate("F p", {"p": [0.2, 0.6]}, p=1000)


@pytest.mark.parametrize(
    ("dtype", "p", "planned"),
    [
        (torch.float64, 4, True), (torch.float64, 19, True), (torch.float64, 20, False),
        (torch.float32, 5, True), (torch.float32, 6, False), (torch.float32, 1, True),
        (torch.float32, float("inf"), True),
    ],
)  # fmt: skip
def test_powers_that_underflow_are_left_to_the_equations(dtype, p, planned, monkeypatch):
    tiny = torch.full((3,), 1e-9, dtype=dtype)
    value = fotltn.evaluate("F p", {"p": tiny}, p=p).item()
    assert value == pytest.approx(1e-9, rel=1e-5, abs=torch.finfo(dtype).eps)
    monkeypatch.setattr(reference, "evaluate", lambda *_, **__: pytest.fail("by the equations"))
    if planned:
        fotltn.evaluate("F p", {"p": tiny}, p=p)
    else:
        with pytest.raises(pytest.fail.Exception):
            fotltn.evaluate("F p", {"p": tiny}, p=p)


def test_what_does_not_fit_the_budget_is_refused():
    text = "forall x. G(A(x) -> exists y. B(y) & P(x, y))"
    expected = fotltn.evaluate(text, TABLES, semantics="ltn", engine=False)
    torch.testing.assert_close(
        fotltn.evaluate(text, TABLES, semantics="ltn", budget=4_000_000), expected
    )
    with pytest.raises(LimitError, match=r"needs? [\d,]+ bytes.*more than the budget of 1,000"):
        fotltn.evaluate(text, TABLES, semantics="ltn", budget=1000)
    with pytest.raises(LimitError, match="more than the budget"):
        fotltn.evaluate(text, TABLES, semantics="log-product", budget=1000)


def test_one_point_needs_less_than_all():
    """F at one point is one sum; at all points it is a table, which this budget has no room for."""
    table = {"Q": torch.rand(100, 100)}
    found = fotltn.evaluate("F Q(x)", table, at=3, budget=400_000)
    torch.testing.assert_close(found, fotltn.evaluate("F Q(x)", table, at="all")[:, 3])
    first = fotltn.evaluate("F Q(x)", table, budget=200_000)
    torch.testing.assert_close(first, fotltn.evaluate("F Q(x)", table, at="all")[:, 0])
    with pytest.raises(LimitError):
        fotltn.evaluate("F Q(x)", table, at="all", budget=200_000)


def test_formulas_that_do_not_fit_together_are_taken_one_by_one():
    texts = [f"A(x) & B{i}(y)" for i in range(6)]
    tables = {"A": torch.rand(40), **{f"B{i}": torch.rand(40, 50) for i in range(6)}}
    theory = fotltn.check(
        fotltn.parse("sort s\nstatic predicate A(s)\npredicate "
                            + ", ".join(f"B{i}(s)" for i in range(6)))
    )  # fmt: skip
    checked = {t: fotltn.check_formula(fotltn.parse_formula(t), theory.signature) for t in texts}
    model = tables_of_tensors(theory.signature, tables)
    cores = {t: f.formula for t, f in checked.items()}
    together = evaluate_all(cores, model, LTN)
    program = compile_formulas(cores, theory.signature, LTN, at=None)
    with pytest.raises(LimitError, match=r"steps need .* bytes together"):
        program.prepare(model, dtype=model.dtype, budget=2_000_000)
    one_by_one = evaluate_all(cores, model, LTN, budget=2_000_000)
    for t in texts:
        torch.testing.assert_close(one_by_one[t].tensor, together[t].tensor)
