"""What a project says of its data: folders, splits by a column, measures, and empty places."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import fotltn
from fotltn.errors import DataError
from fotltn.grounding.measures import Entity, Measure
from fotltn.project.build import build
from fotltn.project.config import (
    Config,
    config_of,
    read_config,
)
from fotltn.project.data_config import MeasureConfig, SplitConfig
from fotltn.project.toml import parse_toml
from fotltn.project.train import train
from fotltn.project.world import read_world
from fotltn.project.written import show_config

THEORY = """\
sort car, ped
predicate Stop(car), Cross(ped), Close(car, ped), Here(ped)
static predicate Known(ped)
axiom A1: forall x, y where Known(y). G(Cross(y) & Close(x, y) -> WX Stop(x))
"""
TOML = """\
[theory]
file = "theory.fot"

[data]
folder = "tables"
local = ["ped"]

[[data.wide]]
file = "cars.csv"
sort = "car"
entity = "=ego"
trace = "clip"
time = "t"
predicates = ["Stop"]
features = ["speed"]

[[data.wide]]
file = "peds.csv"
sort = "ped"
entity = "who"
trace = "clip"
time = "t"
presence = ["Known", "Here"]
predicates = { crosses = "Cross" }

[data.wide.measures]
Close = { column = "h", at_least = 0.2, arguments = ["=ego", "who"] }

[data.split]
file = "clips.csv"
trace = "clip"
column = "kind"
validation = "val"

[inputs.car]
embedding = 0

[predicates]
Stop = "network"

[training]
epochs = 3
"""
CLIPS = {"a": "train", "b": "test", "c": "val", "d": "train", "e": "train", "f": "other"}


def project(folder: Path, toml: str = TOML, *, tables: str = "tables") -> Path:
    """Six clips of different lengths, with none to two pedestrians."""
    where = folder / tables
    where.mkdir(parents=True)
    (folder / "theory.fot").write_text(THEORY, "utf-8")
    (folder / "project.toml").write_text(toml, "utf-8")
    cars, peds = ["clip,t,Stop,speed"], ["clip,t,who,crosses,h"]
    for number, clip in enumerate(CLIPS):
        for t in range(2 + number):
            cars.append(f"{clip},{t},{(t + number) % 2},{t / 2}")
            peds += [f"{clip},{t},p{i},{i},0.{number}" for i in range(number % 3)]
    (where / "cars.csv").write_text("\n".join(cars) + "\n", "utf-8")
    (where / "peds.csv").write_text("\n".join(peds) + "\n", "utf-8")
    kinds = [f"{clip},{kind}" for clip, kind in CLIPS.items()]
    (where / "clips.csv").write_text("\n".join(["clip,kind", *kinds]) + "\n", "utf-8")
    return folder


def config(text: str) -> Config:
    return config_of(parse_toml(text, "project.toml"), Path())


def traces(world, labels):
    return {world.facts.traces[i] for i in labels.index["Stop"][0].tolist()}


def test_what_the_file_says():
    found = config(TOML)
    cars, peds = found.data.wide
    assert (cars.entity, peds.presence) == ("=ego", ("Known", "Here"))
    assert peds.measures["Close"] == MeasureConfig(
        "h", at_least=0.2, arguments=("=ego", "who")
    )  # fmt: skip
    assert peds.measures["Close"].measure() == Measure(
        "h", at_least=0.2, arguments=[Entity("ego"), "who"]
    )
    assert found.data.split == SplitConfig("clips.csv", "clip", "kind", validation=("val",))
    assert found.data.split.words == {
        "train": ("train",),
        "validation": ("val",),
        "test": ("test",),
    }
    assert config(show_config(found)) == found


def test_a_measure_of_every_kind_is_written_and_read_back():
    more = """Far = { column = "h", at_most = -2 }
