"""The first pass of checking: resolve every name, and find the sort of every term.

Sorts that are not written are inferred: each variable and each argument place has a cell, and using
a variable at a place joins the two cells.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from fotltn.errors import Diagnostic, Severity, Span, did_you_mean, listing, name_hint, warning
from fotltn.logic.core import REAL
from fotltn.logic.signature import Signature
from fotltn.syntax import formula as f
from fotltn.tree import events, postorder


class OpenSort:
    """A sort that may not be known yet."""

    __slots__ = ("_parent", "_sort")

    def __init__(self, sort: str | None = None) -> None:
        """Start as a separate cell."""
        self._parent: OpenSort | None = None
        self._sort = sort

    def root(self) -> OpenSort:
        """The cell that represents all cells joined with this one."""
        cell = self
        while cell._parent is not None:
            cell = cell._parent
        if cell is not self:
            self._parent = cell
        return cell

    @property
    def sort(self) -> str | None:
        """The sort, if known."""
        return self.root()._sort

    def assign(self, sort: str) -> None:
        """Set the sort."""
        self.root()._sort = sort

    def join(self, other: OpenSort) -> bool:
        """Join two cells; return False if they have different sorts."""
        a, b = self.root(), other.root()
        if a is b:
            return True
        if a._sort is not None and b._sort is not None and a._sort != b._sort:
            return False
        a._sort = a._sort or b._sort
        b._parent = a
        return True


@dataclass(slots=True, eq=False)
class ScopedVariable:
    """A variable: its unique name, its sort, and its place in a tuple if it is paired."""

    name: str
    unique: str
    cell: OpenSort
    span: Span | None = None
    relation: str | None = None
    column: int | None = None
    axis: str = ""
    used: bool = False


@dataclass(slots=True)
class Symbols:
    """The cells of the argument places of predicates and functions, declared or inferred."""

    signature: Signature
    infer: bool = False
    predicates: dict[str, tuple[OpenSort, ...]] = field(default_factory=dict)
    functions: dict[str, tuple[tuple[OpenSort, ...], OpenSort]] = field(default_factory=dict)
    constants: dict[str, OpenSort] = field(default_factory=dict)
    relations: dict[str, tuple[OpenSort, ...]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    used_sorts: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Fill in the declared sorts."""
        sig = self.signature
        self.predicates = {n: tuple(map(OpenSort, d.sorts)) for n, d in sig.predicates.items()}
        self.functions = {
            n: (tuple(map(OpenSort, d.sorts)), OpenSort(d.result)) for n, d in sig.functions.items()
        }
        self.constants = {n: OpenSort(d.sort) for n, d in sig.constants.items()}
        self.relations = {n: tuple(map(OpenSort, d.sorts)) for n, d in sig.relations.items()}


