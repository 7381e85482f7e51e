"""What if: facts to which an address gives other degrees, the consequences, and a file of facts.

The server stores nothing: an address holds all changes, such as `set=Stop(c3)@126=1`, and
determines its page. Characters of names that belong to this notation are escaped, as in addresses.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from fotltn.analysis.changes import Change, change_at, with_changes
from fotltn.analysis.explain.explanation import Explanation
from fotltn.analysis.predictions import as_csv, stated_facts
from fotltn.analysis.tally import Standing
from fotltn.errors import LimitError
from fotltn.web.jobs import PendingError
from fotltn.web.responses import RefusedError
from fotltn.web.sides import Side
from fotltn.web.state import WebState
from fotltn.web.visit import Visit

#: The most facts that an address may change.
MAX_CHANGES = 40

#: The most facts that a page offers to change.
OFFERED = 24

#: Seconds to wait for other axioms before the page is shown without some of them.
GLANCE = 0.2

_SHAPE = re.compile(
    r"(?P<predicate>\w+)(?:\((?P<names>[^()]*)\))?(?:@(?P<time>[0-9]{1,9}))?"
    r"(?:~(?P<trace>[^@~=()]*))?=(?P<degree>[0-9.e-]{1,24})"
)


def written(change: Change, *, degree: bool = True) -> str:
    """Write a change as in addresses; without its degree, only the fact."""
    names = ",".join(_escaped(name) for name in change.entities)
    text = f"{change.predicate}({names})" if change.entities else change.predicate
    text += "" if change.time is None else f"@{change.time}"
    text += "" if change.trace is None else f"~{_escaped(change.trace)}"
    return f"{text}={change.degree:.6g}" if degree else text


def _escaped(name: str) -> str:
    return quote(name, safe=" #:/&;!?'\"<>|*+$[]{}")


def read_change(text: str) -> Change:
    """Read a change from an address.

    Raises:
        RefusedError: the text is not a change.
        DataError: the degree is not a number from 0 to 1.
    """
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise RefusedError(
            400, f"'set' must be a change of a fact, not '{text[:80]}'", "write set=Stop(ego)@3=1"
        )
    predicate, names, time, trace, degree = match.groups()
    entities = () if names is None else tuple(unquote(name) for name in names.split(","))
    when = None if time is None else int(time)
    try:
        number = float(degree)
    except ValueError:
        raise RefusedError(400, f"'{degree}' is not a degree from 0 to 1") from None
    return Change(predicate, entities, when, None if trace is None else unquote(trace), number)


def read_changes(visit: Visit) -> tuple[Change, ...]:
    """Read the changes of an address, also `fact` with `degree`; the last one of a fact counts.

    Raises:
        RefusedError: a change cannot be read, or there are too many.
        DataError: a degree is not a number from 0 to 1.
    """
    texts = list(visit.sets)
    fact, degree = visit.text("fact", 2000), visit.text("degree")
    if (fact is None) != (degree is None):
        raise RefusedError(400, "'fact' and 'degree' belong together")
    if fact is not None:
        texts.append(f"{fact}={degree}")
    if len(texts) > MAX_CHANGES:
        raise RefusedError(413, f"at most {MAX_CHANGES} facts can be changed at once")
    changes = [read_change(text) for text in texts]
    return tuple({change.of: change for change in changes}.values())


def offers(why: Explanation, changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Return the facts of an explanation, each with the addresses that make it true or false."""
    tables, trace = why.cells.tables, why.cell.trace
    others = {one.of: one for one in changes}
    facts: dict[tuple[object, ...], dict[str, Any]] = {}
    for node, _ in why.tree.levels():
        if node.fact is None:
            continue
        change = change_at(tables, node.fact.predicate, trace, node.fact.place, node.value)
        rest = [written(one) for key, one in others.items() if key != change.of]
        fact = written(change, degree=False)
        facts.setdefault(
            change.of,
            {"text": change.text, "time": change.time, "value": node.value, "fact": fact,
             "changed": change.of in others, "rest": rest, "true": [*rest, f"{fact}=1"],
             "false": [*rest, f"{fact}=0"]},
        )  # fmt: skip
    return list(facts.values())[:OFFERED]


def tried(why: Explanation, changes: Sequence[Change]) -> list[str]:
    """Return the changes of a cell's repair, in addition to those already made."""
    tables, trace = why.cells.tables, why.cell.trace
    flips = [
        change_at(tables, flip.predicate, trace, flip.place, float(flip.becomes))
        for flip in why.repair.flips or ()
    ]
    return [written(one) for one in (*changes, *flips)]


async def consequences(visit: Visit, changes: tuple[Change, ...]) -> dict[str, Any]:
    """Return the axioms that changes affect: their values and violations before and after."""
    names = visit.state.touched(visit.side, changes)
    axioms = await asyncio.gather(*(_then(visit, name, changes) for name in names))
    complete = not any(one["pending"] for one in axioms)
    return {"changes": [one.as_dict() for one in changes], "axioms": axioms, "complete": complete}


async def _then(visit: Visit, name: str, changes: tuple[Change, ...]) -> dict[str, Any]:
    """Return an axiom's numbers before and after, if they are already known."""
    now, then, pending = visit.state.standings.get((visit.side, name)), None, False
    try:
        then = await visit.state.then(visit.side, name, changes, GLANCE)
    except PendingError:
        pending = True
    except LimitError:
        pass  # an axiom that is too large has no numbers
    standing = now if isinstance(now, Standing) else None
    return {
        "axiom": name,
        "value": None if standing is None else standing.value,
        "violated": None if standing is None else standing.violated,
        "then": None if then is None else then.value,
        "then_violated": None if then is None else then.violated,
        "pending": pending,
    }


async def facts(state: WebState, request: Request) -> Response:
    """Return a file of facts with the changes of an address; for a model, only changed facts."""
    visit = Visit(state, request, ("model", "set"))
    changes = read_changes(visit)
    text = await state.jobs.get(
        ("facts", visit.side, changes), lambda: corrected(visit.inspected, changes)
    )
    return Response(
        text, media_type="text/csv",
        headers={"content-disposition": 'attachment; filename="facts.csv"'},
    )  # fmt: skip


def corrected(inspected: Side, changes: Sequence[Change]) -> bytes:
    """Return facts with changes, as CSV.

    For stated facts, the file has all of them; for a model, only the changed ones, because its
    predictions are not facts.

    Raises:
        DataError: there is no such fact.
    """
    tables = with_changes(inspected.view.tables, changes)
    if inspected.model is None:
        return as_csv(stated_facts(tables))
    width = max((len(one.entities) for one in changes), default=0)
    columns: dict[str, list[Any]] = {"predicate": [one.predicate for one in changes]}
    for place in range(width):
        columns[f"arg{place + 1}"] = [
            one.entities[place] if place < len(one.entities) else None for one in changes
        ]
    columns["time"] = [one.time for one in changes]
    if any(one.trace is not None for one in changes):
        columns["trace"] = [one.trace for one in changes]
    columns["truth"] = [one.degree for one in changes]
    return as_csv(pa.table(columns))
