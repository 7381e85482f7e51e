"""A visit: what a request asks for, whom it looks at, and which rows of a heat map it sees."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from torch import Tensor

from fotltn.analysis.cells import Cells
from fotltn.web.parameters import Parameters
from fotltn.web.responses import answer, query, wants
from fotltn.web.rows import MAX_ROWS, PART, chosen, opening, packed
from fotltn.web.state import WebState

#: Rows of a table, unless the address says otherwise.
ROWS = 15

#: Gives rows of a heat map as bytes.
Shades = Callable[[Tensor], bytes]


class Visit(Parameters):
    """A request for a page, with its parameters.

    `model` says who of the inspected is looked at, `trace` at which trace; without it, at all.
    """

    def __init__(self, state: WebState, request: Request, known: Collection[str] = ()) -> None:
        """Read the parameters that a page knows.

        Raises:
            RefusedError: one of them is unknown, given twice, or wrong.
        """
        super().__init__(request, known)
        self.state, self.request = state, request
        self.side = self.number("model", 1, len(state.sides), least=1) - 1
        self.inspected = state.sides[self.side]
        traces = self.inspected.facts.traces
        self.trace = self.named("trace", traces, "trace")
        self.trace_name = None if self.trace is None else traces[self.trace]
        self.name = str(request.path_params.get("name", ""))

    @property
    def form(self) -> str:
        """What the answer is to be: html, json or bytes."""
        return wants(self.request)

    @property
    def same(self) -> dict[str, Any]:
        """The parameter of addresses that stay with whoever is looked at."""
        return same(self.side)

    def answer(
        self, page: str, content: Mapping[str, Any], more: Mapping[str, Any] | None = None
    ) -> Response:
        """Content as a page, with what every page shows around it, or as JSON.

        Args:
            page: the name of the template.
            content: what both forms say.
            more: what only the page needs.
        """
        return answer(self.request, page, content, {**self._frame(), **(more or {})})

    def _frame(self) -> dict[str, Any]:
        path = self.request.url.path
        every = {k: v for k, v in self.request.query_params.multi_items() if k != "format"}
        return {
            "sides": [s.name for s in self.state.sides],
            "side": self.side,
            "traces": self.inspected.facts.traces,
            "trace_chosen": self.trace_name,
            "same": self.same,
            "stay": {**self.same, "trace": self.trace_name},
            "as_json": path + query({**every, "format": "json"}),
            "path": path,
        }


def same(side: int) -> dict[str, Any]:
    """The parameter that names one of the inspected; the first needs none."""
    return {"model": side + 1 if side else None}


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """The rows of a heat map that a page shows, and how they come to it.

    Args:
        visit: the request.
        cells: whose bindings the rows are.
        rows: those that fit what is asked for, in order.
        narrowed: what they were narrowed to.
    """

    visit: Visit
    cells: Cells
    rows: Tensor
    narrowed: Mapping[str, str | None]

    def table(self, row: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
        """Some of the rows for machines, and for the table below a heat map."""
        shown = self._some(ROWS).tolist()
        start = self.visit.number("from", 0)
        return {
            "total": len(self.rows),
            "from": start,
            "to": start + len(shown),
            "rows": [row(number) for number in shown],
        }

    def part(self, shades: Shades) -> Response:
        """Some of the rows as bytes."""
        rows, start = self._some(PART), self.visit.number("from", 0)
        body = packed(self.cells, rows, start, len(self.rows), shades(rows))
        return Response(body, media_type="application/octet-stream")

    def _some(self, default: int) -> Tensor:
        start = self.visit.number("from", 0)
        return self.rows[start : start + self.visit.number("count", default, MAX_ROWS, least=1)]

    @property
    def letters(self) -> int:
        """The longest label among the first rows: how much room labels need."""
        return max((len(self.cells.label(row)) for row in self.rows[:40].tolist()), default=4)

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
        """A heat map of the rows for the script of the page.

        Args:
            address: where further rows come from.
            asked: its parameters.
            opened: the address of a cell, without its row and time.
            shades: gives the bytes of rows.
            times: the number of columns.
            title: stands above.
            hue: the colour; that of what is bad stands for false, any other for true.
        """
        return {
            "title": title,
            "url": address + query({"format": "bytes", **asked, **self.narrowed}),
            "open": opened,
            "first": opening(self.cells, self.rows, times, shades),
            "hue": hue,
            "reversed": hue != "--bad",
        }


def listing(visit: Visit, cells: Cells, order: Tensor, sort: str) -> Listing:
    """The rows of an order that belong to a trace, and bind an entity of a name."""
    find = visit.text("find")
    rows = chosen(order, cells, visit.trace, find)
    return Listing(visit, cells, rows, {"trace": visit.trace_name, "sort": sort, "find": find})
