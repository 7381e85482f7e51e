"""What commands say about bad input: on standard error, or as JSON on standard output."""

import json
import os
import re
from pathlib import Path

import pytest

import fotltn
from fotltn import SEMANTICS
from tests.cli.conftest import EXAMPLE

pytestmark = pytest.mark.usefixtures("folder")

EVAL = ("eval", "t.fot", "--facts", "f.csv")
AT = "--at takes a time point from 0, or 'all', not"
P = "p must be at least 1 (inf for the exact extreme), not"

BAD_CALLS = {  # what follows the command, and the whole message
    "--at 3": "the time point 3 does not exist: there are 0 to 2",
    "--at x": f"{AT} 'x'",
    "--at -1": f"{AT} '-1'",
    "--at 1.0": f"{AT} '1.0'",
    "--at ²": f"{AT} '²'",
    "--at ALL": f"{AT} 'ALL'",
    "--semantics godell": "unknown semantics 'godell'; did you mean 'godel'?",
    "--semantics GOGUEN": "unknown semantics 'GOGUEN'; did you mean 'goguen'?",
    "--semantics xyz": "unknown semantics 'xyz'; available: "
    + ", ".join(f"'{name}'" for name in SEMANTICS),
    "--semantics product --p 2": "the semantics 'product' has no p",
    "--semantics log-product --p 2": "the semantics 'log-product' has no p",
    "--semantics crisp --p 2": "the semantics 'crisp' has no p",
    "--p 0.5": f"{P} 0.5",
    "--p 0": f"{P} 0.0",
    "--p -2": f"{P} -2.0",
    "--p nan": "p: expected a number, not nan",
    "--threshold 0.5": "a threshold needs the semantics 'crisp', not 'stable-product'",
    "--semantics godel --threshold 1": "a threshold needs the semantics 'crisp', not 'godel'",
    "--semantics crisp": "'Stop' has the degree 0.5; a guard, or the crisp semantics "
    "without a threshold, allows only 0 and 1",
    "--horizon 0": "the horizon must be at least 1, not 0",
    "--horizon -3": "the horizon must be at least 1, not -3",
    '--formula Car("bob")': "no entity of sort 'agent' is named 'bob'; available: 'c1', 'c2'",
    "--facts no.csv": "cannot read no.csv: no such file",
    "--facts .": "cannot read .: it is a folder, not a file",
    "--facts t.fot": "cannot read t.fot: the name must end in one of "
    ".csv, .tsv, .csv.gz, .tsv.gz, .parquet, .pq, .sql",
}


@pytest.mark.parametrize("options", BAD_CALLS)
def test_bad_values(call, options):
    assert call(*EVAL, *options.split()) == (1, "", f"error: {BAD_CALLS[options]}\n")
    status, out, err = call(*EVAL, *options.split(), "--json")
    assert (status, err) == (1, "")
    wanted = {"severity": "error", "message": BAD_CALLS[options]}
    nowhere = {"hint": None, "source": None, "line": None, "column": None}
    assert json.loads(out) == {"ok": False, "diagnostics": [wanted | nowhere]}


def test_a_threshold_is_a_number(call):
    """No degree is at or above NaN: silently everything would be false."""
    status, out, err = call(*EVAL, "--semantics", "crisp", "--threshold", "nan")
    assert (status, out) == (1, "")
    assert err.startswith("error: ")


WRONG_CALLS = {
    "eval t.fot": "Missing option '--facts'",
    "eval --facts f.csv": "Missing argument",
    "check": "Missing argument",
    "check t.fot f.csv": "unexpected extra argument",
    "check t.fot --loud": "No such option: --loud",
    "show t.fot --as html": "'--as'",
    "eval t.fot --facts": "'--facts' requires an argument",
    "eval t.fot --facts f.csv --p two": "'--p'",
    "eval t.fot --facts f.csv --digits 0": "'--digits'",
    "eval t.fot --facts f.csv --digits 18": "'--digits'",
    "eval t.fot --facts f.csv --digits x": "'--digits'",
    "eval t.fot --facts f.csv --horizon 1.5": "'--horizon'",
    "eval t.fot --facts f.csv --threshold high": "'--threshold'",
    "prove t.fot": "No such command 'prove'",
    "--verbose": "No such option: --verbose",
}


@pytest.mark.parametrize("line", WRONG_CALLS)
def test_wrong_calls(call, line):
    status, out, err = call(*line.split())
    assert (status, out) == (2, "")
    assert err.startswith(("Usage: ", "Error: "))
    assert WRONG_CALLS[line] in err


