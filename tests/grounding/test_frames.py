"""Facts in memory are read and checked like facts in files."""

import importlib
from collections import OrderedDict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from fotltn import DataError, Wide, parse
from fotltn import read as fotltn_read
from fotltn.grounding.clock import Clock
from fotltn.grounding.facts import read_facts
from tests.grounding.common import SIGNATURE, plain, read, rows, write
from tests.grounding.test_facts import HEADER, ROWS, TABLES, WANTED


class Frame:
    """What a data frame of another library looks like to Arrow."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


TABLE = pa.table(TABLES["numbers"])
LISTS = {
    name: [cell or None for cell in cells]
    for name, cells in zip(HEADER, zip(*ROWS, strict=True), strict=True)
}
FRAMES = {
    "table": TABLE,
    "chunks": pa.concat_tables([TABLE[:2], TABLE[2:5], TABLE[5:]]),
    "batch": TABLE.combine_chunks().to_batches()[0],
    "reader": lambda: TABLE.to_reader(),
    "stream": Frame(TABLE),
    "views": Frame(pa.table({n: c.cast(pa.string_view()) for n, c in TABLES["strings"].items()})),
    "lists": LISTS,
    "ordered": OrderedDict(reversed(LISTS.items())),
    "tuples": {name: tuple(cells) for name, cells in LISTS.items()},
    "arrays": {name: np.array(cells, dtype=object) for name, cells in LISTS.items()},
    "typed lists": {name: array.to_pylist() for name, array in TABLES["numbers"].items()},
    **TABLES,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_say_what_files_say(kind):
    frame = FRAMES[kind]() if callable(FRAMES[kind]) else FRAMES[kind]
    assert plain(read_facts([frame], SIGNATURE)) == WANTED


def test_files_and_frames_are_one_table(tmp_path):
    file = write(tmp_path, "Stop,a,,0,\nCar,b,,,\n")
    frame = {"predicate": ["Stop", "Car"], "arg1": ["b", "a"], "time": [1, None]}
    facts = read_facts([file, frame, str(file)], SIGNATURE)
    assert plain(facts)["warnings"] == ["'Stop': 1 repeated fact", "'Car': 1 repeated fact"]
    assert rows(facts, "Stop") == [("", ("a",), 0, 1), ("", ("b",), 1, 1)]
    assert facts.entities["agent"] == ("a", "b", "ego")


def test_mixed_cells_and_tensors():
    frame = {
        "predicate": ["Stop"] * 4,
        "arg1": ["a", 7, 2.5, "a"],
        "time": torch.tensor([0, 1, 2, 3]),
        "truth": [True, 0.5, "false", None],
    }
    facts = read_facts([frame], SIGNATURE)
    wanted = [("a", 0, 1.0), ("7", 1, 0.5), ("2.5", 2, 0.0), ("a", 3, 1.0)]
    assert [(args[0], time, value) for _, args, time, value in rows(facts, "Stop")] == wanted


def test_an_empty_frame(tmp_path):
    assert plain(read_facts([{"predicate": []}], SIGNATURE)) == plain(read(tmp_path, "predicate\n"))


def test_the_index_of_a_frame_is_no_column():
    table = pa.table({"predicate": ["Car"], "arg1": ["a"], "__index_level_0__": [17]})
    assert rows(read_facts([Frame(table)], SIGNATURE), "Car") == [("", ("a",), -1, 1.0)]


STOP: dict[str, Any] = {"predicate": ["Stop"] * 3, "arg1": ["a", "b", "c"], "time": [0, 1, 2]}
BAD = {
    "truth": (
        STOP | {"truth": [1, 0, 2]},
        "row 3 of the data frame: 'Stop' has the truth '2'; expected a degree from 0 to 1",
    ),
    "nan": (
        STOP | {"truth": [1, float("nan"), 0]},
        "row 2 of the data frame: 'Stop' has the truth 'nan'; expected a degree from 0 to 1",
    ),
    "clash": (
        {"predicate": ["Car"] * 2, "arg1": ["a"] * 2, "truth": [0, 1]},
        "row 2 of the data frame: 'Car' is 1 here, but 0 at row 1 of the data frame\n"
        "      = a fact has one truth value: remove one of the two rows",
    ),
    "unknown": (
        {"predicate": ["Car", "Stpo"], "arg1": ["a", "b"]},
        "row 2 of the data frame: unknown predicate 'Stpo'\n      = did you mean 'Stop'?",
    ),
    "column": (
        STOP | {"tiem": [1, 2, 3]},
        "the data frame: unknown column 'tiem'\n      = did you mean 'time'?",
    ),
    "type": (
        {"predicate": ["Car"], "arg1": pa.array([["a"]])},
        "cannot read the data frame: column 'arg1' has the type list<item: string>, "
        "not text or numbers",
    ),
    "lengths": (
        {"predicate": ["Car", "Car"], "arg1": ["a"]},
        "cannot read the data frame: its columns differ in length "
        "('predicate' has 2, 'arg1' has 1)",
    ),
    "text for a list": (
        {"predicate": "Car"},
        "cannot read the data frame: column 'predicate' must be a list, not a str",
    ),
    "a name that is no text": (
        {"predicate": ["Car"], 1: ["a"]},
        "cannot read the data frame: the name of a column must be text, not 1",
    ),
    "objects": (
        {"predicate": ["Car", "Car"], "arg1": ["a", object()]},
        "row 2 of the data frame, column 'arg1': expected text or a number, not a value of type "
        "'object'",
    ),
    "not a frame": (
        42,
        "cannot read facts from a value of type 'int'; expected the name of a file, a data frame "
        "with '__arrow_c_stream__', or a mapping of columns",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_frames(case):
    frame, wanted = BAD[case]
    with pytest.raises(DataError) as found:
        read_facts([frame], SIGNATURE)
    assert str(found.value) == f"error: {wanted}"


def test_several_frames_have_numbers(tmp_path):
    good = write(tmp_path, "Car,a,,,\n")
    with pytest.raises(DataError) as found:
        read_facts([{"predicate": ["Car"], "arg1": ["a"]}, good, {"predicate": ["X"]}], SIGNATURE)
    assert str(found.value).startswith("error: row 1 of data frame 2: unknown predicate 'X'")


def test_a_stream_that_breaks():
    class Broken:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            raise ValueError("it is gone")

    with pytest.raises(DataError) as found:
        read_facts([Broken()], SIGNATURE)
    assert str(found.value) == "error: cannot read the data frame: it is gone"


class Older:
    """A data frame that has the protocol before that of Arrow."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __dataframe__(self, **options: Any) -> Any:
        return self.table.__dataframe__(**options)


