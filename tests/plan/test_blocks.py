"""Ragged batches in blocks: the same values and gradients as in one piece, with less padding."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.func import grad

from fotltn.engine import InBlocks, as_given, compile_formulas
from fotltn.errors import FotError, LimitError
from fotltn.logic.check import check
from fotltn.plan import blocks
from fotltn.plan.blocks import counted, divided
from fotltn.semantics import reference
from fotltn.semantics.config import GODEL, STABLE_PRODUCT
from fotltn.semantics.sparse import sparse_table
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from tests.random_cases import random_case

THEORY = check(
    parse_theory(
        """
        sort car, ped
        predicate Stop(car), Cross(ped), Here(ped), Close(car, ped), Fine
        static predicate Known(ped)
        temporal function speed(car): real
        axiom A: forall x, y where Known(y). G(Cross(y) & Close(x, y) -> WX Stop(x))
        axiom B: forall x. G(speed(x) > 0.5 -> !Stop(x) | exists y where Here(y). Cross(y))
        axiom C: G forall y where Known(y) & Here(y). (Cross(y) -> O[<=2] !Cross(y))
        axiom D: G(Fine -> F forall x. Stop(x))
        axiom E: forall y where Known(y). forall z where Close("ego", z). Cross(y) U Cross(z)
        """,
        source="blocks.fot",
    )
)
SIGNATURE = THEORY.signature
AXIOMS = {a.name: a.formula for a in THEORY.axioms}
COUNTS = [0, 1, 5, 2, 1, 0, 4]
LENGTHS = [3, 9, 4, 9, 1, 2, 5]


def scene(*, sparse: bool = True) -> tuple[Tables, dict[str, torch.Tensor]]:
    """Traces of different lengths, with different numbers of pedestrians, which come and go."""
    draw = torch.Generator().manual_seed(3)
    batch, horizon, most = len(LENGTHS), max(LENGTHS), max(COUNTS)

    def degrees(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=draw, dtype=torch.float64)

    learned = {
        "Stop": degrees(batch, 1, horizon).requires_grad_(),
        "Cross": degrees(batch, most, horizon).requires_grad_(),
    }
    known = torch.arange(most) < torch.tensor(COUNTS).unsqueeze(-1)
    here = known.unsqueeze(-1) & (degrees(batch, most, horizon) < 0.7)
    close = (here & (degrees(batch, most, horizon) < 0.6)).unsqueeze(1).double()
    given = {
        "Known": known.unsqueeze(-1).double(),
        "Here": here.double(),
        "Close": sparse_table(close.nonzero().T, None, close.shape) if sparse else close,
        "Fine": degrees(1, horizon),
    }
    model = Tables(
        {"car": 1, "ped": most}, torch.tensor(LENGTHS), horizon, {**learned, **given},
        {"speed": degrees(batch, 1, horizon)}, {"car": {"ego": 0}},
    )  # fmt: skip
    return model, learned


def values(run, model):
    return {name: v.tensor.reshape(-1) for name, v in run(model).items()}


def program(semantics=STABLE_PRODUCT):
    return compile_formulas(AXIOMS, SIGNATURE, semantics)


@pytest.mark.parametrize("semantics", [STABLE_PRODUCT, GODEL])
@pytest.mark.parametrize("sparse", [True, False])
def test_values_and_gradients_are_those_of_the_reference(monkeypatch, semantics, sparse):
    monkeypatch.setattr(blocks, "STEP_CELLS", 0)
    model, learned = scene(sparse=sparse)
    run = program(semantics).ready(model, dtype=torch.float64)
    assert isinstance(run, InBlocks)
    assert len(run.layout.blocks) > 3
    for _ in range(2):  # the second time, what has not changed is not cut again
        found = values(run, model)
        for name, formula in AXIOMS.items():
            equations = reference.evaluate(formula, model, semantics, dtype=torch.float64)
            wanted = equations.tensor[:, 0]
            torch.testing.assert_close(found[name], wanted, rtol=0, atol=1e-12)
            mine, theirs = (
                torch.autograd.grad(
                    (v * torch.arange(1, 8)).sum(), list(learned.values()), allow_unused=True,
                    retain_graph=True,
                )
                for v in (found[name], wanted)
            )  # fmt: skip
            for a, b in zip(mine, theirs, strict=True):
                a, b = (torch.zeros(()) if g is None else g for g in (a, b))
                torch.testing.assert_close(*torch.broadcast_tensors(a, b), rtol=0, atol=1e-12)


def test_each_trace_alone_has_the_same_value(monkeypatch):
    """A trace by itself, without any padding, is what its part of the batch is."""
    monkeypatch.setattr(blocks, "STEP_CELLS", 0)
    model, _ = scene(sparse=False)
    found = values(program().ready(model, dtype=torch.float64), model)
    for trace, (count, length) in enumerate(zip(COUNTS, LENGTHS, strict=True)):
        cut = {
            "Stop": (1,), "Cross": (count,), "Known": (count,), "Here": (count,),
            "Close": (1, count), "Fine": (), "speed": (1,),
        }  # fmt: skip

        def own(name, table, cut=cut, trace=trace, length=length):
            table = table[trace : trace + 1] if table.shape[0] > 1 else table
            for dim, size in enumerate(cut[name], 1):
                table = table.narrow(dim, 0, size)
            return table if table.shape[-1] == 1 else table[..., :length]

        alone = Tables(
            {"car": 1, "ped": count}, torch.tensor([length]), length,
            {n: own(n, t) for n, t in model.predicates.items()},
            {n: own(n, t) for n, t in model.functions.items()}, model.constants,
        )  # fmt: skip
        for name, formula in AXIOMS.items():
            value = reference.evaluate(formula, alone, STABLE_PRODUCT, dtype=torch.float64)
            assert found[name][trace].item() == pytest.approx(value.tensor[0, 0].item(), abs=1e-12)


def test_random_cases_in_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "STEP_CELLS", 0)
    compared = 0
    for seed in range(1000, 1400):
        case = random_case(seed)
        if case.at != 0 or case.checked.free or case.model.batch < 2:
            continue
        signature = as_given({"f": case.checked.formula}, case.model)
        made = compile_formulas({"f": case.checked.formula}, signature, case.semantics)
        try:
            wanted = reference.evaluate(
                case.checked.formula, case.model, case.semantics, dtype=torch.float64
            )
        except FotError:
            continue
        run = made.ready(case.model, dtype=torch.float64)
        found = run(case.model)["f"].tensor.expand(case.model.batch, 1)
        expected = wanted.tensor[:, :1].expand(case.model.batch, 1)
        assert torch.allclose(found, expected, rtol=1e-9, atol=1e-9), f"seed {seed}: {case.text}"
        compared += isinstance(run, InBlocks)
    assert compared > 30


def test_guards_that_change_are_looked_at_again(monkeypatch):
    monkeypatch.setattr(blocks, "STEP_CELLS", 0)
    model, _ = scene(sparse=False)
    run = program().ready(model, dtype=torch.float64)
    before = [b.sizes["ped"] for b in run.layout.blocks]
    everyone = torch.ones_like(model.predicate("Known"))
    other = replace(model, predicates={**model.predicates, "Known": everyone})
    found = values(run, other)
    assert [b.sizes["ped"] for b in run.layout.blocks] != before
    for name, formula in AXIOMS.items():
        wanted = reference.evaluate(formula, other, STABLE_PRODUCT, dtype=torch.float64)
        torch.testing.assert_close(found[name], wanted.tensor[:, 0], rtol=0, atol=1e-12)


def test_under_function_transforms(monkeypatch):
    monkeypatch.setattr(blocks, "STEP_CELLS", 0)
    model, learned = scene()
    run = program().ready(model, dtype=torch.float64)

    def total(stop):
        found = run(replace(model, predicates={**model.predicates, "Stop": stop}))
        return sum(v.tensor.sum() for v in found.values())

    for _ in range(2):
        wanted = torch.autograd.grad(total(learned["Stop"]), learned["Stop"])[0]
        torch.testing.assert_close(grad(total)(learned["Stop"].detach()), wanted)


# --- what is cut ----------------------------------------------------------------------------------


def test_entities_count_as_far_as_guards_let_them():
    model, _ = scene()
    seen = counted([AXIOMS["A"]], model)
    assert {sort: n.tolist() for sort, n in seen.items()} == {"ped": COUNTS}
    free = check(
        parse_theory(
            "sort ped\npredicate Cross(ped)\naxiom Q: forall y. F Cross(y)", source="free.fot"
        )
    )
    assert counted([a.formula for a in free.axioms], model) == {}
    assert counted([AXIOMS["A"], free.axioms[0].formula], model) == {}


def test_named_entities_keep_their_numbers():
    named = check(
        parse_theory(
            'sort ped\nstatic predicate Known(ped)\npredicate Cross(ped)\n'
            'axiom Q: forall y where Known(y). F (Cross(y) | Cross("p4"))',
            source="named.fot",
        )
    )  # fmt: skip
    model, _ = scene()
    assert counted([a.formula for a in named.axioms], model) == {}


def test_blocks_are_no_larger_than_their_traces_need_and_have_each_once():
    costs = program().costs
    rng = np.random.default_rng(0)
    lengths, counts = rng.integers(1, 200, 300), {"ped": rng.integers(0, 12, 300)}
    found = divided(costs, lengths, counts, {"car": 1, "ped": 12})
    assert 1 < len(found) <= 64
    assert sorted(np.concatenate([b.traces for b in found])) == list(range(300))
    for block in found:
        assert block.horizon == lengths[block.traces].max()
        assert block.sizes == {"car": 1, "ped": counts["ped"][block.traces].max()}
    whole = 300 * costs.cells(int(lengths.max()), {"car": 1, "ped": int(counts["ped"].max())})
    cut = sum(len(b.traces) * costs.cells(b.horizon, b.sizes) for b in found)
    assert cut < whole / 2


def test_traces_that_are_alike_stay_together():
    model, _ = scene()
    costs = program().costs
    assert len(divided(costs, np.array(LENGTHS), {}, model.sizes)) == 1  # too small to be worth it
    assert not isinstance(program().ready(model, dtype=torch.float64), InBlocks)


def test_the_budget_is_for_all_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "STEP_CELLS", 0)
    model, _ = scene()
    run = program().ready(model, dtype=torch.float64)
    peaks = [p.plan.peak for p in run.prepared]
    program().ready(model, dtype=torch.float64, budget=sum(peaks) + max(peaks))
    with pytest.raises(LimitError, match="more than the budget"):
        program().ready(model, dtype=torch.float64, budget=max(peaks) + 1)
