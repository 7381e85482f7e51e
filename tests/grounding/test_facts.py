"""What files of facts say, in every format."""

import gzip

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from fotltn.grounding.facts import read_facts
from tests.grounding.common import SIGNATURE, plain, read, rows, write

# predicate, arg1, arg2, time, truth, trace, value: entities are numbers, so that each column has a
# typed form in Parquet.
HEADER = ["predicate", "arg1", "arg2", "time", "truth", "trace", "value"]
ROWS = [
    ["Car", "7", "", "", "", "1", ""],
    ["Stop", "7", "", "0", "0.25", "1", ""],
    ["Stop", "8", "", "2", "1", "2", ""],
    ["Close", "7", "9", "1", "0.1", "1", ""],
    ["speed", "7", "", "1", "", "2", "0.1"],
    ["width", "8", "", "", "", "1", "-2.5"],
    ["pairs", "9", "8", "", "", "", ""],
]
WANTED = {
    "traces": ("1", "2"),
    "entities": {"agent": ("7", "8", "9", "ego"), "place": ()},
    "lengths": (2, 3),
    "warnings": [],
    "rows": {
        "Car": [("1", ("7",), -1, 1.0)],
        "Stop": [("1", ("7",), 0, 0.25), ("2", ("8",), 2, 1.0)],
        "Close": [("1", ("7", "9"), 1, 0.1)],
        "speed": [("2", ("7",), 1, 0.1)],
        "width": [("1", ("8",), -1, -2.5)],
        "pairs": [("1", ("9", "8"), -1, 1.0)],
    },
}


def joined(delimiter: str) -> str:
    return "\n".join(delimiter.join(row) for row in [HEADER, *ROWS]) + "\n"


def columns(convert: dict[str, type]) -> dict[str, pa.Array]:
    return {
        name: pa.array([convert.get(name, str)(cell) if cell else None for cell in cells])
        for name, cells in zip(HEADER, zip(*ROWS, strict=True), strict=True)
    }


STRINGS = columns({})
NUMBERS = columns(
    {"arg1": int, "arg2": int, "time": int, "truth": float, "trace": int, "value": float}
)
TABLES = {
    "strings": STRINGS,
    "large strings": {n: c.cast(pa.large_string()) for n, c in STRINGS.items()},
    "numbers": NUMBERS,
    "small numbers": NUMBERS | {n: NUMBERS[n].cast(pa.uint8()) for n in ("arg1", "arg2", "time")},
    "whole floats": NUMBERS | {n: NUMBERS[n].cast(pa.float64()) for n in ("arg1", "time")},
    "dictionaries": {n: c.dictionary_encode() for n, c in NUMBERS.items()},
}


@pytest.mark.parametrize("name", ["f.csv", "f.tsv", "f.csv.gz", "f.tsv.gz", "F.CSV"])
def test_text_formats(tmp_path, name):
    text = joined("\t" if ".tsv" in name else ",").encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert plain(read_facts([tmp_path / name], SIGNATURE)) == WANTED


def test_line_ends_and_byte_order_mark(tmp_path):
    text = "\ufeff" + joined(",").replace("\n", "\r\n")
    (tmp_path / "f.csv").write_bytes(text.encode())
    assert plain(read_facts([tmp_path / "f.csv"], SIGNATURE)) == WANTED


def test_the_last_line_needs_no_end(tmp_path):
    assert plain(read(tmp_path, joined(",").rstrip("\n"))) == WANTED


def test_columns_in_any_order(tmp_path):
    order = [4, 2, 6, 0, 5, 3, 1]
    text = "\n".join(",".join(row[i] for i in order) for row in [HEADER, *ROWS]) + "\n"
    (tmp_path / "f.csv").write_text(text)
    assert plain(read_facts([tmp_path / "f.csv"], SIGNATURE)) == WANTED


@pytest.mark.parametrize("suffix", [".parquet", ".pq"])
@pytest.mark.parametrize("kind", TABLES)
def test_parquet_columns(tmp_path, kind, suffix):
    file = tmp_path / f"f{suffix}"
    parquet.write_table(pa.table(TABLES[kind]), file, row_group_size=3)
    assert plain(read_facts([file], SIGNATURE)) == WANTED


