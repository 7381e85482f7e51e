"""Malformed and hostile requests, as bytes on the wire: each is told what is wrong."""

import contextlib
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.patience import PATIENCE
from tests.web.conftest import TOKEN

#: Where this checkout lies; no answer says so.
ROOT = str(Path(__file__).resolve().parents[2]).encode()

GOOD = f"Authorization: Bearer {TOKEN}\r\n"

PATHS = [
    "/nowhere", "/axiom", "/axiom/", "/axiom/Nope", "/axiom/Stops/", "/axiom/Stops/cells",
    "/axiom/../../etc/passwd", "/axiom/..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd",
    "/static/../app.py", "/static/..%2f..%2fapp.py", "/static/%2e%2e%5capp.py", "/static/x.py",
    "/axiom/Stops%00", "/axiom/%00", "/axiom/%ff%fe", "/axiom/<script>alert(1)</script>",
    "/axiom/%3Cscript%3Ealert(1)%3C/script%3E", "/axiom/" + "A" * 3000, "/predicate/Nope",
    "/predicate/Stop/row?row=-1", "/predicate/Stop/row?row=999999", "/predicate/Stop?show=all",
    "/predicate/Stop/row?time=99", "/predicate/Stop?sort=zzz", "/compare", "/compare/x",
    "/formula?format=json", "/formula/cell", "/formula/cell?text=rain&row=9",
    "/formula/cell?text=%26",
    "/?x=1", "/?token=wrong", "/?format=xml", "/?format=json&format=html", "/?format=bytes",
    "/axiom/Stops?sort=evil", "/axiom/Stops?sort=difference", "/axiom/Stops?trace=none",
    "/axiom/Stops?trace=../one", "/axiom/Stops?from=-1", "/axiom/Stops?from=1e3",
    "/axiom/Stops?from=" + "9" * 40, "/axiom/Stops?count=0", "/axiom/Stops?count=999999999",
    "/axiom/Stops?count=abc", "/axiom/Stops?count=%D9%A3", "/axiom/Stops?model=0",
    "/axiom/Stops?model=2", "/axiom/Stops?model=1&model=1", "/axiom/Stops?find=" + "x" * 300,
    "/axiom/Stops?find=%00", "/axiom/Stops?by=7", "/axiom/Stops?evil=1", "/axiom/Stops?srot=name",
    "/axiom/Stops/cell?row=-1&time=0", "/axiom/Stops/cell?row=0&time=99",
    "/axiom/Stops/cell?row=99999&time=0", "/axiom/Stops/cell?row=NaN", "/axiom/Stops/cell?row=0x1",
    "/axiom/Stops/cell?row=1.5", "/axiom/Stops/cell?row=0&time=-3", "/axiom/Stops/cell?change=evil",
    "/axiom/Guarded/cell?row=0&time=3", "/axiom/Stops/cell?row=" + "1" * 199,
]  # fmt: skip

FORMULAS = [
    "(", ")", "forall", "forall x.", "Nope(x)", "Stop(x, y)", "Stop(3)", "x = 3", "rain &",
    "__import__('os').system('id')", "{{ 7 * 7 }}", "${7*7}", "'; DROP TABLE facts; --",
    "<script>alert(1)</script>", "\u202e rain", '"unclosed', "rain" + "\x00", "G[5,2] rain",
    "F[<=99999999999999999999] rain", "!" * 3999, "(" * 3900, "Stop(ego" + "x" * 3000,
    "exists x: nothing. rain", "forall (x, y) in nobody. rain", "𝒰 rain", "\ufeff(rain",
]  # fmt: skip


def request(line: str, headers: str = GOOD, host: str | None = None) -> bytes:
    where = "Host: {host}\r\n" if host is None else host
    return f"{line} HTTP/1.1\r\n{where}{headers}Connection: close\r\n\r\n".encode("latin-1")


