"""Many at once: idle connections, heavy formulas, and clients that go away."""

import asyncio
import socket
import time

import httpx
import pytest

from fotltn.analysis.cells import Cells
from fotltn.web import connections, security
from fotltn.web.connections import MAX_CONNECTIONS
from fotltn.web.jobs import Lane
from fotltn.web.serve import listen, server
from fotltn.web.state import WebState
from tests.patience import PATIENCE
from tests.web.conftest import TOKEN, client_of, served


def test_idle_connections_deny_nobody(live):
    where = (live.address.host, live.address.port)
    idle = [socket.create_connection(where, 10) for _ in range(300)]
    try:
        with client_of(live) as client:
            assert client.get("/").status_code == 200
        with httpx.Client(base_url=live.url) as stranger:
            assert stranger.get("/").status_code == 401
    finally:
        for one in idle:
            one.close()


def test_silent_connections_are_closed(facts, monkeypatch):
    monkeypatch.setattr(connections, "SILENCE", 0.05)
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    for running in served(facts):
        where = (running.address.host, running.address.port)
        silent = socket.create_connection(where, 10)
        silent.settimeout(PATIENCE)
        assert silent.recv(1) == b""  # after a moment
        silent.close()
        monkeypatch.setattr(connections, "SILENCE", 900)
        many = [socket.create_connection(where, 10) for _ in range(12)]
        with client_of(running) as client:
            assert client.get("/").status_code == 200
        many[0].settimeout(PATIENCE)
        assert many[0].recv(1) == b""  # the oldest made room
        for one in many:
            one.close()
    assert MAX_CONNECTIONS >= 300


def test_too_many_requests_are_told_to_come_back(facts, monkeypatch):
    monkeypatch.setattr(security, "MAX_AT_ONCE", 0)
    for running in served(facts):
        with client_of(running) as client:
            answer = client.get("/")
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "1"
        with httpx.Client(base_url=running.url) as stranger:
            assert stranger.get("/").status_code == 401  # who has no token takes no place


@pytest.fixture
def crowded(facts, monkeypatch):
    """A server on which every formula is heavy, and its state."""
    monkeypatch.setitem(WebState.__init__.__globals__, "HEAVY", -1)
    taken, address = listen("127.0.0.1", None, TOKEN)
    state = WebState([facts], budget=2**28)
    running = server(state, address)
    return taken, address, state, running


def test_work_of_who_went_away_is_given_up(crowded, monkeypatch):
    """Formulas wait behind a long one; their clients leave, and nothing of them is computed."""
    taken, address, state, running = crowded
    computed: list[str] = []
    evaluate = Cells.value

    def slow(cells: Cells) -> float:
        if cells.name == "formula":  # axioms are evaluated beside, ahead of time
            if not computed:
                time.sleep(0.5)
            computed.append(cells.text)
        return evaluate(cells)

    monkeypatch.setattr(Cells, "value", slow)
    headers = {"authorization": f"Bearer {TOKEN}", "accept": "application/json"}

    async def visit() -> None:
        serving = asyncio.create_task(running.serve(sockets=[taken]))
        while not running.started:
            await asyncio.sleep(0.01)
        base = f"http://{address.host}:{address.port}"
        async with httpx.AsyncClient(base_url=base, headers=headers, timeout=PATIENCE) as client:
            first = asyncio.create_task(client.get("/formula", params={"text": "F rain"}))
            while not state.jobs._open[Lane.HEAVY].total():
                await asyncio.sleep(0.01)
            left = [
                asyncio.create_task(client.get("/formula", params={"text": f"F[0,{n}] rain"}))
                for n in range(1, 20)
            ]
            while state.jobs._open[Lane.HEAVY].total() < 20:
                await asyncio.sleep(0.01)
            for task in left:
                task.cancel()
            assert (await first).status_code == 200
            while state.jobs.open:
                await asyncio.sleep(0.01)
        running.should_exit = True
        await serving

    asyncio.run(visit())
    taken.close()
    assert len(computed) < 5  # but for what had begun
