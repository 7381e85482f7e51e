"""Arguments of public functions: each is compared with its annotation before the function runs."""

from __future__ import annotations

import functools
import inspect
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from numbers import Real
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from fotltn.errors import DataError, did_you_mean, listing, name_hint, shown

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


def _is_path(value: Any) -> bool:
    """Return whether a path can be one in the file system."""
    path = os.fspath(value)
    return isinstance(path, str) and "\0" not in path


#: A path in the file system.
AnyPath = Annotated[str | os.PathLike[str], "a path", _is_path]

#: Returns what to write for an argument (name and value) that a function does not have, or None.
Elsewhere = Callable[[str, object], str | None]

_BITS = 64  # of a whole number
_MOST_BITS = 1000  # of a whole number that is to become a float


def names_of(names: Iterable[str] | str) -> list[str]:
    """Return names as a list; a single one is a list of one."""
    return [names] if isinstance(names, str) else list(names)


def whole_number(value: object) -> int | None:
    """Return a Python, NumPy or PyTorch integer as an int, or None if the value is not one."""
    if isinstance(value, bool) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool"):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def items_of(values: object) -> Iterator[Any] | None:
    """Return the items of a list or the like; None if there are none to go over."""
    try:
        return iter(values)  # type: ignore[call-overload,no-any-return]
    except TypeError:
        return None


class Mismatch(NamedTuple):
    """Why a value does not have a type: the place in it, what was expected, what is there."""

    place: str
    expected: str
    value: object
    hint: str | None = None


def public(callee: F, elsewhere: Elsewhere | None = None) -> F:
    """Compare the arguments of a function, or of a class's constructor, with their annotations.

    Args:
        callee: the function or class.
        elsewhere: hints for names that are no arguments.
    """
    if isinstance(callee, type):
        callee.__init__ = public(callee.__init__, elsewhere)  # type: ignore[misc]
        return callee
    name = callee.__qualname__.removesuffix(".__init__")

    @functools.wraps(callee)
    def check_first(*args: Any, **named: Any) -> Any:
        kinds, places, open_ended = _types_of(callee)
        for argument, value in named.items():
            if argument not in kinds and not open_ended:
                known = [known for known in kinds if known != "self"]
                hint = did_you_mean(argument, known, 0.75)
                hint = hint or (elsewhere(argument, value) if elsewhere else None)
                hint = hint or name_hint(argument, known)
                text = f"{name}() got an unexpected keyword argument '{argument}'; {hint}"
                raise TypeError(text)
        checked = right_types(callee, dict(zip(places, args, strict=False)) | named)
        at_places = [checked[place] for place, _ in zip(places, args, strict=False)]
        return callee(*at_places, *args[len(places) :], **{n: checked[n] for n in named})

    return cast("F", check_first)


def with_hints(elsewhere: Elsewhere) -> Callable[[F], F]:
    """Check arguments, with hints for names that are no arguments."""
    return lambda callee: public(callee, elsewhere)


def with_methods(owner: C) -> C:
    """Compare the arguments of a class's public methods with their annotations."""
    for name, method in [*vars(owner).items()]:
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(owner, name, public(method))
    return owner


