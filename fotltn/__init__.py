"""FOT-LTN: learning with time-stamped facts and first-order temporal axioms.

The language part loads without torch; what evaluates and learns loads it on first use.
"""

from __future__ import annotations

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
from fotltn.syntax.formula import Formula as Formula
from fotltn.syntax.load import load_theory as load_theory
from fotltn.syntax.load import parse_theory as parse_theory
from fotltn.syntax.load import save_theory as save_theory
from fotltn.syntax.parse import parse_formula as parse_formula
from fotltn.syntax.show import show as show
from fotltn.syntax.show import show_theory as show_theory
from fotltn.syntax.theory import Theory as Theory

if TYPE_CHECKING:
    from fotltn.evaluation import evaluate as evaluate
    from fotltn.grounding.wide import Wide as Wide
    from fotltn.monitor.monitor import Monitor as Monitor
    from fotltn.project.api import train as train
    from fotltn.project.model import Model as Model
    from fotltn.project.model import load_model as load_model
    from fotltn.report import plots as plots

__version__ = "0.2.0.dev0"

_LAZY = {
    "evaluate": "fotltn.evaluation",
    "Monitor": "fotltn.monitor.monitor",
    "train": "fotltn.project.api",
    "load_model": "fotltn.project.model",
    "Model": "fotltn.project.model",
    "Wide": "fotltn.grounding.wide",
    "plots": "fotltn.report.plots",
}


def __getattr__(name: str) -> Any:
    """Load what needs torch when it is asked for."""
    if name in _LAZY:
        from importlib import import_module

        module = import_module(_LAZY[name])
        value = module if module.__name__.endswith(f".{name}") else getattr(module, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'fotltn' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