def test_no_arguments_show_the_help(call):
    status, out, err = call()
    assert status == 2
    assert "eval" in out + err


@pytest.mark.usefixtures("folder")
def test_what_does_not_fit_the_budget(call):
    status, out, err = call(*EVAL, "--budget", "10")
    assert (status, out) == (1, "")
    assert err.startswith("error: ")
    assert "more than the budget of 10" in err
    message = "error: --budget takes bytes, such as 500M or 4G, not 'much'\n"
    assert call(*EVAL, "--budget", "much") == (1, "", message)


# --- theories ---------------------------------------------------------------------------------

UNREADABLE = """\
sort agent
predicate Stop(agent
predicate rain
axiom A: G (rain &)
axiom B: F rain
axiom C forall x. Stop(x)
"""
ILL_FORMED = """\
sort agent
predicate Stop(agnet)
predicate Car(agent)
axiom A: forall x. Cra(x)
axiom B: forall x. Car(x, x) & Car(y)
axiom B: true
"""


@pytest.mark.parametrize("command", ["check", "show", "eval"])
def test_all_unreadable_statements_at_once(folder, call, command):
    (folder / "bad.fot").write_text(UNREADABLE)
    facts = ["--facts", "f.csv"] if command == "eval" else []
    status, out, err = call(command, "bad.fot", *facts)
    assert (status, out) == (1, "")
    places = [line.split(": error: ")[0] for line in err.splitlines() if ": error: " in line]
    assert [p.rsplit(":", 1)[0] for p in places] == ["bad.fot:2", "bad.fot:4", "bad.fot:6"]
    status, out, err = call(command, "bad.fot", *facts, "--json")
    assert (status, err) == (1, "")
    found = json.loads(out)
    assert found["ok"] is False
    assert [(d["source"], d["line"]) for d in found["diagnostics"]] == [
        ("bad.fot", 2),
        ("bad.fot", 4),
        ("bad.fot", 6),
    ]


@pytest.mark.parametrize("flags", [[], ["--strict"]])
def test_all_errors_of_a_theory_at_once(folder, call, flags):
    (folder / "bad.fot").write_text(ILL_FORMED)
    status, out, err = call("check", "bad.fot", *flags)
    assert (status, out) == (1, "")
    assert [line for line in err.splitlines() if line.startswith(("bad.fot", "      ="))] == [
        "bad.fot:2:11: error: unknown sort 'agnet'",
        "      = did you mean 'agent'?",
        "bad.fot:4:20: error: unknown predicate 'Cra'",
        "      = did you mean 'Car'?",
        "bad.fot:5:20: error: predicate 'Car' takes 1 argument, not 2",
        "      = it is Car(agent)",
        "bad.fot:5:36: error: 'y' is neither bound nor a constant",
        '      = bind it (forall y. …), declare it (constant y: sort), or write "y" for an entity',
        "bad.fot:6:7: error: two axioms are named 'B'",
        "      = first at bad.fot:5",
    ]
    status, out, err = call("check", "bad.fot", "--json", *flags)
    assert (status, err) == (1, "")
    assert [d["line"] for d in json.loads(out)["diagnostics"]] == [2, 4, 5, 5, 6]


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("Stop(", "--formula:1:6: error: found the end, expected a term or ')'"),
        ("", "--formula:1:1: error: found the end, expected a formula"),
        ("Sotp(x)", "--formula:1:1: error: unknown predicate 'Sotp'"),
        ("x = y", "--formula:1:1: error: cannot tell the sort of 'x'"),
    ],
)
def test_bad_formulas(call, formula, message):
    status, out, err = call(*EVAL, "--formula", formula)
    assert (status, out) == (1, "")
    assert err.splitlines()[0] == message


@pytest.mark.parametrize("command", ["check", "show", "eval"])
def test_theories_that_cannot_be_opened(folder, call, command):
    facts = ["--facts", "f.csv"] if command == "eval" else []
    missing = "error: cannot read no.fot: No such file or directory\n"
    assert call(command, "no.fot", *facts) == (1, "", missing)
    (folder / "empty").mkdir()
    message = "error: cannot read empty: it is a folder, not a file\n"
    assert call(command, "empty", *facts) == (1, "", message)
    (folder / "empty" / "t.fot").touch()
    message += f"      = did you mean {Path('empty', 't.fot')}?\n"
    assert call(command, "empty", *facts) == (1, "", message)
    (folder / "latin.fot").write_bytes(b"sort a\n# \xe9\n")
    message = "error: latin.fot is not UTF-8 text (byte 9 is 0xe9)\n"
    assert call(command, "latin.fot", *facts) == (1, "", message)


