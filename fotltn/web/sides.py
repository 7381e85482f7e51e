"""The sides of a page: views of a model's predictions, or of stated facts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fotltn.analysis.view import View, stated_view
from fotltn.errors import Diagnostic
from fotltn.grounding.clock import Clock
from fotltn.logic.check import check
from fotltn.project.find import find_model
from fotltn.project.model import Model
from fotltn.syntax.load import load_theory


class Side(NamedTuple):
    """A model, or a theory with facts, to inspect.

    Args:
        name: the name on pages.
        view: the theory over its tables, with how both are read.
        model: the model whose predictions the tables are, if any.
    """

    name: str
    view: View
    model: Model | None = None

    def under(self, **other: Any) -> Side:
        """Return the side with other semantics or thresholds, as in `View.under`."""
        return self._replace(view=self.view.under(**other))

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Warnings about the theory, the data and the predictions."""
        return (*self.view.theory.warnings, *self.view.warnings)

    def same_world(self, other: Side) -> bool:
        """Return whether both have the same traces, entities and times, in the same order."""
        mine, theirs = self.view.tables, other.view.tables
        return mine.names == theirs.names and mine.lengths.tolist() == theirs.lengths.tolist()


def side_of(model: Model | Path, data: Sequence[Path] = ()) -> Side:
    """Return the side of a model, a model's folder or a project, over new data if given.

    Raises:
        FotError: there is no model, it cannot be read, or the data do not fit.
    """
    name = "model" if isinstance(model, Model) else model.resolve().name
    model = model if isinstance(model, Model) else find_model(model, data)
    return Side(name, model.view(), model)


def side_of_facts(
    theory: Path, facts: Sequence[Path], *, horizon: int | None = None, clock: Clock | None = None
) -> Side:
    """Return the side of stated facts; facts that are not stated are false.

    Raises:
        FotError: the theory or a file has errors.
    """
    name = facts[0].name if len(facts) == 1 else f"{len(facts)} files of facts"
    view = stated_view(check(load_theory(theory)), facts, horizon=horizon, clock=clock)
    return Side(name, view)
