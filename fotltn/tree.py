"""Immutable nodes, and all traversals over them.

Every expression of the package (formulas, their checked core, the algebra) is built from `Node`.
Hashes and children are computed once, when a node is created. Nothing here recurses: a formula
nested a hundred thousand levels deep is compared, hashed and walked like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import attrgetter, is_
from typing import Any, TypeVar

from fotltn.stop import may_go_on

N = TypeVar("N", bound="Node")
R = TypeVar("R")


class Node:
    """The base class of frozen dataclasses that compare by structure, without recursion.

    Subclasses are `@dataclass(frozen=True, slots=True, eq=False, repr=False)`. Positional fields
    make up the structure; keyword-only fields, such as a source span, are ignored in comparisons.
    """

    __slots__ = ("_children", "_hash", "_written")
    _children: tuple[Node, ...]
    _hash: int
    _written: int

    def __post_init__(self) -> None:
        """Compute the hash from the known hashes of the parts, and list the children."""
        fields = parts(self)
        below: list[Node] = []
        for part in fields:
            if isinstance(part, Node):
                below.append(part)
            elif isinstance(part, tuple):
                below += [item for item in part if isinstance(item, Node)]
        put = object.__setattr__
        put(self, "_hash", hash((type(self).__qualname__, *fields)))
        put(self, "_children", tuple(below))
        put(self, "_written", 1 + sum([child._written for child in below]))

    def __hash__(self) -> int:
        """Return the hash that was computed at construction."""
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Compare by structure."""
        if self is other:
            return True
        if not isinstance(other, Node):
            return NotImplemented
        return self._hash == other._hash and _same(self, other)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a list of nodes, children first, because a list has no depth limit."""
        order = list(postorder(self))
        index = {node: number for number, node in enumerate(order)}
        return _rebuild, ([(type(n), [_packed(p, index) for p in parts(n)]) for n in order],)

    def __copy__(self: N) -> N:
        """Return the node itself, because it is frozen."""
        return self

    def __deepcopy__(self: N, memo: dict[int, Any]) -> N:
        """Return the node itself, because it is frozen."""
        return self


def parts(node: Node) -> tuple[Any, ...]:
    """Return the structural fields of a node, in order."""
    return _reader(type(node))(node)  # type: ignore[arg-type]


@cache
def _reader(kind: type[Node]) -> Callable[[Node], tuple[Any, ...]]:
    names: tuple[str, ...] = kind.__match_args__  # type: ignore[attr-defined]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda node: tuple(getattr(node, name) for name in names)


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below a node, in field order; tuples are flattened."""
    return node._children


def written_out(node: Node) -> int:
    """Return the number of nodes in the tree, counting shared parts each time."""
    return node._written


def postorder(*roots: N) -> Iterator[N]:
    """Yield each distinct node once, children before parents."""
    done: set[Node] = set()
    path: list[Any] = []  # the nodes that wait for their children
    rests: list[Iterator[Any]] = [iter(roots)]  # the nodes still to visit below each of them
    while rests:
        for node in rests[-1]:
            if node in done:
                continue
            if node._children:
                path.append(node)
                rests.append(iter(node._children))
                break
            done.add(node)
            yield node
        else:
            rests.pop()
            if path:
                node = path.pop()
                done.add(node)
                yield node


def fold(root: Node, visit: Callable[[Any, list[R]], R]) -> R:
    """Compute bottom-up: `visit(node, results of its children)`; equal nodes are visited once.

    A result is released after its last use.
    """
    order = list(postorder(root))
    last = {child: node for node in order for child in node._children}  # the last user of each
    results: dict[Node, R] = {}
    for node in order:
        may_go_on()
        below = node._children
        results[node] = visit(node, [results[child] for child in below])
        for child in below:
            if last[child] is node:
                results.pop(child, None)
    return results[root]


def transform(root: N, rule: Callable[[Any], Any]) -> N:
    """Rebuild bottom-up: `rule(node)` gets a node whose children are already rebuilt.

    If the result equals the old node, the old one is kept, so nothing above it is rebuilt.
    """
    results: dict[Node, Any] = {}
    for node in postorder(root):
        new = rule(rebuilt(node, [results[child] for child in node._children]))
        results[node] = node if new == node else new
    return results[root]  # type: ignore[no-any-return]


def rebuilt(node: N, below: Sequence[Node]) -> N:
    """Return the same kind of node with other children, in the order of `children`."""
    if all(map(is_, below, node._children)):
        return node
    rest = iter(below)

    def renewed(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(next(rest) if isinstance(item, Node) else item for item in part)
        return next(rest) if isinstance(part, Node) else part

    return type(node)(*map(renewed, parts(node)))


def events(root: Node) -> Iterator[tuple[bool, Any]]:
    """Walk a tree: yield `(True, node)` before its children, `(False, node)` after them."""
    stack: list[tuple[bool, Node]] = [(True, root)]
    while stack:
        entering, node = stack.pop()
        yield entering, node
        if entering:
            stack.append((False, node))
            stack.extend((True, child) for child in reversed(children(node)))


def descend(roots: Iterable[N], below: Callable[[N], Iterable[N]]) -> list[N]:
    """Return each distinct node once, parents first, descending only to what `below` returns."""
    seen: dict[N, None] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen[node] = None
            stack.extend(below(node))
    return list(seen)


def depth(root: Node) -> int:
    """Return the number of nodes on the longest path from the root to a leaf."""
    return fold(root, lambda _, below: 1 + max(below, default=0))


class _Ref(int):
    """The number of a node in a pickled list."""


def _packed(part: Any, index: dict[Node, int]) -> Any:
    if isinstance(part, Node):
        return _Ref(index[part])
    return tuple(_packed(p, index) for p in part) if isinstance(part, tuple) else part


def _rebuild(rows: list[tuple[type[Node], list[Any]]]) -> Node:
    made: list[Node] = []

    def unpacked(part: Any) -> Any:
        if isinstance(part, _Ref):
            return made[part]
        return tuple(map(unpacked, part)) if isinstance(part, tuple) else part

    for kind, values in rows:
        made.append(kind(*map(unpacked, values)))
    return made[-1]


def _same(left: Node, right: Node) -> bool:
    stack: list[tuple[Any, Any]] = [(left, right)]
    seen: set[tuple[int, int]] = set()
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        if isinstance(a, Node):
            if type(a) is not type(b) or a._hash != b._hash:
                return False
            if (id(a), id(b)) not in seen:
                seen.add((id(a), id(b)))
                stack.extend(_pairs(parts(a), parts(b)))
        elif isinstance(a, tuple):
            if not isinstance(b, tuple) or len(a) != len(b):
                return False
            stack.extend(_pairs(a, b))
        elif type(a) is not type(b) or a != b:
            return False
    return True


def _pairs(left: Iterable[Any], right: Iterable[Any]) -> Iterable[tuple[Any, Any]]:
    return zip(left, right, strict=True)
