"""TOML with places: typed keys, errors that point at the line, and writing it."""

import math
import tomllib
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fotltn.errors import DataError
from fotltn.project.toml import Range, Settings, parse_toml, show_toml

TEXT = """\
top = 1
[a]
word = "x"       # a comment
number = 2.5
"quoted key" = true
dotted.inner = [1, 2]
[[a.list]]
name = "first"
[[a.list]]
name = "second"
[a.list.below]
deep = 3
[inline]
table = {kind = "k", size = 4}
"""


def table() -> Settings:
    return parse_toml(TEXT, "f.toml")


def place(error: DataError) -> tuple[int, str]:
    """The line of an error, and what its carets stand under."""
    (found,) = error.diagnostics
    assert found.span is not None
    line, carets = found.span.excerpt().split("\n")
    begin, end = carets.index("^"), carets.rindex("^") + 1
    return found.span.line, line[begin:end]


PLACES = [
    (lambda t: t.error("top", "m"), 1, "top"),
    (lambda t: t.table("a").error(None, "m"), 2, "[a]"),
    (lambda t: t.table("a").error("word", "m"), 3, "word"),
    (lambda t: t.table("a").error("quoted key", "m"), 5, '"quoted key"'),
    (lambda t: t.table("a").table("dotted").error("inner", "m"), 6, "dotted.inner"),
    (lambda t: t.table("a").tables("list")[0].error("name", "m"), 8, "name"),
    (lambda t: t.table("a").tables("list")[1].error(None, "m"), 9, "[[a.list]]"),
    (lambda t: t.table("a").tables("list")[1].error("name", "m"), 10, "name"),
    (lambda t: t.table("a").tables("list")[1].table("below").error("deep", "m"), 12, "deep"),
    (lambda t: t.table("inline").table("table").error("size", "m"), 14, "table"),
    (lambda t: t.table("a").error("not there", "m"), 2, "[a]"),
]


@pytest.mark.parametrize(("make", "line", "text"), PLACES)
def test_errors_point_at_their_key(make, line, text):
    assert place(make(table())) == (line, text)


def test_what_is_nowhere_has_no_place():
    (found,) = table().table("missing").error(None, "m").diagnostics
    assert (found.span, found.message) == (None, "missing: m")


def test_tables_of_an_array_have_numbers():
    second = table().table("a").tables("list")[1]
    assert str(second.error("name", "wrong")).startswith(
        "f.toml:10:1: error: a.list[2].name: wrong"
    )


TEXTS, INTEGERS = tuple[str, ...], tuple[int, ...]
WRONG = [
    (str, None, 1, "expected text in quotes, not 1"),
    (str, None, True, "expected text in quotes, not true"),
    (int, None, 1.5, "expected a whole number, not 1.5"),
    (int, None, True, "expected a whole number, not true"),
    (int, Range(2), 1, "expected a whole number of at least 2, not 1"),
    (int, Range(0, 5), 6, "expected a whole number from 0 to 5, not 6"),
    (int, None, 10**50, "not a very long number"),
    (float, None, "2", "expected a number, not '2'"),
    (float, None, math.nan, "expected a number, not nan"),
    (float, None, math.inf, "expected a number of at least 0, not inf"),
    (float, None, 10**400, "expected a number of at least 0, not a very long number"),
    (float, Range(0, 1), 1.5, "expected a number from 0 to 1, not 1.5"),
    (bool, None, "yes", "expected true or false, not 'yes'"),
    (TEXTS, None, [1], "expected a list of texts, not [1]"),
    (TEXTS, None, {"a": "b"}, "expected a list of texts, not {'a': 'b'}"),
    (INTEGERS, None, [0], "expected a list of whole numbers of at least 1, not [0]"),
    (INTEGERS, None, [2**40], "expected a list of whole numbers of at least 1"),
    (INTEGERS, None, 3, "expected a list of whole numbers of at least 1, not 3"),
    (dict, None, 3, "expected a table, not 3"),
    (str, ("one", "two"), "tow", "unknown value 'tow'"),
    (Literal["one", "two"], None, "tow", "unknown value 'tow'"),
]


def settings(value) -> Settings:
    return Settings({"key": value}, (), parse_toml("", "f.toml").source, {})


@pytest.mark.parametrize(("kind", "rule", "value", "message"), WRONG)
def test_values_of_the_wrong_kind(kind, rule, value, message):
    for optional in (kind, kind | None):
        with pytest.raises(DataError) as found:
            settings(value).value("key", optional, None, rule)
        assert message in str(found.value)


@pytest.mark.parametrize("value", [{"a": 1}, [1]])
def test_tables_of_the_wrong_kind(value):
    with pytest.raises(DataError) as found:
        settings(value).tables("key")
    assert "expected tables, each as [[key]]" in str(found.value)


def test_infinite_numbers_where_they_are_allowed():
    assert settings(math.inf).value("key", float, 1, Range(1, infinite=True)) == math.inf


def test_keys_that_nobody_took_are_refused_with_the_nearest():
    given = parse_toml("epochs = 3\nepochz = 4\n", "f.toml")
    given.value("epochs", int, 1)
    with pytest.raises(DataError) as found:
        given.finish()
    assert str(found.value) == (
        "f.toml:2:1: error: unknown key 'epochz'\n"
        "    2 | epochz = 4\n      | ^^^^^^\n      = did you mean 'epochs'?"
    )


BROKEN = {
    "[a": (1, "not TOML: "),
    "a = \n": (1, "not TOML: Invalid value"),
    "a = 1\na = 2\n": (2, "not TOML: Cannot overwrite a value"),
    "a = 'x": (1, "not TOML: "),
    "ok = 1\n\n= 3": (3, "not TOML: "),
    "a = " + "9" * 5000: (1, "not TOML: "),
    "\0": (1, "not TOML: "),
}


@pytest.mark.parametrize("text", BROKEN)
def test_what_is_not_toml(text):
    with pytest.raises(DataError) as found:
        parse_toml(text, "f.toml")
    line, message = BROKEN[text]
    (diagnostic,) = found.value.diagnostics
    assert diagnostic.message.startswith(message)
    assert diagnostic.span is not None
    assert diagnostic.span.line == line


def test_what_is_nested_too_deeply():
    with pytest.raises(DataError, match="nested too deeply"):
        parse_toml("a = " + "[" * 10_000, "f.toml")


# --- writing ----------------------------------------------------------------------------------

plain = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
values = plain | st.lists(plain, max_size=3)
keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
tables = st.recursive(
    st.dictionaries(keys, values, max_size=3),
    lambda inner: st.dictionaries(
        keys, values | inner | st.lists(inner, min_size=1, max_size=2), max_size=3
    ),
    max_leaves=8,
)


def without_empty(value):
    """Tables without keys are left out; those in arrays are kept."""
    if isinstance(value, dict):
        found = {k: without_empty(v) for k, v in value.items()}
        return {k: v for k, v in found.items() if v != {}}
    if isinstance(value, list):
        return [without_empty(v) for v in value]
    return value


@given(tables)
def test_what_is_written_is_read_back(value):
    assert without_empty(tomllib.loads(show_toml(value))) == without_empty(value)


def test_other_values_cannot_be_written():
    with pytest.raises(DataError, match="'set' cannot be written"):
        show_toml({"a": {1, 2}})
    assert show_toml({"a": None, "b": 1}) == "b = 1\n"
