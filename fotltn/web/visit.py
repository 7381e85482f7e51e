"""A visit: the parameters of a request, its side, and the rows of a heat map that it sees.

A part of a heat map is sent as bytes: the length of a head (four bytes, least significant first),
the head as JSON with a label for each row, and a byte for each row and time, 0 to 254 for a degree
from 0 to 1 and 255 for a cell that does not count.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from starlette.requests import Request
from starlette.responses import Response
from torch import Tensor

from fotltn.analysis.cells import Cells
from fotltn.errors import did_you_mean
from fotltn.errors import listing as joined
from fotltn.web.places import WORDS, where
from fotltn.web.responses import RefusedError, answer, query, wants
from fotltn.web.state import WebState

#: The longest formula that can be typed, in characters.
MAX_FORMULA = 4000

#: The longest other text.
MAX_TEXT = 200

_LARGEST = 2**53  # numbers above this are not exact in JavaScript

#: Rows of a table, unless the address says otherwise.
ROWS = 15

#: The most rows to send at once.
MAX_ROWS = 1024

#: The rows that the script of the pages fetches at once.
PART = 64

#: The most cells of a heat map to include in a page.
MAX_OPENING = 2**15

#: A function that returns rows of a heat map as bytes.
Shades = Callable[[Tensor], bytes]


class Visit:
    """A request for a page, with its parameters, each of which must be known and given once.

    `model` names the side and `trace` the trace; by default, all traces.
    """

    def __init__(
        self,
        state: WebState,
        request: Request,
        known: Collection[str] = (),
        *,
        bound: bool = False,
    ) -> None:
        """Read the parameters that a page knows; if `bound`, others name entities of variables.

        Raises:
            RefusedError: one of them is unknown, given twice, or wrong.
        """
        self.state, self.request = state, request
        self.parameters: dict[str, str] = {}
        self.entities: dict[str, str] = {}
        self.sets: list[str] = []
        names = {*known, "format"}
        for name, value in request.query_params.multi_items():
            if name not in names and not bound:
                hint = (
                    did_you_mean(name[:80], names) or f"known parameters: {joined(sorted(names))}"
                )
                raise RefusedError(400, f"unknown parameter '{name[:80]}'", hint)
            if name in self.parameters or name in self.entities:
                raise RefusedError(400, f"the parameter '{name}' is given twice")
            if "\0" in value:
                raise RefusedError(
                    400, f"the parameter '{name}' has a character that is not allowed in text"
                )
            if name == "set" and name in names:  # the only parameter that may be repeated
                self.sets.append(value)
                continue
            (self.parameters if name in names else self.entities)[name] = value
        self.side = self.number("model", 1, len(state.sides), least=1) - 1
        self.inspected = state.sides[self.side]
        traces = self._traces
        self.trace = self.named("trace", traces, "trace")
        self.trace_name = None if self.trace is None else traces[self.trace]
        self.name = str(request.path_params.get("name", ""))

    # --- parameters, read strictly --------------------------------------------------------------

    def text(self, name: str, most: int = MAX_TEXT) -> str | None:
        """Return a text, or None if it is absent or empty."""
        value = self.parameters.get(name, "")
        if len(value) > most:
            message = f"'{name}' has {len(value):,} characters; at most {most:,} are read"
            raise RefusedError(413, message)
        return value or None

    def number(self, name: str, default: int, most: int | None = None, least: int = 0) -> int:
        """Return a whole number from `least` to `most`."""
        value = self.text(name)
        if value is None:
            return default
        limit = _LARGEST if most is None else most
        if not value.isascii() or not value.isdecimal() or not least <= int(value) <= limit:
            upper = "" if most is None else f" to {most:,}"
            raise RefusedError(
                400, f"'{name}' must be a whole number from {least}{upper}, not '{value[:40]}'"
            )
        return int(value)

    def choice(self, name: str, known: Sequence[str], default: str) -> str:
        """Return one of some words."""
        value = self.text(name)
        if value is None:
            return default
        if value not in known:
            hint = did_you_mean(value[:80], known)
            raise RefusedError(
                400, f"'{name}' is one of {', '.join(known)}, not '{value[:40]}'", hint
            )
        return value

    def named(self, name: str, known: Sequence[str], what: str) -> int | None:
        """Return the position of a name among some names, or None if it is absent."""
        if name not in self.parameters or (not self.parameters[name] and "" not in known):
            return None
        value = self.parameters[name]
        if value not in known:
            hint = did_you_mean(value[:80], known) or f"there are {joined(known)}"
            raise RefusedError(404, f"there is no {what} '{value[:80]}'", hint)
        return list(known).index(value)

    def part(self, rows: Tensor, usual: int = ROWS) -> tuple[int, Tensor]:
        """Return the part of a list that an address asks for, and its position."""
        start = self.number("from", 0)
        return start, rows[start : start + self.number("count", usual, MAX_ROWS, least=1)]

    # --- answers ------------------------------------------------------------------------------

    @property
    def form(self) -> str:
        """The format of the answer: html, json or bytes."""
        return wants(self.request)

    @property
    def same(self) -> dict[str, Any]:
        """The parameter that keeps addresses on the same side."""
        return same(self.side)

    def answer(
        self, page: str, content: Mapping[str, Any], more: Mapping[str, Any] | None = None
    ) -> Response:
        """Return content as a page, with the frame of every page, or as JSON.

        Args:
            page: the name of the template.
            content: the content of both formats.
            more: further content that only the page needs.
        """
        return answer(self.request, page, content, {**self._frame(), **(more or {})})

    def _frame(self) -> dict[str, Any]:
        path = self.request.url.path
        every = {k: v for k, v in self.request.query_params.multi_items() if k != "format"}
        return {
            "sides": [s.name for s in self.state.sides],
            "side": self.side,
            "traces": self._traces,
            "trace_chosen": self.trace_name,
            "same": self.same,
            "moving": any(
                len(p.sorts) == 1 for p in self.inspected.view.theory.signature.predicates.values()
            ),
            "sampled": self._sampled(),
            "stay": {**self.same, "trace": self.trace_name},
            "as_json": path + query({**every, "format": "json"}),
            "path": path,
        }

    @property
    def _traces(self) -> tuple[str, ...]:
        tables = self.inspected.view.tables
        return tuple(tables.names.trace(number) for number in range(tables.batch))

    def _sampled(self) -> dict[str, Any] | None:
        """Return the parameter of a side with sampled worlds, if there is one."""
        for side in (self.side, *range(len(self.state.sides))):
            model = self.state.sides[side].model
            if model is not None and model.posterior is not None:
                return same(side)
        return None


def same(side: int) -> dict[str, Any]:
    """Return the parameter that names a side; the first side needs none."""
    return {"model": side + 1 if side else None}


def cell_at(visit: Visit, cells: Cells, columns: int) -> tuple[int, int]:
    """Return the row and the time that an address names.

    Args:
        visit: the request.
        cells: the cells of the formula.
        columns: the number of times.

    Raises:
        RefusedError: a parameter is unknown, or a cell is named twice.
        DataError: there is no such entity.
    """
    for name in visit.entities:
        if name not in cells.variables:
            known = [*cells.variables, *WORDS]
            hint = did_you_mean(name[:80], known) or f"its variables are {joined(cells.variables)}"
            raise RefusedError(400, f"unknown parameter '{name[:80]}'", hint)
    if "time" in visit.parameters and "t" in visit.parameters:
        raise RefusedError(400, "the time is given twice, as 't' and as 'time'")
    time = visit.number("t" if "t" in visit.parameters else "time", 0, columns - 1)
    if not visit.entities:
        first = 0 if visit.trace is None else visit.trace * cells.bindings
        return visit.number("row", first, cells.rows - 1), time
    if "row" in visit.parameters:
        raise RefusedError(400, "a cell is named by its row or by its entities, not by both")
    return cells.row(cells.find(visit.entities, 0, visit.trace or 0)), time


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """The rows of a heat map that a page shows, in all formats.

    Args:
        visit: the request.
        cells: the cells whose bindings are the rows.
        rows: the requested rows, in order.
        narrowed: the words that selected the rows.
        truth: the truth of each row over time, 0 for a violation; None if there are no violations.
    """

    visit: Visit
    cells: Cells
    rows: Tensor
    narrowed: Mapping[str, str | None]
    truth: Tensor | None = None

    def table(self, row: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
        """Return some rows as data, also for the table below a heat map."""
        start, rows = self.visit.part(self.rows)
        return {
            "total": len(self.rows),
            "from": start,
            "to": start + len(rows),
            "rows": [row(number) for number in rows.tolist()],
        }

    def part(self, shades: Shades) -> Response:
        """Return some rows as bytes."""
        body = self._packed(*self.visit.part(self.rows, PART), shades)
        return Response(body, media_type="application/octet-stream")

    def _packed(self, start: int, rows: Tensor, shades: Shades) -> bytes:
        """Return rows as bytes with a head."""
        wrong = torch.zeros(len(rows)) if self.truth is None else (self.truth[rows] == 0).any(-1)
        labels = [
            {"row": row, "text": self.cells.label(row), "at": query(where(self.cells, row))[1:],
             "wrong": bool(bad)}
            for row, bad in zip(rows.tolist(), wrong.tolist(), strict=True)
        ]  # fmt: skip
        content = {"start": start, "rows": len(self.rows), "labels": labels}
        head = json.dumps(content).encode()
        return struct.pack("<I", len(head)) + head + shades(rows)

    @property
    def letters(self) -> int:
        """Return the length of the longest label among the first rows."""
        marks = 0 if self.truth is None else 2
        labels = (self.cells.label(row) for row in self.rows[:40].tolist())
        return marks + max(map(len, labels), default=4)

    def panel(
        self,
        address: str,
        asked: Mapping[str, Any],
        opened: str,
        shades: Shades,
        times: int,
        *,
        title: str = "",
        hue: str = "--bad",
    ) -> dict[str, Any]:
        """Return a heat map of the rows for the page's script.

        Args:
            address: the address of further rows.
            asked: the parameters of that address.
            opened: the address of a cell, without its row and time.
            shades: a function that returns rows as bytes.
            times: the number of columns.
            title: the title above the heat map.
            hue: the colour; the colour of errors stands for false, any other for true.
        """
        first = self.rows[:PART]  # rows inside the page save a request
        small = len(first) * times <= MAX_OPENING
        return {
            "title": title,
            "url": address + query({"format": "bytes", **asked, **self.narrowed}),
            "open": opened,
            "first": base64.b64encode(self._packed(0, first, shades)).decode() if small else "",
            "hue": hue,
            "reversed": hue != "--bad",
        }


def chosen(order: Tensor, cells: Cells, trace: int | None, find: str | None) -> Tensor:
    """Return the rows, in an order, of a trace and with entities that some words name."""
    if trace is not None:
        order = order[order // cells.bindings == trace]
    for word in (find or "").split():
        order = order[cells.containing(word)[order]]
    return order


def listing(
    visit: Visit, cells: Cells, order: Tensor, sort: str, truth: Tensor | None = None
) -> Listing:
    """Return the listing of the rows, in an order, of a trace and with named entities."""
    find = visit.text("find")
    rows = chosen(order, cells, visit.trace, find)
    narrowed = {"trace": visit.trace_name, "sort": sort, "find": find}
    return Listing(visit, cells, rows, narrowed, truth)
