"""Leases and touches: what the port hears, and when."""

import asyncio
from collections.abc import Collection
from uuid import UUID, uuid4

import pytest

from codehub.proxy import leases
from codehub.proxy.inputs import BEAT_SECONDS, MAX_TARGETS, Beats
from codehub.proxy.interfaces import Use
from codehub.proxy.leases import LeaseTracker
from codehub.proxy.metrics import Metrics
from codehub.proxy.settings import ProxySettings, UnixAddress
from codehub.proxy.upstream.relay import Meter

WORKSPACE = uuid4()


class Port:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.marked: list[set[UUID]] = []
        self.broken = False
        self.input_ages: list[float | None] = []  # of all calls

    async def lease(
        self, workspace_id: UUID, conn_id: str, use: Use, *, input_age: float | None = None
    ) -> None:
        self.input_ages.append(input_age)
        self._do("lease", conn_id)

    async def release(
        self, workspace_id: UUID, conn_id: str, use: Use, *, input_age: float | None = None
    ) -> None:
        self._do("release", conn_id)

    async def touch(self, workspace_id: UUID, *, input_age: float | None = None) -> None:
        self.input_ages.append(input_age)
        self._do("touch", "")

    async def mark_active(self, workspace_ids: Collection[UUID]) -> None:
        self.marked.append(set(workspace_ids))

    def _do(self, kind: str, conn_id: str) -> None:
        if self.broken:
            raise ConnectionError("away")
        self.calls.append((kind, conn_id))

    def kinds(self) -> list[str]:
        return sorted(kind for kind, _ in self.calls)


