"""`fotltn rules`: rules counted on facts alone."""

import json
from pathlib import Path

import pytest

JAAD = Path(__file__).resolve().parents[2] / "examples" / "jaad"
THEORY = """\
sort agent
predicate Near(agent), Stop(agent), Here(agent)
axiom Obey: forall x. G(Near(x) -> WX Stop(x))
axiom Calm: forall x. G !Near(x)
"""
FACTS = """\
predicate,arg1,time,trace,truth
Near,a,0,one,1
Stop,a,1,one,1
Near,a,2,one,1
Stop,a,3,one,0
Near,b,1,two,0.6
Stop,b,2,two,1
Here,a,0,one,1
Here,a,1,one,1
Here,b,1,two,1
"""


@pytest.fixture
def facts(tmp_path, monkeypatch):
    (tmp_path / "t.fot").write_text(THEORY, "utf-8")
    (tmp_path / "f.csv").write_text(FACTS, "utf-8")
    (tmp_path / "empty.fot").write_text("sort agent\npredicate Near(agent)\n", "utf-8")
    monkeypatch.chdir(tmp_path)


def of_facts(call, *options):
    status, out, err = call("rules", "t.fot", "--facts", "f.csv", *options, "--json")
    assert status == 0, out
    assert err == ""
    found = json.loads(out)
    return found, {rule["rule"]: rule for rule in found["rules"]}


@pytest.mark.usefixtures("facts")
def test_a_theory_and_facts(call):
    found, rules = of_facts(call)
    assert (found["ok"], found["semantics"], found["traces"]) == (True, "crisp", 2)
    obey, calm = rules["Obey"], rules["Calm"]
    assert (obey["support"], obey["traces"], obey["cut"]) == (3, 2, 0)
    assert obey["confidence"]["value"] == pytest.approx(2 / 3)
    cells = 2 * (4 + 3)  # of two entities, in a trace of four points and one of three
    assert obey["base_rate"]["value"] == pytest.approx((2 + 4) / cells)  # two stops, four ends
    assert obey["lift"]["value"] == pytest.approx((2 / 3) / (6 / cells))
    assert (calm["implication"], calm["support"]) == (False, cells)
    assert calm["confidence"]["value"] == pytest.approx((cells - 3) / cells)
    assert calm["lift"]["value"] is None


@pytest.mark.usefixtures("facts")
def test_options_change_what_is_counted(call):
    assert of_facts(call, "--threshold", "0.7")[1]["Obey"]["support"] == 2
    assert of_facts(call, "--semantics", "godel")[1]["Obey"]["support"] == pytest.approx(2.6)
    here = of_facts(call, "--presence", "Here")[1]
    # Obey uses a at 0 and 1, where it is present; at 1, and b, also at a point where they are not.
    assert (here["Obey"]["support"], here["Calm"]["support"]) == (1, 3)
    assert (here["Obey"]["absent"], here["Calm"]["absent"]) == (14 - 1, 14 - 3)
    assert of_facts(call, "--horizon", "9")[1]["Calm"]["support"] == 36
    assert of_facts(call, "--resamples", "0")[1]["Obey"]["confidence"]["low"] is None
    text = "forall x. G(Stop(x) -> Y Near(x))"
    _, rules = of_facts(call, "--formula", text)
    assert list(rules) == [text]
    assert rules[text]["confidence"]["value"] == 1.0


@pytest.mark.usefixtures("facts")
def test_what_the_ends_of_traces_leave_open(call):
    text = "forall x. G(Near(x) -> X[2] Stop(x))"  # of b, two steps on is beyond the end
    options = ("--formula", text, "--resamples", "0")
    (found, rules), (final, old) = (of_facts(call, *options, *e) for e in ((), ("--end", "final")))
    assert (found["end"], rules[text]["support"], rules[text]["undecided"]) == ("undecided", 1, 2)
    assert (final["end"], old[text]["support"], old[text]["undecided"]) == ("final", 3, 0)
    assert rules[text]["uncut"]["support"] == old[text]["uncut"]["support"] == 1
    out = call("rules", "t.fot", "--facts", "f.csv", *options).out
    assert "undecided" in out.splitlines()[0]
    assert "Undecided: cells that fail only because their trace ends" in out
    assert "ndecided" not in call("rules", "t.fot", "--facts", "f.csv", *options[:0]).out
    status, out, err = call("rules", "t.fot", "--facts", "f.csv", "--end", "last")
    assert (status, out) == (2, "")
    assert "'undecided', 'final'" in err


@pytest.mark.usefixtures("facts")
def test_seeds_fix_the_intervals(call):
    one, same, other = (of_facts(call, "--seed", seed)[1] for seed in (1, 1, 2))
    assert one == same
    assert one["Obey"]["support"] == other["Obey"]["support"]


@pytest.mark.usefixtures("facts")
def test_what_people_read(call):
    status, out, err = call("rules", "t.fot", "--facts", "f.csv")
    assert (status, err) == (0, "")  # `check` says that no axiom uses 'Here'
    heads, _, obey, calm, *_ = out.splitlines()
    assert heads.split()[:3] == ["rule", "traces", "support"]
    assert obey.split()[:4] == ["Obey", "2", "3", "0.667"]
    assert calm.split()[:3] == ["Calm", "2", "14"]
    assert "95 % intervals" in out
    assert "The confidence of a rule without an antecedent" in out


