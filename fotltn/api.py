"""Functions on a theory with data, or on a model: cells, audit, rules, report, pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from fotltn.analysis.truncation import End
from fotltn.analysis.view import View
from fotltn.data import checked_theory
from fotltn.errors import DataError, missing
from fotltn.evaluation import Evaluator, as_formula, over_traces
from fotltn.logic.check import CheckedAxiom, CheckedTheory, check_formula
from fotltn.plan.build import BUDGET
from fotltn.semantics.config import CRISP, STABLE_PRODUCT, Semantics, semantics_of
from fotltn.semantics.tables import Tables
from fotltn.syntax.formula import Formula
from fotltn.syntax.theory import Axiom, Theory
from fotltn.threads import entries, entry

if TYPE_CHECKING:
    from fotltn.analysis.audit_data import Audit
    from fotltn.analysis.cells import Cells
    from fotltn.analysis.rules import Rule
    from fotltn.project.model import Model
    from fotltn.web.serve import Address
    from fotltn.web.sides import Side


@entry
def cells(
    formula: str | Formula | Axiom,
    data: Tables | Model,
    *,
    semantics: str | Semantics | None = None,
    p: float | None = None,
    threshold: float | None = None,
    end: End | None = None,
) -> Cells:
    r"""Evaluate a formula at every binding and time.

    Use it to find the worst cells of a formula, count its violations, explain a value or look for
    a repair.

    Args:
        formula: an axiom of a theory, a formula or its text, or the name of an axiom of a model.
        data: tables, or a model.
        semantics: the semantics; by default, that of the model, or "stable-product".
        p: another exponent for the means of the semantics.
        threshold: the smallest degree that counts as true in two-valued logic; by default, the
            model's, or 0.5.
        end: how to treat cells that fail only because their trace ends: "undecided", or "final" if
            they are violations; by default, as the model's project says, or "undecided".

    Raises:
        FotError: the formula does not fit the data.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> data = fot.tables(theory, Near=[1.0, 1.0, 0.0], Stop=[0.0, 1.0, 0.5])
    >>> worst = fot.cells(theory["Obey"], data).worst(1)[0]
    >>> worst.time, round(worst.value, 2)
    (1, 0.5)
    """
    view = View(data) if isinstance(data, Tables) else data.view()
    view = view.under(semantics=semantics, p=p, threshold=threshold, end=end)
    if isinstance(formula, str) and formula in {axiom.name for axiom in view.theory.axioms}:
        return view.cells(formula)
    signature = view.tables.signature
    if isinstance(formula, Axiom):
        core = check_formula(formula.formula, signature).formula
        axiom = CheckedAxiom(formula.name, core, formula.weight, formula.formula, formula.hard)
        return view.cells(axiom)
    return view.cells(check_formula(as_formula(formula), signature))


@entries
class CompiledTheory:
    """The axioms of a theory, planned once for many evaluations.

    Args:
        theory: the axioms.
        data: the tables to plan for; later tables may have other degrees.
        semantics: the semantics of the axioms.
        budget: the bytes that intermediate results may use.
        backend: a backend of PyTorch's compiler, to fuse steps; None to run step by step.
    """

    def __init__(
        self,
        theory: CheckedTheory,
        data: Tables,
        semantics: Semantics,
        budget: int = BUDGET,
        backend: str | None = None,
    ) -> None:
        """Plan for the data."""
        self.semantics = semantics
        formulas = {axiom.name: axiom.formula for axiom in theory.axioms}
        self._evaluator = Evaluator(formulas, semantics, 0, budget, backend)
        self(data)

    def __call__(self, data: Tables) -> dict[str, Tensor]:
        """Return the degree of each axiom over all traces, with gradients to the tables."""
        degrees = over_traces(self._evaluator.by_trace(data), self.semantics)
        return dict(zip(self._evaluator.formulas, degrees, strict=True))

    @property
    def plan(self) -> str:
        """The plan as text: what is computed, by which route and why, and at what cost."""
        return self._evaluator.explain()


@entry
def compile(
    theory: Theory | CheckedTheory,
    data: Tables,
    *,
    semantics: str | Semantics = STABLE_PRODUCT,
    p: float | None = None,
    budget: int = BUDGET,
    backend: str | None = None,
) -> CompiledTheory:
    r"""Plan the axioms of a theory for data, to evaluate them many times at low cost.

    Use it in your own training loop, where axioms are evaluated again and again on new degrees.

    Args:
        theory: the axioms.
        data: the tables to plan for.
        semantics: the semantics of the axioms.
        p: another exponent for the means of the semantics.
        budget: the bytes that intermediate results may use.
        backend: a backend of PyTorch's compiler, such as "inductor", to fuse steps; this needs a
            C++ compiler, and takes a minute. By default, plans run step by step.

    Raises:
        LimitError: an axiom does not fit the budget; the message names it.
        SemanticsError: a step of the plan cannot be fused.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Stop\naxiom A: F Stop")
    >>> step = fot.compile(theory, fot.tables(theory, Stop=[0.0, 1.0, 1.0]), semantics="godel")
    >>> step(fot.tables(theory, Stop=[0.0, 0.5, 0.25]))
    {'A': tensor(0.5000)}
    """
    meaning = semantics_of(semantics, p)
    return CompiledTheory(checked_theory(theory), data, meaning, budget, backend)


@entry
def audit(
    theory: Theory | CheckedTheory | Model,
    data: Tables | None = None,
    *,
    learned: Collection[str] = (),
    semantics: str | Semantics | None = None,
    p: float | None = None,
    threshold: float | None = None,
    end: End | None = None,
) -> Audit:
    r"""Measure how far each axiom holds on data, and what that is worth as evidence.

    Use it before you trust a high value: an axiom may hold only because its antecedent is never
    true, or because predictions that know nothing satisfy it as well.

    Args:
        theory: the axioms; or a model, which has its own data.
        data: the tables.
        learned: predicates that are predictions rather than facts.
        semantics: the semantics of the axioms.
        p: another exponent for the means of the semantics.
        threshold: the smallest degree that counts as true in two-valued logic; by default, the
            model's, or 0.5.
        end: how to treat ends of traces, as in `cells`.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> data = fot.tables(theory, Near=[1.0, 1.0, 0.0], Stop=[0.0, 1.0, 0.5])
    >>> found = fot.audit(theory, data)
    >>> [(str(finding.kind), finding.axiom) for finding in found.warnings]
    [('vacuous', None)]
    """
    if not isinstance(theory, Theory | CheckedTheory):
        return theory.audit(threshold=threshold, end=end)
    if data is None:
        raise DataError("an audit needs data: fotltn.audit(theory, data)")
    view = View(data, theory=checked_theory(theory), learned=tuple(learned))
    return view.under(semantics=semantics, p=p, threshold=threshold, end=end).audit()


@entry
def rules(
    theory: Theory | CheckedTheory,
    data: Tables,
    *,
    traces: Sequence[int] | None = None,
    semantics: str | Semantics = CRISP,
    threshold: float | None = None,
    resamples: int = 2000,
    seed: int = 0,
    end: End = "undecided",
) -> tuple[Rule, ...]:
    r"""Count how well each axiom holds as a rule: support, confidence, base rate, lift.

    Use it to see whether data support your rules before you train with them.

    Args:
        theory: the rules.
        data: the tables.
        traces: the numbers of the traces to count; None for all.
        semantics: "crisp" counts cells; others sum degrees.
        threshold: the smallest degree that counts as true; by default, the model's, or 0.5.
        resamples: how often to resample traces for the intervals; 0 for no intervals.
        seed: the seed of the resampling.
        end: how to treat ends of traces, as in `cells`; an undecided cell does not count as
            support.

    >>> import fotltn as fot
    >>> theory = fot.parse("predicate Near, Stop\naxiom Obey: G(Near -> WX Stop)")
    >>> data = fot.tables(theory, Near=[1.0, 1.0, 0.0], Stop=[0.0, 1.0, 0.5])
    >>> rule = fot.rules(theory, data, resamples=0)[0]
    >>> rule.overall.support, rule.overall.confidence.value
    (2.0, 1.0)
    """
    view = View(data, threshold=threshold, end=end, theory=checked_theory(theory))
    return tuple(view.rules(traces=traces, semantics=semantics, resamples=resamples, seed=seed))


@entry
def report(
    model: Model,
    path: Path | str = "report.html",
    *,
    threshold: float | None = None,
    force: bool = False,
) -> Path:
    r"""Write the report of a model as one HTML file, and return its path.

    Use it to send results to others: the file opens offline, without fotltn.

    Args:
        model: the model.
        path: the file.
        threshold: the smallest degree that counts as true in two-valued logic; by default, the
            model's, or 0.5.
        force: also replace a file that is not a report.

    Raises:
        DataError: the file cannot be written, or packages for reports are missing.

    >>> import fotltn as fot
    >>> theory = "sort car\npredicate Near(car), Stop(car)\naxiom A: forall x. F Stop(x)"
    >>> facts = {"predicate": ["Near", "Stop"], "arg1": ["ego", "ego"], "time": [0, 3]}
    >>> model = fot.train(theory, facts=facts, learn=["Stop"], training={"epochs": 2})
    >>> fot.report(model, "crossing.html").name
    'crossing.html'
    """
    from fotltn.reporting.html import check_packages, check_place, write_page

    check_packages()
    check_place(path, force=force)
    from fotltn.reporting.model_report import model_content, model_page

    content = model_content(model, Path(path).stem, threshold=threshold)
    return write_page(model_page(content), path, force=force)


@entry
def inspect(
    model: Model, *, port: int | None = None, threshold: float | None = None, end: End | None = None
) -> None:
    r"""Serve pages to explore a model in a browser, until Ctrl-C.

    Args:
        model: the model.
        port: the port; by default, a free one.
        threshold: the smallest degree that counts as true in two-valued logic; by default, the
            model's, or 0.5.
        end: how to treat ends of traces, as in `cells`.

    Raises:
        DataError: packages for the pages are missing, or the port is taken.

    >>> import fotltn as fot
    >>> theory = "sort car\npredicate Near(car), Stop(car)\naxiom A: forall x. F Stop(x)"
    >>> facts = {"predicate": ["Near", "Stop"], "arg1": ["ego", "ego"], "time": [0, 3]}
    >>> model = fot.train(theory, facts=facts, learn=["Stop"], training={"epochs": 2})
    >>> fot.inspect(model)  # doctest: +SKIP
    """
    try:
        from fotltn.web.serve import new_token, serve
        from fotltn.web.sides import side_of
    except ImportError as error:
        raise missing("the inspector needs", str(error.name), "inspect") from None

    def say(_: object, address: Address) -> None:
        print(f"{address.url}\nStop with Ctrl-C.", flush=True)  # noqa: T201

    def read() -> list[Side]:
        return [side_of(model).under(threshold=threshold, end=end)]

    serve(read, port=port, token=new_token(), ready=say)
