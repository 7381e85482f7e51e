"""A model over other data: what travels, what does not, and data that do not fit."""

import csv
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fotltn
from fotltn.errors import DataError

THEORY = """\
sort pump, site
predicate Failed(pump), Worn(pump), Hot(pump), Cold(pump), Here(pump), Down(pump)
predicate At(pump, site)
static predicate Old(pump), Wet(site)
axiom Cause: forall x where Here(x). G(Failed(x) -> Worn(x))
axiom Site: forall x, y where At(x, y). G(Wet(y) -> Worn(x))
"""

TOML = """\
[theory]
file = "theory.fot"

[data]
facts = ["at.csv"]
local = ["pump"]

[[data.wide]]
file = "pumps.csv"
sort = "pump"
entity = "pump"
time = "hour"
trace = "day"
predicates = { failed = "Failed", worn = "Worn" }
features = ["bar", "degrees", "make"]
categories = { make = ["A", "B"] }
presence = "Here"

[[data.wide]]
file = "sites.csv"
sort = "site"
entity = "site"
predicates = { wet = "Wet" }
features = ["depth"]

[inputs.pump]
changes = [1]

[inputs.site]
learnable = ["s2"]

[predicates]
Failed = { kind = "network", hidden = [5] }
Worn = { kind = "network", hidden = [5] }
Old = { kind = "network", hidden = [3] }
Wet = { kind = "network", hidden = [3] }
Down = { variables = ["x"], formula = "Failed(x) & X Failed(x)" }

[[exclusive]]
predicates = ["Hot", "Cold"]
other = true

[training]
epochs = 3
"""

HEADS = {
    "pumps.csv": ["day", "pump", "hour", "bar", "degrees", "make", "failed", "worn"],
    "sites.csv": ["site", "depth", "wet"],
    "at.csv": ["predicate", "arg1", "arg2", "trace", "time", "truth"],
}


def rows(days: int = 6) -> dict[str, list[list[object]]]:
    """Days of different lengths, with pumps that come and go."""
    draw = random.Random(4)
    pumps: list[list[object]] = []
    at: list[list[object]] = []
    for day in range(days):
        for number in range(2 + day % 3):
            first, last = draw.randrange(3), 4 + draw.randrange(3)
            for hour in range(first, last):
                label = draw.choice(["", "0", "1"])
                seen = [round(draw.gauss(5, 2), 3), draw.randrange(40, 90), draw.choice("AB")]
                pumps.append([f"d{day}", f"p{number}", hour, *seen, label, draw.choice(["", "1"])])
            site = f"s{draw.randrange(1, 4)}"
            at.append(["At", f"p{number}", site, f"d{day}", first, 1])
    sites: list[list[object]] = [["s1", 3.5, 1], ["s2", 0.5, 0], ["s3", 9, ""]]
    return {"pumps.csv": pumps, "sites.csv": sites, "at.csv": at}


