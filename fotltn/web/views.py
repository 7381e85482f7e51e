"""The pages about axioms: all of them, one with its heat map, one cell with its explanation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from torch import Tensor

from fotltn.analysis.explain.explanation import Explanation
from fotltn.analysis.over_time import NO_TRUTH
from fotltn.reporting.typeset import typeset
from fotltn.semantics.config import PMean
from fotltn.web.inspected import Inspected
from fotltn.web.jobs import Lane, PendingError
from fotltn.web.parameters import Parameters
from fotltn.web.responses import RefusedError, answer, query, wants
from fotltn.web.rows import MAX_ROWS, PART, chosen, opening, packed
from fotltn.web.state import Place, Seen, Standing, WebState

#: Seconds that the first page waits for values before it is shown without some.
GLANCE = 0.1

#: Rows of a table, unless the address says otherwise.
ROWS = 15

#: What a repair may change: what is learned, or given facts as well.
CHANGES = ("learned", "all")

SORTS = ("violation", "name", "difference")


@dataclass(frozen=True, slots=True)
class Where:
    """What most pages can be narrowed to.

    Args:
        side: whoever is looked at, counted from 0.
        trace: the number of the trace; None for all.
    """

    side: int
    trace: int | None


def where(state: WebState, given: Parameters) -> Where:
    """Read `model` and `trace`."""
    side = given.number("model", 1, len(state.sides), least=1) - 1
    return Where(side, given.named("trace", state.sides[side].facts.traces, "trace"))


def frame(state: WebState, request: Request, here: Where | None = None) -> dict[str, Any]:
    """What every page shows around its content."""
    side = 0 if here is None else here.side
    trace = (
        None if here is None or here.trace is None else state.sides[side].facts.traces[here.trace]
    )
    kept = {"model": side + 1 if side else None, "trace": trace}
    every = {k: v for k, v in request.query_params.multi_items() if k != "format"}
    return {
        "sides": [s.name for s in state.sides],
        "side": side,
        "traces": state.sides[side].facts.traces,
        "trace_chosen": trace,
        "kept": kept,
        "as_json": request.url.path + query({**every, "format": "json"}),
        "path": request.url.path,
    }


def described(inspected: Inspected) -> dict[str, Any]:
    """Whoever is inspected, in a few words and numbers."""
    facts, semantics = inspected.facts, inspected.semantics
    exponents = {a.p for a in semantics.aggregations if isinstance(a, PMean)}
    single = len(exponents) == 1 and not semantics.boolean
    return {
        "name": inspected.name,
        "kind": "facts" if inspected.model is None else "model",
        "semantics": semantics.name,
        "p": exponents.pop() if single else None,
        "threshold": inspected.threshold,
        "traces": len(facts.traces),
        "times": max(facts.lengths),
        "entities": facts.sizes(),
        "learned": list(inspected.learned),
    }


# --- the theory -------------------------------------------------------------------------------


async def theory(state: WebState, request: Request) -> Response:
    """The axioms with what they are worth; what is not computed yet comes when it is there."""
    Parameters(request, ())
    sources = {a.name: a.source for s in reversed(state.sides) for a in s.theory.axioms}
    order = dict.fromkeys(a.name for s in state.sides for a in s.theory.axioms)
    await asyncio.gather(
        *(_glance(state, n, a.name) for n, s in enumerate(state.sides) for a in s.theory.axioms)
    )
    axioms: list[dict[str, Any]] = []
    for name in order:
        standings = [_standing(state, n, name) for n in range(len(state.sides))]
        axioms.append({"axiom": name, "text": str(sources[name]), "values": standings})
    content = {
        "inspected": [described(s) for s in state.sides],
        "axioms": axioms,
        "predicates": predicates(state),
        "complete": all(v["state"] != "pending" for a in axioms for v in a["values"]),
        "warnings": [
            d.as_dict() for s in state.sides for d in (*s.theory.warnings, *s.facts.warnings)
        ],
    }
    shown = {name: Markup(typeset(source)) for name, source in sources.items()}
    return answer(request, "theory.html", content, {**frame(state, request), "shown": shown})


async def _glance(state: WebState, side: int, name: str) -> None:
    """Wait a moment for an axiom."""
    if (side, name) not in state.standings:
        try:
            await state.seen(side, name, lane=Lane.AHEAD, patience=GLANCE)
        except PendingError:
            pass
        except Exception:
            if (side, name) not in state.standings:
                raise


def _standing(state: WebState, side: int, name: str) -> dict[str, Any]:
    if all(a.name != name for a in state.sides[side].theory.axioms):
        return {"state": "absent"}
    match state.standings.get((side, name)):
        case None:
            return {"state": "pending"}
        case str(message):
            return {"state": "refused", "message": message}
        case Standing() as found:
            worst = None
            if found.worst is not None:
                row, column, words = found.worst
                worst = {"row": row, "time": column, "where": words}
            return {
                "state": "known", "value": found.value, "count": found.count,
                "violated": found.violated, "rate": found.rate, "worst": worst,
            }  # fmt: skip


def predicates(state: WebState) -> list[dict[str, Any]]:
    """The predicates of whoever is inspected."""
    found: dict[str, dict[str, Any]] = {}
    for side in state.sides:
        for name, decl in side.theory.signature.predicates.items():
            one = found.setdefault(
                name,
                {"predicate": name, "sorts": list(decl.sorts), "static": decl.static,
                 "learned": False},
            )  # fmt: skip
            one["learned"] = one["learned"] or name in side.learned
    return list(found.values())


# --- one axiom --------------------------------------------------------------------------------


async def axiom(state: WebState, request: Request) -> Response:
    """An axiom: its value, its heat map, and its rows, the worst first."""
    given = Parameters(request, ("model", "trace", "sort", "by", "find", "from", "count"))
    name, here = request.path_params["name"], where(state, given)
    checked = state.axiom(here.side, name)
    seen = await state.seen(here.side, name)
    both = state.shared(name)
    sort = given.choice("sort", SORTS if both else SORTS[:2], "violation")
    by = given.number("by", here.side + 1, len(state.sides), least=1) - 1
    order = seen.heat.order
    if sort == "name":
        order = order.sort().values
    elif sort == "difference":
        order = await state.apart(name)
    elif by != here.side and both:
        order = (await state.seen(by, name)).heat.order
    listed = chosen(order, seen.heat.cells, here.trace, given.text("find"))
    if wants(request) == "bytes":
        return part(seen, listed, given)
    base = f"/axiom/{name}"
    content = {
        "axiom": name,
        "text": str(checked.source),
        "weight": checked.weight,
        **_about(state, here, seen),
        **rows(seen, listed, given),
        "sort": sort,
        "find": given.text("find"),
    }
    mapped = {here.side: seen}
    if both:
        mapped[1 - here.side] = await state.seen(1 - here.side, name)
        content["other"] = mapped[1 - here.side].value
    narrowed = {"trace": content["trace"], "sort": sort, "find": given.text("find")}
    more = {
        **frame(state, request, here),
        "shown": Markup(typeset(checked.source)),
        "panels": _panels(state, here, base, mapped, listed, narrowed),
        "cells": f"{base}/cell",
        "sorts": SORTS if both else SORTS[:2],
        "letters": letters(seen, listed),
        "standing": state.standings[here.side, name],
    }
    return answer(request, "axiom.html", content, more)


def _panels(
    state: WebState,
    here: Where,
    base: str,
    mapped: Mapping[int, Seen],
    listed: Tensor,
    narrowed: Mapping[str, str | None],
) -> list[dict[str, Any]]:
    """The heat maps of a page: that of whoever is looked at, or both side by side."""
    both = len(mapped) == 2
    found = []
    for side, seen in sorted(mapped.items()):
        by = here.side + 1 if both else None
        kept = {"model": side + 1 if side else None, "by": by, **narrowed}
        found.append(
            {
                "title": state.sides[side].name if both else "",
                "url": base + query({"format": "bytes", **kept}),
                "open": f"{base}/cell" + query({"model": side + 1}),
                "first": opening(seen.heat.cells, listed, len(seen.heat.times), seen.heat.bytes),
                "hue": "--bad",
                "reversed": False,
            }
        )
    return found


def _about(state: WebState, here: Where, seen: Seen) -> dict[str, Any]:
    side = state.sides[here.side]
    return {
        "model": side.name,
        "semantics": side.semantics.name,
        "threshold": side.threshold,
        "trace": None if here.trace is None else side.facts.traces[here.trace],
        "value": seen.value,
        "count": seen.count,
        "violated": seen.violated,
        "rate": seen.rate,
        "variables": list(seen.heat.cells.variables),
    }


def rows(seen: Seen, listed: Tensor, given: Parameters) -> dict[str, Any]:
    """A part of the rows of a heat map for machines, and for the table below it."""
    start = given.number("from", 0)
    stop = start + given.number("count", ROWS, MAX_ROWS, least=1)
    numbers = listed[start:stop].tolist()
    found = []
    for number in numbers:
        row = seen.heat.row(number)
        values = seen.heat.values[number].tolist()
        found.append({**row.as_dict(), "trace": seen.heat.cells.trace_of(number), "values": values})
    return {
        "times": list(seen.heat.times),
        "total": len(listed),
        "from": start,
        "to": start + len(found),
        "rows": found,
    }


def part(seen: Seen, listed: Tensor, given: Parameters) -> Response:
    """A part of the rows of a heat map as bytes."""
    start = given.number("from", 0)
    numbers = listed[start : start + given.number("count", PART, MAX_ROWS, least=1)]
    body = packed(seen.heat.cells, numbers, start, len(listed), seen.heat.bytes(numbers))
    return Response(body, media_type="application/octet-stream")


def letters(seen: Seen, listed: Tensor) -> int:
    """The longest label among the first rows: how much room labels need."""
    return max((len(seen.heat.cells.label(r)) for r in listed[:40].tolist()), default=4)


# --- one cell ---------------------------------------------------------------------------------


async def cell(state: WebState, request: Request) -> Response:
    """A cell of an axiom: why it has its value, and what would change it."""
    given = Parameters(request, ("model", "row", "time", "change"))
    name, here = request.path_params["name"], where(state, given)
    checked = state.axiom(here.side, name)
    seen = await state.seen(here.side, name)
    place, found = await explained(state, given, seen, ("axiom", name), here.side)
    content = {
        "axiom": name,
        "text": str(checked.source),
        "model": state.sides[here.side].name,
        **cell_content(given, seen, place, found),
    }
    if state.shared(name):
        other = (await state.seen(1 - here.side, name)).heat.values[place.row, place.time]
        content["other"] = float(other)
    more = {
        **frame(state, request, here),
        "shown": Markup(typeset(checked.source)),
        "back": f"/axiom/{name}" + query({"model": here.side + 1 if here.side else None}),
        "base": f"/axiom/{name}/cell",
        "same": {"model": here.side + 1 if here.side else None},
        **cell_extras(state, here, seen, place, found),
    }
    return answer(request, "cell.html", content, more)


async def explained(
    state: WebState, given: Parameters, seen: Seen, key: tuple[object, ...], side: int
) -> tuple[Place, Explanation]:
    """The cell that an address names, explained."""
    place = Place(
        given.number("row", 0, seen.heat.cells.rows - 1),
        given.number("time", 0, seen.heat.times[-1]),
    )
    if int(seen.heat.truth[place.row, place.time]) == NO_TRUTH:
        raise RefusedError(
            404, "this cell does not count: a guard, or the end of its trace, excludes it"
        )
    fixed = given.choice("change", CHANGES, CHANGES[0]) == "learned"
    return place, await state.cell(seen, key, side, place, fixed=fixed)


def cell_content(given: Parameters, seen: Seen, place: Place, found: Explanation) -> dict[str, Any]:
    """What a cell's page says, in both forms."""
    return {
        "row": place.row,
        "time": place.time,
        "trace": seen.heat.cells.trace_of(place.row),
        "value": float(seen.heat.values[place.row, place.time]),
        "truth": bool(seen.heat.truth[place.row, place.time] == 1),
        "change": given.choice("change", CHANGES, CHANGES[0]),
        "binding": found.binding,
        **{
            k: v
            for k, v in found.as_dict().items()
            if k in ("tree", "timelines", "influence", "repair")
        },
    }


def cell_extras(
    state: WebState, here: Where, seen: Seen, place: Place, found: Explanation
) -> dict[str, Any]:
    """What only the page of a cell needs: its tree line by line, and its neighbours."""
    heat = seen.heat
    after = int((heat.order == place.row).nonzero()) + 1
    following = heat.row(int(heat.order[after])) if after < len(heat.order) else None
    values = heat.values[place.row].tolist()
    return {
        "lines": [{"node": node, "depth": depth} for node, depth in found.tree.levels()],
        "timelines": found.timelines,
        "influence": found.influence,
        "repair": found.repair,
        "timed": len(heat.times) > 1,
        "over_time": [None if v != v else v for v in values],
        "following": following if following is not None and following.lowest < 1 else None,
        "given_predicates": state.sides[here.side].given,
    }
