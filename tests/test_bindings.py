"""Formulas in blocks of bindings: the values and slopes that they have as a whole."""

from dataclasses import replace

import pytest
import torch

from fotltn.bindings import BlockedFormulas
from fotltn.engine import Compiled, Prepared
from fotltn.errors import FotError
from fotltn.evaluation import Evaluator
from fotltn.logic import core as c
from fotltn.logic.check import check
from fotltn.semantics.config import GODEL, LOG_PRODUCT, LUKASIEWICZ, PRODUCT, STABLE_PRODUCT
from fotltn.semantics.sparse import sparse_table
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from tests.random_cases import random_case


def in_blocks(formulas, tables, semantics, blocks, given=None):
    """The values of formulas from what each block comes to, and which formulas blocks share."""
    made = BlockedFormulas(formulas, semantics, blocks, tables if given is None else given)
    numbers, counts = zip(*(made.of(n, tables) for n in range(blocks)), strict=True)
    values = made.together(torch.stack(numbers), torch.stack(counts), tables)
    return values, {*(made._shared or ())}


def slopes(value, inputs):
    weights = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).reshape(value.shape)
    total = (value * weights).sum()
    if not total.requires_grad:
        return [torch.zeros_like(i) for i in inputs]
    grads = torch.autograd.grad(total, inputs, allow_unused=True)
    return [torch.zeros_like(i) if g is None else g for g, i in zip(grads, inputs, strict=True)]


def closed(case, seed):
    """The formula of a case, with its free variable bound."""
    formula = case.checked.formula
    for axis in case.checked.free:
        formula = c.Quantifier(seed % 2 == 0, (axis,), None, formula)
    return formula


@pytest.mark.parametrize("blocks", [1, 2, 3, 7])
def test_random_formulas_come_to_the_same_in_blocks(blocks):
    """With 7 blocks, more than there are entities; with 3, of uneven sizes."""
    divided = 0
    for seed in range(300):
        case = random_case(seed)
        formula = closed(case, seed)
        told = f"seed {seed}: {case.text} under {case.semantics.name}"
        try:
            expected = Evaluator({"f": formula}, case.semantics, 0).by_trace(
                case.model, log=case.semantics.log_space
            )
        except FotError:
            continue
        given = replace(case.model, predicates={"E": case.model.predicates["E"]})
        value, shared = in_blocks({"f": formula}, case.model, case.semantics, blocks, given)
        divided += bool(shared)
        torch.testing.assert_close(value, expected, rtol=0, atol=1e-12, msg=told)
        inputs = [i for i in case.inputs if i.requires_grad]
        for mine, theirs in zip(slopes(value, inputs), slopes(expected, inputs), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12, msg=told)
    assert divided > 80


THEORY = """
sort agent, zone
predicate Stop(agent), Close(agent, agent), In(agent, zone), Open(zone), Rain, Here(agent)
axiom First: forall x. G(Stop(x) -> exists y. Close(x, y) & Stop(y))
axiom Pairs: forall x, y where Close(x, y). Stop(x) U Stop(y)
axiom Same: forall x, y where x != y. G !Close(x, y)
axiom Large: forall z, x. G(In(x, z) -> Open(z))
axiom Witness: exists x. G Stop(x)
axiom Guarded: forall x where Here(x). G Rain & Stop(x)
axiom Timed: G forall x. Stop(x)
axiom Bare: F Rain
"""
SHARED = {"First", "Pairs", "Same", "Large", "Witness"}
AGENTS, ZONES, HORIZON = 5, 2, 4


