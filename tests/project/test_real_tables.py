"""Tables as they come, from training to a saved model and to new data."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fotltn
from fotltn.errors import DataError
from fotltn.grounding.timeline import StepTimes
from fotltn.project.config import config_of
from fotltn.project.stored import pack_world, unpack_world
from fotltn.project.toml import parse_toml
from fotltn.project.written import show_config

pytestmark = pytest.mark.filterwarnings("ignore::fotltn.errors.DataWarning")  # not about these

THEORY = """
sort sensor
predicate Alarm(sensor), Here(sensor)
axiom A: forall x. G(Alarm(x) -> Here(x))
"""


def table(**columns: list[Any]) -> fotltn.Wide:
    features = [c for c in columns if c not in ("who", "at", "alarm")]
    return fotltn.Wide(
        columns, "sensor", "who", time="at", predicates={"alarm": "Alarm"}, features=features,
        presence="Here",
    )  # fmt: skip


def trained(wide: fotltn.Wide, **data: Any) -> fotltn.Model:
    return fotltn.train(
        THEORY, wide=wide, learn=["Alarm"], data=data, training={"epochs": 3},
        predicates={"Alarm": {"hidden": [4]}},
    )  # fmt: skip


def stamps(model: fotltn.Model) -> list[str]:
    texts: list[str] = model.predictions().column("timestamp").to_pylist()
    return texts


# --- times ------------------------------------------------------------------------------------


HOURS = table(
    who=["a", "a", "b"],
    at=["2013-03-10T00:20", "2013-03-10T03:10", "2013-03-10T01:00"],
    alarm=[1, 0, 1],
    bar=[1.0, 2.0, 4.0],
)
LATER = {"who": ["c", "c"], "at": ["2014-01-01T07:00", "2014-01-01T09:59"], "bar": [1.0, 2.0]}


def test_times_of_a_model_are_shown_and_stored(tmp_path):
    model = trained(HOURS, step="1h", timezone="America/New_York")
    wanted = ["2013-03-10T00:00-05:00", "2013-03-10T03:00-04:00", "2013-03-10T01:00-05:00"]
    assert stamps(model) == wanted
    assert model.predictions().column("time").to_pylist() == [0, 2, 1]
    model.save(tmp_path / "model")
    again = fotltn.load_model(tmp_path / "model")
    assert stamps(again) == wanted
    assert (again.config.data.step, again.config.data.origin) == ("1h", None)
    assert again.facts.timeline == model.facts.timeline


def test_new_data_have_the_step_and_an_origin_of_their_own(tmp_path):
    trained(HOURS, step="1h").save(tmp_path / "model")
    new = fotltn.load_model(tmp_path / "model").apply(LATER)
    assert stamps(new) == ["2014-01-01T07:00", "2014-01-01T09:00"]
    assert new.predictions().column("time").to_pylist() == [0, 2]
    new.save(tmp_path / "new")
    assert stamps(fotltn.load_model(tmp_path / "new")) == stamps(new)


def test_an_origin_that_is_set_holds_for_new_data(tmp_path):
    trained(HOURS, step="1h", origin="2013-03-10").save(tmp_path / "model")
    model = fotltn.load_model(tmp_path / "model")
    assert model.apply(LATER).facts.lengths == (297 * 24 + 10,)
    early = LATER | {"at": ["2012-01-01T07:00", "2012-01-01T09:59"]}
    with pytest.raises(
        DataError, match=r"row 1 of the data frame, column 'at': .* before the origin"
    ):
        model.apply(early)


def test_facts_to_score_have_the_times_of_the_model():
    model = trained(HOURS, step="1h")
    facts = {"predicate": ["Alarm"], "arg1": ["a"], "time": ["2013-03-10T03:50"], "truth": [0]}
    report = model.metrics([facts])
    assert report is not None
    predicted = model.predictions().to_pylist()
    assert [row["timestamp"] for row in predicted if row["time"] == 3] == ["2013-03-10T03:00"]
    with pytest.raises(DataError, match="after the end"):
        model.metrics([facts | {"time": ["2013-03-10T05:00"]}])


def test_predictions_are_read_as_facts():
    predictions = trained(HOURS, step="1h").predictions()
    data = fotltn.read(fotltn.parse(THEORY), predictions)
    assert data.predicate("Alarm").shape == (1, 2, 4)


def test_a_damaged_origin_is_refused():
    model = trained(HOURS, step="1h")
    tensors, domain = pack_world(model.world)
    clock = domain["clock"]
    damaged: tuple[Any, ...] = (None, 7, {}, clock | {"begins": []}, clock | {"begins": ["noon"]})
    for wrong in damaged:
        with pytest.raises((ValueError, KeyError, DataError)):
            unpack_world(tensors, domain | {"clock": wrong}, model.world.source, model.config)
    shared = trained(HOURS, step="1h", clock="shared")
    tensors, domain = pack_world(shared.world)
    for origin in (None, 7, "noon"):
        with pytest.raises((ValueError, DataError)):
            unpack_world(tensors, domain | {"origin": origin}, shared.world.source, shared.config)


def test_the_settings_of_times():
    def read(data: str) -> Any:
        text = f'[theory]\nfile = "t.fot"\n[data]\nfacts = ["f.csv"]\n{data}'
        return config_of(parse_toml(text, "project.toml"), Path())

    for origin in (
        '"2013-01-01"',
        "2013-01-01",
        "2013-01-01T00:00:00",
        "2013-01-01T05:00:00+05:00",
    ):
        config = read(f'step = "15min"\norigin = {origin}\n')
        again = config_of(parse_toml(show_config(config), "again"), Path())
        assert again == config
        line = StepTimes.shared(config.data.timing)
        read_one = line.clock.read(_cells("2013-01-01T01:00"))
        assert line.steps(read_one, np.zeros(1, np.int64), [""]).tolist() == [4]
    assert read("step = 0.5").data.step == "0.5"
    for data, message in (
        ("step = true", "data.step: expected text in quotes, or a number, not true"),
        ('step = "1x"', "data: '1x' is not a step"),
        ('origin = "2013-01-01"', "data: 'origin' is set, but there is no step"),
    ):
        with pytest.raises(DataError, match=message):
            read(data)


def _cells(text: str) -> Any:
    return pa.chunked_array([[text]])


# --- missing features -------------------------------------------------------------------------


GAPS: dict[str, list[Any]] = {
    "who": ["a", "a", "b", "b"],
    "at": [0, 1, 0, 1],
    "alarm": [1, 0, 1, 0],
    "bar": [1.0, None, 4.0, 7.0],
}


@pytest.mark.parametrize("how", ["mean", "zero", "last"])
def test_gaps_of_a_model_and_of_new_data(how, tmp_path):
    model = trained(replace(table(**GAPS), missing=how))
    model.save(tmp_path / "model")
    again = fotltn.load_model(tmp_path / "model")
    assert again.predictions() == model.predictions()
    assert again.config.data.wide[0].missing == {"bar": how}
    new = {"who": ["c", "c"], "at": [0, 1], "bar": pa.array([None, 3.0])}
    over = again.apply(new)
    mean = {"mean": 4.0, "zero": 3.0, "last": 3.25}[how]  # of what training has
    at_first = (over.grounding.inputs_by_sort["sensor"]().detach())[0, 0, :, 0]
    inputs: Any = over.grounding.inputs_by_sort["sensor"]
    assert inputs.mean[0].item() == pytest.approx(mean)
    wanted = [0.0 if how != "zero" else -mean / inputs.spread[0].item()]
    wanted += [(3 - mean) / inputs.spread[0].item()]
    assert at_first.tolist() == pytest.approx(wanted, abs=1e-6)
    assert over.predictions().column("truth").null_count == 0


def test_gaps_in_new_data_alone_are_an_error_unless_they_are_settled():
    full = {**GAPS, "bar": [1.0, 2.0, 3.0, 4.0]}
    with pytest.raises(DataError, match="column 'bar': empty"):
        trained(table(**full)).apply(GAPS)
    model = trained(replace(table(**full), missing="mean")).apply(GAPS)
    assert model.world.fixed.inputs["sensor"].names == ("bar", "bar missing")


def test_the_setting_of_gaps():
    def read(missing: str) -> Any:
        text = (
            '[theory]\nfile = "t.fot"\n[[data.wide]]\nfile = "w.csv"\nsort = "s"\nentity = "e"\n'
            f'features = ["a", "b"]\nmissing = {missing}\n'
        )
        config = config_of(parse_toml(text, "project.toml"), Path())
        assert config_of(parse_toml(show_config(config), "again"), Path()) == config
        return config.data.wide[0].missing

    assert read('"mean"') == {"a": "mean", "b": "mean"}
    assert read('{ b = "last", a = "error" }') == {"b": "last"}
    for bad in ("3", '"median"', '{ a = "x" }'):
        with pytest.raises(DataError, match="expected one of 'error', 'mean', 'zero', 'last'"):
            read(bad)


# --- categories -------------------------------------------------------------------------------


def test_categories_of_the_data_stay_with_the_model(tmp_path):
    columns = {**GAPS, "bar": ["north", "east", "north", "west"]}
    model = trained(table(**columns))
    assert model.config.data.wide[0].categories == {"bar": ("east", "north", "west")}
    model.save(tmp_path / "model")
    again = fotltn.load_model(tmp_path / "model")
    assert again.config == model.config
    over = again.apply({"who": ["c", "c"], "at": [0, 1], "bar": ["west", "east"]})
    assert over.world.fixed.inputs["sensor"].names == ("bar=east", "bar=north", "bar=west")
    assert over.world.fixed.inputs["sensor"].values[0, 0].tolist() == [[0, 0, 1], [1, 0, 0]]
    new = {"who": ["c"], "at": [0], "bar": ["south"]}
    with pytest.raises(
        DataError, match="the feature is 'south'; expected one of 'east', 'north', 'west'"
    ):
        again.apply(new)
    lenient = trained(replace(table(**columns), unknown_categories="zero")).apply(new)
    assert lenient.world.fixed.inputs["sensor"].values[0, 0].tolist() == [[0, 0, 0]]


# --- a split by time --------------------------------------------------------------------------


def test_a_model_is_tested_on_later_times():
    hours = list(range(10))
    alarms = table(who=["a"] * 10, at=hours, alarm=[h % 2 for h in hours], bar=hours)
    model = trained(alarms, train=0.7, by="time")
    assert model.world.test is not None
    assert model.world.labels.index["Alarm"][-1].tolist() == hours[:7]
    assert model.world.test.index["Alarm"][-1].tolist() == hours[7:]
    by_sort = trained(alarms, train=0.7, by="time", sort="sensor")
    assert by_sort.world.labels.index["Alarm"][-1].tolist() == hours[:7]
    with pytest.raises(DataError, match="sort applies only to a split by entities or by time"):
        trained(alarms, train=0.7, sort="sensor")
