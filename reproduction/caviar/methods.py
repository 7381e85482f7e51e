"""The methods of the study: from tables with some labels to probabilities for each pair."""

from __future__ import annotations

import csv
import tomllib
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fotltn
from reproduction.caviar.scores import CLASSES, Cell, Predictions

HERE = Path(__file__).resolve().parent
#: Fights are also learned, because they look like walking together.
LEARNED = (*CLASSES, "Fighting")
#: The rate of wrong labels that methods assume.
FLIPPED = 0.2

Columns = dict[str, list[Any]]
Choice = Mapping[str, Any]

_THIRD = (
    "(exists q, r. Triple(q, r, p) & Close(q) & Close(r) & Walk(q) & Walk(r)"
    " & Aligned(q) & Aligned(r))"
)
_ALONG = "(Near(p) & Walk(p) & Aligned(p))"
_LATER = _ALONG.replace("(p)", "(q)")
#: False, not undefined, where the pair is no longer there 11 steps later.
_LASTS = f"({_ALONG} S (exists q where q = p. X[11] {_LATER} & G[<=11] {_LATER}))"
#: The rules of the theory as crisp inertia: a state that begins holds until something ends it.
CRISP = {
    "Moving": f"!(!(Near(p) | {_THIRD}) | Drifts(p) | Runs(p) | !Steps(p))"
    f" S ((Close(p) | {_THIRD}) & Walk(p) & Aligned(p) & !Drifts(p) & !Thing(p) | {_LASTS})",
    "Meeting": "!(!Near(p) | Runs(p) | Walk(p)) S (Close(p) & Still(p) & !Thing(p))",
}
#: Two rules from the literature, with a distance in pixels.
TWO = {
    "Moving": "!(!Near(p) | Runs(p) | !Steps(p)) S (Close(p) & Walk(p) & Aligned(p))",
    "Meeting": "!(!Near(p) | Runs(p) | Walk(p)) S (Close(p) & !Walk(p) & !Runs(p))",
}


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """All pairs at all steps, with the labels of some clips, and the triples of pairs."""

    pairs: Columns
    triples: Columns

    @property
    def cells(self) -> list[Cell]:
        """The pair and step of each row."""
        pairs = self.pairs
        return list(zip(pairs["video"], pairs["pair"], pairs["step"], strict=True))

    def known(self) -> list[int]:
        """Return the rows that have labels."""
        return [n for n, cell in enumerate(self.pairs[LEARNED[0]]) if cell is not None]


def read(folder: Path) -> Tables:
    """Read the tables that `reproduction.caviar.tables` writes."""
    texts = ("video", "pair", "predicate", "trace", "arg1", "arg2", "arg3")
    numbers = ("step", *LEARNED)
    columns = []
    for name in ("pairs.csv", "triples.csv"):
        with (folder / name).open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        columns.append({
            key: [row[key] if key in texts else int(row[key]) if key in numbers else float(row[key])
                  for row in rows]
            for key in (rows[0] if rows else ())
        })  # fmt: skip
    return Tables(*columns)


def with_labels(tables: Tables, videos: Collection[str], flip: float, seed: int) -> Tables:
    """Keep the labels of some clips only, and flip some of them."""
    draw = np.random.default_rng(seed)
    pairs = dict(tables.pairs)
    for name in LEARNED:
        turned = draw.random(len(pairs[name])) < flip
        pairs[name] = [
            (1 - cell if turn else cell) if video in videos else None
            for video, cell, turn in zip(pairs["video"], pairs[name], turned, strict=True)
        ]
    return Tables(pairs, tables.triples)


# --- with the package ---------------------------------------------------------------------------


@cache
def project() -> dict[str, Any]:
    """Return the settings of the project."""
    return tomllib.loads((HERE / "project.toml").read_text("utf-8"))


def wide(tables: Tables, choice: Choice, *, labels: bool = True, features: bool = True) -> Any:
    """Return the table of pairs as the project reads it, with another threshold."""
    told = dict(project()["data"]["wide"][0])
    measures = {n: dict(m) for n, m in told.pop("measures").items()}
    for name, times in (("Close", 1), ("Near", 2)):
        if "close" in choice:
            measures[name]["at_most"] = times * choice["close"]
        if "pixels" in choice:
            measures[name] = {"column": "distance", "at_most": times * choice["pixels"]}
    if "drift" in choice:
        measures["Drifts"]["at_least"] = choice["drift"]
    del told["file"]
    told["features"] = [n for n in told["features"] if n not in choice.get("unseen", ())]
    if not features:
        del told["features"]
    told["predicates"] = {name: name for name in told["predicates"]} if labels else {}
    return fotltn.Wide(
        tables.pairs, **told, measures={n: fotltn.Measure(**m) for n, m in measures.items()}
    )


def train(tables: Tables, seed: int, **settings: Any) -> Any:
    """Train the project with other settings."""
    told = project()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fotltn.train(
            HERE / told["theory"]["file"], facts=tables.triples, seed=seed,
            preset=told["preset"], semantics=told["theory"]["semantics"], p=told["theory"]["p"],
            data={"local": told["data"]["local"]}, **settings,
        )  # fmt: skip


def said_by(model: Any) -> Predictions:
    """Return what a model predicts for each pair at each step."""
    rows = model.predictions().to_pydict()
    result: Predictions = {name: {} for name in CLASSES}
    for name, pair, step, video, value in zip(
        rows["predicate"], rows["arg1"], rows["time"], rows["trace"], rows["truth"], strict=True
    ):
        if name in result:
            result[name][video, pair, step] = value
    return result


