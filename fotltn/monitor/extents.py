"""Sets of bindings for which a formula may be true, found by joining the stated facts."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence, Set
from itertools import compress
from typing import NamedTuple

from fotltn.monitor.domain import Axes
from fotltn.monitor.roster import Key, Roster


class Extent(NamedTuple):
    """A set of bindings, or the complement of a set.

    Args:
        axes: the axes of the bindings.
        keys: the bindings.
        inside: whether the extent is these bindings; otherwise, all others.
        exact: whether the formula is true for every binding of the extent.
    """

    axes: Axes
    keys: Set[Key]
    inside: bool
    exact: bool

    def every(self, axes: Axes, roster: Roster) -> Iterable[Key]:
        """Return all bindings of the extent, over more axes."""
        if self.inside:
            return widened(self.axes, self.keys, axes, roster)
        keys = widened((), {()}, axes, roster)
        if not self.keys:
            return keys
        pick = picker(axes, self.axes) or tuple
        return (key for key in keys if pick(key) not in self.keys)


NOTHING = Extent((), frozenset(), True, True)
EVERYTHING = Extent((), frozenset(), False, False)


def picker(axes: Axes, wanted: Axes) -> Callable[[Key], Key] | None:
    """Return a function that takes some axes out of a binding; None if it would take all."""
    places = [axes.index(a) for a in wanted]
    if places == list(range(len(axes))):
        return None
    first = places[0] if places else 0
    if places == list(range(first, first + len(places))):
        return operator.itemgetter(slice(first, first + len(places)))
    return operator.itemgetter(*places)


def widened(mine: Axes, keys: Iterable[Key], axes: Axes, roster: Roster) -> Iterable[Key]:
    """Return bindings over more axes, or over the same axes in another order."""
    if mine == axes or not keys:
        return keys
    missing = [a for a in axes if a not in mine]
    order = picker((*mine, *missing), axes)
    more = [list(roster.places(a)) for a in missing]
    wide = ((*key, *rest) for key in keys for rest in itertools.product(*more))
    return wide if order is None else map(order, wide)


def meet(parts: Sequence[Extent]) -> Extent:
    """Return the intersection of extents; the smallest are joined first."""
    exact = True
    narrow: list[tuple[Axes, Set[Key]]] = []
    others: list[Extent] = []
    for part in parts:
        exact &= part.exact
        if not part.inside:
            if part.keys:
                others.append(part)
        elif not part.keys:
            return NOTHING
        else:
            for place, (axes, keys) in enumerate(narrow):
                if axes == part.axes:
                    narrow[place] = axes, keys & part.keys
                    break
            else:
                narrow.append((part.axes, part.keys))
    if not narrow:
        if others and all(part.axes == others[0].axes for part in others):
            keys = others[0].keys
            for part in others[1:]:
                keys = keys | part.keys
            return Extent(others[0].axes, keys, False, exact)
        return Extent((), frozenset(), False, exact and not others)
    axes, keys = narrow[0] if len(narrow) == 1 else joined(dict(narrow))
    for part in others:
        if not keys:
            break
        if part.axes == axes:
            keys = keys - part.keys
        elif set(part.axes) <= set(axes):
            pick = picker(axes, part.axes) or tuple
            keys = {key for key in keys if pick(key) not in part.keys}
        else:
            exact = False
    return Extent(axes, keys, True, exact)


def joined(parts: dict[Axes, Set[Key]]) -> tuple[Axes, Set[Key]]:
    """Return the natural join of sets of bindings, and its axes."""
    order = sorted(parts, key=lambda axes: (-len(axes), len(parts[axes])))
    axes = order.pop(0)
    keys = parts[axes]
    while order and keys:
        bound = set(axes)
        within = next((other for other in order if set(other) <= bound), None)
        if within is not None:
            order.remove(within)
            pick = picker(axes, within)
            assert pick is not None  # `within` has fewer axes, or another order
            inside = parts[within].__contains__
            keys = set(compress(keys, map(inside, map(pick, keys))))
            continue
        other = max(order, key=lambda more: (len(bound & set(more)), -len(parts[more])))
        order.remove(other)
        shared = tuple(a for a in axes if a in other)
        rest = tuple(a for a in other if a not in bound)
        here, there, more = picker(axes, shared), picker(other, shared), picker(other, rest)
        index: dict[Key, list[Key]] = {}
        for key in parts[other]:
            index.setdefault(there(key) if there else key, []).append(more(key) if more else key)
        keys = {(*key, *end) for key in keys for end in index.get(here(key) if here else key, ())}
        axes = (*axes, *rest)
    if order:  # the join is empty; its axes are still all axes
        axes = (*axes, *dict.fromkeys(a for other in order for a in other if a not in axes))
    return axes, keys


def union(parts: Sequence[Extent], roster: Roster) -> Extent:
    """Return the union of extents."""
    exact = all(part.exact for part in parts)
    first = parts[0]
    alike = all(part.axes == first.axes for part in parts)
    if all(part.inside for part in parts):
        axes = first.axes
        if not alike:
            axes = tuple(dict.fromkeys(a for part in parts for a in part.axes))
        keys: Set[Key] = frozenset()
        for part in parts:
            if part.keys:
                wide = part.keys if alike else set(widened(part.axes, part.keys, axes, roster))
                keys = keys | wide if keys else wide
        return Extent(axes, keys, True, exact)
    if not alike:
        return EVERYTHING
    keys = next(part.keys for part in parts if not part.inside)
    for part in parts:
        keys = keys - part.keys if part.inside else keys & part.keys
    return Extent(first.axes, keys, False, exact)
