"""A theory: declarations and named axioms, the in-memory form of a .fot file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fotltn.errors import BuildError, Span
from fotltn.syntax.formula import Formula


@dataclass(frozen=True, slots=True)
class SortDecl:
    """`sort agent`: a kind of entities."""

    name: str
    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PredicateDecl:
    """`predicate Stop(agent)`, or `static predicate Car(agent)` if time does not matter."""

    name: str
    sorts: tuple[str, ...] = ()
    static: bool = False
    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FunctionDecl:
    """`function owner(car): person`; `real` as the result makes it a number."""

    name: str
    sorts: tuple[str, ...]
    result: str
    static: bool = True
    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ConstantDecl:
    """`constant ego: car`: an entity that formulas may name."""

    name: str
    sort: str
    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RelationDecl:
    """`relation pairs(agent, agent)`: a list of tuples for paired variables."""

    name: str
    sorts: tuple[str, ...]
    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Axiom:
    """A named formula that should hold, with its weight."""

    name: str
    formula: Formula
    weight: float = 1.0
    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Include:
    """`include "other.fot"`: the declarations and axioms of another file."""

    path: str
    span: Span | None = field(default=None, kw_only=True, compare=False, repr=False)


Declaration = SortDecl | PredicateDecl | FunctionDecl | ConstantDecl | RelationDecl
Statement = Declaration | Axiom | Include


@dataclass(frozen=True, slots=True)
class Theory:
    """Declarations and axioms, in the order in which they are written."""

    declarations: tuple[Declaration, ...] = ()
    axioms: tuple[Axiom, ...] = ()

    def axiom(self, name: str) -> Axiom:
        """The axiom of that name."""
        for axiom in self.axioms:
            if axiom.name == name:
                return axiom
        from fotltn.errors import did_you_mean, listing

        names = [a.name for a in self.axioms]
        hint = did_you_mean(name, names) or f"axioms: {listing(names)}"
        raise BuildError(f"the theory has no axiom '{name}'; {hint}")

    def __getitem__(self, name: str) -> Axiom:
        """The axiom of that name."""
        return self.axiom(name)

    def __iter__(self) -> Iterator[Axiom]:
        """The axioms."""
        return iter(self.axioms)

    def __str__(self) -> str:
        """The text of the theory file."""
        from fotltn.syntax.show import show_theory

        return show_theory(self)

    def _repr_html_(self) -> str:
        from fotltn.syntax.show import theory_html

        return theory_html(self)
