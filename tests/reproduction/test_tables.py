"""Tables, in their three formats."""

from __future__ import annotations

import math
import re

import pytest

from reproduction.report.extra_tables import (
    axioms_table,
    predicates_table,
    settings_table,
    times_table,
    violations_table,
)
from reproduction.report.records import record
from reproduction.report.render import (
    Cell,
    Table,
    as_latex,
    as_markdown,
    as_text,
    escape,
    number,
    p_value,
    row,
    spread,
)
from reproduction.report.stats import Summary
from reproduction.report.tables import results_table, statistics_table, welch_table
from tests.reproduction.synthetic import AXIOMS, PREDICATES, STATISTICS, TRUTH, grid, values

SMALL = Table(
    "Ours & theirs",
    ("Data", "Method", "10 %"),
    (
        (row("D", "a|b", Cell(".727±.010", best=True)), row("D", "c", Cell("−.05", far=True))),
        (row("D", "a_b", "–"),),
    ),
    stubs=2,
    notes=("A note.",),
    best="the best",
    far="far off",
)


def grid_of(table):
    """The rows of a table by their names."""
    return {
        tuple(c.text for c in line[: table.stubs]): line[table.stubs :]
        for group in table.groups
        for line in group
    }


def texts(cells):
    return [cell.text for cell in cells]


# --- formats ---------------------------------------------------------------------------------


def test_text():
    rule = "─" * 24
    assert as_text(SMALL).splitlines() == [
        "Ours & theirs",
        rule,
        "Data  Method        10 %",
        rule,
        "D     a|b     .727±.010*",
        "      c            −.05†",
        rule,
        "D     a_b              –",
        rule,
        "A note.",
        "* the best.",
        "† far off.",
    ]


def test_markdown():
    assert as_markdown(SMALL) == (
        "### Ours & theirs\n\n"
        "| Data | Method | 10 % |\n"
        "| :-- | :-- | --: |\n"
        "| D | a\\|b | **.727±.010** |\n"
        "|  | c | −.05† |\n"
        "| D | a_b | – |\n"
        "\nA note.\nBold: the best.\n† far off.\n"
    )
    assert as_markdown(SMALL, heading="").startswith("| Data |")


def test_latex():
    shown = as_latex(SMALL, label="tab:x")
    assert r"\caption{Ours \& theirs. A note. Bold: the best. $\dagger$ far off.}" in shown
    assert r"\label{tab:x}" in shown
    assert r"\begin{tabular}{@{}llr@{}}" in shown
    assert r"D & a|b & \textbf{.727$\pm$.010} \\" in shown
    assert r" & c & $-$.05$^\dagger$ \\" in shown
    assert r"D & a\_b & -- \\" in shown
    assert shown.count(r"\midrule") == 2
    assert shown.count("{") == shown.count("}")


def test_latex_is_ascii_and_has_as_many_columns_everywhere():
    """What the tables hold can be set by any LaTeX."""
    runs = grid()
    for table in (
        results_table(runs, "pr_auc"),
        results_table(runs, "kb_sat", truth=TRUTH, all_false=1.0),
        welch_table(runs),
        predicates_table(runs),
        violations_table(runs),
        times_table(runs),
        statistics_table(STATISTICS),
    ):
        shown = as_latex(table)
        assert shown.isascii()
        body = [line for line in shown.splitlines() if line.endswith(r"\\")]
        assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {len(table.head) - 1}
        assert len(body) == 1 + sum(len(group) for group in table.groups)


def test_escape():
    assert escape("a\\b {c} 5 % #1 ~^ $") == (
        r"a\textbackslash{}b \{c\} 5~\% \#1 \textasciitilde{}\textasciicircum{} \$"
    )


def test_numbers():
    assert number(-0.0004, sign=True) == "+0.000"
    assert number(-0.9996) == "−1.000"
    assert number(math.inf) == "∞"
    assert number(-math.inf, 2) == "−∞"
    assert number(None) == "–"
    assert number(217.4, 0) == "217"
    assert spread(Summary(1, 0.5, math.nan)) == "0.500"
    assert spread(None) == "–"
    assert (p_value(0.0004), p_value(0.0006), p_value(1.0)) == ("<0.001", "0.001", "1.000")
    assert p_value(0.001, below=True) == "<0.001"
    assert p_value(math.nan) == "–"


# --- the paper's -----------------------------------------------------------------------------


def test_table_1():
    found = grid_of(statistics_table({**STATISTICS, "Mine": {"P": (1, 4)}}))
    assert texts(found["CarPed35K", "Stop"]) == [
        "1,520/5,000", "30.4", "1,450/5,000", "29.0", "+1.4",
    ]  # fmt: skip
    assert texts(found["CarPed180K", "Close"])[-1] == "+0.0"
    assert texts(found["Mine", "P"]) == ["1/4", "25.0", "–", "–", "–"]


