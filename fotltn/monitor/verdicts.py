"""From the states of leaves to the verdict on an axiom, and to the binding that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from fotltn.logic import core as c
from fotltn.logic.signature import Signature
from fotltn.monitor.domain import Array, Domain
from fotltn.monitor.normal import Join, Leaf, Outer, Over

Axes = tuple[c.Axis, ...]


class Verdict(StrEnum):
    """What is certain of an axiom on a trace that goes on."""

    SATISFIED = "satisfied"  # it will be true, whatever comes
    VIOLATED = "violated"  # it will be false, whatever comes
    OPEN = "open"


class Found(NamedTuple):
    """What is known of a formula: true whatever comes, false whatever comes, true if it ends now.

    Arrays with axes (step, named axes …).
    """

    axes: Axes
    sure: Array
    lost: Array
    end: Array


def walk(tree: Outer) -> Iterator[Outer]:
    """All parts of a tree, inner ones first."""
    stack: list[tuple[Outer, bool]] = [(tree, False)]
    while stack:
        node, ready = stack.pop()
        if ready or isinstance(node, Leaf):
            yield node
            continue
        stack.append((node, True))
        below = node.parts if isinstance(node, Join) else (node.body,)
        stack.extend((part, False) for part in reversed(below))


class Outcome:
    """Puts the leaves of axioms together."""

    def __init__(
        self, domain: Domain, signature: Signature, relations: Mapping[str, Array]
    ) -> None:
        """For these entities, who may become more."""
        self.domain, self.signature, self.relations = domain, signature, relations

    def whole(self, tree: Outer, leaf: Callable[[int, Leaf], Found]) -> list[Found]:
        """What is known of each part of a tree, in the order of `walk`.

        Args:
            tree: the tree.
            leaf: what is known of a leaf, by its number among the leaves.
        """
        found: list[Found] = []
        waiting: list[Found] = []
        leaves = 0
        for node in walk(tree):
            match node:
                case Leaf():
                    here = leaf(leaves, node)
                    leaves += 1
                case Join(universal, parts):
                    here = _join(universal, waiting[-len(parts) :])
                    del waiting[-len(parts) :]
                case Over(universal, axes):
                    here = self._over(universal, axes, waiting.pop())
            waiting.append(here)
            found.append(here)
        return found

    def _over(self, universal: bool, bound: Axes, body: Found) -> Found:
        sure: Array = body.sure
        lost: Array = body.lost
        end: Array = body.end
        kept = tuple(a for a in body.axes if a not in bound)
        dims = tuple(1 + body.axes.index(a) for a in bound if a in body.axes)
        index: list[Any] = [slice(None)] * sure.ndim
        for axis in bound:
            if axis in body.axes and axis.sort is not None:
                index[1 + body.axes.index(axis)] = self.domain.seen(axis.sort)
        here = tuple(index)
        every, some = np.logical_and.reduce, np.logical_or.reduce
        if universal:
            sure, lost, end = every(sure, dims), some(lost[here], dims), every(end[here], dims)
        else:
            sure, lost, end = some(sure[here], dims), every(lost, dims), some(end[here], dims)
        for axis in bound:
            if axis not in body.axes and self._count(axis) == 0:
                # Over nobody: decided now, but somebody may come.
                grows = axis.sort is not None and self.domain.strangers(axis.sort) > 0
                end = np.full_like(end, universal)
                if universal:
                    sure, lost = (sure if grows else np.full_like(sure, True)), lost & False
                else:
                    sure, lost = sure & False, (lost if grows else np.full_like(lost, True))
        return Found(kept, sure, lost, end)

    def _count(self, axis: c.Axis) -> int:
        if axis.relation is not None:
            return len(self.relations[axis.relation])
        return len(self.domain.names[str(axis.sort)])

    def blame(self, tree: Outer, found: list[Found], *, ended: bool) -> dict[str, str]:
        """The first binding of the outermost universal quantifiers that breaks an axiom.

        Args:
            tree: of the axiom.
            found: what is known of each part, at one step.
            ended: whether the trace ends there.
        """
        nodes = list(walk(tree))
        known = {id(node): part for node, part in zip(nodes, found, strict=True)}
        places: dict[c.Axis, int] = {}

        def bad(node: Outer) -> tuple[Axes, Array]:
            part = known[id(node)]
            wrong = (~part.end if ended else part.lost)[0]
            free = tuple(a for a in part.axes if a not in places)
            index = tuple(places.get(a, slice(None)) for a in part.axes)
            return free, wrong[index]

        node = tree
        while True:
            match node:
                case Join(True, parts):
                    node = next(p for p in parts if bool(bad(p)[1].any()))
                case Over(True, _, body):
                    free, wrong = bad(body)
                    for dim, axis in enumerate(free):
                        if axis.sort is not None:  # strangers do not count
                            hidden: list[Any] = [slice(None)] * wrong.ndim
                            hidden[dim] = slice(0, self.domain.strangers(axis.sort))
                            wrong = wrong.copy()
                            wrong[tuple(hidden)] = False
                    if not wrong.any():  # nobody is there, and that is wrong elsewhere
                        return self._named(places)
                    first = np.argwhere(wrong)[0].tolist()
                    places.update(zip(free, first, strict=True))
                    node = body
                case _:
                    return self._named(places)

    def _named(self, places: Mapping[c.Axis, int]) -> dict[str, str]:
        found = {}
        for axis, number in places.items():
            if axis.relation is None:
                found[axis.name] = self.domain.name(str(axis.sort), number)
                continue
            sorts = self.signature.relations[axis.relation].sorts
            numbers = self.relations[axis.relation][number].tolist()
            for variable, sort, entity in zip(axis.name.split(","), sorts, numbers, strict=True):
                found[variable] = self.domain.name(sort, entity)
        return found


def _join(universal: bool, parts: list[Found]) -> Found:
    axes = tuple(dict.fromkeys(a for p in parts for a in p.axes))

    def aligned(name: str) -> list[Array]:
        found = []
        for part in parts:
            array: Array = getattr(part, name)
            order = [0, *(1 + part.axes.index(a) for a in axes if a in part.axes)]
            index = (slice(None), *(slice(None) if a in part.axes else None for a in axes))
            found.append(array.transpose(order)[index])
        return found

    def over(name: str, every: bool) -> Array:
        first, *rest = aligned(name)
        for array in rest:
            first = first & array if every else first | array
        return first

    return Found(axes, over("sure", universal), over("lost", not universal), over("end", universal))
