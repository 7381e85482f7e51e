"""Every bad file and row is refused, with its place, its value and what was expected."""

import gzip
import hashlib
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from fotltn import DataError
from fotltn.grounding.facts import read_facts
from fotltn.grounding.read import UNPACKED, read_batches, read_file
from fotltn.logic.check import check
from fotltn.syntax.load import parse_theory
from tests.grounding.common import SIGNATURE, write

KNOWN = "declared: 'Car', 'Stop', 'Close', 'Rain', 'owner', 'width', 'at', 'speed', 'pairs'"
COLUMNS = "facts have the columns predicate, arg1, arg2, …, time, truth"
WHOLE, DEGREE, FINITE = "a whole number of at least 0", "a degree from 0 to 1", "a finite number"
STATIC = "leave it empty, or declare 'Car' without 'static'"


def message(paths: list[Path], **options: Any) -> str:
    """The error's text, with files as bare names."""
    with pytest.raises(DataError) as found:
        read_facts(paths, SIGNATURE, **options)
    text = str(found.value)
    for path in paths:
        text = text.replace(f"{path.parent}/", "")
    return text


# What follows the header 'predicate,arg1,arg2,time,truth' unless it brings its own, and the
# complaint about it; '~' begins the hint.
BAD = {
    "unknown predicate": ("Stpo,a,,0,", "f.csv:2: unknown predicate 'Stpo'~did you mean 'Stop'?"),
    "unknown in several rows": (
        "Car,a,,,\nStpo,a,,0,\nStpo,b,,0,\nStpo,c,,0,",
        "f.csv:3: unknown predicate 'Stpo' (and 2 more rows)~did you mean 'Stop'?",
    ),
    "unknown, wrong case": (
        "rain,,,0,",
        "f.csv:2: unknown predicate 'rain'~did you mean 'Rain'?",
    ),
    "unknown, nothing near": ("Quux,a,,0,", f"f.csv:2: unknown predicate 'Quux'~{KNOWN}"),
    "a constant is no predicate": ("ego,a,,0,", f"f.csv:2: unknown predicate 'ego'~{KNOWN}"),
    "no predicate": (",a,,0,", "f.csv:2: the predicate is missing"),
    "a predicate of spaces": ("  ,a,,0,", "f.csv:2: the predicate is missing"),
    "after an empty line": ("\nCar,a,,,\n\n,b,,,", "f.csv:5: the predicate is missing"),
    "missing column": (
        "predicates,arg1\nStop,a",
        f"f.csv: no column 'predicate' (found 'predicates', 'arg1')~{COLUMNS}",
    ),
    "semicolons": (
        "predicate;arg1;time\nStop;a;0",
        "cannot read f.csv: its cells seem to be separated by semicolons~save the file with commas "
        "between cells and points in numbers, or with tabs as .tsv",
    ),
    "doubled column": ("predicate,arg1,arg1\nCar,a,a", "f.csv: the column 'arg1' occurs twice"),
    "unknown column": (
        "predicate,arg1,tiem\nStop,a,0",
        "f.csv: unknown column 'tiem'~did you mean 'time'?",
    ),
    "unknown column, nothing near": (
        "predicate,arg1,weight\nCar,a,2",
        f"f.csv: unknown column 'weight'~{COLUMNS}, trace, value",
    ),
    **{
        f"times in the column {n}": (
            f"predicate,arg1,{n}\nStop,a,2024-01-01",
            f"f.csv: unknown column '{n}'~the column of times is called 'time'; if '{n}' is one, "
            "rename it",
        )
        for n in ("timestamp", "date", "DateTime", "time stamp")
    },
    "two columns of times": (
        "predicate,arg1,time,date\nStop,a,0,2024-01-01",
        "f.csv: unknown column 'date'~the column of times is called 'time'; there is one already",
    ),
    "too many arguments": (
        "Stop,a,b,0,",
        "f.csv:2: 'Stop' takes 1 argument, but arg2 is 'b'",
    ),
    "an argument of a nullary predicate": (
        "Rain,a,,0,",
        "f.csv:2: 'Rain' takes 0 arguments, but arg1 is 'a'",
    ),
    "too few arguments": ("Close,a,,0,", "f.csv:2: 'Close' needs arg2 (of sort agent)"),
    "no first argument": ("Close,,b,0,", "f.csv:2: 'Close' needs arg1 (of sort agent)"),
    "an argument of spaces": ("Stop,  ,,0,", "f.csv:2: 'Stop' needs arg1 (of sort agent)"),
    "no column for an argument": (
        "predicate,arg1,time\nCar,a,\nClose,a,0",
        "f.csv:3: 'Close' needs the column 'arg2' (agent)",
    ),
    "arguments begin with arg1": (
        "predicate,arg0,arg1\nCar,a,b",
        "f.csv:2: 'Car' takes 1 argument, but arg0 is 'a'",
    ),
    "no time": ("Stop,a,,,", f"f.csv:2: 'Stop' has no time; expected {WHOLE}"),
    "no column for the time": (
        "predicate,arg1\nStop,a",
        "f.csv:2: 'Stop' changes over time and needs a time",
    ),
    **{
        f"time {t}": (f"Stop,a,,{t},", f"f.csv:2: 'Stop' has the time '{t}'; expected {WHOLE}")
        for t in ("1.5", "-1", "soon", "1e300", "2147483648", "nan", "inf", "true", "0x1", "1_0")
    },
    "static with a time": ("Car,a,,0,", f"f.csv:2: 'Car' is static, but has time 0~{STATIC}"),
    **{
        f"truth {t}": (f"Stop,a,,0,{t}", f"f.csv:2: 'Stop' has the truth '{t}'; expected {DEGREE}")
        for t in ("nan", "1.5", "-0.1", "high", "inf", "-inf", "50%", "1.0000001", "NA")
    },
    "truth with a decimal comma": (
        'Stop,a,,0,"0,5"',
        f"f.csv:2: 'Stop' has the truth '0,5'; expected {DEGREE}",
    ),
    "a function without a value": (
        "predicate,arg1,value\nowner,a,",
        "f.csv:2: 'owner' has no value; expected an entity of sort 'agent'",
    ),
    "a function without a number": (
        "predicate,arg1,value\nwidth,a,",
        f"f.csv:2: 'width' has the value ''; expected {FINITE}",
    ),
    "no column for a value": (
        "owner,a,,,",
        "f.csv:2: the function 'owner' needs the column 'value'",
    ),
    **{
        f"value {v}": (
            f"predicate,arg1,value\nwidth,a,{v}",
            f"f.csv:2: 'width' has the value '{v}'; expected {FINITE}",
        )
        for v in ("wide", "nan", "inf", "1e999", "true")
    },
    "truth of a function": (
        "predicate,arg1,truth,value\nowner,a,1,b",
        "f.csv:2: 'owner' is a function and takes no 'truth'",
    ),
    "value of a predicate": (
        "predicate,arg1,value\nCar,a,1",
        "f.csv:2: 'Car' is a predicate and takes no 'value'",
    ),
    "value of a relation": (
        "predicate,arg1,arg2,value\npairs,a,b,1",
        "f.csv:2: 'pairs' is a relation and takes no 'value'",
    ),
    "truth of a relation": ("pairs,a,b,,0", "f.csv:2: 'pairs' is a relation and takes no 'truth'"),
    "a relation with a trace": (
        "predicate,arg1,arg2,trace\npairs,a,b,\npairs,a,b,one",
        "f.csv:3: 'pairs' is a relation and takes no 'trace'",
    ),
    "one of several traces is missing": (
        "predicate,arg1,time,trace\nStop,a,0,one\nStop,a,0,two\nStop,a,0,\nRain,,0,one",
        "f.csv:4: 'Stop' has no trace, but other facts have one",
    ),
    "row too long": (
        "Car,a,,,\nCar,a,,,1,2",
        "cannot read f.csv: CSV parse error: Row #3: Expected 5 columns, got 6: Car,a,,,1,2",
    ),
    "row too short": (
        "Car,a,,,\nCar,a",
        "cannot read f.csv: CSV parse error: Row #3: Expected 5 columns, got 2: Car,a",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_rows(tmp_path, case):
    text, wanted = BAD[case]
    if text.startswith("predicates"):
        (tmp_path / "f.csv").write_text(text)
    else:
        write(tmp_path, text + "\n")
    assert message([tmp_path / "f.csv"]) == "error: " + wanted.replace("~", "\n      = ")


def test_times_of_relations_and_functions_have_fitting_hints(tmp_path):
    """Neither is declared with the word 'static'."""
    error = message([write(tmp_path, "pairs,a,b,0,\n")])
    assert "f.csv:2: 'pairs' " in error
    assert "without 'static'" not in error
    error = message([write(tmp_path, "predicate,arg1,time,value\nowner,a,0,b\n")])
    assert "f.csv:2: 'owner' is static, but has time 0" in error
    assert "'temporal'" in error


def test_header_is_in_no_row(tmp_path):
    """A place is a line of a text file, and a row of a Parquet file."""
    cells = {"predicate": ["Car", "Stpo"], "arg1": ["a", "b"]}
    parquet.write_table(pa.table(cells), tmp_path / "f.parquet")
    error = "error: f.parquet, row 2: unknown predicate 'Stpo'\n      = did you mean 'Stop'?"
    assert message([tmp_path / "f.parquet"]) == error


@pytest.mark.parametrize(
    ("column", "cells", "complaint"),
    [
        ("time", [0.0, 1.5], f"'Stop' has the time '1.5'; expected {WHOLE}"),
        ("time", [0, None], f"'Stop' has no time; expected {WHOLE}"),
        ("time", [0.0, float("nan")], f"'Stop' has the time 'nan'; expected {WHOLE}"),
        ("truth", [0.0, float("nan")], f"'Stop' has the truth 'nan'; expected {DEGREE}"),
        ("truth", [0, 2], f"'Stop' has the truth '2'; expected {DEGREE}"),
        ("arg1", ["a", ""], "'Stop' needs arg1 (of sort agent)"),
    ],
)
def test_bad_parquet_cells(tmp_path, column, cells, complaint):
    table = {"predicate": ["Stop"] * 2, "arg1": ["a", "b"], "time": [0, 0], column: cells}
    parquet.write_table(pa.table(table), tmp_path / "f.parquet")
    assert message([tmp_path / "f.parquet"]) == f"error: f.parquet, row 2: {complaint}"


def test_doubled_parquet_column(tmp_path):
    arrays = [pa.array(["Car"]), pa.array(["a"]), pa.array(["a"])]
    table = pa.Table.from_arrays(arrays, names=["predicate", "arg1", "arg1"])
    parquet.write_table(table, tmp_path / "f.parquet")
    error = message([tmp_path / "f.parquet"])
    assert error == "error: f.parquet: the column 'arg1' occurs twice"


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([["a"]], "list<element: string>"),
        ([{"a": 1}], "struct<a: int64>"),
        ([b"a"], "binary"),
        (pa.array([0], pa.timestamp("us")), "timestamp[us]"),
    ],
)
def test_parquet_columns_that_are_neither_text_nor_numbers(tmp_path, cells, kind):
    parquet.write_table(pa.table({"predicate": ["Car"], "arg1": cells}), tmp_path / "f.parquet")
    wanted = f"cannot read f.parquet: column 'arg1' has the type {kind}, not text or numbers"
    assert message([tmp_path / "f.parquet"]) == f"error: {wanted}"


