"""The shape of the package: which way imports point, what loads torch, how long files are."""

from __future__ import annotations

import ast
import importlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fotltn"
REPRODUCTION = ROOT / "reproduction"

#: Imports only point back along this order; `fotltn` is the package's own __init__.py.
LAYERS = (
    "errors", "arguments", "format", "files", "strict_json", "memory", "stop", "threads", "sharing",
    "tree", "syntax", "dsl", "logic", "semantics", "algebra", "kernels", "plan", "engine",
    "decisions", "evaluation", "bindings", "grounding", "data", "monitor", "analysis", "posterior",
    "networks", "learn", "project", "reporting", "web", "api",
    "fotltn",
    "cli", "__main__",
)  # fmt: skip

#: The same in `reproduction/`, which may import anything of the package.
LAYERS_BESIDE = (
    "reproduction", "paper", "report", "recipe", "deliveries", "ward", "posterior", "jaad",
    "caviar", "pages", "cli", "__main__",
)  # fmt: skip

#: The only place of the package that knows of `reproduction/`, which is not installed.
DOOR = "fotltn.cli.reproduce"

#: Files whose methods load their printer or parser from their own package when called.
LAZY = {
    "fotltn.syntax.formula", "fotltn.syntax.theory", "fotltn.algebra.expr", "fotltn.plan.plan",
    "fotltn.analysis.cells", "fotltn.analysis.view",
}  # fmt: skip

WITHOUT_TORCH = ("fotltn", "fotltn.dsl", "fotltn.semantics.config")
PACKAGES_WITHOUT_TORCH = ("fotltn.syntax", "fotltn.logic")

MAX_LINES = 800


def name_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    return {name_of(file): file for file in sorted(PACKAGE.rglob("*.py"))}


@cache
def every_module() -> dict[str, Path]:
    """Those of the package, and those of the paper's experiments beside it."""
    beside = {name_of(file): file for file in sorted(REPRODUCTION.rglob("*.py"))}
    return modules() | beside


