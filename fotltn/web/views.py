"""The pages about axioms: the list, an axiom with its heat map, a cell with its explanation."""

from __future__ import annotations

import asyncio
from typing import Any

import torch
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from fotltn.analysis.over_time import NO_TRUTH, UNDECIDED, BindingRow, TruthOverTime
from fotltn.analysis.overview import Overview
from fotltn.analysis.tally import Standing
from fotltn.reporting.typeset import typeset
from fotltn.semantics.config import only_p
from fotltn.syntax import formula as f
from fotltn.web.jobs import Lane, PendingError
from fotltn.web.places import CELL, where, worst_place
from fotltn.web.responses import RefusedError, query
from fotltn.web.sides import Side
from fotltn.web.state import WebState
from fotltn.web.visit import Listing, Visit, cell_at, listing, same
from fotltn.web.what_if import consequences, offers, read_changes, tried, written

#: Seconds to wait for values before the first page is shown without some of them.
GLANCE = 0.1

#: The facts that a repair may change: learned ones only, or given ones as well.
CHANGES = ("learned", "all")

SORTS = ("violation", "name", "difference")


def described(inspected: Side) -> dict[str, Any]:
    """Describe a side in a few words and numbers."""
    view, tables, semantics = inspected.view, inspected.view.tables, inspected.view.semantics
    return {
        "name": inspected.name,
        "kind": "facts" if inspected.model is None else "model",
        "semantics": semantics.name,
        "p": only_p(semantics),
        **view.rule.as_dict(),
        "decided": str(view.rule),
        "end": view.end,
        "traces": tables.batch,
        "times": max(tables.lengths.tolist()),
        "entities": tables.names.sizes(),
        "learned": list(view.learned),
    }


def axiom_sources(state: WebState) -> dict[str, list[f.Formula]]:
    """Return the axioms of all sides: one formula each, or two if they differ."""
    sources: dict[str, list[f.Formula]] = {}
    for side in state.sides:
        for known in side.view.theory.axioms:
            sources.setdefault(known.name, []).append(known.source)
    return sources


def hard_axioms(state: WebState) -> set[str]:
    """Return the names of axioms that are hard on any side."""
    return {a.name for side in state.sides for a in side.view.theory.axioms if a.hard}


# --- the theory -------------------------------------------------------------------------------


async def theory(state: WebState, request: Request) -> Response:
    """List the axioms with their values; values that are not ready yet follow later."""
    visit = Visit(state, request)
    sources = {name: formulas[0] for name, formulas in axiom_sources(state).items()}
    await asyncio.gather(
        *(
            _glance(state, n, a.name)
            for n, s in enumerate(state.sides)
            for a in s.view.theory.axioms
        )
    )
    hard = hard_axioms(state)
    axioms: list[dict[str, Any]] = []
    for name, source in sources.items():
        standings = [_standing(state, n, name) for n in range(len(state.sides))]
        wrong = any(one.get("violated") for one in standings)
        axioms.append(
            {"axiom": name, "text": str(source), "hard": name in hard, "wrong": wrong,
             "values": standings}
        )  # fmt: skip
    content = {
        "inspected": [described(s) for s in state.sides],
        "axioms": axioms,
        "predicates": predicates(state),
        "complete": all(v["state"] != "pending" for a in axioms for v in a["values"]),
        "warnings": [d.as_dict() for s in state.sides for d in s.warnings],
    }
    shown = {name: Markup(typeset(source)) for name, source in sources.items()}
    return visit.answer(
        "theory.html", content, {"shown": shown, "ranked": sorted(axioms, key=_attention)}
    )


async def _glance(state: WebState, side: int, name: str) -> None:
    """Wait a moment for the values of an axiom."""
    if (side, name) not in state.standings:
        try:
            await state.seen(side, name, lane=Lane.AHEAD, patience=GLANCE)
        except PendingError:
            pass
        except Exception:
            if (side, name) not in state.standings:
                raise


def _standing(state: WebState, side: int, name: str) -> dict[str, Any]:
    if all(a.name != name for a in state.sides[side].view.theory.axioms):
        return {"state": "absent"}
    match state.standings.get((side, name)):
        case None:
            return {"state": "pending"}
        case str(message):
            return {"state": "refused", "message": message}
        case Standing() as standing:
            worst = state.worst.get((side, name))
            return {"state": "known", **standing.as_dict(), "worst": worst}


