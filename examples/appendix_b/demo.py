"""The paper's Appendix B, step by step, by the commands that a user would type."""

from __future__ import annotations

import fotltn.cli.quiet  # noqa: F401 from here on, Ctrl-C ends it with a line

# isort: split
import shlex
import sys
from pathlib import Path

from rich.console import Console
from rich.rule import Rule
from typer.testing import CliRunner

from fotltn.cli.main import app
from fotltn.cli.output import INTERRUPTED

HERE = Path(__file__).parent
ANTECEDENT = "Car(x) & Ped(y) & Crossing(y) & Close(x, y)"
STEPS = [
    ("The axiom", ["show", "theory.fot"]),
    (
        "Antecedent, consequent and implication, pair by pair and step by step",
        ["eval", "theory.fot", "--facts", "facts.csv", "--p", "2", "--at", "all",
         "--formula", ANTECEDENT, "--formula", "WX Stop(x)",
         "--formula", f"{ANTECEDENT} -> WX Stop(x)"],
    ),
    (
        "Always, for each pair (the paper: 0.946 for c1 and p1, 1.000 for the others)",
        ["eval", "theory.fot", "--facts", "facts.csv", "--p", "2",
         "--formula", f"G({ANTECEDENT} -> WX Stop(x))"],
    ),
    (
        "The axiom (the paper: 0.973)",
        ["eval", "theory.fot", "--facts", "facts.csv", "--p", "2"],
    ),
    (
        "The same in two-valued logic, degrees from 0.5 on being true",
        ["eval", "theory.fot", "--facts", "facts.csv", "--semantics", "crisp",
         "--threshold", "0.5"],
    ),
]  # fmt: skip


def main() -> int:
    """Run every step; stop at the first that fails."""
    console = Console(highlight=False)
    for title, args in STEPS:
        console.print(Rule(title, align="left", style="dim"))
        console.print(f"$ fotltn {shlex.join(args)}", style="cyan", soft_wrap=True)
        paths = [str(HERE / a) if a in ("theory.fot", "facts.csv") else a for a in args]
        result = CliRunner().invoke(app, paths)
        console.print(result.output, markup=False, soft_wrap=True)
        if result.exit_code == INTERRUPTED:
            raise KeyboardInterrupt
        if result.exit_code or result.exception:
            console.print(str(result.exception), style="red")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