def data(dtype=torch.float64):
    """The last agent has no facts, and all facts are about an odd agent and an even one."""
    torch.manual_seed(0)
    close = torch.zeros(1, AGENTS, AGENTS, HORIZON)
    close[0, :4:2, 1:4:2] = close[0, 1:4:2, :4:2] = 1
    learned = {
        "Stop": torch.rand(1, AGENTS, HORIZON, dtype=dtype),
        "Open": torch.rand(1, ZONES, HORIZON, dtype=dtype),
        "Rain": torch.rand(1, HORIZON, dtype=dtype),
        "In": torch.rand(1, AGENTS, ZONES, HORIZON, dtype=dtype),
    }
    for table in learned.values():
        table.requires_grad_()
    facts = sparse_table(close.nonzero().T, None, close.shape)
    here = torch.ones(1, AGENTS, HORIZON, dtype=dtype)
    here[0, 1] = 0
    tables = Tables(
        {"agent": AGENTS, "zone": ZONES}, torch.tensor([HORIZON]), HORIZON,
        {**learned, "Close": facts, "Here": here},
    )  # fmt: skip
    return tables, replace(tables, predicates={"Close": facts}), [*learned.values()]


@pytest.mark.parametrize("semantics", [STABLE_PRODUCT, PRODUCT, GODEL, LUKASIEWICZ])
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_formulas_that_begin_with_a_quantifier_are_shared(semantics, dtype, limit):
    """Others are computed as a whole, and so are those whose guard may change."""
    formulas = {a.name: a.formula for a in check(parse_theory(THEORY)).axioms}
    tables, given, inputs = data(dtype)
    expected = Evaluator(formulas, semantics, 0).by_trace(tables)
    expected_slopes = slopes(expected, inputs)
    for blocks in (1, 2, 3, 4, 9):
        values, shared = in_blocks(formulas, tables, semantics, blocks, given)
        assert shared == SHARED
        torch.testing.assert_close(values, expected.double(), rtol=0, atol=limit)
        for mine, theirs in zip(slopes(values, inputs), expected_slopes, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=10 * limit)


def test_a_block_has_the_facts_about_its_entities_alone():
    formulas = {a.name: a.formula for a in check(parse_theory(THEORY)).axioms}
    tables, given, _ = data()
    made = BlockedFormulas({"First": formulas["First"]}, STABLE_PRODUCT, 2, given)
    sizes = []
    for number in range(2):
        made.of(number, tables)
        plan, _ = made._plans[number]
        assert isinstance(plan, Prepared)
        some = plan.facts["Close[0]"]
        assert some.shape == (1, 2 + number, AGENTS, HORIZON)
        assert plan.plan.sizes.sorts["agent[some]"] == 2 + number
        sizes.append(some.facts)
    assert sizes == [4 * HORIZON, 4 * HORIZON]
    assert sum(sizes) == len(given.predicates["Close"].value)


def test_no_formula_is_shared_in_log_space_or_where_powers_would_underflow():
    formulas = {a.name: a.formula for a in check(parse_theory(THEORY)).axioms}
    tables, given, _ = data(torch.float32)
    for semantics in (LOG_PRODUCT, STABLE_PRODUCT.with_p(40)):
        expected = Evaluator(formulas, semantics, 0).by_trace(tables, log=semantics.log_space)
        values, shared = in_blocks(formulas, tables, semantics, 3, given)
        assert shared == set()
        torch.testing.assert_close(values, expected.double(), rtol=0, atol=1e-6)


def test_blocks_are_compiled_like_any_plan():
    names = ("First", "Large", "Witness")
    formulas = {a.name: a.formula for a in check(parse_theory(THEORY)).axioms if a.name in names}
    tables, given, inputs = data()
    made = BlockedFormulas(formulas, STABLE_PRODUCT, 2, given, backend="aot_eager")
    values = []
    for _ in range(2):
        numbers, counts = zip(*(made.of(n, tables) for n in range(2)), strict=True)
        values.append(made.together(torch.stack(numbers), torch.stack(counts), tables))
    assert all(isinstance(plan, Compiled) for plan, _ in made._plans.values())
    expected, _ = in_blocks(formulas, tables, STABLE_PRODUCT, 2, given)
    torch.testing.assert_close(values, [expected, expected], rtol=0, atol=1e-12)
    for mine, theirs in zip(slopes(values[1], inputs), slopes(expected, inputs), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)
