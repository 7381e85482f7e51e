"""Each pass changes what its fixtures say, and never the value, the axes or the law."""

from pathlib import Path

import pytest
import torch

from fotltn.algebra.expr import Expr
from fotltn.algebra.lower import lower
from fotltn.algebra.passes import PASSES, optimize
from fotltn.algebra.passes.share import share
from fotltn.algebra.show import show
from fotltn.engine import as_given, sizes_of
from fotltn.logic.check import check_formula
from fotltn.logic.signature import build_signature
from fotltn.plan.build import build
from fotltn.plan.context import Run
from fotltn.plan.run import execute
from fotltn.semantics.config import named
from fotltn.semantics.laws import Law, laws
from fotltn.syntax.load import parse_theory
from fotltn.syntax.parse import parse_formula
from fotltn.tree import children, postorder
from tests.random_cases import random_case
from tests.semantics.test_laws import GRID, THEORY

FIXTURES = Path(__file__).parents[1] / "fixtures" / "passes"
SIGNATURE = build_signature(
    parse_theory(
        "sort s\nstatic predicate A(s)\npredicate B(s), rain\npredicate P(s, s)", source="passes"
    ).declarations
)[0]
NAMES = [p.__name__ for p in PASSES]


def read(path: Path) -> list[dict[str, str]]:
    """Blocks of `key: text`, separated by empty lines; lines with # are remarks."""
    blocks = [b for b in path.read_text("utf-8").split("\n\n") if b.strip()]
    found = []
    for block in blocks:
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            found.append(dict(line.split(": ", 1) for line in lines))
    return found


CASES = [(name, case) for name in NAMES for case in read(FIXTURES / f"{name}.txt")]


@pytest.mark.parametrize(("name", "case"), CASES)
def test_before_and_after(name, case):
    expr = lowered(case["formula"], case["semantics"], case["at"])
    for earlier in PASSES[: NAMES.index(name)]:
        expr = earlier(expr)
    assert show(expr) == case["before"]
    assert show(PASSES[NAMES.index(name)](expr)) == case["after"]


def test_every_pass_has_fixtures():
    assert {p.stem for p in FIXTURES.glob("*.txt")} == set(NAMES)
    assert all(case["before"] != case["after"] for name, case in CASES if "same" not in case)


def lowered(text, semantics, at):
    formula = check_formula(parse_formula(text), SIGNATURE).formula
    return lower(formula, SIGNATURE, named(semantics), at=None if at == "all" else int(at))


@pytest.mark.parametrize("seed", range(150))
def test_passes_keep_axes_and_values(seed):
    case = random_case(seed)
    signature = as_given({"f": case.checked.formula}, case.model)
    expr = lower(case.checked.formula, signature, case.semantics, at=case.at)
    before = value_of(expr, case)
    for rewrite in PASSES:
        after = rewrite(expr)
        assert after.axes <= expr.axes
        torch.testing.assert_close(value_of(after, case), before, rtol=1e-9, atol=1e-9)
        expr = after


def value_of(expr, case):
    """The plain value of an expression, padded points aside."""
    sizes = sizes_of(case.model, torch.float64)
    plan = build({"f": expr}, sizes)
    found = execute(plan, Run(case.model, case.semantics, torch.float64, {}, ragged=sizes.ragged))[
        "f"
    ]
    axes = sorted(case.checked.free, key=lambda a: a.name)
    tensor = found.tensor.detach()
    for place, axis in enumerate(axes):
        if axis not in found.axes:
            tensor = tensor.unsqueeze(1 + place)
    times = 1 if case.at is not None else case.model.horizon
    shape = (case.model.batch, *(case.model.size(a) for a in axes), times)
    tensor = tensor.expand(shape)
    if case.at is None:
        inside = case.model.inside.reshape(case.model.batch, *[1] * len(axes), times)
        return torch.where(inside, tensor, 0.0)
    late = case.model.lengths <= case.at
    return torch.where(late.reshape(-1, *[1] * (tensor.dim() - 1)), 0.0, tensor)


@pytest.mark.parametrize("name", [n for n, s in GRID.items() if not s.log_space])
def test_optimised_sides_are_equal_only_where_a_law_is_listed(name):
    """The optimiser has no licence beyond the laws of the semantics."""
    signature = build_signature(THEORY.declarations)[0]
    for law in Law:
        sides = [
            optimize(
                lower(check_formula(parse_formula(text), signature).formula, signature, GRID[name])
            )
            for text in (law.value.left, law.value.right)
        ]
        if sides[0] == sides[1]:
            assert law in laws(GRID[name]), law


def test_the_papers_axiom_becomes_one_sum_taken_axis_by_axis():
    text = "forall x, y. G(A(x) & B(y) & P(x, y) -> WX B(x))"
    expr = lowered(text, "stable-product", "0")
    assert show(optimize(expr, PASSES[:-1])) == (
        "1 - root4(mean[x y t]((A(x))^4 · (B(y))^4 · (P(x, y))^4 · (shift[+1, 0]((1 - B(x))^4))))"
    )
    assert show(optimize(expr)) == (
        "1 - root4(mean[x]((A(x))^4 · (mean[t]((shift[+1, 0]((1 - B(x))^4)) · "
        "mean[y]((B(y))^4 · (P(x, y))^4)))))"
    )
    assert sum(isinstance(node, Expr) for node in postorder(optimize(expr))) == 18


def test_equal_parts_of_several_expressions_become_one():
    texts = {"a": "exists y. B(y) & P(x, y)", "b": "!(exists y. B(y) & P(x, y))"}
    both = share({n: optimize(lowered(t, "stable-product", "all")) for n, t in texts.items()})
    assert children(both["b"])[0] is both["a"]


def test_deep_formulas_are_optimised_without_recursion():
    expr = optimize(lowered("!" * 9999 + "X " * 9999 + "rain", "stable-product", "0"))
    assert show(expr).count("shift") == 9999
