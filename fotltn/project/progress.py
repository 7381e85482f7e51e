"""Progress of long training in Python, on standard error."""

from __future__ import annotations

import builtins
import sys
import time

from fotltn.format import number
from fotltn.learn.fit import Epoch
from fotltn.posterior.run import SamplingProgress
from fotltn.project.callbacks import Callback
from fotltn.project.model import Model

_FIRST = 3.0  # seconds without a word
_EACH = 10.0  # seconds between two lines, where lines stay
_LIVE = 0.5  # seconds between two states of the line in a terminal


class ProgressLine(Callback):
    """Shows how far training is: a line that changes in a terminal, else a line now and then.

    Args:
        shown: whether to show anything; by default, in a terminal and in a notebook.
    """

    def __init__(self, shown: bool | None = None) -> None:
        """Begin to wait."""
        self.live = sys.stderr is not None and sys.stderr.isatty()
        notebook = hasattr(builtins, "__IPYTHON__")
        self.shown = (self.live or notebook) if shown is None else shown
        self.begin = time.monotonic()
        self.next = self.begin + _FIRST
        self.epochs = 0
        self.written = False

    def start(self, model: Model) -> None:
        """Note how long training may be."""
        self.epochs = model.config.training.epochs

    def epoch(self, epoch: Epoch) -> None:
        """Show an epoch, if it is time."""
        watched = "" if epoch.watched is None else f", watched {number(epoch.watched, 4)}"
        self._show(f"epoch {epoch.number} of {self.epochs}: loss {number(epoch.loss, 4)}{watched}")

    def sweep(self, progress: SamplingProgress) -> None:
        """Show a sweep, if it is time."""
        mixing = progress.mixing
        agreed = f", R-hat {number(mixing.worst)}" if mixing is not None and mixing.r_hat else ""
        self._show(f"sweep {progress.sweep} of at most {progress.of}{agreed}")

    def end(self, model: Model | None) -> None:
        """Wipe the line in a terminal."""
        del model
        if self.written and self.live:
            _write("\r\x1b[K")

    def _show(self, text: str) -> None:
        now = time.monotonic()
        if not self.shown or now < self.next:
            return
        self.next, self.written = now + (_LIVE if self.live else _EACH), True
        begin, end = ("\r\x1b[K", "") if self.live else ("", "\n")
        _write(f"{begin}fotltn: {text} ({now - self.begin:.0f} s){end}")


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