def write(folder: Path, tables: dict[str, list[list[object]]]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, lines in tables.items():
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([HEADS[name], *lines])
    return folder


def days(tables: dict[str, list[list[object]]], *chosen: str) -> dict[str, list[list[object]]]:
    """The tables of some days alone."""
    place = {"pumps.csv": 0, "at.csv": 3}
    return {
        name: [line for line in lines if name not in place or line[place[name]] in chosen]
        for name, lines in tables.items()
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with its model."""
    folder = write(tmp_path_factory.mktemp("pumps"), rows())
    (folder / "theory.fot").write_text(THEORY)
    (folder / "project.toml").write_text(TOML)
    model = fotltn.train(folder)
    assert model.warnings == ()
    model.save(folder / "model")
    return folder


def degrees(model: fotltn.Model, *days: str) -> dict[tuple[object, ...], float]:
    """Predictions by predicate, arguments, trace and time."""
    found: dict[tuple[object, ...], float] = {}
    for row in model.predictions().to_pylist():
        trace = row.get("trace", model.facts.traces[0])
        if not days or trace in days or trace is None:
            found[row["predicate"], row["arg1"], row["time"], trace] = row["truth"]
    return found


def test_new_files_have_the_predictions_that_the_project_gives(trained, tmp_path):
    model = fotltn.load_model(trained / "model")
    inside = degrees(model, "d1", "d4")
    new = write(tmp_path / "new", days(rows(), "d1", "d4"))
    applied = model.apply(new)
    assert applied.facts.traces == ("d1", "d4")
    outside = degrees(applied)
    assert {k: v for k, v in inside.items() if k in outside} == pytest.approx(outside, abs=1e-6)
    assert len(outside) > 60
    assert {k[0] for k in outside} == {"Failed", "Worn", "Hot", "Cold", "Old", "Wet", "Down"}
    assert applied.metrics() is not None


def test_another_process_gives_the_same(trained, tmp_path):
    new = write(tmp_path / "new", days(rows(), "d2"))
    here = fotltn.load_model(trained / "model").apply(new)
    done = subprocess.run(
        [sys.executable, "-m", "fotltn", "predict", str(trained), "--data", str(new), "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["predictions"] == here.predictions().to_pylist()


def test_statistics_of_new_data_are_not_used(trained, tmp_path):
    tables = days(rows(), "d2")
    one = {**tables, "pumps.csv": tables["pumps.csv"][:1]}
    model = fotltn.load_model(trained / "model")
    before = model.grounding.state_dict()
    applied = model.apply(write(tmp_path / "one", one))
    for name, tensor in applied.grounding.state_dict().items():
        if name.endswith(("mean", "spread")):
            assert torch.equal(tensor, before[name])


def test_what_is_learned_need_not_be_there(trained, tmp_path):
    new = write(tmp_path / "new", days(rows(), "d2"))
    bare = tmp_path / "bare"
    bare.mkdir()
    for file in new.iterdir():
        lines = list(csv.reader(file.read_text().splitlines()))
        keep = [i for i, head in enumerate(lines[0]) if head not in ("failed", "worn", "wet")]
        with (bare / file.name).open("w", newline="") as out:
            csv.writer(out).writerows([[line[i] for i in keep] for line in lines])
    model = fotltn.load_model(trained / "model")
    applied = model.apply(bare)
    assert degrees(applied) == degrees(model.apply(new))
    assert applied.metrics() is None


def test_other_lengths_and_entities(trained, tmp_path):
    tables = days(rows(), "d2")
    tables["pumps.csv"] += [["d9", "new", hour, 1, 70, "A", "", ""] for hour in range(40)]
    tables["sites.csv"].append(["s9", 2.5, ""])
    applied = fotltn.load_model(trained / "model").apply(write(tmp_path / "new", tables))
    assert ("Failed", "new", 39, "d9") in degrees(applied)
    again = applied.apply(write(tmp_path / "old", days(rows(), "d2")))
    assert degrees(again, "d2") == pytest.approx(
        {k: v for k, v in degrees(applied, "d2").items() if k in degrees(again)}, abs=1e-6
    )


def test_an_applied_model_is_saved_with_its_new_data(trained, tmp_path):
    applied = fotltn.load_model(trained / "model").apply(
        write(tmp_path / "new", days(rows(), "d2"))
    )
    applied.save(tmp_path / "kept")
    assert degrees(fotltn.load_model(tmp_path / "kept")) == degrees(applied)


def test_tables_in_memory_by_place_and_by_name():
    def table(*bars: float) -> dict[str, list[object]]:
        return {"pump": [*"abcdef"[: len(bars)]], "bar": [*bars]}

    wide = fotltn.Wide(
        {**table(5, 1, 4, 2), "fails": [0, 1, 0, 1]}, "pump", "pump",
        predicates={"fails": "Fails"}, features=["bar"],
    )  # fmt: skip
    model = fotltn.train(
        "sort pump\nstatic predicate Fails(pump)\n", wide=wide, learn=["Fails"],
        training={"epochs": 40, "rate": 0.1},
    )  # fmt: skip
    for new in (table(1, 5), [table(1, 5)], {"wide 1": table(1, 5)}):
        low, high = model.apply(new).ask("Fails(x)").tensor.flatten().tolist()
        assert low > 0.5 > high


def test_a_folder_is_that_of_the_new_data_wherever_the_old_ones_were(tmp_path):
    for name, pump in (("old", "a"), ("new", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "w.csv").write_text(f"pump,bar,fails\n{pump},1,1\n{pump}{pump},5,0\n")
    wide = fotltn.Wide(
        tmp_path / "old" / "w.csv", "pump", "pump", predicates={"fails": "Fails"}, features=["bar"]
    )
    model = fotltn.train(
        "sort pump\nstatic predicate Fails(pump)\n", wide=wide, learn=["Fails"],
        training={"epochs": 1},
    )  # fmt: skip
    assert model.apply(tmp_path / "new").facts.entities["pump"] == ("b", "bb")


# --- what does not travel ---------------------------------------------------------------------


def project(folder: Path, *changes: tuple[str, str]) -> Path:
    text = TOML
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    write(folder, rows())
    (folder / "theory.fot").write_text(THEORY)
    (folder / "project.toml").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            "Old = { kind = \"network\", hidden = [3] }", "Old = \"logits\"",
            "'Old' has one logit for each fact of its own data",
        ),
        (
            "changes = [1]", "changes = [1]\nembedding = 4",
            "networks see a separate vector for each 'pump' at each time point "
            "(inputs.pump.embedding = 4)",
        ),
        (
            "changes = [1]", "changes = [1]\nembedding = 4\ntime = \"static\"",
            "networks see a separate vector for each 'pump' in each trace",
        ),
    ],
)  # fmt: skip
def test_what_belongs_to_its_own_data_is_said_before_it_is_used(tmp_path, before, after, expected):
    folder = project(tmp_path / "p", (before, after))
    model = fotltn.train(folder)
    (warning,) = model.warnings
    assert warning.startswith("the model can be applied only to its own data: ")
    assert expected in warning
    with pytest.raises(DataError) as told:
        model.apply(folder)
    assert expected in str(told.value)
    assert "these models work on other data: networks over features" in str(told.value)


def test_vectors_of_entities_travel_by_name_and_others_are_refused_or_the_mean(tmp_path):
    settings = 'learnable = ["s2"]\nembedding = 2\ntime = "static"'
    plain = project(tmp_path / "plain", ('learnable = ["s2"]', settings))
    model = fotltn.train(plain)
    assert model.warnings == ()
    tables = days(rows(), "d2")
    tables["sites.csv"] = [["s3", 9, ""], ["s9", 2.5, ""], ["s1", 3.5, ""]]
    new = write(tmp_path / "new", tables)
    with pytest.raises(DataError, match="no vector for 's9' of sort 'site'") as told:
        model.apply(new)
    assert 'unknown = "mean"' in str(told.value)
    mean = project(tmp_path / "m", ('learnable = ["s2"]', f'{settings}\nunknown = "mean"'))
    model = fotltn.train(mean)
    applied = model.apply(new)
    key = "inputs.site.parts.1.vectors"
    old, vectors = (m.grounding.state_dict()[key][0] for m in (model, applied))
    names = model.facts.entities["site"]
    assert applied.facts.entities["site"] == ("s1", "s3", "s9")
    assert torch.equal(vectors[0], old[names.index("s1")])
    assert torch.equal(vectors[1], old[names.index("s3")])
    assert torch.allclose(vectors[2], old.mean(0))


@pytest.mark.parametrize("encoder", ["", 'encoder = "gru"'])
def test_numbers_in_pieces_travel_with_the_quantiles_of_training(tmp_path, encoder):
    seen = f'changes = [1]\nneighbours = ["At"]\nbins = 5\n{encoder}'
    folder = project(tmp_path / "p", ("changes = [1]", seen))
    fotltn.train(folder).save(tmp_path / "model")
    model = fotltn.load_model(tmp_path / "model")
    assert "numbers in 5 pieces" in (tmp_path / "model" / "README.md").read_text("utf-8")
    edges = {n: t for n, t in model.grounding.state_dict().items() if n.endswith("edges")}
    assert edges
    new = write(tmp_path / "new", days(rows(), "d1", "d4"))
    applied = model.apply(new)
    again = applied.grounding.state_dict()
    assert all(torch.equal(again[n], t) for n, t in edges.items())
    inside, outside = degrees(model, "d1", "d4"), degrees(applied)
    assert {k: v for k, v in inside.items() if k in outside} == pytest.approx(outside, abs=1e-6)


def test_pieces_need_features(tmp_path):
    folder = project(tmp_path / "p", ("changes = [1]", "features = false\nembedding = 2\nbins = 4"))
    with pytest.raises(DataError, match=r"inputs\.pump: bins needs features, and there are none"):
        fotltn.train(folder)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("encoder", ["", 'encoder = "gru"', 'encoder = "transformer"'])
def test_a_gpu_gives_the_same(tmp_path, encoder):
    seen = f'changes = [1]\nneighbours = ["At"]\n{encoder}'
    models = []
    for device in ("cpu", "cuda"):
        folder = project(
            tmp_path / device, ("changes = [1]", seen),
            ("[training]", f'[machine]\ndevice = "{device}"\n\n[training]'),
        )  # fmt: skip
        models.append(fotltn.train(folder))
    # Recurrent networks of a GPU round more coarsely.
    assert degrees(models[0]) == pytest.approx(degrees(models[1]), abs=5e-3)
    new = write(tmp_path / "new", days(rows(), "d1", "d4"))
    inside = degrees(models[1], "d1", "d4")
    outside = degrees(models[1].apply(new))
    assert {k: v for k, v in inside.items() if k in outside} == pytest.approx(outside, abs=1e-3)
