"""The benchmark of reading: it makes what it says, and measures this checkout beside itself."""

import pyarrow.parquet as parquet

from benchmarks import reading


def test_it_measures_what_reading_takes(tmp_path):
    folder = tmp_path / "project"
    rows = reading.make(folder, 9_000)
    assert 7_000 < rows < 11_000
    assert parquet.read_metadata(folder / "facts.parquet").num_rows == rows
    calls = reading.calls(folder, train=False)
    assert list(calls) == ["read CSV", "read Parquet"]
    assert list(reading.calls(folder, train=True)) == [*calls, "fotltn train"]
    del calls["read CSV"]  # one shows how they are measured
    spent = {what: reading.spent(reading.HERE, call) for what, call in calls.items()}
    least = {(what, side): spent[what] for what in calls for side in ("before", "now")}
    lines = reading.table(least, rows)
    assert [line["what"] for line in lines] == list(calls)
    assert all(line["MB now"] > 10 for line in lines)
    assert all(line["rows a second now"] > 0 for line in lines)
