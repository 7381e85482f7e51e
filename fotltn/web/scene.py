"""The page of a scene: entities with their facts and violations, as they change over time."""

from __future__ import annotations

import base64
from typing import Any

import torch
from starlette.requests import Request
from starlette.responses import Response
from torch import Tensor

from fotltn.analysis.axes import columns
from fotltn.analysis.over_time import shades
from fotltn.analysis.overview import Overview
from fotltn.errors import FotError
from fotltn.format import finite
from fotltn.logic.core import REAL
from fotltn.semantics.tables import Tables
from fotltn.web.places import where
from fotltn.web.responses import RefusedError, query
from fotltn.web.state import WebState
from fotltn.web.timeline import plane_axes, timeline
from fotltn.web.visit import Visit

#: The most entities of a scene, and the most violations that are named at a time.
MAX_ENTITIES, MAX_NAMED = 60, 4

#: The most times of a scene.
MAX_TIMES = 2000

#: A degree of 1, in two bytes; the next number stands for "no degree".
_FINE = 2**16 - 2

#: Functions that give the position of entities on a plane.
PLANES = (("x", "y"), ("lon", "lat"), ("longitude", "latitude"))


async def scene(state: WebState, request: Request) -> Response:
    """Show the entities of a sort in a trace, over time."""
    visit = Visit(state, request, ("model", "trace", "sort", "predicate", "t", "find"))
    inspected, tables = visit.inspected, visit.inspected.view.tables
    sorts = [name for name, size in tables.sizes.items() if size and predicates_of(tables, name)]
    if not sorts:
        raise RefusedError(404, "there is no scene, because no predicate has exactly one argument")
    sort = visit.choice("sort", sorts, sorts[0])
    predicates = predicates_of(tables, sort)
    moving = [name for name in predicates if not tables.signature.predicates[name].static]
    predicate = visit.choice("predicate", predicates, (moving or predicates)[0])
    trace = visit.trace or 0
    length = min(MAX_TIMES, tables.length(trace))
    time = visit.number("t", 0, length - 1)
    seen = {}
    for axiom in inspected.view.theory.axioms:
        try:
            seen[axiom.name] = await state.seen(visit.side, axiom.name)
        except FotError:
            continue  # an axiom that cannot be evaluated has no violations to show
    drawn, degrees = await state.jobs.get(
        ("scene", visit.side, sort, trace, visit.text("find")),
        lambda: content_of(
            tables, seen, sort, trace, length, find=visit.text("find"), stay=visit.same
        ),
    )
    content = {"model": inspected.name, "trace": tables.names.trace(trace), "sort": sort,
               "sorts": sorts, "find": visit.text("find"), "predicate": predicate, "time": time,
               "times": length, **drawn}  # fmt: skip
    more = {
        "frames": _packed(drawn, degrees),
        "now": {name: table[:, time].tolist() for name, table in degrees.items()},
        "timeline": timeline(degrees[predicate], drawn["violations"]),
        "axes": plane_axes(_plane_names(tables, sort) or (), drawn["plane"] or ()),
        "asked": {
            **visit.same,
            "trace": visit.trace_name,
            "sort": visit.text("sort"),
            "find": visit.text("find"),
        },
    }
    return visit.answer("scene.html", content, more)


def predicates_of(tables: Tables, sort: str) -> list[str]:
    """Return the predicates with one argument of a sort."""
    declared = tables.signature.predicates
    return [n for n in tables.predicates if n in declared and declared[n].sorts == (sort,)]


