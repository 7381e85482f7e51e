"""Find where an input continues, and check that it is the same input as before."""

from __future__ import annotations

from typing import Any

from fotltn.errors import DataError, Diagnostic
from fotltn.monitor.sources import START, Arrived, FollowedFile, Place

#: The kinds of sources in words, by the name that `watch.json` has for each.
SOURCES = {"file": "a file", "redis": "a Redis stream", "stdin": "standard input"}

_HOW = {"file": "--input FILE", "redis": "--redis URL/STREAM", "stdin": "no --input"}
_TYPES: dict[str, dict[str, type]] = {
    "file": {"path": str, "offset": int, "lines": int, "mark": str},
    "redis": {"stream": str, "after": str},
    "stdin": {},
}
_OTHER = "use another folder for --state"


def place_in(file: FollowedFile, place: Place) -> dict[str, Any]:
    """Return a place in a file as data for `watch.json`."""
    mark = file.mark(place.offset) or ""
    path = str(file.path.absolute())
    return {"source": "file", "path": path, **place._asdict(), "mark": mark}


def place_after(one: Arrived, source: FollowedFile | str | None) -> dict[str, Any]:
    """Return where the input continues after a line of a file, a stream or standard input."""
    if isinstance(source, FollowedFile) and isinstance(one.after, int):
        return place_in(source, Place(one.after, one.line.number))
    if isinstance(source, str):
        return {"source": "redis", "stream": source, "after": one.after}
    return {"source": "stdin"}


def checked_place(place: Any, source: str, folder: object) -> dict[str, Any] | None:
    """Return the place that a folder has for its source; None if it has none.

    Raises:
        DataError: the place belongs to another kind of source, or is damaged.
    """
    if place is None:
        return None
    kind = place.get("source") if isinstance(place, dict) else None
    if kind not in SOURCES:
        raise DataError(f"{folder}/watch.json is damaged: its 'place' is not a place in an input")
    if kind != source:
        raise DataError(
            Diagnostic(
                f"the watch of {folder} reads {SOURCES[kind]}, not {SOURCES[source]}",
                hint=f"continue it with {_HOW[kind]}, or {_OTHER}",
            )
        )
    for key, type_ in _TYPES[kind].items():
        value = place.get(key)
        if type(value) is not type_ or (isinstance(value, int) and value < 0):
            raise DataError(f"{folder}/watch.json is damaged: '{key}' in its 'place' is wrong")
    return dict(place)


def file_start(place: dict[str, Any] | None, file: FollowedFile, *, follow: bool) -> Place:
    """Return where to start reading a file.

    With `follow`, a file that has replaced the earlier one is read from its start.

    Raises:
        DataError: the file is not the one that was read before.
    """
    if place is None:
        return START
    if file.mark(place["offset"]) == place["mark"]:
        return Place(place["offset"], place["lines"])
    same_path = place["path"] == str(file.path.absolute())
    if follow and same_path:
        return START
    if same_path:
        raise DataError(
            Diagnostic(
                f"{file.path} was replaced, or changed before line {place['lines'] + 1}, since the "
                "last run",
                hint=f"restore it, or {_OTHER}; with --follow, a new file is read from its start",
            )
        )
    raise DataError(
        Diagnostic(
            f"{file.path} is not the file that was read up to line {place['lines']}: "
            f"{place['path']}",
            hint=f"continue with that file, or {_OTHER}",
        )
    )