def test_table_3():
    def shift(metric, _data, method, fraction):
        return -0.05 if (metric, method, fraction) == ("pr_auc", "FOT-LTN+BK", 0.1) else 0.0

    table = results_table(grid(shift=shift), "pr_auc")
    found = grid_of(table)
    assert texts(found["CarPed35K", "FOT-LTN+BK", "paper"])[0] == "0.727±0.010"
    assert found["CarPed35K", "FOT-LTN+BK", "ours"][0].text.startswith("0.677±")
    assert found["CarPed35K", "FOT-LTN+BK", "difference"][0] == Cell("−0.050", far=True)
    assert not found["CarPed35K", "FOT-LTN+BK", "difference"][1].far
    assert [c.best for c in found["CarPed180K", "FOT-LTN+BK", "ours"]] == [True] * 4 + [False] * 4
    assert [c.best for c in found["CarPed180K", "HTGNN", "ours"]] == [False] * 4 + [True] * 4
    assert texts(found["CarPed180K", "chance", ""]) == ["0.500"] * 8
    assert ("CarPed35K", "Bayes limit", "paper") not in found
    assert not any(c.best for c in found["CarPed35K", "Bayes limit", "ours"])
    assert "10 runs" in table.notes[0]


def test_table_3_of_kb_sat():
    found = grid_of(results_table(grid(), "kb_sat", truth=TRUTH, all_false=1.0))
    assert texts(found["CarPed35K", "the truth", ""]) == ["0.932"] * 8
    assert texts(found["CarPed180K", "all false", ""]) == ["1.000"] * 8
    assert ("CarPed35K", "chance", "") not in found
    bare = grid_of(results_table(grid(), "kb_sat"))
    assert not {"the truth", "all false"} & {key[1] for key in bare}


def test_table_3_with_holes():
    runs = [r for r in grid(repetitions=3) if r.method != "HTGNN" or r.fraction > 0.15]
    runs = [r for r in runs if (r.method, r.repetition) != ("FOT-LTN", 2)]
    table = results_table(runs, "pr_auc")
    found = grid_of(table)
    assert texts(found["CarPed35K", "HTGNN", "ours"])[0] == "–"
    assert found["CarPed35K", "HTGNN", "difference"][0] == Cell("–")
    assert "2 to 3 runs" in table.notes[0]


def test_table_4():
    table = welch_table(grid())
    found = grid_of(table)
    first = found["CarPed35K", "10 %"]
    assert texts(first)[:2] == ["0.727", "0.616"]
    assert texts(first)[-3:] == ["<0.001", "12.38", "<0.001"]
    assert first[-3].best
    assert found["CarPed180K", "60 %"][-1] == Cell("0.069")
    assert "over all 16 tests" in table.notes[0]
    assert welch_table([r for r in grid() if r.method != "HTGNN"]).groups == ()


# --- what the paper lacks --------------------------------------------------------------------


def test_predicates():
    found = grid_of(predicates_table(grid(), data="CarPed35K"))
    assert len(found) == 4 * 6
    assert texts(found["CarPed35K", "FOT-LTN", "Car"])[0].startswith("0.797±")
    assert texts(found["CarPed35K", "FOT-LTN", "Crossing"])[0].startswith("0.397±")
    assert len(predicates_table(grid()).groups) == 8
    assert {key[2] for key in found} == set(PREDICATES)


def test_violations():
    runs = [
        record(values(repetition=i, violations={"A1": v}, violation_rate=v))
        for i, v in enumerate((0.01, 0.03))
    ]
    assert texts(grid_of(violations_table(runs))["CarPed35K", "FOT-LTN+BK"]) == ["2.00±1.41"]
    assert violations_table([record(values(violations={}, violation_rate=None))]).groups == ()


def test_axioms():
    found = grid_of(axioms_table(grid()))
    assert len(found) == 2 * len(AXIOMS)
    assert len(found["CarPed35K", "A13"]) == 4
    runs = [record(values()), record(values(method="HTGNN", axioms={"A2": 0.5}))]
    assert texts(grid_of(axioms_table(runs))["CarPed35K", "A1"]) == ["0.900", "–"]
    crisp = axioms_table(runs, "violations")
    assert texts(grid_of(crisp)["CarPed35K", "A1"]) == ["2.00", "2.00"]


def test_times():
    runs = [record(values(repetition=i, seconds=s)) for i, s in enumerate((0.2, 0.4))]
    found = grid_of(times_table([*runs, record(values(method="HTGNN", batch=None, device=None))]))
    assert texts(found["CarPed35K", "FOT-LTN+BK"]) == [
        "2", "0.3 s", "0.4 s", "0.6 s", "200", "40", "324,902", "cpu",
    ]  # fmt: skip
    assert texts(found["CarPed35K", "HTGNN"])[-1] == "–"


def test_settings():
    runs = [record(values(repetition=i, setting={"p": 4, "scale": i})) for i in range(5)]
    found = grid_of(settings_table([*runs, record(values(method="HTGNN", setting={"name": "x"}))]))
    assert texts(found["p",]) == ["4", "–"]
    assert texts(found["scale",]) == ["0, 1, 2, … 2 more", "–"]
    assert texts(found["name",]) == ["–", "x"]


@pytest.mark.parametrize(("metric", "shown"), [("pr_auc", "0.750"), ("kb_sat", "0.940")])
def test_one_run_is_enough(metric, shown):
    found = grid_of(results_table([record(values())], metric))
    assert texts(found["CarPed35K", "FOT-LTN+BK", "ours"]) == [shown]
