"""Trained models: ask them, apply them to other data, save and load them."""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fotltn.analysis.truncation import End
from fotltn.arguments import AnyPath, public, with_methods
from fotltn.data import AnyFacts, apart
from fotltn.decisions import rounded
from fotltn.errors import DataError, FotError, MissingModuleError, renamed, warning
from fotltn.evaluation import Time
from fotltn.grounding.facts import Facts
from fotltn.grounding.labels import Labels
from fotltn.learn.fit import Epoch, FitResult
from fotltn.learn.store import below, read_folder, write_folder
from fotltn.logic.check import CheckedTheory
from fotltn.networks.grounding import Grounding
from fotltn.networks.parts import bias
from fotltn.networks.rows import everywhere
from fotltn.posterior.posterior import Posterior
from fotltn.posterior.run import SamplingProgress
from fotltn.project import sampled
from fotltn.project.build import Built, assembled, completed, ground, meaning
from fotltn.project.config import Config, config_of
from fotltn.project.modules import made_modules
from fotltn.project.other_labels import read_labels
from fotltn.project.presets import BEFORE
from fotltn.project.stored import (
    check_widths,
    numbers_by_name,
    placed,
    read_anew,
    unpack_history,
    unpack_world,
    versions,
)
from fotltn.project.toml import parse_toml
from fotltn.project.world import World, device_of, stated_tables
from fotltn.semantics.config import PMean, Semantics
from fotltn.semantics.tables import Tables
from fotltn.syntax.load import parse_theory
from fotltn.threads import entries, entry

if TYPE_CHECKING:  # loaded only when a model is asked, because training does not need them
    import pyarrow as pa

    from fotltn.analysis.ask import Answer
    from fotltn.analysis.audit_data import Audit
    from fotltn.analysis.cells import Cells
    from fotltn.analysis.explain.explanation import Explanation
    from fotltn.analysis.metrics import Report, Scores
    from fotltn.analysis.over_time import TruthOverTime
    from fotltn.analysis.satisfaction import Satisfaction
    from fotltn.analysis.view import View
    from fotltn.analysis.violations import Counterexample, Ranked, WorstCells
    from fotltn.posterior.doubts import Doubts
    from fotltn.project.apply import NewData

#: The kind of folder that a model is saved in.
KIND = "model"