class Time:
    """The book's clock, turned by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
async def made(monkeypatch: pytest.MonkeyPatch) -> tuple[LeaseTracker, Port, Time]:
    port, clock = Port(), Time()
    book = LeaseTracker(port, ProxySettings(api=UnixAddress("/x"), internal_secret=b""), Metrics())
    monkeypatch.setattr(book, "_loop", clock)
    return book, port, clock


Made = tuple[LeaseTracker, Port, Time]


async def test_a_burst_of_requests_is_one_lease_and_one_touch(made: Made) -> None:
    book, port, clock = made
    for _ in range(100):
        requests = book.requests(WORKSPACE)
        requests.began(clock.now)
        requests.ended(clock.now)
        await book.turn()
    assert port.kinds() == ["lease", "touch"]
    clock.now += 11
    book.requests(WORKSPACE).began(clock.now)
    await book.turn()
    assert port.kinds() == ["lease", "touch", "touch"]


async def test_a_long_request_keeps_its_lease_renewed(made: Made) -> None:
    book, port, clock = made
    requests = book.requests(WORKSPACE)
    requests.began(clock.now)
    for _ in range(100):
        await book.turn()
        clock.now += 1
    assert port.kinds() == ["lease"] * 4 + ["touch"]
    requests.ended(clock.now)
    clock.now += leases.LINGER
    await book.turn()
    assert port.kinds().count("release") == 1


async def test_a_socket_holds_its_own_lease_until_it_closes(made: Made) -> None:
    book, port, clock = made
    conn_id = book.socket_opened(WORKSPACE)
    await book.turn()
    clock.now += 31
    await book.turn()
    book.socket_closed(WORKSPACE, conn_id)
    await book.turn()
    clock.now += 60
    await book.turn()
    assert port.calls == [("lease", conn_id), ("lease", conn_id), ("release", conn_id)]


async def test_a_failed_call_is_made_again(made: Made) -> None:
    book, port, clock = made
    port.broken = True
    conn_id = book.socket_opened(WORKSPACE)
    book.requests(WORKSPACE).began(clock.now)
    await book.turn()
    assert port.calls == []
    port.broken = False
    await book.turn()
    assert ("lease", conn_id) in port.calls
    assert port.kinds() == ["lease", "lease", "touch"]
    port.broken = True
    book.socket_closed(WORKSPACE, conn_id)
    await book.turn()
    port.broken = False
    await book.turn()
    assert port.calls[-1] == ("release", conn_id)


async def test_half_a_minute_without_redis_is_said_in_the_database(made: Made) -> None:
    """Redis knows the lease, which lasts for longer than that."""
    book, port, clock = made
    book.socket_opened(WORKSPACE)
    await book.turn()
    clock.now += 30
    port.broken = True
    for _ in range(29):
        await book.turn()
        clock.now += 1
    assert port.marked == []
    for _ in range(40):
        await book.turn()
        clock.now += 1
    assert port.marked == [{WORKSPACE}, {WORKSPACE}]


async def test_a_socket_that_redis_never_heard_of_is_said_in_the_database_at_once(made: Made) -> None:
    """However short its idle time: nothing else keeps that workspace awake."""
    book, port, clock = made
    port.broken = True
    book.socket_opened(WORKSPACE)
    for _ in range(29):
        await book.turn()
        clock.now += 1
    assert port.marked == [{WORKSPACE}]
    another = uuid4()
    closed = book.socket_opened(another)
    await book.turn()
    assert port.marked == [{WORKSPACE}, {another}]
    book.socket_closed(another, closed)
    clock.now += 1
    await book.turn()
    assert port.marked == [{WORKSPACE}, {another}, {WORKSPACE}]


async def test_a_socket_that_closes_while_its_lease_is_taken_leaves_none(made: Made) -> None:
    book, port, _ = made
    taking = asyncio.Event()
    go = asyncio.Event()

    async def slow(workspace_id: UUID, conn_id: str, use: Use, *, input_age: float | None = None) -> None:
        taking.set()
        await go.wait()
        port.calls.append(("lease", conn_id))

    port.lease = slow  # type: ignore[method-assign]
    conn_id = book.socket_opened(WORKSPACE)
    turn = asyncio.create_task(book.turn())
    await taking.wait()
    book.socket_closed(WORKSPACE, conn_id)
    go.set()
    await turn
    await book.turn()
    assert port.calls == [("lease", conn_id), ("release", conn_id)]


async def test_closing_gives_everything_back(made: Made) -> None:
    book, port, clock = made
    conn_id = book.socket_opened(WORKSPACE)
    book.requests(WORKSPACE).began(clock.now)
    await book.turn()
    await book.close()
    assert port.kinds().count("release") == 2
    assert ("release", conn_id) in port.calls


async def test_a_proxy_that_stops_in_the_middle_of_a_call_still_gives_every_lease_back(
    made: tuple[LeaseTracker, Port, Time], monkeypatch: pytest.MonkeyPatch
) -> None:
    book, port, _ = made
    closed = book.socket_opened(WORKSPACE)
    await book.turn()
    opened = book.socket_opened(WORKSPACE)
    book.socket_closed(WORKSPACE, closed)
    waiting = asyncio.Event()

    async def never(*_: object, input_age: float | None = None) -> None:
        waiting.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(port, "lease", never)
        patch.setattr(port, "release", never)
        turn = asyncio.create_task(book.turn())
        await waiting.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
    port.calls.clear()
    await book.close()
    assert {call for call in port.calls if call[0] == "release"} == {("release", closed), ("release", opened)}


async def test_input_is_reported_soon_and_again_with_every_renewal(made: Made) -> None:
    book, port, clock = made
    conn_id, meter = book.socket_opened(WORKSPACE), Meter()
    book.socket_joined(WORKSPACE, conn_id, meter)
    await book.turn()
    assert port.input_ages == [None]  # opening is not input
    clock.now += 20
    meter.input_at = round((clock.now - 2) * 1e9)
    await book.turn()
    assert port.kinds() == ["lease", "touch"]
    assert port.input_ages[-1] == pytest.approx(2)
    clock.now += 2
    meter.input_at = round(clock.now * 1e9)
    await book.turn()
    assert port.kinds() == ["lease", "touch"]  # again in ten seconds at the earliest
    clock.now += 15
    await book.turn()
    assert port.kinds() == ["lease", "lease", "touch", "touch"]
    assert port.input_ages[-2:] == [pytest.approx(15)] * 2


async def test_a_socket_that_cannot_be_counted_is_input_all_the_time(made: Made) -> None:
    book, port, clock = made
    book.socket_joined(WORKSPACE, book.socket_opened(WORKSPACE), None)
    await book.turn()
    for _ in range(3):
        clock.now += 40
        await book.turn()
        assert port.input_ages[-1] == pytest.approx(0)


async def test_a_page_that_polls_is_no_input_and_a_change_is(made: Made) -> None:
    book, port, clock = made
    requests = book.requests(WORKSPACE)
    requests.began(clock.now)
    await book.turn()
    assert port.input_ages == [None, None]
    clock.now += 2
    requests.began(clock.now, by_person=True)
    clock.now += 2
    await book.turn()
    assert port.kinds() == ["lease", "touch", "touch"]
    assert port.input_ages[-1] == pytest.approx(2)


async def test_a_change_that_a_page_repeats_is_no_input() -> None:
    beats = Beats()
    layout, notebook = b"/lab/api/workspaces/default", b"/api/contents/thesis.ipynb"
    assert beats.is_input(layout, 0)
    for now in range(10, 2000, 60):  # in a hidden tab, once a minute
        assert not beats.is_input(layout, now)
    for now in range(0, 2000, 120):  # a file that is being written
        assert beats.is_input(notebook, now)
    assert BEAT_SECONDS < 120


async def test_few_targets_are_remembered() -> None:
    beats = Beats()
    for n in range(10 * MAX_TARGETS):
        assert beats.is_input(b"/%d" % n, n / 1000)
    assert beats.is_input(b"/0", 1)
    assert not beats.is_input(b"/%d" % (10 * MAX_TARGETS - 1), 1)