BAD = {
    "t.fot": "'t.fot' is a theory, which needs facts: --facts FILE",
    "t.fot --facts f.csv --data .": "--data and --theory need a project; a theory takes --facts",
    "t.fot --facts f.csv --part test": "there is no part 'test' of the traces; the project has no "
    "[data.split]",
    "t.fot --facts f.csv --presence Her": "unknown predicate 'Her' for presence; did you mean "
    "'Here'?",
    "t.fot --facts f.csv --threshold 0": "a threshold must be above 0 and at most 1, not 0.0",
    "t.fot --facts f.csv --resamples 2000000": "the resamples are a whole number up to 1,000,000, "
    "not 2000000",
    "t.fot --facts f.csv --formula Near(x)": "a rule has no free variables, but 'Near(x)' has 'x'; "
    "bind them",
    "t.fot --facts f.csv --semantics crips": "unknown semantics 'crips'; did you mean 'crisp'?",
    "empty.fot --facts f.csv": None,
    "nowhere": "there is no project at 'nowhere': no file 'project.toml'; `fotltn new FOLDER` "
    "creates one",
}


@pytest.mark.usefixtures("facts")
@pytest.mark.parametrize("options", BAD)
def test_what_is_wrong_is_said(call, options):
    status, out, err = call("rules", *options.split(), "--json")
    assert (status, err) == (1, "")
    message = json.loads(out)["diagnostics"][0]["message"]
    assert message == BAD[options] or BAD[options] is None


@pytest.mark.usefixtures("facts")
def test_a_theory_without_rules(call, tmp_path):
    (tmp_path / "near.csv").write_text("predicate,arg1,time\nNear,a,0\n", "utf-8")
    status, _, err = call("rules", "empty.fot", "--facts", "near.csv")
    assert (status, err) == (
        1, "error: the theory of 'empty.fot' has no axioms to count; give a --formula\n"
    )  # fmt: skip


# --- projects -------------------------------------------------------------------------------------


def test_a_project(call):
    status, out, err = call("rules", JAAD, "--part", "test", "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert (found["part"], found["traces"], found["warnings"]) == ("test", 12, [])
    assert {"A1", "B3", "P1"} <= {rule["rule"] for rule in found["rules"]}


def test_a_project_with_other_tables_and_other_rules(call, tmp_path):
    for file in (JAAD / "data").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    options = ("--data", tmp_path, "--theory", JAAD / "audit.fot", "--resamples", "0", "--json")
    status, out, _ = call("rules", JAAD, *options)
    assert status == 0
    assert "C40" in {rule["rule"] for rule in json.loads(out)["rules"]}
    (tmp_path / "videos.csv").unlink()
    status, out, _ = call("rules", JAAD, *options)
    assert status == 1
    assert "videos.csv: no such file" in json.loads(out)["diagnostics"][0]["message"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--facts", "f.csv"], "--facts, --presence, --horizon and --step need"),
        (["--data", "nowhere"], "there is no data folder 'nowhere'"),
        (["--part", "tset"], "there is no part 'tset' of the traces; did you mean 'test'?"),
        (["--theory", "no.fot"], "no.fot"),
    ],
)
def test_what_is_wrong_with_a_project(call, options, message):
    status, _, err = call("rules", JAAD, *options)
    assert status == 1
    assert message in err


def test_other_commands_take_another_folder(call, tmp_path):
    for command in ("train", "audit"):
        status, _, err = call(command, JAAD, "--data", tmp_path / "none")
        assert (status, "there is no data folder" in err) == (1, True)
    for command in ("rules", "audit"):
        status, _, err = call(command, JAAD, "--data", tmp_path, "--data", tmp_path)
        assert (status, "--data must be one folder with its tables" in err) == (1, True)
        (tmp_path / "new.csv").write_text("a,b\n")
        status, _, err = call(command, JAAD, "--data", tmp_path / "new.csv")
        assert (status, "not the file" in err) == (1, True)
        assert "= --data may be files only for a model" in err


STAMPED = "sort s\npredicate A(s), B(s)\naxiom Next: forall x. G(A(x) -> X B(x))\n"
TIMES = ["08:10", "09:59", "11:00", "12:30"]


@pytest.mark.parametrize("command", ["rules", "eval"])
def test_facts_with_time_stamps(call, tmp_path, command):
    (tmp_path / "t.fot").write_text(STAMPED)
    for name, at in (
        ("n.csv", ["0", "1", "3", "4"]),
        ("s.csv", [f"2020-05-01T{t}" for t in TIMES]),
    ):
        lines = [f"{p},e,{t}" for p, t in zip("ABAB", at, strict=True)]
        (tmp_path / name).write_text("\n".join(["predicate,arg1,time", *lines]) + "\n")
    expected = call(command, tmp_path / "t.fot", "--facts", tmp_path / "n.csv", "--json")
    stamped = (command, tmp_path / "t.fot", "--facts", tmp_path / "s.csv", "--json")
    assert call(*stamped, "--step", "1h") == expected
    assert call(*stamped, "--step", "1h", "--origin", "2020-05-01T08:00") == expected
    status, out, _ = call(*stamped)
    assert status == 1
    assert "--step 1h" in out
    status, out, _ = call(*stamped, "--origin", "2020-05-01T08:00")
    assert status == 1
    assert "'origin' is set, but there is no step" in out


def test_time_stamps_to_look_at(tmp_path):
    from fotltn.grounding.clock import Clock
    from fotltn.web.sides import side_of_facts

    (tmp_path / "t.fot").write_text(STAMPED)
    (tmp_path / "s.csv").write_text(
        "predicate,arg1,time\nA,e,2020-05-01T08:10\nB,e,2020-05-01T09:59\n"
    )
    seen = side_of_facts(tmp_path / "t.fot", [tmp_path / "s.csv"], clock=Clock("1h"))
    assert seen.view.tables.horizon == 2
