"""A model: a theory, its data and trained networks, which can be asked, saved and loaded."""

from __future__ import annotations

import html
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fotltn.decisions import rounded, threshold_of
from fotltn.errors import DataError, FotError, MissingModuleError, renamed
from fotltn.evaluation import Time
from fotltn.grounding.facts import Facts
from fotltn.grounding.frames import Source
from fotltn.grounding.labels import Labels
from fotltn.learn.fit import Epoch, FitResult
from fotltn.learn.objective import predicted
from fotltn.learn.store import below, read_folder, write_folder
from fotltn.logic.check import CheckedTheory
from fotltn.networks.grounding import Grounding
from fotltn.networks.parts import bias
from fotltn.posterior.posterior import Posterior
from fotltn.posterior.run import SamplingProgress
from fotltn.project import sampled
from fotltn.project.build import Built, assembled, completed, ground, made_modules, meaning
from fotltn.project.config import Config, config_of
from fotltn.project.stored import (
    check_widths,
    numbers_by_name,
    placed,
    unpack_history,
    unpack_world,
    versions,
)
from fotltn.project.toml import parse_toml
from fotltn.project.world import World, device_of, read_labels, stated_tables
from fotltn.semantics.config import PMean, Semantics, named
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory

if TYPE_CHECKING:  # what is asked of a model loads when it is: training needs none of it
    import pyarrow as pa

    from fotltn.analysis.ask import Answer
    from fotltn.analysis.audit_data import Audit
    from fotltn.analysis.cells import Cells
    from fotltn.analysis.explain.explanation import Explanation
    from fotltn.analysis.metrics import Report, Scores
    from fotltn.analysis.over_time import TruthOverTime
    from fotltn.analysis.ranking import Ranked
    from fotltn.analysis.satisfaction import Satisfaction
    from fotltn.analysis.truncation import End
    from fotltn.analysis.violations import Counterexample, Violations
    from fotltn.posterior.doubts import Doubts
    from fotltn.project.apply import NewData

#: What kind of folder a model is.
KIND = "model"


