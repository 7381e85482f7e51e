"""The card of a model, for people: what it predicts, from what, how well, and its limits.

The program never reads it back. It depends only on the model's folder, so the same model has the
same card everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from fotltn.decisions import decision_rule
from fotltn.errors import visible
from fotltn.format import count, degree, number
from fotltn.grounding.facts import Facts
from fotltn.grounding.labels import Labels
from fotltn.learn.fit import Epoch
from fotltn.logic.check import CheckedTheory
from fotltn.networks.grounding import Grounding
from fotltn.posterior.posterior import Posterior
from fotltn.project.config import IN_PYTHON, Config, InputConfig, PredicateConfig
from fotltn.project.method import obstacles
from fotltn.project.world import World
from fotltn.syntax.show import show
from fotltn.syntax.theory import FunctionDecl, PredicateDecl

if TYPE_CHECKING:
    from fotltn.analysis.metrics import Report

#: The name of the file, which code hosts show with a folder.
CARD = "README.md"

_LISTED = 50  # the most axioms, features and categories that a card names


class Described(Protocol):
    """The parts of a model that its folder holds and its card describes."""

    config: Config
    world: World
    grounding: Grounding
    history: tuple[Epoch, ...]
    reason: str
    flips: float | None
    versions: Mapping[str, str]
    posterior: Posterior | None
    trust: Mapping[str, float] | None
    thresholds: Mapping[str, float]

    @property
    def theory(self) -> CheckedTheory:
        """The theory."""

    @property
    def facts(self) -> Facts:
        """The names of traces and entities."""

    @property
    def best_epoch(self) -> int:
        """The number of the last epoch that was the best so far."""

    @property
    def bias(self) -> tuple[str, ...]:
        """How training on parts of the data differs from training on all of it."""

    def metrics(self) -> Report | None:
        """Measure how good predictions of test facts are."""


def card(model: Described, metrics: Report | None) -> str:
    """Return the card of a model as Markdown.

    Args:
        model: the model.
        metrics: its metrics on test facts.
    """
    names = [*model.grounding.open, *model.config.functions]
    learned = ", ".join(map(_code, names)) or "nothing"
    sections = {
        "": [f"This folder is a model of FOT-LTN that predicts {learned}."],
        "What it predicts": _predictions(model),
        "From what": _inputs(model),
        "Data": _data(model),
        "Training": _training(model),
        "Axioms": _axioms(model),
        "Metrics": _metrics(metrics),
        "New data": _new_data(model),
        "Limits": _limits(model, metrics),
        "Use": _use(model),
    }
    parts = [f"# Model of {', '.join(map(_plain, names)) or 'nothing'}"]
    for title, lines in sections.items():
        text = "\n".join(lines)
        if text:
            parts.append(f"## {title}\n\n{text}" if title else text)
    return "\n\n".join(parts) + "\n"


# --- words ------------------------------------------------------------------------------------


def _plain(text: str) -> str:
    """Return text on one line, without characters that Markdown or a terminal interprets."""
    return visible(" ".join(text.split())).replace("`", "'")


def _code(text: str) -> str:
    return f"`{_plain(text)}`"


def _some(names: Iterable[str]) -> str:
    """Return names as code; a long list is cut."""
    codes = [_code(name) for name in names]
    more = len(codes) - _LISTED
    return ", ".join([*codes[:_LISTED], *([f"and {count(more)} more"] if more > 0 else [])])


def _many(amount: int, what: str, plural: str = "") -> str:
    return f"{count(amount)} {what if amount == 1 else plural or what + 's'}"


def _head(decl: PredicateDecl | FunctionDecl) -> str:
    sorts = f"({', '.join(decl.sorts)})" if decl.sorts else ""
    return f"{'static ' * decl.static}{decl.name}{sorts}"


# --- sections ---------------------------------------------------------------------------------


def _predictions(model: Described) -> Iterator[str]:
    declared = model.theory.signature.predicates
    each = "or each binding of its arguments, and each time point unless it is static, a"
    if model.grounding.open:
        yield f"F{each} degree from 0 to 1:\n"
    for name in model.grounding.open:
        yield f"- {_code(_head(declared[name]))}, by {_computed(model, name)}"
    between = "\n" if model.grounding.open else ""
    if model.config.functions:
        yield f"{between}F{each} number:\n"
    for name, how in model.config.functions.items():
        head = _head(model.theory.signature.functions[name])
        yield f"- {_code(head)}, by {_by_network(how)}"


def _computed(model: Described, name: str) -> str:
    how = model.config.predicates.get(name)
    for group in model.config.groups:
        if name in group.predicates:
            return f"a network that chooses one of {_some(group.predicates)}" + (
                " or none" if group.other else ""
            )
    if how is None:
        return "a network"
    share = "the share of sampled worlds in which it is true"
    if how.kind == "formula":
        variables = f"({', '.join(how.variables)})" if how.variables else ""
        definition = f"its definition {_code(f'{name}{variables} := {how.formula}')}"
        return definition if model.posterior is None else f"{share}, where {definition} holds"
    if model.posterior is not None:
        seen = how.kind in (*IN_PYTHON, "network")
        return f"{share}, with {_by_network(how)} beside" if seen else share
    if how.kind == "logits":
        return "a logit for each fact"
    return _by_network(how)


def _by_network(how: PredicateConfig) -> str:
    if how.kind in IN_PYTHON:
        return f"the {'function' if how.kind == 'function' else 'module'} {_code(how.constructor)}"
    return f"a network with hidden layers of {', '.join(map(str, how.hidden)) or 'no'} units"


def _inputs(model: Described) -> Iterator[str]:
    seeing = model.grounding.sensors or model.grounding
    for sort, seen in model.config.inputs.items():
        if sort in seeing.inputs_by_sort:
            features = model.world.fixed.inputs.get(sort)
            names = () if features is None or not seen.features else features.names
            yield f"- Of each {_code(sort)}, networks see {'; '.join(_seen(seen, names))}."
    made = {*model.config.predicates, *(n for g in model.config.groups for n in g.predicates)}
    facts = {n for n, how in model.config.predicates.items() if how.kind == "facts"}
    taken = [
        _head(decl)
        for name, decl in model.theory.signature.predicates.items()
        if name not in made - facts
    ]
    if taken:
        yield f"- The data also give {_some(taken)}."


def _seen(seen: InputConfig, features: Iterable[str]) -> Iterator[str]:
    names = list(features)
    if names:
        pieces = f", numbers in {seen.bins} pieces" if seen.bins else ""
        yield f"{_many(len(names), 'feature')} ({_some(names)}){pieces}"
    if seen.changes:
        steps = ", ".join(map(str, seen.changes))
        yield f"by how much features have changed over {steps} step{'s' * (seen.changes != (1,))}"
    if seen.neighbours:
        yield f"the neighbours by {_some(seen.neighbours)}"
    if seen.embedding:
        when = "at all times" if seen.time == "static" else "at each time"
        yield f"a learned vector of {_many(seen.embedding, 'number')}, {when}"
    if seen.encoder is not None:
        encoder = seen.encoder
        kind = encoder.constructor if encoder.kind == "module" else encoder.kind
        yield f"all of it through an encoder over time ({_code(kind)})"


def _data(model: Described) -> Iterator[str]:
    facts = model.facts
    lengths = sorted({facts.lengths[0], *facts.lengths}) if facts.lengths else [0]
    span = f"{count(lengths[0])} to {count(lengths[-1])}" if len(lengths) > 1 else count(lengths[0])
    points = "time point" if lengths == [1] else "time points"
    yield f"- {_many(len(facts.traces), 'trace')} of {span} {points}"
    sizes = {sort: len(names) for sort, names in facts.entities.items()}
    sizes |= {sort: sum(map(len, names)) for sort, names in facts.local.items()}
    for sort in model.theory.signature.sorts:
        if sort in sizes:
            where = ", numbered within each trace" if sort in facts.local else ""
            yield f"- {_many(sizes[sort], 'entity', 'entities')} of sort {_code(sort)}{where}"
    yield from _labelled("to learn from", model.world.labels)
    if model.world.watched is not None:
        yield from _labelled("to watch while training", model.world.watched)
    if model.world.test is not None:
        yield from _labelled("to test on", model.world.test)


def _labelled(purpose: str, labels: Labels) -> Iterator[str]:
    by_predicate = [
        f"{_code(name)} {count(len(truth))} ({count(int((truth >= 0.5).sum()))} true)"
        for name, truth in sorted(labels.truth.items())
        if len(truth)
    ]
    rest = f": {', '.join(by_predicate)}" if by_predicate else ""
    yield f"- {_many(labels.total, 'labelled fact')} {purpose}{rest}"


def _training(model: Described) -> Iterator[str]:
    if model.posterior is not None:
        yield from _sampling(model, model.posterior)
        return
    if not model.history:
        return
    settings = model.config.training
    weights = sum(p.numel() for p in model.grounding.parameters())
    yield (
        f"- {_many(weights, 'parameter')}, optimiser {_code(settings.optimiser)}, "
        f"rate {settings.rate:g}, seed {settings.seed}"
    )
    yield (
        f"- {_many(len(model.history), 'epoch')}, of which "
        f"{count(model.best_epoch)} was the best; it ended because "
        f"{_ended(model.reason)}"
    )
    if model.flips is not None:
        yield f"- {number(model.flips)} of the labels are flipped, as training estimated"
    yield from _programs(model)


def _programs(model: Described) -> Iterator[str]:
    if model.versions:
        programs = [f"{_plain(n)} {_plain(v)}" for n, v in sorted(model.versions.items())]
        yield f"- by {', '.join(programs)}"


def _sampling(model: Described, posterior: Posterior) -> Iterator[str]:
    how, mixing = model.config.posterior, posterior.mixing
    yield (
        f"- {_many(posterior.count, 'world')} of {_many(posterior.chains, 'chain')}: "
        f"{_many(how.burn_in, 'sweep')} of burn-in, then "
        f"{count(posterior.sweeps)} that count, seed {model.config.training.seed}"
    )
    if mixing.r_hat:
        fewest = min(mixing.effective.values())
        yield (
            f"- R-hat {number(mixing.worst)} (1 where chains agree), and at least "
            f"{count(round(fewest))} independent draws of a fact, in the median of a predicate"
        )
    yield from (f"- {_plain(warning)}" for warning in mixing.warnings(posterior.chains))
    rates = [
        f"{_code(name)} {number(rate.missed)} and {number(rate.invented)}"
        for name, rate in posterior.rates.items()
        if len(model.world.labels.truth.get(name, ()))
    ]
    if rates:
        yield f"- rates of missed and of invented labels: {', '.join(rates)}"
    if posterior.carried is not None and posterior.carried.exponents:
        trusted = posterior.carried.exponents.items()
        shown = ", ".join(f"{_code(name)} {number(value)}" for name, value in trusted)
        yield f"- trust in networks, as exponents: {shown}"
    if posterior.weights:
        shown = ", ".join(f"{_code(name)} {number(w)}" for name, w in posterior.weights.items())
        yield f"- weights of soft axioms, as learned: {shown}"
    yield from _programs(model)


def _ended(reason: str) -> str:
    return f"there was {reason}" if reason.startswith("no ") else _plain(reason)


def _axioms(model: Described) -> Iterator[str]:
    axioms = model.theory.axioms
    if not axioms:
        yield "There are none: the model has learned from facts alone."
        return
    best = model.best_epoch
    values: Mapping[str, float] = next((e.values for e in model.history if e.number == best), {})
    broken = {} if model.posterior is None else model.posterior.violations
    if model.posterior is not None:
        yield (
            "Hard ones hold in every world; soft ones with the cells that a world violates, on "
            "average and in 95 of 100 worlds:\n"
        )
    elif values:
        semantics = _code(model.config.semantics)
        yield f"With their values in the best epoch, in the semantics {semantics}:\n"
    else:
        yield "Training has not used them:\n"
    for axiom in axioms[:_LISTED]:
        value = f" {degree(values[axiom.name])}" if axiom.name in values else ""
        if axiom.name in broken:
            cells = broken[axiom.name]
            value = f" {number(cells.mean)} ({count(cells.low)} to {count(cells.high)})"
        hard = ", hard" if axiom.hard else ""
        yield f"- {_code(axiom.name)}{hard}{value}: {_code(show(axiom.source))}"
    if len(axioms) > _LISTED:
        yield f"- and {count(len(axioms) - _LISTED)} more"
    if values:
        yield (
            "\nA high value does not prove that predictions are good; `fotltn audit` "
            "says what the value rests on."
        )


def _metrics(metrics: Report | None) -> Iterator[str]:
    if metrics is None:
        yield "No facts were held back for testing, so the quality of predictions is unknown."
        return
    rule = decision_rule({name: row.threshold for name, row in metrics.predicates.items()})
    yield (
        f"On the facts to test on; for accuracy, {rule}. `chance` is what a constant scores in "
        "PR-AUC.\n"
    )
    yield "| predicate | test facts | true | PR-AUC | chance | ROC-AUC | accuracy | Brier | ECE |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, row in metrics.predicates.items():
        scores = (row.pr_auc, row.chance, row.roc_auc, row.accuracy, row.brier, row.ece)
        cells = [_code(name), count(row.facts), count(row.positive)]
        yield f"| {' | '.join([*cells, *(number(s.value) for s in scores)])} |"


def _new_data(model: Described) -> Iterator[str]:
    if reasons := obstacles(model.config, model.world):
        yield "The model answers for its own data only:\n"
        yield from (f"- {_plain(reason)}" for reason in reasons)
        return
    yield (
        "The model answers for other entities, traces and lengths, in tables with the same columns."
    )
    if model.posterior is not None:
        yield (
            "It samples worlds of the new data, with the prior, the rates and the "
            "networks that it learned."
        )
    tables = [*model.config.data.facts, *(wide.file for wide in model.config.data.wide)]
    if all("." in name for name in tables):  # others were in memory
        yield f"It reads {_some(tables)}."
    for sort, seen in model.config.inputs.items():
        if seen.embedding and sort in model.grounding.inputs_by_sort:
            rest = "have the mean of all vectors" if seen.unknown == "mean" else "are refused"
            yield f"Entities of sort {_code(sort)} that it does not know by name {rest}."


def _limits(model: Described, metrics: Report | None) -> Iterator[str]:
    data, labels = model.config.data, model.world.labels
    yield (
        "- It has seen only the data above. Where new data differ from these, "
        "its quality is unknown."
    )
    if model.posterior is None:
        yield (
            "- Degrees are the result of training; nobody has checked that they match frequencies. "
            "`fotltn report` shows how far they are."
        )
    else:
        yield (
            "- Degrees are probabilities only as far as hard axioms hold, soft "
            "axioms have the right weights, and labels are wrong at these rates. "
            "`fotltn report` compares them with frequencies."
        )
    if data.flip:
        yield f"- A share of {data.flip:g} of the labels to learn from was flipped on purpose."
    silent = [n for n in model.grounding.learned if not len(labels.truth.get(n, ()))]
    if silent and labels.total:
        yield f"- There are no labels of {_some(silent)} to learn from: only axioms tell about it."
    if not labels.total:
        yield (
            "- There are no labels to learn from here: the model has learned from "
            "axioms alone, or was applied to these data after training."
        )
    if metrics is not None and data.train < 1 and data.by == "facts":
        yield (
            "- Facts to test on were drawn from the same traces and entities as those to learn "
            "from; for others, it may be worse."
        )
    if metrics is not None and (few := [n for n, r in metrics.predicates.items() if r.facts < 30]):
        yield f"- Metrics of {_some(few)} rest on fewer than 30 facts."
    yield from (f"- {_plain(sentence)}" for sentence in model.bias)


def _use(model: Described) -> Iterator[str]:
    travels = not obstacles(model.config, model.world)
    config = model.config
    kinds = [h.kind for h in (*config.predicates.values(), *config.functions.values())]
    encoders = [s.encoder.kind for s in config.inputs.values() if s.encoder is not None]
    if any(kind in IN_PYTHON for kind in (*kinds, *encoders)):
        yield "It needs modules of its author; the folder has their weights, but no code:\n"
        yield '```python\nfotltn.load_model("MODEL", modules={…})\n```'
        return
    yield "Write this folder for `MODEL`:\n"
    yield "```sh"
    yield f"fotltn predict MODEL{' --data NEW' * travels} -o predictions.csv"
    yield f"fotltn score MODEL{' --data NEW' * travels}"
    if model.posterior is not None:
        yield "fotltn worlds MODEL --most-probable --out FOLDER"
    yield "fotltn report MODEL"
    yield "```"
