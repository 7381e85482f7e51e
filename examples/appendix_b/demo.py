"""The paper's Appendix B, step by step: a car, a pedestrian, and one axiom over five steps.

python examples/appendix_b/demo.py
"""

from __future__ import annotations

import signal
import sys


def stop(*_: object) -> None:
    """End with one line on Ctrl-C, even while modules load."""
    sys.stderr.write("stopped\n")
    sys.exit(130)


signal.signal(signal.SIGINT, stop)

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.rule import Rule
from rich.table import Table

import fotltn as fot

HERE = Path(__file__).parent
ANTECEDENT = "Car(x) & Ped(y) & Crossing(y) & Close(x, y)"
CONSEQUENT = "WX Stop(x)"
RULE = f"{ANTECEDENT} -> {CONSEQUENT}"

console = Console(highlight=False)


def main() -> None:
    """Evaluate the axiom, from its parts to the whole."""
    theory = fot.load(HERE / "theory.fot")
    data = fot.read(theory, HERE / "facts.csv")
    names = data.names.entities["agent"]
    pairs = [(x, y) for x in range(len(names)) for y in range(len(names))]

    console.print(Rule("The axiom", align="left", style="dim"))
    console.print(f"{fot.show(theory['A1'].formula, 'unicode')}\n")

    title = "Antecedent, consequent and rule, pair by pair and step by step"
    console.print(Rule(title, align="left", style="dim"))
    columns = ["x", "y", *(f"t={t}" for t in range(data.horizon))]
    for formula in (ANTECEDENT, CONSEQUENT, RULE):
        console.print(formula, style="cyan")
        table = grid(columns)
        degrees = fot.evaluate(formula, data, at="all", p=2).reshape(-1, data.horizon)
        for number, row in enumerate(degrees.tolist()):
            alone = len(degrees) == len(names)  # only x is free
            x, y = (number, None) if alone else pairs[number]
            table.add_row(names[x], "" if y is None else names[y], *(f"{v:.3f}" for v in row))
        console.print(table, "")

    title = "Always, for each pair (the paper: 0.946 for c1 and p1, 1.000 for the others)"
    console.print(Rule(title, align="left", style="dim"))
    always = fot.evaluate(f"G({RULE})", data, p=2)
    console.print(f"G({RULE})", style="cyan")
    table = grid(["x", "y", "t=0"])
    for x, y in pairs:
        table.add_row(names[x], names[y], f"{always[x, y]:.3f}")
    console.print(table, "")

    console.print(Rule("The axiom (the paper: 0.973)", align="left", style="dim"))
    console.print(f"{fot.evaluate(theory['A1'], data, p=2):.3f}\n")

    title = "The same in two-valued logic, in which degrees of at least 0.5 are true"
    console.print(Rule(title, align="left", style="dim"))
    crisp = fot.evaluate(theory["A1"], data, semantics="crisp", threshold=0.5)
    console.print("true" if crisp else "false")


def grid(columns: list[str]) -> Table:
    """Return an empty table that aligns numbers to the right."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in ("x", "y") else "right")
    return table


if __name__ == "__main__":
    main()