@entries
@with_methods
@dataclass(slots=True, eq=False, repr=False)
class Model:
    r"""A trained model: the networks or worlds, with the theory and the names.

    `fotltn.train` returns a model, and `fotltn.load_model` reads one from its folder.

    Args:
        config: the project.
        world: the theory, the names and the given data.
        grounding: the networks.
        semantics: the semantics of the axioms.
        history: the epochs of training.
        reason: why training ended.
        flips: the rate of flipped labels, if it was learned.
        warnings: oddities of training, such as a damaged checkpoint.
        versions: the versions of the programs that trained it, if known.
        trust: how far each axiom is trusted, if that was learned.
        thresholds: the smallest degree that counts as true, by predicate; 0.5 for others. Defined
            predicates have none, because they follow from the others.
        posterior: the sampled worlds, if the method was "posterior"; degrees are shares of them.
        chosen: the reason for the method, if the project left it open; not saved.

    >>> import fotltn as fot
    >>> theory = "sort car\npredicate Stop(car)\naxiom A: forall x. F Stop(x)"
    >>> facts = {"predicate": ["Stop"], "arg1": ["ego"], "time": [0]}
    >>> fot.train(theory, facts=facts, learn=["Stop"], training={"epochs": 2}).save("model")
    >>> fot.load_model("model").predictions().num_rows
    1
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
        """The checked theory."""
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
        """The number of the last epoch that improved on all epochs before it."""
        return max((e.number for e in self.history if e.best), default=0)

    @property
    def tables(self) -> Tables:
        """The degrees of all predicates and how they are decided; computed once."""
        if self._tables is None:
            self.grounding.eval()
            with torch.no_grad():
                self._tables = everywhere(self.grounding)
        how = self._tables.decisions
        if how is None or how.thresholds != self.thresholds:
            decisions = self.grounding.decisions(dict(self.thresholds))
            self._tables = replace(self._tables, decisions=decisions)
        return self._tables

    def view(self, tables: Tables | None = None) -> View:
        """Return the theory over the predictions or other tables, with the project's ends."""
        from fotltn.analysis.view import View

        texts = () if self.posterior is None else self.posterior.warnings
        odd = map(warning, texts)
        return View(
            self.tables if tables is None else tables, self.semantics, end=self.config.end,
            theory=self.theory, learned=self.grounding.open, warnings=(*self.facts.warnings, *odd),
        )  # fmt: skip

    def cells(self, axiom: str, *, threshold: float | None = None, end: End | None = None) -> Cells:
        """Return an axiom's cells; by default, ends of traces are treated as the project says."""
        return self.view().under(threshold=threshold, end=end).cells(axiom)

    @property
    def fixed(self) -> tuple[str, ...]:
        """The predicates that training cannot change."""
        return tuple(n for n in self.theory.signature.predicates if n not in self.grounding.open)

    def __getattr__(self, name: str) -> Any:
        """Return `fixed` under its name in version 0.1.0."""
        return renamed(self, name, {"given": "fixed"})

    @property
    def unlabelled(self) -> tuple[str, ...]:
        """The learned predicates that have no labels."""
        return tuple(n for n in self.grounding.learned if n not in self.world.stated.index)

    @property
    def bias(self) -> tuple[str, ...]:
        """How training in batches differs from training on all data at once, in words."""
        batches = self.config.training.batches
        return () if batches is None else bias(batches, self.theory)

    @property
    def truth(self) -> Tables:
        """The stated facts as tables, with facts of learned predicates that have no label apart."""
        return stated_tables(self.world, self.grounding, self.dtype)

    # --- asking -----------------------------------------------------------------------------------

    def decided(self, *, threshold: float | None = None) -> Tables:
        """Return tables of 0 and 1 instead of degrees, by the model's thresholds or another."""
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
        """Evaluate a formula for each binding of its free variables.

        With sampled worlds, the value is a probability: the share of worlds in which it is true.

        Args:
            formula: the text of the formula.
            at: a time point, or "all".
            semantics: a semantics to use instead of the model's, or instead of counting worlds.
            threshold: for the crisp semantics, the smallest degree that counts as true; by default,
                the model's thresholds.
            condition: a formula without free variables. In each trace, only worlds count in which
                it is true at the first time point.

        Raises:
            FotError: a formula is wrong, no world obeys the condition, or there are no worlds.
        """
        if semantics is None and self.posterior is not None:
            return sampled.ask_worlds(self.posterior, formula, at=at, condition=condition)
        if condition is not None:
            raise sampled.no_worlds("a condition selects among sampled worlds", self.posterior)
        return self.view().under(semantics=semantics, threshold=threshold).ask(formula, at=at)

    def satisfaction(self) -> Satisfaction:
        """Return the degrees of all axioms."""
        return self.view().satisfaction()

    def truth_over_time(self, axiom: str) -> TruthOverTime:
        """Return the degrees of an axiom at every binding and time point."""
        return self.cells(axiom).over_time()

    def why(
        self,
        axiom: str,
        binding: Mapping[str, str],
        *,
        time: int = 0,
        trace: str | int = 0,
        fixed: Collection[str] | None = None,
    ) -> Explanation:
        """Explain the degree of an axiom in one cell, and find out what would change it.

        Args:
            axiom: the name of the axiom.
            binding: the entity of each variable, by name.
            time: the time point.
            trace: the name or number of the trace.
            fixed: predicates whose facts must not change; by default, the given ones.
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
    ) -> WorstCells:
        """Return the violations of an axiom, then weak cells, with their shares of its error."""
        return self.cells(axiom, threshold=threshold, end=end).worst(top)

    def worst(
        self, top: int = 10, *, threshold: float | None = None, end: End | None = None
    ) -> tuple[Ranked, ...]:
        """Return the violations of all axioms, then weak cells, by their share of the total error.

        The total error is the weighted mean of `(1 - value)^p` over axioms, with the p of ∀ (1 if ∀
        is not a mean). An axiom's part of it is divided among its violations like its own error.
        """
        from fotltn.analysis.violations import ranked

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
        """Return a cell in which an axiom is false in two-valued logic, or None."""
        from fotltn.analysis.violations import counterexample

        return counterexample(self.cells(axiom, threshold=threshold, end=end))

    def audit(self, *, threshold: float | None = None, end: End | None = None) -> Audit:
        """Audit the axioms: find out what their degrees are worth."""
        labels = self.truth if self.world.stated.total else None
        view = self.view().under(threshold=threshold, end=end)
        return view.audit(labels)

    def metrics(
        self, facts: AnyFacts | None = None, *, threshold: float | None = None
    ) -> Report | None:
        """Measure how good predictions are on the facts held back for testing, or on other facts.

        Returns:
            None if no facts are given and none were held back.
        """
        labels = self.world.test
        if facts is not None:
            listed = itertools.chain(*apart(facts))
            labels, _ = read_labels(self.world, self.grounding.open, listed)
        return None if labels is None or not labels.total else self.score(labels, threshold)

    def score(self, labels: Labels, threshold: float | None = None) -> Report:
        """Measure how good predictions of labelled facts are; accuracy refers to decisions."""
        from fotltn.project.scored import scored_facts

        return scored_facts(self.tables, labels, threshold).report()

    def scores(self, labels: Labels | None = None) -> Scores:
        """Return the labels and predicted degrees of labelled facts, by default of test facts.

        Metrics and plots are computed from them.
        """
        labels = self.world.test if labels is None else labels
        if labels is None:
            return {}
        from fotltn.project.scored import scores_of

        return scores_of(self.tables, labels)

    def predictions(
        self,
        predicates: Sequence[str] | None = None,
        *,
        decide: bool = False,
        named: bool = False,
        wide: bool = False,
    ) -> pa.Table:
        """Return the degrees of predicates as a table of facts; by default, of learned predicates.

        Args:
            predicates: the names of predicates, and of functions, whose values get a column.
            decide: return decisions (1 and 0) instead of degrees, by the model's thresholds.
            named: name the trace of each row even if there is only one trace.
            wide: return a row for each binding and time, with a column for each predicate.
        """
        from fotltn.analysis.predictions import predictions

        tables = self.decided() if decide else self.tables
        learned = (*self.grounding.open, *self.config.functions)
        return predictions(tables, predicates or learned, named=named, wide=wide)

    def doubts(self) -> Doubts:
        """Return all labels that worlds were sampled with, those that are probably wrong first.

        Raises:
            DataError: the model has no sampled worlds.
        """
        from fotltn.posterior.doubts import doubts
        from fotltn.project.problem import problem_of

        if self.posterior is None:
            raise sampled.no_worlds("doubts about labels come from sampled worlds", None)
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
        """Apply the model to other data, with other entities, traces and lengths.

        Features are centred, scaled and encoded as in training, never by the new data. Labels among
        the new facts are for testing: `model.apply(data).metrics()`. A posterior samples worlds of
        the new data, with the prior, rates and networks that it has learned.

        Args:
            data: tables that `fotltn.read` returned; a folder with the tables that the project
                names; one file or data frame, or several in order; or a mapping from these names to
                tables. Columns of learned predicates may be missing.
            horizon: the number of time points of every trace; by default, as in the data. After the
                last row, networks over static features still answer; networks over features that
                change do so only if the project sets `beyond = "last"`.
            evidence: with a posterior, use labels among the new facts as evidence, not for testing.
            on_sweep: a function to call after every sweep over the new worlds.

        Raises:
            DataError: the data do not fit, or the model can be applied only to its own data.
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

    # --- saving -----------------------------------------------------------------------------------

    def save(self, path: Path | str) -> None:
        """Save the model as one folder; an earlier model there is replaced in one step.

        The folder includes a card for people, `README.md`, which is never read back. For your own
        PyTorch modules, it holds the weights and the name of the class, but no code: pass the
        modules to `load_model`.

        Raises:
            DataError: the path holds something else, or cannot be written.
        """
        from fotltn.project.model_folder import pack_model

        write_folder(path, *pack_model(self), kind=KIND)


