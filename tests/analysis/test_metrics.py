"""Metrics against their definitions, written out."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (  # type: ignore[import-untyped]
    average_precision_score,
    brier_score_loss,
    precision_recall_curve,
    roc_auc_score,
)

from fotltn import DataError
from fotltn.analysis import metrics as m
from fotltn.semantics.aggregate import p_mean_error


def average_precision(truth, score):
    """By thresholds: the sum over distinct scores of (recall gained) × precision."""
    total, area, before = sum(truth), 0.0, 0.0
    for threshold in sorted(set(score), reverse=True):
        chosen = [y for y, s in zip(truth, score, strict=True) if s >= threshold]
        recall, precision = sum(chosen) / total, sum(chosen) / len(chosen)
        area += (recall - before) * precision
        before = recall
    return area


def ranked_right(truth, score):
    """By pairs of a true and a false fact."""
    pairs = [
        1.0 if a > b else 0.5 if a == b else 0.0
        for a, y in zip(score, truth, strict=True)
        if y
        for b, z in zip(score, truth, strict=True)
        if not z
    ]
    return sum(pairs) / len(pairs)


def random_facts(seed, size=60, levels=None):
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, 2, size)
    truth[:2] = 0, 1
    score = generator.random(size)
    if levels:
        score = np.round(score * levels) / levels
    return truth, score


@pytest.mark.parametrize("levels", [None, 4, 1])
@pytest.mark.parametrize("seed", range(5))
def test_rankings_are_those_of_the_definitions(seed, levels):
    truth, score = random_facts(seed, levels=levels)
    assert m.pr_auc(truth, score).value == pytest.approx(average_precision(truth, score), abs=1e-12)
    assert m.roc_auc(truth, score).value == pytest.approx(ranked_right(truth, score), abs=1e-12)
    peers = average_precision_score(truth, score), roc_auc_score(truth, score)
    ours = m.pr_auc(truth, score).value, m.roc_auc(truth, score).value
    assert ours == pytest.approx(peers, abs=1e-12)
    precision, recall, _ = precision_recall_curve(truth, score)
    curve = m.pr_curve(truth, score)
    assert curve.precision == pytest.approx(tuple(precision), abs=1e-12)
    assert curve.recall == pytest.approx(tuple(recall), abs=1e-12)


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1)), min_size=1, max_size=20))
def test_every_metric_has_a_value_or_a_reason(facts):
    truth, score = [y for y, _ in facts], [s for _, s in facts]
    both = len(set(truth)) == 2
    for metric in (m.pr_auc, m.roc_auc):
        found = metric(truth, score)
        assert found.defined == both
        assert math.isnan(found.value) != both
        if both:
            assert 0 <= found.value <= 1
    for metric in (m.accuracy, m.brier):
        assert 0 <= metric(truth, score).value <= 1
    assert m.chance(truth).value == pytest.approx(sum(truth) / len(truth))
    bins = m.calibration(truth, score)
    assert sum(b.count for b in bins.bins) == len(truth)
    assert 0 <= bins.error.value <= 1


def test_a_constant_score_is_chance():
    truth, _ = random_facts(3)
    assert m.pr_auc(truth, np.full(len(truth), 0.3)).value == pytest.approx(m.chance(truth).value)
    assert m.roc_auc(truth, np.full(len(truth), 0.3)).value == 0.5


def test_accuracy_at_a_threshold():
    truth, score = [1, 1, 0, 0], [0.5, 0.4, 0.5, 0.1]
    assert m.accuracy(truth, score).value == 0.5  # a score at the threshold says true
    assert m.accuracy(truth, score, threshold=0.4).value == 0.75
    assert m.accuracy(truth, score, threshold=0.51).value == 0.5
    with pytest.raises(DataError, match="the threshold is NaN"):
        m.accuracy(truth, score, threshold=math.nan)


def test_brier():
    truth, score = random_facts(8)
    assert m.brier(truth, score).value == pytest.approx(brier_score_loss(truth, score))
    assert m.brier([1, 0], [0.5, 0.0]).value == 0.125


def test_calibration_bins():
    found = m.calibration([1, 0, 1, 1, 0], [0.0, 0.2, 0.5, 1.0, 0.7], bins=2)
    low, high = found.bins
    assert (low.low, low.high, low.count) == (0.0, 0.5, 2)
    assert (high.low, high.high, high.count) == (0.5, 1.0, 3)
    assert [low.predicted, low.true] == pytest.approx([0.1, 0.5])
    assert [high.predicted, high.true] == pytest.approx([2.2 / 3, 2 / 3])
    assert found.error.value == pytest.approx((2 * 0.4 + 3 * 0.2 / 3) / 5)


def test_every_edge_lies_in_the_bin_above_it():
    scores = [i / 10 for i in range(11)]
    found = m.calibration([0] * 11, scores, bins=10)
    assert [b.count for b in found.bins] == [1] * 9 + [2]


def test_an_empty_bin_has_no_mean():
    found = m.calibration([1], [0.95], bins=4)
    assert math.isnan(found.bins[0].predicted)
    assert found.bins[0].as_dict() == {
        "low": 0.0, "high": 0.25, "count": 0, "predicted": None, "true": None,
    }  # fmt: skip
    assert found.error.value == pytest.approx(0.05)


def test_true_predictions_are_perfect():
    truth = [0, 1, 1, 0]
    assert m.pr_auc(truth, truth).value == 1
    assert m.roc_auc(truth, truth).value == 1
    assert m.accuracy(truth, truth).value == 1
    assert m.brier(truth, truth).value == 0
    assert m.calibration(truth, truth).error.value == 0


# --- what is undefined, and what is wrong ----------------------------------------------------


@pytest.mark.parametrize(
    ("truth", "reason"),
    [
        ([1, 1, 1], "all 3 facts are true"),
        ([0, 0], "all 2 facts are false"),
        ([], "there are no facts"),
    ],
)
def test_one_class_is_undefined_with_the_reason(truth, reason):
    score = [0.5] * len(truth)
    for metric in (m.pr_auc, m.roc_auc):
        found = metric(truth, score)
        assert math.isnan(found.value)
        assert found.reason == reason
        assert found.as_dict() == {"value": None, "reason": reason}


def test_nothing_is_undefined_everywhere():
    empty = np.zeros(0)
    for metric in (m.accuracy, m.brier):
        assert metric(empty, empty).reason == "there are no facts"
    assert m.chance(empty).reason == "there are no facts"
    assert m.calibration(empty, empty).error.reason == "there are no facts"
    assert m.accuracy([1, 1], [0.9, 0.2]).value == 0.5  # one class is enough here


@pytest.mark.parametrize(
    ("truth", "score", "message"),
    [
        ([0, 1], [0.5, math.nan], "fact 1 (from 0) has the score nan; expected"),
        ([0, 1], [math.inf, math.nan], "fact 0 (from 0) has the score inf (and 1 more); expected"),
        ([0, 0.5], [0.5, 0.5], "fact 1 (from 0) has the truth 0.5; metrics need facts of 0 or 1"),
        ([0, math.nan], [0.5, 0.5], "fact 1 (from 0) has the truth nan"),
        ([0, 1], [0.5], "there are 2 truth values, but 1 scores"),
        ([[0, 1]], [0.5, 0.5], "truth has the shape (1, 2); expected numbers in a row"),
        ([0, 1], 0.5, "score has the shape (); expected numbers in a row"),
        ([0, 1], ["high", "low"], "score is not a list of numbers"),
        ([0, 1], None, "score has the shape ()"),
        ([0, 1], [torch.ones(2, requires_grad=True)] * 2, "score"),
    ],
)
@pytest.mark.parametrize("metric", [m.pr_auc, m.roc_auc, m.accuracy, m.brier, m.calibration])
def test_bad_arrays(metric, truth, score, message):
    with pytest.raises(DataError) as error:
        metric(truth, score)
    assert message in str(error.value)


def test_scores_that_are_no_degrees():
    assert m.roc_auc([0, 1], [-3.0, 7.0]).value == 1  # a ranking needs no degrees
    for metric in (m.brier, m.calibration):
        with pytest.raises(DataError, match=r"has the score -3 \(and 1 more\); expected a degree"):
            metric([0, 1], [-3.0, 7.0])
    with pytest.raises(DataError, match="at least 1 bin, not 0"):
        m.calibration([0, 1], [0.1, 0.2], bins=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_tensors_are_as_good_as_arrays(dtype):
    truth, score = random_facts(4)
    values = torch.tensor(score, dtype=dtype, requires_grad=True)
    expected = m.pr_auc(truth, values.detach().double().numpy())
    assert m.pr_auc(torch.tensor(truth), values) == expected
    assert m.pr_auc(torch.tensor(truth, dtype=torch.bool), values) == expected


def test_log_loss_is_the_mean_of_logarithms():
    truth, score = random_facts(3)
    likely = np.where(np.asarray(truth) == 1, score, 1 - np.asarray(score))
    assert m.log_loss(truth, score).value == pytest.approx(float(-np.log(likely).mean()))
    assert m.log_loss([1], [0.0]).value == pytest.approx(-np.log(1e-12))
    assert m.log_loss([], []).reason == "there are no facts"


def test_ece_is_the_error_of_calibration():
    row = m.report({"P": random_facts(5)}).predicates["P"]
    assert row.ece == row.calibration.error


# --- reports ---------------------------------------------------------------------------------


def test_a_report_averages_over_predicates_each_counted_once():
    scores = {"P": random_facts(1, 20), "Q": random_facts(2, 400)}
    found = m.report(scores)
    for name in m.METRICS:
        one, two = (getattr(found.predicates[p], name).value for p in "PQ")
        assert found.mean[name].value == pytest.approx((one + two) / 2)
    assert found.predicates["Q"].facts == 400
    assert found.predicates["Q"].positive == scores["Q"][0].sum()


def test_what_is_undefined_is_left_out_of_the_mean_and_named():
    found = m.report({"P": random_facts(1), "All": ([1, 1], [0.2, 0.9]), "None": ([], [])})
    assert found.mean["pr_auc"] == found.predicates["P"].pr_auc
    assert found.left_out("pr_auc") == ("All", "None")
    assert found.left_out("accuracy") == ("None",)
    assert m.report({"All": ([1], [0.2])}).mean["pr_auc"].reason == "undefined for every predicate"
    assert m.report({}).mean["pr_auc"].reason == "there are no predicates"


def test_a_report_is_json_without_nan():
    found = m.report({"P": random_facts(1), "All": ([1, 1], [0.2, 0.9]), "None": ([], [])})
    data = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert data["predicates"]["All"]["pr_auc"] == {"value": None, "reason": "all 2 facts are true"}
    assert data["predicates"]["P"]["pr_auc"]["value"] == found.predicates["P"].pr_auc.value
    assert data["mean"]["roc_auc"]["left_out"] == ["All", "None"]
    assert len(data["predicates"]["P"]["calibration"]["bins"]) == 10


def test_an_error_in_a_report_names_the_predicate():
    with pytest.raises(DataError, match=r"'Q': fact 0 \(from 0\) has the score nan"):
        m.report({"P": random_facts(1), "Q": ([1], [math.nan])})


# --- axioms ----------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 2, 4, 7.5, math.inf])
def test_satisfaction_is_the_p_mean_error(p):
    values = torch.rand(13, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = p_mean_error(values, p, (0,)).item()
    assert m.satisfaction(values, p=p).value == pytest.approx(expected, abs=1e-12)
    assert m.satisfaction(values.tolist(), p=p).value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("p", [1, 4, math.inf])
def test_a_weight_is_a_repetition(p):
    weighted = m.satisfaction({"a": 0.3, "b": 0.9}, p=p, weights={"b": 2.0, "a": 1.0})
    assert weighted.value == pytest.approx(m.satisfaction([0.3, 0.9, 0.9], p=p).value)
    geometric = m.kb_sat({"a": 0.3, "b": 0.9}, weights={"b": 2.0, "a": 1.0})
    assert geometric.value == pytest.approx((0.3 * 0.9 * 0.9) ** (1 / 3))


def test_an_axiom_without_weight_plays_no_part():
    assert m.satisfaction([0.0, 0.5], p=math.inf, weights=[0, 3]).value == 0.5
    assert m.kb_sat([0.0, 0.5], weights=[0, 3]).value == pytest.approx(0.5)


def test_the_ends():
    assert m.satisfaction([1.0, 1.0]).value == 1
    assert m.satisfaction([0.0, 0.0]).value == 0
    assert m.kb_sat([1.0, 1.0]).value == 1
    assert m.kb_sat([1.0, 0.0]).value == 0
    assert m.satisfaction([1 + 1e-9, 1.0]).value == 1
    assert m.satisfaction([1 - 1e-300, 1 - 1e-5], p=400).value == pytest.approx(1 - 1e-5, abs=1e-6)
    assert m.satisfaction([]).reason == m.kb_sat({}).reason == "there are no axioms"


def test_the_geometric_mean():
    values = torch.rand(13, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    assert m.kb_sat(values).value == pytest.approx(values.prod().item() ** (1 / 13))


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ({"A1": 1.2}, {}, "the axiom A1 has the value 1.2; expected one from 0 to 1"),
        ([0.5, math.nan], {}, "the axiom 2 has the value nan"),
        ([0.5], {"weights": [0.0]}, "all weights of axioms are 0"),
        ([0.5], {"weights": [-1.0]}, "the axiom 1 has the weight -1.0; expected a number from 0"),
        ([0.5], {"weights": [math.inf]}, "the axiom 1 has the weight inf"),
        ([0.5], {"weights": [1.0, 2.0]}, "there are 1 axioms, but 2 weights"),
        ({"A": 0.5}, {"weights": [1.0]}, "both by name, or both in order"),
        ({"A": 0.5}, {"weights": {"B": 1.0}}, "'A' is in one only"),
    ],
)
@pytest.mark.parametrize("metric", [m.kb_sat, m.satisfaction])
def test_bad_axioms(metric, values, options, message):
    with pytest.raises(DataError) as error:
        metric(values, **options)
    assert message in str(error.value)


@pytest.mark.parametrize("p", [0.5, 0, -1, math.nan])
def test_bad_p(p):
    with pytest.raises(DataError, match="p is a number from 1, or infinite"):
        m.satisfaction([0.5], p=p)


def test_metrics_load_no_slow_library():
    code = (
        "import sys, fotltn.analysis.metrics as m; m.pr_auc([0, 1], [0, 1]).value\n"
        "print(any(name in sys.modules for name in ('sklearn', 'scipy')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
