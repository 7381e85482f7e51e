"""The page of a typed formula: its errors, or its value and heat map."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from fotltn.errors import FotError
from fotltn.logic.check import CheckedTheory
from fotltn.reporting.typeset import typeset
from fotltn.web.places import CELL
from fotltn.web.responses import RefusedError, answer, failed, query
from fotltn.web.state import WebState
from fotltn.web.views import about, cell_page, predicates
from fotltn.web.visit import MAX_FORMULA, Visit, listing

#: The parts that a client can ask for: the value first, or everything at once.
PARTS = ("value", "all")

#: The orders of rows: the lowest degrees first, or by name.
SORTS = ("violation", "name")

#: The text that each button inserts, and its meaning, by group.
OPERATORS = {
    "Quantifiers and connectives": (
        ("forall x. ", "for every entity"), ("exists x. ", "for some entity"), ("!", "not"),
        (" & ", "and"), (" | ", "or"), (" -> ", "implies"), (" <-> ", "both imply each other"),
    ),
    "Comparisons": (
        (" = ", "equal"), (" != ", "not equal"), (" < ", "less"), (" <= ", "at most"),
        (" > ", "greater"), (" >= ", "at least"),
    ),
    "The future": (
        ("X ", "at the next time point"), ("WX ", "at the next time point, if there is one"),
        ("F ", "now or later"), ("G ", "now and at every later time point"), (" U ", "until"),
        (" W ", "until, or to the end"), (" R ", "releases"), (" M ", "releases, and happens"),
    ),
    "The past": (
        ("Y ", "at the previous time point"),
        ("WY ", "at the previous time point, if there is one"), ("O ", "now or before"),
        ("H ", "now and at every earlier time point"), (" S ", "since"), (" T ", "triggers"),
    ),
    "Bounds": (("F[0,5] ", "within five steps"), ("F+ ", "later, without the present")),
}  # fmt: skip


def _vocabulary(theory: CheckedTheory) -> list[str]:
    """Return the words to complete: predicates with their brackets, functions, and constants."""
    signature = theory.signature
    called = [f"{n}(" if d.sorts else n for n, d in signature.predicates.items()]
    called += [f"{name}(" for name in signature.functions]
    return sorted([*called, *signature.constants, "forall ", "exists "])


def _text(visit: Visit) -> str:
    return (visit.text("text", MAX_FORMULA) or "").strip()


async def formula(state: WebState, request: Request) -> Response:
    """Answer with a formula's messages, or with its value, heat map and rows.

    In JSON, messages are an error; as HTML, they are an ordinary page.
    """
    known = ("text", "model", "trace", "sort", "find", "from", "count", "part")
    visit = Visit(state, request, known)
    text, form = _text(visit), visit.form
    value_only = visit.choice("part", PARTS, "all") == "value" and form != "bytes"
    if not text:
        if form != "html":
            raise RefusedError(400, "there is no formula", "pass one as 'text'")
        return _page(visit, {"text": ""})
    try:
        typed = await state.check(visit.side, text)
        value = await state.value(typed) if value_only else None
        seen = None if value_only else await state.mapped(typed)
    except FotError as error:
        if form != "html":
            return failed(request, error)
        return _page(visit, {"text": text, "messages": error.diagnostics})
    shown = Markup(typeset(typed.syntax))
    if seen is None:  # the value alone, which is ready before the heat map
        content = {"text": text, "model": visit.inspected.name, "value": value}
        if form == "json":
            return answer(request, "formula.html", content)
        return _page(visit, {**content, "shown": shown, "again": True})
    heat, closed = seen.heat, seen.standing.value is not None
    sort = visit.choice("sort", SORTS, SORTS[0])
    order = heat.order if sort == SORTS[0] else heat.order.sort().values
    rows = listing(visit, heat.cells, order, sort, heat.truth if closed else None)
    if form == "bytes":
        return rows.part(heat.bytes)
    mean = None if closed or not heat.count else float(heat.values[heat.order].nanmean())
    content = {"text": text, "mean": mean, **about(visit, seen, rows)}
    if form == "json":
        return answer(request, "formula.html", content)
    asked = {"text": text, **visit.same}
    panel = rows.panel(
        "/formula", asked, "/formula/cell" + query(asked), heat.bytes, len(heat.times),
        hue="--bad" if closed else "--blue",
    )  # fmt: skip
    more = {
        "shown": shown,
        "panels": [panel],
        "letters": rows.letters,
        "cells": "/formula/cell",
        "mapped": True,
    }
    return _page(visit, {**content, **more})


def _page(visit: Visit, content: dict[str, Any]) -> Response:
    """Return the form, and below it the results for a formula."""
    theory = visit.inspected.view.theory
    messages = content.get("messages", ())
    spans = [(d.span.start, d.span.end) for d in messages if d.span is not None]
    around = {
        "messages": (),
        "mapped": False,
        "again": False,
        "examples": [(a.name, str(a.source)) for a in theory.axioms],
        "predicates": predicates(visit.state),
        "constants": list(theory.signature.constants),
        "operators": OPERATORS,
        "vocabulary": _vocabulary(theory),
        "most": MAX_FORMULA,
        "spans": spans,
        "find": visit.text("find"),
        "sort": visit.choice("sort", SORTS, SORTS[0]),
        "sorts": SORTS,
    }
    return visit.answer("formula.html", {}, {**around, **content})


async def formula_cell(state: WebState, request: Request) -> Response:
    """Explain the value of a cell of a typed formula."""
    visit = Visit(state, request, ("text", *CELL), bound=True)
    text = _text(visit)
    if not text:
        raise RefusedError(400, "there is no formula", "pass one as 'text'")
    typed = await state.check(visit.side, text)
    seen = await state.mapped(typed)
    params = {"text": text, **visit.same}
    return await cell_page(visit, seen, typed.syntax, "/formula", params, {"text": text})