# --- facts ------------------------------------------------------------------------------------


def test_bad_facts(folder, call):
    (folder / "bad.csv").write_text("predicate,arg1,time,truth\nStpo,a,0,\nStop,a,0,2\n")
    status, out, err = call("eval", "t.fot", "--facts", "bad.csv")
    assert (status, out) == (1, "")
    assert err.splitlines() == [
        "error: bad.csv:2: unknown predicate 'Stpo'",
        "      = did you mean 'Stop'?",
        "error: bad.csv:3: 'Stop' has the truth '2'; expected a degree from 0 to 1",
    ]
    status, out, err = call("eval", "t.fot", "--facts", "bad.csv", "--json")
    assert (status, err) == (1, "")
    found = json.loads(out)["diagnostics"]
    assert [d["hint"] for d in found] == ["did you mean 'Stop'?", None]
    assert found[1]["message"].startswith("bad.csv:3: 'Stop' has the truth '2'")


def test_facts_beyond_the_horizon(call):
    status, out, err = call(*EVAL, "--horizon", 2)
    assert (status, out) == (1, "")
    assert "beyond the horizon of 2 time points" in err
    assert "f.csv:4" in err


# --- nothing makes a traceback ------------------------------------------------------------------

HEADER = b"predicate,arg1,time\n"
STRANGE_FACTS = {
    "no facts": HEADER,
    "no line end": HEADER.rstrip(),
    "empty": b"",
    "zeros": bytes(100),
    "a zero in a name": HEADER + b"Stop,a\0b,0\n",
    "utf-16": (HEADER.decode() + "Stop,a,0\n").encode("utf-16"),
    "header not utf-8": b"predicate,arg\xff\nCar,a\n",
    "row not utf-8": HEADER + b"Stop,\xff,0\n",
    "one quote": HEADER + b'Stop,"a,0\n',
    "only commas": b",,,\n,,,\n",
    "no columns": b"\r\n\r\n",
    "last time": HEADER + b"Stop,a,2147483647\n",
    "markup": HEADER + b"Stop,[/b],0\n",
    "old line ends": HEADER.replace(b"\n", b"\r") + b"Stop,a,0\r",
}


@pytest.mark.parametrize("options", ["", "--at all", "--formula Stop(x)", "--json"])
@pytest.mark.parametrize("case", STRANGE_FACTS)
def test_strange_facts(folder, call, case, options):
    (folder / "s.csv").write_bytes(STRANGE_FACTS[case])
    status, out, err = call("eval", "t.fot", "--facts", "s.csv", *options.split())
    assert status in (0, 1)
    assert out if "--json" in options else out or err


STRANGE_THEORIES = {
    "empty": b"",
    "comment": b"# nothing\n",
    "prose": b"hello world\n",
    "zeros": bytes(100),
    "mark": b"\xef\xbb\xbf",
    "includes itself": b'include "s.fot"\n',
    "includes a folder": b'include "."\n',
    "deep": b"predicate p\naxiom A: " + b"(" * 5000 + b"p" + b")" * 5000 + b"\n",
    "deeper": b"predicate p\naxiom A: " + b"!" * 5000 + b"p\n",
    "huge bound": b"predicate p\naxiom A: F[<=99999999999999999999] p\n",
    "huge number": b"sort a\nfunction f(a): real\naxiom A: forall x. f(x) > 1e999\n",
    "real": b"sort real\n",
}


@pytest.mark.parametrize("command", ["check", "check --json", "show", "eval"])
@pytest.mark.parametrize("case", STRANGE_THEORIES)
def test_strange_theories(folder, call, case, command):
    (folder / "s.fot").write_bytes(STRANGE_THEORIES[case])
    (folder / "s.csv").write_text("predicate\n")
    facts = ["--facts", "s.csv"] if command == "eval" else []
    name, *flags = command.split()
    assert call(name, "s.fot", *flags, *facts).status in (0, 1)


