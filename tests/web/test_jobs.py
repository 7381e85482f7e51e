"""Jobs beside the server: each result once, under limits, and nobody held up."""

import asyncio
import threading
import time
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import pytest

from fotltn.stop import may_go_on
from fotltn.web.jobs import VISITOR, Jobs, Lane, PendingError
from fotltn.web.responses import RefusedError


@pytest.fixture
def work() -> Iterator[Jobs]:
    found = Jobs(room=100)
    yield found
    found.close()


def test_a_result_is_computed_once(work):
    calls = []

    def job() -> int:
        calls.append(1)
        return 7

    async def ask() -> list[int]:
        return list(await asyncio.gather(*(work.get("key", job) for _ in range(20))))

    assert asyncio.run(ask()) == [7] * 20
    assert asyncio.run(ask()) == [7] * 20
    assert len(calls) == 1


def test_an_error_is_not_kept(work):
    calls = []

    def fail() -> None:
        calls.append(1)
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            asyncio.run(work.get("key", fail))
    assert len(calls) == 2


def test_who_waits_too_long_is_told_to_come_back(work):
    free = threading.Event()

    async def ask(patience: float) -> bool:
        return bool(await work.get("key", lambda: free.wait(30), patience=patience))

    with pytest.raises(PendingError):
        asyncio.run(ask(0.01))
    free.set()
    assert asyncio.run(ask(30))


def test_a_long_formula_holds_up_no_page(work):
    free = threading.Event()

    async def ask() -> None:
        threads, _ = Lane.TYPED.value
        long = [
            asyncio.create_task(work.get(("long", n), lambda: free.wait(30), lane=Lane.TYPED))
            for n in range(threads + 3)
        ]
        assert await work.get("page", lambda: "page", patience=20) == "page"
        free.set()
        await asyncio.gather(*long)

    asyncio.run(ask())


def test_too_many_jobs_are_refused(work):
    free = threading.Event()

    async def ask() -> None:
        room = sum(Lane.TYPED.value)
        tasks = [
            asyncio.create_task(work.get(n, lambda: free.wait(30), lane=Lane.TYPED))
            for n in range(room)
        ]
        await asyncio.sleep(0)
        with pytest.raises(RefusedError) as refused:
            await work.get("one more", lambda: 1, lane=Lane.TYPED)
        assert refused.value.status == 429
        free.set()
        await asyncio.gather(*tasks)
        assert await work.get("one more", lambda: 1, lane=Lane.TYPED) == 1

    asyncio.run(ask())


def test_what_is_asked_for_overtakes_what_may_be(work):
    free = threading.Event()
    order: list[str] = []

    def job(name: str) -> str:
        order.append(name)
        return name

    work.ahead("first", lambda: free.wait(30))
    for name in ("a", "b", "c"):
        work.ahead(name, partial(job, name))
    assert asyncio.run(work.get("c", partial(job, "c now"))) == "c now"
    free.set()
    assert asyncio.run(work.get("b", lambda: "b")) == "b"
    assert order[0] == "c now"
    assert "c" not in order


def test_what_is_unused_for_longest_goes_first(work):
    made = []

    def job(name: str) -> SimpleNamespace:
        made.append(name)
        return SimpleNamespace(nbytes=40)

    for name in ("a", "b", "a", "c", "a", "b"):  # room for two
        asyncio.run(work.get(name, partial(job, name)))
    assert made == ["a", "b", "c", "b"]


def test_visitors_take_turns(work):
    """A hundred jobs of one visitor keep another waiting for one of them at most."""
    free = threading.Event()
    order: list[object] = []

    async def ask(visitor: str, key: object) -> None:
        VISITOR.set(visitor)
        await work.get(key, partial(order.append, key), lane=Lane.MAPS)

    async def crowd() -> None:
        held = asyncio.create_task(work.get("first", lambda: free.wait(30), lane=Lane.MAPS))
        await asyncio.sleep(0)
        many = [asyncio.create_task(ask("busy", n)) for n in range(60)]
        await asyncio.sleep(0)
        late = asyncio.create_task(ask("other", "late"))
        await asyncio.sleep(0)
        free.set()
        await asyncio.gather(held, late, *many)

    asyncio.run(crowd())
    assert order.index("late") <= 1
    assert [one for one in order if one != "late"] == list(range(60))


def test_one_visitor_cannot_fill_a_lane(work):
    free = threading.Event()

    async def ask() -> None:
        VISITOR.set("busy")
        room = sum(Lane.MAPS.value)
        tasks = [
            asyncio.create_task(work.get(n, lambda: free.wait(30), lane=Lane.MAPS))
            for n in range(room)
        ]
        await asyncio.sleep(0)
        with pytest.raises(RefusedError):
            await work.get("one more", lambda: 1, lane=Lane.MAPS)
        VISITOR.set("other")
        late = asyncio.create_task(work.get("mine", lambda: 2, lane=Lane.MAPS))
        await asyncio.sleep(0)
        free.set()
        assert await late == 2
        await asyncio.gather(*tasks)

    asyncio.run(ask())


def test_what_nobody_waits_for_is_dropped_or_stopped(work):
    begun, done = threading.Event(), []

    def long() -> None:
        begun.set()
        for _ in range(3000):
            may_go_on()
            time.sleep(0.01)
        done.append("long")

    async def ask() -> None:
        running = asyncio.create_task(work.get("long", long, lane=Lane.HEAVY))
        waiting = asyncio.create_task(
            work.get("waiting", lambda: done.append("waiting"), lane=Lane.HEAVY)
        )
        shared = [
            asyncio.create_task(work.get("shared", lambda: "kept", lane=Lane.HEAVY))
            for _ in range(2)
        ]
        while not begun.is_set():
            await asyncio.sleep(0.01)
        for task in (waiting, shared[0], running):
            task.cancel()
        assert await shared[1] == "kept"  # somebody else waits for it

    asyncio.run(ask())
    assert done == []
    assert work.open == 0


def test_pages_are_computed_though_nobody_waits(work):
    free = threading.Event()

    async def leave() -> None:
        asked = asyncio.create_task(work.get("page", lambda: free.wait(30)))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.sleep(0)
        free.set()

    asyncio.run(leave())
    assert asyncio.run(work.get("page", lambda: "again")) is True
