"""Plots of one model: what is drawn, on axes that are given or new, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import auc, average_precision_score  # type: ignore[import-untyped]

import fotltn
from fotltn import DataError
from fotltn.analysis.metrics import calibration
from fotltn.analysis.over_time import Band
from fotltn.learn.fit import Epoch

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402 after it is known to be there
from matplotlib.offsetbox import AnchoredOffsetbox  # noqa: E402
from matplotlib.text import Text  # noqa: E402

plots = fotltn.plots


def epochs(count: int, *, watched: float = 0.0) -> tuple[Epoch, ...]:
    return tuple(
        Epoch(i, 1 / i, 0.6 / i, 0.4 / i, {"A": 0.9, "B": 1 - 1 / i, "C": 0.8, "D": 0.99},
              1 / i + watched, i <= 4)
        for i in range(1, count + 1)
    )  # fmt: skip


def named(ax) -> list[str]:
    """The texts of the legend."""
    legend = ax.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def lines(ax) -> dict[str, list[float]]:
    return {str(line.get_label()): list(line.get_ydata()) for line in ax.get_lines()}


def scores(seed: int = 0, count: int = 60) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    draw = np.random.default_rng(seed)
    truth = draw.random((2, count)) < 0.3
    return {n: (t, 0.3 * t + 0.7 * draw.random(count)) for n, t in zip("PQ", truth, strict=True)}


def test_training_curves():
    history = epochs(6)
    ax = plots.training_curves(history)
    found = lines(ax)
    assert found["loss"] == [e.loss for e in history]
    assert found["facts"] == [e.facts for e in history]
    assert found["axioms"] == [e.axioms for e in history]
    assert "kept: epoch 4 of 6" in found
    assert "watched" not in found
    assert "watched" in lines(plots.training_curves(epochs(6, watched=0.1)))


def test_training_without_axioms_and_of_one_epoch():
    history = [Epoch(1, 1.0, 1.0, None, {}, 1.0, True)]
    ax = plots.training_curves(history)
    assert set(lines(ax)) == {"loss", "facts"}
    with pytest.raises(DataError, match="no values of axioms"):
        plots.axiom_curves(history)
    with pytest.raises(DataError, match="not trained"):
        plots.training_curves([])


def test_axiom_curves_name_the_lowest():
    ax = plots.axiom_curves(epochs(20))
    assert named(ax) == [
        "other axioms", "C", "A", "B", "kept: epoch 4 of 20",
    ]  # fmt: skip
    chosen = plots.axiom_curves(epochs(20), axioms=["D"])
    assert lines(chosen)["D"] == [0.99] * 20
    with pytest.raises(DataError, match="there is no axiom 'E' to draw"):
        plots.axiom_curves(epochs(2), axioms=["E"])


def test_precision_and_recall():
    given = scores()
    ax = plots.precision_recall(given, "P")
    area = average_precision_score(*given["P"])
    assert ax.get_title() == "P"
    assert named(ax) == [f"PR-AUC {area:.3f}", f"chance {given['P'][0].mean():.3f}"]
    curve = ax.get_lines()[0]
    recall, precision = np.asarray(curve.get_xdata()), np.asarray(curve.get_ydata())
    steps = -np.diff(recall) @ precision[:-1]
    assert steps == pytest.approx(area)
    assert abs(steps - auc(recall, precision)) < 0.1
    both = plots.precision_recall(given)
    assert [text.split()[0] for text in named(both)] == ["P", "chance,", "Q", "chance,"]


def test_what_has_no_curve():
    with pytest.raises(DataError, match=r"'P' has no curve .* all 2 facts are true"):
        plots.precision_recall({"P": ([1, 1], [0.2, 0.3])}, "P")
    with pytest.raises(DataError, match="no predicate has both"):
        plots.precision_recall({"P": ([1, 1], [0.2, 0.3])})
    with pytest.raises(DataError, match=r"there is no predicate 'p' to draw; did you mean 'P'\?"):
        plots.precision_recall(scores(), "p")


def test_calibration():
    truth, score = scores(count=200)["P"]
    found = calibration(truth, score)
    ax = plots.calibration(found, title="P")
    full = [b for b in found.bins if b.count]
    assert lines(ax)["predictions"] == [b.true for b in full]
    assert [bar.get_height() for bar in ax.containers[0]] == [b.count / 200 for b in full]
    assert [t.get_text() for t in ax.texts] == [*(str(b.count) for b in full), "facts"]
    with pytest.raises(DataError, match="no facts to draw"):
        plots.calibration(calibration([], []))


def test_a_band():
    ax = plots.truth_over_time(Band((2, 3), (0.5, 0.75), (0.25, 0.5), (1.0, 1.0), (1, 0)))
    assert lines(ax) == {"lowest": [0.25, 0.5], "mean": [0.5, 0.75]}
    vertices = np.asarray(ax.collections[0].get_paths()[0].vertices)[:, 1]
    assert (vertices.min(), vertices.max()) == (0.25, 1.0)
    with pytest.raises(DataError, match="nothing to draw"):
        plots.truth_over_time(Band((), (), (), (), ()))


def test_axes_that_are_given_are_drawn_on_as_they_are():
    before = dict(matplotlib.rcParams)
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plots.training_curves(epochs(3), ax=left) is left
    assert plots.precision_recall(scores(), "Q", ax=right) is right
    assert right.spines["top"].get_visible()
    own = plots.training_curves(epochs(3))
    assert own.figure is not figure
    assert not own.spines["top"].get_visible()
    assert dict(matplotlib.rcParams) == before


def covers(ax) -> bool:
    """Whether the legend of axes lies on what they show."""
    ax.figure.canvas.draw()
    return bool(ax.get_legend().get_window_extent().overlaps(ax.get_window_extent()))


def test_legends_cover_no_data():
    figure, axes = plots.subplots(2, 3, width=9, height=6)
    plots.training_curves(epochs(6, watched=0.1), ax=axes[0][0])
    plots.axiom_curves(epochs(20), ax=axes[0][1])
    plots.precision_recall(scores(), ax=axes[0][2])
    plots.calibration(calibration(*scores(count=200)["P"]), title="P", ax=axes[1][0])
    plots.truth_over_time(Band((2, 3), (0.5, 0.7), (0.2, 0.5), (1.0, 1.0), (1, 0)), ax=axes[1][1])
    plots.truth_over_time(Band((2,), (0.5,), (0.2,), (1.0,), (1,)), ax=axes[1][2])
    assert not [ax for ax in figure.axes if covers(ax)]
    title = axes[1][0].title.get_window_extent()
    assert not title.overlaps(axes[1][0].get_legend().get_window_extent())


def crossed(ax) -> list[str]:
    """The texts on axes that lie on a line, on a bar or on one another, or outside the figure."""
    ax.figure.canvas.draw()
    boxes = {text: text.get_window_extent() for text in ax.texts}
    paths = [one.get_transform().transform_path(one.get_path()) for one in ax.get_lines()]
    paths += [bar.get_transform().transform_path(bar.get_path()) for bar in ax.patches]
    edge = ax.figure.bbox
    return [
        text.get_text()
        for text, box in boxes.items()
        if any(path.intersects_bbox(box) for path in paths)
        or any(box.overlaps(other) for one, other in boxes.items() if one is not text)
        or any(box.overlaps(tick.get_window_extent()) for tick in ax.get_yticklabels())
        or not (edge.contains(box.x0, box.y0) and edge.contains(box.x1, box.y1))
    ]


@pytest.mark.parametrize(("width", "height"), [(4.2, 3.6), (3.6, 2.8)])
@pytest.mark.parametrize(
    ("truth", "score"),
    [
        scores(count=200)["P"],
        ([0] * 9 + [1], [0.05] * 9 + [0.95]),
        ([1, 1, 1], [0.05, 0.55, 0.95]),
        ([0, 1] * 40, [0.1 * (i % 10) + 0.05 for i in range(80)]),
    ],
)
def test_texts_lie_on_no_line(truth, score, width, height):
    _, axes = plots.subplots(1, 1, width=width, height=height)
    plots.calibration(calibration(truth, score), title="P", ax=axes)
    assert len(axes.texts) > 1
    assert crossed(axes) == []
    if len(set(truth)) > 1:
        _, axes = plots.subplots(1, 1, width=width, height=height)
        plots.precision_recall({"P": (truth, score)}, "P", ax=axes)
        assert crossed(axes) == []
        assert not covers(axes)


def test_axes_of_subplots_have_the_look():
    figure, (left, right) = plots.subplots(1, 2, width=9, height=3, sharey=True)
    assert (figure.get_figwidth(), figure.get_figheight()) == (9, 3)
    assert not right.spines["top"].get_visible()
    plots.training_curves(epochs(3), ax=left)
    assert left.get_legend().get_texts()[0].get_fontsize() == 8.5
    plots.footer(figure, "one thread")
    assert figure.get_supxlabel() == "one thread"


def test_a_heat_map_has_a_bar_of_its_colours():
    theory = "sort a\npredicate Q(a), P(a)\naxiom A: forall x. G(Q(x) -> P(x))"
    facts = {"predicate": ["Q", "P", "P"], "arg1": ["u", "u", "v"], "time": [0, 1, 2],
             "truth": [1.0, 0.25, 1.0], "trace": ["one", "one", "two"]}  # fmt: skip
    model = fotltn.train(theory, facts=facts, learn=["P"], training={"epochs": 1})
    ax = plots.heat_map(model.truth_over_time("A"))
    assert isinstance(ax.artists[0], AnchoredOffsetbox)
    bar = ax.artists[0]
    words = [text.get_text() for text in bar.findobj(Text) if text.get_text().strip()]
    assert words == ["degree  0", "1", "does not count"]  # the first trace is shorter
    ax.figure.canvas.draw()
    assert not bar.get_window_extent().overlaps(ax.get_window_extent())
