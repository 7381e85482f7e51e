"""Write the parts of the documentation that the program itself knows best.

`python docs/generate.py` rewrites them; with `--check` nothing is written, stale files are named,
and the exit status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path

import typer.main
from caviar_results import (
    caviar_choices,
    caviar_clips,
    caviar_differences,
    caviar_first,
    caviar_labels,
    caviar_noise,
    caviar_parts,
    caviar_scores,
    caviar_time,
    caviar_worst,
)
from code_map import module_graph, only_leaves
from doubt_results import doubt_scores
from feature_results import feature_scores
from flight_results import flight_choices, flight_counts, flight_few, flight_scores, flight_time
from picture import draw
from posterior_results import REGIONS as POSTERIOR
from recipe_results import REGIONS as RECIPE
from typer.testing import CliRunner

from fotltn.cli.main import app
from fotltn.semantics.config import SEMANTICS, Aggregation, PMean
from fotltn.semantics.laws import Law, laws
from fotltn.syntax import parse
from fotltn.syntax.hints import KEYWORDS
from fotltn.syntax.operators import STRICT, Temporal

DOCS = Path(__file__).resolve().parent
GRAMMAR = Path(parse.__file__).parent / "grammar.lark"

_REGION = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

_CLI_HEAD = """\
# The command line

This page is the program's own help, collected by `docs/generate.py`.

Results go to standard output, warnings and errors to standard error. With `--json` an error is a
JSON document on standard output too. The exit status is 0 if the command did what it was asked,
1 if the input has errors, 2 if the command was called wrongly, 3 if `monitor` or `watch` found a
violation, 130 if it was interrupted, and 70 if fotltn itself has a bug: one line then says what to
report, and `fotltn --traceback COMMAND …`, or `FOTLTN_TRACEBACK=1` in the environment, also shows
the traceback.
`python -m fotltn` is the same program.
"""


def cli_page() -> str:
    """Every command's help."""
    group = typer.main.get_command(app)
    commands = [[], *([name] for name in getattr(group, "commands", {}))]
    parts = [_CLI_HEAD]
    for command in commands:
        call = " ".join(["fotltn", *command])
        shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "80"}).output
        parts.append(f"## `{call}`\n\n```text\n$ {call} --help\n{shown.strip()}\n```\n")
    return "\n".join(parts)


def grammar() -> str:
    """The grammar, verbatim."""
    return f"```lark\n{GRAMMAR.read_text('utf-8').rstrip()}\n```"


def reserved() -> str:
    """The words that cannot be names."""
    words = [word for word in KEYWORDS if word.isascii()]
    return "```text\n" + _wrapped(words, 88) + "\n```"


def temporal() -> str:
    """Spellings of the temporal operators."""
    rows = []
    for op in Temporal:
        s = op.value
        example = f"`{s.ascii} a`" if s.arity == 1 else f"`a {s.ascii} b`"
        strict = f"`{s.ascii}+`" if op in STRICT else "none"
        rows.append([example, s.words, f"`{s.unicode}`", f"`{s.latex}`", strict])
    return _table(["ASCII", "name", "Unicode", "LaTeX", "strict form"], rows)


def families() -> str:
    """The named semantics and their operators."""
    rows = []
    for name, s in SEMANTICS.items():
        if s.boolean:
            rows.append([f"`{name}`", *["Boolean"] * 4, "any", "all", "", ""])
            continue
        rows.append(
            [
                f"`{name}`", s.negation, s.conjunction, s.disjunction, s.implication,
                _aggregation(s.exists, s.eventually, "max"),
                _aggregation(s.forall, s.always, "min"),
                f"{s.epsilon:g}", "yes" if s.log_space else "no",
            ]
        )  # fmt: skip
    return _table(["name", "¬", "∧", "∨", "→", "∃, F", "∀, G", "ε", "log space"], rows)


def law_table() -> str:
    """Which laws hold in which named fuzzy semantics."""
    held = {name: laws(s) for name, s in SEMANTICS.items() if not s.boolean}
    rows = []
    for law in Law:
        left, right = (_code(side) for side in (law.value.left, law.value.right))
        marks = ["✓" if law in found else "" for found in held.values()]
        rows.append([f"`{law.name}`", f"{left} = {right}", *marks])
    return _table(["law", "equation", *(f"`{name}`" for name in held)], rows)


def start_times() -> str:
    """How long each command of the page from installing to a report takes."""
    rows = json.loads((DOCS / "performance" / "start.json").read_text("utf-8"))["rows"]
    shown = [
        [
            row["command"] if row["command"] == "all" else _code(row["command"]),
            *(f"{row[key]:,.1f}" for key in ("seconds", "of processor time")),
        ]
        for row in rows
    ]
    return _table(["command", "seconds on the clock", "seconds of processor time"], shown)


_REGIONS: dict[str, Callable[[], str]] = {
    "start_times": start_times,
    "grammar": grammar,
    "reserved": reserved,
    "temporal": temporal,
    "families": families,
    "laws": law_table,
    "modules": module_graph,
    "leaves": only_leaves,
    "caviar_clips": caviar_clips,
    "caviar_scores": caviar_scores,
    "caviar_differences": caviar_differences,
    "caviar_first": caviar_first,
    "caviar_labels": caviar_labels,
    "caviar_noise": caviar_noise,
    "caviar_parts": caviar_parts,
    "caviar_choices": caviar_choices,
    "caviar_worst": caviar_worst,
    "caviar_time": caviar_time,
    "doubt_scores": doubt_scores,
    "feature_scores": feature_scores,
    "flight_counts": flight_counts,
    "flight_scores": flight_scores,
    "flight_few": flight_few,
    "flight_choices": flight_choices,
    "flight_time": flight_time,
    **POSTERIOR,
    **RECIPE,
}


def outputs() -> dict[Path, str]:
    """Every file with generated text, as it should be."""
    found = {DOCS / "cli.md": cli_page(), DOCS / "appendix_b.svg": draw()}
    for page in sorted(DOCS.glob("**/*.md")):
        text = page.read_text("utf-8")
        if "<!-- generated: " in text:
            found[page] = _REGION.sub(lambda m: f"{m[1]}{_REGIONS[m[2]]()}\n{m[3]}", text)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Write what changed, or with --check say what would."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if stale")
    options = parser.parse_args(arguments)
    stale = {
        path: text
        for path, text in outputs().items()
        if not path.exists() or path.read_text("utf-8") != text
    }
    for path, text in stale.items():
        if not options.check:
            path.write_text(text, "utf-8")
        sys.stdout.write(f"{'stale' if options.check else 'wrote'}: {path.relative_to(DOCS)}\n")
    return 1 if stale and options.check else 0


def _aggregation(first: Aggregation, second: Aggregation, extreme: str) -> str:
    names = []
    for how in dict.fromkeys((first, second)):
        if not isinstance(how, PMean):
            names.append("fold")
        elif math.isinf(how.p):
            names.append(extreme)
        else:
            kind = "mean" if extreme == "max" else "mean error"
            names.append(f"p-{kind}, p = {how.p:g}")
    return "; ".join(names)


def _code(text: str) -> str:
    escaped = text.replace("|", "\\|")
    return f"`{escaped}`"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _wrapped(words: list[str], width: int) -> str:
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) + 1 > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
