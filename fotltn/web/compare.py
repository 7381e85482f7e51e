"""The page of two side by side: axioms, predicates, and where their predictions differ."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from fotltn.errors import FotError
from fotltn.reporting.typeset import typeset
from fotltn.syntax import formula as f
from fotltn.web.responses import RefusedError
from fotltn.web.rows import Predictions
from fotltn.web.state import WebState
from fotltn.web.views import axiom_sources, described, hard_axioms
from fotltn.web.visit import Visit


async def compare(state: WebState, request: Request) -> Response:
    """Two that are inspected, axiom by axiom and predicate by predicate."""
    visit = Visit(state, request)
    if len(state.sides) != 2:
        raise RefusedError(
            404, "there is nothing to compare with", "start with two: fotltn inspect MODEL OTHER"
        )
    sources = axiom_sources(state)
    known = [s.theory.signature.predicates for s in state.sides]
    content = {
        "inspected": [described(s) for s in state.sides],
        "comparable": state.comparable,
        "axioms": [await _axiom(state, name, formulas) for name, formulas in sources.items()],
        "predicates": [await _predicate(state, name) for name in known[0] if name in known[1]],
    }
    shown = {name: Markup(typeset(formulas[0])) for name, formulas in sources.items()}
    return visit.answer("compare.html", content, {"shown": shown})


async def _axiom(state: WebState, name: str, sources: list[f.Formula]) -> dict[str, Any]:
    values: list[float | None] = []
    rates: list[float | None] = []
    for side, inspected in enumerate(state.sides):
        numbers: dict[str, float | None] = {}
        if any(a.name == name for a in inspected.theory.axioms):
            with suppress(FotError):  # an axiom that cannot be evaluated has no numbers
                numbers = (await state.seen(side, name)).standing.as_dict()
        values.append(numbers.get("value"))
        rates.append(numbers.get("rate"))
    return {
        "axiom": name,
        "text": str(sources[0]),
        "hard": name in hard_axioms(state),
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
    learned = any(name in s.learned for s in state.sides)
    reports = [await state.metrics(side) for side in range(2)]
    scores = [None if report is None else report.predicates.get(name) for report in reports]
    distance = decided = None
    if state.comparable and learned:
        with suppress(FotError):  # a table that is too large is not compared
            one, other = await state.table(0, name), await state.table(1, name)
            distance, decided = await state.jobs.get(
                ("distance", name), lambda: _distance(one, other)
            )
    return {
        "predicate": name,
        "learned": learned,
        "distance": distance,
        "decided": decided,
        "pr_auc": [None if score is None else score.pr_auc.value for score in scores],
    }


def _distance(one: Predictions, other: Predictions) -> tuple[float | None, float | None]:
    """The mean distance of predictions, and the share of them that are decided differently."""
    if one.values.shape != other.values.shape:
        return None, None
    a, b = one.values[one.order], other.values[one.order]
    counted = ~(a.isnan() | b.isnan())
    if not bool(counted.any()):
        return None, None
    apart = (a - b).abs()[counted].mean()
    differ = (one.truths[one.order] != other.truths[one.order])[counted].float().mean()
    return float(apart), float(differ)
