"""Trees of values: each node follows from those below it, and the telling ones are shown."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from fotltn.analysis.cells import Cell
from fotltn.analysis.explain.tree import ValueNode
from fotltn.errors import DataError
from fotltn.semantics.config import GODEL, STABLE_PRODUCT
from tests.analysis.explain.common import example, explain, timelines, world

ALL = {"and", "forall", "always", "historically"}
ANY = {"or", "exists", "eventually", "once"}
Of = Callable[[ValueNode], float]
STEPS = {"next": 0, "weak next": 1, "previous": 0, "weak previous": 1}


def follows(node: ValueNode, of: Of) -> float:
    """The value of a node under minimum and maximum, from the values of its children."""
    below = [of(child) for child in node.children]
    kind = node.kind
    if kind == "not":
        return 1 - below[0]
    if kind == "implies":
        return max(1 - below[0], below[1])
    if kind in ALL:
        return min(below, default=1)
    if kind in ANY:
        return max(below, default=0)
    if kind in STEPS:
        return below[0] if below else STEPS[kind]
    if kind in ("until", "since"):
        return max(map(min, pairs(node, of)), default=0)
    if kind in ("release", "trigger"):
        return min(map(max, pairs(node, of)), default=1)
    return of(node)


def pairs(node: ValueNode, of: Of) -> list[list[float]]:
    """Witnesses, each with the point before it."""
    found: list[list[float]] = []
    for child in node.children:
        if child.role == "witness":
            found.append([])
        found[-1].append(of(child))
    return found


@pytest.mark.parametrize("seed", range(35))
def test_under_minimum_and_maximum_values_follow_from_what_is_shown(seed):
    one = example(seed, GODEL)
    tree = explain(one.cells, one.cell, limit=10_000)
    for node, _ in tree.levels():
        assert math.isclose(node.value, follows(node, lambda n: n.value), abs_tol=1e-9), node.text
        assert node.truth == bool(follows(node, lambda n: float(n.truth))), node.text


@pytest.mark.parametrize("seed", range(80, 92))
def test_trees_are_plain_data_and_counts_add_up(seed):
    one = example(seed)
    tree = explain(one.cells, one.cell, width=2)
    assert json.loads(json.dumps(tree.as_dict()))["value"] == tree.value
    for node, _ in tree.levels():
        assert (type(node.value), type(node.truth)) == (float, bool)
        if node.kind in ("forall", "exists", "always", "eventually"):
            assert node.count == node.rest + len(node.children)
            assert len(node.children) <= 2


NEAR = torch.zeros(3, 3, 4)
NEAR[0, 1, 2] = 0.9
NEAR[0, 2, 2] = 0.4
STOP = torch.tensor([[0.0, 0.1, 0.2, 0.3], [0.5] * 4, [0.6] * 4])


def test_a_tree_names_what_it_shows():
    text = "forall x. G((exists y. Near(x, y)) -> WX Stop(x))"
    cells = world(text, {"Near": NEAR, "Stop": STOP})
    tree = explain(cells, Cell(0, (0,), 2), width=2)
    assert (tree.kind, tree.time) == ("implies", 2)
    cause, effect = tree.children
    assert (cause.role, cause.kind, cause.count, cause.rest) == ("if", "exists", 3, 1)
    first, second = cause.children
    assert (first.binding, first.truth) == ({"y": "agent1"}, True)
    assert (first.ground, round(first.value, 6)) == ("Near(agent0, agent1)", 0.9)
    assert (second.binding, second.truth) == ({"y": "agent2"}, False)
    assert first.label == "y = agent1: Near(agent0, agent1) at 2"
    (stop,) = effect.children
    assert (effect.role, stop.ground, stop.time) == ("then", "Stop(agent0)", 3)
    after = explain(cells, Cell(0, (0,), 3)).children[1]
    assert (after.children, after.note, after.value) == ((), "after the trace has ended", 1.0)


def test_what_decides_is_shown_even_if_it_is_not_the_lowest():
    # Agent 0 is lowest by degree, agent 1 alone is false in two-valued logic.
    tables = {
        "A": torch.tensor([[0.5], [1.0], [1.0]]),
        "B": torch.tensor([[0.5], [0.4], [1.0]]),
    }
    cells = world("F (forall x. A(x) & B(x))", tables)
    tree = explain(cells, Cell(0, (), 0), width=1)
    ((every,),) = [point.children for point in tree.children]
    assert tree.children[0].rest == 2
    assert (every.binding, round(every.value, 6)) == ({"x": "agent1"}, 0.4)
    assert not tree.truth


def test_chains_are_flat_and_equivalences_are_not():
    tables = {n: torch.rand(2, 3) for n in "ABC"}
    cells = world("A(x) & B(x) & (C(x) & A(x)) & (B(x) <-> C(x))", tables)
    tree = explain(cells, Cell(0, (1,), 1))
    assert [n.text for n in tree.children] == ["A(x)", "B(x)", "C(x) & A(x)", "B(x) <-> C(x)"]
    assert [n.kind for n in tree.children[-1].children] == ["implies", "implies"]


def test_large_trees_are_cut_where_they_are_deep():
    tables = {"A": torch.rand(2, 30)}
    text = "G F G F G F A(x)"
    cells = world(text, tables)
    tree = explain(cells, Cell(0, (0,), 0), limit=50)
    nodes = [n for n, _ in tree.levels()]
    assert 10 < len(nodes) <= 50
    assert any(n.note == "its parts are not shown" for n in nodes)


def test_very_deep_and_very_wide_formulas_are_explained():
    tables = {"A": torch.rand(1, 2)}
    cells = world("!" * 500 + "A(x)", tables)
    tree = explain(cells, Cell(0, (0,), 1))
    assert tree.text == "!…"
    assert max(level for _, level in tree.levels()) == 100
    assert json.dumps(tree.as_dict())
    assert tree.value == pytest.approx(tables["A"][0, 1].item())
    cells = world(" & ".join(["A(x)", "!A(x)"] * 300), tables)
    tree = explain(cells, Cell(0, (0,), 1))
    assert (len(tree.children), tree.count, tree.rest) == (12, 600, 588)


def test_comparisons_show_numbers_and_equalities_names():
    tables = {"A": torch.rand(2, 3)}
    cells = world('forall x. G(A(x) -> x = "a")', tables)
    cells = cells.viewed(tables=replace(cells.tables, constants={"agent": {"a": 1}}))
    tree = explain(cells, Cell(0, (0,), 1))
    assert tree.children[1].ground == "agent0 = agent1"
    assert (tree.children[1].value, tree.children[1].truth) == (0.0, False)
    assert tree.children[1].time is None


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (Cell(1, (0,), 0), "there is no trace 1"),
        (Cell(0, (0, 0), 0), "binds 'x', not 2 numbers"),
        (Cell(0, (3,), 0), "'x' has 3 places, and none is 3"),
        (Cell(0, (0,), 4), "the time point 4 does not exist: there are 0 to 3"),
        (Cell(0, (0,), -1), "the time point -1 does not exist"),
    ],
)
def test_cells_that_do_not_exist_are_refused(cell, message):
    cells = world("G Stop(x)", {"Stop": STOP})
    with pytest.raises(DataError, match=message):
        explain(cells, cell)


# --- timelines ---------------------------------------------------------------------------------


def test_timelines_are_those_of_the_atoms_shown():
    text = "forall x. G((exists y. Near(x, y)) & Car(x) -> F Stop(x))"
    car = torch.tensor([1.0, 0.0, 0.0])
    cells = world(text, {"Near": NEAR, "Stop": STOP, "Car": car})
    found = timelines(cells, Cell(0, (0,), 2), limit=3)
    by_text = {line.text: line for line in found}
    assert list(by_text) == ["Near(agent0, agent1)", "Car(agent0)", "Stop(agent0)"]
    assert by_text["Stop(agent0)"].values == pytest.approx(STOP[0].tolist())
    assert by_text["Stop(agent0)"].read == (2, 3)
    assert (by_text["Car(agent0)"].static, by_text["Car(agent0)"].values) == (True, (1.0,))
    assert json.dumps([line.as_dict() for line in found])


def test_timelines_end_with_their_trace():
    tables = {"A": torch.rand(2, 3, 5)}
    cells = world("G A(x)", tables, lengths=[5, 3], semantics=STABLE_PRODUCT)
    (line,) = timelines(cells, Cell(1, (2,), 1))
    assert line.values == pytest.approx(tables["A"][1, 2, :3].tolist())
