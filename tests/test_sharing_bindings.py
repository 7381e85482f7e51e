"""What processes share of few traces: parts of bindings, rows of networks and of definitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from fotltn import LimitError
from fotltn.analysis import shared_values as module
from fotltn.analysis.shared_values import shared_values
from fotltn.analysis.view import View
from fotltn.bindings import BlockedFormulas
from fotltn.evaluation import evaluate_all
from fotltn.learn.ranks import Ranks
from fotltn.logic.check import check
from fotltn.networks.grounding import Grounding
from fotltn.networks.rows import everywhere
from fotltn.semantics.config import (
    CRISP,
    GODEL,
    LOG_PRODUCT,
    LUKASIEWICZ,
    PRODUCT,
    STABLE_PRODUCT,
)
from fotltn.semantics.sparse import sparse_table
from fotltn.semantics.tables import Tables
from fotltn.sharing import BLOCKS, BindingPart, Sharing, by_parts, is_shared, shared_by
from fotltn.syntax.load import parse_theory
from tests.learn import processes
from tests.learn.test_binding_blocks import crossing, scene
from tests.test_sharing import together

ALL = (CRISP, STABLE_PRODUCT, PRODUCT, GODEL, LUKASIEWICZ, LOG_PRODUCT)
CASES: dict[str, dict[str, Any]] = {
    "one trace": {},
    "facts that all cross, and an entity without": {"close": crossing()},
    "two traces": {"traces": 2},
    "two traces and an encoder": {"traces": 2, "recurrent": True},
    "one trace and an encoder": {"recurrent": True},
    "many entities": {"agents": 40},
    "one entity": {"agents": 1},
}


def asked(ground: Grounding, theory: Any) -> dict[str, Any]:
    """What commands ask of tables: all of them, values, counts and audits."""
    with torch.no_grad():
        tables = everywhere(ground)
        present = {"agent": ground.get_buffer("present_agent")}
        told = replace(tables, present=present, signature=theory.signature)
        view = View(told, STABLE_PRODUCT, 0.5, theory=theory, learned=ground.open)
        return {
            "rules": list(view.rules(semantics=CRISP)),
            "sums": list(view.rules(semantics=GODEL)),
            "values": [replace(view, semantics=s).satisfaction().as_dict() for s in ALL],
            "audit": view.audit().as_dict(),
            "crisp audit": replace(view, semantics=CRISP).audit().as_dict(),
            "tables": {n: tables.predicate(n).tolist() for n in ground.open},
            "functions": {n: t.tolist() for n, t in tables.functions.items()},
        }


def grounded(**options: Any) -> tuple[Grounding, Any]:
    made = scene(**options)
    return made.grounding.double().eval(), made.axioms.theory


def numbers(value: Any) -> list[float]:
    """All numbers of nested data, in order."""
    if isinstance(value, dict):
        return [n for key in sorted(value) for n in numbers(value[key])]
    if isinstance(value, list | tuple):
        return [n for one in value for n in numbers(one)]
    return [float(value)] if isinstance(value, int | float) else []


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("facts that all cross, and an entity without", (3,)),
        *(pytest.param(name, (2, 3, 4), marks=pytest.mark.slow) for name in CASES),
    ],
)
def test_counts_are_the_same_and_degrees_have_the_same_bits_for_any_number(name, counts):
    """Threads stand for processes. There are 16 parts, most of them without an entity."""
    ground, theory = grounded(**CASES[name])
    plain, (expected,) = (
        asked(ground, theory),
        together(1, lambda _: asked(ground, theory)),
    )
    for count in counts:
        for result in together(count, lambda _: asked(ground, theory)):
            assert result == expected
    for kind in ("rules", "crisp audit"):
        assert expected[kind] == plain[kind]
    assert expected["values"][0] == plain["values"][0]
    for kind in ("values", "audit", "tables", "functions"):
        assert numbers(expected[kind]) == pytest.approx(numbers(plain[kind]), rel=1e-9, abs=1e-12)
    for mine, theirs in zip(expected["sums"], plain["sums"], strict=True):
        assert numbers(mine.as_dict()) == pytest.approx(numbers(theirs.as_dict()), rel=1e-9)


def work(ranks: Ranks) -> dict[str, Any]:
    """The same by processes that tell each other through gloo."""
    ground, theory = grounded(close=crossing())
    with shared_by(Sharing(ranks.number, ranks.count, ranks.objects)):
        return asked(ground, theory)


@pytest.mark.slow
def test_processes_come_to_what_one_does(tmp_path):
    expected = processes.alone(work)
    for count in (2, 3, 4):
        assert processes.together(count, tmp_path, work) == [expected] * count


UNUSUAL = """
sort agent, zone
predicate Near(agent, zone), Stop(agent), Rain
relation pairs(agent, zone)
axiom Small: forall z, x. G(Near(x, z) -> Stop(x))
axiom Inside: G forall x. Stop(x) -> exists z. Near(x, z)
axiom Turns: G forall x where Stop(x). G exists z. Near(x, z)
axiom Listed: forall (x, z) in pairs. G(Near(x, z) -> F Stop(x))
axiom Nobody: forall x where false. Stop(x)
axiom Some: exists x, z where Near(x, z). G Stop(x)
axiom Bare: G(Rain -> F exists x. Stop(x))
axiom Equal: forall x, y where x != y. G(Stop(x) -> Stop(y))
"""


def unusual(agents: int, *, facts: bool = True) -> tuple[Tables, Any]:
    """Facts of a trace of 5 points, one of 3, and a relation; all about odd agents."""
    theory = check(parse_theory(UNUSUAL))
    rng = torch.Generator().manual_seed(1)
    near = torch.rand(2, agents, 2, 5, generator=rng) < 0.4
    stop = torch.rand(2, agents, 5, generator=rng) < 0.5
    near[:, ::2], stop[:, ::2] = False, False
    if not facts:
        near[:], stop[:] = False, False
    tuples = torch.stack([torch.arange(agents), torch.arange(agents) % 2], 1)
    tables = Tables(
        {"agent": agents, "zone": 2}, torch.tensor([5, 3]), 5,
        {
            "Near": sparse_table(near.nonzero().T, None, near.shape),
            "Stop": stop.double(),
            "Rain": (torch.rand(2, 5, generator=rng) < 0.5).double(),
        },
        relations={"pairs": tuples}, signature=theory.signature,
    )  # fmt: skip
    return tables, theory


@pytest.mark.parametrize("agents", [0, 1, 3, 9])
@pytest.mark.parametrize("facts", [True, False])
def test_cells_of_all_kinds_are_counted_in_parts(agents, facts):
    """Guards between layers of time, tuples, variables of few entities, no variables."""
    tables, theory = unusual(agents, facts=facts)
    view = View(tables, STABLE_PRODUCT, theory=theory)

    def counted(_: int = 0) -> Any:
        rules = list(view.rules(semantics=CRISP))
        truths = replace(view, semantics=CRISP).satisfaction().as_dict()
        return rules, truths, list(view.rules(semantics=GODEL)), view.satisfaction().as_dict()

    plain, (expected,) = counted(), together(1, counted)
    for count in (3, 4):
        for result in together(count, counted):
            assert result[:2] == plain[:2]
            assert result == expected
    assert numbers(expected[3]) == pytest.approx(numbers(plain[3]), rel=1e-12)


def test_parts_cover_everything_once_and_depend_on_processes_only_if_exact():
    assert by_parts("x", 1, lambda part: part) is None
    assert not is_shared()
    for count in (1, 2, 5):
        for parts in together(count, lambda _: by_parts("x", 3, lambda part: part)):
            assert parts == [BindingPart(n, BLOCKS) for n in range(BLOCKS)]
            assert [n for one in parts for n in one.of(21)] == list(range(21))
        exact = together(count, lambda _: by_parts("x", 3, lambda part: part, exact=True))
        assert exact == [[BindingPart(n, 5) for n in range(5)] if count == 5 else None] * count
        assert together(count, lambda _: by_parts("x", BLOCKS, list)) == [None] * count


def test_a_process_looks_at_its_part_of_the_bindings_alone(monkeypatch):
    seen = []
    real = BlockedFormulas.of

    def spied(self: BlockedFormulas, number: int, tables: Tables) -> Any:
        seen.append(number)
        return real(self, number, tables)

    monkeypatch.setattr(BlockedFormulas, "of", spied)
    tables, theory = unusual(9)
    formulas = {a.name: a.formula for a in theory.axioms}
    together(4, lambda _: shared_values(formulas, tables, STABLE_PRODUCT, at=0))
    assert sorted(seen) == list(range(BLOCKS))


def test_free_variables_and_other_points_are_not_shared_by_bindings(monkeypatch):
    monkeypatch.setattr(module, "by_parts", None)  # would be called
    tables, theory = unusual(3)
    formulas = {a.name: a.formula for a in theory.axioms}
    for point in (None, 2):
        values = shared_values(formulas, tables, STABLE_PRODUCT, at=point)
        expected = evaluate_all(formulas, tables, STABLE_PRODUCT, at=point)
        assert all(torch.equal(v.tensor, expected[n].tensor) for n, v in values.items())


def test_formulas_that_do_not_fit_together_are_shared_one_by_one():
    tables, theory = unusual(9)
    formulas = {a.name: a.formula for a in theory.axioms}
    expected = evaluate_all(formulas, tables, STABLE_PRODUCT, at=0)

    def tried(budget: int) -> Any:
        results = together(
            2, lambda _: shared_values(formulas, tables, STABLE_PRODUCT, at=0, budget=budget)
        )
        assert len({type(result) for result in results}) == 1
        return results[0]

    kinds = set()
    for budget in (100, 1_000, 2_000, 3_000, 4_000, 6_000, 10_000, 100_000):
        result = tried(budget)
        kinds.add(type(result))
        if isinstance(result, LimitError):
            assert any(f"'{name}'" in str(result) for name in formulas)
            continue
        for name, value in result.items():
            torch.testing.assert_close(
                value.tensor[..., 0].expand(2), expected[name].tensor[..., 0].expand(2)
            )
    assert kinds == {dict, LimitError}
