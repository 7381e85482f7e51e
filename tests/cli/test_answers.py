"""What answers tell apart: cells, traces, absent entities, and conditions that are never true."""

from __future__ import annotations

import itertools
import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

import fotltn as fot
from fotltn.analysis.view import View
from fotltn.project.find import find_model
from fotltn.semantics.config import named
from fotltn.syntax.operators import Temporal
from tests.cli.conftest import succeed

NAMES, LENGTHS = ("a", "b"), {"one": 3, "two": 2, "three": 2}
HIGH = {  # trace, predicate, entity: degrees over time; all others are 0
    ("one", "A", "a"): (1, 0.9, 0), ("one", "B", "a"): (0.7, 0.4, 0), ("two", "A", "a"): (1, 0.5),
    ("two", "B", "a"): (1, 1), ("three", "A", "b"): (0.2, 0.6), ("three", "B", "b"): (0, 0.49),
    ("one", "C", "a"): (1, 1, 0), ("three", "C", "b"): (0, 1),
}  # fmt: skip
THEORY = """\
sort s
predicate A(s), B(s), C(s), Odd(s)
axiom Now: forall x. G(A(x) -> B(x))
axiom Next: forall x. G(A(x) -> X B(x))
axiom Pair: forall x, y. A(x) | !B(y)
axiom Some: exists x. F A(x)
axiom Guarded: G forall x where C(x). B(x)
"""
UNUSED = "the predicate 'Odd' is declared but not used"


