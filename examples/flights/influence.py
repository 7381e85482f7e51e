"""Rules with little influence on learning: what an audit says about them, and how training reacts.

    python examples/flights/make.py
    python examples/flights/influence.py

The rules of `flights.fot` about single departures are written without guards, and then as the audit
rewrites them. The program prints both tables of the page about flights: the influence of each rule,
and the violations on the test days after training without rules, with them, and with the suggested
rules, as means over the seeds. Use `--data FOLDER` if the tables are elsewhere, and `--seeds 1` for
a quick run.
"""

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

from study import HERE, INTERRUPTED, tables_of, theory_of, train

RULES = {
    "Behind": "forall p. G(Leaves(p) & Behind(p) -> Late(p))",
    "Waiting": "forall p. G(Leaves(p) & Waiting(p) -> Late(p))",
    "Jam": "forall p, a. G(Leaves(p) & At(p, a) & Jammed(a) -> Late(p))",
    "Weather": "forall p, a. G(Leaves(p) & At(p, a) & (Wet(a) | Fog(a)) -> Late(p))",
    "Morning": "forall p, a. "
    "G(Leaves(p) & At(p, a) & Early(p) & Calm(a) & !Wet(a) & !Fog(a) -> !Late(p))",
}


def theory_with(axioms: list[str]) -> str:
    """Return the declarations of the project's theory, with other axioms."""
    return theory_of("flights.fot", "none of them") + "\n".join(axioms) + "\n"


def trained(theory: str, weight: float, seed: int, folder: Path) -> Any:
    """Train a model that sees what the project sees."""
    job = {"seen": "airport", "weight": weight, "prior": 1.0, "seed": seed, "theory": theory}
    return train(job, tables_of(folder, "train"))


def outcome(model: Any, folder: Path) -> list[float]:
    """Return the violations of each rule on the test days, then PR-AUC."""
    applied = model.apply(list(tables_of(folder, "test")))
    counts = {axiom.name: axiom.on_model.violated for axiom in applied.audit().axioms}
    return [*(counts[name] for name in RULES), applied.metrics().predicates["Late"].pr_auc.value]


def say(*words: str) -> None:
    """Print a line without buffering."""
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if not (options.data / "train").is_dir():
        sys.stderr.write(f"there is no {options.data / 'train'}: run examples/flights/make.py\n")
        return 1
    plain = [f"axiom {name}: {rule}" for name, rule in RULES.items()]
    first = trained(theory_with(plain), 0.0, 0, options.data)
    suggested = []
    say("axiom     active    slope   share   guarded")
    for line, axiom in zip(plain, first.audit().axioms, strict=True):
        one, active = axiom.influence, 100 * axiom.evidence.active_share
        share = 100 * one.share
        say(f"{axiom.name:8} {active:6.2f} % {one.slope:7.4f} {share:5.1f} % {one.gain:7.1f} ×")
        suggested.append(one.suggestion if one.weakness == "guard" else line)
    say("\n".join(["", *suggested, ""]))
    say("| trained with |", *(f"{name} |" for name in RULES), "PR-AUC |")
    say("| --- |", *["---: |"] * (len(RULES) + 1))
    ways = {
        "no axioms": (plain, 0.0),
        "axioms without guards": (plain, 1.0),
        "axioms as suggested": (suggested, 1.0),
    }
    for name, (axioms, weight) in ways.items():
        rows = []
        for seed in range(options.seeds):
            again = name == "no axioms" and seed == 0
            model = first if again else trained(theory_with(axioms), weight, seed, options.data)
            rows.append(outcome(model, options.data))
        *counts, area = (statistics.mean(column) for column in zip(*rows, strict=True))
        say(f"| {name} |", *(f"{count:.1f} |" for count in counts), f"{area:.3f} |")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
