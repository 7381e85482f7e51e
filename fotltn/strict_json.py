"""Read standard JSON only: unique keys, finite numbers, text that can be written again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fotltn.errors import DataError

#: The maximum number of digits of an integer, independent of Python's own limit.
MAX_DIGITS = 640


class JsonError(DataError):
    """A text is not JSON, or is JSON that this package rejects.

    Attributes:
        reason: what is wrong.
        offset: the character at which it is wrong, if known.
    """

    def __init__(self, reason: str, offset: int | None = None) -> None:
        """Store the reason without a place; the reader of a file adds it."""
        super().__init__(f"not JSON: {reason}")
        self.reason, self.offset = reason, offset

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from the reason and the offset."""
        return (type(self), (self.reason, self.offset))


def read_json(text: str | bytes) -> Any:
    """Parse a JSON text.

    Raises:
        JsonError: it is not JSON, an object repeats a key, a number is not allowed in JSON (such as
            NaN) or has too many digits, a text has half of a surrogate pair, or it is nested too
            deeply.
    """
    try:
        text = text.decode() if isinstance(text, bytes) else text
        if text.startswith("\ufeff"):
            raise JsonError("it begins with a byte-order mark", 0)
        value = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise JsonError(error.msg[:1].lower() + error.msg[1:], error.pos) from None
    except UnicodeDecodeError as error:
        raise JsonError(f"it is not UTF-8 (byte {error.start})") from None
    except UnicodeEncodeError:
        raise JsonError("a text in it has half of a surrogate pair") from None
    except RecursionError:
        raise JsonError("it is nested too deeply") from None
    return value


def once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return a mapping of pairs with unique keys.

    Raises:
        JsonError: a key occurs twice.
    """
    value = dict(pairs)
    if len(value) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise JsonError(f"the key '{twice[:60]}' occurs twice")
    return value


def _no_constant(name: str) -> None:
    raise JsonError(f"{name} is not a number in JSON")


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise JsonError(f"a number has {len(digits):,} digits; at most {MAX_DIGITS} are read")
    return int(digits)


_DECODER = json.JSONDecoder(object_pairs_hook=once, parse_constant=_no_constant, parse_int=_integer)
