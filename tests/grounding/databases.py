"""Servers of databases for tests: each is started on loopback, with data of its own."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SECONDS = 60.0  # in which a server answers


def _program(name: str, folders: list[Path], package: str) -> str:
    """Where a program is, which Debian may keep off the path."""
    places = [*map(str, folders), *os.environ["PATH"].split(os.pathsep)]
    if (program := shutil.which(name, path=os.pathsep.join(places))) is None:
        pytest.skip(f"{name} is not installed (Debian: apt-get install {package})")
    return program


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _user(name: str) -> str | None:
    """Servers do not run as root."""
    return name if os.getuid() == 0 else None


@contextmanager
def _place(user: str | None) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp())
    if user is not None:
        shutil.chown(place, user)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _running(command: list[str], user: str | None, place: Path, ready: str) -> Iterator[None]:
    """A server, once its log says that it is ready, until it is no longer needed."""
    path = place / "log"
    with path.open("wb") as log:
        server = subprocess.Popen(command, user=user, cwd=place, stdout=log, stderr=log)
    try:
        end = time.monotonic() + _SECONDS
        while ready not in (said := path.read_text("utf-8", "replace")):
            assert server.poll() is None, said
            assert time.monotonic() < end, f"{command[0]} does not answer: {said}"
            time.sleep(0.05)
        yield
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The URL of a Postgres."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    make, serve = (_program(name, folders, "postgresql") for name in ("initdb", "postgres"))
    user, port = _user("postgres"), _free_port()
    with _place(user) as place:
        data = str(place / "data")
        begin = [make, "-D", data, "-A", "trust", "-U", "me", "-N", "-E", "UTF8", "--locale=C"]
        subprocess.run(begin, user=user, check=True, capture_output=True, cwd=place)
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with _running(
            [serve, "-D", data, "-p", str(port), *options], user, place, "ready to accept"
        ):
            yield f"postgresql://me:tiger@127.0.0.1:{port}/postgres"


@pytest.fixture(scope="module")
def mariadb() -> Iterator[str]:
    """The URL of a MariaDB, which speaks as MySQL does."""
    serve = _program("mariadbd", [Path("/usr/sbin")], "mariadb-server-core mariadb-client-core")
    make = _program("mariadb-install-db", [], "mariadb-server-core mariadb-client-core")
    user, port = _user("nobody"), _free_port()
    with _place(user) as place:
        data = f"--datadir={place / 'data'}"
        begin = [
            make,
            "--no-defaults",
            data,
            "--skip-test-db",
            "--auth-root-authentication-method=normal",
        ]
        subprocess.run(begin, user=user, check=True, capture_output=True, cwd=place)
        first = place / "first.sql"
        first.write_text(
            "CREATE DATABASE plant;\nCREATE USER me@'127.0.0.1' IDENTIFIED BY 'tiger';\n"
            "GRANT ALL ON plant.* TO me@'127.0.0.1';\n",
            "utf-8",
        )
        options = [
            "--bind-address=127.0.0.1",
            f"--socket={place / 'socket'}",
            f"--init-file={first}",
        ]
        command = [serve, "--no-defaults", data, f"--port={port}", *options, "--skip-name-resolve"]
        with _running(command, user, place, "ready for connections"):
            yield f"mysql://me:tiger@127.0.0.1:{port}/plant"