@pytest.fixture
def facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a theory, and facts with degrees in three traces."""
    rows = [
        f"{trace},{predicate},{name},{time},{degree}"
        for (trace, predicate, name), degrees in HIGH.items() for time, degree in enumerate(degrees)
    ]  # fmt: skip
    (tmp_path / "t.fot").write_text(THEORY)
    (tmp_path / "f.csv").write_text("\n".join(["trace,predicate,arg1,time,truth", *rows]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(call: Any, *options: object) -> dict[str, Any]:
    """What `eval` says about the facts, as data."""
    out = call("eval", "t.fot", "--facts", "f.csv", "--json", *options).out
    told: dict[str, Any] = json.loads(out)
    return told


# --- eval: cells at which axioms are true -------------------------------------------------------


def true(trace: str, predicate: str, name: str, time: int) -> bool:
    degrees = HIGH.get((trace, predicate, name), ())
    return time < len(degrees) and degrees[time] >= 0.5


def cells(axiom: str, trace: str) -> list[bool]:
    """The truth of all cells, worked out by hand."""
    points = list(itertools.product(NAMES, range(LENGTHS[trace])))
    a = {p: true(trace, "A", *p) for p in points}
    b = {p: true(trace, "B", *p) for p in points}
    match axiom:
        case "Now":
            return [not a[p] or b[p] for p in points]
        case "Next":
            return [not a[x, t] or b.get((x, t + 1), False) for x, t in points]
        case "Pair":
            return [a[x, 0] or not b[y, 0] for x in NAMES for y in NAMES]
        case "Guarded":
            return [b[p] for p in points if true(trace, "C", *p)]
    return [any(a.values())]


@pytest.mark.usefixtures("facts")
@pytest.mark.parametrize("options", [[], ["--p", "inf"], ["--semantics", "godel"]])
def test_eval_counts_the_cells_where_axioms_are_true(call, options):
    told = found(call, *options)
    assert len(told["results"]) == 15
    for one in told["results"]:
        truth = cells(one["formula"], one["trace"])
        assert (one["true_cells"], one["cells"]) == (sum(truth), len(truth)), one
        assert one["share"] == (sum(truth) / len(truth) if truth else None)
    for one in told["overall"]:
        every = [cells(one["formula"], trace) for trace in LENGTHS]
        assert (one["true_cells"], one["cells"]) == (sum(map(sum, every)), sum(map(len, every)))


@pytest.mark.usefixtures("facts")
def test_an_axiom_is_true_if_it_is_true_in_all_its_cells(call):
    for threshold in (0.5, 0.95):
        told = found(call, "--semantics", "crisp", "--threshold", threshold)
        for one in (*told["results"], *told["overall"]):
            assert one["value"] is (one["true_cells"] == one["cells"]), one


@pytest.mark.usefixtures("facts")
def test_people_see_cells_beside_degrees(call):
    out = call("eval", "t.fot", "--facts", "f.csv").out
    lines = out.splitlines()
    assert lines[0].split() == ["formula", "trace", "t=0", "true", "cells", "share"]
    assert lines[2].split()[3:] == ["5", "of", "6", "83", "%"]
    assert "True cells: the bindings and times at which a formula is true, where degrees" in out


@pytest.mark.usefixtures("facts")
@pytest.mark.parametrize("options", [["--at", "1"], ["--at", "all"], ["--formula", "A(x)"]])
def test_other_values_have_no_cells(call, options):
    assert not any("cells" in one for one in found(call, *options)["results"])
    assert "rue cells" not in call("eval", "t.fot", "--facts", "f.csv", *options).out


# --- eval: all traces together ------------------------------------------------------------------


@pytest.mark.parametrize("semantics", ["stable-product", "witness", "log-product", "lukasiewicz"])
def test_eval_ends_with_all_traces(facts, call, semantics):
    theory = fot.parse(THEORY)
    data = fot.read(theory, facts / "f.csv")
    view = View(data, named(semantics), theory=fot.check(theory))
    expected = view.satisfaction().as_dict()
    overall = found(call, "--semantics", semantics)["overall"]
    assert {one["formula"]: one["value"] for one in overall} == pytest.approx(expected, abs=1e-12)
    assert not any("trace" in one for one in overall)
    lines = call("eval", "t.fot", "--facts", "f.csv", "--semantics", semantics).out.splitlines()
    rows = [line.split() for line in lines if "(all)" in line]
    assert [row[0] for row in rows[:-1]] == list(expected)
    assert rows[-1][:2] == ["Trace", "(all):"]


@pytest.mark.usefixtures("facts")
def test_traces_that_have_ended_do_not_count(call):
    godel = ["--semantics", "godel", "--formula", "exists x. A(x)", "--formula", "A(x)"]
    (late,) = found(call, *godel, "--at", 2)["overall"]
    assert late == {"formula": "exists x. A(x)", "value": 0.0}  # only one trace has that point
    (every,) = found(call, *godel, "--at", "all")["overall"]
    assert every["values"] == [0.2, 0.5, 0.0]


def test_one_trace_has_no_line_about_all(facts, call):
    (facts / "f.csv").write_text("trace,predicate,arg1,time\none,A,a,0\n")
    assert "(all)" not in call("eval", "t.fot", "--facts", "f.csv").out
    told = found(call)
    assert [one["value"] for one in told["overall"]] == [one["value"] for one in told["results"]]


# --- theories are checked by `check`, not by every answer ---------------------------------------


@pytest.mark.usefixtures("facts")
def test_only_check_says_that_a_declaration_is_not_used(call, tmp_path):
    (tmp_path / "steps.jsonl").write_text('{"facts": [["A", "a"], ["B", "a"]]}\n')
    steps = ["t.fot", "--input", "steps.jsonl"]
    answers = [["eval", "t.fot", "--facts", "f.csv"], ["rules", "t.fot", "--facts", "f.csv"]]
    answers += [["plan", "t.fot", "--size", "s=2", "--horizon", "3"]]
    answers += [["monitor", *steps], ["watch", *steps]]
    for words in answers:
        status, out, err = call(*words)
        assert (status in (0, 3), out != "") == (True, True), (words, err)
        assert "declared" not in err
        assert "declared" not in call(*words, "--json").out
    assert UNUSED in call("check", "t.fot").err


# --- a model of units that come and go ----------------------------------------------------------

UNITS = {"a": range(6), "b": range(3), "c": range(2, 5), "d": range(6)}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a project, `units`, that is trained; and one with sampled worlds, `worlds`."""
    folder: Path = tmp_path_factory.mktemp("units")
    rows = [
        f"{unit},{hour},{(hour * 7 + ord(unit)) % 5},{('yes', 'no', '')[(hour + ord(unit)) % 3]}"
        for unit, hours in UNITS.items() for hour in hours
    ]  # fmt: skip
    (folder / "units.csv").write_text("\n".join(["unit,hour,heat,fault", *rows, ""]))
    without = [re.sub(r",\d,(\w*)$", r",\1", row) for row in rows]  # networks take long
    (folder / "worlds.csv").write_text("\n".join(["unit,hour,fault", *without, ""]))
    others = "axiom Never: forall x. G(Fault(x) & !Fault(x) -> X Fault(x))\n"
    others += "axiom Calm: forall x. G !Fault(x)\n"
    for name, kind, more in (("units", "axiom", others), ("worlds", "hard axiom", "")):
        succeed("new", folder / name, "--from", folder / f"{name}.csv")
        theory = folder / name / "theory.fot"
        text = theory.read_text().split("\n# Rules")[0]
        theory.write_text(f"{text}\n{kind} Next: forall x. G(Fault(x) -> WX Fault(x))\n{more}")
        with (folder / name / "project.toml").open("a") as file:
            file.write("\n[posterior]\nburn_in = 2\nsweeps = 4\n")
        succeed("train", folder / name, *(["--epochs", 3] if name == "units" else []))
    return folder