class Scope:
    """Resolves one formula; `resolved` lists what the second pass needs, in order."""

    def __init__(
        self, symbols: Symbols, default_sort: str | None, free_allowed: bool = True
    ) -> None:
        """Resolve against symbols; a variable without a known sort gets `default_sort`."""
        self.symbols = symbols
        self.diagnostics: list[Diagnostic] = []
        self.resolved: list[ScopedVariable | list[ScopedVariable] | OpenSort] = []
        self.free: dict[str, ScopedVariable] = {}
        self._default = default_sort
        self._free_allowed = free_allowed
        self._env: dict[str, list[ScopedVariable]] = {}
        self._frames: list[list[ScopedVariable]] = []
        self._taken: set[str] = set()  # the unique names of all frames
        self._bindings: list[ScopedVariable] = []
        self._terms: list[tuple[OpenSort, f.Term]] = []
        self._entities: list[tuple[f.Const, OpenSort]] = []

    def run(self, formula: f.Formula) -> None:
        """Walk the formula, then set the sorts that are still open."""
        self._names = {n.name for n in postorder(formula) if isinstance(n, f.Var)}
        for entering, node in events(formula):
            if entering:
                self._enter(node)
            else:
                self._leave(node)

    def open_sorts(self) -> list[tuple[str, OpenSort]]:
        """Return the free variables and entities whose sort is unknown."""
        free = [(b.name, b.cell) for b in self.free.values()]
        named = [(node.name, cell) for node, cell in self._entities]
        return [(name, cell) for name, cell in free + named if cell.sort is None]

    def settle(self) -> None:
        """Set the default sort where none is known, or report an error if no other explains it."""
        failed = any(d.severity is Severity.ERROR for d in self.diagnostics)
        for node, cell in self._entities:
            if cell.sort is None and self._default is not None:
                cell.assign(self._default)
            if cell.sort is None and not failed:
                hint = f"declare it: constant {node}: sort"
                self._error(f"cannot tell the sort of {node}", node.span, hint)
            elif cell.sort == REAL:
                message = f"{node} is the name of an entity, not a number"
                self._error(message, node.span)
        free = self.free.values() if self._free_allowed else ()
        for binding in [*self._bindings, *free]:
            if binding.cell.sort is None and self._default is not None:
                binding.cell.assign(self._default)
            if binding.cell.sort is None and not failed:
                message = f"cannot tell the sort of '{binding.name}'"
                hint = f"write it: forall {binding.name}: sort. …"
                if binding.name in self.free and self.free[binding.name] is binding:
                    hint = f"'{binding.name}' must also occur in a predicate or function"
                self._error(message, binding.span, hint)
            elif binding.cell.sort == REAL:
                message = f"'{binding.name}' would range over numbers, which cannot be listed"
                self._error(message, binding.span)

    # --- walking ----------------------------------------------------------------------------

    def _enter(self, node: f.AnySyntax) -> None:
        match node:
            case f.Forall(binders) | f.Exists(binders):
                self._open(binders)
            case (
                f.Unary(bound=f.Bound() as bound, strict=strict)
                | f.Binary(bound=f.Bound() as bound, strict=strict)
            ):
                if bound.high is not None and bound.low > bound.high:
                    message = f"the bound [{bound.low},{bound.high}] is empty"
                    self._error(message, bound.span, f"write [{bound.high},{bound.low}]")
                elif bound.high == 0 and strict:
                    message = "the bound is the present, which a strict operator leaves out"
                    self._error(message, bound.span, "write [1], or leave out the '+'")
            case f.Var():
                self._terms.append((self._variable(node), node))
            case f.Const(name):
                cell = self.symbols.constants.get(name) or OpenSort()
                if name in self.symbols.constants:
                    self.symbols.used.add(name)
                self.resolved.append(cell)
                self._entities.append((node, cell))
                self._terms.append((cell, node))
            case f.Number():
                self._terms.append((OpenSort(REAL), node))
            case (
                f.Apply() | f.Truth() | f.Edge() | f.Atom() | f.Equal() | f.Compare() | f.Not()
                | f.And() | f.Or() | f.Implies() | f.Iff() | f.Unary() | f.Binary()
            ):  # fmt: skip
                pass
            case never:
                assert_never(never)

    def _leave(self, node: f.AnySyntax) -> None:
        match node:
            case f.Forall() | f.Exists():
                self._close()
            case f.Apply(name, args):
                result = self._call(node, name, self._pop(len(args)))
                self.resolved.append(result)
                self._terms.append((result, node))
            case f.Atom(name, args):
                self._atom(node, name, self._pop(len(args)))
            case f.Equal(left, right):
                (a, _), (b, _) = self._pop(2)
                if not a.join(b):
                    message = f"'{left}' is of sort {a.sort} and '{right}' of sort {b.sort}"
                    self._error(message, node.span, "only terms of one sort can be equal")
            case f.Compare():
                for cell, term in self._pop(2):
                    if not cell.join(OpenSort(REAL)):
                        message = f"'{term}' is of sort {cell.sort}, not a number"
                        hint = "comparisons are between numbers: function speed(car): real"
                        self._error(message, term.span, hint)
            case (
                f.Var() | f.Const() | f.Number() | f.Truth() | f.Edge() | f.Not() | f.And() | f.Or()
                | f.Implies() | f.Iff() | f.Unary() | f.Binary()
            ):  # fmt: skip
                pass
            case never:
                assert_never(never)

    def _pop(self, count: int) -> list[tuple[OpenSort, f.Term]]:
        if not count:
            return []
        taken = self._terms[-count:]
        del self._terms[-count:]
        return taken

    # --- names ------------------------------------------------------------------------------

    def _open(self, binders: tuple[f.Binder | f.Paired, ...]) -> None:
        frame: list[ScopedVariable] = []
        for item in binders:
            group = item.binders if isinstance(item, f.Paired) else (item,)
            cells = self._relation(item) if isinstance(item, f.Paired) else None
            bindings: list[ScopedVariable] = []
            for column, binder in enumerate(group):
                binding = ScopedVariable(
                    binder.name, self._unique(binder.name, frame), OpenSort(), binder.span
                )
                if binder.sort is not None:
                    self._annotate(binding, binder)
                if isinstance(item, f.Paired):
                    binding.relation, binding.column = item.relation, column
                    if cells and column < len(cells) and not binding.cell.join(cells[column]):
                        message = (
                            f"place {column + 1} of relation '{item.relation}' is of sort "
                            f"{cells[column].sort}, not {binding.cell.sort}"
                        )
                        self._error(message, binder.span)
                if any(other.name == binder.name for other in [*frame, *bindings]):
                    self._error(f"the variable '{binder.name}' is bound twice", binder.span)
                bindings.append(binding)
            axis = ",".join(b.unique for b in bindings)
            for binding in bindings:
                binding.axis = axis
            frame += bindings
        for binding in frame:
            self._env.setdefault(binding.name, []).append(binding)
        self._frames.append(frame)
        self._taken.update(binding.unique for binding in frame)
        self._bindings += frame
        self.resolved.append(frame)

    def _close(self) -> None:
        for binding in self._frames.pop():
            self._env[binding.name].pop()
            self._taken.discard(binding.unique)
            if not binding.used:
                message = f"the variable '{binding.name}' is bound but not used"
                self.diagnostics.append(warning(message, binding.span))

    def _unique(self, name: str, frame: list[ScopedVariable]) -> str:
        """Return the name, with a number if an enclosing quantifier already uses it."""
        taken = self._taken.union(b.unique for b in frame) if frame else self._taken
        if name not in taken:
            return name
        # each open quantifier has a smaller number, or none
        number = len(self._env.get(name, ())) or 1
        # A free variable may already have the generated name.
        while (made := f"{name}_{number}") in taken or made in self._names:
            number += 1
        return made

    def _annotate(self, binding: ScopedVariable, binder: f.Binder) -> None:
        sort = binder.sort
        assert sort is not None
        sorts = self.symbols.signature.sorts
        self.symbols.used_sorts.add(sort)
        if sort == REAL:
            message = f"'{binding.name}' would range over numbers, which cannot be listed"
            self._error(message, binder.span)
            return
        if sort not in sorts and not self.symbols.infer:
            hint = name_hint(sort, sorts, "declared sorts:")
            self._error(f"unknown sort '{sort}'", binder.span, hint)
            return
        binding.cell.assign(sort)

    def _relation(self, item: f.Paired) -> tuple[OpenSort, ...] | None:
        known = self.symbols.relations
        self.symbols.used.add(item.relation)
        if item.relation not in known:
            if not self.symbols.infer:
                hint = did_you_mean(item.relation, known) or (
                    f"declare it: relation {item.relation}(sort, sort)"
                )
                self._error(f"unknown relation '{item.relation}'", item.span, hint)
                return None
            known[item.relation] = tuple(OpenSort() for _ in item.binders)
        cells = known[item.relation]
        if len(cells) != len(item.binders):
            message = f"'{item.relation}' lists tuples of {len(cells)}, not of {len(item.binders)}"
            self._error(message, item.span)
        return cells

    def _variable(self, node: f.Var) -> OpenSort:
        stack = self._env.get(node.name)
        if stack:
            stack[-1].used = True
            self.resolved.append(stack[-1])
            return stack[-1].cell
        if node.name in self.symbols.constants:
            self.symbols.used.add(node.name)
            self.resolved.append(self.symbols.constants[node.name])
            return self.symbols.constants[node.name]
        if node.name not in self.free:
            self.free[node.name] = ScopedVariable(
                node.name, node.name, OpenSort(), node.span, axis=node.name
            )
        self.resolved.append(self.free[node.name])
        return self.free[node.name].cell

    def _call(self, node: f.Apply, name: str, args: list[tuple[OpenSort, f.Term]]) -> OpenSort:
        known = self.symbols.functions
        self.symbols.used.add(name)
        if name not in known:
            if not self.symbols.infer:
                self._unknown("function", name, node.span)
                return OpenSort()
            known[name] = (tuple(OpenSort() for _ in args), OpenSort())
        places, result = known[name]
        self._match("function", name, places, args, node.span)
        return result

    def _atom(self, node: f.Atom, name: str, args: list[tuple[OpenSort, f.Term]]) -> None:
        known = self.symbols.predicates
        self.symbols.used.add(name)
        if name not in known:
            if not self.symbols.infer:
                self._unknown("predicate", name, node.span)
                return
            known[name] = tuple(OpenSort() for _ in args)
        self._match("predicate", name, known[name], args, node.span)

    def _match(
        self,
        kind: str,
        name: str,
        places: tuple[OpenSort, ...],
        args: list[tuple[OpenSort, f.Term]],
        span: Span | None,
    ) -> None:
        if len(places) != len(args):
            form = f"{name}({', '.join(p.sort or '…' for p in places)})" if places else name
            message = f"{kind} '{name}' takes {_count(len(places))}, not {len(args)}"
            self._error(message, span, f"it is {form}")
            return
        for index, (place, (cell, term)) in enumerate(zip(places, args, strict=True)):
            if not place.join(cell):
                message = (
                    f"argument {index + 1} of '{name}' is of sort {place.sort}, "
                    f"but '{term}' is of sort {cell.sort}"
                )
                self._error(message, term.span)

    def _unknown(self, kind: str, name: str, span: Span | None) -> None:
        signature = self.symbols.signature
        spaces: dict[str, dict[str, object]] = {
            "predicate": dict(signature.predicates),
            "function": dict(signature.functions),
            "constant": dict(signature.constants),
            "relation": dict(signature.relations),
        }
        if kind == "predicate" and self._env.get(name):
            self._error(f"'{name}' is a variable, not a predicate", span)
            return
        other = next((k for k, names in spaces.items() if k != kind and name in names), None)
        if other is not None:
            self._error(f"'{name}' is a {other}, not a {kind}", span)
            return
        names = spaces[kind]
        hint = did_you_mean(name, names) or f"declared {kind}s: {listing(names)}"
        self._error(f"unknown {kind} '{name}'", span, hint)

    def _error(self, message: str, span: Span | None, hint: str | None = None) -> None:
        self.diagnostics.append(Diagnostic(message, span, hint))


def _count(number: int) -> str:
    return {0: "no arguments", 1: "1 argument"}.get(number, f"{number} arguments")
