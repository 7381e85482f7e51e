"""Every key of a project's file: what it may be, and what is said where it is wrong."""

from pathlib import Path

import pytest

from fotltn.errors import DataError, FotError
from fotltn.learn.schedule import Schedule
from fotltn.networks.parts import Batches
from fotltn.project.build import build
from fotltn.project.config import (
    GroupConfig,
    InputConfig,
    PredicateConfig,
    read_config,
)
from fotltn.project.data_config import DataConfig
from fotltn.project.presets import PRESETS
from fotltn.project.written import show_config
from tests.project.common import TOML, changed, config, project

SHORT = '[theory]\nfile = "t.fot"\n'


def test_what_is_left_out_has_its_usual_value():
    found = config(SHORT)
    assert (found.semantics, found.p, found.model) == ("stable-product", None, "model")
    assert found.end == "undecided"
    assert found.data == DataConfig()
    standard = PRESETS["standard"]
    assert (found.method, found.objective) == (standard.method, standard.objective)
    assert found.training == standard.training
    assert (found.inputs, found.predicates, found.groups) == ({}, {}, ())
    assert (found.compile, found.device, found.dtype) == (False, "cpu", "float32")


def test_every_key_is_read():
    found = config()
    first, second = found.data.wide
    assert (first.file, first.sort, first.entity, first.time, first.trace) == (
        "agents.csv", "agent", "who", "t", "run",
    )  # fmt: skip
    assert first.predicates == {"Stop": "Stop", "Slow": "Slow", "Fast": "Fast"}
    assert first.categories == {"colour": ("red", "blue")}
    assert second.features == ("width",)
    assert found.inputs["agent"] == InputConfig(3, "smooth", reach=1.5)
    assert found.inputs["place"].learnable == ("l2",)
    assert found.predicates["Near"] == PredicateConfig("network", (4,), "tanh")
    assert found.predicates["Waits"].variables == ("x",)
    assert found.predicates["Waits"].semantics == "godel"
    assert found.predicates["Crowded"] == PredicateConfig("logits", scale=0.5)
    assert found.groups == (GroupConfig(("Stop", "Slow", "Fast"), hidden=(5,)),)
    assert found.objective.weight == Schedule(((0, 0.1), (4, 1)))
    assert found.objective.axiom_weights == {"A1": Schedule(((0, 0.5),))}
    assert found.axiom_p == {"A3": Schedule(((0, 1), (6, 3)))}
    training = found.training
    assert (training.patience, training.validation, training.clip) == (None, 0.2, 5)
    assert training.options == {"weight_decay": 0.01, "betas": [0.9, 0.99]}


OTHER = """\
[theory]
file = "t.fot"
p = inf
[data]
facts = "one.csv"
test = ["two.csv"]
horizon = 9
local = "agent"
on_conflict = "majority"
flip = 0.25
[[data.wide]]
file = "w.csv"
sort = "agent"
entity = "who"
predicates = {stops = "Stop"}
arguments = {stops = ["who", "=here"]}
presence = "There"
[inputs.agent]
features = false
[predicates]
Stop = "logits"
Car = "facts"
[[exclusive]]
predicates = ["A", "B"]
other = true
[objective]
preset = "facts-only"
flips = 0.2
[objective.fact_weights]
Stop = 3
[objective.fact_p]
Stop = 2
[training]
tolerance = 1e-3
keep_best = false
batches = {by = "entities", size = 4, sort = "agent"}
[machine]
compile = true
device = "cuda:1"
dtype = "float64"
[output]
model = "out"
"""


def test_the_other_keys():
    found = config(OTHER)
    assert found.p == float("inf")
    assert found.data.facts == ("one.csv",)
    assert found.data.on_conflict == "majority"
    assert found.data.wide[0].arguments == {"stops": ("who", "=here")}
    assert found.data.wide[0].presence == ("There",)
    assert found.groups[0].other
    assert found.objective.axioms == "none"
    assert found.training.batches == Batches("entities", 4, "agent")
    assert (found.compile, found.device, found.dtype, found.model) == (
        True, "cuda:1", "float64", "out",
    )  # fmt: skip


@pytest.mark.parametrize("text", [SHORT, TOML, OTHER])
def test_settings_that_are_written_out_are_read_as_the_same(text):
    found = config(text)
    again = config(show_config(found))
    assert again == found
    assert show_config(again) == show_config(found)


# --- what is refused --------------------------------------------------------------------------