def test_a_parquet_column_of_time_stamps_is_not_called_time(tmp_path):
    """Only beside the time is a column `timestamp` left unread, as in predictions."""
    stamps = pa.array([0], pa.timestamp("us"))
    facts = pa.table({"predicate": ["Stop"], "arg1": ["a"], "timestamp": stamps})
    parquet.write_table(facts, tmp_path / "f.parquet")
    assert message([tmp_path / "f.parquet"]).startswith(
        "error: f.parquet: unknown column 'timestamp'\n      = the column of times is called 'time'"
    )
    parquet.write_table(facts.append_column("time", [[0]]), tmp_path / "f.parquet")
    assert read_facts([tmp_path / "f.parquet"], SIGNATURE).lengths == (1,)


SUFFIXES = ".csv, .tsv, .csv.gz, .tsv.gz, .parquet, .pq, .sql"
FILES = {
    "empty.csv": (b"", "it is empty; the first line must name the columns"),
    "blank.csv": (b"\n\n", "it is empty; the first line must name the columns"),
    "mark.csv": (b"\xef\xbb\xbf", "it is empty; the first line must name the columns"),
    "empty.csv.gz": (gzip.compress(b""), "it is empty; the first line must name the columns"),
    "tabs.csv": (
        b"hive\tweight\nAlder\t27.8\n",
        "its cells seem to be separated by tabs\n"
        "      = rename the file, so that its name ends in .tsv",
    ),
    "commas.tsv": (
        b"hive,weight\nAlder,27.8\n",
        "its cells seem to be separated by commas\n"
        "      = rename the file, so that its name ends in .csv",
    ),
    "facts.txt": (b"predicate\n", f"the name must end in one of {SUFFIXES}"),
    "facts": (b"predicate\n", f"the name must end in one of {SUFFIXES}"),
    "csv": (b"predicate\n", f"the name must end in one of {SUFFIXES}"),
    "latin.csv": (
        b"predicate,arg1\nCar,a\nCar,\xe9\n",
        "In CSV column #1: Row #3: CSV conversion error to string: invalid UTF8 data",
    ),
    "plain.csv.gz": (b"predicate\n", "zlib inflate failed: incorrect header check"),
    "cut.csv.gz": (gzip.compress(b"predicate\n")[:-9], "Truncated compressed stream"),
}