def test_truth_as_booleans_and_words(tmp_path):
    table = {"predicate": ["Stop"] * 3, "arg1": ["a", "b", "c"], "time": [0, 0, 0]}
    parquet.write_table(pa.table(table | {"truth": [True, False, None]}), tmp_path / "f.parquet")
    facts = read_facts([tmp_path / "f.parquet"], SIGNATURE)
    assert rows(facts, "Stop") == [("", ("a",), 0, 1), ("", ("b",), 0, 0), ("", ("c",), 0, 1)]
    assert plain(read(tmp_path, "Stop,a,,0,true\nStop,b,,0,False\nStop,c,,0,\n")) == plain(facts)


def test_several_files_are_one_table(tmp_path):
    first = tmp_path / "1.csv"
    first.write_text("\n".join(",".join(row) for row in [HEADER, *ROWS[:3]]) + "\n")
    second = tmp_path / "2.parquet"
    parquet.write_table(pa.table({n: c[3:] for n, c in NUMBERS.items()}), second)
    assert plain(read_facts([first, str(second)], SIGNATURE)) == WANTED


def test_no_file_at_all():
    facts = read_facts([], SIGNATURE)
    assert plain(facts) == {
        "traces": ("",),
        "entities": {"agent": ("ego",), "place": ()},
        "lengths": (1,),
        "warnings": [],
        "rows": {},
    }


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_header_only(tmp_path, end):
    (tmp_path / "f.csv").write_bytes(f"predicate,arg1,time{end}".encode())
    facts = read_facts([tmp_path / "f.csv"], SIGNATURE)
    assert plain(facts) == plain(read_facts([], SIGNATURE))


def test_each_trace_ends_with_its_last_fact(tmp_path):
    text = "predicate,arg1,time,trace\nStop,a,3,one\nCar,a,,two\nStop,b,0,one\nStop,a,1,three\n"
    facts = read(tmp_path, text)
    assert dict(zip(facts.traces, facts.lengths, strict=True)) == {"one": 4, "three": 2, "two": 1}


@pytest.mark.parametrize("horizon", [4, 7])
def test_a_horizon_is_every_traces_length(tmp_path, horizon):
    text = "predicate,arg1,time,trace\nStop,a,3,one\nStop,a,1,two\nCar,a,,three\n"
    assert read(tmp_path, text, horizon=horizon).lengths == (horizon,) * 3


def test_static_facts_without_a_trace_hold_in_all(tmp_path):
    static = write(tmp_path, "predicate,arg1,truth\nCar,a,0.5\n", "static.csv")
    text = "predicate,arg1,time,trace\nStop,a,0,one\nCar,b,,two\nCar,c,,\nStop,a,1,two\n"
    facts = read_facts([static, write(tmp_path, text)], SIGNATURE)
    assert facts.traces == ("one", "two")
    assert sorted(rows(facts, "Car")) == [
        ("one", ("a",), -1, 0.5),
        ("one", ("c",), -1, 1.0),
        ("two", ("a",), -1, 0.5),
        ("two", ("b",), -1, 1.0),
        ("two", ("c",), -1, 1.0),
    ]
    assert facts.lengths == (1, 2)


def test_facts_without_a_trace_are_of_the_only_one(tmp_path):
    facts = read(tmp_path, "predicate,arg1,time,trace\nStop,a,0,one\nStop,a,1,\n")
    assert (facts.traces, facts.lengths) == (("one",), (2,))


def test_a_relation_makes_no_trace(tmp_path):
    text = "predicate,arg1,arg2,time,trace\npairs,a,b,,\nStop,a,,0,one\nStop,a,,0,two\n"
    facts = read(tmp_path, text)
    assert facts.traces == ("one", "two")
    assert len(facts.rows["pairs"].args) == 1


def test_static_and_temporal(tmp_path):
    facts = read(tmp_path, "Car,a,,,0.5\nStop,a,,2,0.5\nRain,,,1,\n")
    assert plain(facts)["rows"] == {
        "Car": [("", ("a",), -1, 0.5)],
        "Stop": [("", ("a",), 2, 0.5)],
        "Rain": [("", (), 1, 1.0)],
    }
    assert facts.lengths == (3,)


