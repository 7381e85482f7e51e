"""Decide which requests are answered: those to this address, not from other sites, with the token.

A page of another site can make a browser send requests here, and can point its own name at this
machine. So a request must name the address that the server is bound to, must not come from another
site, and must have the token that the command printed.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fotltn.web.responses import failure

#: The longest path and query to read, in bytes.
MAX_TARGET = 40_000

#: The most requests with a token to answer at once; further clients are told to come back.
MAX_AT_ONCE = 256

#: The end of the name of the cookie that tells browsers apart.
VISITOR = "-visitor"

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
    "vary": "Accept, Cookie, Authorization",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """The requirements for a request.

    Args:
        hosts: the values that the header Host may have, with the port.
        token: what a client must know; None asks for nothing.
        cookie: the name of the cookie with the token. Cookies are shared by all ports, so the name
            includes the port.
    """

    hosts: frozenset[str]
    token: str | None
    cookie: str


class Guard:
    """Passes a request on to the application, or refuses it with a message."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        """Guard an application."""
        self.app, self.rules = app, rules
        self.answering = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self.app(scope, receive, send)
            return
        refused = self._refusal(Request(scope))
        if refused is None and self.answering >= MAX_AT_ONCE:
            message = f"{MAX_AT_ONCE} requests are being answered"
            refused = failure(
                Request(scope), 503, message, "try again in a moment", headers={"retry-after": "1"}
            )

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if refused is not None:
            await refused(scope, receive, guarded)
            return
        self.answering += 1
        try:
            await self.app(scope, receive, guarded)
        finally:
            self.answering -= 1

    def _refusal(self, request: Request) -> Response | None:
        """Return the refusal of a request, or None."""
        target = len(request.scope["raw_path"]) + len(request.scope["query_string"])
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self.rules.hosts:
            return failure(
                request, 421, "this server answers only at the address that it was started with",
                f"use http://{min(self.rules.hosts)}/",
            )  # fmt: skip
        if (refused := self._from_elsewhere(request)) is not None:
            return refused
        if request.method not in ("GET", "HEAD"):
            message = f"the method {request.method[:20]} is not allowed: pages can only be read"
            return failure(request, 405, message, headers={"allow": "GET, HEAD"})
        if request.headers.get("content-length", "0").strip("0") or (
            "transfer-encoding" in request.headers
        ):
            return failure(
                request, 413, "requests must not have a body; parameters belong in the query"
            )
        if target > MAX_TARGET:
            message = f"the address has {target:,} bytes; at most {MAX_TARGET:,} are read"
            return failure(request, 414, message)
        if request.url.path.startswith("/static/") or self.rules.token is None:
            return None
        return self._without_token(request, self.rules.token)

    def _from_elsewhere(self, request: Request) -> Response | None:
        """Refuse requests that a page of another site or port made a browser send."""
        ours = {f"http://{host}" for host in self.rules.hosts}
        origins = request.headers.getlist("origin")
        sites = request.headers.getlist("sec-fetch-site")
        if any(o.lower() not in ours for o in origins) or any(
            s not in ("same-origin", "none") for s in sites
        ):
            return failure(
                request, 403, "this request comes from a page of another site, and is refused",
                "open the address that the command printed in a new tab",
            )  # fmt: skip
        return None

    def _without_token(self, request: Request, token: str) -> Response | None:
        """Refuse clients without the token; a token in the address becomes a cookie."""
        asked = request.query_params.getlist("token")
        if asked:
            if len(asked) > 1 or not _same(asked[0], token):
                return self._unknown(request)
            rest = [(k, v) for k, v in request.query_params.multi_items() if k != "token"]
            path = "/" + request.url.path.lstrip("/")  # `//host` would be another host
            redirected = RedirectResponse(path + (f"?{urlencode(rest)}" if rest else ""), 303)
            redirected.set_cookie(self.rules.cookie, token, httponly=True, samesite="strict")
            name = f"{self.rules.cookie}{VISITOR}"  # identifies the visitor, for taking turns
            redirected.set_cookie(name, secrets.token_urlsafe(9), httponly=True, samesite="strict")
            return redirected
        kind, _, sent = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and _same(sent.strip(), token):
            return None
        if _same(request.cookies.get(self.rules.cookie, ""), token):
            return None
        return self._unknown(request)

    def _unknown(self, request: Request) -> Response:
        return failure(
            request, 401, "this page needs the token that the command printed",
            "open the whole address, with '?token=…', or send 'Authorization: Bearer …'",
            headers={"www-authenticate": "Bearer"},
        )  # fmt: skip


def visitor_of(request: Request) -> str:
    """Return what identifies a visitor: a browser, or a client's machine."""
    known = [v for name, v in request.cookies.items() if name.endswith(VISITOR)]
    peer = "" if request.client is None else request.client.host
    return " ".join([peer, *known])


def _same(sent: str, token: str) -> bool:
    return hmac.compare_digest(sent.encode("utf-8", "replace"), token.encode())
