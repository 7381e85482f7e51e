"""The pages of predicates: predictions beside labels, by entity and time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from torch import Tensor

from fotltn.analysis.over_time import NO_BYTE
from fotltn.web.parameters import Parameters
from fotltn.web.responses import answer, query, wants
from fotltn.web.rows import MAX_ROWS, PART, Table, chosen, opening, packed
from fotltn.web.state import WebState
from fotltn.web.views import ROWS, frame, where
from fotltn.web.views import predicates as listed_predicates

#: What a heat map of a predicate can show.
SHOWN = ("predictions", "labels")


async def predicates(state: WebState, request: Request) -> Response:
    """All predicates, with how good their predictions are where that is known."""
    Parameters(request, ())
    reports = [await state.metrics(side) for side in range(len(state.sides))]
    found = listed_predicates(state)
    for one in found:
        scores = []
        for report in reports:
            own = None if report is None else report.predicates.get(one["predicate"])
            scores.append(
                None
                if own is None
                else {"facts": own.facts, "pr_auc": own.pr_auc.value, "chance": own.chance.value,
                      "accuracy": own.accuracy.value}
            )  # fmt: skip
        one["scores"] = scores
    content = {"inspected": [s.name for s in state.sides], "predicates": found}
    return answer(request, "predicates.html", content, frame(state, request))


async def predicate(state: WebState, request: Request) -> Response:
    """A predicate: its predictions and labels as heat maps, and as rows, the worst first."""
    given = Parameters(request, ("model", "trace", "sort", "by", "find", "from", "count", "show"))
    name, here = request.path_params["name"], where(state, given)
    decl = state.predicate(here.side, name)
    table = await state.table(here.side, name)
    sorts = ("error", "name") if table.labelled else ("name",)
    sort = given.choice("sort", ("error", "name"), sorts[0])
    by = given.number("by", here.side + 1, len(state.sides), least=1) - 1
    both = state.comparable and name in state.sides[1 - here.side].theory.signature.predicates
    order = (await state.table(by, name)).order if both and by != here.side else table.order
    order = order if sort == "error" else order.sort().values
    chosen_rows = chosen(order, table.cells, here.trace, given.text("find"))
    start, show = given.number("from", 0), given.choice("show", SHOWN, SHOWN[0])
    if wants(request) == "bytes":
        numbers = chosen_rows[start : start + given.number("count", PART, MAX_ROWS, least=1)]
        cells = table.prediction_bytes if show == SHOWN[0] else table.label_bytes
        body = packed(table.cells, numbers, start, len(chosen_rows), cells(numbers))
        return Response(body, media_type="application/octet-stream")
    numbers = chosen_rows[start : start + given.number("count", ROWS, MAX_ROWS, least=1)]
    narrowed = {
        "trace": None if here.trace is None else state.sides[here.side].facts.traces[here.trace],
        "sort": sort,
        "find": given.text("find"),
    }
    content = {
        "predicate": name,
        "sorts": list(decl.sorts),
        "static": decl.static,
        "learned": name in state.sides[here.side].learned,
        "model": state.sides[here.side].name,
        "labelled": table.labelled,
        "tested": table.held_back,
        **narrowed,
        "total": len(chosen_rows),
        "from": start,
        "to": start + len(numbers),
        "rows": [_row(table, row) for row in numbers.tolist()],
    }
    tables = {here.side: table}
    if both:
        tables[1 - here.side] = await state.table(1 - here.side, name)
    more = {
        **frame(state, request, here),
        "panels": _panels(state, name, here.side, tables, chosen_rows, narrowed),
        "times": table.values.shape[1],
        "letters": max((len(table.cells.label(r)) for r in chosen_rows[:40].tolist()), default=4),
        "sort_names": sorts,
    }
    return answer(request, "predicate.html", content, more)


def _panels(
    state: WebState,
    name: str,
    side: int,
    tables: Mapping[int, Table],
    listed: Tensor,
    narrowed: Mapping[str, str | None],
) -> list[dict[str, Any]]:
    """The heat maps of a page: predictions, of one or two, and the labels beside them."""
    own, both = tables[side], len(tables) == 2
    base = f"/predicate/{name}"
    times = own.values.shape[1]
    shown: list[tuple[int, str, str, str]] = [
        (one, state.sides[one].name if both else "predictions" if own.labelled else "",
         SHOWN[0], "--blue")
        for one in sorted(tables)
    ]  # fmt: skip
    if own.labelled:
        shown.append((side, "labels", SHOWN[1], "--green"))
    found = []
    for one, title, show, hue in shown:
        table = tables[one]
        kept = {"model": one + 1 if one else None, "by": side + 1 if both else None, **narrowed}
        cells = table.prediction_bytes if show == SHOWN[0] else table.label_bytes
        found.append(
            {
                "title": title,
                "url": base + query({"format": "bytes", "show": show, **kept}),
                "open": f"{base}/row" + query({"model": one + 1}),
                "first": opening(table.cells, listed, times, cells),
                "hue": hue,
                "reversed": True,
            }
        )
    return found


def _row(table: Table, row: int) -> dict[str, Any]:
    """A row with its degrees and labels over time."""
    threshold = table.cells.threshold
    values, labels = table.values[row].tolist(), table.labels[row].tolist()
    stated = [None if v == NO_BYTE else v / 254 for v in labels]
    both = [(v, s) for v, s in zip(values, stated, strict=True) if s is not None and v == v]
    return {
        "row": row,
        "trace": table.cells.trace_of(row),
        "binding": table.cells.binding(table.cells.cell(row, 0)),
        "error": float(table.errors[row]) if both else None,
        "labelled": len(both),
        "wrong": sum((v >= threshold) != (s >= 0.5) for v, s in both),
        "values": values,
        "labels": stated,
        "tested": table.tested[row].tolist(),
    }


async def predicate_row(state: WebState, request: Request) -> Response:
    """One row of a predicate: predictions and labels over time."""
    given = Parameters(request, ("model", "row", "time"))
    name, here = request.path_params["name"], where(state, given)
    decl = state.predicate(here.side, name)
    table = await state.table(here.side, name)
    row = given.number("row", 0, table.cells.rows - 1)
    time = given.number("time", 0, table.values.shape[1] - 1)
    content = {
        "predicate": name,
        "static": decl.static,
        "model": state.sides[here.side].name,
        "time": time,
        "threshold": table.cells.threshold,
        **_row(table, row),
    }
    both = state.comparable and name in state.sides[1 - here.side].theory.signature.predicates
    if both:
        content["other"] = _row(await state.table(1 - here.side, name), row)["values"]
    more = {
        **frame(state, request, here),
        "series": [None if v != v else v for v in content["values"]],
        "other_series": [None if v != v else v for v in content.get("other", [])],
        "title": f"{name}({', '.join(content['binding'].values())})"
        if content["binding"]
        else name,
        "other_name": state.sides[1 - here.side].name if both else "",
        "back": f"/predicate/{name}" + query({"model": here.side + 1 if here.side else None}),
    }
    return answer(request, "row.html", content, more)
