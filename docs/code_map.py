"""What the code says about its own shape: imports between folders, and who matches core nodes."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "fotltn"
PAGE = ROOT / "docs" / "architecture.md"

#: Formulas that no operator makes: where only these are looked for, a new operator is no news.
LEAVES_AND_QUANTIFIERS = {"Truth", "Edge", "Atom", "Equal", "Compare", "Quantifier"}

_ROW = re.compile(r"^\| (`[^|]*`) \|", re.MULTILINE)


@cache
def code() -> dict[str, ast.Module]:
    """The modules of the package, by their paths inside of it."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {f.relative_to(PACKAGE).as_posix(): ast.parse(f.read_text("utf-8")) for f in files}


# --- imports between folders ----------------------------------------------------------------------


def layers() -> list[str]:
    """The folders and files of the package in the order of the page's first table."""
    table = PAGE.read_text("utf-8").split("\n```", 1)[0]
    names = [name for row in _ROW.findall(table) for name in re.findall("`([^`]*)`", row)]
    return [name.removesuffix("/").removesuffix(".py") for name in names]


@cache
def imports() -> set[tuple[str, str]]:
    """Which folder or file imports from which other, by their names."""
    pairs = set()
    for path, module in code().items():
        folder = path.split("/")[0].removesuffix(".py")
        for node in ast.walk(module):
            match node:
                case ast.ImportFrom("fotltn", names, 0):
                    targets = [f"fotltn.{alias.name}" for alias in names]
                case ast.ImportFrom(str(target), _, 0):
                    targets = [target]
                case ast.Import(names):
                    targets = [alias.name for alias in names]
                case _:
                    continue
            parts = [target.split(".") for target in targets]
            pairs |= {(folder, part[1]) for part in parts if part[0] == "fotltn" and len(part) > 1}
    return {(folder, target) for folder, target in pairs if folder != target}


def module_graph() -> str:
    """A row for each folder, with a mark below each folder that it imports from."""
    order, known = layers(), imports()
    width = max(map(len, order))
    head = " ".join(f"{number:>2}" for number in range(1, len(order) + 1))
    lines = [f"{'':>2} {'':<{width}} {head}".rstrip()]
    for number, folder in enumerate(order, 1):
        marks = ["\\" if other == folder else "●" if (folder, other) in known else " "
                 for other in order]  # fmt: skip
        cells = " ".join(f"{mark:>2}" for mark in marks)
        lines.append(f"{number:>2} {folder:<{width}} {cells}".rstrip())
    return "```text\n" + "\n".join(lines) + "\n```"


# --- who matches core nodes -----------------------------------------------------------------------


def formula_nodes() -> set[str]:
    """The classes of core formulas, below `Formula` and below one another."""
    names = {"Formula"}
    for node in code()["logic/core.py"].body:
        if isinstance(node, ast.ClassDef) and names & {ast.unparse(base) for base in node.bases}:
            names.add(node.name)
    return names - {"Formula"}


@cache
def matches() -> dict[str, set[str]]:
    """For each module that matches formulas of the core, by `match` or `isinstance`, which."""
    return {path: names for path, module in code().items() if (names := _matched(module))}


def tell_operators_apart() -> list[str]:
    """The modules that match operators of the core."""
    return [path for path, names in matches().items() if names - LEAVES_AND_QUANTIFIERS]


def only_leaves() -> str:
    """The modules that look for atoms, comparisons or quantifiers, and for no operator."""
    others = [path for path in matches() if path not in tell_operators_apart()]
    return "\n".join(f"- `{path}`: {', '.join(sorted(matches()[path]))}" for path in others)


def table_of_operators() -> list[str]:
    """The modules in the page's table of those that match operators."""
    section = PAGE.read_text("utf-8").split("## How to add an operator")[1].split("\n## ")[0]
    return [row.strip("`") for row in _ROW.findall(section)]


def _matched(module: ast.Module) -> set[str]:
    nodes = list(ast.walk(module))
    aliases = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "fotltn.logic"
        for alias in node.names
        if alias.name == "core"
    }
    imported = {
        alias.asname or alias.name: alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "fotltn.logic.core"
        for alias in node.names
    }
    classes: list[ast.expr] = []
    for node in nodes:
        match node:
            case ast.MatchClass(kind):
                classes.append(kind)
            case ast.Call(ast.Name("isinstance"), [_, kinds]):
                classes += [n for n in ast.walk(kinds) if isinstance(n, ast.expr)]
    names = set()
    for kind in classes:
        match kind:
            case ast.Attribute(ast.Name(alias), name) if alias in aliases:
                names.add(name)
            case ast.Name(name) if name in imported:
                names.add(imported[name])
    return names & formula_nodes()
