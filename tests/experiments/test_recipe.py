"""The recipe on the paper's scenes, in small."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fotltn.experiments.protocol import READING, Run
from fotltn.experiments.recipe import Recipe, likelihood, run_recipe
from fotltn.report.records import record

SHORT = replace(Recipe(), epochs=25)
RUNS = [Run("CarPed35K", "Recipe", 0.1, r) for r in range(2)]


def test_few_steps_already_learn_and_decisions_obey():
    (found,) = run_recipe(RUNS[:1], SHORT)
    (free,) = run_recipe(RUNS[:1], replace(SHORT, defined=False))
    assert found["pr_auc"] > free["pr_auc"] + 0.1
    assert found["pr_auc"] > 0.9
    broken = {n for n, rate in found["violations"].items() if rate > 0}
    assert broken <= {"A2", "A8", "A13"}
    assert record(found).method == "Recipe"


def test_runs_do_not_depend_on_each_other():
    both = run_recipe(RUNS, SHORT)
    (alone,) = run_recipe(RUNS[1:], SHORT)
    assert both[1]["pr_auc"] == pytest.approx(alone["pr_auc"], abs=1e-4)
    assert both[0]["pr_auc"] != both[1]["pr_auc"]


def test_the_likelihood_of_wrong_labels():
    degrees, truth = torch.tensor([0.9, 0.2]), torch.tensor([1.0, 1.0])
    expected = -torch.log(torch.tensor([0.9 * 0.9 + 0.1 * 0.1, 0.9 * 0.2 + 0.1 * 0.8]))
    torch.testing.assert_close(likelihood(degrees, truth, 0.1), expected)


def test_held_back_facts_are_training_facts():
    (found,) = run_recipe(RUNS[:1], replace(SHORT, epochs=2), setting=replace(READING, holdout=0.2))
    assert found["setting"]["holdout"] == 0.2


def test_the_page_is_that_of_the_records():
    folder = Path(__file__).parents[2] / "docs" / "recipe"
    done = subprocess.run(
        [sys.executable, folder / "build.py", "--check"],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr or "run: python docs/recipe/build.py"