def right_types(callee: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by name; whole numbers of other libraries become those of Python.

    Raises:
        DataError: one does not have the type of its annotation.
    """
    kinds = _types_of(callee)[0]
    checked = {}
    for argument, value in values.items():
        kind = kinds.get(argument, Any)
        if (wrong := mismatch(kind, value)) is not None:
            raise _error(argument, wrong)
        number = None if isinstance(value, int) else whole_number(value)
        only_number = number is not None and mismatch(kind, object()) is not None
        checked[argument] = number if only_number and mismatch(kind, number) is None else value
    return checked


@functools.cache
def _types_of(callee: Callable[..., Any]) -> tuple[dict[str, Any], list[str], bool]:
    """Return types by name, the names of positional arguments, and whether other names are taken.

    An annotation of a name that is imported for type checkers alone stands for any type: what has
    such a type goes through a door of its own.
    """
    kinds: dict[str, Any] = {}
    places: list[str] = []
    open_ended = False
    for name, parameter in inspect.signature(callee).parameters.items():
        kind = _resolved(parameter.annotation, callee)
        if parameter.kind is parameter.VAR_KEYWORD:
            settings = get_args(kind)
            if settings:  # Unpack of a typed dictionary
                kinds |= get_type_hints(settings[0], include_extras=True)
            open_ended = not settings
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            kinds[name] = kind
            if parameter.kind is not parameter.KEYWORD_ONLY:
                places.append(name)
    return kinds, places, open_ended


def _resolved(annotation: Any, callee: Callable[..., Any]) -> Any:
    if annotation is inspect.Parameter.empty:
        return Any
    one = SimpleNamespace(__annotations__={"it": annotation})
    try:
        return get_type_hints(one, vars(sys.modules[callee.__module__]), include_extras=True)["it"]
    except NameError:
        return Any


def _error(where: str, wrong: Mismatch) -> DataError:
    text = f"{where}{wrong.place}: expected {wrong.expected}, not {shown(wrong.value)}"
    return DataError(text, hint=wrong.hint)


def mismatch(kind: Any, value: object) -> Mismatch | None:
    """Return why a value does not have a type, or None if it has.

    >>> mismatch(int | None, "3").expected
    'a whole number or None'
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        right = mismatch(inner[0], value) is None and all(test(value) for test in inner[2:])
        return None if right else Mismatch("", inner[1], value)
    if origin in (Union, UnionType):
        return _of_union(inner, value)
    if origin is Literal:
        return _of_words(inner, value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _of_mapping(kind, inner, value)
    if isinstance(origin, type) and origin is not type and issubclass(origin, Iterable):
        return _of_list(kind, inner, value)
    if fits(origin or kind, value):
        return None
    return Mismatch("", described(kind), value)


def fits(kind: Any, value: object) -> bool:
    """Return whether a value has a type that has no parts."""
    if kind is Any or not (isinstance(kind, type) or kind is None):
        return True
    if kind in (None, NoneType):
        return value is None
    if kind is bool:
        return isinstance(value, bool) or type(value).__name__ == "bool_"
    if kind in (int, float) and (number := whole_number(value)) is not None:
        return number.bit_length() < (_BITS if kind is int else _MOST_BITS)
    if kind is int:
        return False
    if kind is float:
        real = isinstance(value, Real) and not isinstance(value, bool)
        return real and value == value  # NaN is no number
    if kind is Path:
        return isinstance(value, os.PathLike)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return isinstance(value, str)  # the class that has the word says which words there are
    if kind is Callable:
        return callable(value)
    return isinstance(value, kind)


def _of_union(kinds: tuple[Any, ...], value: object) -> Mismatch | None:
    wrong = [mismatch(kind, value) for kind in kinds]
    if None in wrong:
        return None
    deeper = [one for one in wrong if one is not None and one.place]
    if deeper:
        return deeper[0]
    words = [one for one in wrong if one is not None and one.hint]
    texts = list(dict.fromkeys(described(kind) for kind in kinds))
    what = f"{', '.join(texts[:-1])} or {texts[-1]}" if len(texts) > 1 else texts[0]
    return Mismatch("", what, value, words[0].hint if words else None)


def _of_words(words: tuple[Any, ...], value: object) -> Mismatch | None:
    if any(type(value) is type(word) and value == word for word in words):
        return None
    near = None
    if isinstance(value, str):
        near = did_you_mean(value, [word for word in words if isinstance(word, str)])
    return Mismatch("", described(Literal[words]), value, near)


def _has_places(value: object) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _of_mapping(kind: Any, inner: tuple[Any, ...], value: object) -> Mismatch | None:
    if not isinstance(value, Mapping):
        return Mismatch("", described(kind), value)
    for key, item in value.items():
        if (wrong := mismatch(inner[0], key)) is not None:
            return Mismatch(" (a key)", wrong.expected, key, wrong.hint)
        if (wrong := mismatch(inner[1], item)) is not None:
            return wrong._replace(place=f"[{shown(key)}]{wrong.place}")
    return None


def _of_list(kind: Any, inner: tuple[Any, ...], value: object) -> Mismatch | None:
    """Look at a list, but at no item of an iterator, which could be read only once."""
    ordered = issubclass(get_origin(kind), Sequence) and not _has_places(value)
    if isinstance(value, str | bytes | Mapping) or ordered:
        named = isinstance(value, str) and value and inner and mismatch(inner[0], value) is None
        hint = f"for one name, write [{value!r}]" if named else None
        return Mismatch("", described(kind), value, hint)
    if (items := items_of(value)) is None:
        return Mismatch("", described(kind), value)
    if isinstance(value, Iterator) or not inner:
        return None
    for place, item in enumerate(items):
        one = inner[min(place, len(inner) - 1)] if get_origin(kind) is tuple else inner[0]
        if (wrong := mismatch(one if one is not ... else inner[0], item)) is not None:
            return wrong._replace(place=f"[{place}]{wrong.place}")
    return None


_WORDS: dict[Any, str] = {
    bool: "True or False", int: "a whole number", float: "a number", str: "text",
    NoneType: "None", None: "None", Path: "a path", os.PathLike: "a path", Callable: "a function",
    Any: "a value",
}  # fmt: skip


def described(kind: Any) -> str:
    """Return the words for a type in a message.

    >>> from collections.abc import Mapping, Sequence
    >>> described(Mapping[str, float]), described(Sequence[str])
    ('a mapping from text to a number', 'a list of text')
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return str(inner[1])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(described, inner)))
    if origin is Literal:
        return f"one of {listing(inner)}" if len(inner) > 1 else f"'{inner[0]}'"
    plain = origin or kind
    if plain in _WORDS:
        return _WORDS[plain]
    if isinstance(plain, type) and issubclass(plain, Mapping):
        if inner[1] is Any:
            return "a mapping with names as keys"
        return f"a mapping from {described(inner[0])} to {described(inner[1])}"
    if isinstance(plain, type) and origin is not None and issubclass(plain, Iterable):
        return f"a list of {described(inner[0])}" if inner else "a list"
    name = getattr(plain, "__name__", str(plain))
    return f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"