def by_rules(tables: Tables, choice: Choice, _seed: int, _noisy: bool) -> Predictions:
    """Predict by crisp rules with inertia; labels say how reliable a yes or no is."""
    theory = fotltn.load(HERE / "caviar.fot")
    data = fotltn.read(
        theory, tables.triples, wide=wide(tables, choice, labels=False, features=False),
        local=["pair"],
    )  # fmt: skip
    traces = {name: n for n, name in enumerate(data.names.traces)}
    pairs = data.names.local["pair"]
    places = {(v, p): n for v, t in traces.items() for n, p in enumerate(pairs[t])}
    result: Predictions = {}
    for name, rule in (TWO if "pixels" in choice else CRISP).items():
        held = fotltn.evaluate(fotltn.parse_formula(rule), data, semantics="crisp", at="all")
        yes = [bool(held[traces[v], places[v, p], s] > 0.5) for v, p, s in tables.cells]
        rates = {}
        for said in (True, False):
            known = [tables.pairs[name][n] for n in tables.known() if yes[n] is said]
            share = (sum(known) + (1.0 if said else 0.1)) / (len(known) + 2.0)
            rates[said] = max(share, 0.5) if said else min(share, 0.49)
        result[name] = {cell: rates[y] for cell, y in zip(tables.cells, yes, strict=True)}
    return result


def by_trees(tables: Tables, choice: Choice, seed: int, _noisy: bool) -> Predictions:
    """Predict by boosted trees over features and their means before and after each step."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]

    rows = around(tables, project()["data"]["wide"][0]["features"])
    known, pairs = tables.known(), tables.pairs
    does = [next((i for i, n in enumerate(LEARNED, 1) if pairs[n][row]), 0) for row in known]
    classifier = HistGradientBoostingClassifier(
        early_stopping=False, random_state=seed, learning_rate=0.05, **choice
    )
    classifier.fit(rows[known], does)
    shares = classifier.predict_proba(rows)
    columns = {int(n): shares[:, i] for i, n in enumerate(classifier.classes_)}
    return {
        name: dict(zip(tables.cells, columns.get(n, np.zeros(len(rows))).tolist(), strict=True))
        for n, name in enumerate(CLASSES, 1)
    }


@cache
def _around(tables: Tables, names: tuple[str, ...]) -> Any:
    values = np.array([tables.pairs[name] for name in names]).T
    numbers: dict[tuple[str, str], list[int]] = {}
    for n, (video, pair, _) in enumerate(tables.cells):
        numbers.setdefault((video, pair), []).append(n)
    means = [values]
    for reach in (1, 3, 6):
        mean = np.empty_like(values)
        for track in numbers.values():
            for place, n in enumerate(track):
                mean[n] = values[track[max(0, place - reach) : place + reach + 1]].mean(0)
        means.append(mean)
    return np.concatenate(means, 1)


def around(tables: Tables, names: list[str]) -> Any:
    """Return the features of each row, and their means over 1, 3 and 6 steps before and after."""
    return _around(tables, tuple(names))


def by_network(tables: Tables, choice: Choice, seed: int, noisy: bool) -> Predictions:
    """Predict by a network over features of a pair over time, with or without axioms."""
    told = project()
    axioms = {"weight": choice["weight"]} if choice.get("weight") else {"axioms": "none"}
    facts = {"facts": "noise-aware", "flips": FLIPPED} if noisy else {}
    model = train(
        tables, seed, wide=wide(tables, choice), inputs=told["inputs"],
        exclusive=[{"predicates": [*LEARNED], "other": True, "hidden": [16]}],
        objective=told["objective"] | {"prior": choice["prior"]} | axioms | facts,
        training=told["training"] | {"epochs": choice["epochs"]},
    )  # fmt: skip
    return said_by(model)


def by_posterior(tables: Tables, choice: Choice, seed: int, noisy: bool) -> Predictions:
    """Predict by worlds that obey the axioms, with or without a network over features."""
    told, network = project(), "prior" in choice
    if not choice.get("third", True):
        tables = Tables(tables.pairs, {name: [] for name in tables.triples})
    rates = {"missed": FLIPPED, "invented": FLIPPED} if noisy else {}
    soft = [a.name for a in fotltn.load(HERE / "caviar.fot").axioms if not a.hard]
    weights = {"axiom_weights": dict.fromkeys(soft, choice["weight"])}
    for name in choice.get("without", ()):
        weights["axiom_weights"][name] = 0.0
    settings: dict[str, Any] = {"predicates": dict.fromkeys(LEARNED, "logits")}
    objective: dict[str, Any] = {}
    if network:
        settings = {
            "inputs": told["inputs"], "predicates": told["predicates"],
            "training": told["training"] | {"epochs": choice["epochs"]},
        }  # fmt: skip
        objective = told["objective"] | {"prior": choice["prior"]}
    sampling = told["posterior"] | choice.get("draws", {})
    if "exponent" in choice:
        sampling |= {"exponent": choice["exponent"]}
    model = train(
        tables, seed, wide=wide(tables, choice, features=network), method="posterior",
        objective=objective | weights | rates, posterior=sampling, **settings,
    )  # fmt: skip
    return said_by(model)
