"""The ends of formulas are often the same chain of operations on one number: done all at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fotltn.algebra import expr as e
from fotltn.plan.plan import Step, Tail


def tails(roots: Mapping[str, e.Expr], steps: Sequence[Step]) -> tuple[Tail, ...]:
    """Groups of at least two roots that end in the same chain on numbers."""
    uses = Counter(i for step in steps for i in step.inputs)
    planned = {step.node for step in steps}
    groups: dict[tuple[object, ...], list[tuple[e.Expr, list[e.Expr]]]] = {}
    for root in dict.fromkeys(roots.values()):
        chain = _chain(root, uses, planned)
        if chain:
            key = tuple(_setting(node) for node in chain)
            groups.setdefault(key, []).append((root, chain))
    return tuple(
        Tail(
            tuple(found[0][1]),
            tuple(_inner(chain[0]) for _, chain in found),
            tuple(root for root, _ in found),
            frozenset(node for _, chain in found for node in chain),
        )
        for found in groups.values()
        if len(found) > 1
    )


def _chain(root: e.Expr, uses: Counter[e.Expr], planned: set[e.Expr]) -> list[e.Expr]:
    """The operations on one number at the end of a root that nothing else uses, innermost first."""
    found: list[e.Expr] = []
    node = root
    while (
        isinstance(node, e.Affine | e.Power | e.Root)
        and node in planned
        and not node.axes
        and not node.timed
        and uses[node] == (0 if node is root else 1)
    ):
        found.append(node)
        node = node.x
    return found[::-1]


def _inner(node: e.Expr) -> e.Expr:
    assert isinstance(node, e.Affine | e.Power | e.Root)
    return node.x


def _setting(node: e.Expr) -> tuple[object, ...]:
    match node:
        case e.Affine(_, scale, offset):
            return "affine", scale, offset
        case e.Power(_, p):
            return "power", p
        case e.Root(_, p):
            return "root", p
    raise AssertionError(node)
