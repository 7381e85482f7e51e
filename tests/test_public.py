"""The public names: the root of the package and `fotltn.dsl` are all that a user imports."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

import fotltn

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
#: The pages about the paper's experiments, which are no part of the package.
BESIDE = {"reproduction.md", "reproduction-tables.md", "recipe.md"}
PUBLIC = {"fotltn", "fotltn.dsl"}


def python_of(page: Path) -> Iterator[str]:
    """The code of each Python block."""
    text = page.read_text("utf-8")
    for block in re.findall(r"^```python[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if ">>>" in block:
            parts = doctest.DocTestParser().get_examples(block)
            yield "".join(part.source for part in parts)
        else:
            yield block


def imports(code: str) -> Iterator[str]:
    """The modules of ours that code imports, and names that are asked of a module below."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(str(module)):
                yield module


def private(code: str, *, beside: bool) -> list[str]:
    ours = [n for n in imports(code) if n.split(".")[0] in ("fotltn", "reproduction")]
    return [n for n in ours if n not in PUBLIC and not (beside and n.startswith("reproduction"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_import_the_root_alone(page):
    wrong = [name for code in python_of(page) for name in private(code, beside=page.name in BESIDE)]
    assert not wrong


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: str(file.relative_to(ROOT)))
def test_examples_import_the_root_alone(file):
    assert not private(file.read_text("utf-8"), beside=False)


def test_a_private_import_is_noticed():
    code = "import fotltn as fot\nfrom fotltn.dsl import G\nfrom fotltn.engine import x"
    assert private(code, beside=False) == ["fotltn.engine"]
    assert private("from fotltn import evaluate\nimport reproduction.paper", beside=True) == []
    assert private("import reproduction.paper", beside=False) == ["reproduction.paper"]


@pytest.mark.parametrize("name", fotltn.__all__)
def test_a_public_name_is_described_and_typed(name):
    value: Any = getattr(fotltn, name)
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    assert f"`fotltn.{name}`" in page
    if isinstance(value, dict):
        return
    assert inspect.getdoc(value)
    if isinstance(value, type):
        assert value.__doc__ != inspect.getdoc(object)
    if inspect.isfunction(value):
        parameters = inspect.signature(value).parameters
        assert {*parameters, "return"} == set(value.__annotations__)


@pytest.mark.parametrize("name", fotltn.__all__)
def test_a_public_name_has_an_example(name):
    """In its docstring, as pytest runs them all, or on the page of public names."""
    page = "".join(python_of(ROOT / "docs" / "api.md"))
    example = "" if isinstance(getattr(fotltn, name), dict) else example_of(name)
    assert example or re.search(rf"\bfot\.{name}\b", page)


def example_of(name: str) -> str:
    parts = doctest.DocTestParser().get_examples(inspect.getdoc(getattr(fotltn, name)) or "")
    return "".join(part.source for part in parts)


def test_the_example_of_the_inspector_runs(monkeypatch):
    """Its last line serves until Ctrl-C, so doctest leaves it out; here nothing is waited for."""
    served = []
    module = importlib.import_module("fotltn.web.serve")
    monkeypatch.setattr(module, "serve", lambda read, **_: served.extend(read()))
    exec(example_of("inspect"), {})
    assert len(served) == 1


def test_public_names_are_those_that_are_there():
    assert set(fotltn.__all__) <= set(dir(fotltn))
    for name in fotltn.__all__:
        value = getattr(fotltn, name)
        assert not isinstance(value, ModuleType) or name == "plots"


def test_no_public_name_is_that_of_a_module_below():
    """Importing such a module would put it in the place of the name."""
    below = {path.stem for path in (ROOT / "fotltn").iterdir() if path.suffix in ("", ".py")}
    assert not below & set(fotltn.__all__)


def test_the_root_loads_neither_torch_nor_numpy():
    code = "import fotltn, sys; print({'torch', 'numpy', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# --- what the root adds to the parts below ------------------------------------------------------


def test_the_way_in(tmp_path, monkeypatch):
    """What a program does from end to end, by names of the root alone."""
    monkeypatch.chdir(tmp_path)
    text = "sort car\npredicate Near(car), Stop(car)\naxiom A1: forall x. G(Near(x) -> WX Stop(x))"
    fotltn.save(fotltn.parse(text), "rules.fot")
    theory = fotltn.load("rules.fot")
    columns = {"predicate": ["Stop"] * 3, "arg1": ["ego", "ego", "b"], "time": [1, 2, 0],
               "truth": [0, 1, 1]}  # fmt: skip
    parquet.write_table(pa.table(columns), "facts.parquet")
    rows = {"car": ["ego", "ego", "b", "b"], "t": [0, 1, 0, 1], "near": [1, 0, 0, 1],
            "speed": [1.0, 0.0, 2.0, 1.0]}  # fmt: skip
    theory_in = fotltn.parse(text.replace("Near(car)", "Near(car), In(car)"))
    wide = fotltn.Wide(rows, "car", "car", "t", predicates={"near": "Near"}, features=["speed"],
                       presence="In")  # fmt: skip
    data = fotltn.read(theory_in, "facts.parquet", wide=wide)
    assert fotltn.evaluate("exists x. F(Near(x) & !WX Stop(x))", data, semantics="crisp")
    near, stop = torch.eye(2), torch.tensor([[0.0, 0.9], [0.2, 0.3]])
    tensors = fotltn.tables(theory, Near=near, Stop=stop)
    value = fotltn.evaluate("forall x. G(Near(x) -> WX Stop(x))", tensors)
    step = fotltn.compile(theory, tensors)
    assert torch.equal(step(tensors)["A1"], value)
    assert "Stop(x)" in step.plan
    loss = fotltn.AxiomLoss(theory)
    assert torch.allclose(loss(Near=near, Stop=stop).values["A1"], value)
    with pytest.raises(fotltn.DataError, match=r"AxiomLoss\(theory, data"):
        loss(tensors)
    model = fotltn.train(theory_in, data, learn=["Stop"], training={"epochs": 3})
    assert re.fullmatch(r"Model of Stop: [0-9,]+ parameters, 3 epochs", repr(model))
    other = fotltn.Wide({**rows, "car": ["x", "x", "y", "y"]}, "car", "car", "t", presence="In",
                        predicates={"near": "Near"}, features=["speed"])  # fmt: skip
    columns["arg1"] = ["x", "x", "y"]
    moved = model.apply(fotltn.read(theory_in, columns, wide=other))
    assert moved.tables.names.entities == {"car": ("x", "y")}
    model.save("m")
    assert torch.equal(fotltn.load_model("m").ask("Stop(x)").tensor, model.ask("Stop(x)").tensor)
    for cells in (fotltn.cells(theory["A1"], data), fotltn.cells("A1", model)):
        assert cells.worst(10)
        assert cells.explain(x="ego", time=0).tree.children
        assert cells.repair(x="ego", time=0).exact
    assert [a.name for a in fotltn.audit(theory, data).axioms] == ["A1"]
    assert fotltn.report(model).name == "report.html"
    monitor = fotltn.Monitor(theory)
    assert str(monitor.step([("Near", "ego")])["A1"].verdict) == "open"


def test_a_report_may_be_written_twice(tmp_path):
    theory = "sort s\npredicate A(s)\naxiom Q: forall x. G A(x)"
    facts = {"predicate": ["A"], "arg1": ["a"], "time": [0]}
    model = fotltn.train(theory, facts=facts, learn=["A"], training={"epochs": 1})
    for _ in range(2):
        assert fotltn.report(model, tmp_path / "page.html").exists()


def test_sparse_tensors_are_facts():
    theory = fotltn.parse("""
    sort s
    predicate P(s, s), Q(s)
    axiom A: forall x, y. G(P(x, y) -> F Q(y))
    """)
    index, degrees = torch.tensor([[0, 1], [1, 1], [2, 0]]), torch.tensor([0.9, 0.6])
    facts = torch.sparse_coo_tensor(index, degrees, (2, 2, 3), check_invariants=True)
    weights = torch.rand(2, 3, generator=torch.Generator().manual_seed(0))
    data = fotltn.tables(theory, P=facts, Q=weights)
    dense = fotltn.tables(theory, P=facts.to_dense(), Q=weights)
    assert "facts of P" in fotltn.compile(theory, data).plan
    assert torch.allclose(fotltn.evaluate(theory["A"], data), fotltn.evaluate(theory["A"], dense))
    short = torch.stack([facts, facts])
    cut = fotltn.tables(theory, P=short, Q=torch.stack([weights, weights]), lengths=[3, 2])
    full = fotltn.tables(
        theory, P=short.to_dense(), Q=torch.stack([weights, weights]), lengths=[3, 2]
    )
    assert torch.allclose(fotltn.evaluate(theory["A"], cut), fotltn.evaluate(theory["A"], full))
    with pytest.raises(fotltn.DataError, match="degrees must be from"):
        fotltn.tables(theory, P=2 * facts, Q=weights)


def test_a_theory_that_is_fused_has_the_same_values():
    theory = fotltn.parse("predicate a, b\naxiom A: G(a -> WX b)")
    data = fotltn.tables(theory, a=[0.2, 0.9, 0.4], b=[0.3, 0.1, 0.8])
    plain, fused = fotltn.compile(theory, data), fotltn.compile(theory, data, backend="aot_eager")
    assert torch.allclose(plain(data)["A"], fused(data)["A"])
    assert fused.plan == plain.plan


def test_connectives_by_name():
    mine = fotltn.Semantics("mine", implication="goguen")  # type: ignore[arg-type]
    assert mine == dataclasses.replace(mine, implication=fotltn.SEMANTICS["goguen"].implication)
    assert fotltn.laws(mine) == fotltn.laws(dataclasses.replace(mine, name="other"))
    with pytest.raises(fotltn.SemanticsError, match="unknown implication 'gogen'; did you mean"):
        fotltn.Semantics("mine", implication="gogen")  # type: ignore[arg-type]


def test_one_table_and_one_predicate_need_no_list():
    theory = fotltn.parse("sort s\npredicate P(s), Here(s)\naxiom A: forall x. G P(x)")
    rows = {"who": ["a", "a", "b"], "t": [0, 1, 1], "p": [1, 0, 1]}
    table = fotltn.Wide(rows, sort="s", entity="who", time="t", predicates={"p": "P"})
    model = fotltn.train(theory, wide=table, learn=["P"], training={"epochs": 1})
    assert model.facts.traces
    facts = {"predicate": ["P", "Here"], "arg1": ["a", "a"], "time": [1, 1]}
    one, several = (fotltn.read(theory, facts, presence=p) for p in ("Here", ["Here"]))
    assert one.present["s"].equal(several.present["s"])


def test_tables_say_how_much_there_is():
    theory = fotltn.parse("sort s\npredicate P(s), Q")
    data = fotltn.tables(theory, P=[[0.5, 1.0, 0.0]] * 2, Q=[1.0, 0.0, 1.0])
    assert repr(data) == "<1 trace, 3 time points, 2 of sort 's'; tables of P, Q>"


# --- examples and shapes ----------------------------------------------------------------------

#: Methods that the package itself calls. Their arguments are of private types, no example shows
#: them, and docs/api.md says that such methods may change.
PRIVATE_METHODS = {
    "Cells": {"axes", "blocks", "body", "boolean", "check_predicates", "counting", "sizes",
              "threshold_of", "undecided", "viewed"},
    "Model": {"view"},
    "Tables": {"constant", "derived", "edge", "everywhere", "full_size", "presence", "size",
               "with_relation"},
}  # fmt: skip

#: A shape in a docstring: axes by name.
SHAPE = re.compile(r"shape\s+`\([\w*,… ]*\)`")


def members(name: str) -> dict[str, Any]:
    """The public methods and properties of a class that this package defines, as functions."""
    listed = {}
    thing = getattr(fotltn, name)
    for member in dir(thing) if inspect.isclass(thing) else ():
        made = inspect.getattr_static(thing, member)
        function = getattr(made, "fget", None) or getattr(made, "func", None)
        function = function or getattr(made, "__func__", made)
        if inspect.isfunction(function) and function.__module__.startswith("fotltn"):
            listed[member] = function
    return {m: f for m, f in listed.items() if not m.startswith("_")}


def examples_of(thing: Any) -> str:
    """The code of the examples in a docstring."""
    text = inspect.getdoc(thing) or ""
    return "".join(part.source for part in doctest.DocTestParser().get_examples(text))


#: Classes that no program calls, with the functions that give them.
GIVEN_BY = {"Cells": "cells", "Formula": "parse_formula", "Tables": "tables", "Theory": "parse"}


def uses(name: str, code: str) -> bool:
    """Whether code uses a public name, or gets what is called so."""
    return bool(re.search(rf"\b(fot|fotltn)\.{GIVEN_BY.get(name, name)}\b", code))


API = "\n".join(python_of(ROOT / "docs" / "api.md"))


@pytest.mark.parametrize("name", fotltn.__all__)
def test_every_public_name_has_an_example(name):
    """In its own docstring, or on the page of public names; tests run both."""
    thing = getattr(fotltn, name)
    own = examples_of(thing) if callable(thing) or isinstance(thing, ModuleType) else ""
    assert uses(name, own + API), name


@pytest.mark.parametrize("name", [n for n in fotltn.__all__ if members(n)])
def test_every_method_has_an_example(name):
    listed = members(name)
    own = examples_of(getattr(fotltn, name))
    without = {
        member
        for member, function in listed.items()
        if not re.search(rf"\b{member}\b", examples_of(function))
        and not re.search(rf"\.{member}\b|def {member}\(self", own + API)
    }
    assert without == PRIVATE_METHODS.get(name, set())


def with_tensors() -> Iterator[tuple[str, Any]]:
    """The public functions, methods and classes that take or give tensors."""
    for name in fotltn.__all__:
        thing = getattr(fotltn, name)
        fields = dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ()
        if any("Tensor" in str(one.type) for one in fields):
            yield name, thing
        functions = {name: thing} if inspect.isfunction(thing) else {}
        functions |= {f"{name}.{member}": made for member, made in members(name).items()}
        for place, function in functions.items():
            signature = inspect.signature(function)
            hints = [signature.return_annotation]
            hints += [one.annotation for one in signature.parameters.values()]
            if any(re.search(r"\bTensor\b", str(hint)) for hint in hints):
                yield place, function


@pytest.mark.parametrize(
    ("place", "thing"), [pytest.param(*pair, id=pair[0]) for pair in with_tensors()]
)
def test_every_tensor_has_a_shape(place, thing):
    text = inspect.getdoc(thing) or ""
    assert SHAPE.search(text), place
    if dataclasses.is_dataclass(thing):
        entries = re.split(r"^    (?=\w+: )", text.split("Args:\n")[1], flags=re.MULTILINE)
        about = {entry.split(":")[0]: entry for entry in entries}
        tensors = [one.name for one in dataclasses.fields(thing) if "Tensor" in str(one.type)]
        assert [name for name in tensors if "shape" not in about[name]] == []
