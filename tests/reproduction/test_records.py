"""Records: read, checked, written."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from fotltn.errors import DataError
from reproduction.report.records import Record, read, record, write
from tests.reproduction.synthetic import grid, values


def lines(path, *rows):
    path.write_text("".join(f"{r if isinstance(r, str) else json.dumps(r)}\n" for r in rows))
    return path


def test_a_record_has_all_fields():
    one = record(values())
    assert one.key == ("CarPed35K", "FOT-LTN+BK", 0.1, 0)
    assert one.as_dict() == values()
    assert one.extra == {}


def test_what_may_be_missing():
    needed = ("data", "method", "fraction", "repetition", "seed", "pr_auc", "pr_auc_by", "chance")
    one = record({name: values()[name] for name in (*needed, "seconds")})
    assert one.kb_sat is None
    assert one.axioms == {}
    for name in (*needed, "seconds"):
        with pytest.raises(DataError, match=f"the field '{name}' is missing"):
            record({k: v for k, v in values().items() if k != name})


def test_null_is_missing_and_other_fields_are_kept():
    one = record(values(kb_sat=None, host="a", pr_auc_by={"Car": 0.75, "Ped": None}))
    assert one.kb_sat is None
    assert one.extra == {"host": "a"}
    assert one.pr_auc_by == {"Car": 0.75}
    assert one.as_dict()["host"] == "a"


def test_a_misspelt_field_is_found():
    wrong = {("kbsat" if k == "kb_sat" else k): v for k, v in values().items()}
    with pytest.raises(DataError, match=r"unknown field 'kbsat'\n.*did you mean 'kb_sat'\?"):
        record(wrong)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("data", "", "'data' is \"\"; expected a name"),
        ("method", 3, "'method' is 3; expected a name"),
        ("fraction", 10, "'fraction' is 10; expected a number between 0 and 1, such as 0.1"),
        ("fraction", True, "'fraction' is true; expected a number between 0 and 1"),
        ("repetition", -1, "'repetition' is -1; expected a whole number of at least 0"),
        ("repetition", 1.5, "'repetition' is 1.5; expected a whole number of at least 0"),
        ("seed", "x", "'seed' is \"x\"; expected a whole number of at least 0"),
        ("pr_auc", 1.1, "'pr_auc' is 1.1; expected a number from 0 to 1"),
        ("kb_sat", float("nan"), "'kb_sat' is NaN; expected a number from 0 to 1"),
        ("pr_auc_by", [1], "'pr_auc_by' is [1]; expected an object"),
        ("axioms", {"A1": "high"}, "'axioms.A1' is \"high\"; expected a number from 0 to 1"),
        ("seconds", -2, "'seconds' is -2; expected a number of at least 0"),
        ("batch", 0, "'batch' is 0; expected a whole number of at least 1"),
        ("setting", "x" * 80, f"'setting' is \"{'x' * 38}…; expected an object"),
        ("pr_auc", 0.7, "'pr_auc' is 0.7000, but the mean of its parts is 0.7500"),
        ("violation_rate", 0.5, "'violation_rate' is 0.5000, but the mean of its parts is 0.0100"),
        ("best_epoch", 201, "'best_epoch' is 201, after the last of 200"),
    ],
)  # fmt: skip
def test_wrong_values(field, value, message):
    with pytest.raises(DataError) as error:
        record(values(**{field: value}))
    assert message in str(error.value)


def test_rounding_is_forgiven():
    one = record(values(fraction=0.1 + 0.2, kb_sat=1.0000004, epochs=200.0))
    assert (one.fraction, one.kb_sat, one.epochs) == (0.3, 1.0, 200)


def test_the_last_duplicate_counts(tmp_path):
    path = lines(tmp_path / "runs.jsonl", values(seed=1), "", values(repetition=1), values(seed=2))
    found = read(path)
    assert [(one.repetition, one.seed) for one in found] == [(0, 2), (1, 7)]


def test_a_later_file_corrects_an_earlier_one(tmp_path):
    first = lines(tmp_path / "a.jsonl", values(seed=1))
    second = lines(tmp_path / "b.jsonl", values(seed=5))
    assert [one.seed for one in read(first, second)] == [5]
    assert [one.seed for one in read(second, first)] == [1]


def test_errors_name_file_and_line(tmp_path):
    path = lines(tmp_path / "runs.jsonl", values(), "", values(pr_auc=2), '{"data": "Car', "[1]")
    with pytest.raises(DataError) as error:
        read(path)
    assert [d.message.replace(f"{path}", "runs") for d in error.value.diagnostics] == [
        "runs:3: 'pr_auc' is 2; expected a number from 0 to 1",
        "runs:4: not JSON: unterminated string starting at",
        "runs:5: a record must be a JSON object, such as {…}",
    ]


def test_many_errors_are_cut(tmp_path):
    path = lines(tmp_path / "runs.jsonl", *[{}] * 13)
    with pytest.raises(DataError) as error:
        read(path)
    assert len(error.value.diagnostics) == 11
    assert error.value.diagnostics[-1].message == f"{path}: 3 more records are wrong"


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.parquet"])
def test_files_that_cannot_be_read(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(DataError, match=r"cannot read .*: No such file"):
        read(path)
    path.mkdir()
    with pytest.raises(DataError, match="cannot read"):
        read(path)
    path.rmdir()
    path.write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(DataError, match="cannot read"):
        read(path)
    with pytest.raises(DataError, match=r"must end in one of \.jsonl.* not 'runs\.txt'"):
        read(tmp_path / "runs.txt")


@pytest.mark.parametrize("name", ["runs.jsonl", "deep/runs.parquet"])
def test_writing_and_reading(tmp_path, name):
    found = (*grid(repetitions=2), record(values(data="x", kb_sat=None, note={"a": [1]}, tag="b")))
    path = write(found, tmp_path / name)
    assert read(path) == found
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_parquet_of_others(tmp_path):
    path = tmp_path / "runs.parquet"
    parquet.write_table(pa.Table.from_pylist([values(), values(repetition=1)]), path)
    assert read(path) == (record(values()), record(values(repetition=1)))
    parquet.write_table(pa.Table.from_pylist([values(), values(fraction=3.0)]), path)
    with pytest.raises(DataError, match=r"runs\.parquet, row 2: 'fraction' is 3\.0"):
        read(path)


def test_writing_where_one_cannot(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write"):
        write([record(values())], tmp_path / "file" / "runs.jsonl")
    with pytest.raises(DataError, match="must end in one of"):
        write([], tmp_path / "runs.csv")


def test_no_records_is_a_file_too(tmp_path):
    for name in ("runs.jsonl", "runs.parquet"):
        none: tuple[Record, ...] = ()
        assert read(write(none, tmp_path / name)) == ()
