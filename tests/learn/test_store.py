"""Stored folders: what is written is read back, and other files are left alone."""

import hashlib
import json
import os
import shutil
from importlib import metadata

import pytest
import torch

from fotltn import DataError
from fotltn.learn import store
from fotltn.learn.store import MANIFEST, WEIGHTS, read_folder
from tests.learn.common import DOCUMENTS, refusal, same, write

# --- what is written is read back ------------------------------------------------------------


def test_round_trip(tmp_path):
    folder = write(tmp_path / "deep" / "model")
    same(read_folder(folder, kind="model"))
    same(read_folder(str(folder), kind="model"))
    tensors, documents = read_folder(folder, kind="model")
    tensors["weight"].add_(1)  # its own memory, writable
    assert documents == DOCUMENTS
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
        torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64,
    ],
)  # fmt: skip
def test_every_type_and_shape_keeps_its_bits(tmp_path, dtype):
    generator = torch.Generator().manual_seed(1)
    raw = torch.randint(0, 2, (3, 4, 2), generator=generator).to(dtype)
    tensors = {
        "scalar": raw[0, 0, 0],
        "empty": raw[:0],
        "view": raw.transpose(0, 2),
        "part": raw[1],
        "whole": raw,
        "conj": raw.conj(),
    }
    found = read_folder(write(tmp_path / "m", tensors), kind="model").tensors
    for name, tensor in tensors.items():
        assert found[name].dtype == dtype
        assert torch.equal(found[name], tensor)


def test_parameters_and_shared_tensors(tmp_path):
    parameter = torch.nn.Parameter(torch.ones(3))
    found = read_folder(write(tmp_path / "m", {"a": parameter, "b": parameter}), kind="model")
    assert torch.equal(found.tensors["a"], found.tensors["b"])
    assert not found.tensors["a"].requires_grad
    assert found.tensors["a"].data_ptr() != found.tensors["b"].data_ptr()


def test_nothing_is_something(tmp_path):
    found = read_folder(write(tmp_path / "m", {}, {}), kind="model")
    assert found == ({}, {})


