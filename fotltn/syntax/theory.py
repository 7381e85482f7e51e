"""Theories: declarations and named axioms, as a .fot file states them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from fotltn.errors import BuildError, name_hint
from fotltn.syntax.formula import Formula, Placed


@dataclass(frozen=True, slots=True)
class SortDecl(Placed):
    """`sort agent`: a kind of entity."""

    name: str


@dataclass(frozen=True, slots=True)
class PredicateDecl(Placed):
    """`predicate Stop(agent)`, or `static predicate Car(agent)` if it is the same at all times."""

    name: str
    sorts: tuple[str, ...] = ()
    static: bool = False


@dataclass(frozen=True, slots=True)
class FunctionDecl(Placed):
    """`function owner(car): person`; the result sort `real` makes it a number."""

    name: str
    sorts: tuple[str, ...]
    result: str
    static: bool = True


@dataclass(frozen=True, slots=True)
class ConstantDecl(Placed):
    """`constant ego: car`: an entity that formulas can name."""

    name: str
    sort: str


@dataclass(frozen=True, slots=True)
class RelationDecl(Placed):
    """`relation pairs(agent, agent)`: a list of tuples for paired variables."""

    name: str
    sorts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Axiom(Placed):
    """A named formula: soft with a weight if it should hold, hard if it holds in every world."""

    name: str
    formula: Formula
    weight: float = 1.0
    hard: bool = False

    def __post_init__(self) -> None:
        """Raise an error if a hard axiom has a weight."""
        if self.hard and self.weight != 1.0:
            raise BuildError(f"the hard axiom '{self.name}' has a weight; only soft axioms may")


@dataclass(frozen=True, slots=True)
class Include(Placed):
    """`include "other.fot"`: the declarations and axioms of another file."""

    path: str


Declaration = SortDecl | PredicateDecl | FunctionDecl | ConstantDecl | RelationDecl
Statement = Declaration | Axiom | Include


def sorts_of(item: Declaration) -> tuple[str, ...]:
    """Return the sorts that a declaration mentions: first of its arguments, then of its result."""
    match item:
        case SortDecl():
            return ()
        case PredicateDecl(_, sorts) | RelationDecl(_, sorts):
            return sorts
        case FunctionDecl(_, sorts, result):
            return (*sorts, result)
        case ConstantDecl(_, sort):
            return (sort,)
        case never:
            assert_never(never)


@dataclass(frozen=True, slots=True)
class Theory:
    r"""Declarations and axioms, in the order in which they are written.

    `fotltn.parse` and `fotltn.load` return one. Use it to pass the same theory to several
    functions, or to look at its axioms: index it with the name of an axiom, or iterate over it.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> [axiom.name for axiom in theory]
    ['Obey']
    >>> print(theory["Obey"].formula)
    G(Near -> WX Stop)
    """

    declarations: tuple[Declaration, ...] = ()
    axioms: tuple[Axiom, ...] = ()

    def axiom(self, name: str) -> Axiom:
        """Return the axiom with this name."""
        for axiom in self.axioms:
            if axiom.name == name:
                return axiom
        names = [a.name for a in self.axioms]
        hint = name_hint(name, names, "axioms:")
        raise BuildError(f"the theory has no axiom '{name}'; {hint}")

    def __getitem__(self, name: str) -> Axiom:
        """Return the axiom with this name."""
        return self.axiom(name)

    def __iter__(self) -> Iterator[Axiom]:
        """Iterate over the axioms."""
        return iter(self.axioms)

    def __str__(self) -> str:
        """Return the text of the theory file."""
        from fotltn.syntax.show import show_theory

        return show_theory(self)

    def _repr_html_(self) -> str:
        from fotltn.syntax.show import theory_html

        return theory_html(self)
