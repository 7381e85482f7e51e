"""Run the recipe and its ablations, and write what docs/recipe/build.py reads.

    python docs/recipe/run.py FOLDER [--device cuda] [--repetitions 10]

Two numbers of the recipe are chosen first, then axioms that are declared in addition, both on
training facts that are held back.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from fotltn.experiments.protocol import DATA, FRACTIONS, READING, Run
from fotltn.experiments.recipe import Recipe, run_recipe
from fotltn.semantics.config import STABLE_PRODUCT, Fold

SEARCHED = (0.1, 0.3, 0.8)
#: One witness suffices for F and exists in the axioms, too.
WITNESS = replace(STABLE_PRODUCT, name="witness", exists=Fold(), eventually=Fold())
#: What one may know of crossings beyond the paper's axioms.
LASTS = ("forall x. G(Crossing(x) -> WX Crossing(x))",)
STAYS = (*LASTS, "forall x. G(OnSidewalk(x) -> WX OnSidewalk(x))")
ENDS = ("forall x. G(Crossing(x) -> F[<=FIFTH] OnSidewalk(x))",)
CROSSES = ("forall x. Ped(x) -> F Crossing(x)",)
EXTRA = {
    "lasts": LASTS,
    "stays": STAYS,
    "ends": ENDS,
    "crosses": CROSSES,
    "all": STAYS + ENDS + CROSSES,
}


def held(recipe: Recipe, device: str) -> list[float]:
    """PR-AUC on held-back training facts at three fractions, three repetitions each."""
    runs = [Run("CarPed35K", "Recipe", f, r) for f in SEARCHED for r in range(3)]
    found = run_recipe(runs, recipe, setting=replace(READING, holdout=0.2), device=device)
    return [sum(r["pr_auc"] for r in found if r["fraction"] == f) / 3 for f in SEARCHED]


def search(device: str) -> tuple[Recipe, Recipe, dict[str, list[dict[str, object]]]]:
    """The reach and the prior that are best on held-back training facts; then additional axioms."""
    grid = {
        (reach, prior): replace(Recipe(), reach=reach, prior=prior)
        for reach in (2.0, 3.0, 4.0, 5.0, 6.0)
        for prior in (0.003, 0.01, 0.03)
    }
    numbers = {key: held(recipe, device) for key, recipe in grid.items()}
    chosen = grid[max(numbers, key=lambda key: sum(numbers[key]))]
    more = {
        (name, weight): replace(chosen, extra=extra, extra_weight=weight)
        for name, extra in EXTRA.items()
        for weight in (0.03, 0.1, 0.3, 1.0)
    }
    known = {key: held(recipe, device) for key, recipe in more.items()}
    best = more[max(known, key=lambda key: sum(known[key]))]
    rows = {
        "numbers": [
            {"reach": r, "prior": p, "held": v, "mean": sum(v) / 3} for (r, p), v in numbers.items()
        ],
        "axioms": [
            {"axioms": n, "weight": w, "held": v, "mean": sum(v) / 3} for (n, w), v in known.items()
        ],
    }
    return chosen, best, rows


def main() -> None:
    """Choose, run, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repetitions", type=int, default=10)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    recipe, more, rows = search(args.device)
    (args.folder / "search.json").write_text(json.dumps(rows, indent=1), "utf-8")
    variants = {
        "no definitions": replace(recipe, defined=False),
        "exists as a p-mean": replace(recipe, exists=STABLE_PRODUCT),
        "labels taken as right": replace(recipe, flips=0.0),
        "not smooth in time": replace(recipe, reach=0.0),
        "no axioms beside": replace(recipe, weight=0.0),
        "no prior": replace(recipe, prior=0.0),
        "trust in axioms learned": replace(recipe, trust=0.1),
        "axioms ten times as heavy": replace(recipe, weight=10 * recipe.weight),
        "axioms a hundred times as heavy": replace(recipe, weight=100 * recipe.weight),
        "axioms with witnesses": replace(recipe, obeyed=WITNESS),
        "axioms with witnesses, ten times as heavy": replace(
            recipe, obeyed=WITNESS, weight=10 * recipe.weight
        ),
    }
    mixed = [replace(recipe, reach=reach) for reach in (2.0, 4.0, 6.0)]
    sampled = replace(READING, types="once", flip_types=True)
    parts = [(data, "Recipe", [recipe], READING) for data in DATA]
    parts += [(data, "Recipe, additional axioms", [more], READING) for data in DATA]
    parts += [("CarPed35K", f"Recipe: {n}", [r], READING) for n, r in variants.items()]
    parts.append(("CarPed35K", "Recipe: mean of three reaches", mixed, READING))
    parts.append(("CarPed35K", "Recipe: types sampled and flipped", [recipe], sampled))
    with (args.folder / "runs.jsonl").open("w", encoding="utf-8") as file:
        for data, method, chosen, setting in parts:
            runs = [Run(data, "Recipe", f, r) for f in FRACTIONS for r in range(args.repetitions)]
            for record in run_recipe(runs, *chosen, setting=setting, device=args.device):
                file.write(json.dumps({**record, "method": method}) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
