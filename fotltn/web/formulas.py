"""The page of a formula that is typed: what is wrong with it, or its value and heat map."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from fotltn.errors import Diagnostic, FotError
from fotltn.reporting.typeset import typeset
from fotltn.web.parameters import MAX_FORMULA, Parameters
from fotltn.web.responses import RefusedError, answer, failed, query, wants
from fotltn.web.rows import chosen, opening
from fotltn.web.state import Seen, Typed, WebState
from fotltn.web.views import (
    Where,
    cell_content,
    cell_extras,
    explained,
    frame,
    letters,
    part,
    predicates,
    rows,
    where,
)

#: What can be asked for: the value first, or all at once.
PARTS = ("value", "all")


async def formula(state: WebState, request: Request) -> Response:
    """A formula: its messages, or its value, heat map and rows.

    A page with messages is a page like others; for machines, messages are an error.
    """
    given = Parameters(request, ("text", "model", "trace", "sort", "find", "from", "count", "part"))
    here, text = where(state, given), (given.text("text", MAX_FORMULA) or "").strip()
    first = given.choice("part", PARTS, "all") == "value"
    form = wants(request)
    if not text:
        if form != "html":
            raise RefusedError(400, "there is no formula", "give one as 'text'")
        return _page(state, request, here, given, {"text": ""})
    try:
        typed = await state.check(here.side, text)
        if first and form != "bytes":
            return await _value(state, request, here, given, typed)
        seen = await state.mapped(typed)
    except FotError as error:
        if form != "html":
            return failed(request, error)
        messages = {"text": text, "messages": error.diagnostics}
        return _page(state, request, here, given, messages)
    sort = given.choice("sort", ("violation", "name"), "violation")
    order = seen.heat.order if sort == "violation" else seen.heat.order.sort().values
    listed = chosen(order, seen.heat.cells, here.trace, given.text("find"))
    if form == "bytes":
        return part(seen, listed, given)
    side = state.sides[here.side]
    content = {
        "text": text,
        "model": side.name,
        "semantics": side.semantics.name,
        "threshold": side.threshold,
        "trace": None if here.trace is None else side.facts.traces[here.trace],
        **_summary(seen),
        **rows(seen, listed, given),
        "sort": sort,
        "find": given.text("find"),
    }
    kept = {"text": text, "model": here.side + 1 if here.side else None}
    narrowed = {"trace": content["trace"], "sort": sort, "find": given.text("find")}
    panel = {
        "title": "",
        "url": "/formula" + query({"format": "bytes", **kept, **narrowed}),
        "open": "/formula/cell" + query(kept),
        "first": opening(seen.heat.cells, listed, len(seen.heat.times), seen.heat.bytes),
        "hue": "--bad" if seen.value is not None else "--blue",
        "reversed": seen.value is None,
    }
    more = {
        "shown": _shown(typed),
        "panels": [panel],
        "letters": letters(seen, listed),
        "cells": "/formula/cell",
        "narrowed": narrowed,
    }
    if form == "json":
        return answer(request, "formula.html", content)
    return _page(state, request, here, given, {**content, **more, "found": True})


async def _value(
    state: WebState, request: Request, here: Where, given: Parameters, typed: Typed
) -> Response:
    """The value alone, which is there before the heat map."""
    value = await state.value(typed)
    if wants(request) == "json":
        content = {"text": typed.text, "model": state.sides[here.side].name, "value": value}
        return answer(request, "formula.html", content)
    content = {"text": typed.text, "value": value, "shown": _shown(typed), "again": True}
    return _page(state, request, here, given, content)


def _summary(seen: Seen) -> dict[str, Any]:
    """The value of a closed formula; of one with free variables, the mean over its rows."""
    heat = seen.heat
    counted = heat.values[heat.order]
    mean = float(counted.nanmean()) if seen.count else None
    return {
        "value": seen.value,
        "mean": mean if seen.value is None else None,
        "count": seen.count,
        "violated": seen.violated,
        "rate": seen.rate,
        "variables": list(seen.heat.cells.variables),
    }


def _page(
    state: WebState, request: Request, here: Where, given: Parameters, found: dict[str, Any]
) -> Response:
    side = state.sides[here.side]
    signature = side.theory.signature
    content = {
        "messages": (),
        "found": False,
        "again": False,
        "examples": [(a.name, str(a.source)) for a in side.theory.axioms],
        "predicates": predicates(state),
        "constants": list(signature.constants),
        "most": MAX_FORMULA,
        "spans": [],
        "find": given.text("find"),
        **frame(state, request, here),
        **found,
    }
    content["spans"] = [_span(d) for d in content["messages"] if d.span is not None]
    return answer(request, "formula.html", content)


def _shown(typed: Typed) -> Markup:
    return Markup(typeset(typed.syntax))


def _span(diagnostic: Diagnostic) -> tuple[int, int]:
    assert diagnostic.span is not None
    return diagnostic.span.start, diagnostic.span.end


async def formula_cell(state: WebState, request: Request) -> Response:
    """A cell of a typed formula: why it has its value."""
    given = Parameters(request, ("text", "model", "row", "time", "change"))
    here, text = where(state, given), (given.text("text", MAX_FORMULA) or "").strip()
    if not text:
        raise RefusedError(400, "there is no formula", "give one as 'text'")
    typed = await state.check(here.side, text)
    seen = await state.mapped(typed)
    place, found = await explained(state, given, seen, ("typed", text), here.side)
    content = {
        "text": text,
        "model": state.sides[here.side].name,
        **cell_content(given, seen, place, found),
    }
    same = {"text": text, "model": here.side + 1 if here.side else None}
    more = {
        **frame(state, request, here),
        "axiom": None,
        "shown": _shown(typed),
        "back": "/formula" + query(same),
        "base": "/formula/cell",
        "same": same,
        **cell_extras(state, here, seen, place, found),
    }
    return answer(request, "cell.html", content, more)