def _attention(entry: dict[str, Any]) -> tuple[float, ...]:
    """Return the rank of an axiom: hard and violated, violated, refused, then weak."""
    known = [v for v in entry["values"] if v["state"] == "known"]
    violated = entry["wrong"]
    refused = any(v["state"] == "refused" for v in entry["values"])
    rate = max((v["rate"] or 0 for v in known), default=0)
    value = min((1 if v["value"] is None else v["value"] for v in known), default=1)
    return not (violated and entry["hard"]), not violated, not refused, not known, -rate, value


def predicates(state: WebState) -> list[dict[str, Any]]:
    """Describe the predicates of the sides."""
    entries: dict[str, dict[str, Any]] = {}
    for side in state.sides:
        for name, decl in side.view.theory.signature.predicates.items():
            entry = entries.setdefault(
                name,
                {"predicate": name, "sorts": list(decl.sorts), "static": decl.static,
                 "learned": False},
            )  # fmt: skip
            entry["learned"] = entry["learned"] or name in side.view.learned
    return list(entries.values())


# --- one axiom --------------------------------------------------------------------------------


async def axiom(state: WebState, request: Request) -> Response:
    """Show an axiom: its value, its heat map, and its rows, the worst first."""
    visit = Visit(state, request, ("model", "trace", "sort", "by", "find", "from", "count"))
    name, side = visit.name, visit.side
    checked = state.axiom(side, name)
    seen = await state.seen(side, name)
    both = state.shared(name)
    sorts = SORTS if both else SORTS[:2]
    sort = visit.choice("sort", sorts, "violation")
    by = visit.number("by", side + 1, len(state.sides), least=1) - 1
    order = seen.heat.order
    if sort == "name":
        order = order.sort().values
    elif sort == "difference":
        order = await state.apart(name)
    elif by != side and both:
        order = (await state.seen(by, name)).heat.order
    rows = listing(visit, seen.heat.cells, order, sort, seen.heat.truth)
    if visit.form == "bytes":
        return rows.part(seen.heat.bytes)
    content = {
        "axiom": name,
        "text": str(checked.source),
        "weight": checked.weight,
        "hard": checked.hard,
        **about(visit, seen, rows),
    }
    maps = {side: seen}
    if both:
        maps[1 - side] = await state.seen(1 - side, name)
        content["other"] = maps[1 - side].standing.value
    base, asked = f"/axiom/{name}", {"by": side + 1 if both else None}
    more = {
        "shown": Markup(typeset(checked.source)),
        "panels": [
            rows.panel(
                base, {**same(one), **asked}, f"{base}/cell" + query(same(one)),
                mapped.heat.bytes, len(mapped.heat.times),
                title=state.sides[one].name if both else "",
            )
            for one, mapped in sorted(maps.items())
        ],
        "cells": f"{base}/cell",
        "sorts": sorts,
        "letters": rows.letters,
        "worst": worst_place(seen),
    }  # fmt: skip
    return visit.answer("axiom.html", content, more)


def about(visit: Visit, seen: Overview, rows: Listing) -> dict[str, Any]:
    """Return what a page says about a heat map, and some of its rows."""
    heat, side = seen.heat, visit.inspected

    def row(number: int) -> dict[str, Any]:
        one = heat.row(number)
        entry = {**one.as_dict(), "trace": heat.cells.trace_of(number)}
        entry["place"] = where(heat.cells, number, one.at)
        return {**entry, "values": heat.values[number].tolist()}

    return {
        "model": side.name,
        "semantics": side.view.semantics.name,
        **side.view.rule.as_dict(),
        **seen.standing.as_dict(),
        "variables": list(heat.cells.variables),
        "times": list(heat.times),
        **rows.table(row),
        **rows.narrowed,
        "every": seen.every is None,
    }


# --- one cell ---------------------------------------------------------------------------------


async def cell(state: WebState, request: Request) -> Response:
    """Show a cell of an axiom: why it has its value, and what would change it."""
    visit = Visit(state, request, CELL, bound=True)
    name = visit.name
    source = state.axiom(visit.side, name).source
    seen = await state.seen(visit.side, name)
    other = await state.seen(1 - visit.side, name) if state.shared(name) else None
    return await cell_page(
        visit, seen, source, f"/axiom/{name}", visit.same,
        {"axiom": name, "text": str(source)}, other=other,
    )  # fmt: skip