class Lazy:
    """A data frame that is computed when it is collected."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame

    def collect_schema(self) -> Any:
        return self.frame.table.schema

    def collect(self) -> Any:
        return self.frame


STRINGS = pa.table(TABLES["strings"])


@pytest.mark.parametrize(
    "frame",
    [Older(STRINGS), Lazy(Frame(STRINGS)), Lazy(Older(STRINGS))],
    ids=["older", "lazy", "both"],
)
def test_frames_without_a_stream(frame):
    assert plain(read_facts([frame], SIGNATURE)) == WANTED


def test_an_error_of_another_library():
    class Closed:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            raise RuntimeError("the connection is closed")

    with pytest.raises(DataError, match="cannot read the data frame: the connection is closed"):
        read_facts([Closed()], SIGNATURE)


@pytest.mark.parametrize("library", ["pandas", "polars", "lazy", "duckdb", "narwhals"])
def test_frames_of_libraries(library):
    """With a time stamp, as the page about facts names them."""
    rows_of = {
        "predicate": ["Stop", "Stop"],
        "arg1": ["a", "b"],
        "time": ["2013-01-01", "2013-01-03"],
    }
    made: Any = importlib.import_module(
        {"lazy": "polars", "narwhals": "polars"}.get(library, library)
    )
    if library == "duckdb":
        frame = made.from_arrow(pa.table(rows_of)).project("predicate, arg1, time::date AS time")
    else:
        frame = made.DataFrame(rows_of)
    if library == "lazy":
        frame = frame.lazy()
    if library == "narwhals":
        narwhals: Any = importlib.import_module("narwhals")
        frame = narwhals.from_native(frame)
    facts = read_facts([frame], SIGNATURE, clock=Clock("1d"))
    assert rows(facts, "Stop") == [("", ("a",), 0, 1.0), ("", ("b",), 2, 1.0)]


def test_wide_tables_may_have_views_of_text():
    """As polars hands them over; Arrow itself cannot take rows of them."""
    columns = {"who": ["a", "b", "a"], "t": [0, 0, 1], "kind": ["x", "y", "x"]}
    texts = {n: pa.array(columns[n]).cast(pa.string_view()) for n in ("who", "kind")}
    theory = parse("sort s\npredicate Here(s)")
    one, other = (
        fotltn_read(theory, wide=[Wide(source, "s", "who", "t", features=["kind"],
                                       categories={"kind": ["x", "y"]}, presence="Here")])
        for source in (columns, Frame(pa.table({**columns, **texts})))
    )  # fmt: skip
    assert one.inputs["s"].values.equal(other.inputs["s"].values)
    assert one.names == other.names
