"""What is damaged or forged is refused, with the reason."""

import errno
import hashlib
import json
import os
import re
import shutil
import struct

import pytest
import torch

from fotltn.learn import store
from fotltn.learn.store import MANIFEST, WEIGHTS, read_folder
from tests.learn.common import refusal, write


def reseal(folder, change):
    """Write a manifest that is whole but says something else, as a forger would."""
    path = folder / MANIFEST
    body = json.loads(path.read_text())
    del body["sha256"]
    change(body)
    path.write_bytes(store._sealed(body))


def truncated(folder):
    path = folder / WEIGHTS
    path.write_bytes(path.read_bytes()[:-1])
    return r"weights.safetensors: it has \d+ bytes, not \d+; it is cut short"


def longer(folder):
    path = folder / "theory.fot"
    path.write_bytes(path.read_bytes() + b"x")
    return r"theory.fot: it has \d+ bytes, not \d+; it has been changed"


def flipped(folder):
    path = folder / WEIGHTS
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    return r"weights.safetensors: it has been changed or damaged since it was written"


def missing(folder):
    (folder / "config.json").unlink()
    return r"cannot read .*: 'config.json' missing"


def without_manifest(folder):
    (folder / MANIFEST).unlink()
    return r"it has no manifest.json, so fotltn did not write it, or not all of it"


def extra(folder):
    (folder / "evil.pkl").write_text("")
    return r"'evil.pkl' not listed in manifest.json"


def emptied(folder):
    for path in folder.iterdir():
        path.unlink()
    return "it has no manifest.json"


def no_folder(folder):
    shutil.rmtree(folder)
    return "no such folder"


def a_file(folder):
    shutil.rmtree(folder)
    folder.write_text("")
    return "it is a file, not a folder"


def link_out(folder):
    outside = folder.parent / "outside"
    shutil.move(folder / "theory.fot", outside)
    (folder / "theory.fot").symlink_to(outside)
    return r"theory.fot: it is a link, not a plain file"


def linked_manifest(folder):
    outside = folder.parent / "outside"
    shutil.move(folder / MANIFEST, outside)
    (folder / MANIFEST).symlink_to(outside)
    return r"manifest.json: it is a link, not a plain file"


def a_pipe(folder):
    (folder / "theory.fot").unlink()
    os.mkfifo(folder / "theory.fot")
    return r"theory.fot: it is not a plain file"


def a_folder_inside(folder):
    (folder / "theory.fot").unlink()
    (folder / "theory.fot").mkdir()
    return r"theory.fot: it is a folder, not a file"


def another_kind(folder):
    reseal(folder, lambda body: body.update(kind="checkpoint"))
    return "it is a 'checkpoint', not a 'model'"


def newer(folder):
    reseal(folder, lambda body: body.update(version=2, fotltn="9.0"))
    return (
        r"it has version 2 of the format, written by fotltn '9.0'; this fotltn, .*, reads up to 1"
    )


def no_such_version(folder):
    reseal(folder, lambda body: body.update(version=True))
    return "there is no version true of the format"


def version_zero(folder):
    reseal(folder, lambda body: body.update(version=0))
    return "there is no version 0 of the format"


def another_format(folder):
    reseal(folder, lambda body: body.update(format="zip"))
    return "it is not a manifest of fotltn"


def no_object(folder):
    (folder / MANIFEST).write_text("[1]")
    return "it is not a manifest of fotltn"


def not_json(folder):
    (folder / MANIFEST).write_text("{")
    return "manifest.json: it is not JSON"


def not_utf8(folder):
    (folder / MANIFEST).write_bytes(b"\xff\xfe")
    return r"manifest.json: it is not UTF-8 \(byte 0\)"


def deep(folder):
    (folder / MANIFEST).write_text("[" * 200_000)
    return "manifest.json: it is not JSON"


def huge_manifest(folder):
    with (folder / MANIFEST).open("r+b") as file:
        file.truncate(10**12)
    return r"manifest.json: it has 1,000,000,000,000 bytes; at most 1,048,576 are read"


def huge_document(folder):
    with (folder / "theory.fot").open("r+b") as file:
        file.truncate(10**12)
    reseal(folder, lambda body: body["files"]["theory.fot"].update(size=10**12))
    return r"manifest.json: 'theory.fot' cannot have the size 1000000000000"


def absurd_size(folder):
    reseal(folder, lambda body: body["files"]["theory.fot"].update(size=-1))
    return r"'theory.fot' cannot have the size -1"


def true_size(folder):
    reseal(folder, lambda body: body["files"]["theory.fot"].update(size=True))
    return r"'theory.fot' cannot have the size true"


