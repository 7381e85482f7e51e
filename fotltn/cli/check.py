"""`fotltn check`: is this theory well-formed?"""

from __future__ import annotations

from typing import Annotated

import typer

from fotltn.cli.options import Json, TheoryFile
from fotltn.cli.output import FINDINGS, emit_json, warn
from fotltn.logic.check import check as check_theory
from fotltn.syntax.load import load_theory


def check(
    theory: TheoryFile,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
    as_json: Json = False,
) -> None:
    """Check a theory: names, sorts, arities and bounds.

    All errors are reported at once. Exit status: 0 if the theory is well-formed, 1 if it is not,
    2 for a wrong call.
    """
    checked = check_theory(load_theory(theory))
    ok = not (strict and checked.warnings)
    signature = checked.signature
    counts = {
        "sorts": len(signature.sorts),
        "predicates": len(signature.predicates),
        "functions": len(signature.functions),
        "constants": len(signature.constants),
        "relations": len(signature.relations),
        "axioms": len(checked.axioms),
        "hard_axioms": sum(axiom.hard for axiom in checked.axioms),
    }
    if as_json:
        diagnostics = [w.as_dict() for w in checked.warnings]
        emit_json({"ok": ok, "theory": str(theory), **counts, "diagnostics": diagnostics})
    else:
        warn(checked.warnings)
        parts = ((n, kind.replace("_", " ")) for kind, n in counts.items() if n)
        words = ", ".join(f"{n} {kind[:-1] if n == 1 else kind}" for n, kind in parts)
        print(f"{theory}: {'ok' if ok else 'not ok'} ({words or 'empty'})")
    if not ok:
        raise typer.Exit(FINDINGS)
