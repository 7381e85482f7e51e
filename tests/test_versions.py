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
def torch_record() -> ModuleType:
    spec = importlib.util.spec_from_file_location("torch_record", ROOT / ".ci/torch_record.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_names_the_versions_of_pytorch_on_record(torch_record):
    record = json.loads(text("docs/torch.json"))
    ran = [run["torch"] for run in record["runs"]]
    (paragraph,) = (part for part in text("README.md").split("\n\n") if "docs/torch.json" in part)
    assert re.findall(NUMBER, paragraph) == ran  # from the oldest to the newest
    assert ran[0] == torch_record.oldest()
    assert all(run["failed"] == 0 < run["passed"] for run in record["runs"])
    (below,) = re.findall(r"^torch<2\.(\d+)$", text("constraints.txt"), re.MULTILINE)
    assert f"All tests run with PyTorch 2.{int(below) - 1}." in paragraph


def test_tests_on_record_are_those_that_run():
    listed = re.search(r"^tests=\((.*?)\)", text(".ci/torch"), re.MULTILINE | re.DOTALL)
    assert listed is not None
    record = json.loads(text("docs/torch.json"))
    assert record["tests"] == listed[1].split()
    assert all((ROOT / name).exists() for name in record["tests"])


def test_an_outcome_becomes_a_record(torch_record, tmp_path):
    outcome = tmp_path / "tests.xml"
    suite = '<testsuite name="pytest" errors="1" failures="2" skipped="3" tests="10"/>'
    outcome.write_text(f"<testsuites>{suite}</testsuites>", "utf-8")
    assert torch_record.counts(outcome) == {"passed": 4, "failed": 3, "skipped": 3}


def test_a_later_run_replaces_those_of_its_version_and_of_other_tests(torch_record):
    def run(version: str, passed: int) -> dict[str, object]:
        return {"torch": version, "passed": passed}

    record: dict[str, Any] = {"runs": []}
    for one in (run("2.15.0", 1), run("2.4.0", 2), run("2.15.0", 3)):
        record = torch_record.added(record, one, ["a.py"])
    assert record == {"tests": ["a.py"], "runs": [run("2.4.0", 2), run("2.15.0", 3)]}
    record = torch_record.added(record, run("2.4.0", 4), ["a.py", "b.py"])
    assert record == {"tests": ["a.py", "b.py"], "runs": [run("2.4.0", 4)]}


def test_the_oldest_version_is_written_in_full(torch_record, tmp_path):
    project = tmp_path / "project.toml"
    project.write_text('[project]\ndependencies = ["numpy>=1", "torch>=2.4"]\n', "utf-8")
    assert torch_record.oldest(project) == "2.4.0"
