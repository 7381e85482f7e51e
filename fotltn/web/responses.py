"""Responses: the content of a page as HTML or, at the same address, as JSON; errors likewise."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from fotltn.errors import Diagnostic, FotError, LimitError
from fotltn.format import finite
from fotltn.reporting.html import templates

#: The formats of an answer.
FORMATS = ("html", "json", "bytes")


class RefusedError(Exception):
    """A request that is answered with a message instead of content."""

    def __init__(self, status: int, message: str, hint: str | None = None) -> None:
        """Store the message, and the HTTP status, 400 to 499."""
        super().__init__(message)
        self.status, self.message, self.hint = status, message, hint


def wants(request: Request) -> str:
    """Return the format that a request asks for, by `?format=` or else by its header Accept.

    Raises:
        RefusedError: there is no such format.
    """
    asked = request.query_params.getlist("format")
    if len(asked) > 1 or (asked and asked[0] not in FORMATS):
        raise RefusedError(400, f"'format' is one of {', '.join(FORMATS)}, once")
    if asked:
        return asked[0]
    kinds = [part.split(";")[0].strip() for part in request.headers.get("accept", "").split(",")]
    return "json" if "application/json" in kinds and "text/html" not in kinds else "html"


def answer(
    request: Request, page: str, content: Mapping[str, Any], more: Mapping[str, Any] | None = None
) -> Response:
    """Return content as a page or as JSON.

    Args:
        request: the request.
        page: the name of the template.
        content: the content of both formats.
        more: further content that only the page needs.
    """
    form = wants(request)
    if form == "json":
        return JSONResponse({"ok": True, **finite(content)})
    if form == "bytes":
        raise RefusedError(400, "this address has no binary form; 'format' must be html or json")
    return HTMLResponse(render(page, {**content, **(more or {}), "request": request}))


def failure(
    request: Request,
    status: int,
    message: str,
    hint: str | None = None,
    diagnostics: Sequence[Diagnostic] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an error as a page or as JSON; as JSON if the format itself is wrong."""
    try:
        form = wants(request)
    except RefusedError:
        form = "json"
    errors = list(diagnostics) or [Diagnostic(message, hint=hint)]
    if form != "html":
        body = {"ok": False, "status": status, "diagnostics": [d.as_dict() for d in errors]}
        return JSONResponse(body, status, headers)
    text = render("error.html", {"status": status, "errors": errors, "request": request})
    return HTMLResponse(text, status, headers)


def failed(request: Request, error: FotError) -> Response:
    """Return the answer to a request with errors in its input."""
    status = 413 if isinstance(error, LimitError) else 400
    return failure(request, status, str(error), diagnostics=error.diagnostics)


# --- pages ------------------------------------------------------------------------------------


def render(page: str, content: Mapping[str, Any]) -> str:
    """Fill in a template; all text is escaped."""
    return _templates().get_template(page).render(content)


@cache
def _templates() -> jinja2.Environment:
    environment = templates(Path(__file__).parent / "pages")
    environment.globals["version"] = version()
    environment.filters.update(query=query, bar=bar, steps=steps)
    return environment


def query(values: Mapping[str, Any]) -> str:
    """Build the query of an address; empty values are omitted, several values repeat the name."""
    stated = {k: v for k, v in values.items() if v is not None}
    return f"?{urlencode(stated, doseq=True)}" if stated else ""


def bar(value: float | bool | None, width: float = 100) -> str:
    """Return the length of a bar for a degree.

    >>> bar(0.25)
    '25'
    """
    return f"{width * max(0.0, min(1.0, float(value or 0))):.4g}"


def steps(values: Sequence[float | None], width: float, height: float) -> str:
    """Return the SVG path of degrees over time, each held for one step, with gaps.

    >>> steps([1.0, 0.0], 20, 10)
    'M0 0H10V10H20'
    """
    step = width / max(1, len(values))
    path, inside = "", False
    for place, value in enumerate(values):
        if value is not None:
            y = height * (1 - value)
            path += f"V{y:.4g}" if inside else f"M{place * step:.5g} {y:.4g}"
            path += f"H{(place + 1) * step:.5g}"
        inside = value is not None
    return path


@cache
def static_files() -> Mapping[str, tuple[bytes, str]]:
    """Return scripts and styles by name, with their type; no other files are served."""
    files = {}
    for package, folder, name, kind in (
        ("fotltn.reporting", "pages", "style.css", "text/css"),
        ("fotltn.web", "static", "inspect.css", "text/css"),
        ("fotltn.web", "static", "heat.js", "text/javascript"),
        ("fotltn.web", "static", "formula.js", "text/javascript"),
        ("fotltn.web", "static", "scene.js", "text/javascript"),
        ("fotltn.web", "static", "inspect.js", "text/javascript"),
        ("fotltn.web", "static", "live.css", "text/css"),
        ("fotltn.web", "static", "live.js", "text/javascript"),
        ("fotltn.web", "static", "icon.svg", "image/svg+xml"),
    ):
        file = resources.files(package).joinpath(folder, name)
        files[name] = (file.read_bytes(), f"{kind}; charset=utf-8")
    return files


async def static_response(request: Request) -> Response:
    """Return the file that an address names, to be cached: new content has a new address."""
    file = static_files().get(request.path_params["name"])
    if file is None:
        return failure(request, 404, "there is no such file")
    content, kind = file
    headers = {"cache-control": "max-age=31536000, immutable"}
    return Response(content, media_type=kind, headers=headers)


@cache
def version() -> str:
    """Return a hash of the files, so that browsers can cache them."""
    digest = hashlib.sha256()
    for content, _ in static_files().values():
        digest.update(content)
    return digest.hexdigest()[:12]
