"""The report of a model: what is on the page, and that it is the model's."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import fotltn
from fotltn.analysis.audit_data import Finding, FindingKind
from fotltn.analysis.metrics import report as metrics_of
from fotltn.analysis.over_time import TruthOverTime
from fotltn.analysis.violations import WorstCell
from fotltn.format import number
from fotltn.project.model import Model, load_model
from fotltn.reporting import model_report
from fotltn.reporting.html import MARK, write_page
from fotltn.reporting.model_report import ModelContent, brief_page, model_content, model_page
from fotltn.reporting.verdict import advice, by_attention, mean_pr_auc, verdict
from fotltn.semantics.reference import evaluate as reference
from tests.project.common import trained
from tests.report.pages import Page, checked

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

THEORY = """\
sort agent
predicate Near(agent), Stop(agent)
axiom Obey: forall x. G(Near(x) -> WX Stop(x))
axiom Reason weight 2: forall x. G(Stop(x) -> Near(x) | Y Near(x))
"""
HOSTILE = "<script>alert('x')</script>"


def facts(names: tuple[str, ...] = ("ego", "bus"), times: int = 6) -> dict[str, list[Any]]:
    rows = [
        (predicate, name, time, int((i + time) % 3 == shift))
        for i, name in enumerate(names)
        for time in range(times)
        for shift, predicate in enumerate(("Near", "Stop"))
    ]
    columns = zip(*rows, strict=True)
    return dict(zip(("predicate", "arg1", "time", "truth"), map(list, columns), strict=True))


def small(theory: str = THEORY, given: dict[str, list[Any]] | None = None, **more: Any) -> Model:
    return fotltn.train(
        theory, facts=given or facts(), learn=["Stop"], training={"epochs": 3}, **more
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Model:
    """Two traces, four axioms, test facts."""
    return trained(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def content(model) -> ModelContent:
    return model_content(model, "runs/model", top=4)


@pytest.fixture(scope="module")
def page(content) -> Page:
    return checked(model_page(content))


def labels(page: Page) -> list[str]:
    return [e.attributes["aria-label"] for e in page.all("svg", class_="plot")]


# --- what is there ----------------------------------------------------------------------------


def test_every_part_is_there(page, content):
    sections = [e for e in page.all("section") if "aria-labelledby" in e.attributes]
    assert [e.attributes["id"] for e in sections] == [
        "summary", "training", "axioms", "predictions", "theory", "configuration",
    ]  # fmt: skip
    assert page.all("title")[0].text == "Report of runs/model"
    for i, axiom in enumerate(content.axioms):
        own = page.by_id(f"axiom-{i + 1}")
        assert own.text.strip().startswith(axiom.audit.name)
        told = [e for e in page.all("span", role="math") if own in e.around]
        assert [e.attributes["aria-label"] for e in told] == [str(axiom.formula)]
    text = " ".join(e.text for e in page.all("li"))
    for axiom in content.axioms:
        for finding in axiom.findings:  # once: in the list of warnings or in the axiom's section
            assert finding.message in text or finding.kind.meaning in text
            assert text.count(finding.message.removeprefix(axiom.audit.name)) <= 1


def test_numbers_are_those_of_the_model(page, model):
    found, audit = model.metrics(), model.audit()
    table = page.cells("Table: Metrics by predicate")
    assert [row[0] for row in table] == [*found.predicates, "Mean"]
    for row in table[:-1]:
        one = found.predicates[row[0]]
        assert row[1:3] == [str(one.facts), str(one.positive)]
        wanted = [one.pr_auc, one.chance, one.roc_auc, one.accuracy, one.brier]
        shown = ["–" if math.isnan(m.value) else f"{m.value:.3f}" for m in wanted]
        assert row[3:8] == shown
    for row in page.cells("Table: All axioms"):
        one = audit.axiom(row[0])
        assert [row[i] for i in (1, 3, 4)] == [
            "–" if v is None else f"{v:.3f}" for v in (one.value, one.labels, one.all_false)
        ]
        assert row[5] == f"{one.on_model.violated:,} of {one.on_model.decided:,}"
    tiles = {e.text.strip() for e in page.all("dd")}
    assert f"{audit.knowledge_base.kb_sat.value:.3f}" in tiles
    assert audit.knowledge_base.line in page.by_id("summary").text


def test_worst_bindings_by_name_and_time(page, content, model):
    for axiom in content.axioms:
        if not len(axiom.worst):
            continue
        first: WorstCell = axiom.worst[0]
        row = page.cells(f"Table: Worst bindings of {axiom.audit.name}")[0]
        names = list(first.binding.values())
        assert row[: len(names)] == names
        assert row[len(names)] == model.facts.traces[first.trace]
        assert row[len(names) + 1] == str(first.time)
        assert row[len(names) + 2 :][:2] == [
            "yes" if first.violated else "no",
            f"{first.value:.3f}",
        ]


def test_the_band_is_the_mean_and_range_of_the_reference(model, content):
    """The body of A1, by the slow evaluator, over traces and entities that are there."""
    body = "Stop(x) -> !Fast(x)"
    checked_body = fotltn.check_formula(fotltn.parse_formula(body), model.theory.signature)
    value = reference(checked_body.formula, model.tables, model.semantics, dtype=model.dtype)
    lengths = model.tables.lengths
    found = content.axioms[0].band
    assert found is not None
    for i, time in enumerate(found.times):
        column = torch.cat([value.tensor[k, :, time] for k in range(2) if time < lengths[k]])
        assert found.mean[i] == pytest.approx(float(column.mean()), abs=1e-6)
        assert found.low[i] == pytest.approx(float(column.min()), abs=1e-6)
        assert found.high[i] == pytest.approx(float(column.max()), abs=1e-6)
    assert sum(found.violated) == content.axioms[0].audit.on_model.violated


def test_settings_seeds_versions_and_fingerprint(page, content, model, tmp_path):
    text = page.by_id("configuration").text
    assert content.fingerprint in text
    assert "data 1, training 3" in text
    assert f"torch {torch.__version__}" in text
    assert "validation = 0.2" in text
    model.save(tmp_path / "model")
    again = model_content(load_model(tmp_path / "model"), "runs/model", top=4)
    assert again.fingerprint == content.fingerprint
    assert again.model.versions == content.model.versions == content.written
    assert json.dumps(again.as_dict()) == json.dumps(content.as_dict())


def test_content_for_machines_is_plain(content, model):
    found = json.loads(json.dumps(content.as_dict()))
    assert found["metrics"]["mean"] == json.loads(json.dumps(model.metrics().as_dict()))["mean"]
    assert [a["axiom"] for a in found["axioms"]] == ["A1", "A2", "A3", "A4"]
    assert len(found["training"]["history"]) == 6
    assert found["axioms"][0]["worst"]["violations"][0]["trace"] in (0, 1)
    assert set(found["curves"]) == set(content.curves())
    assert found["size"]["traces"] == 2
    assert fotltn.parse(found["theory"]) == content.model.world.source


def test_the_area_under_a_curve_is_the_metric(content):
    for name, curve in content.curves().items():
        steps = zip(curve.recall, curve.recall[1:], curve.precision, strict=False)
        area = sum((a - b) * p for a, b, p in steps)
        assert area == pytest.approx(content.metrics.predicates[name].pr_auc.value)


# --- other models -----------------------------------------------------------------------------


def report(model: Model, **more: Any) -> Page:
    return checked(model_page(model_content(model, "m", **more)))


def test_names_are_escaped_and_pages_are_the_same_each_time():
    given = facts((HOSTILE, "b\"&'$x$"))
    content = model_content(small(given=given, train=0.5), HOSTILE)
    text = model_page(content)
    assert HOSTILE not in text
    page = checked(text)
    assert page.all("h1")[0].text == f"Report of {HOSTILE}"
    assert HOSTILE in page.by_id("axiom-1").text
    assert any(HOSTILE in label for label in labels(page))
    assert model_page(content) == text


def test_without_test_facts():
    page = report(small())
    assert "No facts are held back for testing" in page.by_id("summary").text
    assert "cannot be judged" in page.by_id("predictions").text
    assert "PR-AUC, mean" not in page.by_id("summary").text


def test_without_axioms():
    page = report(small("sort agent\npredicate Near(agent), Stop(agent)\n", train=0.5))
    assert "The theory has no axioms." in page.by_id("axioms").text
    assert "KB-SAT" not in page.by_id("summary").text
    assert not any("axioms by epoch" in label for label in labels(page))


def test_only_several_traces_have_at_most_so_many_steps(page):
    assert "2 traces of at most 5 steps" in " ".join(page.all("header")[0].text.split())
    assert "1 trace of 6 steps, " in " ".join(report(small()).all("header")[0].text.split())


def test_a_trace_of_one_point():
    page = report(small(given=facts(times=1)))
    assert "It is fully true at every binding and time." in page.by_id("axiom-1").text
    assert not any("over time" in label for label in labels(page))


def test_a_model_that_is_not_trained():
    model = small()
    model.history, model.reason = (), ""
    assert "it has no epochs" in report(model).by_id("training").text


def test_one_epoch_and_facts_of_one_truth():
    given = facts()
    given["truth"] = [1] * len(given["truth"])
    model = fotltn.train(THEORY, facts=given, learn=["Stop"], train=0.5, training={"epochs": 1})
    page = report(model)
    assert "undefined for Stop" in page.by_id("summary").text
    assert "No predicate has both true and false test facts." in page.by_id("predictions").text


def test_a_rule_without_variables_and_one_with_a_guard():
    theory = THEORY + "predicate rain\naxiom Wet: F rain\n"
    theory += "axiom Some: forall x where Near(x). G(Stop(x))\n"
    given = facts()
    for column, value in (("predicate", "rain"), ("arg1", None), ("time", 1), ("truth", 1)):
        given[column].append(value)
    page = report(small(theory, given))
    assert len(page.cells("Table: All axioms")) == 4


def test_hard_axioms_are_marked():
    model = small(THEORY.replace("axiom Obey", "hard axiom Obey"))
    page = report(model)
    names = [row[0] for row in page.cells("Table: All axioms")]
    assert {" ".join(name.split()) for name in names} == {"Obey hard", "Reason"}
    assert [row[1] for row in page.cells("Table: theory")] == ["hard", "2"]
    assert "hard, " in page.by_id("axiom-1").text
    assert "hard" not in page.by_id("axiom-2").text
    content = model_content(model, "m").as_dict()
    assert [one["hard"] for one in content["axioms"]] == [True, False]


def test_too_many_cells_to_draw(monkeypatch):
    monkeypatch.setattr("fotltn.reporting.model_report.MAX_CELLS", 11)
    page = report(small())
    assert (
        "With 12 bindings and times there are too many to draw each." in page.by_id("axiom-1").text
    )
    assert page.cells("Table: Worst bindings of Obey")


def test_the_threshold_decides_what_is_a_violation():
    model = small()
    low, high = (model_content(model, "m", threshold=t) for t in (0.01, 0.99))
    for found in (low, high):
        for axiom in found.axioms:
            assert axiom.band is not None
            assert sum(axiom.band.violated) == axiom.audit.on_model.violated
    assert low.as_dict()["axioms"] != high.as_dict()["axioms"]


def test_an_empty_band():
    class Nothing:
        values, truth, times = torch.full((2, 1), math.nan), torch.full((2, 1), 2), (0,)

    assert TruthOverTime.band(Nothing()).times == ()  # type: ignore[arg-type]


# --- files ------------------------------------------------------------------------------------


def test_a_report_is_replaced_and_another_file_is_not(tmp_path):
    page = tmp_path / "new" / "r.html"
    ours = f'<html>{MARK} 0.1.0">'
    assert write_page(ours, page) == page
    write_page(ours + "2", page)
    assert page.read_text() == ours + "2"
    page.write_text("my notes")
    with pytest.raises(fotltn.DataError, match="is not a fotltn report"):
        write_page(ours, page)
    assert page.read_text() == "my notes"
    write_page(ours, page, force=True)
    assert page.read_text() == ours
    assert [p.name for p in page.parent.iterdir()] == ["r.html"]


def test_an_empty_file_and_a_link_are_written(tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to("empty")
    write_page(MARK, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "empty").read_text() == MARK


def test_a_folder_and_a_device_are_refused(tmp_path):
    with pytest.raises(fotltn.DataError, match="it is a folder"):
        write_page("", tmp_path, force=True)
    with pytest.raises(fotltn.DataError, match="not a plain file"):
        write_page("", Path("/dev/full"), force=True)


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    page = tmp_path / "r.html"
    write_page(MARK, page)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fotltn.reporting.html.os.fsync", full)
    with pytest.raises(fotltn.DataError, match=r"cannot write .*r\.html: No space left on device"):
        write_page("other", page)
    assert page.read_text() == MARK
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_below_a_file_nothing_can_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(fotltn.DataError, match=r"cannot write .*r\.html: 'file' is a file"):
        write_page("", tmp_path / "file" / "r.html")


# --- the verdict ------------------------------------------------------------------------------


def test_the_verdict_says_what_the_numbers_say(page, content):
    assert content.interval is not None
    assert content.metrics is not None
    low, value, high = content.interval.low, content.interval.value, content.interval.high
    assert low <= value <= high
    assert low < high
    assert value == pytest.approx(content.metrics.mean["pr_auc"].value)
    assert mean_pr_auc(content.scores) == content.interval  # the same each time
    text = " ".join(page.by_id("summary").text.split())
    for sentence in content.verdict:
        assert sentence in text
    wrong = [a for a in content.axioms if a.audit.on_model.violated]
    assert f"{len(wrong)} of {len(content.axioms)} axioms" in content.verdict[-1]
    assert content.day.isoformat() in page.all("header")[0].text


def test_scores_are_told_from_guessing_only_where_they_can_be():
    truth = [1.0, 0.0] * 100
    good = mean_pr_auc({"P": (truth, [0.9 if t else 0.1 for t in truth])})
    assert good is not None
    assert (good.low, good.value, good.high) == (1.0, 1.0, 1.0)
    guess = mean_pr_auc({"P": (truth, [0.5] * 200), "Q": ([1.0, 1.0], [0.1, 0.2])})
    assert guess is not None
    assert guess.low < 0.5 < guess.high
    assert mean_pr_auc({"Q": ([1.0, 1.0], [0.1, 0.2])}) is None


def sentences(scores: dict[str, tuple[list[float], list[float]]]) -> tuple[str, ...]:
    return verdict(metrics_of(scores), mean_pr_auc(scores), None)


def test_predicates_below_guessing_are_listed():
    truth = [1.0, 0.0] * 50
    good = [0.9 if t else 0.1 for t in truth]
    bad = [(0.1 if t else 0.8) + 0.001 * i for i, t in enumerate(truth)]
    first, second = sentences({"Good": (truth, good), "Fair": (truth, [0.5] * 100)})
    assert first.startswith("On 200 test facts, predictions are better than guessing: ")
    assert " (95 % interval: " in first
    assert second == "They improve least on guessing for Fair: 0.500, where guessing scores 0.500."
    _, second = sentences(
        {"Good": (truth, good), "Bad": (truth, bad), "Ill": (truth[:-1], bad[:-1])}
    )
    assert second.startswith("Scores are worse than guessing on ")
    assert "Bad (0.312, guessing 0.500)" in second
    assert " and " in second
    assert "Ill (" in second
    assert "Good" not in second
    _, second = sentences({f"P{i}": (truth, bad) for i in range(8)})
    assert second.endswith("P4 (0.312, guessing 0.500) and 3 more.")


def test_few_test_facts_are_called_few_and_one_predicate_is_named_once():
    truth = [1.0, 0.0] * 14
    good = [0.9 if t else 0.1 for t in truth]
    first, second = sentences({"Good": (truth, good)})
    assert first.startswith("On 28 test facts, ")
    assert second == "These facts are few: on others, the score may be quite different."
    assert len(sentences({"Good": (truth * 2, good * 2)})) == 1


def test_violated_axioms_come_first_and_are_open(page, content):
    order = [row[0].split()[0] for row in page.cells("Table: All axioms")]
    wrong = {a.audit.name for a in content.axioms if a.audit.on_model.violated}
    assert set(order[: len(wrong)]) == wrong
    for i, axiom in enumerate(content.axioms):
        (fold,) = [
            e for e in page.all("details") if page.by_id(f"axiom-{i + 1}") in e.around
        ]  # fmt: skip
        assert ("open" in fold.attributes) >= (axiom.audit.name in wrong)


def test_a_kind_of_warning_is_listed_once(page, content):
    kinds = {finding.kind for axiom in content.axioms for finding in axiom.findings}
    items = [e for e in page.all("li") if page.by_id("axioms") in e.around]
    assert len(kinds) > 1
    for kind in kinds:
        (item,) = [e for e in items if e.text.strip().startswith(kind)]
        about = {
            a.audit.name: f for a in content.axioms for f in reversed(a.findings) if f.kind is kind
        }
        (one, *others) = about
        text = " ".join(item.text.split())
        if others:
            assert text.startswith(f"{kind} ")
            assert text.endswith(f": {kind.meaning}")
            assert {a.text for a in page.all("a") if item in a.around} == {*about}
        else:
            assert text == f"{kind} {about[one].message}"


def test_every_kind_of_warning_has_its_text():
    def axiom(name: str, *kinds: FindingKind) -> dict[str, Any]:
        findings = [Finding(name, kind, f"{name}: it is {kind}") for kind in kinds]
        return {"name": name, "verdicts": [("warn", k) for k in kinds], "findings": findings}

    alone = model_report._warnings([axiom("A", *FindingKind)])
    assert [one["text"] for one in alone] == [f": it is {kind}" for kind in FindingKind]
    together = model_report._warnings([axiom("A", *FindingKind), axiom("B", *FindingKind)])
    assert [one["text"] for one in together] == [f": {kind.meaning}" for kind in FindingKind]
    assert len({kind.meaning for kind in FindingKind}) == len(FindingKind)


# --- in brief ---------------------------------------------------------------------------------


def test_the_brief_page_has_the_same_numbers_and_says_what_to_do(content, model):
    page = checked(brief_page(content))
    text = " ".join(page.by_id("content").text.split())
    for sentence in (*content.verdict, *content.brief_advice):
        assert sentence in text
    assert "axioms in the full report: " in text
    assert any("axioms below: " in sentence for sentence in content.advice)
    broken = sum(a.audit.on_model.violated for a in content.axioms)
    assert f"{broken:,} of" in text
    assert number(content.interval.value) in text
    assert number(model.metrics().mean["ece"].value) in text
    first = by_attention(content.audit.axioms)[0]
    assert page.all("tbody")[0].text.strip().startswith(first.name)


def test_advice_follows_from_what_is_wrong(content):
    violated = [a.audit.name for a in content.axioms if a.audit.on_model.violated]
    said = advice(content.metrics, content.audit, dict.fromkeys(violated, "x = ego"))
    assert violated
    assert all("begin with x = ego" in line for line in said[: min(2, len(violated))])
    assert "Hold back some facts" in advice(None, None, {})[0]


def test_a_brief_report_of_sampled_worlds_speaks_of_chains_rather_than_of_hard_axioms(content):
    violated = [one.name for one in content.audit.axioms if one.on_model.violated]
    hard = replace(content.audit, axioms=tuple(replace(a, hard=True) for a in content.audit.axioms))
    assert "must hold" in " ".join(advice(None, hard, dict.fromkeys(violated, "x = ego")))
    said = advice(None, hard, dict.fromkeys(violated, "x = ego"), doubts=("chains differ",))
    assert said[0] == "Chains differ."
    assert "must hold" not in " ".join(said)
    assert "All sampled worlds obey these" in " ".join(verdict(None, None, hard, sampled=True))
    assert "All sampled worlds obey these" not in " ".join(verdict(None, None, hard))
    assert len(content.advice) <= 5


def test_without_facts_and_axioms_the_brief_page_is_whole():
    theory = "sort agent\npredicate Near(agent), Stop(agent)\n"
    page = checked(brief_page(model_content(small(theory, train=1.0), "runs")))
    assert "The theory has no axioms." in page.by_id("content").text
