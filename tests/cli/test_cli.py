"""What commands print when all is well."""

import csv
import json
import re
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from fotltn import SEMANTICS
from fotltn.cli.main import app
from fotltn.format import degree
from fotltn.grounding import dense
from fotltn.syntax.load import load_theory
from tests.cli.conftest import EXAMPLE, THEORY
from tests.helpers import value_of as evaluate

APPENDIX = ["eval", str(EXAMPLE / "theory.fot"), "--facts", str(EXAMPLE / "facts.csv")]
EVAL = ["eval", "t.fot", "--facts", "f.csv"]
WARNING = """\
t.fot:6:11: warning: the predicate 'Near' is declared but not used
    6 | predicate Near(agent, place)
      |           ^^^^^^^^^^^^^^^^^^
"""

in_folder = pytest.mark.usefixtures("folder")


def invoke(*args: object) -> Any:
    """The output of a command that succeeds."""
    result = CliRunner().invoke(app, [str(a) for a in args])
    assert (result.exit_code, result.exception) == (0, None), result.output
    return result


def table(text: str) -> list[list[str]]:
    """The cells of a printed table, without its line under the header and its legend."""
    body = re.split(r"\n\n(?=True cells|Trace)", text)[0]
    lines = [line for line in body.splitlines() if line.strip() and not set(line) <= set("─ ")]
    return [re.split(r"\s{2,}", line.strip()) for line in lines]


# --- check ----------------------------------------------------------------------------------


def test_check_the_example():
    result = invoke("check", EXAMPLE / "theory.fot")
    wanted = f"{EXAMPLE / 'theory.fot'}: ok (1 sort, 5 predicates, 1 axiom)\n"
    assert (result.stdout, result.stderr) == (wanted, "")


@in_folder
def test_check_warns_on_standard_error():
    result = invoke("check", "t.fot")
    assert result.stdout == "t.fot: ok (2 sorts, 4 predicates, 2 axioms)\n"
    assert result.stderr == WARNING


@in_folder
def test_check_strict():
    result = CliRunner().invoke(app, ["check", "t.fot", "--strict"])
    assert result.exit_code == 1
    assert result.stdout == "t.fot: not ok (2 sorts, 4 predicates, 2 axioms)\n"
    assert result.stderr == WARNING
    assert invoke("check", EXAMPLE / "theory.fot", "--strict").stderr == ""