async def cell_page(
    visit: Visit,
    seen: Overview,
    source: f.Formula,
    path: str,
    params: dict[str, Any],
    head: dict[str, str],
    *,
    other: Overview | None = None,
) -> Response:
    """Return the page of the cell that an address names.

    Args:
        visit: the request.
        seen: the heat map.
        source: the formula of the heat map.
        path: the address of the heat map's page.
        params: the parameters of that address.
        head: the beginning of the content.
        other: the heat map of the other side, if both can be compared.
    """
    side, words, shown = visit.inspected, tuple(head.values()), seen.heat
    if seen.every is not None and "row" not in visit.parameters:
        row, time = cell_at(visit, seen.every, len(shown.times))
        trace = row // seen.every.bindings
        seen, row = await visit.state.row_of(visit.side, seen, words, row), trace
    else:
        row, time = cell_at(visit, shown.cells, len(shown.times))
    heat = seen.heat
    if int(heat.truth[row, time]) == NO_TRUTH:
        raise RefusedError(
            404, "this cell does not count: a guard, or the end of its trace, excludes it"
        )
    change = visit.choice("change", CHANGES, CHANGES[0])
    changes = read_changes(visit)
    why = await visit.state.cell(
        visit.side, seen, (*words, heat.cells.label(row)), row, time, fixed=change == "learned",
        changes=changes,
    )  # fmt: skip
    explained = why.as_dict()
    before = {
        "value": float(heat.values[row, time]),
        "truth": bool(heat.truth[row, time] == 1),
        "undecided": bool(heat.truth[row, time] == UNDECIDED),
    }
    now = before
    if changes:
        undecided = before["undecided"] and not why.tree.truth
        now = {"value": why.tree.value, "truth": bool(why.tree.truth), "undecided": undecided}
    content = {
        **head,
        "model": side.name,
        "row": row,
        "time": time,
        "trace": heat.cells.trace_of(row),
        **now,
        "change": change,
        "binding": why.binding,
        "place": where(heat.cells, row, time),
        **{part: explained[part] for part in ("tree", "timelines", "influence", "repair")},
    }
    if changes:
        content |= {"before": before, **await consequences(visit, changes)}
    if other is not None:
        content["other"] = float(other.heat.values[row, time])
    following = _following(shown, heat, row)
    more = {
        "axiom": head.get("axiom"),
        "shown": Markup(typeset(source)),
        "back": path + query(params),
        "base": f"{path}/cell",
        "same": params,
        "lines": [{"node": node, "depth": depth} for node, depth in why.tree.levels()],
        "timelines": why.timelines,
        "influence": why.influence,
        "repair": why.repair,
        "timed": len(heat.times) > 1,
        "over_time": gaps(heat.values[row].tolist()),
        "following": following if following is not None and following.lowest < 1 else None,
        "next_place": where(shown.cells, following.row, following.at) if following else {},
        "given_predicates": side.view.fixed,
        "what_if": offers(why, changes),
        "tried": tried(why, changes),
        "sets": {"set": [written(one) for one in changes]},
        "undo": [
            (one, {"set": [written(other) for other in changes if other != one]}) for one in changes
        ],
        "whole_file": side.model is None,
    }
    return visit.answer("cell.html", content, more)


def _following(shown: TruthOverTime, heat: TruthOverTime, row: int) -> BindingRow | None:
    """Return the next row in order of error; after a row that is not listed, the worst one."""
    order = shown.order
    if heat is shown:
        (place,) = (order == row).nonzero(as_tuple=True)
    else:  # a single binding, which may be among those shown
        label = heat.cells.label(row)
        same = [shown.cells.label(other) == label for other in order.tolist()]
        (place,) = torch.tensor(same, dtype=torch.bool).nonzero(as_tuple=True)
    after = int(place[0]) + 1 if len(place) else 0
    return shown.row(int(order[after])) if after < len(order) else None


def gaps(values: list[float]) -> list[float | None]:
    """Return degrees over time, with None for gaps."""
    return [None if v != v else v for v in values]
