"""The parameters of an address, read strictly: an unknown or wrong one is refused with a hint."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from starlette.requests import Request

from fotltn.errors import did_you_mean, listing
from fotltn.web.responses import RefusedError

#: The longest formula that can be typed, in characters.
MAX_FORMULA = 4000

#: The longest other text.
MAX_TEXT = 200

_LARGEST = 2**53  # beyond it, numbers of a script are not exact

T = TypeVar("T")


class Parameters:
    """The parameters of a request, of which each must be known and given once."""

    def __init__(self, request: Request, known: Collection[str]) -> None:
        """Check the names.

        Raises:
            RefusedError: a parameter is unknown, or given twice.
        """
        self.stated: dict[str, str] = {}
        names = {*known, "format"}
        for name, value in request.query_params.multi_items():
            if name not in names:
                hint = did_you_mean(name[:80], names) or f"there are {listing(sorted(names))}"
                raise RefusedError(400, f"unknown parameter '{name[:80]}'", hint)
            if name in self.stated:
                raise RefusedError(400, f"the parameter '{name}' is given twice")
            if "\0" in value:
                raise RefusedError(400, f"the parameter '{name}' has a character that no text has")
            self.stated[name] = value

    def text(self, name: str, most: int = MAX_TEXT) -> str | None:
        """A text, or None if it is not given or empty."""
        value = self.stated.get(name, "")
        if len(value) > most:
            message = f"'{name}' has {len(value):,} characters; at most {most:,} are read"
            raise RefusedError(413, message)
        return value or None

    def number(self, name: str, default: int, most: int | None = None, least: int = 0) -> int:
        """A whole number from `least` on; what is more than `most` is refused."""
        value = self.text(name)
        if value is None:
            return default
        limit = _LARGEST if most is None else most
        if not value.isascii() or not value.isdecimal() or not least <= int(value) <= limit:
            upper = "" if most is None else f" to {most:,}"
            raise RefusedError(
                400, f"'{name}' is a whole number from {least}{upper}, not '{value[:40]}'"
            )
        return int(value)

    def choice(self, name: str, known: Sequence[str], default: str) -> str:
        """One of some words."""
        value = self.text(name)
        if value is None:
            return default
        if value not in known:
            hint = did_you_mean(value[:80], known)
            raise RefusedError(
                400, f"'{name}' is one of {', '.join(known)}, not '{value[:40]}'", hint
            )
        return value

    def named(self, name: str, known: Sequence[str], what: str) -> int | None:
        """The place of a name among some names, or None if it is not given."""
        if name not in self.stated or (not self.stated[name] and "" not in known):
            return None
        value = self.stated[name]
        if value not in known:
            hint = did_you_mean(value[:80], known) or f"there are {listing(known)}"
            raise RefusedError(404, f"there is no {what} '{value[:80]}'", hint)
        return list(known).index(value)