STRANGE_OPTIONS = {
    "a long name of facts": ["--facts", "a" * 300 + ".csv"],
    "a long time": ["--at", "9" * 5000],
    "a long horizon": ["--horizon", "9" * 30],
    "an empty time": ["--at", ""],
    "an empty semantics": ["--semantics", ""],
    "an empty path": ["--facts", ""],
    "a zero in a formula": ["--formula", "rain\0"],
    "markup in a formula": ["--formula", 'Stop("[/b]")'],
    "a deep formula": ["--formula", "(" * 5000],
    "a device": ["--facts", os.devnull],
}


@pytest.mark.parametrize("case", STRANGE_OPTIONS)
def test_strange_options(call, case):
    status, out, err = call(*EVAL, *STRANGE_OPTIONS[case])
    assert (status, out) == (1, "")
    assert "error: " in err


STRANGE_PLANS = {
    "an empty budget": ["--budget", ""],
    "a long size": ["--size", "agent=" + "9" * 5000],
    "a size that ends in a mark": ["--size", "agent=1_"],
    "a long time": ["--at", "9" * 5000],
    "an empty size": ["--size", ""],
    "a time that is too late": ["--at", "100"],
}


@pytest.mark.parametrize("case", STRANGE_PLANS)
def test_strange_plans(call, case):
    sizes = ["--size", "agent=9", "--size", "place=9"]
    status, out, err = call("plan", "t.fot", *sizes, *STRANGE_PLANS[case])
    assert (status, out) == (1, "")
    assert "error: " in err


def test_the_example_has_no_findings(call):
    status, _, err = call("eval", EXAMPLE / "theory.fot", "--facts", EXAMPLE / "facts.csv")
    assert (status, err) == (0, "")


# --- errors that no input should cause ----------------------------------------------------------


class BrokenError(Exception):
    """What a part of the program that has a bug raises."""


def break_check(monkeypatch, error):
    def broken(*_):
        raise error

    monkeypatch.setattr("fotltn.cli.check.load_theory", broken)


def test_a_bug_is_one_line_that_says_so_and_what_to_report(call, monkeypatch):
    break_check(monkeypatch, BrokenError("no\nsuch case"))
    monkeypatch.delenv("FOTLTN_TRACEBACK")
    status, out, err = call("check", "t t.fot", bug=True)
    assert (status, out, err.count("\n")) == (70, "", 1)
    assert re.fullmatch(
        rf"error: this is a bug in fotltn {re.escape(fotltn.__version__)}: "
        r"BrokenError: no such case, "
        r"fotltn/cli/check\.py:\d+; please report this line .+, with the command: "
        r"fotltn check 't t\.fot' \(fotltn --traceback … shows where\)\n",
        err,
    )


@pytest.mark.parametrize("asked", ["option", "environment"])
def test_the_traceback_of_a_bug_comes_before_its_line(call, monkeypatch, asked):
    break_check(monkeypatch, BrokenError("no such case"))
    monkeypatch.delenv("FOTLTN_TRACEBACK")
    if asked == "environment":
        monkeypatch.setenv("FOTLTN_TRACEBACK", "1")
    option = ["--traceback"] if asked == "option" else []
    status, out, err = call(*option, "check", "t.fot", bug=True)
    assert (status, out) == (70, "")
    assert err.startswith("Traceback (most recent call last)")
    assert "in broken\n" in err
    assert err.splitlines()[-1].startswith("error: this is a bug in fotltn")


def test_a_bug_as_json(call, monkeypatch):
    break_check(monkeypatch, BrokenError("no such case"))
    status, out, _ = call("check", "t.fot", "--json", bug=True)
    answer = json.loads(out)
    assert (status, answer["ok"]) == (70, False)
    assert "this is a bug in fotltn" in answer["diagnostics"][0]["message"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RecursionError("maximum recursion depth exceeded"), "this nests too deeply"),
        (MemoryError(), "this does not fit into memory"),
        (RuntimeError("can't allocate memory: tried 80 bytes"), "this does not fit into memory"),
        (PermissionError(13, "Permission denied", "x.fot"), "cannot use x.fot: Permission denied"),
        (OSError(28, "No space left on device", "y"), "cannot use y: No space left on device"),
        (OSError(28, "No space left on device"), "cannot write the output: No space left"),
    ],
)
def test_what_the_system_refuses_is_no_bug(call, monkeypatch, error, message):
    break_check(monkeypatch, error)
    status, out, err = call("check", "t.fot")
    assert (status, out) == (1, "")
    assert err.startswith(f"error: {message}")
    assert "Traceback" not in err