@pytest.mark.parametrize("name", FILES)
def test_bad_files(tmp_path, name):
    content, wanted = FILES[name]
    (tmp_path / name).write_bytes(content)
    assert message([tmp_path / name]) == f"error: cannot read {name}: {wanted}"


@pytest.mark.parametrize("batches", [False, True])
def test_a_packed_file_that_becomes_too_large(tmp_path, batches):
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"predicate\n" + b"\n" * UNPACKED * 2))
    same = pa.DictionaryArray.from_arrays(pa.array(np.zeros(UNPACKED * 2, np.int32)), ["Rain"])
    parquet.write_table(pa.table({"predicate": same}), tmp_path / "bomb.parquet")
    for name, hint in {
        "bomb.csv.gz": "unpack it, and read the plain one",
        "bomb.parquet": "write it as CSV, which is not packed",
    }.items():
        with pytest.raises(DataError) as refused:
            list(read_batches(tmp_path / name)) if batches else read_file(tmp_path / name)
        assert re.fullmatch(
            rf"error: cannot read .*{name}: [\d,]+ packed bytes become more than [\d,]+; at most "
            r"32 MiB and 100 times the packed bytes are read\n"
            rf"      = if the file is right, {hint}",
            str(refused.value),
        )


def test_a_packed_file_that_is_large_but_no_bomb(tmp_path):
    lines = [f"Car,{hashlib.sha256(str(i).encode()).hexdigest()}\n" for i in range(2**19)]
    text = "predicate,arg1\n" + "".join(lines)
    assert len(text) > UNPACKED
    (tmp_path / "large.csv.gz").write_bytes(gzip.compress(text.encode(), 1))
    _, table = read_file(tmp_path / "large.csv.gz")
    assert table.num_rows == len(lines)