def layer(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def imports(code: ast.AST, module: str, known: frozenset[str]) -> Iterator[tuple[str, int, bool]]:
    """The modules of ours that a file imports: name, line, and whether inside a function.

    An import in a function runs when it is called; one for types alone, never.
    """
    queue = [(code, False)]
    for node, inside in queue:  # which grows meanwhile
        match node:
            case ast.FunctionDef() | ast.If(ast.Name("TYPE_CHECKING")):
                below = True
            case _:
                below = inside
        children = ast.iter_child_nodes(node)
        queue += [(child, below) for child in children if not isinstance(child, ast.expr)]
        match node:
            case ast.Import(names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(target, names, level):
                base = ".".join(module.split(".")[: -level or None]) if level else ""
                prefix = ".".join(part for part in (base, target) if part)
                inner = [f"{prefix}.{alias.name}" for alias in names]
                found = [name if name in known else prefix for name in inner]
            case _:
                continue
        for name in dict.fromkeys(found):
            if package(name) in ("fotltn", "reproduction"):
                yield name, node.lineno, inside


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse(every_module()[module].read_text("utf-8"))


@cache
def edges() -> list[tuple[str, str, int, bool]]:
    """Every import of ours: from, to, line, whether inside a function."""
    known = frozenset(every_module())
    return [
        (module, target, line, inside)
        for module in every_module()
        for target, line, inside in imports(parsed(module), module, known)
    ]


def package(module: str) -> str:
    return module.split(".")[0]


def wrong(found: list[tuple[str, str, int, bool]]) -> list[str]:
    """Imports that point forward along the layers."""
    return [
        f"{module}:{line} imports {target}"
        for module, target, line, _ in found
        if package(module) == package(target)
        and (order := LAYERS if package(module) == "fotltn" else LAYERS_BESIDE)
        and order.index(layer(target)) > order.index(layer(module))
    ]


def test_every_module_has_a_layer():
    assert {layer(m) for m in modules()} <= set(LAYERS)
    assert {layer(m) for m in every_module().keys() - modules()} <= set(LAYERS_BESIDE)


def test_imports_point_back_along_the_layers():
    assert len(edges()) > 50
    assert wrong(edges()) == []


def test_the_package_does_not_know_the_experiments_of_the_paper():
    """But for the door to them, which loads them when it is called."""
    across = [e for e in edges() if (package(e[0]), package(e[1])) == ("fotltn", "reproduction")]
    assert [(module, inside) for module, _, _, inside in across] == [(DOOR, True)]


def test_the_experiments_of_the_paper_are_not_installed():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert settings["tool"]["setuptools"]["packages"]["find"]["include"] == ["fotltn*"]


#: What computes the value of a formula, and the only modules that may use it, each with its reason.
EVALUATORS = {
    "fotltn.engine": {"Program", "compile_formulas"},
    "fotltn.semantics.reference": {"evaluate"},
    "fotltn.semantics.crisp": {"evaluate"},
    "fotltn.semantics.crisp_rows": {"everywhere", "truth"},
    "fotltn.posterior.rows": {"RowTruth"},
}
ONE_WAY = {
    "fotltn.evaluation": "the one way",
    "fotltn.semantics.reference": "guards of quantifiers, which are two-valued",
    "fotltn.plan.run": "a step of the engine's plan that follows the equations",
    "fotltn.decisions": "truth of what is defined, which evaluation itself asks for",
    "fotltn.analysis.cell_rows": "cells as rows, which cost what facts cost",
    "fotltn.monitor.window": "some recent points at every step, far below any budget",
    "fotltn.monitor.graded": "the same, of a guard",
    "fotltn.bindings": "sums over a block of bindings, which are not values yet",
    **dict.fromkeys(
        (
            f"fotltn.posterior.{name}"
            for name in (
                "colours", "contradictions", "ground", "movers", "objections", "patterns", "points",
                "sampler", "spans", "structure",
            )
        ),
        "two-valued truth in many worlds, of a few bindings that a move touches",
    ),
}  # fmt: skip


def evaluators_used(code: ast.AST) -> set[str]:
    """The evaluators that a module imports, or asks of a module that it imports."""
    modules: dict[str, str] = {}
    used = set()
    for node in ast.walk(code):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name in EVALUATORS.get(str(node.module), ()):
                    used.add(str(node.module))
                modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(code):
        match node:
            case ast.Attribute(ast.Name(name), attr):
                if attr in EVALUATORS.get(modules.get(name, ""), ()):
                    used.add(modules[name])
    return used


def test_there_is_one_way_to_the_value_of_a_formula():
    users = {module for module in every_module() if evaluators_used(parsed(module))}
    assert users == set(ONE_WAY)


def test_the_search_for_other_ways_finds_them():
    code = "from fotltn.semantics import crisp, reference as r\nr.evaluate(f)\ncrisp.true(f)"
    assert evaluators_used(ast.parse(code)) == {"fotltn.semantics.reference"}
    code = "def f():\n    from fotltn.engine import compile_formulas"
    assert evaluators_used(ast.parse(code)) == {"fotltn.engine"}


def test_modules_of_a_package_do_not_import_each_other_in_circles():
    """But for the methods of syntax trees that load their printer or parser when called."""
    after: dict[str, set[str]] = {module: set() for module in every_module()}
    for module, target, _, inside in edges():
        lazy = inside and layer(module) == layer(target) and module in LAZY
        if target in after and not lazy and module != DOOR:
            after[module].add(target)
    done: set[str] = set()
    while ready := {m for m in after if m not in done and after[m] <= done}:
        done |= ready
    assert set(after) == done, f"in a circle: {set(after) - done}"


def test_the_check_of_imports_can_fail():
    code = ast.parse(
        "from typing import TYPE_CHECKING\n"
        "import fotltn.logic.core\n"
        "if TYPE_CHECKING:\n    from fotltn.semantics import config\n"
        "def f():\n    from fotltn import evaluation\n"
        "from ..cli import nothing\n"
        "from fotltn.tree import Node\n"
        "import os\n"
        "import fotltn\n"
    )
    found = [
        ("fotltn.syntax.x", *found)
        for found in imports(code, "fotltn.syntax.x", frozenset(modules()))
    ]
    assert wrong(sorted(found, key=lambda edge: edge[2])) == [
        "fotltn.syntax.x:2 imports fotltn.logic.core",
        "fotltn.syntax.x:4 imports fotltn.semantics.config",
        "fotltn.syntax.x:6 imports fotltn.evaluation",
        "fotltn.syntax.x:7 imports fotltn.cli",
        "fotltn.syntax.x:10 imports fotltn",
    ]
    inside = [target for _, target, _, inside in found if inside]
    assert inside == ["fotltn.semantics.config", "fotltn.evaluation"]


# --- torch -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loading_torch() -> list[str]:
    """Of the language, then `fotltn.evaluation`: those whose import asks for torch, or fails."""
    code = (
        "import importlib, sys\n"
        "class Torch:\n"
        "    def find_spec(self, module, *rest):\n"
        "        if module == 'torch': print(name)\n"
        "        if module == 'torch': raise ImportError\n"
        "sys.meta_path.insert(0, Torch())\n"
        "for name in sys.argv[1:]:\n"
        "    try: importlib.import_module(name)\n"
        "    except ImportError: print(name)\n"
    )
    names = [*WITHOUT_TORCH, *(m for m in modules() if m.startswith(PACKAGES_WITHOUT_TORCH))]
    assert len(names) > 15
    done = subprocess.run(
        [sys.executable, "-c", code, *names, "fotltn.evaluation"], cwd=ROOT, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


def test_the_language_loads_without_torch(loading_torch):
    assert [name for name in loading_torch if name != "fotltn.evaluation"] == []


def test_the_check_of_torch_can_fail(loading_torch):
    assert "fotltn.evaluation" in loading_torch


def test_what_needs_torch_loads_on_first_use():
    code = (
        "import sys\n"
        "sys.modules['torch'] = None  # cannot be imported\n"
        "import fotltn\n"
        "print('evaluate' in dir(fotltn))\n"
        "for name in ('evaluate', 'nonsense'):\n"
        "    try: getattr(fotltn, name)\n"
        "    except (ImportError, AttributeError) as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    listed, torch, missing = done.stdout.splitlines()
    assert listed == "True", done.stderr
    assert torch.startswith("import of torch halted")
    assert missing == "module 'fotltn' has no attribute 'nonsense'"


# --- what a command loads --------------------------------------------------------------------

HEAVY = (
    "jinja2", "matplotlib", "pyarrow", "scipy.stats", "sklearn", "starlette", "sympy", "torch",
    "torch._dynamo",
)  # fmt: skip

#: The heavy packages that a command may load. Each may load what those before it may.
LOADS: dict[str, tuple[list[str], set[str]]] = {
    "check": (["t.fot"], set()),
    "show": (["t.fot"], set()),
    "monitor": (["t.fot", "--input", "steps.jsonl"], {"torch"}),
    "watch": (["t.fot", "--input", "steps.jsonl"], {"torch"}),
    "eval": (["t.fot", "--facts", "f.csv"], {"torch", "pyarrow"}),
    "rules": (["t.fot", "--facts", "f.csv"], {"torch", "pyarrow"}),
    "new": (["p", "--cars", "3", "--pedestrians", "3", "--steps", "5"], {"torch", "pyarrow"}),
    "plan": (["p", "--time"], {"torch", "pyarrow"}),
    "prepare": (["q"], {"torch", "pyarrow"}),
    "train": (["p", "--epochs", "1"], {"torch", "pyarrow"}),
    "score": (["p"], {"torch", "pyarrow"}),
    "ask": (["model", "Stop(x)"], {"torch", "pyarrow"}),
    "predict": (["model", "-o", "predictions.csv"], {"torch", "pyarrow"}),
    "violations": (["model", "--why", "1"], {"torch", "pyarrow"}),
    "audit": (["model"], {"torch", "pyarrow"}),
    "worlds": (["sampled", "--out", "worlds", "--number", "1"], {"torch", "pyarrow"}),
    "doubt": (["sampled"], {"torch", "pyarrow"}),
    "worth": (["q", "--folds", "2"], {"torch", "pyarrow"}),
    "inspect": (["model", "--no-open"], {"torch", "pyarrow", "jinja2", "starlette"}),
    "report": (
        ["model", "-o", "r.html"], {"torch", "pyarrow", "jinja2", "starlette", "matplotlib"},
    ),
}  # fmt: skip

#: Commands that take minutes, or packages and files that are not there, with what keeps them out.
NOT_RUN = {"tune": "many trainings, and Optuna", "reproduce": "the experiments of the paper"}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A theory, facts and steps, a project of them, a model, and a model of sampled worlds."""
    import fotltn

    folder = tmp_path_factory.mktemp("scene")
    theory = folder / "t.fot"
    theory.write_text(
        "sort agent\npredicate Near(agent), Stop(agent)\n"
        "axiom Obey: forall x. G(Near(x) -> WX Stop(x))\n"
    )
    facts = folder / "f.csv"
    rows = ("Near,ego,0,1", "Stop,ego,1,1", "Stop,ego,0,0")
    facts.write_text(
        "predicate,arg1,time,truth,trace\n"
        + "".join(f"{row},{trace}\n" for row in rows for trace in ("one", "two"))
    )
    (folder / "steps.jsonl").write_text(
        '{"facts": [["Near", "ego"]]}\n{"facts": [["Stop", "ego"]]}\n'
    )
    sampling = {"worlds": 2, "burn_in": 2, "sweeps": 2, "stored": 1}
    fotltn.train(theory, facts=facts, learn=["Stop"], training={"epochs": 1}).save(folder / "model")
    fotltn.train(theory, facts=facts, learn=["Stop"], method="posterior", posterior=sampling).save(
        folder / "sampled"
    )
    project = folder / "q"
    project.mkdir()
    for file in (theory, facts):
        shutil.copy(file, project)
    (project / "project.toml").write_text(
        '[theory]\nfile = "t.fot"\n[data]\nfacts = ["f.csv"]\n[predicates]\nStop = "logits"\n'
        "[posterior]\n" + "".join(f"{key} = {value}\n" for key, value in sampling.items())
    )
    return folder


@pytest.fixture(scope="module")
def loaded(scene: Path) -> dict[str, set[str]]:
    """The heavy packages that are there after each command, one after another in one process."""
    code = (
        "import json, sys\n"
        "from fotltn.cli.main import main\n"
        "def served(self, sockets): pass\n"  # or it would go on until it is stopped
        "for command in json.loads(sys.argv[1]):\n"
        "    sys.argv = ['fotltn', *command]\n"
        "    if command[0] == 'inspect':\n"
        "        import uvicorn\n"
        "        uvicorn.Server.run = served\n"
        "    try: main()\n"
        "    except SystemExit as end: assert not end.code, end\n"
        f"    print('loaded', *(m for m in {HEAVY} if m in sys.modules), file=sys.stderr)\n"
    )
    commands = [[name, *arguments] for name, (arguments, _) in LOADS.items()]
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(commands)], cwd=scene, capture_output=True,
        text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("loaded")]
    return {name: set(line.split()[1:]) for name, line in zip(LOADS, lines, strict=True)}


@pytest.mark.parametrize("command", list(LOADS))
def test_a_command_loads_what_it_uses(loaded, command):
    assert loaded[command] <= LOADS[command][1]


def test_every_command_is_looked_at():
    from fotltn.cli.main import app

    names = {command.name for command in app.registered_commands}
    assert set(LOADS) | set(NOT_RUN) == names


def test_a_command_may_load_what_those_before_it_may():
    allowed = [packages for _, packages in LOADS.values()]
    assert all(before <= after for before, after in pairwise(allowed))


def test_the_check_of_what_commands_load_can_fail(loaded):
    assert "torch" in loaded["plan"]


# --- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(every_module()))
def test_every_module_imports(name):
    if name.startswith("fotltn.kernels.gpu."):
        pytest.importorskip("triton")
    assert importlib.import_module(name).__name__ == name


def test_no_file_is_too_long():
    files = [
        f for folder in ("fotltn", "reproduction", "tests") for f in (ROOT / folder).rglob("*.py")
    ]
    assert len(files) > 20
    lengths = {str(f.relative_to(ROOT)): len(f.read_text("utf-8").splitlines()) for f in files}
    assert {name: n for name, n in lengths.items() if n > MAX_LINES} == {}


def undocumented(code: ast.Module) -> Iterator[str]:
    """Public functions, classes and methods without a docstring, and the module itself."""
    if not ast.get_docstring(code):
        yield "the module"
    stack: list[tuple[str, ast.AST]] = [("", code)]
    while stack:
        prefix, node = stack.pop()
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if child.name.startswith("_"):
                continue
            if not ast.get_docstring(child):
                yield prefix + child.name
            if isinstance(child, ast.ClassDef):
                stack.append((f"{prefix}{child.name}.", child))


@pytest.mark.parametrize("name", list(every_module()))
def test_what_is_public_is_documented(name):
    assert list(undocumented(parsed(name))) == []


def test_the_check_of_docstrings_can_fail():
    code = ast.parse("class A:\n  def b(self): ...\n  def _c(self): ...\ndef d():\n  'D.'\n")
    assert sorted(undocumented(code)) == ["A", "A.b", "the module"]


def test_the_public_names_exist():
    import fotltn

    assert all(hasattr(fotltn, name) for name in dir(fotltn))
