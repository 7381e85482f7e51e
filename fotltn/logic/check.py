"""Check formulas and theories: build the core language, or report all errors at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, assert_never

from fotltn.arguments import public
from fotltn.errors import (
    CheckError,
    DataError,
    Diagnostic,
    LimitError,
    Severity,
    did_you_mean,
    name_hint,
    warning,
)
from fotltn.logic import core as c
from fotltn.logic import desugar
from fotltn.logic.scope import OpenSort, Scope, ScopedVariable, Symbols
from fotltn.logic.signature import Signature, build_signature
from fotltn.syntax import formula as f
from fotltn.syntax import theory as th
from fotltn.syntax.load import AnyTheory, theory_of
from fotltn.syntax.parse import AnyFormula, formula_of
from fotltn.syntax.show import theory_html
from fotltn.tree import children, events, written_out

#: The most parts of a formula, counting shared parts each time.
MAX_NODES = 2_000_000


@dataclass(frozen=True, slots=True)
class CheckedFormula:
    """A core formula, its free variables in order of appearance, and the signature it fits."""

    formula: c.Formula
    free: tuple[c.Axis, ...]
    signature: Signature


@dataclass(frozen=True, slots=True)
class CheckedAxiom:
    """An axiom in the core language."""

    name: str
    formula: c.Formula
    weight: float
    source: f.Formula
    hard: bool = False


@dataclass(frozen=True, slots=True)
class CheckedTheory:
    """A theory without errors; oddities are warnings."""

    signature: Signature
    axioms: tuple[CheckedAxiom, ...]
    warnings: tuple[Diagnostic, ...]

    def __getitem__(self, name: str) -> CheckedAxiom:
        """Return the axiom with a name."""
        return self.axiom(name)

    def __iter__(self) -> Iterator[CheckedAxiom]:
        """Iterate over the axioms."""
        return iter(self.axioms)

    def axiom(self, name: str) -> CheckedAxiom:
        """Return the axiom with a name.

        Raises:
            DataError: there is no such axiom.
        """
        for axiom in self.axioms:
            if axiom.name == name:
                return axiom
        names = [a.name for a in self.axioms]
        hint = name_hint(name, names)
        raise DataError(f"the theory has no axiom '{name}'; {hint}")

    @property
    def source(self) -> th.Theory:
        """The theory as written."""
        axioms = tuple(th.Axiom(a.name, a.source, a.weight, a.hard) for a in self.axioms)
        return th.Theory(self.signature.declarations, axioms)

    def _repr_html_(self) -> str:
        return theory_html(self.source)


@public
def check(theory: AnyTheory, *, used: Collection[str] = ()) -> CheckedTheory:
    r"""Check a theory.

    Use it to see all errors and warnings of a theory before there are data; functions that
    evaluate or learn check their theory themselves.

    Args:
        theory: the theory, its file or its text; a checked theory is returned as it is.
        used: names that something other than the axioms uses, to avoid a warning.

    Raises:
        CheckError: lists every error of every declaration and axiom.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> [axiom.name for axiom in fot.check(theory).axioms]
    ['Obey']
    """
    if isinstance(theory, CheckedTheory):
        return theory
    theory = theory_of(theory)
    signature, diagnostics = build_signature(theory.declarations)
    symbols = Symbols(signature)
    symbols.used.update(used)
    axioms = []
    names: dict[str, th.Axiom] = {}
    intern: dict[c.Core, c.Core] = {}
    for axiom in theory.axioms:
        if axiom.name in names:
            first = names[axiom.name].span
            where = f"first at {first.source.name}:{first.line}" if first else None
            diagnostics.append(
                Diagnostic(f"two axioms are named '{axiom.name}'", axiom.span, where)
            )
        names.setdefault(axiom.name, axiom)
        scope = _resolve(axiom.formula, symbols, free_allowed=False)
        diagnostics += scope.diagnostics
        diagnostics += _free_errors(scope, symbols)
        if not _errors(scope.diagnostics) and not scope.free:
            formula = _lower(axiom.formula, scope, intern)
            axioms.append(
                CheckedAxiom(axiom.name, formula, axiom.weight, axiom.formula, axiom.hard)
            )
    if errors := _errors(diagnostics):
        raise CheckError(*errors)
    diagnostics += _unused(theory, symbols)
    return CheckedTheory(signature, tuple(axioms), tuple(diagnostics))


@public
def check_formula(
    formula: AnyFormula,
    signature: Signature | AnyTheory | None = None,
    *,
    constants: Collection[str] = (),
    sorts: Mapping[str, str] | None = None,
) -> CheckedFormula:
    """Check one formula, which may have free variables.

    Args:
        formula: the formula, its text or an axiom.
        signature: the symbols that it may use, or a theory that declares them, as a path, a text
            or itself. Without one,
            predicates, functions, relations and sorts are inferred from the formula.
        constants: names that stand for entities, not free variables, unless they are bound.
        sorts: the sorts of free variables, if their use does not determine them.

    Raises:
        CheckError: lists every error of the formula.
        LimitError: the formula has more than `MAX_NODES` parts.

    >>> import fotltn as fot
    >>> checked = fot.check_formula("F Close(x, y)")
    >>> [variable.name for variable in checked.free]
    ['x', 'y']
    """
    formula = formula_of(formula)
    if signature is not None and not isinstance(signature, Signature):
        signature = check(signature).signature
    symbols = Symbols(signature or Signature(), infer=signature is None)
    for name in constants:
        symbols.constants.setdefault(name, OpenSort())
    scope = _resolve(formula, symbols, sorts=sorts or {})
    if errors := _errors(scope.diagnostics):
        raise CheckError(*errors)
    lowered = _lower(formula, scope, {})
    free = tuple(_axis(b) for b in scope.free.values())
    return CheckedFormula(lowered, free, signature or _inferred(symbols))


def _limit(formula: f.Formula) -> None:
    """Raise an error for a formula whose shared parts make it endless when written out."""
    nodes = written_out(formula)
    if nodes > MAX_NODES:
        raise LimitError(
            f"the formula has {nodes:,} parts when written out; at most {MAX_NODES:,} "
            "can be checked"
        )


def _resolve(
    formula: f.Formula,
    symbols: Symbols,
    free_allowed: bool = True,
    sorts: Mapping[str, str] = MappingProxyType({}),
) -> Scope:
    _limit(formula)
    known = symbols.signature.sorts
    scope = Scope(symbols, next(iter(known)) if len(known) == 1 else None, free_allowed)
    scope.run(formula)
    for name, binding in scope.free.items():
        if binding.cell.sort is None and name in sorts:
            binding.cell.assign(sorts[name])
    if symbols.infer:
        _name_sorts(symbols, scope)
    scope.settle()
    return scope


def _name_sorts(symbols: Symbols, scope: Scope) -> None:
    """Name the sorts that a formula without a signature leaves open, after their use."""
    functions = symbols.functions.items()
    every = [*symbols.predicates.items(), *symbols.relations.items()]
    every += [(name, args) for name, (args, _) in functions]
    places = [(f"{name}.{i}", place) for name, args in every for i, place in enumerate(args, 1)]
    for name, cell in [*places, *((name, result) for name, (_, result) in functions)]:
        if cell.sort is None:
            cell.assign(f"<{name}>")
    for name, cell in scope.open_sorts():
        cell.assign(f"<{name}>")


def _inferred(symbols: Symbols) -> Signature:
    def sorts(cells: Iterable[OpenSort]) -> tuple[str, ...]:
        return tuple(str(cell.sort) for cell in cells)

    signature = Signature()
    for name, args in symbols.predicates.items():
        signature.predicates[name] = th.PredicateDecl(name, sorts(args))
    for name, (args, result) in symbols.functions.items():
        signature.functions[name] = th.FunctionDecl(name, sorts(args), str(result.sort))
    for name, args in symbols.relations.items():
        signature.relations[name] = th.RelationDecl(name, sorts(args))
    used = _sorts(signature.declarations)
    for name, cell in symbols.constants.items():
        if cell.sort is not None:
            signature.constants[name] = th.ConstantDecl(name, cell.sort)
    signature.sorts.update({s: th.SortDecl(s) for s in sorted(used - {c.REAL})})
    return signature


def _sorts(declarations: Iterable[th.Declaration]) -> set[str]:
    """Return the sorts that declarations mention."""
    return {sort for item in declarations for sort in th.sorts_of(item)}


def _errors(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [d for d in diagnostics if d.severity is Severity.ERROR]


def _free_errors(scope: Scope, symbols: Symbols) -> list[Diagnostic]:
    errors = []
    for binding in scope.free.values():
        known = {
            *symbols.constants,
            *(b.name for b in scope.resolved if isinstance(b, ScopedVariable)),
        }
        hint = did_you_mean(binding.name, known - set(scope.free))
        if binding.name in symbols.predicates:
            hint = f"'{binding.name}' is a predicate, and arguments are terms"
        hint = hint or (
            f"bind it (forall {binding.name}. …), declare it (constant {binding.name}: sort), "
            f'or write "{binding.name}" for an entity'
        )
        message = f"'{binding.name}' is neither bound nor a constant"
        errors.append(Diagnostic(message, binding.span, hint))
    return errors


def _unused(theory: th.Theory, symbols: Symbols) -> list[Diagnostic]:
    if not theory.axioms:
        return []
    sorts = symbols.used_sorts | _sorts(theory.declarations)
    warnings = []
    for item in theory.declarations:
        names = sorts if isinstance(item, th.SortDecl) else symbols.used
        if item.name not in names:
            kind = type(item).__name__.removesuffix("Decl").lower()
            message = f"the {kind} '{item.name}' is declared but not used"
            warnings.append(warning(message, item.span))
    return warnings


def _axis(binding: ScopedVariable) -> c.Axis:
    if binding.relation is not None:
        return c.Axis(binding.axis, relation=binding.relation)
    return c.Axis(binding.axis, sort=binding.cell.sort)


_SAME: dict[type[f.Syntax], Callable[..., c.Formula]] = {
    f.Equal: c.Equal, f.Not: c.Not, f.And: c.And, f.Or: c.Or, f.Implies: c.Implies,
    f.Iff: desugar.iff,
}  # fmt: skip


def _lower(formula: f.Formula, scope: Scope, intern: dict[c.Core, c.Core]) -> c.Formula:
    """Build the core formula from the names that the first pass resolved."""
    resolved = iter(scope.resolved)
    frames: list[list[ScopedVariable]] = []
    stack: list[c.Core] = []

    def push(node: c.Core) -> None:
        stack.append(intern.setdefault(node, node))

    def pop(count: int) -> tuple[Any, ...]:
        taken = tuple(stack[len(stack) - count :])
        del stack[len(stack) - count :]
        return taken

    for entering, node in events(formula):
        if entering:
            if isinstance(node, f.Quantified):
                frame = next(resolved)
                assert isinstance(frame, list)
                frames.append(frame)
            elif isinstance(node, f.Var | f.Const):
                push(_leaf(node.name, next(resolved)))
            continue
        leaving: f.AnySyntax = node
        match leaving:
            case f.Var() | f.Const():
                pass
            case f.Number(value):
                push(c.Number(value))
            case f.Apply(name, args):
                cell = next(resolved)
                assert isinstance(cell, OpenSort)
                push(c.Apply(name, pop(len(args)), str(cell.sort)))
            case f.Truth(value):
                push(c.Truth(value))
            case f.Edge(end):
                push(c.Edge(past=end == "first"))
            case f.Atom(name, args):
                push(c.Atom(name, pop(len(args))))
            case f.Compare(op):
                push(c.Compare(op, *pop(2)))
            case f.Equal() | f.Not() | f.And() | f.Or() | f.Implies() | f.Iff():
                push(_SAME[type(leaving)](*pop(len(children(leaving)))))
            case f.Forall(_, guard) | f.Exists(_, guard):
                axes = tuple(dict.fromkeys(_axis(b) for b in frames.pop()))
                test, body = (None, *pop(1)) if guard is None else pop(2)
                push(c.Quantifier(isinstance(leaving, f.Forall), axes, test, body))
            case f.Unary(op, _, bound, strict):
                (arg,) = pop(1)
                push(desugar.unary(op, arg, bound, strict))
            case f.Binary(op, _, _, bound, strict):
                left, right = pop(2)
                push(desugar.binary(op, left, right, bound, strict))
            case never:
                assert_never(never)
    (result,) = stack
    assert isinstance(result, c.Formula)
    return result


def _leaf(name: str, what: ScopedVariable | list[ScopedVariable] | OpenSort) -> c.Term:
    if isinstance(what, ScopedVariable):
        return c.Variable(_axis(what), str(what.cell.sort), what.column)
    assert isinstance(what, OpenSort)
    return c.Constant(name, str(what.sort))
