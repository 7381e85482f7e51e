"""Tensors and documents on disk, in folders that are read only if complete and unchanged.

A stored folder has these files, and no others:

- `weights.safetensors`, the tensors;
- documents: lists and objects in files named `*.json`, text in files of other names;
- `manifest.json`, which names the format and its version, the kind of the folder, the version of
  this package, the size and the SHA-256 of every other file, and its own SHA-256.

Nothing in it is ever executed. `fotltn.learn.folders` describes how a folder is put in place.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from fotltn.errors import DataError, listing, shown
from fotltn.files import read_file
from fotltn.learn import folders
from fotltn.learn.locks import locked
from fotltn.strict_json import JsonError, read_json

FORMAT = "fotltn-folder"
VERSION = 1
MANIFEST = "manifest.json"
WEIGHTS = "weights.safetensors"

MAX_MANIFEST = 2**20
MAX_DOCUMENT = 2**28
MAX_WEIGHTS = 2**34

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_DIGEST = re.compile(r"[0-9a-f]{64}")

Document = str | dict[str, Any] | list[Any]


class Stored(NamedTuple):
    """The content of a folder."""

    tensors: dict[str, Tensor]
    documents: dict[str, Document]


class MissingFolderError(DataError):
    """The folder does not exist."""


class UnreadableError(DataError):
    """A folder may be intact, but this program cannot read it, or not now."""


class _File(NamedTuple):
    size: int
    sha256: str


# --- folders ---------------------------------------------------------------------------------


def write_folder(
    path: Path | str, tensors: Mapping[str, Tensor], documents: Mapping[str, Document], *, kind: str
) -> None:
    """Write a folder, or replace one of the same kind.

    Args:
        path: the folder; its parents are created.
        tensors: the tensors by name.
        documents: the documents by file name; names ending in `.json` hold an object or a list,
            others hold text.
        kind: the kind of folder, such as "model"; `read_folder` must ask for the same.

    Raises:
        DataError: a tensor or document cannot be stored, something else is in that place, or it
            cannot be written. Then the previous content is still there.
    """
    target = resolved(path)
    files = encode(tensors, documents, kind)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target.parent, exclusive=True):
            folders.settle(target.parent, lambda name: name == target.name)
            check_replaceable(target, kind)
            folders.place(target, files)
    except OSError as error:
        raise refused("write", path, error) from None


def read_folder(path: Path | str, *, kind: str) -> Stored:
    """Read a folder, if it is of the right kind, complete and unchanged.

    Raises:
        DataError: it is not, or it cannot be read; the message says what is wrong, and where.
    """
    target = resolved(path)
    with locked(target.parent, exclusive=False):
        return read_at(target, kind)


def below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, by the rest of their names."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def resolved(path: Path | str) -> Path:
    """Return the real path; a link to a folder is followed."""
    try:
        target = Path(os.path.realpath(path))
    except (ValueError, OSError):
        raise DataError(f"{str(path)!r} is not a path") from None
    if not target.name:
        raise DataError(f"{path} is the root folder; expected a folder inside it")
    return target


def refused(verb: str, path: Path | str, error: OSError) -> DataError:
    """Turn an error of the system into one of this package."""
    lost = isinstance(error, FileNotFoundError | NotADirectoryError)
    kind = DataError if lost else UnreadableError
    return kind(f"cannot {verb} {path}: {error.strerror or error}")


def check_replaceable(target: Path, kind: str) -> None:
    """Raise an error unless the target is free or a stored folder, so no other files are lost.

    Raises:
        DataError: something else is there, or a folder that this program cannot read.
        OSError: it cannot be read.
    """
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise DataError(f"cannot write {target}: there is a file with that name")
    names = set(os.listdir(target))
    if not names:
        return
    if MANIFEST not in names:
        raise DataError(
            f"cannot write {target}: the folder has other files ({listing(sorted(names), 3)})",
            hint="choose a new folder, or an empty one",
        )
    try:
        there, files = _manifest(target)
    except DataError as error:
        hint = "choose another folder, or remove this one"
        raise DataError(*(replace(d, hint=hint) for d in error.diagnostics)) from None
    if there != kind:
        raise DataError(f"cannot write {target}: it is a '{there}', not a '{kind}'")
    if extra := sorted(names - {MANIFEST} - set(files)):
        raise DataError(
            f"cannot write {target}: it would remove {listing(extra, 3)}, not written by fotltn"
        )


def read_at(target: Path, kind: str) -> Stored:
    """Read a folder in its place, or where an interrupted write left it."""
    try:
        places = folders.present(target)
        if not places:
            raise MissingFolderError(f"cannot read {target}: no such folder")
        for other in places[:-1]:
            try:
                return _load(other, kind)
            except (DataError, OSError):
                continue
        return _load(places[-1], kind)
    except OSError as error:
        raise refused("read", error.filename or target, error) from None
    except MemoryError:
        raise UnreadableError(f"cannot read {target}: it does not fit into memory") from None


def check_version(target: Path) -> None:
    """Raise an error for a folder that a later version of this program wrote.

    Raises:
        UnreadableError: it is such a folder, or the system refuses to read it.
    """
    try:
        for folder in folders.present(target):
            try:
                _manifest(folder)
            except UnreadableError:
                raise
            except (DataError, FileNotFoundError, NotADirectoryError):
                continue
    except OSError as error:
        raise refused("read", error.filename or target, error) from None


def _load(folder: Path, kind: str) -> Stored:
    if folder.is_symlink():
        raise DataError(f"cannot read {folder}: it is a link, not a folder")
    if not folder.is_dir():
        hint = "read a theory with fotltn eval or fotltn rules, and --facts"
        raise DataError(
            f"cannot read {folder}: it is a file, not a folder",
            hint=hint if folder.suffix == ".fot" else None,
        )
    names = set(os.listdir(folder))
    if MANIFEST not in names:
        raise DataError(
            f"cannot read {folder}: it has no {MANIFEST}, so fotltn did not write it, or not all "
            "of it",
            hint=f"did you mean {inner}?" if (inner := folder / "model").is_dir() else None,
        )
    there, files = _manifest(folder)
    if there != kind:
        raise DataError(f"cannot read {folder}: it is a '{there}', not a '{kind}'")
    if missing := sorted(set(files) - names):
        raise DataError(f"cannot read {folder}: {listing(missing)} missing")
    if extra := sorted(names - set(files) - {MANIFEST}):
        raise DataError(f"cannot read {folder}: {listing(extra)} not listed in {MANIFEST}")
    data = {name: _checked(folder / name, file) for name, file in files.items()}
    try:
        tensors = safetensors.torch.load(data.pop(WEIGHTS))
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"cannot read {folder / WEIGHTS}: {error}") from None
    return Stored(tensors, {name: _decode(folder / name, text) for name, text in data.items()})


def _checked(path: Path, file: _File) -> bytes:
    limit = MAX_WEIGHTS if path.name == WEIGHTS else MAX_DOCUMENT
    data = read_file(path, limit=limit, size=file.size)
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise DataError(f"cannot read {path}: it has been changed or damaged since it was written")
    return data


# --- files -----------------------------------------------------------------------------------


def encode(
    tensors: Mapping[str, Tensor], documents: Mapping[str, Document], kind: str
) -> dict[str, bytes]:
    """Return all files of a folder, with the manifest last."""
    if not _PLAIN.fullmatch(kind):
        raise DataError(f"a kind cannot be named '{kind}'; expected letters, digits, _ - .")
    files = {WEIGHTS: _weights(tensors)}
    for name, document in documents.items():
        if name.lower() in {taken.lower() for taken in (*files, MANIFEST)}:
            raise DataError(f"a document cannot be named '{name}': the name is taken")
        if not _PLAIN.fullmatch(name):
            raise DataError(f"a document cannot be named '{name}'; expected letters, digits, _ - .")
        files[name] = _document(name, document)
    for name, data in files.items():
        limit = MAX_WEIGHTS if name == WEIGHTS else MAX_DOCUMENT
        if len(data) > limit:
            raise DataError(f"'{name}' has {len(data):,} bytes; at most {limit:,} are stored")
    body = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "fotltn": package_version(),
        "files": {
            name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in files.items()
        },
    }
    return {**files, MANIFEST: _sealed(body)}


def package_version() -> str:
    """Return the version of this package."""
    try:
        return metadata.version("fotltn")
    except metadata.PackageNotFoundError:
        return "unknown"


def _sealed(body: Mapping[str, Any]) -> bytes:
    """Return a manifest with its own digest, always formatted in the same way."""
    digest = hashlib.sha256(_json(dict(body))).hexdigest()
    return _json({**body, "sha256": digest})


def _json(value: object) -> bytes:
    text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False)
    return f"{text}\n".encode()


def _weights(tensors: Mapping[str, Tensor]) -> bytes:
    plain = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or tensor.is_meta:
            raise DataError(f"the tensor '{name}' cannot be stored: it is not a dense tensor")
        plain[name] = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().clone()
    if "__metadata__" in plain:
        raise DataError("a tensor cannot be named '__metadata__': the name is taken")
    try:
        return safetensors.torch.save(plain)
    except KeyError as error:
        raise DataError(f"tensors of the type {error.args[0]} cannot be stored") from None


def _document(name: str, document: Document) -> bytes:
    if not name.endswith(".json"):
        if not isinstance(document, str):
            raise DataError(f"the document '{name}' must be text, because it does not end in .json")
        try:
            return document.encode()
        except UnicodeEncodeError as error:
            raise DataError(f"the document '{name}' is not valid text: {error.reason}") from None
    if not isinstance(document, dict | list):
        raise DataError(
            f"the document '{name}' must be an object or a list, because it ends in .json"
        )
    try:
        text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
        data, same = f"{text}\n".encode(), read_json(text) == document
    except (TypeError, ValueError, RecursionError) as error:
        reason = error.reason if isinstance(error, JsonError) else error
        raise DataError(f"the document '{name}' cannot be stored as JSON: {reason}") from None
    if not same:
        raise DataError(
            f"the document '{name}' would change in JSON; use lists instead of tuples, and text "
            "for keys"
        )
    return data


def _decode(path: Path, data: bytes) -> Document:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"cannot read {path}: it is not UTF-8 (byte {error.start})") from None
    if path.suffix != ".json":
        return text
    try:
        value = read_json(text)
    except JsonError as error:
        raise DataError(f"cannot read {path}: it is not JSON: {error.reason}") from None
    if not isinstance(value, dict | list):
        raise DataError(f"cannot read {path}: it is neither an object nor a list")
    return value


def _manifest(folder: Path) -> tuple[str, dict[str, _File]]:
    """Return the kind of a folder and its other files, from the manifest."""
    path = folder / MANIFEST
    data = read_file(path, limit=MAX_MANIFEST)
    body = _decode(path, data)
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise DataError(f"cannot read {path}: it is not a manifest of fotltn")
    version, kind, files = body.get("version"), body.get("kind"), body.get("files")
    if type(version) is int and version > VERSION:
        raise UnreadableError(
            f"cannot read {path}: it has version {version} of the format, written by fotltn "
            f"{shown(body.get('fotltn'), 40)}; this fotltn, '{package_version()}', reads up to "
            f"{VERSION}"
        )
    if version != VERSION or type(version) is not int:
        raise DataError(f"cannot read {path}: there is no version {shown(version)} of the format")
    try:
        intact = data == _sealed({key: value for key, value in body.items() if key != "sha256"})
    except (ValueError, RecursionError):
        intact = False
    if not intact:
        raise DataError(f"cannot read {path}: it has been changed or damaged since it was written")
    if not isinstance(kind, str) or not isinstance(files, dict) or WEIGHTS not in files:
        raise DataError(f"cannot read {path}: it lacks the kind, the files, or '{WEIGHTS}'")
    return kind, {name: _entry(path, name, entry) for name, entry in files.items()}


def _entry(path: Path, name: str, entry: Any) -> _File:
    if not _PLAIN.fullmatch(name) or name == MANIFEST:
        raise DataError(f"cannot read {path}: {name!r} is not the name of a file in the folder")
    size, digest = (entry.get(k) if isinstance(entry, dict) else None for k in _File._fields)
    if type(size) is not int or not 0 <= size <= MAX_WEIGHTS:
        raise DataError(f"cannot read {path}: '{name}' cannot have the size {shown(size)}")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise DataError(f"cannot read {path}: '{name}' has no SHA-256")
    return _File(size, digest)
