"""The engine under PyTorch's function transforms and its compiler."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.func import grad, jacrev, vmap

from fotltn.engine import compile_formulas, compiled
from fotltn.errors import SemanticsError
from fotltn.kernels.sparse import halvings, product
from fotltn.logic.check import check, check_formula
from fotltn.plan.plan import Route
from fotltn.project.scene import THEORY as FILE
from fotltn.semantics import reference
from fotltn.semantics.config import GODEL, LTN, SEMANTICS, STABLE_PRODUCT
from fotltn.semantics.sparse import sparse_table
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import load_theory
from fotltn.syntax.parse import parse_formula

THEORY = check(load_theory(FILE))
AXIOMS = {a.name: a.formula for a in THEORY.axioms}
ENTITIES, HORIZON = 6, 9


def scene(seed: int = 0, traces: int = 1, lengths: list[int] | None = None):
    draw = torch.Generator().manual_seed(seed)
    learned = {
        name: torch.rand(
            traces, ENTITIES, 1 if decl.static else HORIZON, generator=draw, dtype=torch.float64
        ).requires_grad_()
        for name, decl in THEORY.signature.predicates.items()
        if name != "Close"
    }
    shape = (traces, ENTITIES, ENTITIES, HORIZON)
    where = (torch.rand(shape, generator=draw) < 0.2).nonzero().T
    close = sparse_table(where, None, shape)
    ends = torch.tensor(lengths or [HORIZON] * traces)
    model = Tables({"agent": ENTITIES}, ends, HORIZON, {**learned, "Close": close})
    return learned, model


def prepared(model, semantics=STABLE_PRODUCT, formulas=AXIOMS):
    program = compile_formulas(formulas, THEORY.signature, semantics)
    return program.prepare(model, dtype=torch.float64)


def total(run, model, tables):
    """A sum of all axioms with different weights, as a function of the learned tables."""
    values = run(replace(model, predicates={**model.predicates, **tables}))
    return sum(i * v.tensor.sum() for i, v in enumerate(values.values(), 1))


def by_reference(model, tables, semantics=STABLE_PRODUCT):
    seen = replace(model, predicates={**model.predicates, **tables})
    values = [
        reference.evaluate(f, seen, semantics, dtype=torch.float64).tensor[..., 0]
        for f in AXIOMS.values()
    ]
    return sum(i * v.sum() for i, v in enumerate(values, 1))


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("semantics", [STABLE_PRODUCT, STABLE_PRODUCT.with_p(2), LTN, GODEL])
@pytest.mark.parametrize("lengths", [None, [9, 1, 4]])
def test_a_whole_theory_has_the_values_and_gradients_of_the_reference(semantics, lengths):
    tables, model = scene(1, len(lengths or [0]), lengths)
    run = prepared(model, semantics)
    found, expected = total(run, model, tables), by_reference(model, tables, semantics)
    close(found, expected)
    inputs = list(tables.values())
    close(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs))


def test_ends_of_axioms_are_taken_together_and_equal_parts_are_renamed():
    _, model = scene()
    plan = prepared(model).plan
    assert {len(tail.roots) for tail in plan.tails} == {13}
    renamed = [s for s in plan.steps if s.route is Route.RENAMED]
    assert {str(s.node)[1:-1] for s in renamed} == {"(Crossing(x))^4", "(Ped(x))^4"}


def test_gradients_by_torch_func():
    tables, model = scene(2)
    run = prepared(model)
    plain = {n: t.detach() for n, t in tables.items()}
    found = grad(lambda t: total(run, model, t))(plain)
    expected = torch.autograd.grad(by_reference(model, tables), list(tables.values()))
    close(list(found.values()), list(expected))


def test_many_models_at_once_by_vmap():
    tables, model = scene(3)
    run = prepared(model)
    run(model)
    many = {n: torch.rand(5, *t.shape, dtype=torch.float64) for n, t in tables.items()}
    found = vmap(grad(lambda t: total(run, model, t)))(many)
    values = vmap(lambda t: total(run, model, t))(many)
    for i in range(5):
        own = {n: t[i].clone().requires_grad_() for n, t in many.items()}
        expected = by_reference(model, own)
        close(values[i], expected.detach())
        slopes = torch.autograd.grad(expected, list(own.values()))
        close([found[n][i] for n in own], list(slopes))


def test_the_slopes_of_every_axiom_at_once():
    tables, model = scene(4)
    run = prepared(model)
    stop = tables["Stop"].detach()

    def values(table):
        seen = replace(model, predicates={**model.predicates, "Stop": table})
        return torch.stack([v.tensor.squeeze() for v in run(seen).values()])

    found = jacrev(values)(stop)
    for i, formula in enumerate(AXIOMS.values()):
        own = stop.clone().requires_grad_()
        plain = {n: t.detach() for n, t in tables.items()}
        seen = replace(model, predicates={**model.predicates, **plain, "Stop": own})
        value = reference.evaluate(formula, seen, STABLE_PRODUCT, dtype=torch.float64)
        top = value.tensor[..., 0].sum() + 0 * own.sum()
        slope = torch.autograd.grad(top, own)[0]
        close(found[i], slope)


@pytest.mark.parametrize("lengths", [None, [9, 1, 4]])
def test_a_compiled_plan_has_the_same_values_and_gradients(lengths):
    tables, model = scene(5, len(lengths or [0]), lengths)
    with torch.no_grad():
        tables["Stop"][0, 0] = 1.0  # where a mean is 0, and the slope of its root is not finite
        tables["Crossing"][0] = 0.0
    fused = compiled(prepared(model), model, backend="aot_eager")
    for seed in (5, 6):
        if seed == 6:
            tables = scene(6, len(lengths or [0]), lengths)[0]
        found, expected = total(fused, model, tables), by_reference(model, tables)
        close(found, expected)
        inputs = list(tables.values())
        close(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs))


def test_products_over_facts_are_compiled():
    tables, model = scene(8)
    run = prepared(model, SEMANTICS["witness"])
    expected = total(run, model, tables)
    found = total(compiled(run, model, backend="aot_eager"), model, tables)
    close(found, expected)
    inputs = list(tables.values())
    close(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs))


def test_what_would_be_compiled_wrongly_is_refused():
    _, model = scene()
    formula = {"A": AXIOMS["A1"]}
    with pytest.raises(SemanticsError, match="kind 'support' cannot be compiled"):
        compiled(prepared(model, GODEL, formula), model, backend="aot_eager")


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # PyTorch's own, while it compiles
def test_the_engine_inside_a_compiled_function():
    tables, model = scene(7)
    run = prepared(model)
    run(model)

    @torch.compile(backend="aot_eager")
    def loss(stop):
        stop = stop.sigmoid()
        values = run(replace(model, predicates={**model.predicates, "Stop": stop}))
        return torch.stack([v.tensor.sum() for v in values.values()]).sum() * 2

    logits = torch.randn(1, ENTITIES, HORIZON, dtype=torch.float64).requires_grad_()
    own = {**tables, "Stop": logits.sigmoid()}
    seen = replace(model, predicates={**model.predicates, **own})
    values = [
        reference.evaluate(f, seen, STABLE_PRODUCT, dtype=torch.float64).tensor[..., 0].sum()
        for f in AXIOMS.values()
    ]
    expected = 2 * torch.stack(values).sum()
    found = loss(logits)
    close(found, expected)
    close(torch.autograd.grad(found, logits), torch.autograd.grad(expected, logits))


FACTS = [
    "forall x. G(Car(x) -> exists y. Close(x, y) & Crossing(y))",
    "exists x, y. F(Close(x, y) & Stop(x))",
    "forall x, y. G(Close(x, y) -> Stop(x))",
    "forall x, y. G !Close(x, y)",
    "forall x, y. Close(x, y) U Stop(x)",
]


@pytest.mark.reliability
@pytest.mark.filterwarnings("ignore:There is a performance drop")  # PyTorch's own, of cummax
@pytest.mark.parametrize("learned", ["Stop", "Close"])
@pytest.mark.parametrize("name", [n for n, s in SEMANTICS.items() if not s.boolean])
def test_transforms_go_through_every_aggregation_over_facts(name, learned):
    tables, model = scene(8)
    plain = {n: t.detach() for n, t in tables.items()}
    facts = model.predicates["Close"]
    with_facts = replace(model, predicates={**plain, "Close": facts})
    for text in FACTS:
        formula = check_formula(parse_formula(text), THEORY.signature).formula
        run = prepared(with_facts, SEMANTICS[name], {text: formula})
        run(with_facts)

        def truth(u, run=run, text=text):
            table = u if learned == "Stop" else replace(facts, value=u)
            seen = replace(model, predicates={**with_facts.predicates, learned: table})
            return run(seen)[text].tensor.sum()

        shape = facts.value.shape if learned == "Close" else tables["Stop"].shape
        many = torch.rand(3, *shape, dtype=torch.float64)
        found = vmap(grad(truth))(many)
        values = vmap(truth)(many)
        for i in range(3):
            own = many[i].clone().requires_grad_()
            value = truth(own)
            close(values[i], value.detach())
            close(found[i], torch.autograd.grad(value + 0 * own.sum(), own)[0])
        assert jacrev(grad(truth))(many[0]).isfinite().all()


@pytest.mark.reliability
def test_a_product_over_facts_has_exact_gradients_where_some_are_zero():
    cells = torch.tensor([3, 0, 3, 1, 3, 0, 3])
    value = torch.tensor([0.5, 0.0, 0.25, 0.7, 0.5, 0.3, 0.0], dtype=torch.float64)
    value.requires_grad_()

    def multiplied(facts):
        return product(facts, cells, 5, lambda: halvings(cells))

    found = multiplied(value)
    close(found.detach(), torch.tensor([0.0, 0.7, 1.0, 0.0, 1.0], dtype=torch.float64))
    wanted = torch.tensor([0.0, 0.3, 0.0, 1.0, 0.0, 0.0, 0.0625], dtype=torch.float64)
    for more in (False, True):
        slope = torch.autograd.grad(multiplied(value).sum(), value, create_graph=more)[0]
        close(slope.detach(), wanted)
    assert torch.autograd.gradgradcheck(multiplied, value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gradients_of_a_product_over_facts_are_those_of_products_of_two(dtype):
    """Also where facts are 0, next to 0, or so many that their product is."""
    tiny = torch.finfo(dtype).tiny
    near = [0.0, tiny, tiny / 8, tiny**0.5, tiny**0.5 / 2, 1e-6, 1.0]
    for seed in range(30):
        draw = torch.Generator().manual_seed(seed)
        cells = torch.randint(0, 20, (60,), generator=draw)
        value = torch.rand(60, generator=draw, dtype=dtype)
        for degree in near[: seed % 8]:
            value[torch.randint(0, 60, (2,), generator=draw)] = degree
        value.requires_grad_()
        weights = torch.rand(20, generator=draw, dtype=dtype)
        slopes = []
        for more in (False, True):
            found = product(value, cells, 20, partial(halvings, cells))
            slopes.append(torch.autograd.grad(found, value, weights, create_graph=more)[0].detach())
        assert slopes[0].any()
        torch.testing.assert_close(
            *slopes, rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=1e-15
        )