MALFORMED = [
    b"GET\r\n\r\n", b"hello\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: {host}\r\nConnection: close\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
    b"GET  /  HTTP/1.1\r\nHost: {host}\r\n\r\n", b"GET / HTTP/1.1\r\nHost {host}\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {host}\r\nHost: evil\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {host}\r\nContent-Length: -1\r\n\r\n",
    request("GET /", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    request("GET /", host="Host: evil.example\r\n"), request("GET /", host="Host: {host}.evil\r\n"),
    request("GET /", host=""), request("GET /", f"{GOOD}Origin: http://evil.example\r\n"),
    request("GET /", f"{GOOD}Sec-Fetch-Site: cross-site\r\n"), request("GET /", ""),
    request("GET /", "Authorization: Bearer \xff\r\n"),
    request("GET /", "Cookie: fotltn=\xff;;=\r\n"),
    request("POST /formula?text=rain"), request("DELETE /"), request("FOO /"),
    request("CONNECT {host}"), request("GET http://evil.example/"),
    request("GET /", f"{GOOD}Content-Length: 10\r\n") + b"0123456789",
    request("POST /", f"{GOOD}Content-Length: 100000000\r\n"),
]  # fmt: skip

REQUESTS = [
    *MALFORMED,
    *(request(f"GET {path}") for path in PATHS),
    *(request(f"GET /formula?format=json&text={quote(text)}") for text in FORMULAS),
    request("GET /formula?format=json&text=" + quote("rain & " * 2000)),
]


def send(live, data: bytes) -> tuple[int, bytes]:
    """The status and the body of the answer to some bytes."""
    host = f"{live.address.host}:{live.address.port}".encode()
    with socket.create_connection((live.address.host, live.address.port), timeout=PATIENCE) as line:
        line.settimeout(PATIENCE)
        found = b""
        with contextlib.suppress(OSError):  # it has answered already, and does not listen any more
            line.sendall(data.replace(b"{host}", host))
        with contextlib.suppress(ConnectionResetError):
            while piece := line.recv(65536):
                found += piece
    head, _, body = found.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def test_a_hundred_hostile_requests(live):
    assert len(REQUESTS) >= 100
    for data in REQUESTS:
        status, body = send(live, data)
        assert 400 <= status < 500, data[:120]
        assert len(body) > 10, data[:120]
        assert b"<script>alert" not in body, data[:120]
        assert b"Traceback" not in body, data[:120]
        assert ROOT not in body, data[:120]
    found = httpx.get(f"{live.url}/", headers={"authorization": f"Bearer {TOKEN}"})
    assert found.status_code == 200


@pytest.mark.parametrize("text", FORMULAS[:20])
def test_a_page_about_a_wrong_formula_escapes_it(client, text):
    found = client.get("/formula", params={"text": text}, headers={"accept": "text/html"})
    assert found.status_code in (200, 400)
    assert "<script>alert" not in found.text
    assert "49" not in found.text.split("<main")[-1].split("</form>")[0]


def test_thirty_two_clients_at_once(live):
    """Each reads pages, types formulas and scrolls; the answers are those of one client alone."""
    paths = [
        "/?format=json", "/axiom/Stops?format=json", "/axiom/Stops/cell?row=1&time=0&format=json",
        "/formula?text=Stop(x)+%26+rain&format=json", "/axiom/Paired?format=bytes",
        "/predicate/Stop?format=json", "/formula?text=Nope(x)&format=json", "/static/inspect.js",
    ]  # fmt: skip
    headers = {"authorization": f"Bearer {TOKEN}"}

    def visit(number: int) -> list[tuple[int, bytes]]:
        with httpx.Client(
            base_url=live.url, headers=headers, timeout=PATIENCE, verify=False
        ) as one:
            own = [*paths, f"/formula?text=F[<={number}]+rain&format=json"]
            return [(r.status_code, r.content) for r in map(one.get, own)]

    with ThreadPoolExecutor(32) as crowd:
        found = list(crowd.map(visit, range(32)))
    alone = visit(0)
    assert [status for status, _ in alone] == [200] * 6 + [400] + [200] * 2
    for number, answers in enumerate(found):
        assert answers[:-1] == alone[:-1], number
        status, body = answers[-1]
        assert (status, json.loads(body)["text"]) == (200, f"F[<={number}] rain")
