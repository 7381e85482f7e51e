"""Theory files: reading with includes, all errors at once, writing all or nothing."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from fotltn.errors import BuildError, DataError, Diagnostic, FotError, ParseError
from fotltn.syntax import formula as f
from fotltn.syntax import theory as th
from fotltn.syntax.load import load_theory, parse_theory
from fotltn.syntax.show import save_theory

p, q, h = f.Atom("p"), f.Atom("q"), f.Atom("hard")


def names(theory: th.Theory) -> list[str]:
    return [item.name for item in (*theory.declarations, *theory.axioms)]


def places(error: FotError) -> list[str]:
    """`file:line:column message` of each finding, without folders."""
    return [
        f"{Path(d.span.source.name).name}:{d.span.line}:{d.span.column} {d.message}"
        if d.span
        else d.message
        for d in error.diagnostics
    ]


# --- statements ------------------------------------------------------------------------------

STATEMENTS: list[tuple[str, list[th.Declaration | th.Axiom]]] = [
    ("sort a, b", [th.SortDecl("a"), th.SortDecl("b")]),
    (
        "predicate P(a), Q(a, b), r",
        [th.PredicateDecl("P", ("a",)), th.PredicateDecl("Q", ("a", "b")), th.PredicateDecl("r")],
    ),
    ("static predicate P(a)", [th.PredicateDecl("P", ("a",), static=True)]),
    ("temporal predicate P(a)", [th.PredicateDecl("P", ("a",))]),
    ("predicate p()", [th.PredicateDecl("p")]),
    ("function g(a, b): c", [th.FunctionDecl("g", ("a", "b"), "c")]),
    ("static function g(a): real", [th.FunctionDecl("g", ("a",), "real")]),
    ("temporal function g(a): b", [th.FunctionDecl("g", ("a",), "b", static=False)]),
    (
        'constant ego, "car 7": car',
        [th.ConstantDecl("ego", "car"), th.ConstantDecl("car 7", "car")],
    ),
    (
        "relation r(a, b), s(a, a, b)",
        [th.RelationDecl("r", ("a", "b")), th.RelationDecl("s", ("a", "a", "b"))],
    ),
    ("axiom A1: p & q", [th.Axiom("A1", f.And(p, q))]),
    ("axiom A1 weight 2.5: p", [th.Axiom("A1", p, 2.5)]),
    ("hard axiom A1: p", [th.Axiom("A1", p, hard=True)]),
    (" hard \t axiom A1: p", [th.Axiom("A1", p, hard=True)]),
    ("axiom hard: hard", [th.Axiom("hard", f.Atom("hard"))]),
    ("hard axiom hard:\n  hard &\nhard", [th.Axiom("hard", f.And(h, h), hard=True)]),
    ("axiom A:\nhard\naxiom B: p", [th.Axiom("A", h), th.Axiom("B", p)]),
    ("sort hard\npredicate hard(hard)", [th.SortDecl("hard"), th.PredicateDecl("hard", ("hard",))]),
    ("constant hard: s", [th.ConstantDecl("hard", "s")]),
    ("axiom A1:\n  p &\n  # why\n  q", [th.Axiom("A1", f.And(p, q))]),
    ("\n# a comment\n  sort a # another\n\taxiom B: p\n\n", [th.SortDecl("a"), th.Axiom("B", p)]),
    ("# nothing\n", []),
    ("", []),
]


@pytest.mark.parametrize(("text", "expected"), STATEMENTS, ids=[t for t, _ in STATEMENTS])
def test_statements_and_their_objects(text, expected):
    theory = parse_theory(text)
    assert [*theory.declarations, *theory.axioms] == expected


SLIPS = [
    ("sort", "1:5", "found the end, expected a name", None),
    ("sort X", "1:6", "found 'X', expected a name", "'X' is a keyword of the language"),
    ("sort a b", "1:8", "found 'b', expected ',' or the end", None),
    ("sort a,", "1:8", "found the end, expected a name", None),
    ("predicate F(a)", "1:11", "found 'F', expected a name", "F is the operator 'eventually'"),
    ("predicate P(x: a)", "1:14", "found ':', expected ')' or ','", None),
    ("function g(a)", "1:14", "found the end, expected ':'", None),
    ("function g(a) -> b", "1:15", "found '->', expected ':'", None),
    ("static sort a", "1:8", "found 'sort', expected 'function' or 'predicate'", None),
    ("constant c", "1:11", "found the end, expected ',' or ':'", None),
    ("constant 'c': s", "1:10", "found the character", "names of entities go in double quotes"),
    ("relation r(a, b): c", "1:17", "found ':', expected ',' or the end", None),
    ("include other.fot", "1:9", "found 'other', expected a name in double quotes", None),
    ("axiom: p", "1:6", "found ':', expected a name", None),
    ("axiom A p", "1:9", "found 'p', expected ':' or 'weight'", None),
    ("axiom A = p", "1:9", "found '=', expected ':' or 'weight'", None),
    ("axiom A:", "1:9", "found the end, expected a formula", None),
    ("axiom A: p && q", "1:13", "found '&', expected a formula", "conjunction is a single &"),
    ("axiom A: p)", "1:11", "found ')', expected the end", None),
    ("axiom A weight: p", "1:15", "found ':', expected a number", None),
    ("axiom A weight 0: p", "1:16", "a weight must be a positive number, not 0", None),
    ("axiom A weight -1: p", "1:16", "a weight must be a positive number, not -1", None),
    ("axiom A weight 1e999: p", "1:16", "a weight must be a positive number, not 1e999", None),
    ("axiom A weight .5: p", "1:16", "found '.', expected a number", None),
    (
        "hard axiom A weight 2: p",
        "1:14",
        "a hard axiom cannot have a weight",
        "it holds in every world",
    ),
    (
        "hard axiom A weight 1: p",
        "1:14",
        "a hard axiom cannot have a weight",
        "it holds in every world",
    ),
    ("hard axiom: p", "1:11", "found ':', expected a name", None),
    ("hrad axiom A: p", "1:1", "this is not a statement", "did you mean 'hard'?"),
    ("hard A: p", "1:1", "this is not a statement", "hard goes before axiom, on the same line"),
    ("hard\naxiom A: p", "1:1", "this is not a statement", "hard goes before axiom, on the"),
    ("axiom hard A: p", "1:12", "found 'A', expected ':' or 'weight'", "hard goes before axiom"),
    ("axiom B: p\nhard axim A: p", "2:1", "found 'hard', expected", "hard goes before axiom"),
    (
        "hello",
        "1:1",
        "this is not a statement",
        "a statement must begin with one of: sort, predicate",
    ),
    ("sorts a", "1:1", "this is not a statement", "did you mean 'sort'?"),
    ("predicat P(a)\nsort a", "1:1", "this is not a statement", "did you mean 'predicate'?"),
    ("# fine\n\n  hello # there\nsort a", "3:3", "this is not a statement", None),
]


@pytest.mark.parametrize(("text", "place", "message", "hint"), SLIPS, ids=[s[0] for s in SLIPS])
def test_slips_in_statements_are_explained(text, place, message, hint):
    with pytest.raises(ParseError) as caught:
        parse_theory(text)
    (found,) = caught.value.diagnostics
    assert found.span is not None
    assert f"{found.span.line}:{found.span.column}" == place
    assert message in found.message
    assert hint is None or (found.hint or "").startswith(hint)


@pytest.mark.parametrize(
    "text", ["axiom A: p\naxoim B: q", "sort a\npredicat P(a)", "axiom A: p\nhrad axiom B: q"]
)
def test_a_misspelt_statement_after_another_is_recognised(text):
    with pytest.raises(ParseError, match=r"<theory>:2:1: error: .*\n.*\n.*\n.*did you mean"):
        parse_theory(text)


def test_all_syntax_errors_of_a_text_at_once():
    text = """oops
