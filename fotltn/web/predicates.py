"""The pages of predicates: predictions beside labels, by entity and time."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fotltn.analysis.over_time import NO_BYTE
from fotltn.analysis.prediction_rows import Predictions
from fotltn.posterior.posterior import Posterior
from fotltn.web.places import where
from fotltn.web.responses import RefusedError, query
from fotltn.web.state import WebState
from fotltn.web.views import gaps
from fotltn.web.views import predicates as listed_predicates
from fotltn.web.visit import Visit, cell_at, listing, same
from fotltn.web.worlds import WorldNumber, beside, sampled, world_bytes

#: The contents that a heat map of a predicate can show.
SHOWN = ("predictions", "labels", "world")


async def predicates(state: WebState, request: Request) -> Response:
    """List all predicates, with the metrics of their predictions where known."""
    visit = Visit(state, request)
    reports = [await state.metrics(side) for side in range(len(state.sides))]
    entries = listed_predicates(state)
    for entry in entries:
        entry["scores"] = scores = []
        for report in reports:
            one = None if report is None else report.predicates.get(entry["predicate"])
            scores.append(
                None
                if one is None
                else {"facts": one.facts, "pr_auc": one.pr_auc.value, "chance": one.chance.value,
                      "accuracy": one.accuracy.value, "log_loss": one.log_loss.value,
                      "ece": one.ece.value}
            )  # fmt: skip
    content = {"inspected": [s.name for s in state.sides], "predicates": entries}
    return visit.answer("predicates.html", content)


async def _tables(visit: Visit) -> dict[int, Predictions]:
    """Return the predictions of one side, and of the other if both can be compared."""
    state, side, name = visit.state, visit.side, visit.name
    tables = {side: await state.table(side, name)}
    if state.comparable and name in state.sides[1 - side].view.theory.signature.predicates:
        tables[1 - side] = await state.table(1 - side, name)
    return tables


async def predicate(state: WebState, request: Request) -> Response:
    """Show a predicate: its predictions and labels as heat maps and as rows, the worst first."""
    known = ("model", "trace", "sort", "by", "find", "from", "count", "show", "world")
    visit = Visit(state, request, known)
    name, side = visit.name, visit.side
    decl = state.predicate(side, name)
    tables = await _tables(visit)
    table, both = tables[side], len(tables) == 2
    sorts = ("error", "name") if table.labelled else ("name",)
    sort = visit.choice("sort", ("error", "name"), sorts[0])
    by = visit.number("by", side + 1, len(state.sides), least=1) - 1
    order = tables.get(by, table).order
    rows = listing(visit, table.cells, order if sort == "error" else order.sort().values, sort)
    show = visit.choice("show", SHOWN, SHOWN[0])
    world, posterior = _world(visit), _posterior(visit)
    by_name = {SHOWN[0]: table.prediction_bytes, SHOWN[1]: table.label_bytes}
    if world is not None:
        by_name[SHOWN[2]] = world_bytes(sampled(visit.inspected), name, world, table)
    if visit.form == "bytes":
        if show not in by_name:
            raise RefusedError(400, "the address does not say which world to show", "add world=0")
        return rows.part(by_name[show])
    report = await state.metrics(side)
    measured = None if report is None else report.predicates.get(name)
    content = {
        "predicate": name,
        "calibration": None if measured is None else measured.calibration.as_dict(),
        "sorts": list(decl.sorts),
        "static": decl.static,
        "learned": name in visit.inspected.view.learned,
        "model": visit.inspected.name,
        "labelled": table.labelled,
        "tested": table.held_back,
        "world": world,
        **rows.narrowed,
        **rows.table(lambda row: _row(table, row)),
    }
    base, asked = f"/predicate/{name}", {"by": side + 1 if both else None}
    alone = SHOWN[0] if table.labelled else ""
    maps = [
        (one, SHOWN[0], state.sides[one].name if both else alone, tables[one].prediction_bytes,
         "--blue")
        for one in sorted(tables)
    ]  # fmt: skip
    if table.labelled:
        maps.append((side, SHOWN[1], SHOWN[1], table.label_bytes, "--green"))
    if world is not None:
        title = "the most probable world" if world == "best" else f"world {world}"
        maps.append((side, SHOWN[2], title, by_name[SHOWN[2]], "--accent"))
    more = {
        "worlds": 0 if posterior is None else posterior.count,
        "panels": [
            rows.panel(
                base, {"show": show, "world": world, **same(one), **asked},
                f"{base}/row" + query(same(one)), shades, table.values.shape[1],
                title=title, hue=hue,
            )
            for one, show, title, shades, hue in maps
        ],
        "times": table.values.shape[1],
        "letters": rows.letters,
        "sort_names": sorts,
    }  # fmt: skip
    return visit.answer("predicate.html", content, more)


def _posterior(visit: Visit) -> Posterior | None:
    """Return the sampled worlds of one side, if they contain the predicate."""
    model = visit.inspected.model
    posterior = None if model is None else model.posterior
    return posterior if posterior is not None and visit.name in posterior.worlds else None


def _world(visit: Visit) -> WorldNumber | None:
    """Return the world that an address names.

    Raises:
        RefusedError: there is no world of that number.
    """
    if visit.text("world") is None:
        return None
    posterior = _posterior(visit)
    if posterior is None:
        raise RefusedError(404, f"sampled worlds do not contain '{visit.name}'")
    if visit.text("world") == "best":
        return "best"
    return visit.number("world", 0, posterior.count - 1)


def _row(table: Predictions, row: int) -> dict[str, Any]:
    """Return a row with its degrees and labels over time."""
    values, labels = table.values[row].tolist(), table.labels[row].tolist()
    stated = [None if v == NO_BYTE else v / 254 for v in labels]
    truths = zip(values, table.truths[row].tolist(), strict=True)
    decided = [None if v != v else truth for v, truth in truths]
    pairs = zip(decided, stated, strict=True)
    both = [(truth, s) for truth, s in pairs if truth is not None and s is not None]
    return {
        "row": row,
        "place": where(table.cells, row),
        "trace": table.cells.trace_of(row),
        "binding": table.cells.binding(table.cells.cell(row, 0)),
        "error": float(table.errors[row]) if both else None,
        "labelled": len(both),
        "wrong": sum(truth != (s >= 0.5) for truth, s in both),
        "values": values,
        "decided": decided,
        "labels": stated,
        "tested": table.tested[row].tolist(),
    }


async def predicate_row(state: WebState, request: Request) -> Response:
    """Show one row of a predicate: predictions and labels over time."""
    visit = Visit(state, request, ("model", "row", "time", "t", "trace"), bound=True)
    name, side = visit.name, visit.side
    decl = state.predicate(side, name)
    tables = await _tables(visit)
    table = tables[side]
    row, time = cell_at(visit, table.cells, table.values.shape[1])
    content = {
        "predicate": name,
        "static": decl.static,
        "model": visit.inspected.name,
        "time": time,
        "threshold": table.cells.threshold_of(name),
        **_row(table, row),
    }
    posterior = _posterior(visit)
    if posterior is not None:
        content["worlds"] = beside(posterior, name, row, table)
    both = len(tables) == 2
    if both:
        content["other"] = tables[1 - side].values[row].tolist()
    entities = ", ".join(content["binding"].values())
    more = {
        "series": gaps(content["values"]),
        "other_series": gaps(content.get("other", [])),
        "title": f"{name}({entities})" if content["binding"] else name,
        "other_name": state.sides[1 - side].name if both else "",
        "back": f"/predicate/{name}" + query(visit.same),
    }
    return visit.answer("row.html", content, more)