#: A change of the file, and the message about it.
WRONG = {
    "no theory": (('file = "theory.fot"\n', ""), "theory: the key 'file' is missing"),
    "semantics": (('"stable-product"', '"stable"'), "theory.semantics: unknown value 'stable'"),
    "p below 1": (("p = 2", "p = 0.5"), "theory.p: expected a number of at least 1, not 0.5"),
    "a key of theory": (("p = 2", "q = 2"), "unknown key 'theory.q'"),
    "a table": (("[theory]", "[thoery]"), "theory: the key 'file' is missing"),
    "facts": (('["facts.csv"]', "[1]"), "data.facts: expected a list of texts, not [1]"),
    "train": (("train = 0.5", "train = 50"), "data.train: expected a number from 0 to 1, not 50"),
    "by": (("train = 0.5", 'by = "fact"'), "data.by: unknown value 'fact'"),
    "a sort without by": (
        ("train = 0.5", 'sort = "agent"'),
        "data.sort: sort applies only to a split",
    ),
    "horizon": (
        ("train = 0.5", "horizon = 0"),
        "data.horizon: expected a whole number of at least 1",
    ),
    "conflict": (("train = 0.5", 'on_conflict = "x"'), "data.on_conflict: unknown value 'x'"),
    "flip": (("train = 0.5", "flip = -1"), "data.flip: expected a number from 0 to 1, not -1"),
    "seed": (("seed = 1", "seed = 1.5"), "data.seed: expected a whole number, not 1.5"),
    "a long seed": (
        ("seed = 1", f"seed = {2**63}"),
        "data.seed: expected a whole number of at least 0",
    ),
    "test and train": (
        ("train = 0.5", 'train = 0.5\ntest = ["t.csv"]'),
        "data.train: train cannot be set with test",
    ),
    "wide without a sort": (('sort = "agent"\n', ""), "data.wide[1]: the key 'sort' is missing"),
    "wide in the second table": (
        ('sort = "place"\n', ""),
        "data.wide[2]: the key 'sort' is missing",
    ),
    "arguments": (
        ('features = ["width"]', "arguments = 3"),
        "data.wide[2].arguments: expected a table, not 3",
    ),
    "arguments of a column": (
        ('features = ["width"]', "arguments = {w = 3}"),
        "data.wide[2].arguments.w: expected a list of texts, not 3",
    ),
    "categories": (
        ('{colour = ["red", "blue"]}', "{colour = 7}"),
        "data.wide[1].categories.colour: expected a list of texts, not 7",
    ),
    "columns": (
        ('["Stop", "Slow", "Fast"]\nf', "3\nf"),
        "data.wide[1].predicates: expected a list",
    ),
    "a key of a wide table": (
        ('entity = "who"', 'entity = "who"\ncolor = 1'),
        "unknown key 'data.wide[1].color'",
    ),
    "embedding": (("embedding = 3", "embedding = -1"), "inputs.agent.embedding: expected a whole"),
    "time": (('"smooth"', '"smoth"'), "inputs.agent.time: unknown value 'smoth'"),
    "reach": (
        ("reach = 1.5", "reach = 0"),
        "inputs.agent.reach: expected a number of at least 0.001",
    ),
    "an input that is no table": (
        ("[inputs.agent]", "[inputs]\nother = 1\n[inputs.agent]"),
        "inputs.other: expected a table, not 1",
    ),
    "kind": (('kind = "logits"', 'kind = "logit"'), "predicates.Crowded.kind: unknown value"),
    "hidden of logits": (
        ("scale = 0.5", "hidden = [1]"),
        "unknown key 'predicates.Crowded.hidden'",
    ),
    "reach of a network": (
        ('activation = "tanh"', "reach = 1"),
        "unknown key 'predicates.Near.reach'",
    ),
    "hidden": (
        ("hidden = [4]", "hidden = [0]"),
        "predicates.Near.hidden: expected a list of whole",
    ),
    "activation": (('"tanh"', '"tan"'), "predicates.Near.activation: unknown value 'tan'"),
    "a definition without a formula": (
        ('formula = "Y Stop(x) & exists y. Near(x, y)"', 'kind = "formula"'),
        "predicates.Waits: a definition needs a formula",
    ),
    "a network with a formula": (
        ('formula = "Y', 'kind = "network", formula = "Y'),
        "unknown key 'predicates.Waits.formula'",
    ),
    "a predicate that is a number": (
        ("Crowded = {kind", "Car = 1\nCrowded = {kind"),
        "predicates.Car: expected a table, not 1",
    ),
    "one exclusive predicate": (
        ('predicates = ["Stop", "Slow", "Fast"]\nh', 'predicates = ["Stop"]\nh'),
        "exclusive[1].predicates: an exclusive group needs at least two",
    ),
    "preset": (("[objective]\n", '[objective]\npreset = "x"\n'), "objective.preset: unknown value"),
    "fact loss": (('"cross-entropy"', '"cross"'), "objective.facts: unknown value 'cross'"),
    "losses that do not fit": (
        ('together = "sum"', 'together = "mean-error"'),
        "objective: only satisfactions have a mean error",
    ),
    "a schedule": (
        ("[[0, 0.1], [4, 1]]", "[[0, 1, 2]]"),
        "objective.weight: weight must be a number",
    ),
    "a schedule back in time": (
        ("[[0, 0.1], [4, 1]]", "[[4, 1], [0, 1]]"),
        "objective.weight: the epochs of weight must increase",
    ),
    "a weight": (("A1 = 0.5", "A1 = -1"), "objective.axiom_weights.A1: A1 must be at least 0, not"),
    "p of an axiom": (("[[0, 1], [6, 3]]", "0.5"), "objective.axiom_p.A3: A3 must be at least 1"),
    "epochs": (
        ("epochs = 6", "epochs = 0"),
        "training.epochs: expected a whole number of at least 1",
    ),
    "rate": (("rate = 0.02", "rate = 0"), "training: the learning rate must be above 0"),
    "an infinite rate": (
        ("rate = 0.02", "rate = inf"),
        "training.rate: expected a number of at least 0",
    ),
    "validation": (
        ("validation = 0.2", "validation = 1"),
        "training: the validation share must be",
    ),
    "clip": (("clip = 5", "clip = 0"), "training: gradients must be clipped at a norm above 0"),
    "optimiser": (('"AdamW"', '"adams"'), "training.optimiser: unknown optimiser 'adams'"),
    "options": (
        ("options = {weight_decay = 0.01, betas = [0.9, 0.99]}", "options = 1"),
        "training.options: expected a table, not 1",
    ),
    "a key of training": (("clip = 5", "clipp = 5"), "unknown key 'training.clipp'"),
    "batches": (("clip = 5", "batches = 3"), "training.batches: expected a table, not 3"),
    "size of batches": (
        ("clip = 5", "batches = {size = 0}"),
        "training.batches.size: expected a whole number of at least 1",
    ),
    "a sort of traces": (
        ("clip = 5", 'batches = {by = "traces", sort = "agent"}'),
        "training.batches.sort: sort applies only to batches by entities",
    ),
    "device": (
        ("[training]", "[machine]\ndevice = 1\n[training]"),
        "machine.device: expected text",
    ),
    "dtype": (("[training]", '[machine]\ndtype = "half"\n[training]'), "machine.dtype: unknown"),
    "compile": (("[training]", "[machine]\ncompile = 1\n[training]"), "machine.compile: expected"),
    "model": (("[training]", "[output]\nmodel = 1\n[training]"), "output.model: expected text"),
    "a key of output": (
        ("[training]", "[output]\nmodell = 1\n[training]"),
        "unknown key 'output.modell'",
    ),
    "an unknown table": (("[training]", "[trainings]"), "unknown key 'trainings'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_values_are_refused_where_they_are(case):
    change, message = WRONG[case]
    with pytest.raises(DataError) as found:
        config(changed(change))
    (diagnostic,) = found.value.diagnostics
    path, _, rest = message.partition(": ")
    if " " in path:  # about the whole file
        assert message in diagnostic.message
    else:
        assert diagnostic.message.startswith(f"{path}: {rest}")
    if case not in ("no theory", "a table"):
        assert diagnostic.span is not None
        assert "^" in diagnostic.span.excerpt()
        assert diagnostic.span.source.name == "project.toml"


HINTS = {
    "semantics": "did you mean 'stable-product'?",
    "a key of training": "did you mean 'clip'?",
    "an unknown table": "did you mean 'training'?",
    "time": "did you mean 'smooth'?",
    "optimiser": "did you mean 'adam'?",
    "by": "did you mean 'facts'?",
    "activation": "did you mean 'tanh'?",
}


@pytest.mark.parametrize("case", HINTS)
def test_the_nearest_name_is_suggested(case):
    with pytest.raises(DataError) as found:
        config(changed(WRONG[case][0]))
    assert found.value.diagnostics[0].hint in (HINTS[case], "did you mean 'adamw'?")


#: What only fails when theory and data are there.
UNFIT = {
    "an unknown predicate": (("Near = {", "Naer = {"), "unknown predicate 'Naer'"),
    "an unknown predicate in a group": (
        ('predicates = ["Stop", "Slow", "Fast"]\nh', 'predicates = ["Stop", "Slwo"]\nh'),
        "unknown predicate 'Slwo'",
    ),
    "an unknown sort": (("[inputs.agent]", "[inputs.agnet]"), "unknown sort 'agnet'"),
    "an unknown learnable entity": (('["l2"]', '["l9"]'), "there is no entity 'l9'"),
    "nothing to see": (
        ("embedding = 3\n", "embedding = 0\nfeatures = false\n"),
        "inputs.agent: networks see nothing, because",
    ),
    "learnable without features": (
        ('learnable = ["l2"]', 'features = false\nlearnable = ["l2"]'),
        "learnable needs features, and there are none",
    ),
    "two groundings": (("Near = {", 'Stop = "network"\nNear = {'), "'Stop' has two groundings"),
    "a definition of itself": (
        ('"Y Stop(x) &', '"Y Waits(x) &'),
        "definitions depend on themselves",
    ),
    "a definition of another variable": (('variables = ["x"]', 'variables = ["z"]'), "'x'"),
    "a weight of no axiom": (("A1 = 0.5", "A9 = 0.5"), "unknown axiom 'A9'"),
    "p of no axiom": (("A3 = [[", "A0 = [["), "unknown axiom 'A0'"),
    "crisp": (('"stable-product"', '"crisp"'), "the semantics 'crisp' has no p"),
    "device": (
        ("[training]", '[machine]\ndevice = "gpu"\n[training]'),
        "device 'gpu' cannot be used",
    ),
    "no numbers": (("[training]", '[machine]\ndevice = "meta"\n[training]'), "cannot be used"),
    "no theory": (('"theory.fot"', '"theory.txt"'), "theory.txt"),
    "no facts": (('"facts.csv"', '"fact.csv"'), "fact.csv: no such file"),
    "no column": (('features = ["width"]', 'features = ["widht"]'), "no column 'widht'"),
    "a sort to draw": (("train = 0.5", 'train = 0.5\nby = "entities"'), "name the sort of"),
    "a short horizon": (("train = 0.5", "horizon = 2"), "beyond the horizon of 2 time points"),
    "categories": (('["red", "blue"]', '["red"]'), "expected one of 'red'"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_what_does_not_fit_theory_and_data(case, tmp_path):
    change, message = UNFIT[case]
    with pytest.raises(FotError) as found:
        build(read_config(project(tmp_path, changed(change))))
    assert message in str(found.value)


@pytest.mark.parametrize("case", ["an unknown predicate", "an unknown sort", "device"])
def test_what_does_not_fit_is_pointed_at(case, tmp_path):
    with pytest.raises(FotError) as found:
        build(read_config(project(tmp_path, changed(UNFIT[case][0]))))
    (diagnostic,) = found.value.diagnostics
    assert diagnostic.span is not None
    assert diagnostic.span.source.name == str(tmp_path / "project.toml")


# --- where a project is -----------------------------------------------------------------------


def test_a_project_is_its_folder_or_its_file(tmp_path):
    folder = project(tmp_path / "p")
    assert read_config(folder) == read_config(folder / "project.toml")
    assert read_config(folder).table("facts.csv") == folder / "facts.csv"


@pytest.mark.parametrize("name", ["nothing", "", "a" * 300, "x\0y"])
def test_there_is_no_project(tmp_path, name):
    with pytest.raises(DataError, match=r"there is no project|cannot read"):
        read_config(tmp_path / name)


def test_a_model_is_no_project(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "project.toml").write_text(SHORT)
    with pytest.raises(DataError, match="is a model, not a project"):
        read_config(tmp_path)


@pytest.mark.parametrize("content", [b"\xff\xfe", bytes(range(256))])
def test_a_file_of_garbage(tmp_path, content):
    (tmp_path / "project.toml").write_bytes(content)
    with pytest.raises(DataError, match=r"is not UTF-8|not TOML"):
        read_config(tmp_path)


def test_a_folder_of_that_name(tmp_path):
    (tmp_path / "project.toml").mkdir()
    with pytest.raises(DataError, match="it is a folder, not a file"):
        read_config(Path(tmp_path))
