"""What a stranger's project or model may touch: its own folder, unless the user says more."""

import pytest

from fotltn import load_model
from fotltn.errors import DataError, ParseError
from fotltn.files import ROOT
from fotltn.learn.store import read_folder, write_folder
from fotltn.project.build import build
from fotltn.project.config import read_config
from fotltn.project.find import find_model, load_project
from fotltn.project.model import model_of
from fotltn.project.world import read_world
from fotltn.syntax.load import load_theory, parse_theory
from tests.project.common import THEORY, changed, project

SECRET = "root:x:0:0:very secret\n"


@pytest.fixture
def secret(tmp_path):
    file = tmp_path / "secret"
    file.write_text(SECRET)
    return file


@pytest.mark.reliability
@pytest.mark.usefixtures("secret")
@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "/dev/zero", "theory.fot"])
def test_the_theory_of_a_model_includes_nothing(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(ROOT, "/")  # which is for projects, not for models
    model_of(build(read_config(project(tmp_path / "p")))).save(tmp_path / "m")
    tensors, documents = read_folder(tmp_path / "m", kind="model")
    documents["theory.fot"] = f'{THEORY}include "{path}"\n'
    write_folder(tmp_path / "m", tensors, documents, kind="model")
    with pytest.raises(ParseError) as caught:
        load_model(tmp_path / "m")
    (refusal,) = caught.value.diagnostics
    assert refusal.message == "the theory of a model cannot include files"
    assert "secret" not in str(caught.value).replace("../secret", "")


@pytest.mark.reliability
@pytest.mark.parametrize("how", ["climbing", "absolute", "link", "from a folder below"])
def test_includes_stay_in_the_folder(tmp_path, secret, how):
    folder = tmp_path / "p"
    (folder / "sub").mkdir(parents=True)
    main = folder / "main.fot"
    match how:
        case "climbing":
            main.write_text('include "../secret"')
        case "absolute":
            main.write_text(f'include "{secret}"')
        case "link":
            (folder / "here.fot").symlink_to(secret)
            main.write_text('include "here.fot"')
        case "from a folder below":
            (folder / "sub" / "a.fot").write_text('include "../../secret"')
            main.write_text('include "sub/a.fot"')
    with pytest.raises(ParseError) as caught:
        load_theory(main)
    assert "it is outside" in str(caught.value)
    assert f"set {ROOT} in the environment" in str(caught.value)
    assert "root:x" not in str(caught.value)


@pytest.mark.reliability
def test_users_can_widen_what_may_be_included(tmp_path, monkeypatch):
    (tmp_path / "p").mkdir()
    (tmp_path / "common.fot").write_text("sort common")
    main = tmp_path / "p" / "main.fot"
    main.write_text('include "../common.fot"')
    wanted = load_theory(main, root=tmp_path)
    assert [d.name for d in wanted.declarations] == ["common"]
    assert parse_theory('include "common.fot"', folder=tmp_path) == wanted
    with pytest.raises(ParseError, match="it is outside"):
        parse_theory('include "../common.fot"', folder=tmp_path / "p")
    monkeypatch.setenv(ROOT, str(tmp_path))
    assert load_theory(main) == wanted


@pytest.mark.reliability
def test_a_project_includes_what_is_in_its_folder(tmp_path, monkeypatch):
    folder = project(tmp_path / "p", changed(('"theory.fot"', '"sub/t.fot"')))
    (folder / "sub").mkdir()
    (folder / "sub" / "t.fot").write_text('include "../theory.fot"')
    assert read_world(read_config(folder)).theory.axioms
    (folder / "sub" / "t.fot").write_text('include "../../theory.fot"')
    (folder / "theory.fot").rename(tmp_path / "theory.fot")
    with pytest.raises(ParseError, match="it is outside"):
        read_world(read_config(folder))
    monkeypatch.setenv(ROOT, str(tmp_path))
    assert read_world(read_config(folder)).theory.axioms


@pytest.mark.reliability
@pytest.mark.usefixtures("secret")
def test_the_theory_of_a_project_is_in_its_folder(tmp_path):
    folder = project(tmp_path / "p", changed(('"theory.fot"', '"../secret"')))
    with pytest.raises(DataError, match="the theory is outside the project") as caught:
        read_world(read_config(folder))
    assert "project.toml:4:1" in str(caught.value)
    assert "root:x" not in str(caught.value)


@pytest.mark.reliability
def test_a_model_is_not_written_outside_its_project(tmp_path, monkeypatch, call):
    folder = project(tmp_path / "p" / "q", changed(("[training]", TRAINING)))
    done = call("train", folder)
    assert done.status == 1
    assert "the model is outside the project" in done.err
    assert f"set {ROOT} in the environment" in done.err
    assert not (tmp_path / "escape").exists()
    with pytest.raises(DataError, match="the model is outside the project"):
        find_model(folder)
    assert call("train", folder, "-o", tmp_path / "else").status == 0, "the user says where"
    monkeypatch.setenv(ROOT, str(tmp_path))
    assert call("train", folder).status == 0
    assert find_model(folder).history
    assert (tmp_path / "escape" / "manifest.json").exists()


TRAINING = '[output]\nmodel = "../../escape"\n\n[training]'


@pytest.mark.reliability
def test_tables_outside_a_project_are_read_with_a_warning(tmp_path, monkeypatch):
    folder = project(tmp_path / "p", changed(("[data]", '[data]\nfolder = "../tables"')))
    (tmp_path / "tables").mkdir()
    for file in folder.glob("*.csv"):
        file.rename(tmp_path / "tables" / file.name)

    def told(config):
        return [w for w in read_world(config).facts.warnings if "outside" in w.message]

    warnings = told(read_config(folder))
    assert [w.message.rpartition("/")[2] for w in warnings] == [
        "facts.csv", "agents.csv", "places.csv"
    ]  # fmt: skip
    assert all(w.span is not None and w.span.line == 9 for w in warnings)
    assert any("outside its folder" in w.message for w in load_project(folder).warnings)
    assert told(read_config(folder, data=tmp_path / "tables")) == [], "the user says where"
    monkeypatch.setenv(ROOT, str(tmp_path))
    assert told(read_config(folder)) == []


def test_an_error_does_not_quote_a_file_that_a_link_leads_to(call, tmp_path):
    for name, content in {
        "head": "root:secret\n",
        "rows": "predicate,time\nP,0\nsecret,0,1\n",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.txt").write_text(content)
        (tmp_path / name / "facts.csv").symlink_to(tmp_path / f"{name}.txt")
        (tmp_path / name / "theory.fot").write_text("predicate P\naxiom A: F P\n")
        (tmp_path / name / "project.toml").write_text(
            'theory.file = "theory.fot"\ndata.facts = ["facts.csv"]\n'
        )
        status, out, err = call("rules", tmp_path / name)
        assert (status, out) == (1, "")
        assert "a link to a file outside the project" in err
        assert "secret" not in err
