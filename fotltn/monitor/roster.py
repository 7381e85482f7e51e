"""The entities that are present, and the facts about them in a batch of steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fotltn.logic import core as c
from fotltn.logic.signature import Signature

#: A binding: a name for each axis over a sort, a tuple of names for each axis over a relation.
Key = tuple[Any, ...]

#: The values of a function by arguments: one for all steps, or one for each of a batch.
Results = dict[Key, Any]


class Roster:
    """Entities with the step since which they are there, and the facts of some steps.

    Attributes:
        start, count: the first step of the batch, and how many there are so far.
        full: a bit for each of these steps, once all are there.
        static: the degrees of facts that do not change, by predicate and arguments.
        facts: for each predicate the arguments of which it is true, with the steps as bits; of
            static ones, beyond the batch as well. These mappings stay; what they hold changes.
        came: by sort and name, the step at which an entity was first named; 0 if it was before.
        relations: the tuples that paired variables run through.
    """

    def __init__(self, signature: Signature, threshold: float) -> None:
        """Nobody is there but constants; facts are true from a degree on."""
        self.signature, self.threshold = signature, threshold
        self.start = self.count = self.full = 0
        self.facts: dict[str, dict[Key, int]] = {name: {} for name in signature.predicates}
        self.changing = [n for n, p in signature.predicates.items() if not p.static]
        self.static: dict[str, dict[Key, float]] = {
            n: {} for n, p in signature.predicates.items() if p.static
        }
        self.recent: list[tuple[str, Key]] = []  # static facts of those who came in this batch
        self.came: dict[str, dict[str, int]] = {sort: {} for sort in signature.sorts}
        self.relations: dict[str, dict[Key, None]] = {name: {} for name in signature.relations}
        self.fixed: dict[str, Results] = {
            name: {} for name, function in signature.functions.items() if function.static
        }
        self.results: dict[str, list[Results]] = {
            name: [] for name, function in signature.functions.items() if not function.static
        }
        self.default: float | None = None
        self._index: dict[tuple[Any, ...], dict[Key, list[Key]]] = {}  # tuples by some columns
        self.newest = 0  # the last step at which somebody came
        self.changes = 0  # of what is static

    def places(self, axis: c.Axis) -> Collection[Any]:
        """What an axis runs over."""
        if axis.relation is not None:
            return self.relations[axis.relation]
        return self.came[str(axis.sort)]

    def matching(self, axis: c.Axis, names: Mapping[int | None, str]) -> Collection[Any]:
        """The places of an axis with these entities, by column of its tuples."""
        if None in names:
            return (names[None],)
        places = self.places(axis)
        if not names:
            return places
        if (axis.relation, *names) not in self._index:
            index: dict[Key, list[Key]] = {}
            for place in places:
                index.setdefault(tuple(place[i] for i in names if i is not None), []).append(place)
            self._index[axis.relation, *names] = index
        return self._index[axis.relation, *names].get(tuple(names.values()), ())

    def there(self, axes: tuple[c.Axis, ...], key: Key) -> int:
        """The steps at which all entities of a binding are there."""
        if self.settled:
            return self.full
        return self.full & -1 << max(self.since(axes, key) - self.start, 0)

    @property
    def settled(self) -> bool:
        """Whether all who may be in a binding are there at all steps."""
        return self.newest <= self.start

    def since(self, axes: tuple[c.Axis, ...], key: Key) -> int:
        """The step since which all entities of a binding are there."""
        steps = [self.came[a.sort][n] for a, n in zip(axes, key, strict=True) if a.sort is not None]
        return max(steps, default=0)

    def value(self, function: str, args: Key, step: int) -> Any:
        """The value of a function at a step of the batch."""
        if function in self.results:
            return self.results[function][step].get(args, self.default)
        return self.fixed[function].get(args, self.default)

    @property
    def now(self) -> int:
        """The step that is entered."""
        return self.start + self.count

    def begin(self, start: int) -> None:
        """Go on to a batch of steps, of which nothing is stated yet but what is static."""
        for name in self.changing:
            self.facts[name].clear()
        for name, args in self.recent:
            self.facts[name][args] = -1
        self.recent.clear()
        self.start, self.count, self.full = start, 0, 0
        for results in self.results.values():
            results.clear()

    def seal(self) -> None:
        """All steps of the batch are there."""
        self.full = (1 << self.count) - 1

    def add(self, sort: str, name: str, step: int) -> None:
        """Somebody is there from a step on."""
        self.came[sort][name] = self.newest = step

    def fix(self, name: str, args: Key, degree: float) -> None:
        """A static fact has a degree, from when its entities are there."""
        self.static[name][args] = degree
        self.changes += 1
        if degree < self.threshold:
            return
        sorts = self.signature.predicates[name].sorts
        step = max((self.came[s][n] for s, n in zip(sorts, args, strict=True)), default=0)
        self.facts[name][args] = -1
        if step > self.start:
            self.facts[name][args] <<= step - self.start
            self.recent.append((name, args))

    def binding(self, axes: tuple[c.Axis, ...], key: Key) -> dict[str, str]:
        """The names of entities by variable."""
        names: dict[str, str] = {}
        for axis, place in zip(axes, key, strict=True):
            if axis.relation is None:
                names[axis.name] = place
            else:
                names |= dict(zip(axis.name.split(","), place, strict=True))
        return names

    def forget(self, gone: Mapping[str, Collection[str]]) -> None:
        """Strike entities off."""
        self.changes += 1
        for sort, names in gone.items():
            for name in names:
                del self.came[sort][name]
        for name, degrees in self.static.items():
            sorts = self.signature.predicates[name].sorts
            if gone.keys() & set(sorts):
                for args in list(degrees):
                    if any(n in gone.get(s, ()) for s, n in zip(sorts, args, strict=True)):
                        del degrees[args]
                        self.facts[name].pop(args, None)