@dataclass(slots=True, eq=False, repr=False)
class Model:
    """Trained networks with everything that is needed to ask them.

    Args:
        config: the project.
        world: theory, names and given data.
        grounding: the networks.
        semantics: of the axioms.
        history: the epochs of training.
        reason: why training ended.
        flips: the rate of flipped labels, if it was learned.
        warnings: what was odd in training, such as a damaged checkpoint.
        versions: of the programs that trained it, if they are known.
        trust: how far each axiom is trusted, if that was learned.
        thresholds: of predicates, from which degree on a fact is true; 0.5 for others. What is
            defined has none: it follows from the rest.
        posterior: the worlds that were sampled, if the method was that; degrees are shares of them.
        chosen: why the method is what it is, if the project left it open; not saved.
    """

    config: Config
    world: World
    grounding: Grounding
    semantics: Semantics
    history: tuple[Epoch, ...] = ()
    reason: str = ""
    flips: float | None = None
    warnings: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    trust: Mapping[str, float] | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    posterior: Posterior | None = None
    chosen: str = ""
    _tables: Tables | None = field(default=None, repr=False)

    @property
    def theory(self) -> CheckedTheory:
        """The theory."""
        return self.world.theory

    @property
    def facts(self) -> Facts:
        """The names of traces and entities."""
        return self.world.facts

    @property
    def dtype(self) -> torch.dtype:
        """The precision of degrees."""
        return getattr(torch, self.config.dtype)  # type: ignore[no-any-return]

    @property
    def best_epoch(self) -> int:
        """The number of the last epoch that was the best so far."""
        return max((e.number for e in self.history if e.best), default=0)

    @property
    def tables(self) -> Tables:
        """The degrees of all predicates, computed once, and how they are decided."""
        if self._tables is None:
            self.grounding.eval()
            with torch.no_grad():
                self._tables = self.grounding()
        how = self._tables.decisions
        if how is None or how.thresholds != self.thresholds:
            decisions = self.grounding.decisions(dict(self.thresholds))
            self._tables = replace(self._tables, decisions=decisions)
        return self._tables

    def cells(self, axiom: str, *, threshold: float | None = None, end: End | None = None) -> Cells:
        """An axiom at every binding and time; without an end, ends are as the project says."""
        from fotltn.analysis.cells import cells_of

        known, end = self.theory.axiom(axiom), end or self.config.end
        return cells_of(known, self.tables, self.semantics, threshold, end=end)

    @property
    def fixed(self) -> tuple[str, ...]:
        """The predicates that training cannot change."""
        return tuple(n for n in self.theory.signature.predicates if n not in self.grounding.open)

    def __getattr__(self, name: str) -> Any:
        """What `fixed` was called in version 0.1.0."""
        return renamed(self, name, {"given": "fixed"})

    @property
    def bias(self) -> tuple[str, ...]:
        """In which ways training on parts of the data differs from training on all of it."""
        batches = self.config.training.batches
        return () if batches is None else bias(batches, self.theory)

    @property
    def truth(self) -> Tables:
        """Tables of what the facts state; what they do not state is false."""
        return stated_tables(self.world, self.grounding, self.dtype)

    # --- asking -----------------------------------------------------------------------------------

    def decided(self, *, threshold: float | None = None) -> Tables:
        """Truth, as 1 and 0, in place of degrees, by the model's thresholds, or another one."""
        return rounded(self.tables, threshold)

    def ask(
        self,
        formula: str,
        *,
        at: Time = 0,
        semantics: Semantics | str | None = None,
        threshold: float | None = None,
        condition: str | None = None,
    ) -> Answer:
        """The value of any formula, for each binding of its free variables.

        With sampled worlds it is a probability: the share of worlds in which the formula is true.

        Args:
            formula: its text.
            at: a time point, or "all".
            semantics: in place of the model's own, or of counting worlds.
            threshold: for the crisp semantics, the degree from which on a fact is true; without,
                the model's.
            condition: a formula without free variables. In each trace, those worlds count in which
                it is true at the first point.

        Raises:
            FotError: a formula does not fit, no world obeys the condition, or there are no worlds.
        """
        from fotltn.analysis.ask import ask

        if semantics is None and self.posterior is not None:
            return sampled.ask_worlds(self.posterior, formula, at=at, condition=condition)
        if condition is not None:
            raise sampled.no_worlds("a condition chooses among sampled worlds", self.posterior)
        other = named(semantics) if isinstance(semantics, str) else semantics
        return ask(formula, self.tables, other or self.semantics, at=at, threshold=threshold)

    def satisfaction(self) -> Satisfaction:
        """The degrees of all axioms."""
        from fotltn.analysis.satisfaction import satisfaction

        return satisfaction(self.theory, self.tables, self.semantics)

    def truth_over_time(self, axiom: str) -> TruthOverTime:
        """The truth of an axiom at every binding and time."""
        from fotltn.analysis.over_time import truth_over_time

        return truth_over_time(self.cells(axiom))

    def why(
        self,
        axiom: str,
        binding: Mapping[str, str],
        *,
        time: int = 0,
        trace: str | int = 0,
        fixed: Collection[str] | None = None,
    ) -> Explanation:
        """Why an axiom has its value at a binding and time, and what would change it.

        Args:
            axiom: its name.
            binding: the names of entities by variable.
            time: the time point.
            trace: the name of the trace, or its number.
            fixed: predicates whose facts stay as they are; without, those that are given.
        """
        from fotltn.analysis.explain.explanation import why

        cells = self.cells(axiom)
        cell = cells.find(binding, time, trace)
        return why(cells, cell, fixed=self.fixed if fixed is None else fixed)

    def __repr__(self) -> str:
        learned = ", ".join(self.grounding.open) or "nothing"
        if self.posterior is not None:
            made = f"{self.posterior.count:,} sampled worlds"
        else:
            epochs = f"{len(self.history)} epochs" if self.history else "not trained"
            made = f"{sum(p.numel() for p in self.grounding.parameters()):,} parameters, {epochs}"
        return f"Model of {learned}: {made}"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}.</p>{self.satisfaction()._repr_html_()}"

    def violations(
        self, axiom: str, *, top: int = 10, threshold: float | None = None, end: End | None = None
    ) -> Violations:
        """The violations of an axiom, then where it is weak, with their share of its error."""
        return self.cells(axiom, threshold=threshold, end=end).worst(top)

    def worst(
        self, top: int = 10, *, threshold: float | None = None, end: End | None = None
    ) -> tuple[Ranked, ...]:
        """The violations of all axioms, then what is weak, by their share of the error of all.

        The error of all axioms is the weighted mean of `(1 - value)^p`, with the p of ∀ (1 where
        ∀ is no mean). An axiom's part in it is shared among its violations as its own error is.
        """
        from fotltn.analysis.ranking import ranked

        how = self.semantics.forall
        p = how.p if isinstance(how, PMean) and not self.semantics.boolean else 1.0
        other, epoch = self.config.objective.axiom_weights, len(self.history)
        weights = {
            a.name: other[a.name].at(epoch) if a.name in other else a.weight
            for a in self.theory.axioms
        }
        by_axiom = [self.violations(n, top=top, threshold=threshold, end=end) for n in weights]
        return ranked(by_axiom, weights, p)[:top]

    def counterexample(
        self, axiom: str, *, threshold: float | None = None, end: End | None = None
    ) -> Counterexample | None:
        """Where an axiom is false in two-valued logic."""
        from fotltn.analysis.violations import counterexample

        return counterexample(self.cells(axiom, threshold=threshold, end=end))

    def audit(self, *, threshold: float | None = None, end: End | None = None) -> Audit:
        """What the values of the axioms are worth."""
        from fotltn.analysis.audit import audit

        stated = self.world.stated
        unknown = [n for n in self.grounding.learned if n not in stated.index]
        return audit(
            self.theory, self.tables, self.semantics, learned=self.grounding.open,
            labels=self.truth if stated.total else None, unknown=unknown, threshold=threshold,
            end=end or self.config.end,
        )  # fmt: skip

    def metrics(
        self, facts: Iterable[Source] | None = None, *, threshold: float | None = None
    ) -> Report | None:
        """How good predictions are: of the facts held back for testing, or of those given.

        Returns:
            None if no facts are given, and none were held back.
        """
        labels = self.world.test
        if facts is not None:
            labels, _ = read_labels(self.world, self.grounding.open, facts)
        return None if labels is None or not labels.total else self.score(labels, threshold)

    def score(self, labels: Labels, threshold: float | None = None) -> Report:
        """How good predictions of labelled facts are; accuracy is that of what is decided."""
        from fotltn.analysis.metrics import report

        truths = predicted(labels, self.decided(threshold=threshold))
        limits = {n: threshold_of(self.tables, n, threshold) for n in truths}
        decided = {n: truth.cpu().numpy() for n, truth in truths.items()}
        return report(self.scores(labels), decided=decided, thresholds=limits)

    def scores(self, labels: Labels | None = None) -> Scores:
        """Truth and predicted degree of labelled facts, by predicate; else of the test facts.

        Metrics and plots are made of them.
        """
        labels = self.world.test if labels is None else labels
        if labels is None:
            return {}
        degrees = predicted(labels, self.tables)
        return {
            n: ((truth >= 0.5).cpu().numpy(), degrees[n].cpu().numpy())
            for n, truth in labels.truth.items()
            if len(truth)
        }

    def predictions(
        self, predicates: Sequence[str] | None = None, *, decide: bool = False
    ) -> pa.Table:
        """The degrees of predicates as a table of facts; without names, of what is learned.

        Args:
            predicates: by name; also functions, whose values are in a column of their own.
            decide: true and false (1 and 0) in place of degrees, by the model's thresholds.
        """
        from fotltn.analysis.predictions import predictions

        tables = self.decided() if decide else self.tables
        learned = (*self.grounding.open, *self.config.functions)
        return predictions(tables, predicates or learned)

    def doubts(self) -> Doubts:
        """All labels that worlds were sampled with, the probably wrong ones first.

        Raises:
            DataError: there are no worlds.
        """
        from fotltn.posterior.doubts import doubts
        from fotltn.project.problem import problem_of

        if self.posterior is None:
            raise sampled.no_worlds("labels are doubted by sampled worlds", None)
        problem = problem_of(assembled(self.config, self.world, self.grounding))
        return doubts(self.posterior, problem.labels, said=problem.said())

    # --- other data -------------------------------------------------------------------------------

    def apply(
        self,
        data: NewData,
        *,
        horizon: int | None = None,
        evidence: bool = False,
        on_sweep: Callable[[SamplingProgress], None] | None = None,
    ) -> Model:
        """The same networks over other data: other entities, traces and lengths.

        Features are centred, scaled and encoded as they were for training, never by the new data.
        Labels among the new facts are for testing: `model.apply(data).metrics()`. A posterior
        samples worlds of the new data, by the prior, the rates and the networks that it has
        learned.

        Args:
            data: what `fotltn.read` gives; a folder with the tables that the project names; a file
                or a data frame, if it names one; several in their order; or tables by these names.
                Columns of what is learned may be missing.
            horizon: the number of time points of every trace; without it, what the data have.
                After the last row, networks over static features answer, and those over features
                that change if the project says `beyond = "last"`.
            evidence: of a posterior: labels among the new facts are evidence, and no tests.
            on_sweep: is told of every sweep over new worlds.

        Raises:
            DataError: the data do not fit, or the model can answer for its own data only.
        """
        from fotltn.project.apply import moved

        config, world, grounding = moved(
            self.grounding, self.config, self.world, data, horizon, evidence=evidence
        )
        posterior = self.posterior
        if posterior is not None:
            posterior, world = sampled.sample_again(
                posterior.carried, config, world, grounding, on_sweep
            )
        return replace(
            self, config=config, world=world, grounding=grounding, posterior=posterior, _tables=None
        )

    # --- keeping ----------------------------------------------------------------------------------

    def save(self, path: Path | str) -> None:
        """Write the model as one folder; it replaces a model that is there, at once.

        With it goes a card for people, `README.md`, which nothing reads back.

        Of modules of your own the weights are written, and the name of the class, but no code:
        `load_model` takes the modules.

        Raises:
            DataError: there is something else in that place, or it cannot be written.
        """
        from fotltn.project.model_folder import pack_model

        write_folder(path, *pack_model(self), kind=KIND)