def test_functions(tmp_path):
    text = (
        "predicate,arg1,time,value\nowner,a,,b\nowner,b,,b\nat,a,0,home\nat,a,1,far away\n"
        "speed,a,0,-1e3\nwidth,a,,0.1\n"
    )
    facts = read(tmp_path, text)
    assert facts.entities == {"agent": ("a", "b", "ego"), "place": ("home", "far away")}
    assert plain(facts)["rows"] == {
        "owner": [("", ("a",), -1, 1.0), ("", ("b",), -1, 1.0)],
        "at": [("", ("a",), 0, 0.0), ("", ("a",), 1, 1.0)],
        "speed": [("", ("a",), 0, -1000.0)],
        "width": [("", ("a",), -1, 0.1)],
    }


def test_relations_keep_duplicates_and_order(tmp_path):
    facts = read(tmp_path, "pairs,b,a,,\npairs,a,b,,\npairs,b,a,,\npairs,a,a,,\n")
    assert [args for _, args, _, _ in rows(facts, "pairs")] == [
        ("b", "a"),
        ("a", "b"),
        ("b", "a"),
        ("a", "a"),
    ]
    assert facts.warnings == ()


def test_constants_are_entities(tmp_path):
    assert read(tmp_path, "Car,a,,,\n").entities["agent"] == ("a", "ego")
    assert read(tmp_path, "Car,ego,,,\nCar,a,,,\n").entities["agent"] == ("ego", "a")


NAMES = [
    "two words",
    "Jörg Müller",
    "日本",
    "🚗",
    "O'Neil",
    'the "great" one',
    "a, b",
    "tab\there",
    "007",
    "7",
    "1e3",
    "NA",
    "null",
    "nan",
    "true",
    "[/b]",
    "#1",
]


def test_names_are_kept_as_they_are(tmp_path):
    quoted = ['"' + name.replace('"', '""') + '"' for name in NAMES]
    text = "predicate,arg1,time\n" + "".join(f"Stop,{name},0\n" for name in quoted)
    assert read(tmp_path, text).entities["agent"] == (*NAMES, "ego")
    table = pa.table({"predicate": ["Stop"] * len(NAMES), "arg1": NAMES, "time": [0] * len(NAMES)})
    parquet.write_table(table, tmp_path / "f.parquet")
    assert read_facts([tmp_path / "f.parquet"], SIGNATURE).entities["agent"] == (*NAMES, "ego")


def test_spaces_around_cells_do_not_count(tmp_path):
    text = " Stop , a ,, 1 , 0.5 \nStop,a,, 2,\n"
    assert rows(read(tmp_path, text), "Stop") == [("", ("a",), 1, 0.5), ("", ("a",), 2, 1.0)]


def test_spaces_around_column_names_do_not_count(tmp_path):
    """Nor do they change how cells are read: 007 is a name, not a number."""
    text = "predicate, arg1, time\nStop, 007, 0\nStop, 1.50, 0\n"
    assert read(tmp_path, text).entities["agent"] == ("007", "1.50", "ego")


def test_cells_of_spaces_are_empty(tmp_path):
    facts = read(tmp_path, "Car, a,  ,  ,  \nRain,  ,,0,\n")
    assert plain(facts)["rows"] == {"Car": [("", ("a",), -1, 1.0)], "Rain": [("", (), 0, 1.0)]}


def test_empty_text_in_parquet_is_a_missing_value(tmp_path):
    cells = {"predicate": "Car", "arg1": "a", "arg2": "", "time": "", "truth": " "}
    parquet.write_table(pa.table({n: [c] for n, c in cells.items()}), tmp_path / "f.parquet")
    facts = read_facts([tmp_path / "f.parquet"], SIGNATURE)
    assert plain(facts)["rows"] == {"Car": [("", ("a",), -1, 1.0)]}


def test_numbers_may_be_written_in_several_ways(tmp_path):
    facts = read(tmp_path, "Stop,a,,1.0,1e-1\nStop,a,,2e0,.5\nStop,a,,03,1.\n")
    assert [(t, v) for _, _, t, v in rows(facts, "Stop")] == [(1, 0.1), (2, 0.5), (3, 1.0)]


