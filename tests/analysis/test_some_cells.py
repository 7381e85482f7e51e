"""Some bindings of a formula: the same values and truth as among all."""

import itertools

import pytest
import torch

from fotltn.analysis.cells import Cells
from fotltn.analysis.explain.explanation import why
from fotltn.analysis.some_cells import some_cells
from fotltn.analysis.view import View
from fotltn.analysis.worst import worst_by_rows
from fotltn.errors import LimitError
from fotltn.grounding.dense import tables_of_facts
from fotltn.grounding.facts import read_facts
from fotltn.logic.check import check
from fotltn.plan.facts import gather_facts
from fotltn.semantics.config import CRISP, STABLE_PRODUCT
from fotltn.semantics.sparse import SparseTable
from fotltn.semantics.tables import Value, gather
from fotltn.syntax.load import parse_theory

THEORY = """\
sort agent
sort place
static predicate Car(agent)
predicate Near(agent, place), Stop(agent), rain
relation pairs(agent, agent)
axiom Brake: forall x, y. G(Car(x) & Near(x, y) -> WX Stop(x))
axiom Guarded: forall x where Car(x). forall y. G(Near(x, y) -> Stop(x))
axiom Inside: forall x. G(forall y where Near(x, y). Stop(x))
axiom Pair: forall (x, y) in pairs, z. G(Near(x, z) -> Near(y, z) | Stop(y))
axiom Inner: forall x. G(Stop(x) -> exists y. Near(x, y))
axiom Now: forall x. Car(x) -> Stop(x)
axiom Mixed: forall x where Car(x). G(forall y where Near(x, y). Stop(x))
axiom Ever: F rain
"""


@pytest.fixture(params=[True, False], ids=["facts", "dense"])
def cells(request, tmp_path) -> dict[str, Cells]:
    draw = torch.Generator().manual_seed(3)
    agents, places, traces = ["a", "b", "c"], ["p", "q"], ["one", "two"]
    rows = [f"Car,{a},,,{int(a != 'b')}," for a in agents]
    rows += ["pairs,a,b,,,", "pairs,c,a,,,", "rain,,,3,1,one", "rain,,,2,1,two"]
    for trace, t in itertools.product(traces, range(3)):
        for a in agents:
            degrees = torch.rand(3, generator=draw).tolist()
            rows.append(f"Stop,{a},,{t},{degrees[0]:.2f},{trace}")
            rows += [f"Near,{a},{p},{t},{degrees[1 + i]:.2f},{trace}" for i, p in enumerate(places)]
    text = "predicate,arg1,arg2,time,truth,trace\n" + "\n".join(rows) + "\n"
    (tmp_path / "facts.csv").write_text(text)
    checked = check(parse_theory(THEORY))
    facts = read_facts([tmp_path / "facts.csv"], checked.signature)
    tables = tables_of_facts(facts, checked.signature, sparse=request.param)
    return {a.name: View(tables, STABLE_PRODUCT).cells(a) for a in checked.axioms}


@pytest.mark.parametrize("name", ["Brake", "Guarded", "Inside", "Pair", "Inner", "Now"])
def test_some_bindings_are_as_among_all(cells, name):
    every = cells[name]
    all_heat = every.over_time()
    places = list(itertools.product(*map(range, every.sizes)))[::2]
    some = some_cells(every, places)
    heat = some.over_time()
    assert some.variables == every.variables
    assert some.rows == every.tables.batch * len(places)
    for row in range(some.rows):
        cell = some.cell(row, 0)
        names = some.binding(cell)
        there = every.find(names, 0, cell.trace)
        other = next(r for r in range(every.rows) if every.cell(r, 0) == there)
        assert heat.truth[row].tolist() == all_heat.truth[other].tolist()
        assert torch.allclose(heat.values[row], all_heat.values[other], equal_nan=True, atol=1e-6)
    explained = why(some, some.cell(0, 0))
    assert explained.tree.value == pytest.approx(
        why(every, every.find(explained.binding)).tree.value
    )


@pytest.mark.parametrize("name", ["Brake", "Guarded", "Pair", "Inner"])
def test_first_violations_are_counted_and_listed(cells, name):
    heat = cells[name].over_time()
    first = worst_by_rows(cells[name].viewed(semantics=CRISP), 1000)
    assert first is not None
    assert first.tally == heat.tally
    listed = [one.cell for one in first.worst if one.violated]
    wrong = {(cell.trace, cell.numbers, cell.time) for cell in listed}
    for row, time in (heat.truth == 0).nonzero().tolist():
        cell = cells[name].cell(row, time)
        assert (cell.trace, cell.numbers, time) in wrong
    assert len(wrong) == heat.violated > 0


def test_what_cannot_be_laid_out_is_told(cells):
    with pytest.raises(LimitError, match="guards are read at different points"):
        some_cells(cells["Mixed"], [(0, 0)])
    with pytest.raises(LimitError, match="without variables"):
        some_cells(cells["Ever"], [()])


@pytest.mark.parametrize("facts", [0, 1, 40])
def test_facts_are_looked_up_as_in_a_dense_table(facts):
    draw = torch.Generator().manual_seed(facts)
    shape = (2, 5, 4, 3)
    every = torch.randperm(120, generator=draw)[:facts]
    index = torch.stack(torch.unravel_index(every, shape))
    value = torch.rand(facts, generator=draw, requires_grad=True)
    table = SparseTable(index, value, shape, 0.25)
    args = [
        Value((), torch.tensor([[3]])),
        Value((), torch.randint(4, (1, 1), generator=draw)),
    ]
    axes, degrees = gather_facts(table, args)
    wanted = gather(table.dense(value.dtype), args)
    assert axes == wanted.axes
    assert torch.equal(degrees, wanted.tensor)
    if facts:
        (slope,) = torch.autograd.grad(degrees.sum(), value)
        (other,) = torch.autograd.grad(gather(table.dense(value.dtype), args).tensor.sum(), value)
        assert torch.equal(slope, other)
