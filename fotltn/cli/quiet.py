"""Import this first: Ctrl-C and errors in the input then end the program with one line.

There is no traceback, not even while the rest of the program loads.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType

from fotltn.cli.output import FINDINGS, INTERRUPTED, complain
from fotltn.errors import FotError, InterruptedTrainingError


def _end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, FotError):
        complain(error)
    elif isinstance(error, KeyboardInterrupt):
        print("stopped", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)
        return
    stopped = isinstance(error, KeyboardInterrupt | InterruptedTrainingError)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED if stopped else FINDINGS)  # Python would end itself by the signal


sys.excepthook = _end
