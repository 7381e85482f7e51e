"""The classifier: as scikit-learn asks, over frames of every kind, with errors that say why."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from dataclasses import fields
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa
import pytest

import fotltn
from fotltn import Classifier, DataError, Entity, Wide
from fotltn.project.api import FitSettings, TrainSettings

THEORY = """\
sort pump
predicate Failed(pump), Worn(pump), Repair(pump)
static predicate Old(pump)
axiom Cause: forall x. G(Failed(x) -> Worn(x))
"""

COLUMNS: dict[str, Any] = {
    "sort": "pump",
    "entity": "pump",
    "time": "hour",
    "trace": "day",
    "predicates": {"failed": "Failed", "worn": "Worn", "repair": "Repair"},
    "features": ["bar"],
}


def frame(days: int = 6, hours: int = 4, first: int = 0) -> dict[str, list[Any]]:
    """Days of two pumps, whose pressure says whether they have failed; rows in no order."""
    draw = np.random.default_rng(3 + first)
    rows = [
        (f"d{day}", pump, hour)
        for day in range(first, first + days)
        for pump in ("north", "south")
        for hour in range(hours)
    ]
    draw.shuffle(rows)
    bar = draw.normal(5, 2, len(rows))
    return {
        "day": [row[0] for row in rows],
        "pump": [row[1] for row in rows],
        "hour": [int(row[2]) for row in rows],
        "bar": bar.tolist(),
        "failed": [int(b < 4) for b in bar],
        "worn": [None if b > 6 else int(b < 5) for b in bar],
        "repair": [0] * len(rows),
    }


def without(columns: dict[str, list[Any]], *names: str) -> dict[str, list[Any]]:
    return {name: cells for name, cells in columns.items() if name not in names}


def make(**settings: Any) -> Classifier:
    defaults = {"learn": ["Worn"], "training": {"epochs": 60, "rate": 0.05}, **COLUMNS}
    return Classifier(THEORY, "Failed", **{**defaults, **settings})


@pytest.fixture(scope="module")
def fitted() -> Classifier:
    return make().fit(frame())


# --- predictions --------------------------------------------------------------------------------


def test_each_row_has_the_degree_of_its_fact(fitted):
    new = frame(first=10, hours=7)
    assert fitted.model_.theory.signature.predicates["Failed"].sorts == ("pump",)
    proba = fitted.predict_proba(without(new, "failed", "worn"))
    table = fitted.model_.apply({"wide 1": new}).predictions(["Failed"]).to_pylist()
    degrees = {(r["trace"], r["arg1"], r["time"]): r["truth"] for r in table}
    rows = list(zip(new["day"], new["pump"], new["hour"], strict=True))
    assert len(set(rows)) == len(rows) == len(degrees)
    assert proba.shape == (len(rows), 2)
    assert proba[:, 1] == pytest.approx([degrees[row] for row in rows])
    assert proba.sum(1) == pytest.approx(np.ones(len(rows)))
    assert fitted.predict(new).tolist() == [int(degrees[row] >= 0.5) for row in rows]
    assert fitted.classes_.tolist() == [0, 1]


def test_labels_in_a_frame_change_no_prediction(fitted):
    new = frame(first=10)
    other = {**new, "failed": [1 - f for f in new["failed"]]}
    assert np.array_equal(fitted.predict_proba(new), fitted.predict_proba(other))
    assert fitted.score(other) == pytest.approx(1 - fitted.score(new))


def test_the_score_is_the_share_of_right_predictions(fitted):
    new = frame(first=10)
    right = fitted.predict(new) == np.array(new["failed"])
    assert fitted.score(new) == pytest.approx(right.mean())
    assert right.mean() > 0.8
    assert fitted.score(without(new, "failed"), new["failed"]) == pytest.approx(right.mean())
    some = {**new, "failed": [None, *new["failed"][1:]]}
    assert fitted.score(some) == pytest.approx(right[1:].mean())


def test_labels_may_come_beside_the_frame():
    rows, short = frame(), {"epochs": 3}
    bare = without(rows, "failed")
    columns = {c: n for c, n in COLUMNS["predicates"].items() if c != "failed"}
    by_column = make(training=short).fit(rows)
    for labels in (
        rows["failed"],
        np.array(rows["failed"]),
        np.array(rows["failed"], dtype=bool),
        np.array(rows["failed"], dtype=float),
    ):
        for predicates in (COLUMNS["predicates"], columns):
            beside = make(training=short, predicates=predicates).fit(bare, labels)
            assert np.array_equal(beside.predict_proba(bare), by_column.predict_proba(bare))
    partly = [None, float("nan"), *rows["failed"][2:]]
    model = make(training=short).fit(bare, partly).model_
    assert len(model.world.labels.truth["Failed"]) == len(rows["failed"]) - 2
    with pytest.raises(DataError, match="there are 2 labels for 48 rows"):
        make().fit(bare, [0, 1])


def test_frames_of_every_kind_give_the_same(fitted, tmp_path):
    columns = without(frame(first=10), "failed", "worn")
    expected = fitted.predict_proba(columns)
    table = pa.table(columns)
    assert np.array_equal(fitted.predict_proba(table), expected)
    assert np.array_equal(fitted.predict_proba(pa.RecordBatch.from_pydict(columns)), expected)

    class Frame:
        def __arrow_c_stream__(self, schema: object = None) -> object:
            return table.__arrow_c_stream__(schema)

    assert np.array_equal(fitted.predict_proba(Frame()), expected)
    lines = [
        ",".join(columns),
        *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True)),
    ]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    assert np.array_equal(fitted.predict_proba(tmp_path / "rows.csv"), expected)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_data_frames(fitted, package):
    library: Any = importlib.import_module(package)
    columns = without(frame(first=10), "failed", "worn")
    expected = fitted.predict_proba(columns)
    assert np.array_equal(fitted.predict_proba(library.DataFrame(columns)), expected)


def test_static_targets_local_entities_and_fixed_arguments():
    theory = THEORY + "predicate Linked(pump, pump)\n"
    rows = {**frame(), "old": [int(p == "north") for p in frame()["pump"]]}
    static = Classifier(
        theory, "Old", **{**COLUMNS, "predicates": {"old": "Old"}},
        data={"local": ["pump"]}, training={"epochs": 2}, objective={"preset": "facts-only"},
        learn=["Failed", "Worn", "Repair", "Linked"],
    ).fit(rows)  # fmt: skip
    proba = static.predict_proba(rows)[:, 1]
    by_pump: dict[tuple[str, str], set[float]] = {}
    for day, pump, degree in zip(rows["day"], rows["pump"], proba.tolist(), strict=True):
        by_pump.setdefault((day, pump), set()).add(degree)
    assert len(by_pump) == 12
    assert all(len(degrees) == 1 for degrees in by_pump.values())
    pairs = Classifier(
        theory, "Linked", **{**COLUMNS, "predicates": {"failed": "Linked"}},
        arguments={"failed": ["pump", Entity("north")]}, training={"epochs": 2},
        learn=["Failed", "Worn", "Repair", "Old"],
    ).fit(rows)  # fmt: skip
    table = pairs.model_.apply({"wide 1": rows}).predictions(["Linked"]).to_pylist()
    degrees = {(r["trace"], r["arg1"], r["arg2"], r["time"]): r["truth"] for r in table}
    keys = zip(rows["day"], rows["pump"], rows["hour"], strict=True)
    expected = [degrees[day, pump, "north", hour] for day, pump, hour in keys]
    assert pairs.predict_proba(rows)[:, 1] == pytest.approx(expected)


def test_a_defined_target_and_one_of_a_group_are_predicted():
    rows = frame()
    defined = make(
        define={"Failed(x)": "Worn(x) & !Repair(x)"}, training={"epochs": 2}
    ).fit(rows)  # fmt: skip
    group = make(learn=(), exclusive=[["Failed", "Worn"]], training={"epochs": 2}).fit(rows)
    for classifier in (defined, group):
        assert classifier.predict_proba(rows).shape == (48, 2)


# --- as scikit-learn asks -----------------------------------------------------------------------


def test_settings_are_those_of_the_constructor():
    classifier = make(inputs={"pump": {"encoder": {"kind": "gru"}}})
    settings = classifier.get_params(deep=False)
    assert settings["training"] is classifier.training
    assert Classifier(**settings).get_params(deep=False) == settings
    deep = classifier.get_params()
    assert deep["training__rate"] == 0.05
    assert deep["inputs__pump__encoder__kind"] == "gru"
    before = classifier.training
    assert classifier.set_params(training__rate=0.1, threshold=0.3) is classifier
    assert classifier.training == {"epochs": 60, "rate": 0.1}
    assert before == {"epochs": 60, "rate": 0.05}
    classifier.set_params(inputs__pump__changes=[1], objective__weight=2)
    assert classifier.get_params()["inputs__pump__changes"] == [1]
    assert classifier.objective == {"weight": 2}
    assert "Failed" in repr(classifier)


def test_the_threshold_is_that_of_predict(fitted):
    new = frame(first=10)
    proba = fitted.predict_proba(new)[:, 1]
    try:
        assert fitted.set_params(threshold=0.9).predict(new).tolist() == (proba >= 0.9).tolist()
        right = (proba >= 0.9) == np.array(new["failed"], dtype=bool)
        assert fitted.score(new) == pytest.approx(right.mean())
    finally:
        fitted.set_params(threshold=0.5)


def test_a_trained_classifier_can_be_pickled(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(copy.predict_proba(frame()), fitted.predict_proba(frame()))


def test_the_module_does_not_load_scikit_learn():
    code = "import fotltn, sys; fotltn.Classifier; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    "theory", [THEORY, fotltn.parse(THEORY), fotltn.check(fotltn.parse(THEORY))]
)
def test_scikit_learn_clones_it(theory):
    from sklearn.base import clone, is_classifier  # type: ignore[import-untyped]
    from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

    classifier = Classifier(theory, "Failed", learn=["Worn"], training={"epochs": 2}, **COLUMNS)
    classifier.fit(frame())
    check_is_fitted(classifier)
    copy = clone(classifier)
    assert is_classifier(copy)
    assert copy.get_params().keys() == classifier.get_params().keys()
    assert not hasattr(copy, "model_")
    assert np.array_equal(
        copy.fit(frame()).predict_proba(frame()), classifier.predict_proba(frame())
    )


def test_scikit_learn_splits_by_trace():
    from sklearn.metrics import accuracy_score  # type: ignore[import-untyped]
    from sklearn.model_selection import (  # type: ignore[import-untyped]
        GridSearchCV,
        GroupKFold,
        cross_val_predict,
        cross_val_score,
    )

    columns = frame()
    rows, labels = pa.table(columns), np.array(columns["failed"])
    classifier, folds = make(training={"epochs": 20, "rate": 0.05}), GroupKFold(3)
    proba = cross_val_predict(
        classifier, rows, cv=folds, groups=columns["day"], method="predict_proba"
    )
    assert proba.shape == (48, 2)
    for train, test in folds.split(labels, groups=columns["day"]):
        alone = make(training={"epochs": 20, "rate": 0.05}).fit(rows.take(train))
        assert np.array_equal(alone.predict_proba(rows.take(test)), proba[test])
    scores = cross_val_score(classifier, rows, cv=folds, groups=columns["day"])
    with_labels = cross_val_score(
        classifier, rows.drop_columns(["failed"]), labels, cv=folds, groups=columns["day"],
        scoring="roc_auc",
    )  # fmt: skip
    assert accuracy_score(labels, proba[:, 1] >= 0.5) == pytest.approx(scores.mean())
    assert (with_labels > 0.8).all()
    search = GridSearchCV(classifier, {"training__rate": [1e-6, 0.05]}, cv=folds)
    search.fit(rows, groups=columns["day"])
    assert search.best_params_ == {"training__rate": 0.05}
    assert search.predict(rows).shape == (48,)
    assert classifier.training == {"epochs": 20, "rate": 0.05}


# --- errors -------------------------------------------------------------------------------------


def test_before_fit_there_is_nothing_to_predict():
    for ask in (make().predict_proba, make().predict, make().score):
        with pytest.raises(DataError, match=r"has not been trained; call fit\(frame\) first"):
            ask(frame())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": "Faild"}, "unknown predicate 'Faild'"),
        ({"networks": {"Failed": "facts"}}, "'Failed' is not learned"),
        ({"define": {"Failed(x)": "Repair(x)"}}, "labels for 'Failed', which is not learned"),
        (
            {"networks": {"Failed": "logits"}},
            "not predict for other frames: 'Failed' has one logit",
        ),
        ({"features": []}, "not predict for other frames: networks see a separate vector"),
        ({"features": ["bar", "heat"]}, "no column 'heat'"),
        ({"entity": "who"}, "no column 'who'"),
        ({"predicates": {"worn": "Worn"}}, "no column 'Failed'"),
        ({"sort": "pmup"}, "unknown sort 'pmup'"),
        ({"training": {"epoch": 3}}, "unknown key 'training.epoch'"),
        ({"training": 3}, "training: expected a mapping with names as keys"),
        ({"learn": [3]}, r"learn\[0\]: expected text, not 3"),
    ],
)
def test_fit_refuses(settings, message):
    classifier = make(training={"epochs": 1}).set_params(**settings)
    with pytest.raises(fotltn.FotError, match=message):
        classifier.fit(frame())
    assert not hasattr(classifier, "model_")


def test_frames_that_do_not_fit(fitted):
    new = frame(first=10)
    with pytest.raises(DataError, match="no column 'bar'"):
        fitted.predict_proba(without(new, "bar"))
    with pytest.raises(DataError, match="no column 'repair'"):
        fitted.predict_proba(without(new, "repair"))
    with pytest.raises(DataError, match="the frame has no labels of 'Failed'"):
        fitted.score(without(new, "failed"))
    with pytest.raises(DataError, match="cannot read facts from a value of type 'int'"):
        fitted.predict_proba(3)
    empty = {name: [*cells, None] for name, cells in new.items()}
    with pytest.raises(DataError, match="row 49 does not name its trace"):
        fitted.predict_proba(empty)
    empty["day"][-1] = "d10"
    with pytest.raises(DataError, match="row 49"):
        fitted.predict_proba(empty)


def test_unknown_settings():
    with pytest.raises(DataError, match="no setting 'trainig'; did you mean 'training'"):
        make().set_params(trainig={})
    with pytest.raises(DataError, match="'seed' is 0, which has no 'a'"):
        make(seed=0).set_params(seed__a=1)


def test_all_that_a_wide_table_may_say_is_a_setting():
    columns = {f.name for f in fields(Wide)} - {"source", "optional"}
    assert columns <= {*make().get_params(deep=False)}


def test_features_may_be_missing_and_words_unknown():
    """In both a gap is as it was last; a word that training did not see is no category."""
    table = frame()
    table["bar"] = [None if i % 7 == 0 else cell for i, cell in enumerate(table["bar"])]
    table["kind"] = ["old" if i % 2 else "new" for i in range(len(table["bar"]))]
    seen = {"features": ["bar", "kind"], "training": {"epochs": 5}}
    with pytest.raises(DataError, match="missing = "):
        make(**seen).fit(table)
    classifier = make(**seen, missing={"bar": "last"}, unknown_categories="zero").fit(table)
    other = {**frame(first=9), "kind": ["older"] * len(table["bar"])}
    assert np.isfinite(classifier.predict_proba({**other, "bar": table["bar"]})).all()
    with pytest.raises(DataError, match="the feature is 'older'"):
        make(**seen, missing="mean").fit(table).predict(other)


@pytest.mark.parametrize("typed", [False, True])
def test_times_may_be_time_stamps(typed):
    numbered, new = frame(), frame(days=2, first=20)

    def stamped(columns: dict[str, list[Any]]) -> Any:
        text = [f"2020-01-01T{7 + hour:02}:30" for hour in columns["hour"]]
        if not typed:
            return {**columns, "hour": text}
        stamps = pa.array([f"{cell}:00" for cell in text]).cast(pa.timestamp("s"))
        return pa.table({**columns, "hour": stamps})

    expected = make().fit(numbered).predict_proba(new)
    classifier = make(data={"step": "1h"}).fit(stamped(numbered))
    assert np.array_equal(classifier.predict_proba(stamped(new)), expected)
    assert classifier.score(stamped(new)) == make().fit(numbered).score(new)
    with pytest.raises(DataError, match="set the length of a step"):
        make().fit(stamped(numbered))


# --- what it shares with train ------------------------------------------------------------------


def test_it_takes_every_setting_of_train():
    hard = THEORY.replace("axiom Cause", "hard axiom Cause")
    seen: list[Any] = []

    class Sweeps(fotltn.Callback):
        def sweep(self, progress):
            seen.append(progress.sweep)

    classifier = Classifier(
        hard, "Failed", learn=["Worn"], method="posterior", seed=3, train=0.9, callbacks=[Sweeps()],
        posterior={"worlds": 4, "burn_in": 2, "sweeps": 2, "stored": 1}, **COLUMNS,
    ).fit(frame())  # fmt: skip
    assert classifier.model_.posterior is not None
    assert seen == [1, 2, 3, 4]
    assert classifier.model_.config.training.seed == 3
    assert make(preset="paper", training={"epochs": 1}).fit(frame()).model_.config.method == (
        "gradient"
    )
    assert {*get_type_hints(FitSettings)} < {*get_type_hints(TrainSettings)}
    assert {*get_type_hints(FitSettings)} < {*make().get_params(deep=False)}


def test_it_says_what_to_use_instead_of_weights_of_classes():
    with pytest.raises(DataError, match="lower threshold="):
        make(class_weight="balanced")


def test_before_fit_the_error_is_also_that_of_scikit_learn():
    from sklearn.exceptions import NotFittedError  # type: ignore[import-untyped]

    with pytest.raises(NotFittedError) as raised:
        make().predict(frame())
    assert isinstance(raised.value, DataError)
    code = (
        "import sys; sys.modules['sklearn.exceptions'] = None; import fotltn\n"
        "c = fotltn.Classifier('sort s', 'P', sort='s', entity='e')\n"
        "try: c.predict({})\nexcept fotltn.DataError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "has not been trained" in done.stdout


def test_arrays_are_frames_whose_columns_have_numbers_or_names():
    rows, new = frame(), frame(first=10)
    short = {"epochs": 2}
    names = ["day", "pump", "hour", "bar", "worn", "repair"]
    labels = rows["failed"]

    def array(columns: dict[str, list[Any]]) -> Any:
        return np.array([columns[name] for name in names], dtype=object).T

    by_frame = make(training=short).fit(without(rows, "failed"), labels)
    named = make(training=short, columns=names).fit(array(rows), labels)
    assert np.array_equal(named.predict_proba(array(new)), by_frame.predict_proba(new))
    assert np.array_equal(by_frame.predict_proba(array(new)), by_frame.predict_proba(new))
    for classifier in (by_frame, named):
        assert classifier.n_features_in_ == 6
        assert sorted(classifier.feature_names_in_) == sorted(names)
    numbered = Classifier(
        THEORY, "Failed", sort="pump", entity="x1", time="x2", trace="x0", features=["x3"],
        predicates={"x4": "Worn", "x5": "Repair"}, learn=["Worn"], training=short,
    ).fit(array(rows), labels)  # fmt: skip
    assert np.array_equal(numbered.predict_proba(array(new)), by_frame.predict_proba(new))
    assert numbered.n_features_in_ == 6
    assert not hasattr(numbered, "feature_names_in_")
    plain = np.array([[0.0, 1.0, np.nan], [1.0, 2.0, 3.0]])
    two = Classifier(THEORY, "Old", sort="pump", entity="x0", features=["x1"], training=short)
    two.fit(plain[:, :2], [0, 1])
    assert two.model_.facts.names.entities["pump"] == ("0", "1")
    with pytest.raises(DataError, match="the array has 2 columns, but there are 6 names"):
        named.predict(plain[:, :2])
    with pytest.raises(DataError, match=r"needs the axes \(row, column\), not shape \(3,\)"):
        named.predict(plain[0])
