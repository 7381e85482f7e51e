"""The application: addresses, their pages, and the answers to errors."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fotltn.errors import FotError
from fotltn.web import compare, formulas, predicates, scene, views, what_if, worlds
from fotltn.web.jobs import VISITOR, PendingError
from fotltn.web.responses import RefusedError, answer, failed, failure, static_response, wants
from fotltn.web.security import Guard, Rules, visitor_of
from fotltn.web.state import WebState

PageMaker = Callable[[WebState, Request], Coroutine[Any, Any, Response]]

#: The addresses, and the function that answers each.
PAGES: dict[str, PageMaker] = {
    "/": views.theory,
    "/axiom/{name}": views.axiom,
    "/axiom/{name}/cell": views.cell,
    "/formula": formulas.formula,
    "/formula/cell": formulas.formula_cell,
    "/predicates": predicates.predicates,
    "/predicate/{name}": predicates.predicate,
    "/predicate/{name}/row": predicates.predicate_row,
    "/worlds": worlds.worlds,
    "/doubts": worlds.doubts,
    "/compare": compare.compare,
    "/scene": scene.scene,
    "/facts.csv": what_if.facts,
}

_log = logging.getLogger("fotltn.web")


def application(
    state: WebState, rules: Rules, ready: Callable[[], None] | None = None
) -> Starlette:
    """Return the application over a state, behind a guard; `ready` is called when it is ready."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        state.start()
        if ready is not None:
            ready()
        try:
            yield
        finally:
            state.jobs.close()

    routes = [Route(path, _handler(state, make)) for path, make in PAGES.items()]
    app = Starlette(
        routes=[*routes, Route("/static/{name}", static_response)],
        middleware=[Middleware(Guard, rules)],
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # a wrong address gets an answer that names the right ones
    return app


def _handler(
    state: WebState, make: PageMaker
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """Wrap the function of a page, so that errors become messages."""

    async def handle(request: Request) -> Response:
        VISITOR.set(visitor_of(request))
        try:
            return await _while_there(make(state, request), request)
        except RefusedError as error:
            return failure(request, error.status, error.message, error.hint)
        except FotError as error:
            return failed(request, error)
        except PendingError:
            return _pending(request)
        except Exception as error:
            if isinstance(error, MemoryError) or "allocate" in str(error):
                return failure(request, 413, "this does not fit into memory")
            _log.exception("internal error at %s", request.url.path)
            return failure(request, 500, "something went wrong here; the terminal says what")

    return handle


async def _while_there(answering: Coroutine[Any, Any, Response], request: Request) -> Response:
    """Answer a request; cancel its work if the client disconnects."""
    answer = asyncio.create_task(answering)
    gone = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        return Response(status_code=499)  # nobody reads this answer
    finally:
        answer.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _pending(request: Request) -> Response:
    """Answer a client that has waited long enough: the page asks again by itself."""
    if wants(request) != "html":
        return failure(
            request, 202, "this is still being computed", "ask again in a moment",
            headers={"retry-after": "1"},
        )  # fmt: skip
    response = answer(request, "pending.html", {})
    response.status_code = 202
    response.headers["retry-after"] = "1"
    return response


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = {404: "there is no such page", 405: "pages can only be read"}
    hint = f"there are {', '.join(PAGES)}" if error.status_code == 404 else None
    return failure(
        request, error.status_code, message.get(error.status_code, error.detail), hint,
        headers=error.headers,
    )  # fmt: skip
