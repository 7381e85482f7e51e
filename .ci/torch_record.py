"""The record of tests with other versions of PyTorch, `docs/torch.json`.

python .ci/torch_record.py --oldest          the oldest supported version
python .ci/torch_record.py FILE TESTS…       add the outcome that pytest wrote as JUnit's XML
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
RECORD = ROOT / "docs" / "torch.json"


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


def added(record: dict[str, Any], run: dict[str, Any], tests: list[str]) -> dict[str, Any]:
    """The record with a run: others of the same tests stay, if they had another version."""
    same = record.get("tests") == tests
    others = [one for one in record["runs"] if same and one["torch"] != run["torch"]]
    runs = sorted([*others, run], key=lambda one: [int(part) for part in one["torch"].split(".")])
    return {"tests": tests, "runs": runs}


def main() -> None:
    """Print the oldest version, or add a run."""
    if sys.argv[1:] == ["--oldest"]:
        sys.stdout.write(oldest() + "\n")
        return
    outcome, *tests = sys.argv[1:]
    torch = version("torch").partition("+")[0]
    run = {
        "torch": torch,
        "python": platform.python_version(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "command": f"make test-torch TORCH={torch}",
        **counts(Path(outcome)),
    }
    record = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {"runs": []}
    RECORD.write_text(json.dumps(added(record, run, tests), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