def test_all_digits_of_a_degree_are_kept(tmp_path):
    degrees = [0.1 + 0.2, 1 / 3, 5e-324]
    text = "".join(f"Stop,a,,{t},{degree!r}\n" for t, degree in enumerate(degrees))
    assert [v for _, _, _, v in rows(read(tmp_path, text), "Stop")] == degrees
    table = {"predicate": ["Stop"] * 3, "arg1": ["a"] * 3, "time": [0, 1, 2], "truth": degrees}
    parquet.write_table(pa.table(table), tmp_path / "f.parquet")
    facts = read_facts([tmp_path / "f.parquet"], SIGNATURE)
    assert [v for _, _, _, v in rows(facts, "Stop")] == degrees


def test_repeated_facts_warn_and_count_once(tmp_path):
    facts = read(tmp_path, "Stop,b,,0,\nStop,a,,0,0.5\nStop,b,,0,1\nStop,b,,0,1.0\nStop,b,,1,\n")
    assert plain(facts)["warnings"] == ["'Stop': 2 repeated facts"]
    assert rows(facts, "Stop") == [("", ("b",), 0, 1), ("", ("a",), 0, 0.5), ("", ("b",), 1, 1)]


def test_facts_repeat_across_files_but_not_across_traces(tmp_path):
    first, second = write(tmp_path, "Car,a,,,\n", "1.csv"), write(tmp_path, "Car,a,,,\n", "2.csv")
    facts = read_facts([first, second], SIGNATURE)
    assert plain(facts)["warnings"] == ["'Car': 1 repeated fact"]
    facts = read(tmp_path, "predicate,arg1,trace\nCar,a,one\nCar,a,two\n")
    assert facts.warnings == ()
    assert len(rows(facts, "Car")) == 2


def test_a_row_that_repeats_another_in_every_trace_is_one(tmp_path):
    text = (
        "predicate,arg1,time,trace\nStop,a,0,one\nStop,a,0,two\nStop,a,0,three\nCar,a,,\nCar,a,,\n"
    )
    facts = read(tmp_path, text)
    assert plain(facts)["warnings"] == ["'Car': 1 repeated fact"]
    assert len(rows(facts, "Car")) == 3


def test_empty_lines_are_no_rows(tmp_path):
    facts = read(tmp_path, "\nCar,a,,,\n\nCar,b,,,\n\n\n")
    assert rows(facts, "Car") == [("", ("a",), -1, 1.0), ("", ("b",), -1, 1.0)]


def test_a_csv_in_a_folder_named_like_a_tsv(tmp_path):
    (tmp_path / "old.tsv.files").mkdir()
    facts = read_facts([write(tmp_path / "old.tsv.files", "Car,a,,,\n")], SIGNATURE)
    assert rows(facts, "Car") == [("", ("a",), -1, 1.0)]


def test_a_compressed_file_with_an_upper_case_name(tmp_path):
    (tmp_path / "F.CSV.GZ").write_bytes(gzip.compress(joined(",").encode()))
    assert plain(read_facts([tmp_path / "F.CSV.GZ"], SIGNATURE)) == WANTED


def test_many_rows(tmp_path):
    count = 300_000
    text = "".join(f"Stop,a{i % 1000},,{i // 1000},0.{i % 10}\n" for i in range(count))
    facts = read(tmp_path, text)
    assert facts.lengths == (300,)
    assert len(facts.entities["agent"]) == 1001
    part = facts.rows["Stop"]
    assert part.time.tolist() == [i // 1000 for i in range(count)]
    assert part.args[:, 0].tolist() == [i % 1000 for i in range(count)]
    assert part.value.tolist() == [i % 10 / 10 for i in range(count)]


def test_names_with_line_ends_in_a_long_file(tmp_path):
    names = [f"{i}{20 * chr(10)}x" for i in range(60_000)]  # several blocks for a reader
    facts = read(tmp_path, "".join(f'Stop,"{name}",,0,1\n' for name in names))
    assert facts.entities["agent"] == (*names, "ego")