sort a
sort forall
predicate P(a
axiom A: p &
axiom B: p
axiom C weight 0: p
  & q
axiom D: X[1,2] p"""
    with pytest.raises(ParseError) as caught:
        parse_theory(text, source="x.fot")
    assert places(caught.value) == [
        "x.fot:1:1 this is not a statement",
        "x.fot:3:6 found 'forall', expected a name",
        "x.fot:4:14 found the end, expected ')' or ','",
        "x.fot:5:13 found the end, expected a formula",
        "x.fot:7:16 a weight must be a positive number, not 0",
        "x.fot:9:11 X looks at one time point, not at a range",
    ]
    assert str(caught.value).count("x.fot:") == 6


def test_places_count_from_the_beginning_of_the_file():
    theory = parse_theory("sort a\n\npredicate P(a)\naxiom A:\n  p & P(x)")
    axiom = theory.axiom("A")
    assert axiom.span is not None
    assert (axiom.span.line, axiom.span.column) == (4, 7)
    assert isinstance(axiom.formula, f.And)
    right = axiom.formula.right
    assert isinstance(right, f.Atom)
    assert right.span is not None
    assert (right.span.line, right.span.column) == (5, 7)


def test_a_theory_finds_its_axioms():
    theory = parse_theory("axiom Brake: p\naxiom Run: q")
    assert theory.axiom("Run").formula == q
    assert [axiom.name for axiom in theory] == ["Brake", "Run"]
    with pytest.raises(BuildError, match=r"no axiom 'Brke'; did you mean 'Brake'\?"):
        theory.axiom("Brke")
    with pytest.raises(BuildError, match="no axiom 'zzz'; axioms: 'Brake', 'Run'"):
        theory.axiom("zzz")


def test_a_hard_axiom_has_no_weight_in_python_either():
    assert th.Axiom("A", p, hard=True).weight == 1.0
    with pytest.raises(BuildError, match="the hard axiom 'A' has a weight; only soft axioms may"):
        th.Axiom("A", p, 2.0, hard=True)


def test_theories_from_python_may_have_hard_axioms():
    theory = th.Theory((th.PredicateDecl("p"),), (th.Axiom("A", p, hard=True), th.Axiom("B", p)))
    assert str(theory) == "predicate p\n\nhard axiom A: p\naxiom B: p\n"
    assert parse_theory(str(theory)) == theory
    assert th.Axiom("A", p, hard=True) != th.Axiom("A", p)


# --- files and includes ----------------------------------------------------------------------


def write(folder: Path, **files: str) -> Path:
    """Files by name (`sub__b` is sub/b.fot); gives the first."""
    for name, text in files.items():
        file = folder / (name.replace("__", "/") + ".fot")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return folder / (next(iter(files)).replace("__", "/") + ".fot")


def test_a_file_gives_what_its_text_gives(tmp_path):
    text = "sort a\npredicate P(a)\naxiom A: forall x. ○ P(x)\n"
    assert load_theory(write(tmp_path, main=text)) == parse_theory(text)
    assert load_theory(str(tmp_path / "main.fot")) == parse_theory(text)


def test_includes_stand_where_they_are_written(tmp_path):
    main = write(
        tmp_path,
        main='sort a\ninclude "sub/b.fot"\nsort z\naxiom A: p',
        sub__b='sort b\ninclude "c.fot"\ninclude "../d.fot"\naxiom B: p',
        sub__c="sort c",
        d="sort d\naxiom D: p",
    )
    assert names(load_theory(main)) == ["a", "b", "c", "d", "z", "D", "B", "A"]


def test_a_diamond_is_included_once(tmp_path):
    main = write(
        tmp_path,
        main='include "left.fot"\ninclude "right.fot"\ninclude "./left.fot"',
        left='include "base.fot"\nsort l',
        right='include "../' + tmp_path.name + '/base.fot"\nsort r',
        base="sort base",
    )
    assert names(load_theory(main)) == ["base", "l", "r"]


def test_includes_of_a_text_are_relative_to_the_working_directory(tmp_path, monkeypatch):
    write(tmp_path, base="sort base")
    monkeypatch.chdir(tmp_path)
    assert names(parse_theory('include "base.fot"\nsort a')) == ["base", "a"]


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ({"main": 'include "main.fot"'}, "main.fot:1:1"),
        ({"main": 'include "a.fot"', "a": 'sort a\ninclude "main.fot"'}, "a.fot:2:1"),
        ({"main": 'include "a.fot"', "a": 'include "b.fot"', "b": 'include "a.fot"'}, "b.fot:1:1"),
    ],
)
def test_a_file_that_includes_itself_is_refused(tmp_path, files, place):
    with pytest.raises(ParseError, match="includes itself") as caught:
        load_theory(write(tmp_path, **files))
    (found,) = places(caught.value)
    assert found.startswith(place)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*none.fot: No such file or directory"):
        load_theory(tmp_path / "none.fot")


def test_a_missing_include_is_named_with_its_place(tmp_path):
    main = write(tmp_path, main='sort a\n  include "none.fot"\nsort forall')
    with pytest.raises(FotError) as caught:
        load_theory(main)
    assert sorted(places(caught.value)) == [
        f"main.fot:2:3 cannot read {tmp_path / 'none.fot'}: No such file or directory",
        "main.fot:3:6 found 'forall', expected a name",
    ]


def test_errors_of_all_files_at_once(tmp_path):
    main = write(tmp_path, main='sort X\ninclude "b.fot"\naxiom A: p &', b="sort F\nsort ok")
    with pytest.raises(ParseError) as caught:
        load_theory(main)
    assert {place.split(" ")[0] for place in places(caught.value)} == {
        "main.fot:1:6",
        "main.fot:3:13",
        "b.fot:1:6",
    }


def test_bytes_that_are_not_utf8_are_pointed_at(tmp_path):
    file = tmp_path / "latin.fot"
    file.write_bytes("sort a # é\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin.fot is not UTF-8 text \(byte 9 is 0xe9\)"):
        load_theory(file)


def test_byte_order_mark_and_windows_lines(tmp_path):
    file = tmp_path / "windows.fot"
    file.write_bytes(b"\xef\xbb\xbfsort a\r\npredicate P(a)\r\naxiom A: p &\r\n  q\r\n")
    assert load_theory(file) == parse_theory("sort a\npredicate P(a)\naxiom A: p & q")
    file.write_bytes(b"\xef\xbb\xbfsort a\r\naxiom A: p &&\r\n  q\r\n")
    with pytest.raises(ParseError) as caught:
        load_theory(file)
    assert places(caught.value) == ["windows.fot:2:13 found '&', expected a formula"]
    assert "\n    2 | axiom A: p &&\n" in str(caught.value), "no carriage return in the excerpt"


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs symbolic links")
def test_a_loop_of_links_is_an_error_of_ours(tmp_path):
    os.symlink("loop.fot", tmp_path / "loop.fot")
    with pytest.raises(FotError, match="cannot read"):
        load_theory(tmp_path / "loop.fot")
    with pytest.raises(FotError, match="cannot read"):
        load_theory(write(tmp_path, main='include "loop.fot"'))


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*: it is a folder, not a file"):
        load_theory(tmp_path)
    with pytest.raises(FotError, match=r"cannot read .*: it is a folder, not a file"):
        load_theory(write(tmp_path, main='include "."'))
    with pytest.raises(DataError, match=r"did you mean .*main\.fot\?"):
        load_theory(tmp_path)


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 5000], ids=ascii)
def test_paths_that_cannot_be_are_errors_of_ours(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FotError, match=r"cannot read|expected a path"):
        load_theory(name)
    with pytest.raises(FotError, match="cannot read"):
        parse_theory(f'include "{name}"')
    with pytest.raises(DataError, match=r"cannot write|expected a path"):
        save_theory(th.Theory(), name)
    assert not list(tmp_path.iterdir())


# --- writing ---------------------------------------------------------------------------------

THEORY = parse_theory('sort a\nconstant "é": a\naxiom A weight 0.5: forall x: a. X x = "é"\n')


@pytest.mark.parametrize("style", ["ascii", "unicode"])
def test_what_is_saved_loads_back(tmp_path, style):
    file = tmp_path / "t.fot"
    file.write_text("old")
    save_theory(THEORY, file, style=style)
    assert load_theory(file) == THEORY
    assert ("∀" in file.read_text("utf-8")) == (style == "unicode")
    assert os.listdir(tmp_path) == ["t.fot"]


def test_a_theory_file_is_no_latex(tmp_path):
    with pytest.raises(DataError, match="style: expected one of 'ascii', 'unicode', not 'latex'"):
        save_theory(THEORY, tmp_path / "t.fot", style="latex")  # type: ignore[arg-type]


@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = tmp_path / "t.fot"
    file.write_text("sort old\n")
    monkeypatch.setattr(os, step, full)
    with pytest.raises(DataError, match=r"cannot write .*t.fot: No space left on device"):
        save_theory(THEORY, file)
    monkeypatch.undo()
    assert file.read_text() == "sort old\n"
    assert os.listdir(tmp_path) == ["t.fot"], "a half-written file was left behind"


def test_what_has_no_encoding_is_an_error_of_ours(tmp_path):
    file = tmp_path / "t.fot"
    file.write_text("sort old\n")
    theory = th.Theory((), (th.Axiom("A", f.Equal(f.Const("\ud800"), f.Const("b"))),))
    with pytest.raises(DataError, match="cannot write"):
        save_theory(theory, file)
    assert file.read_text() == "sort old\n"
    assert os.listdir(tmp_path) == ["t.fot"]


def test_saving_over_a_folder_or_into_none(tmp_path):
    with pytest.raises(DataError, match=r"cannot write .*: No such file or directory"):
        save_theory(THEORY, tmp_path / "none" / "t.fot")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"cannot write .*: Is a directory"):
        save_theory(THEORY, tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_named(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    with pytest.raises(DataError, match=r"cannot write .*locked/t.fot: Permission denied"):
        save_theory(THEORY, folder / "t.fot")


def test_an_unwritable_folder_is_named_also_for_root(tmp_path, monkeypatch):
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(DataError, match=r"cannot write .*t.fot: Permission denied"):
        save_theory(THEORY, tmp_path / "t.fot")


@pytest.mark.skipif(os.name != "posix", reason="permissions of Unix")
def test_saving_keeps_the_permissions(tmp_path):
    old, new = tmp_path / "old.fot", tmp_path / "new.fot"
    old.write_text("sort old\n")
    old.chmod(0o664)
    save_theory(THEORY, old)
    assert stat.S_IMODE(old.stat().st_mode) == 0o664
    plain = tmp_path / "plain"
    plain.touch()
    save_theory(THEORY, new)
    assert new.stat().st_mode == plain.stat().st_mode, "colleagues could not read it"


# --- rendering -------------------------------------------------------------------------------


def test_findings_without_a_place_render():
    error = DataError("one", Diagnostic("two", None, "a hint"))
    assert str(error) == "error: one\nerror: two\n      = a hint"
    assert places(error) == ["one", "two"]
