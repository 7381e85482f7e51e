"""FOT-LTN: learning with time-stamped facts and first-order temporal axioms.

The language part loads without torch; the parts that evaluate and learn load it on first use.
"""

from __future__ import annotations

import logging as _logging
from typing import TYPE_CHECKING, Any

from fotltn.errors import BuildError as BuildError
from fotltn.errors import CheckError as CheckError
from fotltn.errors import DataError as DataError
from fotltn.errors import FotError as FotError
from fotltn.errors import LimitError as LimitError
from fotltn.errors import ParseError as ParseError
from fotltn.errors import SemanticsError as SemanticsError
from fotltn.logic.check import check as check
from fotltn.logic.check import check_formula as check_formula
from fotltn.semantics.config import SEMANTICS as SEMANTICS
from fotltn.semantics.config import Fold as Fold
from fotltn.semantics.config import PMean as PMean
from fotltn.semantics.config import Semantics as Semantics
from fotltn.semantics.laws import Law as Law
from fotltn.semantics.laws import laws as laws
from fotltn.syntax.formula import Formula as Formula
from fotltn.syntax.load import load_theory as load
from fotltn.syntax.load import parse_theory as parse
from fotltn.syntax.parse import parse_formula as parse_formula
from fotltn.syntax.show import save_theory as save
from fotltn.syntax.show import show as show
from fotltn.syntax.show import show_theory as show_theory
from fotltn.syntax.theory import Theory as Theory

if TYPE_CHECKING:
    from fotltn.analysis.cells import Cells as Cells
    from fotltn.api import audit as audit
    from fotltn.api import cells as cells
    from fotltn.api import compile as compile
    from fotltn.api import evaluate as evaluate
    from fotltn.api import inspect as inspect
    from fotltn.api import report as report
    from fotltn.api import rules as rules
    from fotltn.data import read as read
    from fotltn.data import tables as tables
    from fotltn.grounding.measures import Entity as Entity
    from fotltn.grounding.measures import Measure as Measure
    from fotltn.grounding.wide import Wide as Wide
    from fotltn.learn.module import AxiomLoss as AxiomLoss
    from fotltn.monitor.monitor import Monitor as Monitor
    from fotltn.monitor.trace import steps as steps
    from fotltn.monitor.watch import Watch as Watch
    from fotltn.posterior.posterior import Posterior as Posterior
    from fotltn.project.api import train as train
    from fotltn.project.callbacks import Callback as Callback
    from fotltn.project.classifier import Classifier as Classifier
    from fotltn.project.find import load_project as load_project
    from fotltn.project.live import ModelWatch as ModelWatch
    from fotltn.project.model import Model as Model
    from fotltn.project.model import load_model as load_model
    from fotltn.reporting import plots as plots
    from fotltn.semantics.tables import Tables as Tables

#: The public names. Documentation and examples use no others.
__all__ = (
    "SEMANTICS",
    "AxiomLoss",
    "BuildError",
    "Callback",
    "Cells",
    "CheckError",
    "Classifier",
    "DataError",
    "Entity",
    "Fold",
    "Formula",
    "FotError",
    "Law",
    "LimitError",
    "Measure",
    "Model",
    "ModelWatch",
    "Monitor",
    "PMean",
    "ParseError",
    "Posterior",
    "Semantics",
    "SemanticsError",
    "Tables",
    "Theory",
    "Watch",
    "Wide",
    "audit",
    "cells",
    "check",
    "check_formula",
    "compile",
    "evaluate",
    "inspect",
    "laws",
    "load",
    "load_model",
    "load_project",
    "parse",
    "parse_formula",
    "plots",
    "read",
    "report",
    "rules",
    "save",
    "show",
    "show_theory",
    "steps",
    "tables",
    "train",
)  # fmt: skip

#: Loggers have the names of folders, such as `fotltn.learn`; without a handler they are silent.
_logging.getLogger("fotltn").addHandler(_logging.NullHandler())

__version__ = "0.3.0.dev0"

#: The names that load torch, with their modules.
_LAZY = {
    "audit": "fotltn.api",
    "AxiomLoss": "fotltn.learn.module",
    "Callback": "fotltn.project.callbacks",
    "Cells": "fotltn.analysis.cells",
    "cells": "fotltn.api",
    "Classifier": "fotltn.project.classifier",
    "compile": "fotltn.api",
    "Entity": "fotltn.grounding.measures",
    "evaluate": "fotltn.api",
    "inspect": "fotltn.api",
    "load_model": "fotltn.project.model",
    "load_project": "fotltn.project.find",
    "Measure": "fotltn.grounding.measures",
    "Model": "fotltn.project.model",
    "ModelWatch": "fotltn.project.live",
    "Monitor": "fotltn.monitor.monitor",
    "plots": "fotltn.reporting.plots",
    "Posterior": "fotltn.posterior.posterior",
    "read": "fotltn.data",
    "report": "fotltn.api",
    "rules": "fotltn.api",
    "steps": "fotltn.monitor.trace",
    "Tables": "fotltn.semantics.tables",
    "tables": "fotltn.data",
    "train": "fotltn.project.api",
    "Watch": "fotltn.monitor.watch",
    "Wide": "fotltn.grounding.wide",
}

#: The names of version 0.1.0 that have changed, with their new names.
_RENAMED = {"load_theory": "load", "parse_theory": "parse", "save_theory": "save"}


def __getattr__(name: str) -> Any:
    """Load names that need torch on first use."""
    if name in _LAZY:
        from importlib import import_module

        module = import_module(_LAZY[name])
        value = getattr(module, name, module)
        globals()[name] = value
        return value
    if name in _RENAMED:
        import warnings

        new = _RENAMED[name]
        message = f"fotltn.{name} is now called fotltn.{new}; a later version removes the old name"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return globals()[new]
    raise AttributeError(f"module 'fotltn' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
