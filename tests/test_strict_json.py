"""One reader of JSON for all: every key once, finite numbers, text that can be written again."""

import ast
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from fotltn.errors import DataError, shown
from fotltn.learn.store import read_folder
from fotltn.monitor.steps import InputLine, read_line
from fotltn.project.train import check_target
from fotltn.strict_json import MAX_DIGITS, JsonError, read_json
from reproduction.paper.sweep import done
from reproduction.report.records import read, record
from tests.learn.common import write
from tests.learn.test_store_damage import forged

PACKAGE = Path(__file__).resolve().parents[1] / "fotltn"
TWICE = '{"facts": [["Stop", "ego"]], "facts": []}'


def test_what_is_json_is_read():
    value = {"a": [1, -2.5, None, True, {"é": "\U0001f600 \x7f"}], "b": {"a": 1}, "c": 10**600}
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only)
        assert read_json(text) == read_json(text.encode()) == value


@pytest.mark.reliability
@pytest.mark.parametrize(
    ("text", "reason", "offset"),
    [
        (TWICE, "the key 'facts' occurs twice", None),
        ('[{"a": {"b": 1, "c": 2, "b": 1}}]', "the key 'b' occurs twice", None),
        ('{"a": 1, "\\u0061": 2}', "the key 'a' occurs twice", None),
        ("[NaN]", "NaN is not a number in JSON", None),
        ("-Infinity", "-Infinity is not a number in JSON", None),
        ("7" * 4301, "a number has 4,301 digits; at most 640 are read", None),
        ('["\\ud800"]', "a text in it has half of a surrogate pair", None),
        ("\ufeff{}", "it begins with a byte-order mark", 0),
        ("[" * 100_000, "it is nested too deeply", None),
        ("[" * 100_000 + "]" * 100_000, "it is nested too deeply", None),
        ("[1, 2", "expecting ',' delimiter", 5),
        ("", "expecting value", 0),
        (b"\xff", "it is not UTF-8 (byte 0)", None),
    ],
)
def test_what_is_no_json_or_loses_something_is_refused(text, reason, offset):
    with pytest.raises(JsonError) as caught:
        read_json(text)
    assert (caught.value.reason, caught.value.offset) == (reason, offset)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.reason) == (str(caught.value), reason)


@pytest.mark.reliability
def test_the_longest_number_is_read_whatever_the_limit_of_python():
    before = sys.get_int_max_str_digits()
    try:
        for limit in (0, 640, 10_000):
            sys.set_int_max_str_digits(limit)
            assert read_json("9" * MAX_DIGITS) == 10**MAX_DIGITS - 1
            with pytest.raises(JsonError, match="641 digits"):
                read_json("9" * (MAX_DIGITS + 1))
    finally:
        sys.set_int_max_str_digits(before)


def test_many_keys_are_read_in_one_pass():
    keys = ", ".join(f'"k{i}": 0' for i in range(100_000))
    assert len(read_json(f"{{{keys}}}")) == 100_000
    with pytest.raises(JsonError, match="'k0' occurs twice"):
        read_json(f'{{{keys}, "k0": 1}}')


def calls_of_json(code: str) -> list[int]:
    """The lines where a module reads JSON by itself."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Attribute)
        and node.attr in ("load", "loads", "JSONDecoder")
        and isinstance(node.value, ast.Name)
        and node.value.id == "json"
    ]


@pytest.mark.reliability
def test_nothing_else_in_the_package_reads_json():
    """But for the text between quotes in formulas, which has no keys."""
    assert calls_of_json("import json\njson.loads('1')") == [2]
    readers = {
        str(file.relative_to(PACKAGE))
        for file in PACKAGE.rglob("*.py")
        if calls_of_json(file.read_text("utf-8"))
    }
    assert readers == {"strict_json.py", "syntax/build.py"}


# --- those who use it ------------------------------------------------------------------------


@pytest.mark.reliability
def test_a_step_with_a_key_twice_is_refused():
    with pytest.raises(
        DataError, match=r"steps:3:1: error: this is not JSON: the key 'facts' occurs"
    ):
        read_line(InputLine("steps", 3, TWICE))


@pytest.mark.reliability
def test_a_step_with_an_endless_number_is_refused():
    text = f'{{"facts": [["Stop", "ego", {"1" * 4301}]]}}'
    with pytest.raises(DataError, match="this is not JSON: a number has 4,301 digits"):
        read_line(InputLine("steps", 1, text))


@pytest.mark.reliability
def test_a_document_with_a_key_twice_is_refused(tmp_path):
    folder = write(tmp_path / "m")
    forged(folder, "config.json", b'{"a": 1, "a": 2}')
    with pytest.raises(DataError, match=r"config.json: it is not JSON: the key 'a' occurs twice"):
        read_folder(folder, kind="model")


@pytest.mark.reliability
def test_a_manifest_with_a_key_twice_is_refused(tmp_path):
    folder = write(tmp_path / "m")
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"kind"', '"kind": "model",\n "kind"', 1))
    with pytest.raises(DataError, match="the key 'kind' occurs twice"):
        read_folder(folder, kind="model")
    with pytest.raises(DataError, match="the key 'kind' occurs twice"):
        check_target(folder)


RUN: dict[str, Any] = {
    "data": "CarPed35K", "method": "HTGNN", "fraction": 0.1, "repetition": 0, "seed": 1,
    "pr_auc": 0.6, "pr_auc_by": {"Car": 0.5, "Ped": 0.7}, "chance": 0.5, "seconds": 2.0,
}  # fmt: skip


@pytest.mark.reliability
def test_a_record_with_a_key_twice_is_refused(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(RUN).replace('"seed"', '"seed": 7, "seed"') + "\n")
    with pytest.raises(DataError, match=r"runs.jsonl:1: not JSON: the key 'seed' occurs twice"):
        read(path)
    with pytest.raises(DataError, match=r"runs.jsonl:1: .*the key 'seed' occurs twice"):
        done(path, {})


@pytest.mark.reliability
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("pr_auc_by", [("Car", 0.5), ("Car", 0.7)], "row 1: the key 'Car' occurs twice"),
        ("setting", '{"p": 1, "p": 2}', "row 1: the key 'p' occurs twice"),
    ],
)
def test_a_row_with_a_key_twice_is_refused(tmp_path, column, value, message):
    row = {**RUN, "pr_auc_by": list(RUN["pr_auc_by"].items()), column: value}
    kinds = {"pr_auc_by": pa.map_(pa.string(), pa.float64())}
    table = pa.table({n: pa.array([v], kinds.get(n)) for n, v in row.items()})
    parquet.write_table(table, tmp_path / "runs.parquet")
    with pytest.raises(DataError, match=message):
        read(tmp_path / "runs.parquet")


@pytest.mark.reliability
@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize("field", ["pr_auc", "seconds", "seed", "data", "setting"])
def test_a_record_with_an_endless_number_is_refused(field, digits):
    with pytest.raises(DataError, match=f"'{field}' is"):
        record({**RUN, field: 10**digits})


def test_values_in_messages_are_short():
    assert shown(10**5000) == "a very long number"
    assert shown([10**5000]) == "a value of type list"
    assert shown("x" * 1000) == "'" + "x" * 58 + "…"
    assert shown(True) == "true"