def model_of(built: Built, outcome: FitResult | None = None) -> Model:
    """Return the model that training produced, or the model before training."""
    model = Model(built.config, built.world, built.task.grounding, built.semantics)
    model.chosen = built.chosen
    if outcome is not None:
        model.history, model.reason = outcome.history, outcome.reason
        model.flips, model.warnings = outcome.flips, outcome.warnings
        model.trust = None if outcome.trust is None else dict(outcome.trust)
        model.versions = versions()
    return model


@entry
@public
def load_model(
    path: AnyPath,
    *,
    device: str | None = None,
    modules: Mapping[str | tuple[str, ...], Any] | None = None,
) -> Model:
    """Load a model from its folder; no code in it is executed.

    Args:
        path: the folder.
        device: the device to compute on; by default, that of training or, if missing, the CPU.
        modules: your own PyTorch modules and functions, under the keys that `train` had them: a
            predicate, a tuple of predicates, a function of the theory, or the sort of an encoder. A
            class without required arguments is enough, because the model provides the weights.

    Raises:
        DataError: the folder is not a model of this version, is damaged, or needs a module.
    """
    path = Path(path)
    at_hand = made_modules(modules or {})
    tensors, documents = read_folder(path, kind=KIND)
    texts: dict[str, Any] = documents
    try:
        settings = parse_toml(texts["project.toml"], f"{path}/project.toml")
        config = config_of(settings, Path(path), usual=BEFORE)  # files of 0.1.0 name no method
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
        world = read_anew(world, made_by.get("fotltn", ""))
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
            raise  # the message already names the place
        reason = error.diagnostics[0].message
    except (KeyError, IndexError) as error:
        reason = f"no {error}"
    except (TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        reason = " ".join(str(error).split())[:300]
    raise DataError(f"the parts of the model '{path}' do not fit together: {reason}")