def model_of(built: Built, outcome: FitResult | None = None) -> Model:
    """The model that training gave, or that there is before training."""
    model = Model(built.config, built.world, built.task.grounding, built.semantics)
    model.chosen = built.chosen
    if outcome is not None:
        model.history, model.reason = outcome.history, outcome.reason
        model.flips, model.warnings = outcome.flips, outcome.warnings
        model.trust = None if outcome.trust is None else dict(outcome.trust)
        model.versions = versions()
    return model


def sampled_model(built: Built, outcome: sampled.Sampled) -> Model:
    """The model that sampling gave."""
    model = model_of(built)
    model.posterior, model.warnings = outcome.posterior, outcome.warnings
    model.reason, model.versions = outcome.reason, versions()
    return model


def load_model(
    path: Path | str,
    *,
    device: str | None = None,
    modules: Mapping[str | tuple[str, ...], Any] | None = None,
) -> Model:
    """Read a model; nothing in it is executed.

    Args:
        path: its folder.
        device: what computes. Without it, what the model was trained on, or, where there is no
            such device, the CPU.
        modules: modules and functions of your own, by what `train` had them for: a predicate,
            several, a function of the theory, or the sort that an encoder is of. A class that
            takes no arguments will do; the weights are the model's.

    Raises:
        DataError: it is no model, is damaged, was written by another version, or lacks a module.
    """
    at_hand = made_modules(modules or {})
    tensors, documents = read_folder(path, kind=KIND)
    texts: dict[str, Any] = dict(documents)
    try:
        config = config_of(parse_toml(texts["project.toml"], f"{path}/project.toml"), Path(path))
        config = placed(config, device)
        source = parse_theory(texts["theory.fot"], source=f"{path}/theory.fot", folder=None)
        world = unpack_world(tensors, texts["domain.json"], source, config)
        weights = below(tensors, "weights/")
        check_widths(config, weights)
        config = completed(config, world)
        grounding = ground(config, world, at_hand).to(dtype=getattr(torch, config.dtype))
        grounding.load_state_dict(weights)
        grounding = grounding.to(device_of(config))
        past = texts["training.json"]
        history, trust = unpack_history(past), past.get("trust")
        trust = None if trust is None else numbers_by_name(trust, "trust")
        thresholds = numbers_by_name(past.get("thresholds", {}), "thresholds")
        made_by = {str(n): str(v) for n, v in past.get("versions", {}).items()}
        flips = None if past["flips"] is None else float(past["flips"])
        posterior = None
        if config.method == "posterior":
            worlds = texts[sampled.WORLDS]
            posterior = sampled.unpack_posterior(tensors, worlds, grounding)
        return Model(
            config, world, grounding, meaning(config), history, str(past["reason"]), flips,
            versions=made_by, trust=trust, thresholds=thresholds, posterior=posterior,
        )  # fmt: skip
    except MissingModuleError:
        raise
    except FotError as error:
        if any(d.span is not None for d in error.diagnostics):
            raise  # it says where
        reason = error.diagnostics[0].message
    except (KeyError, IndexError) as error:
        reason = f"no {error}"
    except (TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        reason = " ".join(str(error).split())[:300]
    raise DataError(f"the model '{path}' does not fit together: {reason}")
