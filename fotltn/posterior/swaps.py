"""Exchanges of entities, for hard axioms about one of many, such as "exactly one leads".

If tracks are drawn one at a time, no track can give way before another takes its place, and none
can take its place before. Instead, two entities exchange the facts of competing predicates, for
some time. An exchange that breaks more axioms is refused; other exchanges are accepted by the rule
of Metropolis.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from fotltn.logic.parts import predicates_in
from fotltn.posterior.clauses import Clause
from fotltn.posterior.structure import Structure
from fotltn.semantics.tables import Tables

#: The most exchanges of a sort in a sweep; a sort with fewer entities has one for each.
_MOST = 32

#: The cost of a broken cell while worlds do not obey yet, as a logarithm.
_BROKEN = 60.0


class DensityTerm(NamedTuple):
    """A term of the log-probability of worlds.

    Args:
        names: the predicates that it depends on.
        value: computes the term, with axes (world, trace).
    """

    names: frozenset[str]
    value: Callable[[], Tensor]


class Competition(Protocol):
    """The part of a sampler that exchanges need."""

    structure: Structure
    known: Tables
    tables: dict[str, Tensor]
    generator: torch.Generator

    def density_terms(self) -> list[DensityTerm]:
        """The terms of the log-probability of worlds."""

    def false_by_trace(self, clauses: Sequence[Clause]) -> Tensor:
        """Count the cells in which clauses are false, with axes (world, trace)."""

    def there(self, name: str) -> Tensor:
        """Where all arguments of a predicate are present."""

    def define_anew(self, names: Collection[str]) -> None:
        """Compute some defined predicates from free ones."""


class Swaps:
    """Exchanges of entities whose tracks hard axioms tie, although tracks move one at a time.

    Attributes:
        places: for each sort, the competing predicates with their arguments of that sort.
    """

    def __init__(self, sampler: Competition, anew: Collection[str] = ()) -> None:
        """Find the competing predicates.

        Args:
            sampler: the sampler.
            anew: predicates that do not compete, because all of their tracks are drawn anew
                together with what they are tied to.
        """
        self.sampler = sampler
        known = sampler.known
        self.places: dict[str, list[tuple[str, int]]] = {}
        for name in (n for n in _competing(sampler.structure) if n not in anew):
            decl = known.signature.predicates[name]
            for place, sort in enumerate(() if decl.static else decl.sorts):
                if known.sizes[sort] > 1:
                    self.places.setdefault(sort, []).append((name, place))
        self._changed = {sort: self._follow(sort) for sort in self.places}
        # Fast clauses come first, and clauses with defined predicates last.
        defined = {*sampler.structure.definitions}
        self._hard = sorted(
            (one for one in sampler.structure.clauses if one.weight is None),
            key=lambda one: (bool(predicates_in(one.body) & defined), len(one.axes)),
        )

    def _follow(self, sort: str) -> set[str]:
        """The predicates that an exchange changes, with the predicates that they define."""
        names = {name for name, _ in self.places[sort]}
        for name, definition in self.sampler.structure.definitions.items():
            if predicates_in(definition.formula) & names:
                names.add(name)
        return names

    def move(self) -> None:
        """Try exchanges in every trace of every world."""
        if not self.places:
            return
        self._terms = self.sampler.density_terms()
        self._worths = [term.value() for term in self._terms]
        self._broken = [self.sampler.false_by_trace([clause]) for clause in self._hard]
        for sort in self.places:
            for _ in range(min(_MOST, self.sampler.known.sizes[sort])):
                self._exchange(sort)

    def _exchange(self, sort: str) -> None:
        """Try one exchange; it is refused if it breaks more than before."""
        sampler, changed = self.sampler, self._changed[sort]
        shape = self._worths[0].shape
        inside = self._window(shape)
        turned = self._turned(sort, inside)
        old: dict[str, Tensor] = {}
        refused = torch.zeros(shape, dtype=torch.bool, device=inside.device)
        for name, place in self.places[sort]:
            table = sampler.tables[name]
            old.setdefault(name, table.clone())
            axes = [*shape, *[1] * (table.dim() - 2)]
            when = inside.reshape(*axes[:-1], -1)
            axes[2 + place] = -1
            there = table.gather(2 + place, turned.reshape(axes).expand_as(table))
            table.copy_(torch.where(when, there, table))
        same = ~refused
        for name, table in old.items():
            same &= (sampler.tables[name] == table).flatten(2).all(-1)
            # Absent entities have no true facts.
            refused |= (sampler.tables[name] & ~sampler.there(name)).flatten(2).any(-1)
        refused |= same  # an exchange without effect needs no test
        draw = torch.rand(
            shape, dtype=torch.float64, generator=sampler.generator, device=inside.device
        )
        broken = self._broken_now(changed, refused, old)
        if broken is None:
            for name, table in old.items():
                sampler.tables[name].copy_(table)
            return
        before, worths = _total(self._worths, self._broken), [*self._worths]
        for number, term in enumerate(self._terms):
            if term.names & changed:
                worths[number] = term.value()
        refused |= draw.log() > _total(worths, broken) - before
        for name, table in old.items():
            back = refused.reshape(*shape, *[1] * (table.dim() - 2))
            sampler.tables[name].copy_(torch.where(back, table, sampler.tables[name]))
        for held, new in ((self._worths, worths), (self._broken, broken)):
            held[:] = [torch.where(refused, a, b) for a, b in zip(held, new, strict=True)]

    def _broken_now(
        self, changed: Collection[str], refused: Tensor, old: dict[str, Tensor]
    ) -> list[Tensor] | None:
        """Count the broken cells of each hard clause; None once all exchanges are refused.

        Exchanges that break more than before are refused. Defined predicates are computed, unless
        all exchanges are refused first; their tables before that are added to `old`.
        """
        sampler, broken = self.sampler, [*self._broken]
        over = torch.zeros_like(broken[0]) if broken else torch.zeros_like(refused).long()
        numbers = [
            n for n, one in enumerate(self._hard) if predicates_in(one.body).intersection(changed)
        ]
        for number in numbers:
            over -= broken[number]
        defined = [name for name in sampler.structure.definitions if name in changed]
        waiting = True
        for number in numbers:
            if waiting and predicates_in(self._hard[number].body) & {*defined}:
                waiting = False
                self._define(defined, old)
            broken[number] = sampler.false_by_trace([self._hard[number]])
            over += broken[number]
            refused |= over > 0
            if bool(refused.all()):
                return None
        if waiting:
            self._define(defined, old)
        return broken

    def _define(self, names: Sequence[str], old: dict[str, Tensor]) -> None:
        old |= {name: self.sampler.tables[name].clone() for name in names}
        self.sampler.define_anew(names)

    def _window(self, shape: torch.Size) -> Tensor:
        """Draw when entities exchange facts: all the time, at one time point, or for a while."""
        sampler = self.sampler
        lengths, times = sampler.known.lengths, sampler.known.times
        draw = torch.rand(3, *shape, generator=sampler.generator, device=times.device)
        one, other = (draw[1:] * lengths).long()
        first, last = torch.minimum(one, other), torch.maximum(one, other)
        last = torch.where(draw[0] < 2 / 3, one, last)
        first = torch.where(draw[0] < 2 / 3, one, first)
        always = draw[0] < 1 / 3
        window: Tensor = (times >= first.unsqueeze(-1)) & (times <= last.unsqueeze(-1))
        return window | always.unsqueeze(-1)

    def _turned(self, sort: str, inside: Tensor) -> Tensor:
        """Draw pairs of entities to exchange: one with a true fact in the window, and any other.

        The number of entities with a true fact stays the same, so that an exchange and its reverse
        are equally likely.
        """
        sampler, shape = self.sampler, inside.shape[:2]
        number, device = sampler.known.sizes[sort], inside.device
        active = torch.zeros(*shape, number, dtype=torch.bool, device=device)
        for name, place in self.places[sort]:
            table = sampler.tables[name].movedim(2 + place, 2)
            when = inside.reshape(*shape, *[1] * (table.dim() - 3), -1)
            active |= (table & when).flatten(3).any(-1)
        draw = torch.rand(*shape, number, generator=sampler.generator, device=device)
        one = torch.where(active, draw, -1.0).argmax(-1, keepdim=True)
        draw = torch.rand(*shape, 1, generator=sampler.generator, device=device)
        other = (draw * (number - 1)).long()
        other = other + (other >= one)
        every = torch.arange(number, device=device).expand(*shape, -1)
        turned = every.scatter(2, one, other).scatter(2, other, one)
        return torch.where(active.any(-1, keepdim=True), turned, every)


def _total(worths: Sequence[Tensor], broken: Sequence[Tensor]) -> Tensor:
    """The log-probability of worlds, minus the costs of broken cells, with axes (world, trace)."""
    total = torch.zeros_like(worths[0])
    for worth in worths:
        total += worth
    return total - _BROKEN * sum(broken, torch.zeros_like(total, dtype=torch.int64))


def _competing(structure: Structure) -> Iterator[str]:
    """The free predicates of axioms that tie tracks which move one at a time."""
    names: set[str] = set()
    for clause in structure.clauses:
        if clause.axiom in structure.tied:
            names |= predicates_in(clause.body)
    for name, definition in reversed([*structure.definitions.items()]):
        if name in names or {*definition.axioms} & {*structure.tied}:
            names |= predicates_in(definition.formula)
    yield from (name for name in structure.free if name in names)
