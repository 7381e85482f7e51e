"""Symmetric relations: one fact is drawn for each pair of entities, and gives both directions.

The hard axiom `forall x, y. G(R(x, y) -> R(y, x))` ties two tracks, and neither can move alone.
Instead, an auxiliary relation is drawn that holds in one direction at most, and it defines `R`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import torch

from fotltn.logic import core as c
from fotltn.logic.check import CheckedAxiom, check_formula
from fotltn.logic.defined import Definition, definitions_in
from fotltn.posterior.clauses import clauses
from fotltn.posterior.problem import Problem
from fotltn.syntax.parse import parse_formula


def mirrored(problem: Problem) -> Problem:
    """Return the problem with symmetric relations defined by auxiliary relations."""
    for axiom, name in _symmetric(problem):
        problem = _drawn_once(problem, axiom, name)
    return problem


def _symmetric(problem: Problem) -> Iterator[tuple[CheckedAxiom, str]]:
    """The hard axioms that say only that a relation is symmetric, each with its relation."""
    hard = tuple(axiom for axiom in problem.theory.axioms if axiom.hard)
    loose = [n for n in problem.learned if n not in problem.define]
    defined = definitions_in(replace(problem.theory, axioms=hard), loose).by_name
    seen: set[str] = set()
    for axiom in hard:
        said = {
            _turned(clause.body) for clause in clauses(axiom, problem.end, problem.theory.signature)
        }
        name = said.pop() if len(said) == 1 else None
        if name in loose and name not in defined and name not in seen:
            seen.add(name)
            yield axiom, name


def _turned(body: c.Formula) -> str | None:
    """The relation that a clause says to be symmetric; None if it says anything else."""
    parts = (body.left, body.right) if isinstance(body, c.Or) else ()
    if_true = [part.arg for part in parts if isinstance(part, c.Not)]
    then = [part for part in parts if not isinstance(part, c.Not)]
    if len(if_true) != 1:
        return None
    one, other = if_true[0], then[0]
    if not (isinstance(one, c.Atom) and isinstance(other, c.Atom)):
        return None
    plain = all(isinstance(term, c.Variable) and term.column is None for term in one.args)
    turned = len(one.args) == 2 and one.args == other.args[::-1] and one.args[0] != one.args[1]
    return one.predicate if plain and turned and one.predicate == other.predicate else None


def _drawn_once(problem: Problem, axiom: CheckedAxiom, name: str) -> Problem:
    theory, tables = problem.theory, problem.tables
    decl = theory.signature.predicates[name]
    pair, half = (
        _fresh(f"{name}_{what}", theory.signature.predicates) for what in ("pair", "half")
    )
    predicates = {
        **theory.signature.predicates,
        pair: replace(decl, name=pair),
        half: replace(decl, name=half, static=True),
    }
    signature = replace(theory.signature, predicates=predicates)
    always = "" if decl.static else "G"
    one_way = parse_formula(f"forall x, y. {always}({pair}(x, y) -> {half}(x, y))")
    either = check_formula(parse_formula(f"{pair}(x, y) | {pair}(y, x)"), signature)
    said = replace(axiom, formula=check_formula(one_way, signature).formula, source=one_way)
    axioms = tuple(said if one.name == axiom.name else one for one in theory.axioms)
    size, device = tables.sizes[decl.sorts[0]], tables.lengths.device
    upper = torch.ones(size, size, dtype=torch.float64, device=device).triu()
    known = upper.expand(tables.batch, -1, -1).unsqueeze(-1)
    return replace(
        problem,
        theory=replace(theory, signature=signature, axioms=axioms),
        tables=replace(
            tables, predicates={**tables.predicates, half: known}, signature=signature
        ),
        learned=(*problem.learned, pair),
        define={
            **problem.define, name: Definition(name, either.free, either.formula, (axiom.name,))
        },
    )  # fmt: skip


def _fresh(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name
