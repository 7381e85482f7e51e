"""Who is let in: hosts, origins, tokens; and the headers of every answer."""

import re

import pytest

from tests.web.conftest import TOKEN


@pytest.fixture
def port(live) -> int:
    """The port of the server; addresses below name 8000 in its place."""
    return int(live.address.port)


def at(port: int, headers: dict[str, str]) -> dict[str, str]:
    return {name: value.replace(":8000", f":{port}") for name, value in headers.items()}


def test_without_a_token_nothing_is_shown(client):
    for path in ("/", "/axiom/Stops", "/formula?text=rain", "/nowhere"):
        found = client.get(path, headers={"authorization": ""})
        assert found.status_code == 401, path
        assert found.headers["www-authenticate"] == "Bearer"
        (message,) = found.json()["diagnostics"]
        assert "token" in message["message"]
        assert "0." not in found.text  # no value of anything


@pytest.mark.parametrize("given", ["Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x"])
def test_a_wrong_token(client, port, given):
    assert client.get("/", headers={"authorization": given}).status_code == 401
    cookie = {"authorization": "", "cookie": f"fotltn-{port}=wrong"}
    assert client.get("/", headers=cookie).status_code == 401
    assert client.get("/?token=wrong", headers={"authorization": ""}).status_code == 401
    assert client.get(f"/?token={TOKEN}&token=x", headers={"authorization": ""}).status_code == 401


def test_the_first_visit_leaves_a_cookie_and_goes_on_without_the_token(client, port):
    found = client.get(f"/axiom/Stops?token={TOKEN}&sort=name", headers={"authorization": ""})
    assert (found.status_code, found.headers["location"]) == (303, "/axiom/Stops?sort=name")
    cookie = found.headers["set-cookie"]
    assert f"fotltn-{port}={TOKEN}" in cookie
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    kept = {"authorization": "", "cookie": cookie.split(";")[0]}
    assert client.get("/axiom/Stops?sort=name", headers=kept).status_code == 200
    client.cookies.clear()


def test_the_redirect_stays_here(client):
    found = client.get(f"//evil.example/?token={TOKEN}", headers={"authorization": ""})
    assert not found.headers.get("location", "/").startswith("//")
    client.cookies.clear()


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "127.0.0.1", "127.0.0.1:1", "127.0.0.2:8000",
     "127.0.0.1.evil.example:8000", "", "[::1]:8000", "0.0.0.0:8000"],
)  # fmt: skip
def test_another_host_is_refused(client, port, host):
    found = client.get("/", headers=at(port, {"host": host}))
    assert found.status_code == 421
    assert f"http://127.0.0.1:{port}/" in found.json()["diagnostics"][0]["hint"]


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "LOCALHOST:8000"])
def test_the_own_host_is_let_in(client, port, host):
    assert client.get("/", headers=at(port, {"host": host})).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "https://127.0.0.1:8000"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "cross-site"},
    ],
)
def test_another_site_is_refused(client, port, headers):
    for path in ("/", "/static/inspect.js"):
        assert client.get(path, headers=at(port, headers)).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://127.0.0.1:8000"}, {"sec-fetch-site": "same-origin"},
     {"sec-fetch-site": "none"}],
)  # fmt: skip
def test_the_own_site_is_let_in(client, port, headers):
    assert client.get("/", headers=at(port, headers)).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_pages_are_only_read(client, method):
    found = client.request(method, "/formula?text=rain")
    assert (found.status_code, found.headers["allow"]) == (405, "GET, HEAD")


def test_requests_have_no_body_and_no_end_of_length(client):
    assert client.request("GET", "/", content=b"x").status_code == 413
    assert client.get("/formula?text=" + "x" * 50_000).status_code == 414
    assert client.get("/formula?text=" + "x" * 5_000).status_code == 413


def test_every_answer_has_the_headers(client):
    policy = "default-src 'none'; script-src 'self'"
    for path in ("/", "/nowhere", "/static/inspect.js", "/axiom/Stops?format=bytes"):
        found = client.get(path)
        assert found.headers["content-security-policy"].startswith(policy)
        assert "unsafe" not in found.headers["content-security-policy"]
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in found.headers
        assert "server" not in found.headers
    assert client.get("/").headers["cache-control"] == "no-store"


def test_pages_need_no_inline_script_or_style(client):
    for path in ("/", "/axiom/Stops", "/axiom/Stops/cell?row=0&time=0", "/formula?text=rain"):
        text = client.get(path, headers={"accept": "text/html"}).text
        assert "style=" not in text
        assert not re.search(r"\son[a-z]+=", text)
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
        assert not re.search(r"(src|href|action)=\"(https?:)?//", text)


def test_only_these_files_are_served(client):
    kinds = {"style.css": "text/css", "inspect.css": "text/css", "inspect.js": "text/javascript",
             "heat.js": "text/javascript", "formula.js": "text/javascript",
             "icon.svg": "image/svg+xml"}  # fmt: skip
    for name, kind in kinds.items():
        found = client.get(f"/static/{name}", headers={"authorization": ""})
        assert (found.status_code, found.headers["content-type"]) == (200, f"{kind}; charset=utf-8")
    for name in ("", "%2e%2e/app.py", "..%2fapp.py", "..%5capp.py",
                 "/etc/passwd", "inspect.js%00", "pages/layout.html"):  # fmt: skip
        assert client.get(f"/static/{name}").status_code == 404, name