def test_the_same_content_gives_the_same_bytes(tmp_path):
    one, two = write(tmp_path / "one"), write(tmp_path / "two")
    for name in os.listdir(one):
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_the_manifest(tmp_path):
    folder = write(tmp_path / "m")
    body = json.loads((folder / MANIFEST).read_text())
    assert body["format"] == "fotltn-folder"
    assert body["version"] == 1
    assert body["kind"] == "model"
    assert body["fotltn"] == metadata.version("fotltn")
    assert set(body["files"]) == {WEIGHTS, *DOCUMENTS}
    for name, entry in body["files"].items():
        data = (folder / name).read_bytes()
        assert entry == {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_a_copy_is_as_good(tmp_path):
    shutil.copytree(write(tmp_path / "m"), tmp_path / "copy")
    same(read_folder(tmp_path / "copy", kind="model"))
    (tmp_path / "link").symlink_to(tmp_path / "copy")
    same(read_folder(tmp_path / "link", kind="model"))


def test_writing_again_replaces(tmp_path):
    folder = write(tmp_path / "m")
    write(folder, {"other": torch.zeros(2)}, {"a.txt": "x"})
    same(read_folder(folder, kind="model"), {"other": torch.zeros(2)}, {"a.txt": "x"})
    assert sorted(os.listdir(folder)) == ["a.txt", MANIFEST, WEIGHTS]
    assert os.listdir(tmp_path) == ["m"]


def test_writing_through_a_link_keeps_the_link(tmp_path):
    write(tmp_path / "m", {}, {})
    (tmp_path / "link").symlink_to(tmp_path / "m")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    same(read_folder(tmp_path / "m", kind="model"))


# --- what cannot be stored -------------------------------------------------------------------

CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)
DEEP: list[object] = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("tensors", "documents", "message"),
    [
        ({"a": 3.0}, {}, "the tensor 'a' cannot be stored: it is not a dense tensor"),
        ({"a": torch.ones(2).to_sparse()}, {}, "'a' cannot be stored: it is not a dense tensor"),
        ({"a": torch.ones(2, device="meta")}, {}, "'a' cannot be stored: it is not a dense"),
        ({"a": torch.ones(2, dtype=torch.complex128)}, {}, "type torch.complex128 cannot"),
        ({"__metadata__": torch.ones(1)}, {}, "a tensor cannot be named '__metadata__'"),
        ({}, {"manifest.json": {}}, "cannot be named 'manifest.json': the name is taken"),
        ({}, {"Manifest.JSON": {}}, "cannot be named 'Manifest.JSON': the name is taken"),
        ({}, {"weights.safetensors": ""}, "the name is taken"),
        ({}, {"a.txt": "", "A.txt": ""}, "a document cannot be named 'A.txt': the name is taken"),
        ({}, {"../a": ""}, "a document cannot be named '../a'; expected letters"),
        ({}, {".hidden": ""}, "a document cannot be named '.hidden'"),
        ({}, {"": ""}, "a document cannot be named ''"),
        ({}, {"a.json": "text"}, "'a.json' must be an object or a list, because it ends in .json"),
        ({}, {"a.txt": {}}, "'a.txt' must be text, because it does not end in .json"),
        ({}, {"a.txt": "\ud800"}, "the document 'a.txt' is not valid text"),
        ({}, {"a.json": ["\ud800"]}, "'a.json' cannot be stored as JSON"),
        ({}, {"a.json": [float("nan")]}, "'a.json' cannot be stored as JSON: Out of range"),
        ({}, {"a.json": [object()]}, "'a.json' cannot be stored as JSON"),
        ({}, {"a.json": CIRCLE}, "'a.json' cannot be stored as JSON: Circular"),
        ({}, {"a.json": DEEP}, "'a.json' cannot be stored as JSON"),
        ({}, {"a.json": {1: 2}}, "would change in JSON"),
        ({}, {"a.json": [(1, 2)]}, "use lists instead of tuples"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_the_disk_is_touched(
    tmp_path, tensors, documents, message
):
    with pytest.raises(DataError) as error:
        write(tmp_path / "new" / "m", tensors, documents)
    assert message in str(error.value)
    assert os.listdir(tmp_path) == []


def test_too_large_a_document(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MAX_DOCUMENT", 10)
    with pytest.raises(DataError, match=r"'a.txt' has 11 bytes; at most 10 are stored"):
        write(tmp_path / "m", {}, {"a.txt": "x" * 11})


def test_other_peoples_files_are_not_replaced(tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").write_text("years of work")
    with pytest.raises(DataError, match=r"the folder has other files \('thesis.tex'\)"):
        write(full)
    assert (full / "thesis.tex").read_text() == "years of work"

    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(DataError, match="there is a file with that name"):
        write(file)
    assert file.read_text() == "x"

    model = write(tmp_path / "model")
    (model / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match=r"it would remove 'notes.txt', not written by fotltn"):
        write(model, {}, {})
    assert (model / "notes.txt").read_text() == "mine"

    other = write(tmp_path / "other", kind="checkpoint")
    with pytest.raises(DataError, match="it is a 'checkpoint', not a 'model'"):
        write(other)

    empty = tmp_path / "empty"
    empty.mkdir()
    same(read_folder(write(empty), kind="model"))


@pytest.mark.parametrize("path", ["/", "a\0b"])
def test_bad_paths(path):
    for call in (lambda: write(path), lambda: read_folder(path, kind="model")):
        with pytest.raises(DataError, match=r"is the root folder|is not a path"):
            call()


def test_a_file_among_the_folders_around(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot write .*: (Not a directory|File exists)"):
        write(tmp_path / "file" / "m")
    assert "no such folder" in refusal(tmp_path / "file" / "m")
