"""The sides of a page: views of a model's predictions, or of facts as they are stated."""

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
    """Whatever is inspected.

    Args:
        name: what pages call it.
        view: the theory and the tables, and how they are read.
        model: the model that the tables are of, if they are.
    """

    name: str
    view: View
    model: Model | None = None

    def under(self, **other: Any) -> Side:
        """The same, read otherwise, as of `View.under`."""
        return self._replace(view=self.view.under(**other))

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What is odd in the theory, in the data, and in how predictions were made."""
        return (*self.view.theory.warnings, *self.view.warnings)

    def same_world(self, other: Side) -> bool:
        """Whether both are about the same traces, entities and times, in the same order."""
        mine, theirs = self.view.tables, other.view.tables
        return mine.names == theirs.names and mine.lengths.tolist() == theirs.lengths.tolist()


def side_of(model: Model | Path, data: Sequence[Path] = ()) -> Side:
    """A model, or the model of a folder or a project, over new data if there are some.

    Raises:
        FotError: there is no model, it cannot be read, or the data do not fit.
    """
    name = "model" if isinstance(model, Model) else model.resolve().name
    model = model if isinstance(model, Model) else find_model(model, data)
    return Side(name, model.view(), model)


def side_of_facts(
    theory: Path, facts: Sequence[Path], *, horizon: int | None = None, clock: Clock | None = None
) -> Side:
    """Facts as they are stated; what no fact states is false.

    Raises:
        FotError: the theory or a file has errors.
    """
    name = facts[0].name if len(facts) == 1 else f"{len(facts)} files of facts"
    view = stated_view(check(load_theory(theory)), facts, horizon=horizon, clock=clock)
    return Side(name, view)
