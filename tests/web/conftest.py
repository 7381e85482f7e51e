"""Small worlds to look at, a client inside this process, and a server with a port."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import torch
import uvicorn

from fotltn.cli.new import make
from fotltn.project.build import build
from fotltn.project.config import read_config
from fotltn.project.model import model_of
from fotltn.project.train import train
from fotltn.web.serve import Address, listen, server
from fotltn.web.sides import Side, side_of, side_of_facts
from fotltn.web.state import WebState
from tests.patience import PATIENCE

TOKEN = "a-token-for-tests"

THEORY = """\
sort agent
sort place
static predicate Car(agent)
predicate Stop(agent), rain, At(agent, place)
relation pairs(agent, agent)
constant ego: agent
axiom Stops: forall x. G(Car(x) & rain -> WX Stop(x))
axiom Guarded: forall x where Car(x). G[0,2] Stop(x)
axiom Paired: forall (x, y) in pairs. G(Stop(x) -> Stop(y))
axiom Now: forall x. Car(x) -> Stop(x)
axiom Ever: exists x. F Stop(x)
hard axiom Fine: G true
"""

#: Two traces of different lengths, and names that would do harm where they are not escaped.
FACTS = """\
predicate,arg1,arg2,time,truth,trace
Car,ego,,,1,
Car,<script>alert(1)</script>,,,1,
Car,walker & co,,,0,
Stop,ego,,0,1,one
Stop,ego,,2,0.7,one
Stop,<script>alert(1)</script>,,1,0.4,one
Stop,ego,,1,1,two <b>
Stop,walker & co,,0,0.25,two <b>
rain,,,0,1,one
rain,,,1,0.5,one
rain,,,3,1,one
rain,,,1,1,two <b>
pairs,ego,<script>alert(1)</script>,,,
pairs,walker & co,ego,,,
At,ego,north,0,1,one
"""


@pytest.fixture(autouse=True)
def _single_precision() -> Iterator[None]:
    """As outside the tests."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    yield
    torch.set_default_dtype(before)


@pytest.fixture(scope="session")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Side:
    """Facts as they are stated, in two traces."""
    folder = tmp_path_factory.mktemp("facts")
    (folder / "t.fot").write_text(THEORY)
    (folder / "f.csv").write_text(FACTS)
    return side_of_facts(folder / "t.fot", [folder / "f.csv"])


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model that has learned, and the same before it has."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("models")
    make(folder / "scene", 4, 4, 16, 0)
    file = folder / "scene" / "project.toml"
    file.write_text(file.read_text().replace("epochs = 300", "epochs = 8"))
    config = read_config(folder / "scene")
    model_of(build(config)).save(folder / "untrained")
    train(config).save(folder / "trained")
    torch.set_default_dtype(before)
    return folder / "trained", folder / "untrained"


@pytest.fixture(scope="session")
def models(model_folders: tuple[Path, Path]) -> list[Side]:
    """The predictions of both."""
    return [side_of(path) for path in model_folders]


@dataclass(frozen=True)
class Served:
    """A server of this process, with a port."""

    address: Address

    @property
    def url(self) -> str:
        return f"http://{self.address.host}:{self.address.port}"


def served(*sides: Side, budget: int = 2**28) -> Iterator[Served]:
    """Serve until the caller is done."""
    yield from serving(lambda address: server(WebState(sides, budget=budget), address))


def serving(make: Callable[[Address], uvicorn.Server]) -> Iterator[Served]:
    """Run a server until the caller is done."""
    taken, address = listen("127.0.0.1", None, TOKEN)
    running = make(address)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [taken]})
    thread.start()
    while not running.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield Served(address)
    finally:
        running.should_exit = True
        thread.join(30)
        taken.close()
    assert not thread.is_alive()


def client_of(served: Served) -> httpx.Client:
    """A client that knows the token, and speaks JSON."""
    headers = {"authorization": f"Bearer {TOKEN}", "accept": "application/json"}
    return httpx.Client(base_url=served.url, headers=headers, timeout=PATIENCE, verify=False)


@pytest.fixture(scope="session")
def live(facts: Side) -> Iterator[Served]:
    """A server of the facts."""
    yield from served(facts)


@pytest.fixture(scope="session")
def live_pair(models: list[Side]) -> Iterator[Served]:
    """A server of two models."""
    yield from served(*models)


@pytest.fixture
def client(live: Served) -> Iterator[httpx.Client]:
    """A client of the facts."""
    with client_of(live) as found:
        yield found


@pytest.fixture
def pair(live_pair: Served) -> Iterator[httpx.Client]:
    """A client of two models."""
    with client_of(live_pair) as found:
        yield found