def content_of(
    tables: Tables,
    seen: dict[str, Overview],
    sort: str,
    trace: int,
    length: int,
    *,
    find: str | None,
    stay: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return entities, those with most violations first, with violations over time and degrees."""
    wrong = torch.zeros(tables.sizes[sort], length, dtype=torch.long)
    named: list[list[dict[str, Any]]] = [[] for _ in range(length)]
    for name, one in seen.items():
        wrong += _violations(one, sort, trace, tables.sizes[sort], length)
        _name(named, name, one, trace, stay)
    names = [tables.names.entity(sort, trace, i) for i in range(tables.sizes[sort])]
    wanted = (find or "").casefold()
    there = [i for i, n in enumerate(names) if n is not None and wanted in n.casefold()]
    there.sort(key=lambda i: -int(wrong[i].sum()))
    chosen = torch.tensor(there[:MAX_ENTITIES], dtype=torch.long)
    of_sort = {p: tables.predicate(p).detach() for p in predicates_of(tables, sort)}
    degrees = {p: _rows(t.cpu().float(), trace, chosen, length) for p, t in of_sort.items()}
    drawn = {
        "entities": [names[i] for i in chosen.tolist()],
        "left_out": max(0, len(there) - MAX_ENTITIES),
        "predicates": {p: shades(u).tolist() for p, u in degrees.items()},
        "violations": wrong[chosen].clamp(max=255).tolist(),
        "violated": named,
        "plane": _plane(tables, sort, trace, chosen, length),
    }
    return drawn, degrees


def _rows(table: Tensor, trace: int, chosen: Tensor, length: int) -> Tensor:
    """Return the numbers of some entities in a trace, with axes (entity, time)."""
    table = table[trace if table.shape[0] > 1 else 0][chosen]
    return table.expand(len(chosen), max(length, table.shape[-1]))[:, :length]


def _violations(seen: Overview, sort: str, trace: int, size: int, length: int) -> Tensor:
    """Count the violated cells in which each entity occurs, with axes (entity, time)."""
    cells, heat = seen.heat.cells, seen.heat
    wrong = torch.zeros(size, length, dtype=torch.long)
    rows, times = _violated(seen, trace, length)
    place = rows % max(1, cells.bindings)
    for axis, extent in zip(reversed(cells.axes), reversed(cells.sizes), strict=True):
        number = place % extent
        place = place // extent
        for column in columns(axis, cells.tables):
            if column.sort == sort and len(heat.times) > 1:
                entities = torch.tensor(list(column.entities))[number]
                wrong.index_put_((entities, times), torch.ones_like(times), accumulate=True)
    return wrong


def _violated(seen: Overview, trace: int, length: int) -> tuple[Tensor, Tensor]:
    """Return the rows and times of the violated cells of a trace."""
    each = max(1, seen.heat.cells.bindings)
    part = seen.heat.truth[trace * each : (trace + 1) * each, :length] == 0
    rows, times = part.nonzero().unbind(-1)
    return rows + trace * each, times


def _name(
    named: list[list[dict[str, Any]]], axiom: str, seen: Overview, trace: int, stay: dict[str, Any]
) -> None:
    """Add some violated cells of an axiom to the lists of their times."""
    if len(seen.heat.times) == 1:
        return
    rows, times = _violated(seen, trace, len(named))
    for row, time in zip(rows.tolist(), times.tolist(), strict=True):
        if len(named[time]) < MAX_NAMED:
            cells = seen.heat.cells
            address = f"/axiom/{axiom}/cell" + query({**where(cells, row, time), **stay})
            named[time].append({"axiom": axiom, "binding": cells.label(row), "address": address})


def _plane(
    tables: Tables, sort: str, trace: int, chosen: Tensor, length: int
) -> list[list[list[float]]] | None:
    """Return the positions of entities: two numbers for each time and entity."""
    pair = _plane_names(tables, sort)
    if pair is None:
        return None
    functions = (tables.function(name).cpu().double() for name in pair)
    axes = [_rows(table, trace, chosen, length) for table in functions]
    return torch.stack(axes, -1).transpose(0, 1).tolist()


def _plane_names(tables: Tables, sort: str) -> tuple[str, str] | None:
    """Return the functions that give the positions of a sort's entities."""
    declared = tables.signature.functions
    for pair in PLANES:
        if all(n in declared and declared[n].sorts == (sort,) and declared[n].result == REAL
               and n in tables.functions for n in pair):  # fmt: skip
            return pair
    return None


def _packed(drawn: dict[str, Any], degrees: dict[str, Tensor]) -> dict[str, Any]:
    """Return the data that the page's script plays, with axes (entity, time), in two bytes each."""

    def packed(content: bytes) -> str:
        return base64.b64encode(content).decode()

    fine = (shades(u, _FINE).numpy().astype("<u2") for u in degrees.values())
    return {
        "predicates": [packed(table.tobytes()) for table in fine],
        "violations": packed(bytes(v for row in drawn["violations"] for v in row)),
        "violated": drawn["violated"],
        "plane": finite(drawn["plane"]),
    }
