"""Make the C library keep freed memory.

By default it returns freed blocks above 32 MB to the system and requests them again. With tables
that large, zeroing fresh pages costs more than the operations on them.
"""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4


def keep_freed_memory() -> bool:
    """Keep freed memory for reuse in this process; return False if the system does not support it.

    Use it in programs that mainly train or evaluate. The process then never shrinks.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, -1))
