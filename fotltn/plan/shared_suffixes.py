"""Merge equal chains of operations at the ends of formulas, and apply each chain once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fotltn.algebra import expr as e
from fotltn.plan.plan import Step, Tail

Ending = e.Affine | e.Power | e.Root


def tails(roots: Mapping[str, e.Expr], steps: Sequence[Step]) -> tuple[Tail, ...]:
    """Return groups of at least two roots that end in the same chain on numbers."""
    uses = Counter(i for step in steps for i in step.inputs)
    planned = {step.node for step in steps}
    groups: dict[tuple[object, ...], list[list[Ending]]] = {}
    for root in dict.fromkeys(roots.values()):
        chain = _chain(root, uses, planned)
        if chain:
            groups.setdefault(tuple(map(e.settings, chain)), []).append(chain)
    return tuple(
        Tail(
            tuple(chains[0]),
            tuple(chain[0].x for chain in chains),
            tuple(chain[-1] for chain in chains),
            frozenset(node for chain in chains for node in chain),
        )
        for chains in groups.values()
        if len(chains) > 1
    )


def _chain(root: e.Expr, uses: Counter[e.Expr], planned: set[e.Expr]) -> list[Ending]:
    """Return the last operations on one number that only this root uses, innermost first."""
    chain: list[Ending] = []
    node = root
    while (
        isinstance(node, Ending)
        and node in planned
        and not node.axes
        and not node.timed
        and uses[node] == (0 if node is root else 1)
    ):
        chain.append(node)
        node = node.x
    return chain[::-1]
