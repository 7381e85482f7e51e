"""`fotltn inspect` as a process: it says where it is, serves, and stops cleanly."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import EXAMPLE
from tests.cli.test_process import PROGRAM, SECONDS, environment
from tests.patience import PATIENCE

THEORY, FACTS = str(EXAMPLE / "theory.fot"), str(EXAMPLE / "facts.csv")


def test_it_serves_until_it_is_interrupted():
    process = subprocess.Popen(
        [*PROGRAM, "inspect", THEORY, FACTS, "--no-open", "--json", "--p", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, process.communicate()[1]
            text += line
        found = json.loads(text)
        assert found["ok"] is True
        assert found["url"] == f"http://127.0.0.1:{found['port']}/?token={found['token']}"
        assert len(found["token"]) >= 30
        base = f"http://127.0.0.1:{found['port']}"
        assert httpx.get(base, verify=False).status_code == 401
        bearer = {"authorization": f"Bearer {found['token']}", "accept": "application/json"}
        shown = httpx.get(f"{base}/axiom/A1", headers=bearer, verify=False, timeout=PATIENCE).json()
        assert round(shown["value"], 3) == 0.973  # as fotltn eval says
        first = httpx.get(found["url"], verify=False, follow_redirects=True, timeout=PATIENCE)
        assert (first.status_code, str(first.url)) == (200, f"{base}/")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert "Traceback" not in err
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([THEORY], "a theory needs facts"),
        ([THEORY, "no.csv"], "no.csv"),
        (["no-model"], "no-model"),
        (["a", "b", "c"], "inspect shows one model or two, not 3"),
        (["a", "--horizon", "3"], "--horizon is for facts"),
        ([THEORY, FACTS, "--token", "x y"], "a token has 8 or more letters"),
        ([THEORY, FACTS, "--token", "long-enough", "--no-token"], "exclude each other"),
        ([THEORY, FACTS, "--host", "0.0.0.0"], "give --host the address or name"),
        ([THEORY, FACTS, "--host", "203.0.113.7"], "cannot listen at '203.0.113.7'"),
        ([THEORY, FACTS, "--semantics", "fuzzy"], "unknown semantics 'fuzzy'"),
        ([THEORY, FACTS, "--threshold", "2"], "threshold"),
        ([THEORY, FACTS, "--budget", "much"], "--budget takes bytes"),
    ],
)
def test_wrong_calls(call, args, message):
    result = call("inspect", *args, "--no-open")
    assert result.status == 1
    assert message in result.err
    assert result.err.startswith("error: ")


def test_the_end_of_traces_is_chosen(call, monkeypatch):
    ends: list[str] = []
    monkeypatch.setattr(
        "fotltn.web.serve.serve", lambda read, **_: ends.extend(side.view.end for side in read())
    )
    for more in ((), ("--end", "final"), ("--end", "undecided")):
        assert call("inspect", THEORY, FACTS, "--no-open", *more).status == 0
    assert ends == ["undecided", "final", "undecided"]
    assert call("inspect", THEORY, FACTS, "--no-open", "--end", "later").status == 2


def test_a_port_that_is_taken(call):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = call("inspect", THEORY, FACTS, "--no-open", "--port", taken.getsockname()[1])
    assert result.status == 1
    assert "Address already in use" in result.err


def test_without_its_packages_it_says_what_to_install(call, monkeypatch):
    for name in [m for m in sys.modules if m.startswith("fotltn.web")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = call("inspect", THEORY, FACTS, "--no-open")
    assert result.status == 1
    assert "install fotltn with its extra 'inspect'" in result.err


def test_its_pages_and_files_are_part_of_the_package():
    folder = Path(__file__).resolve().parents[2] / "fotltn" / "web"
    assert len(list((folder / "pages").glob("*.html"))) >= 10
    assert {f.name for f in (folder / "static").iterdir()} == {
        "inspect.css",
        "inspect.js",
        "heat.js",
        "live.css",
        "live.js",
        "scene.js",
        "formula.js",
        "icon.svg",
    }
