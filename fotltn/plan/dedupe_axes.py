"""Find parts that are equal up to the name of their only axis, such as P(x)^4 and P(y)^4."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from fotltn.algebra import expr as e
from fotltn.logic.core import Axis
from fotltn.plan.plan import Route, Step

_ROUTES = {Route.POINTWISE, Route.SHIFT, Route.SCAN, Route.POINT, Route.PAIRS}


class Twins:
    """Numbers for shapes: two parts with the same number differ only in the name of an axis."""

    def __init__(self, cut: Collection[Axis] = ()) -> None:
        """Start empty; axes that are `cut` have no twins, because they are parts of other axes."""
        self._cut = frozenset(cut)
        self._numbers: dict[Hashable, int] = {}
        self._shapes: dict[e.Expr, int] = {}
        self._first: dict[int, e.Expr] = {}

    def find(self, step: Step) -> e.Expr | None:
        """Return an earlier part with the same values as this one, or None."""
        key = self._key(step)
        if key is None:
            return None
        number = self._numbers.setdefault(key, len(self._numbers))
        self._shapes[step.node] = number
        first = self._first.setdefault(number, step.node)
        return first if first is not step.node and step.route is not Route.TABLE else None

    def _key(self, step: Step) -> Hashable | None:
        node = step.node
        if node.axes & self._cut:
            return None
        if step.route is Route.TABLE:
            assert isinstance(node, e.TableLeaf)
            axes = e.argument_axes(node)
            if axes is None or len(axes) != 1 or axes[0].sort is None:
                return None
            return (node.predicate, axes[0].sort)
        if step.route not in _ROUTES or len(node.axes) != 1 or not step.inputs:
            return None
        if any(i not in self._shapes for i in step.inputs):
            return None
        # until at a single time point is one step, with the settings of both nodes
        inner = e.settings(node.x) if isinstance(node, e.At) and step.route is Route.PAIRS else ()
        return (e.settings(node), inner, tuple(self._shapes[i] for i in step.inputs))