def bad_digest(folder):
    reseal(folder, lambda body: body["files"]["theory.fot"].update(sha256="00"))
    return r"'theory.fot' has no SHA-256"


def bad_entry(folder):
    reseal(folder, lambda body: body["files"].update({"theory.fot": 7}))
    return r"'theory.fot' cannot have the size None"


def climbing_name(folder):
    reseal(folder, lambda body: body["files"].update({"../x": body["files"]["theory.fot"]}))
    return r"'../x' is not the name of a file in the folder"


def no_files(folder):
    reseal(folder, lambda body: body.update(files={}))
    return "it lacks the kind, the files, or 'weights.safetensors'"


def infinite_manifest(folder):
    text = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(text.replace('"kind": "model"', '"kind": 1e999'))
    return "manifest.json: it has been changed or damaged"


def surrogate_manifest(folder):
    text = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(text.replace('"kind": "model"', '"kind": "\\ud800"'))
    return "manifest.json: it is not JSON: a text in it has half of a surrogate pair"


def forged(folder, name, data):
    (folder / name).write_bytes(data)
    entry = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    reseal(folder, lambda body: body["files"].update({name: entry}))


def forged_header(folder):
    forged(folder, WEIGHTS, struct.pack("<Q", 2**60) + b"{}")
    return r"weights.safetensors: Error while deserializing"


def forged_shape(folder):
    header = b'{"a":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,4]}}'
    forged(folder, WEIGHTS, struct.pack("<Q", len(header)) + header + b"\0" * 4)
    return r"weights.safetensors: Error while deserializing"


def a_pickle_for_weights(folder):
    import pickle

    forged(folder, WEIGHTS, pickle.dumps({"a": 1}))
    return r"weights.safetensors: Error while deserializing"


def forged_document(folder):
    forged(folder, "config.json", b'{"a": NaN}')
    return "config.json: it is not JSON: NaN is not a number in JSON"


def forged_scalar(folder):
    forged(folder, "config.json", b"3")
    return "config.json: it is neither an object nor a list"


def forged_text(folder):
    forged(folder, "theory.fot", b"\xff")
    return r"theory.fot: it is not UTF-8 \(byte 0\)"


DAMAGES = [
    truncated, longer, flipped, missing, without_manifest, extra, emptied, no_folder, a_file,
    link_out, linked_manifest, a_pipe, a_folder_inside, another_kind, newer, no_such_version,
    version_zero, another_format, no_object, not_json, not_utf8, deep, huge_manifest, huge_document,
    absurd_size, true_size, bad_digest, bad_entry, climbing_name, no_files, infinite_manifest,
    surrogate_manifest, forged_header, forged_shape, a_pickle_for_weights, forged_document,
    forged_scalar, forged_text,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_refused_with_the_reason(tmp_path, damage):
    folder = write(tmp_path / "m")
    expected = damage(folder)
    message = refusal(folder)
    assert re.search(expected, message), message
    assert str(folder) in message


def test_every_flipped_bit_is_noticed(tmp_path):
    """One bit in each byte of each file of a small folder."""
    folder = write(tmp_path / "m", {"a": torch.ones(2)}, {"a.txt": "text"})
    for name in sorted(os.listdir(folder)):
        data = (folder / name).read_bytes()
        for i in range(len(data)):
            (folder / name).write_bytes(data[:i] + bytes([data[i] ^ (1 << i % 8)]) + data[i + 1 :])
            refusal(folder)
        (folder / name).write_bytes(data)
    read_folder(folder, kind="model")


def test_every_truncation_is_noticed(tmp_path):
    folder = write(tmp_path / "m", {"a": torch.ones(2)}, {"a.txt": "text"})
    for name in sorted(os.listdir(folder)):
        data = (folder / name).read_bytes()
        for length in range(len(data)):
            (folder / name).write_bytes(data[:length])
            refusal(folder)
        (folder / name).write_bytes(data)
    read_folder(folder, kind="model")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), "cannot read .*: Permission denied"),
        (OSError(errno.EIO, "Input/output error"), "cannot read .*: Input/output error"),
        (MemoryError(), "cannot read .*: it does not fit into memory"),
    ],
)
def test_what_the_system_refuses(tmp_path, monkeypatch, error, message):
    folder = write(tmp_path / "m")

    def fail(*_: object, **__: object) -> bytes:
        raise error

    monkeypatch.setattr(store, "read_file", fail)
    assert re.search(message, refusal(folder))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path):
    folder = write(tmp_path / "m")
    (folder / "theory.fot").chmod(0)
    assert "theory.fot: Permission denied" in refusal(folder)
