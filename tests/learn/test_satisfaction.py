"""The values of axioms, against the reference evaluator."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from fotltn import DataError, SemanticsError, engine
from fotltn.learn.satisfaction import Axioms
from fotltn.learn.schedule import Schedule, schedule
from fotltn.networks.parts import part
from fotltn.semantics import reference
from fotltn.semantics.config import CRISP, GODEL, LOG_PRODUCT, LUKASIEWICZ, PRODUCT, STABLE_PRODUCT
from fotltn.semantics.tables import Tables
from tests.learn import tasks

MORE = """
axiom B1: exists x. F (Stop(x) U Run(x))
axiom B2: true
axiom B3: forall x. Car(x)
"""


def by_equations(theory, model, semantics):
    rows = []
    for axiom in theory.axioms:
        value = reference.evaluate(axiom.formula, model, semantics, dtype=torch.float64).tensor
        rows.append(value[..., 0].expand(model.batch))
    found = torch.stack(rows)
    return found.exp() if semantics.log_space else found


def model_of(traces=1, lengths=None, seed=0):
    with torch.no_grad():
        return tasks.grounding(traces, lengths=lengths, seed=seed)()


def dense(model):
    tables = {n: model.predicate(n) for n in model.predicates}
    return replace(model, predicates=tables)


@pytest.mark.parametrize("semantics", [STABLE_PRODUCT, GODEL, LUKASIEWICZ, PRODUCT, LOG_PRODUCT])
@pytest.mark.parametrize("traces", [1, 3])
def test_values_are_what_the_equations_say_on_every_trace(semantics, traces):
    theory = tasks.theory(tasks.THEORY + MORE)
    axioms = Axioms(theory, semantics)
    assert axioms.names == ("A1", "A2", "A3", "B1", "B2", "B3")
    model = model_of(traces, lengths=[8, 3, 5][:traces])
    for _ in range(2):
        found = axioms.values(model)
        assert found.shape == (6, traces)
        assert torch.allclose(found, by_equations(theory, dense(model), semantics), atol=1e-9)


def test_logarithms_do_not_underflow_in_log_space():
    theory = tasks.theory()
    declared = {"Car": (1, 900, 1), "Stop": (1, 900, 8), "Run": (1, 900, 8), "Near": (1, 900, 8)}
    tables: Any = {n: torch.full(s, 0.4).requires_grad_() for n, s in declared.items()}
    model = Tables({"agent": 900}, torch.tensor([8]), 8, tables)
    axioms = Axioms(theory, LOG_PRODUCT)
    assert axioms.values(model)[1, 0] == 0
    logs = axioms.values(model, log=True)
    assert logs[1, 0].item() == pytest.approx(7200 * torch.log(torch.tensor(1 - 0.16)).item())
    logs.sum().backward()
    assert tables["Stop"].grad.abs().min() > 0
    small = model_of()
    both = Axioms(theory, STABLE_PRODUCT)
    assert torch.allclose(both.values(small, log=True).exp(), both.values(small))


def test_exponents_by_axiom_follow_the_epochs():
    theory = tasks.theory()
    moving = {"A1": Schedule(((0.0, 2.0), (10.0, 6.0))), "A3": schedule(6, "p")}
    axioms, model = Axioms(theory, STABLE_PRODUCT, moving), model_of()
    for epoch, p in ((0, 2), (5, 4), (10, 6), (99, 6)):
        found = axioms.values(model, epoch=epoch)
        for row, exponent in ((0, p), (1, 4), (2, 6)):
            alone = by_equations(theory, dense(model), STABLE_PRODUCT.with_p(exponent))
            assert found[row].item() == pytest.approx(alone[row].item())
    assert axioms.settled == 10
    assert Axioms(theory, STABLE_PRODUCT).settled == -float("inf")
    for epoch in range(30):
        axioms.values(model, epoch=epoch / 10)
    assert len(axioms._evaluators) < 8  # plans of past exponents are forgotten


def test_a_plan_is_not_used_for_other_data():
    axioms = Axioms(
        tasks.theory(tasks.THEORY + "axiom C: forall x, y. G !Close(x, y)"), STABLE_PRODUCT
    )
    first, other = model_of(), model_of(3, lengths=[8, 3, 5])
    moved = replace(
        first,
        predicates={**first.predicates, "Close": replace(first.predicates["Close"], default=0.5)},
    )
    single = replace(
        first, predicates={n: t.float() if n != "Close" else t for n, t in first.predicates.items()}
    )
    for model in (first, other, moved, first, single, first):
        expected = by_equations(axioms.theory, dense(model), STABLE_PRODUCT)
        assert torch.allclose(axioms.values(model).double(), expected, atol=1e-6)
    assert axioms.values(single).dtype == torch.float32


def test_parts_have_plans_of_their_own_if_they_are_met_again():
    axioms, ground = Axioms(tasks.theory(), STABLE_PRODUCT), tasks.grounding(3)
    whole = axioms.values(ground())
    compiled = engine._program.cache_info().misses
    for traces in ([0], [1, 2], [0]):
        kept = part(ground.fixed, ground.signature, traces=torch.tensor(traces))
        found = axioms.values(ground(kept), key=kept.key)
        assert torch.allclose(found, whole[:, traces])
    (plans,) = [one for names, (_, one) in axioms._evaluators.items() if names]
    assert len(plans._ready) == 4
    assert engine._program.cache_info().misses == compiled  # one program serves them all
    once = part(ground.fixed, ground.signature, traces=torch.tensor([1]), again=False)
    axioms.values(ground(once), key=once.key)
    assert len(plans._ready) == 4


def test_a_theory_without_axioms_has_no_values():
    axioms = Axioms(tasks.theory(tasks.THEORY.split("axiom")[0]), STABLE_PRODUCT)
    assert axioms.values(model_of(3)).shape == (0, 3)


def test_what_cannot_be_learned_from_is_refused():
    with pytest.raises(SemanticsError, match="two-valued"):
        Axioms(tasks.theory(), CRISP)
    with pytest.raises(SemanticsError, match="has no p"):
        Axioms(tasks.theory(), PRODUCT, {"A1": schedule(2, "p")})
    with pytest.raises(DataError, match="unknown axiom 'A11'; did you mean 'A1'"):
        Axioms(tasks.theory(), STABLE_PRODUCT, {"A11": schedule(2, "p")})
    with pytest.raises(SemanticsError, match="log space"):
        Axioms(tasks.theory(), LOG_PRODUCT, fused=True)