Near = { column = "h", zero = 0.1, one = 0.4 }
Red = { column = "light", among = ["red", "amber"] }
"""
    found = config(TOML.replace("[data.split]", more + "\n[data.split]"))
    assert set(found.data.wide[1].measures) == {"Close", "Far", "Near", "Red"}
    assert config(show_config(found)) == found


def test_tables_lie_in_the_folder_that_is_said(tmp_path):
    world = read_world(read_config(project(tmp_path)))
    assert world.facts.traces == tuple(CLIPS)
    assert world.facts.lengths == tuple(range(2, 8))
    assert (world.facts.sizes(), world.facts.warnings) == ({"car": 1, "ped": 2}, ())
    assert world.fixed.predicate("Known")[..., 0].sum(1).tolist() == [0, 1, 2, 0, 1, 2]


def test_or_in_another_folder(tmp_path):
    here, there = project(tmp_path / "a"), project(tmp_path / "b", tables="elsewhere")
    other = there / "elsewhere"
    found = read_world(read_config(here, data=other))
    assert found.facts.traces == tuple(CLIPS)
    (other / "cars.csv").unlink()
    with pytest.raises(DataError, match=r"cannot read .*elsewhere.cars.csv"):
        read_world(read_config(here, data=other))
    with pytest.raises(DataError, match=r"there is no data folder '.*nowhere'"):
        read_config(here, data=tmp_path / "nowhere")


def test_facts_by_the_split(tmp_path):
    world = read_world(read_config(project(tmp_path)))
    assert world.parts == {"train": (0, 3, 4), "validation": (2,), "test": (1,)}
    assert traces(world, world.labels) == {"a", "d", "e"}
    assert traces(world, world.watched) == {"c"}
    assert traces(world, world.test) == {"b"}
    assert traces(world, world.stated) == set(CLIPS)


def test_a_share_of_the_traces_to_learn_from(tmp_path):
    share = TOML.replace("[data]\n", '[data]\ntrain = 0.34\nby = "traces"\n')
    world = read_world(read_config(project(tmp_path, share)))
    assert len(traces(world, world.labels)) == 1
    assert traces(world, world.labels) < {"a", "d", "e"}
    assert traces(world, world.test) == {"b"}  # the others are not tested


def test_the_watched_facts_are_those_of_validation(tmp_path):
    built = build(read_config(project(tmp_path)))
    own, watched = built.task.split()
    assert watched is not None
    assert (own.total, watched.total) == (2 + 5 + 6, 4)
    model = train(read_config(project(tmp_path / "again")))
    found = model.metrics()
    assert found is not None
    assert found.predicates["Stop"].facts == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "at_least = 0.2",
            "atleast = 0.2",
            "unknown key 'data.wide\\[2\\].measures.Close.atleast'",
        ),
        ("at_least = 0.2, ", "", "measured in exactly one way"),
        ("at_least = 0.2", 'at_least = "0.2"', "expected a number"),
        ('column = "kind"', "", "the key 'column' is missing"),
        ('validation = "val"', 'validation = "train"', "no word can be in two parts"),
        (
            'folder = "tables"',
            'folder = "tables"\ntest = ["t.csv"]',
            "test cannot be set with split",
        ),
    ],
)
def test_what_is_wrong_in_the_file(old, new, message):
    with pytest.raises(DataError, match=message):
        config(TOML.replace(old, new))


def test_what_is_wrong_in_the_table_of_the_split(tmp_path):
    folder = project(tmp_path, TOML.replace('validation = "val"', 'validation = "valid"'))
    with pytest.raises(DataError, match=r"clips.csv, column 'kind': no cell is 'valid'"):
        read_world(read_config(folder))


# --- empty places -----------------------------------------------------------------------------


def test_quantifiers_leave_out_places_that_a_trace_does_not_fill():
    """The first trace has two entities, the second one: nothing is false of the place beside it."""
    theory = fotltn.parse("sort ped\npredicate Cross(ped)\naxiom A: forall y. Cross(y)")
    stated = {
        "predicate": ["Cross"] * 3, "arg1": ["a", "b", "c"], "time": [0] * 3,
        "trace": ["one", "one", "two"],
    }  # fmt: skip
    data = fotltn.read(theory, stated, local=["ped"])
    for semantics in ("crisp", "stable-product"):
        assert fotltn.evaluate(theory["A"], data, semantics=semantics).tolist() == [1, 1]
    assert fotltn.evaluate("exists y. !Cross(y)", data, semantics="crisp").tolist() == [0, 0]
    (rule,) = fotltn.rules(theory, data, resamples=0)
    assert (rule.overall.support, rule.overall.confidence.value) == (3, 1.0)


def test_the_split_says_which_labels_not_which_tables(tmp_path):
    """Given tables are those of all traces, whatever these are for."""
    world = read_world(replace(read_config(project(tmp_path)), dtype="float64"))
    close = world.fixed.predicate("Close")
    assert torch.equal(close.amax((1, 2, 3)), torch.tensor([0, 0, 1, 0, 1, 1]).double())
