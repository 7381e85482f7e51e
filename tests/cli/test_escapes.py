"""Names that would steer a terminal are shown with escapes, everywhere; JSON stays as it is."""

import ast
import io
import json
import os
import pty
import sys
from pathlib import Path
from threading import Thread

import pytest

from fotltn.cli.output import Escaping
from fotltn.cli.terminal import Terminal
from fotltn.errors import DataError, visible
from tests.cli.conftest import succeed

ROOT = Path(__file__).resolve().parents[2]
#: Escapes that clear the screen, ring, set the title by a C1 control, turn text around, …
HOSTILE = "\x1b[2J\x07\x9d0;owned\x9c\u202e\u2066\u200f\x7f"
SHOWN = r"\u001b[2J\u0007\u009d0;owned\u009c\u202e\u2066\u200f\u007f"
STEERING = set(HOSTILE) - set("[2J0;owned")

THEORY = """\
sort agent
predicate Stop(agent)
axiom A: forall x. G Stop(x)
"""


def harmless(text: str) -> bool:
    return not STEERING & set(text)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A theory, facts and steps about somebody with such a name."""
    monkeypatch.chdir(tmp_path)
    Path("t.fot").write_text(THEORY)
    Path("f.csv").write_text(f'predicate,arg1,time\nStop,"{HOSTILE}",0\nStop,b,1\n')
    Path("s.jsonl").write_text(json.dumps({"facts": [["Stop", HOSTILE]]}) + '\n{"facts": []}\n')
    return tmp_path


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (HOSTILE, SHOWN),
        ("a\tb\nc", "a\tb\nc"),
        ("\r\0\u2028\u061c", r"\u000d\u0000\u2028\u061c"),
        ("é ∀ 漢 \u200d😀 \u00a0", "é ∀ 漢 \u200d😀 \u00a0"),
    ],
)
def test_what_is_escaped(text, wanted):
    assert visible(text) == wanted


@pytest.mark.reliability
@pytest.mark.parametrize(
    "command",
    [
        ("eval", "t.fot", "--facts", "f.csv", "--formula", "Stop(x)"),
        ("eval", "t.fot", "--facts", "f.csv", "--formula", f'Stop("{HOSTILE}")'),
        ("eval", "t.fot", "--facts", f"{HOSTILE}.csv"),
        ("rules", "t.fot", "--facts", "f.csv"),
        ("check", f"{HOSTILE}.fot"),
        ("check", "t.fot", f"--{HOSTILE}"),
        (HOSTILE,),
        ("plan", "t.fot", "--facts", "f.csv"),
        ("monitor", "t.fot", "--input", "s.jsonl"),
        ("monitor", "t.fot", "--input", "s.jsonl", "--every", "1"),
        ("ask", HOSTILE, "Stop(x)"),
        ("train", HOSTILE),
    ],
    ids=lambda command: ascii(" ".join(command))[:40],
)
@pytest.mark.usefixtures("project")
def test_no_command_sends_them_to_the_terminal(call, command):
    done = call(*command)
    assert harmless(done.out)
    assert harmless(done.err)
    if "t.fot" not in command or "--formula" in command or "--input" in command:
        assert "1b[2J" in done.out + done.err, "it is shown"


@pytest.mark.reliability
def test_what_is_to_be_read_again_is_as_it_is_but_for_a_terminal(call, tmp_path, monkeypatch):
    text = f'sort agent\npredicate Stop(agent)\n\naxiom A: Stop("{HOSTILE}")\n'
    (tmp_path / "t.fot").write_text(text)
    assert call("show", tmp_path / "t.fot").out == text
    assert harmless(on_a_terminal(monkeypatch, "show", tmp_path / "t.fot"))


@pytest.mark.reliability
@pytest.mark.usefixtures("project")
def test_json_is_as_json_dumps_makes_it(call):
    out = call("eval", "t.fot", "--facts", "f.csv", "--formula", "Stop(x)", "--json").out
    assert {row["binding"]["x"] for row in json.loads(out)["results"]} == {HOSTILE, "b"}
    assert json.dumps(HOSTILE, ensure_ascii=False) in out
    out = call("monitor", "t.fot", "--input", "s.jsonl", "--json").out
    assert json.dumps(HOSTILE, ensure_ascii=False) in out


@pytest.mark.reliability
def test_a_table_is_as_wide_as_what_is_shown():
    from fotltn.cli.tables import add, grid

    out = io.StringIO()
    table = grid("who", "value", left=["who"])
    add(table, HOSTILE, "[bold]1.0")
    add(table, "b", ":smile:")
    Terminal(out, width=200).print(table)
    assert SHOWN in out.getvalue()
    assert "[bold]1.0" in out.getvalue()
    assert ":smile:" in out.getvalue()
    assert len({len(line.rstrip("\n")) for line in out.getvalue().splitlines()}) == 1


@pytest.mark.reliability
@pytest.mark.usefixtures("project")
def test_a_terminal_gets_styles_but_no_escapes_of_names(monkeypatch):
    formula = f'Stop("{HOSTILE}")'
    command = ("rules", "t.fot", "--facts", "f.csv", "--formula", formula, "--resamples", 0)
    text = on_a_terminal(monkeypatch, *command)
    assert "\x1b[1m" in text, "the head of the table is bold"
    assert r"\u001b[2J" in text
    assert "\x1b[2J" not in text
    assert harmless(text.replace("\x1b", ""))


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, *args: object) -> str:
    """What a command sends to a real terminal."""
    read, write = pty.openpty()
    sent: list[bytes] = []
    reader = Thread(target=lambda: sent.extend(iter(lambda: _read(read), b"")), daemon=True)
    reader.start()
    with monkeypatch.context() as here, open(write, "w", encoding="utf-8") as terminal:
        for name in ("stdout", "stderr"):
            here.setattr(sys, name, terminal)
        here.setenv("TERM", "xterm")
        here.setenv("COLUMNS", "200")
        succeed(*args)
    reader.join()
    os.close(read)
    return b"".join(sent).decode().replace("\r\n", "\n")


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 1 << 16)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.reliability
def test_errors_in_python_are_harmless_too():
    error = DataError(f"there is no '{HOSTILE}'")
    assert str(error) == f"error: there is no '{SHOWN}'"
    assert error.diagnostics[0].as_dict()["message"] == f"there is no '{HOSTILE}'"


def test_the_stream_is_a_stream():
    out = io.StringIO()
    stream = Escaping(out)
    print("a\x1b", file=stream)
    stream.writelines(["b\x07", "c\n"])
    stream.flush()
    assert out.getvalue() == "a\\u001b\nb\\u0007c\n"
    assert not stream.isatty()


def test_commands_make_no_other_consoles_and_no_other_text():
    """`rich.text.Text` is sent as it is, and so would be what another console prints."""
    others = set()
    for file in (ROOT / "fotltn" / "cli").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                others |= {(file.name, node.func.id)} & {
                    (file.name, "Console"), (file.name, "Text")
                }  # fmt: skip
    assert others == set()