def test_presence_uses_its_predicate(home, call):
    """A project names it, so `train` does not say that nothing uses it."""
    status, _, err = call("train", home / "units", "--epochs", 1, "-o", home / "again")
    assert status == 0
    assert "declared but not used" not in err
    theory = home / "units" / "theory.fot"
    text = theory.read_text()
    theory.write_text(f"{text}predicate Odd(unit)\n")
    assert UNUSED in call("train", home / "units", "--epochs", 1, "-o", home / "again").err
    theory.write_text(text)


def there(unit: str, hour: int) -> bool:
    return hour in UNITS[unit]


@pytest.mark.parametrize("name", ["units", "worlds"])
@pytest.mark.parametrize("options", [[], ["--semantics", "crisp", "--threshold", "0.5"]])
def test_absent_entities_have_no_value(home, call, name, options):
    words = ["ask", home / name, "Fault(x)", "--at", "all", *options]
    content = json.loads(call(*words, "--json").out)
    assert (content["semantics"] == "worlds") is (name == "worlds" and not options)
    told = content["results"]
    lines = [line.split()[1:] for line in call(*words).out.splitlines()[2:]]
    assert [one["binding"]["x"] for one in told] == [line[0] for line in lines] == list(UNITS)
    for one, line in zip(told, lines, strict=True):
        wanted = [there(one["binding"]["x"], hour) for hour in range(6)]
        assert [value is not None for value in one["values"]] == wanted
        assert [text != "absent" for text in line[1:]] == wanted
        for ends in ("low", "high"):
            assert [end is not None for end in one.get(ends, one["values"])] == wanted


@pytest.mark.parametrize("name", ["units", "worlds"])
@pytest.mark.parametrize("order", ["highest", "lowest"])
def test_absent_entities_come_last(home, call, name, order):
    words = ["ask", home / name, "Fault(x)", "--at", "all", "--sort", order]
    told = json.loads(call(*words, "--json").out)["results"]
    values = [one["value"] for one in told]
    known = sum(map(len, UNITS.values()))
    assert values[:known] == sorted(values[:known], reverse=order == "highest")
    assert set(values[known:]) == {None}
    lines = call(*words).out.splitlines()[2:]
    assert all(line.split()[3] == "absent" for line in lines[known:])
    assert "absent" not in "".join(lines[:known])


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        ("Fault(x)", "ab d"),  # c comes later
        ("F Fault(x)", "abcd"),
        ("X[2] Fault(x)", "abcd"),
        ("X[3] Fault(x)", "a cd"),  # b has gone
        ("X[3] Fault(x) | Fault(x)", "a  d"),
        ("true", ""),
    ],
)
def test_entities_are_absent_where_the_formula_uses_them(home, formula, wanted):
    answer = find_model(home / "units").ask(formula)
    assert {row.get("x") for row in answer.rows()} - {None} == set(wanted) - {" "}
    if formula != "true":
        assert [b.values[0] is not None for b in answer.bindings()] == [u in wanted for u in UNITS]
        assert answer.tensor.isfinite().all()


def test_static_facts_are_about_entities_that_are_ever_present():
    theory = fot.parse("sort s\nstatic predicate Big(s)\npredicate Hot(s), Here(s)")
    log = {
        "unit": ["a", "b"], "hour": [0, 1], "hot": [1, 0], "big": [1, 0], "run": ["one", "two"],
    }  # fmt: skip
    wide = fot.Wide(
        log, sort="s", entity="unit", time="hour", trace="run", presence="Here",
        predicates={"hot": "Hot", "big": "Big"},
    )  # fmt: skip
    view = View(fot.read(theory, wide=wide))
    answers = (view.ask(f"{name}(x)", at=0) for name in ("Big", "Hot"))
    big, hot = ([(r["trace"], r["x"]) for r in answer.rows()] for answer in answers)
    assert big == [("one", "a"), ("two", "b")]
    assert hot == [("one", "a")]


