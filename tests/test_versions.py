"""Versions agree: the package, its metadata, the citation, and the changelog.

The README names the versions of PyTorch that tests ran with.
"""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fotltn

ROOT = Path(__file__).resolve().parent.parent
NUMBER = r"\d+\.\d+\.\d+"


def disagreements(package: str, metadata: str, citation: str, changelog: str) -> list[str]:
    """What is wrong with four places that name a version.

    A version in development has a section Unreleased, and one cites the last release.
    """
    first, *sections = re.findall(rf"^## \[(Unreleased|{NUMBER})\]", changelog, re.MULTILINE)
    released = [name for name in (first, *sections) if name != "Unreleased"]
    cited = re.search(r"^version: (.*)$", citation, re.MULTILINE)
    wrong = []
    if package != metadata:
        wrong.append(f"fotltn.__version__ is {package}, pyproject.toml has {metadata}")
    if package.endswith(".dev0"):
        if first != "Unreleased":
            wrong.append(f"{package} needs a section Unreleased in CHANGELOG.md")
        if package.removesuffix(".dev0") in released:
            wrong.append(f"{package} was released, by CHANGELOG.md")
    elif first != package:
        wrong.append(f"the newest section of CHANGELOG.md is {first}, not {package}")
    if cited is None or cited[1] != released[0]:
        wrong.append(f"CITATION.cff does not name {released[0]}, the last release")
    return wrong


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_versions_agree():
    metadata = tomllib.loads(text("pyproject.toml"))["project"]["version"]
    places = text("CITATION.cff"), text("CHANGELOG.md")
    assert disagreements(fotltn.__version__, metadata, *places) == []


OPEN, CLOSED = "## [Unreleased]\n\n## [0.1.0] - 2026-11-15\n", "## [0.1.0] - 2026-11-15\n"


@pytest.mark.parametrize(
    ("package", "metadata", "cited", "changelog", "wrong"),
    [
        ("0.2.0.dev0", "0.2.0.dev0", "0.1.0", OPEN, None),
        ("0.1.0", "0.1.0", "0.1.0", CLOSED, None),
        ("0.2.0.dev0", "0.2.0", "0.1.0", OPEN, "pyproject.toml has 0.2.0"),
        ("0.2.0.dev0", "0.2.0.dev0", "0.1.0", CLOSED, "needs a section Unreleased"),
        ("0.1.0.dev0", "0.1.0.dev0", "0.1.0", OPEN, "was released"),
        ("0.1.0", "0.1.0", "0.1.0", OPEN, "newest section of CHANGELOG.md is Unreleased"),
        ("0.2.0", "0.2.0", "0.1.0", CLOSED, "newest section of CHANGELOG.md is 0.1.0"),
        ("0.2.0.dev0", "0.2.0.dev0", "0.2.0", OPEN, "does not name 0.1.0"),
    ],
)
def test_versions_that_disagree_are_noticed(package, metadata, cited, changelog, wrong):
    said = disagreements(package, metadata, f"title: A\nversion: {cited}\n", changelog)
    assert len(said) == (wrong is not None)
    assert wrong is None or wrong in said[0]


# --- PyTorch --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def records() -> ModuleType:
    spec = importlib.util.spec_from_file_location("records", ROOT / ".ci/record.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_names_the_versions_of_pytorch_on_record(records):
    record = json.loads(text("docs/torch.json"))
    ran = [run["torch"] for run in record["runs"]]
    (paragraph,) = (part for part in text("README.md").split("\n\n") if "docs/torch.json" in part)
    assert re.findall(NUMBER, paragraph) == ran  # from the oldest to the newest
    assert ran[0] == records.oldest()
    assert all(run["failed"] == 0 < run["passed"] for run in record["runs"])
    (below,) = re.findall(r"^torch<2\.(\d+)$", text("constraints.txt"), re.MULTILINE)
    assert f"All tests run with PyTorch 2.{int(below) - 1}." in paragraph


@pytest.mark.parametrize("name", ["torch", "pythons"])
def test_tests_on_record_are_those_that_run(name):
    listed = re.search(r"^tests=\((.*?)\)", text(f".ci/{name}"), re.MULTILINE | re.DOTALL)
    assert listed is not None
    record = json.loads(text(f"docs/{name}.json"))
    assert record["tests"] == listed[1].split()
    assert all((ROOT / name).exists() for name in record["tests"])


def test_an_outcome_becomes_a_record(records, tmp_path):
    outcome = tmp_path / "tests.xml"
    suite = '<testsuite name="pytest" errors="1" failures="2" skipped="3" tests="10"/>'
    outcome.write_text(f"<testsuites>{suite}</testsuites>", "utf-8")
    assert records.counts(outcome) == {"passed": 4, "failed": 3, "skipped": 3}


def test_a_later_run_replaces_those_of_its_version_and_of_other_tests(records):
    def run(version: str, passed: int) -> dict[str, object]:
        return {"torch": version, "passed": passed}

    record: dict[str, Any] = {"runs": []}
    for one in (run("2.15.0", 1), run("2.4.0", 2), run("2.15.0", 3)):
        record = records.added(record, one, ["a.py"])
    assert record == {"tests": ["a.py"], "runs": [run("2.4.0", 2), run("2.15.0", 3)]}
    record = records.added(record, run("2.4.0", 4), ["a.py", "b.py"])
    assert record == {"tests": ["a.py", "b.py"], "runs": [run("2.4.0", 4)]}


def test_of_pythons_the_last_run_of_each_minor_version_stays(records):
    record: dict[str, Any] = {"runs": []}
    for version in ("3.12.1", "3.11.7", "3.12.4"):
        record = records.added(record, {"python": version}, ["a.py"], "python")
    assert [run["python"] for run in record["runs"]] == ["3.11.7", "3.12.4"]


def test_the_metadata_name_the_pythons_on_record():
    project = tomllib.loads(text("pyproject.toml"))["project"]
    runs = json.loads(text("docs/pythons.json"))["runs"]
    assert all(run["failed"] == 0 < run["passed"] for run in runs)
    named = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line)
             for line in project["classifiers"]]  # fmt: skip
    ran = [run["python"].rpartition(".")[0] for run in runs]
    assert [one[1] for one in named if one is not None] == ran
    assert project["requires-python"] == f">={ran[0]}"


def test_authors_are_those_to_cite():
    (author,) = tomllib.loads(text("pyproject.toml"))["project"]["authors"]
    cited = re.search(r"^authors:\n  - name: (.*)$", text("CITATION.cff"), re.MULTILINE)
    assert cited is not None
    assert author["name"] == cited[1]


def test_the_oldest_version_is_written_in_full(records, tmp_path):
    project = tmp_path / "project.toml"
    project.write_text('[project]\ndependencies = ["numpy>=1", "torch>=2.4"]\n', "utf-8")
    assert records.oldest(project) == "2.4.0"