def test_a_missing_file_and_a_folder(tmp_path):
    assert message([tmp_path / "no.csv"]) == "error: cannot read no.csv: no such file"
    (tmp_path / "d.csv").mkdir()
    wanted = "error: cannot read d.csv: it is a folder, not a file"
    assert message([tmp_path / "d.csv"]) == wanted


def test_a_name_that_no_file_can_have(tmp_path):
    name = "a" * 300 + ".csv"
    assert message([tmp_path / name]).startswith(f"error: cannot read {name}: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
@pytest.mark.parametrize("name", ["f.csv", "f.csv.gz", "f.parquet"])
def test_unreadable_files(tmp_path, name):
    (tmp_path / name).write_bytes(b"predicate\n")
    (tmp_path / name).chmod(0)
    error = message([tmp_path / name])
    assert error.startswith(f"error: cannot read {name}: ")
    assert error.endswith("Permission denied")


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"predicate,arg1\n", b"PAR1" + bytes(50) + b"PAR1"]
)
def test_corrupt_parquet(tmp_path, content):
    (tmp_path / "f.parquet").write_bytes(content)
    assert message([tmp_path / "f.parquet"]).startswith("error: cannot read f.parquet: ")


@pytest.mark.parametrize("name", ["f.csv", "f.parquet"])
def test_column_names_that_are_not_utf8(tmp_path, name):
    file = tmp_path / name
    if name.endswith(".csv"):
        file.write_bytes(b"predicate,ar\xff1\nCar,a\n")
    else:
        table = pa.table({"predicate": ["Car"], "arg1": ["a"]})
        parquet.write_table(table, file, store_schema=False)
        file.write_bytes(file.read_bytes().replace(b"arg1", b"ar\xff1"))
    assert message([file]).startswith(f"error: cannot read {name}: ")