def test_notebooks_show_who_is_absent(home):
    model = find_model(home / "units")
    now, ever = (model.ask("Fault(x)", at=at)._repr_html_() for at in (0, "all"))
    assert now.count("absent") == 1
    assert ever.count("<img") == 4
    assert repr(model.ask("Fault(x)", at="all")).startswith("<Fault(x): 18 values from ")


# --- violations ---------------------------------------------------------------------------------


def test_violations_are_counted_among_all_cells_and_where_the_condition_holds(home, call):
    model = find_model(home / "units")
    degrees = [float(str(row["value"])) for row in model.ask("Fault(x)", at="all").rows()]
    middle = ["--threshold", statistics.median(degrees)]
    told = {
        name: json.loads(call("violations", home / "units", name, *middle, "--json").out)
        for name in ("Next", "Never", "Calm")
    }
    counted = call("rules", home / "units" / "model", *middle, "--json").out
    (rule,) = (one for one in json.loads(counted)["rules"] if one["rule"] == "Next")
    after, never, calm = told["Next"], told["Never"], told["Calm"]
    assert after["support"] == rule["support"] > 0
    assert after["rate_of_support"] == pytest.approx(1 - rule["confidence"]["value"])
    assert after["rate"] == after["violated"] / after["decided"] < after["rate_of_support"]
    assert (never["support"], never["rate"], never["rate_of_support"]) == (0, 0.0, None)
    assert (calm["support"], calm["rate_of_support"]) == (None, None)
    assert calm["rate"] == calm["violated"] / calm["decided"]
    said = call("violations", home / "units", "Next", *middle).out
    numbers = f"{after['violated']} of {after['support']}"
    assert f" of cells with a true antecedent ({numbers})." in said
    assert "Its antecedent is true at no cell." in call("violations", home / "units", "Never").out
    assert "antecedent" not in call("violations", home / "units", "Calm").out


# --- help ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["eval", "ask", "rules"])
def test_help_lists_the_operators(call, command):
    text = " ".join(call(command, "--help").out.split())
    for operator in Temporal:
        assert f"{operator.ascii} {operator.value.words}" in text
    for written in ("forall x.", "exists x.", "F[<=3]", "docs/cheatsheet.md"):
        assert written in text


@pytest.mark.usefixtures("facts")
def test_very_many_cells_are_not_counted(call, monkeypatch):
    monkeypatch.setattr("fotltn.cli.eval._MOST_CELLS", 20)
    told = found(call)
    counted = {one["formula"] for one in told["results"] if "share" in one}
    assert counted
    assert counted < {one["formula"] for one in told["results"]}
    assert (
        "Not counted: more than 100 million cells" in call("eval", "t.fot", "--facts", "f.csv").out
    )


@pytest.mark.usefixtures("facts")
def test_formulas_with_free_variables_have_no_cells_to_count(call):
    asked = ["--formula", "A(x)", "--formula", "forall x. A(x)"]
    out = call("eval", "t.fot", "--facts", "f.csv", *asked).out
    assert "True cells" in out
    assert "Not counted" not in out


def test_a_time_point_may_be_a_time_stamp(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        f"u{n},2024-05-01 {6 + t // 2:02}:{30 * (t % 2):02},{t},{int(t > 3)}"
        for n in (1, 2)
        for t in range(8)
    ]
    (tmp_path / "u.csv").write_text("\n".join(["unit,when,load,fault", *rows]) + "\n")
    assert call("new", "p", "--from", "u.csv").status == 0
    assert call("train", "p", "--epochs", "3").status == 0
    same = [call("ask", "p", "Fault(x)", "--at", at).out for at in ("4", "2024-05-01 08:00")]
    assert same[0] == same[1] != ""
    for at in ("2024-05-01 05:00", "noon"):
        told = call("ask", "p", "Fault(x)", "--at", at)
        assert told.status == 1
        assert f"from '2024-05-01T06:00' on, a time point from 0, or 'all', not '{at}'" in told.err
    assert call("train", "p", "--method", "posterior").status == 0
    doubts = call("doubt", "p", "--above", "0", "-o", "d.csv").out
    assert doubts.splitlines()[0].split() == ["wrong", "by", "others", "label", "when", "against"]
    assert '"2024-05-01T06:00"' in (tmp_path / "d.csv").read_text()
