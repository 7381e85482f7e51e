"""What docs/architecture.md says of the code is so: layers, imports, and who matches core nodes."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import fotltn
from fotltn.algebra import expr
from fotltn.logic import core
from fotltn.syntax import formula
from fotltn.tree import Node
from tests.test_layers import LAYERS

DOCS = Path(__file__).resolve().parent.parent / "docs"

#: The classes of nodes in the three modules that define them.
NODES = {
    module.__name__: {
        name
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, Node) and kind.__module__ == module.__name__
    }
    for module in (core, expr, formula)
}


@pytest.fixture
def code_map(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("code_map")


def test_the_table_of_folders_is_in_the_order_of_the_layers(code_map):
    assert code_map.layers() == [name for name in LAYERS if name not in ("fotltn", "__main__")]


def test_the_graph_of_modules_is_current_and_has_nothing_above_the_diagonal(code_map):
    """That it stands on the page is tested with the other generated parts."""
    _, *rows = code_map.module_graph().strip("`").removeprefix("text").strip("\n").splitlines()
    assert len(rows) == len(code_map.layers())
    assert all(row.endswith("\\") for row in rows)
    assert sum(row.count("●") for row in rows) > 100


def test_the_page_names_every_module_that_tells_operators_apart(code_map):
    in_code, on_page = code_map.tell_operators_apart(), code_map.table_of_operators()
    missing = [path for path in in_code if path not in on_page]
    stale = [path for path in on_page if path not in in_code]
    assert (missing, stale) == ([], []), (
        f"docs/architecture.md, 'How to add an operator': add rows for {missing} and say what a "
        f"new node needs there; remove the rows of {stale}. Then run: python docs/generate.py"
    )
    assert len(on_page) == len(set(on_page))


def test_the_search_for_matches_finds_them(code_map):
    module = ast.parse(
        "from fotltn.logic import core as c\n"
        "from fotltn.logic.core import Until as U\n"
        "from fotltn.syntax import formula as f\n"
        "def a(node):\n"
        "    match node:\n"
        "        case c.Not(c.And()): ...\n"
        "        case f.Or(): ...\n"
        "    return isinstance(node, c.Shift | U) or isinstance(node, (c.Atom, f.Equal))\n"
    )
    assert code_map._matched(module) == {"Not", "And", "Shift", "Until", "Atom"}
    assert {"Truth", "Until", "Quantifier"} <= code_map.formula_nodes()


def test_a_fact_passes_the_modules_on_the_page_from_a_file_to_a_weight(tmp_path):
    page = (DOCS / "architecture.md").read_text("utf-8")
    section = page.partition("## From a CSV file to a weight")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`(\w+/\w+\.py)`", section))
    assert len(listed) > 15
    facts = "".join(f"Near,{x},{t},{(t + len(x)) % 2}\nStop,{x},{t},{t % 2}\n"
                    for x in ("a", "bb") for t in range(6))  # fmt: skip
    (tmp_path / "facts.csv").write_text("predicate,arg1,time,truth\n" + facts)
    (tmp_path / "speeds.csv").write_text("who,speed\na,1.5\nbb,0.5\n")
    theory = fotltn.parse(
        "sort agent\npredicate Near(agent), Stop(agent)\naxiom A: forall x. G(Near(x) -> Stop(x))"
    )
    package = str(Path(fotltn.__file__).parent)
    called = set()

    def watch(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(package):
            called.add(str(Path(frame.f_code.co_filename).relative_to(package)))

    speeds = fotltn.Wide(tmp_path / "speeds.csv", sort="agent", entity="who", features=["speed"])
    batches = {"by": "entities", "sort": "agent", "size": 1}
    sys.setprofile(watch)
    try:
        fotltn.train(
            theory, facts=tmp_path / "facts.csv", wide=[speeds], learn=["Stop"], train=0.5,
            training={"epochs": 2, "batches": batches},
        )  # fmt: skip
    finally:
        sys.setprofile(None)
    assert listed <= called, "the page names modules that no fact passes"


def node_names(module: ast.Module, name: str) -> set[str]:
    """How a module writes the classes of nodes: those that it defines and those that it imports."""
    names = set(NODES.get(name, ()))
    for node in ast.walk(module):
        if not isinstance(node, ast.ImportFrom):
            continue
        for alias in node.names:
            written = alias.asname or alias.name
            if alias.name in NODES.get(str(node.module), ()):
                names.add(written)
            names |= {f"{written}.{n}" for n in NODES.get(f"{node.module}.{alias.name}", ())}
    return names


def open_matches(module: ast.Module, name: str = "") -> list[int]:
    """The lines of matches over nodes whose last case is not the one that mypy proves empty."""
    names = node_names(module, name)
    lines = []
    for match in (n for n in ast.walk(module) if isinstance(n, ast.Match)):
        patterns = (node for case in match.cases for node in ast.walk(case.pattern))
        kinds = {ast.unparse(p.cls) for p in patterns if isinstance(p, ast.MatchClass)}
        last = match.cases[-1]
        is_closed = (
            isinstance(last.pattern, ast.MatchAs)
            and (last.pattern.pattern, last.guard) == (None, None)
            and ast.unparse(last.body[0]).startswith("assert_never(")
        )
        if kinds & names and not is_closed:
            lines.append(match.lineno)
    return lines


def test_every_match_over_nodes_covers_all_kinds(code_map):
    lines = [
        f"fotltn/{path}:{line}"
        for path, module in code_map.code().items()
        for line in open_matches(module, "fotltn." + path.removesuffix(".py").replace("/", "."))
    ]
    assert lines == [], "list the other kinds, and end with `case never: assert_never(never)`"


@pytest.mark.parametrize(
    ("last", "is_open"),
    [
        ("case never: assert_never(never)", False),
        ("case _: assert_never(node)", False),
        ("case _: raise AssertionError(node)", True),
        ("case c.Or(): assert_never(node)", True),
        ("case _ if node: assert_never(node)", True),
        ("case c.Or(): ...", True),
    ],
)
@pytest.mark.parametrize("first", ["c.Not(arg)", "Reduce()", "A(name)", "[c.Not(), *_]", "other()"])
def test_the_search_for_open_matches_finds_them(first, last, is_open):
    module = ast.parse(
        "from fotltn.logic import core as c\n"
        "from fotltn.algebra.expr import Reduce\n"
        "from fotltn.syntax.formula import Atom as A\n"
        f"match node:\n    case {first}: ...\n    {last}\n"
    )
    of_nodes = first != "other()" or "c.Or" in last
    assert open_matches(module) == ([4] if is_open and of_nodes else [])
    assert open_matches(ast.parse("match x:\n case Until(): ..."), "fotltn.logic.core") == [1]