def test_horizon(tmp_path):
    file = write(tmp_path, "Stop,a,,1,\nStop,a,,5,\n")
    assert read_facts([file], SIGNATURE, horizon=6).lengths == (6,)
    for horizon in (0, -1):
        wanted = f"error: the horizon must be at least 1, not {horizon}"
        assert message([file], horizon=horizon) == wanted
    error = message([file], horizon=3)
    assert "5" in error
    assert "beyond the horizon of 3 time points" in error
    assert "f.csv:3" in error


def test_contradictions_name_both_places(tmp_path):
    hint = "\n      = a fact has one truth value: remove one of the two rows"
    file = write(tmp_path, "Stop,a,,0,1\nStop,b,,0,\nStop,a,,0,0.5\n")
    assert message([file]) == f"error: f.csv:4: 'Stop' is 0.5 here, but 1 at f.csv:2{hint}"
    other = tmp_path / "g.parquet"
    parquet.write_table(pa.table({"predicate": ["Car"], "arg1": ["a"], "truth": [0]}), other)
    file = write(tmp_path, "Car,b,,,\nCar,a,,,\n")
    wanted = f"error: g.parquet, row 1: 'Car' is 0 here, but 1 at f.csv:3{hint}"
    assert message([file, other]) == wanted


def test_a_contradiction_in_every_trace_is_one(tmp_path):
    text = "predicate,arg1,time,truth,trace\nStop,a,0,,one\nStop,a,0,,two\nCar,a,,1,\nCar,a,,0,\n"
    error = message([write(tmp_path, text)])
    assert error.count("f.csv:5: 'Car' is 0 here, but 1 at f.csv:4") == 1


def test_contradicting_functions_show_their_values(tmp_path):
    """Entities by name, and numbers with the digits in which they differ."""
    header = "predicate,arg1,time,value\n"
    error = message([write(tmp_path, f"{header}at,a,0,home\nat,a,0,work\n")])
    assert error.startswith("error: f.csv:3: 'at' is ")
    assert "home" in error
    assert "work" in error
    error = message([write(tmp_path, f"{header}speed,a,0,1.00000001\nspeed,a,0,1\n")])
    assert "f.csv:3: 'speed' is 1 here, but 1.00000001 at f.csv:2" in error


def test_errors_come_in_the_order_of_rows(tmp_path):
    text = "Stop,a,,x,9\nfoo,a,,,\nCar,a,,1,\nStop,a,b,0,1\nClose,a,,0,1\nCar,,,,1\n"
    lines = [line for line in message([write(tmp_path, text)]).splitlines() if "=" not in line]
    assert [line.split(": ")[1] for line in lines] == [
        "f.csv:2",
        "f.csv:2",
        *(f"f.csv:{n}" for n in range(3, 8)),
    ]