@in_folder
@pytest.mark.parametrize("strict", [False, True])
def test_check_json(strict):
    result = CliRunner().invoke(app, ["check", "t.fot", "--json", *(["--strict"] * strict)])
    assert (result.exit_code, result.stderr) == (int(strict), "")
    assert json.loads(result.stdout) == {
        "ok": not strict, "theory": "t.fot",
        "sorts": 2, "predicates": 4, "functions": 0, "constants": 0, "relations": 0, "axioms": 2,
        "hard_axioms": 0,
        "diagnostics": [
            {
                "severity": "warning", "message": "the predicate 'Near' is declared but not used",
                "hint": None, "source": "t.fot", "line": 6, "column": 11,
            }
        ],
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n"])
def test_check_an_empty_theory(folder, text):
    (folder / "empty.fot").write_text(text)
    assert invoke("check", "empty.fot").stdout == "empty.fot: ok (empty)\n"


# --- show -----------------------------------------------------------------------------------

RICH = """\
include "base.fot"
sort place
static predicate Car(agent)
predicate Stop(agent), rain, At(agent, place)
function owner(agent): agent
temporal function speed(agent): real
constant ego, "a \\"big\\" one": agent
relation pairs(agent, agent)
axiom A weight 2.5: forall x: agent, y: agent where Car(x). G(Stop(x) -> F[<=3] !Stop(owner(y)))
axiom B: exists (x, y) in pairs. x = y & speed(x) >= 1.5 | Stop(ego) S+[2,4] Car("a \\"big\\" one")
hard axiom C: (rain <-> first) U (X true & WX last -> Y[2] rain) | exists l: place. O At(ego, l)
"""


@pytest.mark.parametrize("spelling", ["ascii", "unicode"])
def test_show_can_be_read_back(folder, spelling):
    (folder / "base.fot").write_text("sort agent\n")
    (folder / "rich.fot").write_text(RICH)
    text = invoke("show", "rich.fot", "--as", spelling).stdout
    assert text.isascii() == (spelling == "ascii")
    (folder / "again.fot").write_text(text, encoding="utf-8")
    assert load_theory("again.fot") == load_theory("rich.fot")
    assert len(load_theory("again.fot").axioms) == 3


@in_folder
def test_show_unicode_is_the_default():
    axiom = "axiom A: ∀x: agent. □(Stop(x) → Car(x))"
    assert axiom in invoke("show", "t.fot").stdout.splitlines()
    assert invoke("show", "t.fot").stdout == invoke("show", "t.fot", "--as", "unicode").stdout
    assert invoke("show", "t.fot", "--as", "ascii").stdout.replace("\n\n", "\n") == THEORY


@in_folder
def test_show_latex():
    assert invoke("show", "t.fot", "--as", "latex").stdout.splitlines() == [
        r"\begin{array}{ll}",
        r"\mathrm{A} & \forall x{:}\,\mathsf{agent}\;.\; \mathbf{G}"
        r"\left(\mathsf{Stop}(x) \to \mathsf{Car}(x)\right) \\",
        r"\mathrm{B} & \mathbf{F}\,\mathsf{rain} \\",
        r"\end{array}",
    ]


@pytest.mark.parametrize(
    ("spelling", "formula"),
    [("ascii", "F rain"), ("unicode", "◇ rain"), ("latex", r"\mathbf{F}\,\mathsf{rain}")],
)
@in_folder
def test_show_json(spelling, formula):
    found = json.loads(invoke("show", "t.fot", "--as", spelling, "--json").stdout)
    assert (found["theory"], found["as"]) == ("t.fot", spelling)
    assert [(a["name"], a["weight"]) for a in found["axioms"]] == [("A", 1.0), ("B", 1.0)]
    assert found["axioms"][1]["formula"] == formula
    assert not any(a["hard"] for a in found["axioms"])


def test_hard_axioms_are_shown_as_such(folder):
    text = "predicate rain, hard\n\nhard axiom A: F rain\naxiom hard weight 2: hard\n"
    (folder / "hard.fot").write_text(text)
    said = invoke("check", "hard.fot").stdout
    assert said == "hard.fot: ok (2 predicates, 2 axioms, 1 hard axiom)\n"
    assert json.loads(invoke("check", "hard.fot", "--json").stdout)["hard_axioms"] == 1
    assert invoke("show", "hard.fot", "--as", "ascii").stdout == text.replace(
        "rain, hard", "rain\npredicate hard"
    )
    assert "hard axiom A: ◇ rain\n" in invoke("show", "hard.fot").stdout
    latex = invoke("show", "hard.fot", "--as", "latex").stdout
    assert r"\mathrm{A}\ \text{(hard)} & \mathbf{F}" in latex
    assert r"\mathrm{hard} & " in latex
    found = json.loads(invoke("show", "hard.fot", "--json").stdout)["axioms"]
    assert [(a["name"], a["hard"], a["weight"]) for a in found] == [
        ("A", True, 1.0), ("hard", False, 2.0),
    ]  # fmt: skip


# --- eval: the paper's Appendix B -------------------------------------------------------------

ANTECEDENT = "Car(x) & Ped(y) & Crossing(y) & Close(x, y)"
ONES, ZEROS = ["1.000"] * 5, ["0.000"] * 5
CELLS = ["true cells", "share"]
ALL_TRUE = {"cells": 20, "true_cells": 20, "share": 1.0}
STOPS = {"c1": "0.100 0.900 0.850 0.200 1.000", "p1": "0.050 0.050 0.050 0.050 1.000"}
PAPER = {  # a, b and v of the table, for each (x, y)
    ("c1", "c1"): (ZEROS, STOPS["c1"].split(), ONES),
    ("c1", "p1"): (
        ["0.005", "0.750", "0.627", "0.015", "0.002"],
        STOPS["c1"].split(),
        ["0.996", "0.925", "0.906", "0.988", "1.000"],
    ),
    ("p1", "c1"): (ZEROS, STOPS["p1"].split(), ONES),
    ("p1", "p1"): (ZEROS, STOPS["p1"].split(), ONES),
}


def test_the_papers_value():
    rows = table(invoke(*APPENDIX, "--p", 2).stdout)
    assert rows == [["formula", "t=0", *CELLS], ["A1", "0.973", "20 of 20", "100 %"]]


@pytest.mark.parametrize(
    ("place", "formula"), [(0, ANTECEDENT), (1, "WX Stop(x)"), (2, f"{ANTECEDENT} -> WX Stop(x)")]
)
def test_the_papers_table(place, formula):
    result = invoke(*APPENDIX, "--p", 2, "--at", "all", "--formula", formula)
    header, *rows = table(result.stdout)
    pairs = place != 1
    assert header == ["formula", "x", *(["y"] * pairs), "t=0", "t=1", "t=2", "t=3", "t=4"]
    wanted = (
        [[formula, x, y, *PAPER[x, y][place]] for x, y in PAPER]
        if pairs
        else [[formula, x, *PAPER[x, "c1"][place]] for x in ("c1", "p1")]
    )
    result = invoke(*APPENDIX, "--p", 2, "--at", "all", "--formula", formula, "--json")
    results = json.loads(result.stdout)["results"]
    named = [[formula, *r["binding"].values()] for r in results]
    rounded = [[f"{v:.3f}" for v in r["values"]] for r in results]
    assert [n + values for n, values in zip(named, rounded, strict=True)] == wanted
    shown = [[degree(v) for v in r["values"]] for r in results]  # never 1 for less than 1
    assert rows == [n + values for n, values in zip(named, shown, strict=True)]


def test_the_papers_aggregation():
    call = [*APPENDIX, "--p", 2, "--formula", f"G({ANTECEDENT} -> WX Stop(x))"]
    values = [r["value"] for r in json.loads(invoke(*call, "--json").stdout)["results"]]
    assert [f"{v:.3f}" for v in values] == ["1.000", "0.946", "1.000", "1.000"]
    assert [row[-1] for row in table(invoke(*call).stdout)[1:]] == [degree(v) for v in values]


def test_every_time_point():
    _, whole = table(invoke(*APPENDIX, "--p", 2, "--at", "all").stdout)
    assert whole == ["A1", "0.973", "0.970", "0.973", "0.996", "1.000"]
    for time in range(5):
        rows = table(invoke(*APPENDIX, "--p", 2, "--at", time).stdout)
        assert [row[:2] for row in rows] == [["formula", f"t={time}"], ["A1", whole[1 + time]]]


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("at", ["0", "2", "all"])
def test_only_the_facts_give_the_same(semantics, at, monkeypatch):
    """As tables of facts, which the engine walks, or as dense tables."""
    call = [*APPENDIX, "--semantics", semantics, "--at", at, "--json"]
    call += ["--formula", "exists y. Close(x, y) & Crossing(y)"]
    call += ["--formula", "forall x, y. G(Close(x, y) -> WX Stop(x))"]
    call += ["--threshold", "0.5"] * SEMANTICS[semantics].boolean
    wanted = json.loads(invoke(*call).stdout)["results"]
    monkeypatch.setattr(dense, "SPARSE_CELLS", 0)
    monkeypatch.setattr(dense, "SPARSE_RATIO", 1)
    found = json.loads(invoke(*call).stdout)["results"]
    assert len(found) == len(wanted) > 2
    for one, other in zip(found, wanted, strict=True):
        key = "values" if at == "all" else "value"
        assert one.pop(key) == pytest.approx(other.pop(key), abs=1e-12)
        assert one == other


def tensors() -> dict[str, torch.Tensor]:
    """The example's facts without the reader."""
    found = {"Car": torch.zeros(2), "Ped": torch.zeros(2), "Close": torch.zeros(2, 2, 5)}
    found |= {"Crossing": torch.zeros(2, 5), "Stop": torch.zeros(2, 5)}
    with (EXAMPLE / "facts.csv").open() as file:
        for row in csv.DictReader(file):
            args = [("c1", "p1").index(row[a]) for a in ("arg1", "arg2") if row[a]]
            place = (*args, *([int(row["time"])] if row["time"] else []))
            found[row["predicate"]][place] = float(row["truth"])
    return found


EXPONENTS: dict[str, float | str] = {"stable-product": 4.0, "ltn": 4.0, "witness": 4.0}
EXPONENTS |= dict.fromkeys(("godel", "godel-residual", "lukasiewicz", "goguen"), "inf")


@pytest.mark.parametrize("name", SEMANTICS)
def test_every_semantics(name):
    theory = load_theory(EXAMPLE / "theory.fot")
    threshold = 0.5 if name == "crisp" else None
    flags = ["--threshold", threshold] if threshold else []
    wanted = evaluate(
        theory.axiom("A1").formula,
        tensors(),
        theory=theory,
        semantics=name,
        at="all",
        threshold=threshold,
    ).tolist()
    found = json.loads(
        invoke(*APPENDIX, "--semantics", name, *flags, "--at", "all", "--json").stdout
    )
    values = [{"formula": "A1", "values": pytest.approx(wanted, rel=1e-14)}]
    assert found == {
        "ok": True, "semantics": name, "p": EXPONENTS.get(name), "at": "all", "diagnostics": [],
        "results": values, "overall": values,
    }  # fmt: skip
    rows = table(invoke(*APPENDIX, "--semantics", name, *flags).stdout)
    shown = "true" if wanted[0] is True else f"{wanted[0]:.3f}"
    assert rows == [["formula", "t=0", *CELLS], ["A1", shown, "20 of 20", "100 %"]]


@pytest.mark.parametrize("p", [1, 2.5, "inf"])
def test_another_p(p):
    theory = load_theory(EXAMPLE / "theory.fot")
    formula = theory.axiom("A1").formula
    wanted = evaluate(formula, tensors(), theory=theory, p=float(p)).item()
    found = json.loads(invoke(*APPENDIX, "--p", p, "--json").stdout)
    assert (found["p"], found["at"]) == (p, 0)
    assert found["results"] == [
        {"formula": "A1", "value": pytest.approx(wanted, rel=1e-14), **ALL_TRUE}
    ]


# --- eval: output -----------------------------------------------------------------------------


@in_folder
def test_several_traces():
    result = invoke(*EVAL, "--at", "all", "--semantics", "godel")
    assert table(result.stdout) == [
        ["formula", "trace", "t=0", "t=1", "t=2"],
        ["A", "one", "1.000", "1.000", "1.000"],
        ["A", "two", "0.000", "1.000"],
        ["B", "one", "0.000", "0.000", "0.000"],
        ["B", "two", "0.250", "0.250"],
        ["A", "(all)", "0.000", "1.000", "1.000"],
        ["B", "(all)", "0.000", "0.000", "0.000"],
    ]


@in_folder
def test_a_trace_that_is_too_short_has_no_value():
    assert table(invoke(*EVAL, "--at", 2, "--formula", "rain").stdout)[1:] == [
        ["rain", "one", "0.000"],
        ["rain", "two", "–"],
        ["rain", "(all)", "0.000"],
    ]
    found = json.loads(invoke(*EVAL, "--at", 2, "--formula", "rain", "--json").stdout)
    assert [(r["trace"], r["value"]) for r in found["results"]] == [("one", 0.0), ("two", None)]
    found = json.loads(invoke(*EVAL, "--at", "all", "--formula", "rain", "--json").stdout)
    assert [r["values"] for r in found["results"]] == [[0.0, 0.0, 0.0], [0.0, 0.25]]


@in_folder
def test_free_variables_become_rows():
    result = invoke(*EVAL, "--formula", "Stop(x)", "--formula", "rain", "--formula", "Near(x, y)")
    assert table(result.stdout) == [
        ["formula", "trace", "x", "t=0", *CELLS],
        ["Stop(x)", "one", "c1", "0.500"],
        ["Stop(x)", "one", "c2", "0.000"],
        ["Stop(x)", "two", "c1", "0.000"],
        ["Stop(x)", "two", "c2", "1.000"],
        ["rain", "one", "0.000", "0 of 1", "0 %"],
        ["rain", "two", "0.000", "0 of 1", "0 %"],
        ["rain", "(all)", "0.000", "0 of 2", "0 %"],
    ]
    found = json.loads(invoke(*EVAL, "--formula", "Stop(x)", "--json").stdout)
    assert [(r["trace"], r["binding"], r["value"]) for r in found["results"]] == [
        ("one", {"x": "c1"}, 0.5),
        ("one", {"x": "c2"}, 0.0),
        ("two", {"x": "c1"}, 0.0),
        ("two", {"x": "c2"}, 1.0),
    ]


@in_folder
def test_horizon():
    found = json.loads(
        invoke(*EVAL, "--horizon", 4, "--formula", "last", "--json", "--at", "all").stdout
    )
    assert [r["values"] for r in found["results"]] == [[0.0, 0.0, 0.0, 1.0]] * 2


@in_folder
def test_several_files_and_their_warnings():
    repeated = [
        "warning: 'Car': 1 repeated fact",
        "warning: 'Stop': 3 repeated facts",
        "warning: 'rain': 1 repeated fact",
    ]
    result = invoke(*EVAL, "--facts", "f.csv")
    assert result.stderr.splitlines() == repeated
    result = invoke(*EVAL, "--facts", "f.csv", "--formula", "rain", "--json")
    found = json.loads(result.stdout)["diagnostics"]
    assert [f"{d['severity']}: {d['message']}" for d in found] == repeated
    assert result.stderr == ""


@pytest.mark.parametrize("digits", [1, 6, 17])
def test_digits(digits):
    exact = json.loads(invoke(*APPENDIX, "--json").stdout)["results"][0]["value"]
    assert len(repr(exact)) >= 17  # all digits
    shown = table(invoke(*APPENDIX, "--digits", digits).stdout)[1]
    assert shown[:2] == ["A1", degree(exact, digits)]


@pytest.mark.parametrize("digits", [9, 17])
def test_digits_leave_room_for_names(digits):
    header, row = table(invoke(*APPENDIX, "--digits", digits, "--at", "all").stdout)
    assert (header[0], row[0]) == ("formula", "A1")
    assert {len(cell) for cell in row[1:]} == {digits + 2}


@pytest.mark.parametrize("name", ["two words", "日本", "[/b]", "[red]x[/]", "a:car:b", "x" * 150])
def test_names_are_printed_as_they_are(folder, name):
    (folder / "n.csv").write_text(f'predicate,arg1,time\nStop,"{name}",0\n', encoding="utf-8")
    result = invoke("eval", "t.fot", "--facts", "n.csv", "--formula", "Stop(x)")
    assert table(result.stdout)[1] == ["Stop(x)", name, "1.000"]


@in_folder
def test_long_formulas_are_printed_in_one_line():
    formula = " & ".join(["rain"] * 60)
    assert table(invoke(*EVAL, "--formula", formula).stdout)[1][0] == formula
