"""The page that compares two sides: axioms, predicates, and where predictions differ."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from fotltn.errors import FotError
from fotltn.grounding.labels import Labels
from fotltn.reporting.typeset import typeset
from fotltn.syntax import formula as f
from fotltn.web.responses import RefusedError
from fotltn.web.state import WebState
from fotltn.web.views import axiom_sources, described, hard_axioms
from fotltn.web.visit import Visit


async def compare(state: WebState, request: Request) -> Response:
    """Compare two sides, axiom by axiom and predicate by predicate."""
    visit = Visit(state, request)
    if len(state.sides) != 2:
        raise RefusedError(
            404,
            "there is nothing to compare with",
            "start the inspector with two models: fotltn inspect MODEL OTHER",
        )
    sources = axiom_sources(state)
    known = [s.view.theory.signature.predicates for s in state.sides]
    content = {
        "inspected": [described(s) for s in state.sides],
        "comparable": state.comparable,
        "warnings": _odd(state),
        "axioms": [await _axiom(state, name, formulas) for name, formulas in sources.items()],
        "predicates": [await _predicate(state, name) for name in known[0] if name in known[1]],
    }
    shown = {name: Markup(typeset(formulas[0])) for name, formulas in sources.items()}
    return visit.answer("compare.html", content, {"shown": shown})


def _odd(state: WebState) -> list[str]:
    """Return the reasons why numbers of the two sides are not comparable."""
    one, other = (side.view for side in state.sides)
    warnings = []
    if one.semantics != other.semantics:
        warnings.append(
            "The two have different semantics, so their values of axioms are not "
            "comparable; --semantics and --p evaluate both with the same semantics."
        )
    if (one.rule, one.end) != (other.rule, other.end):
        warnings.append(
            "The two have different thresholds, or treat the ends of traces "
            "differently, so their shares of violations are not comparable; "
            "--threshold and --end set one rule for both."
        )
    if not _same_labels(*(None if s.model is None else s.model.world.test for s in state.sides)):
        warnings.append(
            "The two are tested on different facts, so their scores are not comparable."
        )
    if not state.comparable:
        warnings.append(
            "The two are about different traces, entities or times, so only their "
            "values can be compared."
        )
    return warnings


def _same_labels(one: Labels | None, other: Labels | None) -> bool:
    """Return whether two sets of labels are equal."""
    if one is None or other is None:
        return one is other
    return one.index.keys() == other.index.keys() and all(
        torch.equal(one.index[n], other.index[n]) and torch.equal(one.truth[n], other.truth[n])
        for n in one.index
    )


async def _axiom(state: WebState, name: str, sources: list[f.Formula]) -> dict[str, Any]:
    values: list[float | None] = []
    rates: list[float | None] = []
    for side, inspected in enumerate(state.sides):
        value = rate = None
        if any(a.name == name for a in inspected.view.theory.axioms):
            with suppress(FotError):  # an axiom that cannot be evaluated has no numbers
                standing = (await state.seen(side, name)).standing
                value, rate = standing.value, standing.rate
        values.append(value)
        rates.append(rate)
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
    learned = any(name in s.view.learned for s in state.sides)
    reports = [await state.metrics(side) for side in range(2)]
    scores = [None if report is None else report.predicates.get(name) for report in reports]
    distance = decided = None
    if state.comparable and learned:
        with suppress(FotError):  # a table that is too large is not compared
            one, other = await state.table(0, name), await state.table(1, name)
            distance, decided = await state.jobs.get(("distance", name), lambda: one.apart(other))
    pr_auc = [None if score is None else score.pr_auc.value for score in scores]
    return {
        "predicate": name,
        "learned": learned,
        "distance": distance,
        "decided": decided,
        "facts": [None if score is None else score.facts for score in scores],
        "pr_auc": pr_auc,
        "gain": _minus(pr_auc),
        "chance": [None if score is None else score.chance.value for score in scores],
    }
