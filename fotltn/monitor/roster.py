"""The entities that are present, and the facts about them in a batch of steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fotltn.logic import core as c
from fotltn.logic.signature import Signature

#: A binding: a name for each axis over a sort, a tuple of names for each axis over a relation.
Key = tuple[Any, ...]

#: The values of a function by arguments.
Results = dict[Key, Any]


class Roster:
    """The entities with the step at which each came, and the facts of a batch of steps.

    Attributes:
        start, count: the first step of the batch, and the number of its steps so far.
        full: a bit for each step of the batch, once it is complete.
        static: the degrees of static facts, by predicate and arguments.
        facts: for each predicate, the arguments for which it is true, with the steps as bits.
            Static facts have bits beyond the batch, too. The mappings stay the same objects.
        came: by sort and name, the step that first named an entity; 0 if the header did.
        relations: the tuples that paired variables range over.
    """

    def __init__(self, signature: Signature, threshold: float) -> None:
        """Start empty; a fact is true if its degree is at least the threshold."""
        self.signature, self.threshold = signature, threshold
        self.start = self.count = self.full = 0
        self.facts: dict[str, dict[Key, int]] = {name: {} for name in signature.predicates}
        self.changing = [n for n, p in signature.predicates.items() if not p.static]
        self.static: dict[str, dict[Key, float]] = {
            n: {} for n, p in signature.predicates.items() if p.static
        }
        self.recent: list[tuple[str, Key]] = []  # static facts of entities that came in this batch
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
        self.newest = 0  # the last step at which an entity came
        self.changes = 0  # counts changes of static facts

    def places(self, axis: c.Axis) -> Collection[Any]:
        """Return the entities or tuples that an axis ranges over."""
        if axis.relation is not None:
            return self.relations[axis.relation]
        return self.came[str(axis.sort)]

    def matching(self, axis: c.Axis, names: Mapping[int | None, str]) -> Collection[Any]:
        """Return the entities or tuples of an axis that match names, given by column."""
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
        """Return the steps of the batch at which all entities of a binding are present."""
        if self.settled:
            return self.full
        return self.full & -1 << max(self.since(axes, key) - self.start, 0)

    @property
    def settled(self) -> bool:
        """Whether all entities are present at all steps of the batch."""
        return self.newest <= self.start

    def since(self, axes: tuple[c.Axis, ...], key: Key) -> int:
        """Return the step since which all entities of a binding are present."""
        steps = [self.came[a.sort][n] for a, n in zip(axes, key, strict=True) if a.sort is not None]
        return max(steps, default=0)

    def value(self, function: str, args: Key, step: int) -> Any:
        """Return the value of a function at a step of the batch."""
        if function in self.results:
            return self.results[function][step].get(args, self.default)
        return self.fixed[function].get(args, self.default)

    @property
    def now(self) -> int:
        """The step that is entered next."""
        return self.start + self.count

    def begin(self, start: int) -> None:
        """Begin a batch of steps, with only the static facts."""
        for name in self.changing:
            self.facts[name].clear()
        for name, args in self.recent:
            self.facts[name][args] = -1
        self.recent.clear()
        self.start, self.count, self.full = start, 0, 0
        for results in self.results.values():
            results.clear()

    def seal(self) -> None:
        """Complete the batch."""
        self.full = (1 << self.count) - 1

    def add(self, sort: str, name: str, step: int) -> None:
        """Add an entity that is present from a step on."""
        self.came[sort][name] = self.newest = step

    def fix(self, name: str, args: Key, degree: float) -> None:
        """Set the degree of a static fact, from the step at which its entities are present."""
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
        """Return the names of entities by variable."""
        names: dict[str, str] = {}
        for axis, place in zip(axes, key, strict=True):
            if axis.relation is None:
                names[axis.name] = place
            else:
                names |= dict(zip(axis.name.split(","), place, strict=True))
        return names

    def forget(self, gone: Mapping[str, Collection[str]]) -> None:
        """Remove entities and their static facts."""
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
