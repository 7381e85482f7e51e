"""The records of tests with other versions, `docs/torch.json` and `docs/pythons.json`.

python .ci/record.py --oldest               the oldest supported version of PyTorch
python .ci/record.py torch FILE TESTS…      add the outcome that pytest wrote as JUnit's XML
python .ci/record.py python FILE TESTS…     the same, for this version of Python
"""

from __future__ import annotations

import json
import platform
import sys
import tomllib
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
RECORDS = {"torch": ROOT / "docs" / "torch.json", "python": ROOT / "docs" / "pythons.json"}


def oldest(project: Path = ROOT / "pyproject.toml") -> str:
    """The oldest version that the package asks for, in full: `torch>=2.4` is 2.4.0."""
    needed = tomllib.loads(project.read_text("utf-8"))["project"]["dependencies"]
    (least,) = (text.removeprefix("torch>=") for text in needed if text.startswith("torch>="))
    return ".".join([*least.split("."), "0", "0"][:3])


def counts(outcome: Path) -> dict[str, int]:
    """How many tests passed, failed and were skipped."""
    (suite,) = ElementTree.parse(outcome).getroot().iter("testsuite")
    total, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
    failed = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    return {"passed": total - failed - skipped, "failed": failed, "skipped": skipped}


def release(run: dict[str, Any], of: str) -> list[int]:
    """The version of a run; of a version of Python, the first two parts."""
    parts = [int(part) for part in run[of].split(".")]
    return parts[:2] if of == "python" else parts


def added(
    record: dict[str, Any], run: dict[str, Any], tests: list[str], of: str = "torch"
) -> dict[str, Any]:
    """The record with a run: others of the same tests stay, if they had another version."""
    same = record.get("tests") == tests
    others = [one for one in record["runs"] if same and release(one, of) != release(run, of)]
    return {"tests": tests, "runs": sorted([*others, run], key=lambda one: release(one, of))}


def main() -> None:
    """Print the oldest version, or add a run."""
    if sys.argv[1:] == ["--oldest"]:
        sys.stdout.write(oldest() + "\n")
        return
    of, outcome, *tests = sys.argv[1:]
    torch, python = version("torch").partition("+")[0], platform.python_version()
    minor = ".".join(python.split(".")[:2])
    commands = {"torch": f"test-torch TORCH={torch}", "python": f"test-pythons PYTHONS={minor}"}
    run = {
        "torch": torch,
        "python": python,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "command": f"make {commands[of]}",
        **counts(Path(outcome)),
    }
    file = RECORDS[of]
    record = json.loads(file.read_text("utf-8")) if file.exists() else {"runs": []}
    file.write_text(json.dumps(added(record, run, tests, of), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
