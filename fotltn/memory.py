"""The C library's allocator, told to keep freed memory.

By default it gives blocks above 32 MB back to the system when they are freed, and asks for them
anew: with tables that large, zeroing fresh pages costs more than the operations on them.
"""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4


def keep_freed_memory() -> bool:
    """Keep freed memory for the next use, in this whole process; False where that is unknown.

    For programs that do little else than train or evaluate. A process then never gets smaller.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, -1))