def test_errors_come_in_the_order_of_files(tmp_path):
    """Contradictions too, though they are found last."""
    first = write(tmp_path, "Stop,a,,0,1\nStop,a,,0,0\n", "1.csv")
    second = write(tmp_path, "Car,a,,7,\n", "2.csv")
    error = message([first, second])
    assert error.index("1.csv:3") < error.index("2.csv:2")


def test_a_line_is_counted_as_an_editor_counts_it(tmp_path):
    file = write(tmp_path, 'Stop,"two\nlines",,0,1\nStop,b,,x,1\n')
    assert message([file]) == f"error: f.csv:4: 'Stop' has the time 'x'; expected {WHOLE}"


@pytest.mark.parametrize("count", [20, 21, 5000])
def test_many_errors_are_cut(tmp_path, count):
    file = write(tmp_path, "".join(f"Stop,a,,x{i},\n" for i in range(count)))
    lines = message([file]).splitlines()
    shown = min(count, 20)
    assert lines[:shown] == [
        f"error: f.csv:{i + 2}: 'Stop' has the time 'x{i}'; expected {WHOLE}" for i in range(shown)
    ]
    rest = [f"error: {count - 20} more errors are not shown"] if count > 20 else []
    assert lines[shown:] == rest


def test_the_first_errors_are_shown_however_many_there_are(tmp_path):
    file = write(tmp_path, "Stop,a,,0,\nCar,a,,7,\n" + "Stop,a,,x,\n" * 2100)
    lines = message([file]).splitlines()
    assert lines[0] == "error: f.csv:3: 'Car' is static, but has time 7"
    assert lines[-1] == "error: 2081 more errors are not shown"


def test_a_bad_row_far_down_a_long_file(tmp_path):
    good = "".join(f"Stop,a{i},,0,1\n" for i in range(100_000))
    assert "f.csv:100002: 'Stop' has the time 'x'" in message(
        [write(tmp_path, good + "Stop,a,,x,\n")]
    )
    assert "Row #100002: Expected 5 columns" in message([write(tmp_path, good + "Stop,a\n" + good)])


@pytest.mark.reliability
@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("x" * 131_073, "the names of its columns: field larger than field limit (131072)"),
        ('predicate,"' + "x" * 200_000, "the names of its columns: field larger than"),
        ("predicate," + ",".join(["x" * 1000] * 2000), "first line has more than 1,048,576 bytes"),
    ],
    ids=["a long name", "a quote that does not end", "many names"],
)
@pytest.mark.parametrize("rows", ["", "\nCar,a\n"])
def test_an_endless_header_is_refused(tmp_path, header, wanted, rows):
    path = tmp_path / "f.csv"
    path.write_text(header + rows)
    assert wanted in message([path])


# --- names of two sorts ---------------------------------------------------------------------------


def warnings_of(pairs: list[tuple[str, str]]) -> list[str]:
    signature = check(parse_theory("sort s, r\nstatic predicate In(s, r)")).signature
    one, other = ([*column] for column in zip(*pairs, strict=True))
    table = {"predicate": ["In"] * len(pairs), "arg1": one, "arg2": other}
    return [warning.message for warning in read_facts([table], signature).warnings]


def test_a_few_names_of_two_sorts_are_told():
    pairs = [(f"s{n}", f"r{n % 3}") for n in range(30)]
    assert warnings_of(pairs) == []
    assert warnings_of([*pairs, ("r1", "s3")]) == [
        "'r1', 's3' are both of sort 's' and of sort 'r'"
    ]


@pytest.mark.parametrize("name", ["{}", "x{}"])
def test_numbers_and_whole_sorts_may_be_names_of_two_sorts(name):
    assert warnings_of([(name.format(n), name.format(n % 3)) for n in range(40)]) == []
