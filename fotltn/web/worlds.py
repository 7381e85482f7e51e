"""The pages of sampled worlds: what was sampled, one world beside others, and doubtful labels."""

from __future__ import annotations

from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response
from torch import Tensor

from fotltn.analysis.cells import Cell
from fotltn.analysis.over_time import shades
from fotltn.analysis.prediction_rows import Predictions
from fotltn.posterior.doubts import Doubt
from fotltn.posterior.objections import AxiomObjection, Objections
from fotltn.posterior.posterior import Posterior
from fotltn.web.places import WORDS, where
from fotltn.web.responses import RefusedError, query
from fotltn.web.sides import Side
from fotltn.web.state import WebState
from fotltn.web.views import gaps
from fotltn.web.visit import Visit

#: The number of a sampled world, or the word for the most probable one.
WorldNumber = int | Literal["best"]

#: The number of worlds to show beside the probability of a fact.
BESIDE = 6


def sampled(inspected: Side) -> Posterior:
    """Return the sampled worlds of a side.

    Raises:
        RefusedError: there are no sampled worlds.
    """
    posterior = None if inspected.model is None else inspected.model.posterior
    if posterior is None:
        raise RefusedError(
            404, f"{inspected.name} has no sampled worlds", 'train with method = "posterior"'
        )
    return posterior


async def worlds(state: WebState, request: Request) -> Response:
    """Show what was sampled, the most probable world, and the sampled ones by probability."""
    visit = Visit(state, request, ("model", "from", "count"))
    posterior = sampled(visit.inspected)
    order = posterior.density.argsort(descending=True, stable=True)
    start, some = visit.part(order)
    below = (posterior.best_density - posterior.density).tolist()
    rows = [
        {"world": n, "chain": n % posterior.chains, "below_best": below[n],
         "true": {name: int(table[n].sum()) for name, table in posterior.worlds.items()}}
        for n in some.tolist()
    ]  # fmt: skip
    content = {
        "model": visit.inspected.name,
        **posterior.as_dict(),
        "warnings": list(posterior.warnings),
        "predicates": list(posterior.learned),
        "total": len(order),
        "from": start,
        "to": start + len(rows),
        "rows": rows,
        "best": {name: int(table.sum()) for name, table in posterior.best.items()},
    }
    return visit.answer("worlds.html", content)


def world_rows(posterior: Posterior, name: str, world: WorldNumber, table: Predictions) -> Tensor:
    """Return the truth of a predicate in a world, with axes (row, time), like its predictions."""
    values = posterior.best[name] if world == "best" else posterior.worlds[name][world]
    truth = values.cpu().float().expand(-1, *table.cells.sizes, -1)
    rows = truth.reshape(table.values.shape).clone()
    rows[table.values.isnan()] = float("nan")
    return rows


def world_bytes(posterior: Posterior, name: str, world: WorldNumber, table: Predictions) -> Any:
    """Return a function that returns rows of a world as bytes."""
    return lambda rows: bytes(shades(world_rows(posterior, name, world, table)[rows]).numpy())


def beside(posterior: Posterior, name: str, row: int, table: Predictions) -> list[dict[str, Any]]:
    """Return a row of a predicate in the most probable world and the last worlds of some chains."""
    last = range(posterior.count - 1, max(-1, posterior.count - 1 - posterior.chains), -1)
    chosen: list[WorldNumber] = ["best", *last]
    return [
        {"world": n, "values": gaps(world_rows(posterior, name, n, table)[row].tolist())}
        for n in chosen[:BESIDE]
    ]


# --- doubtful labels --------------------------------------------------------------------------


async def doubts(state: WebState, request: Request) -> Response:
    """List all labels, the most doubtful first, with the evidence against them."""
    visit = Visit(state, request, ("model", "predicate", "from", "count"))
    sampled(visit.inspected)
    every = await state.doubts(visit.side)
    names = every.predicates
    number = visit.named("predicate", names, "labelled predicate")
    chosen = None if number is None else names[number]
    start, some = visit.part(every.places(chosen))
    places = some.tolist()
    against = await state.against(visit.side, tuple(places))
    rows = [
        await _doubt(visit, every[place], objections)
        for place, objections in zip(places, against, strict=True)
    ]
    content = {
        "model": visit.inspected.name,
        "labels": len(every),
        "expected_wrong": every.expected(),
        "likely_wrong": int((every.wrong > 0.5).sum()),
        "predicates": names,
        "predicate": chosen,
        "total": len(every.places(chosen)),
        "from": start,
        "to": start + len(rows),
        "rows": rows,
    }
    return visit.answer("doubts.html", content)


async def _doubt(visit: Visit, one: Doubt, against: Objections) -> dict[str, Any]:
    """Return a label with the evidence against it, and its address."""
    cells = (await visit.state.table(visit.side, one.predicate)).cells
    row = cells.row(Cell(one.trace, one.arguments, 0))
    asked = {**where(cells, row, one.time), **visit.same}
    axioms = [
        {"text": str(axiom), "address": _broken(visit, axiom, cells.trace_of(row))}
        for axiom in against.axioms
    ]
    return {
        **one.as_dict(),
        "label": str(one),
        "trace": visit.inspected.view.tables.names.trace(one.trace),
        "address": f"/predicate/{one.predicate}/row{query(asked)}",
        "against": against.as_dict(),
        "axioms": axioms,
        "words": against.words[len(axioms) :],
    }


def _broken(visit: Visit, axiom: AxiomObjection, trace: str | None) -> str | None:
    """Return the address of the cell where a label breaks an axiom, if the axiom has that cell."""
    named = {a.name: a for a in visit.inspected.view.theory.axioms}
    if axiom.axiom not in named:
        return None
    cells = visit.inspected.view.cells(named[axiom.axiom])
    if {*axiom.binding} != {*cells.variables} or {*axiom.binding} & {*WORDS}:
        return None
    when = axiom.time if cells.columns > 1 else None
    asked = {**axiom.binding, "t": when, "trace": trace, **visit.same}
    return f"/axiom/{axiom.axiom}/cell{query(asked)}"
