"""The page of two side by side: axioms, predicates, and where their predictions differ."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from fotltn.errors import FotError
from fotltn.reporting.typeset import typeset
from fotltn.web.parameters import Parameters
from fotltn.web.responses import RefusedError, answer
from fotltn.web.rows import Table
from fotltn.web.state import WebState
from fotltn.web.views import described, frame


async def compare(state: WebState, request: Request) -> Response:
    """Two that are inspected, axiom by axiom and predicate by predicate."""
    Parameters(request, ())
    if len(state.sides) != 2:
        raise RefusedError(
            404, "there is nothing to compare with", "start with two: fotltn inspect MODEL OTHER"
        )
    order = list(dict.fromkeys(a.name for s in state.sides for a in s.theory.axioms))
    axioms = [await _axiom(state, name) for name in order]
    known = [list(s.theory.signature.predicates) for s in state.sides]
    both = [n for n in known[0] if n in known[1]]
    content = {
        "inspected": [described(s) for s in state.sides],
        "comparable": state.comparable,
        "axioms": axioms,
        "predicates": [await _predicate(state, name) for name in both],
    }
    sources = {a.name: a.source for s in reversed(state.sides) for a in s.theory.axioms}
    shown = {name: Markup(typeset(source)) for name, source in sources.items()}
    return answer(request, "compare.html", content, {**frame(state, request), "shown": shown})


async def _axiom(state: WebState, name: str) -> dict[str, Any]:
    values: list[float | None] = []
    rates: list[float | None] = []
    for side, inspected in enumerate(state.sides):
        seen = None
        if any(a.name == name for a in inspected.theory.axioms):
            try:
                seen = await state.seen(side, name)
            except FotError:
                seen = None
        values.append(None if seen is None else seen.value)
        rates.append(None if seen is None else seen.rate)
    sources = [a.source for s in state.sides for a in s.theory.axioms if a.name == name]
    return {
        "axiom": name,
        "text": str(sources[0]),
        "same": len(sources) == 2 and sources[0] == sources[1],
        "values": values,
        "difference": _minus(values),
        "rates": rates,
        "rate_difference": _minus(rates),
    }


def _minus(pair: list[float | None]) -> float | None:
    one, other = pair
    return None if one is None or other is None else other - one


async def _predicate(state: WebState, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "predicate": name,
        "learned": any(name in s.learned for s in state.sides),
        "distance": None,
        "decided": None,
        "pr_auc": [],
    }
    for side in range(2):
        report = await state.metrics(side)
        own = None if report is None else report.predicates.get(name)
        found["pr_auc"].append(None if own is None else own.pr_auc.value)
    if state.comparable and found["learned"]:
        try:
            one, other = await state.table(0, name), await state.table(1, name)
        except FotError:
            return found
        key = ("distance", name)
        found["distance"], found["decided"] = await state.jobs.get(
            key, lambda: _distance(one, other, state.sides[0].threshold)
        )
    return found


def _distance(one: Table, other: Table, threshold: float) -> tuple[float | None, float | None]:
    """The mean distance of predictions, and the share of them that are decided differently."""
    if one.values.shape != other.values.shape:
        return None, None
    a, b = one.values[one.order], other.values[one.order]
    counted = ~(a.isnan() | b.isnan())
    if not bool(counted.any()):
        return None, None
    apart = (a - b).abs()[counted].mean()
    differ = ((a >= threshold) != (b >= threshold))[counted].float().mean()
    return float(apart), float(differ)
