"""The signature: the declarations of a theory, by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from fotltn.errors import Diagnostic, Span, did_you_mean, listing
from fotltn.logic.core import REAL
from fotltn.syntax import theory as th


@dataclass(frozen=True, slots=True)
class Signature:
    """Declarations by name. Sorts have a separate namespace; all other symbols share one."""

    sorts: dict[str, th.SortDecl] = field(default_factory=dict)
    predicates: dict[str, th.PredicateDecl] = field(default_factory=dict)
    functions: dict[str, th.FunctionDecl] = field(default_factory=dict)
    constants: dict[str, th.ConstantDecl] = field(default_factory=dict)
    relations: dict[str, th.RelationDecl] = field(default_factory=dict)

    @property
    def declarations(self) -> tuple[th.Declaration, ...]:
        """Iterate over all declarations, kind by kind."""
        kinds = (self.sorts, self.predicates, self.functions, self.constants, self.relations)
        return tuple(item for kind in kinds for item in kind.values())


def build_signature(declarations: Iterable[th.Declaration]) -> tuple[Signature, list[Diagnostic]]:
    """Build the signature of some declarations, and list their errors."""
    signature = Signature()
    errors: list[Diagnostic] = []
    places: dict[str, Span | None] = {}
    ordered = sorted(declarations, key=lambda item: not isinstance(item, th.SortDecl))
    for item in ordered:
        errors += _sort_errors(signature, item)
        if not isinstance(item, th.SortDecl):
            if item.name in places:
                errors.append(_duplicate("name", item.name, item.span, places[item.name]))
                continue
            places[item.name] = item.span
        match item:
            case th.SortDecl(name):
                if name == REAL:
                    message = "the sort 'real' is built in and cannot be declared"
                    errors.append(Diagnostic(message, item.span))
                elif name in signature.sorts:
                    first = signature.sorts[name].span
                    errors.append(_duplicate("sort", name, item.span, first))
                else:
                    signature.sorts[name] = item
            case th.PredicateDecl(name):
                signature.predicates[name] = item
            case th.FunctionDecl(name, sorts):
                if not sorts:
                    hint = f"without arguments it is a constant: constant {name}: {item.result}"
                    message = f"function '{name}' has no arguments"
                    errors.append(Diagnostic(message, item.span, hint))
                signature.functions[name] = item
            case th.ConstantDecl(name):
                signature.constants[name] = item
            case th.RelationDecl(name, sorts):
                if len(sorts) < 2:
                    hint = "a relation lists tuples of at least two entities"
                    message = f"relation '{name}' needs more sorts"
                    errors.append(Diagnostic(message, item.span, hint))
                signature.relations[name] = item
            case never:
                assert_never(never)
    return signature, errors


def _sort_errors(signature: Signature, item: th.Declaration) -> list[Diagnostic]:
    """Yield errors for sorts that are not declared; `real` may only be a result."""
    used = th.sorts_of(item)
    if isinstance(item, th.FunctionDecl) and item.result == REAL:
        used = item.sorts
    errors = []
    for sort in used:
        if sort == REAL:
            message = (
                "'real' is the sort of numbers: functions may return it, but arguments "
                "cannot have it"
            )
            errors.append(Diagnostic(message, item.span))
        elif sort not in signature.sorts:
            hint = did_you_mean(sort, signature.sorts)
            hint = hint or f"declare it: sort {sort} (declared: {listing(signature.sorts)})"
            errors.append(Diagnostic(f"unknown sort '{sort}'", item.span, hint))
    return errors


def _duplicate(kind: str, name: str, span: Span | None, first: Span | None) -> Diagnostic:
    where = f" at {first.source.name}:{first.line}" if first else ""
    return Diagnostic(f"the {kind} '{name}' is declared twice", span, f"first declared{where}")
