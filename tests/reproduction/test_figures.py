"""Figures: what is drawn where, and files that do not change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fotltn.errors import DataError
from fotltn.reporting.plots import save
from reproduction.paper import published
from reproduction.report.records import record
from reproduction.report.sweeps import predicates_figure, results_figure, sweep
from tests.reproduction.synthetic import TRUTH, grid, values

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[2]
BLUE, GREEN, GREY = "#0072B2", "#009E73", "#595959"


def lines(ax, colour, *, dashed):
    return [
        line for line in ax.get_lines() if line.get_color() == colour and line.is_dashed() == dashed
    ]


def test_the_results_figure():
    runs = grid()
    figure = results_figure(runs, truth=TRUTH)
    axes = figure.axes
    assert [ax.get_title() for ax in axes] == ["CarPed35K", "CarPed180K", "", ""]
    assert [ax.get_ylabel() for ax in axes] == ["PR-AUC", "", "KB-SAT", ""]
    (ours,) = lines(axes[0], BLUE, dashed=False)
    chosen = [r for r in runs if (r.data, r.method) == ("CarPed35K", "FOT-LTN+BK")]
    means = [np.mean([r.pr_auc for r in chosen if r.fraction == f]) for f in published.FRACTIONS]
    assert ours.get_ydata() == pytest.approx(means)
    (theirs,) = lines(axes[3], GREEN, dashed=True)
    assert list(theirs.get_ydata()) == [
        published.RESULTS["kb_sat", "CarPed180K", "HTGNN", f].mean for f in published.FRACTIONS
    ]
    labels = [[text.get_text() for text in ax.texts] for ax in axes]
    assert labels == [
        ["chance"],
        ["chance"],
        ["the truth", "all false"],
        ["the truth", "all false"],
    ]
    flat = [
        np.asarray(line.get_ydata())[0] for line in axes[3].get_lines() if line.get_color() == GREY
    ]
    assert flat == [0.917, 1.0]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "FOT-LTN+BK", "FOT-LTN", "HTGNN", "Bayes limit", "here (± std)", "paper",
    ]  # fmt: skip


def test_bands_are_a_deviation_to_either_side():
    runs = [record(values(repetition=i, pr_auc=p, pr_auc_by={})) for i, p in enumerate((0.6, 0.8))]
    runs += [record(values(repetition=i, fraction=0.2, pr_auc=0.7, pr_auc_by={})) for i in (0, 1)]
    (band,) = results_figure(runs).axes[0].collections
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.7 - 0.02**0.5, 0.7 + 0.02**0.5))


def test_without_the_paper():
    figure = results_figure(grid(limit=False), all_false=None, paper=False)
    assert not any(lines(ax, BLUE, dashed=True) for ax in figure.axes)
    assert figure.axes[2].texts[:] == []


def test_other_methods_have_their_own_look():
    runs = [record(values(method=name)) for name in ("HTGNN", "One", "Two")]
    ax = results_figure(runs).axes[0]
    marks = {
        (line.get_color(), line.get_marker()) for line in ax.get_lines() if not line.is_dashed()
    }
    assert len(marks) == 3


def test_the_figure_of_predicates():
    figure = predicates_figure(grid())
    assert len(figure.axes) == 12
    assert [ax.get_title() for ax in figure.axes[:3]] == ["Car", "Ped", "Run"]
    assert len(predicates_figure(grid(), data="CarPed35K").axes) == 6


def by_label(ax) -> dict[str, list[float]]:
    return {str(line.get_label()): list(line.get_ydata()) for line in ax.get_lines()}


def test_sweep():
    runs = grid(repetitions=2)
    ax = sweep(runs, "kb_sat", data="CarPed35K")
    assert (ax.get_title(), ax.get_ylabel()) == ("CarPed35K", "KB-SAT")
    chosen = [r for r in runs if (r.data, r.method, r.fraction) == ("CarPed35K", "HTGNN", 0.1)]
    mean = sum(r.kb_sat or 0 for r in chosen) / 2
    assert by_label(ax)["HTGNN"][0] == pytest.approx(mean)
    one = sweep([record(values())], "axioms.A1")
    assert list(by_label(one)) == ["FOT-LTN+BK"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "choose one with data="),
        ({"data": "CarPed35"}, "did you mean 'CarPed35K'"),
        ({"metric": "pr_acu", "data": "CarPed35K"}, "no metric 'pr_acu'"),
        ({"metric": "pr_auc_by.Bus", "data": "CarPed35K"}, "no run on 'CarPed35K' has the metric"),
    ],
)
def test_sweeps_that_cannot_be_drawn(arguments, message):
    with pytest.raises(DataError, match=message):
        sweep(grid(repetitions=1), **arguments)
    with pytest.raises(DataError, match="no records"):
        sweep([])


def test_nothing_to_draw():
    with pytest.raises(DataError, match="there are no records to draw"):
        results_figure([])
    with pytest.raises(DataError, match="no records with PR-AUC by predicate"):
        predicates_figure(grid(), data="Mine")


def test_files_are_the_same_each_time(tmp_path):
    runs = grid(repetitions=2)
    first = save(results_figure(runs, truth=TRUTH), tmp_path / "a" / "fig.v1")
    second = save(results_figure(runs, truth=TRUTH), tmp_path / "b" / "fig.v1")
    assert [path.name for path in first] == ["fig.v1.png", "fig.v1.svg"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert first[0].read_bytes().startswith(b"\x89PNG")
    assert "FOT-LTN+BK" in first[1].read_text("utf-8")


def test_saving_where_one_cannot(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write"):
        save(results_figure(grid(repetitions=1)), tmp_path / "file" / "fig")


def fresh(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_matplotlib_and_scipy_load_late():
    code = (
        "import sys, reproduction.report.export, reproduction.report.page\n"
        "print([name for name in ('matplotlib', 'scipy', 'torch') if name in sys.modules])"
    )
    assert fresh(code) == "[]"


def test_without_matplotlib_there_is_a_word_about_it():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from reproduction.report.sweeps import results_figure\n"
        "from reproduction.report.records import Record\n"
        "run = Record('d', 'm', .1, 0, 0, .5, {}, .5, 1.)\n"
        "try: results_figure([run])\n"
        "except Exception as error: print(error)"
    )
    assert fresh(code).splitlines() == [
        "error: plots need the package matplotlib",
        "      = pip install matplotlib, or install fotltn with its extra 'report'",
    ]
