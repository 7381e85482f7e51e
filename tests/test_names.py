"""Names say what they hold, and a class name means one thing."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "fotltn"

#: Names that would fit any value, and so say nothing of it.
EMPTY = frozenset({"found", "own", "kept", "whole", "given"})

#: The surface language and the core language have nodes of the same names on purpose.
MIRRORED = {"fotltn/syntax/formula.py", "fotltn/logic/core.py"}

MODULES = sorted(
    path for top in (PACKAGE, ROOT / "reproduction") for path in top.rglob("*.py")
)  # fmt: skip


def bound_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """All names that a module gives to something, with the line."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.MatchAs(name=str(name)):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.keyword(arg=str(name), value=value):
                yield value.lineno, name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_say_what_they_hold(path):
    text = path.read_text(encoding="utf-8")
    if not EMPTY.isdisjoint(re.findall(r"\w+", text)):
        names = bound_names(ast.parse(text))
        empty = [f"{path.name}:{line}: {name}" for line, name in names if name in EMPTY]
        assert not empty, "say what is in it"


def test_the_search_for_names_sees_every_way_to_bind_one():
    text = (
        "def found(own, *, kept=1):\n    whole = 2\n    for given in own: pass\n"
        "    with kept as found: self.own = 3\n    [whole for given in found]\n"
        "    match own:\n        case [kept, *whole]: f(given=1)\n"
    )
    assert len([n for _, n in bound_names(ast.parse(text)) if n in EMPTY]) == 11


SCRIPTS = sorted((PACKAGE / "web" / "static").glob("*.js"))


def script_names(text: str) -> Iterator[tuple[int, str]]:
    """All names in a script, with the line; what is text or a comment has none."""
    texts = r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
    code = re.sub(texts, lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.DOTALL)
    for number, line in enumerate(code.splitlines(), 1):
        yield from ((number, name) for name in re.findall(r"[A-Za-z_$][\w$]*", line))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_names_of_scripts_say_what_they_hold(path):
    names = script_names(path.read_text(encoding="utf-8"))
    empty = [f"{path.name}:{line}: {name}" for line, name in names if name in EMPTY]
    assert not empty, "say what is in it"


def test_the_search_in_scripts_sees_names_and_no_texts():
    text = 'const found = f("own"); // kept\nthis.whole = (given) => `${own}`; /* kept\n*/ found();'
    empty = [(line, name) for line, name in script_names(text) if name in EMPTY]
    assert empty == [(1, "found"), (2, "whole"), (2, "given"), (2, "own"), (3, "found")]
    assert len(SCRIPTS) > 3


def called_models(tree: ast.AST) -> Iterator[int]:
    """Where arguments that are tables are called a model, which is something else."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg="model", annotation=ast.expr() as kind):
                if "Tables" in {n.id for n in ast.walk(kind) if isinstance(n, ast.Name)}:
                    yield node.lineno


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_model_is_not_tables(path):
    assert list(called_models(ast.parse(path.read_text(encoding="utf-8")))) == []


def test_the_search_for_models_finds_tables():
    text = "def f(model: Tables | None, other: Tables): ...\ndef g(*, model: Model): ..."
    assert list(called_models(ast.parse(text))) == [1]


def named_types(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """The classes of a module, and its aliases of types but for options of the command line."""
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name):
                yield name, True
            case ast.Assign([ast.Name(name)], value) if re.match("_?[A-Z][a-z]", name):
                if not ast.unparse(value).startswith("Annotated["):
                    yield name, False


def test_a_class_name_means_one_thing():
    places, classes = defaultdict(set), set()
    for path in sorted(PACKAGE.rglob("*.py")):
        for name, is_class in named_types(ast.parse(path.read_text(encoding="utf-8"))):
            public = name.lstrip("_")
            places[public].add(str(path.relative_to(ROOT)))
            classes |= {public} if is_class else set()
    doubles = {n: sorted(places[n]) for n in classes if len(places[n]) > 1}
    assert {n for n, files in doubles.items() if set(files) != MIRRORED} == set()


def test_an_alias_of_a_type_counts_as_a_class():
    tree = ast.parse("class Ab: ...\nCd = tuple[int]\nEf = Annotated[int, 1]\nMAX = 2")
    assert list(named_types(tree)) == [("Ab", True), ("Cd", False)]
