"""The access table: who asks for what, and the answer. Then what the table implies."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import uuid4

import pytest

from codehub.domain.waking import ErrorNote, Phase, RunningWorkspace, WakeOutcome, WakeResult
from tests.integration.proxy.conftest import MakeEnvironment, ProxyEnvironment
from tests.integration.proxy.fakes import ADMIN_SESSION, SESSION, STRANGER_SESSION
from tests.integration.proxy.raw import replies
from tests.support.waiting import until

NAVIGATE = (b"Sec-Fetch-Mode: navigate", b"Accept: text/html")
OLD_BROWSER = (b"Accept: text/html,*/*",)
FETCH = (b"Sec-Fetch-Mode: cors", b"Accept: text/html")
PLAIN = (b"Accept: application/json",)
PREFETCH = (b"Sec-Fetch-Mode: navigate", b"Sec-Purpose: prefetch;prerender", b"Accept: text/html")
PREVIEW = (b"Accept: text/html", b"X-Purpose: preview")
FIREFOX_PREFETCH = (b"Accept: text/html", b"X-Moz: prefetch")
SOCKET = (
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    b"Sec-WebSocket-Version: 13",
    b"Origin: {origin}",
    b"Sec-Fetch-Mode: websocket",
)
PERSONS = (NAVIGATE, OLD_BROWSER)
MACHINES = (FETCH, PLAIN, PREFETCH, PREVIEW, FIREFOX_PREFETCH, SOCKET)
FRAMES = tuple(
    (b"Sec-Fetch-Mode: navigate", b"Sec-Fetch-Dest: " + dest) for dest in (b"iframe", b"embed", b"object")
)
SIBLINGS = (  # another workspace's page, or another site's: a picture, a frame, a script that reads
    (b"Sec-Fetch-Site: same-site", b"Sec-Fetch-Mode: no-cors", b"Sec-Fetch-Dest: image"),
    (b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Mode: cors", b"Origin: http://evil.example"),
    (b"Origin: http://evil.example",),
)
SIBLING_FRAME = (b"Sec-Fetch-Site: same-site", b"Sec-Fetch-Mode: navigate", b"Sec-Fetch-Dest: iframe")
LINK = (b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Mode: navigate", b"Sec-Fetch-Dest: document")

RUNNING = {"phase": Phase.RUNNING, "status": "running"}
STANDBY = {"phase": Phase.ASLEEP, "status": "standby"}
ARCHIVED = {"phase": Phase.ASLEEP, "status": "archived"}
WAKING = {"phase": Phase.WAKING, "status": "restoring", "progress": 42}
BROKEN = {"phase": Phase.ERROR, "status": "error", "error": ErrorNote("DataLost", "checksum <mismatch>")}

LIMIT = WakeOutcome(WakeResult.LIMIT, (RunningWorkspace(uuid4(), "beta <b>"),), allowed=1)


WOKEN = WakeOutcome(WakeResult.WAKING)
GONE = WakeOutcome(WakeResult.GONE)


@dataclass(frozen=True)
class Row:
    name: str
    who: str | None
    state: Mapping[str, object]
    kinds: tuple[tuple[bytes, ...], ...]
    status: int
    html: bool
    wakes: bool = False
    says: bytes = b""
    outcome: WakeOutcome = WOKEN


TABLE = [
    Row("not signed in, page load", None, RUNNING, PERSONS, 303, False),
    Row("not signed in, otherwise", None, RUNNING, MACHINES, 401, False),
    Row("stale session, page load", "expired", RUNNING, PERSONS, 303, False),
    Row("not the owner, page load", STRANGER_SESSION, RUNNING, PERSONS, 404, True),
    Row("not the owner, otherwise", STRANGER_SESSION, RUNNING, MACHINES, 404, False),
    Row("not the owner, asleep", STRANGER_SESSION, STANDBY, PERSONS, 404, True),
    Row("owner, running", SESSION, RUNNING, (*PERSONS, FETCH, PLAIN), 200, False, says=b"hello"),
    Row("admin, running", ADMIN_SESSION, RUNNING, PERSONS, 200, False, says=b"hello"),
    Row("asleep, a person", SESSION, STANDBY, PERSONS, 200, True, wakes=True, says=b'data-page="waiting"'),
    Row("archived, a person", SESSION, ARCHIVED, PERSONS, 200, True, wakes=True, says=b'data-step="files"'),
    Row("asleep, an admin", ADMIN_SESSION, STANDBY, PERSONS, 200, True, wakes=True),
    Row("asleep, background", SESSION, STANDBY, MACHINES, 503, False),
    Row("archived, background", SESSION, ARCHIVED, MACHINES, 503, False),
    Row("asleep, a frame", SESSION, STANDBY, FRAMES, 503, True, says=b"This workspace is asleep"),
    Row("waking already, a frame", SESSION, WAKING, FRAMES, 503, True),
    Row("running, a frame of its own", SESSION, RUNNING, FRAMES, 200, False, says=b"hello"),
    Row("a sibling's page", SESSION, RUNNING, SIBLINGS, 403, False),
    Row("a sibling's page, asleep", SESSION, STANDBY, SIBLINGS, 403, False),
    Row("a sibling's frame", SESSION, RUNNING, (SIBLING_FRAME,), 403, True, says=b'target="_top"'),
    Row("a link from elsewhere", SESSION, RUNNING, (LINK,), 200, False, says=b"hello"),
    Row("a link from elsewhere, asleep", SESSION, STANDBY, (LINK,), 200, True, wakes=True),
    Row("waking already, a person", SESSION, WAKING, PERSONS, 200, True, says=b'data-progress="42"'),
    Row("waking already, background", SESSION, WAKING, MACHINES, 503, False),
    Row("limit reached", SESSION, STANDBY, PERSONS, 502, True, wakes=True, says=b"beta &lt;", outcome=LIMIT),
    Row("error, a person", SESSION, BROKEN, PERSONS, 502, True, says=b"checksum &lt;mismatch&gt;"),
    Row("error, background", SESSION, BROKEN, MACHINES, 502, False),
    Row("deleted while waking", SESSION, STANDBY, PERSONS, 404, True, wakes=True, outcome=GONE),
]  # fmt: skip


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
async def test_the_table(make_environment: MakeEnvironment, row: Row) -> None:
    for kind in row.kinds:
        environment = await make_environment(target=row.state)
        environment.directory.outcome = row.outcome
        origin = b"http://127.0.0.1:%d" % environment.server.port
        lines = tuple(line.replace(b"{origin}", origin) for line in kind)
        answer = await environment.get(b"/lab?x=1", *lines, session=row.who)
        assert answer.status == row.status, kind
        assert answer.values(b"content-type")[:1] == [b"text/html; charset=utf-8"] or not row.html
        assert row.says in answer.body
        assert bool(environment.directory.wakes) is row.wakes, "only a person's own navigation wakes"
        assert bool(environment.upstream.requests) is (row.status == 200 and not row.html)
        if row.status == 303:
            expected = f"/login?next=%2Fw%2F{environment.workspace.id}%2Flab%3Fx%3D1"
            assert answer.values(b"location") == [expected.encode()]
        if row.status == 503:
            assert answer.values(b"retry-after")
        if row.html:
            assert answer.values(b"cache-control") == [b"no-store"]
            assert b"default-src 'none'" in answer.values(b"content-security-policy")[0]


async def test_foreign_and_missing_look_exactly_alike(environment: ProxyEnvironment) -> None:
    for lines in (NAVIGATE, PLAIN):
        foreign = await environment.get(b"/", *lines, session=STRANGER_SESSION)
        nowhere = environment.request(b"/", *lines, session=STRANGER_SESSION)
        client = await environment.client()
        await client.send(nowhere.replace(str(environment.workspace.id).encode(), str(uuid4()).encode()))
        missing = await client.response()
        assert (foreign.head, foreign.body) == (missing.head, missing.body)
        await client.send(nowhere.replace(str(environment.workspace.id).encode(), b"no-such-name"))
        assert (await client.response()).body == missing.body


async def test_strangers_learn_nothing_about_what_exists(environment: ProxyEnvironment) -> None:
    existing = await environment.get(session=None)
    client = await environment.client()
    await client.send(
        environment.request(session=None).replace(
            str(environment.workspace.id).encode(), str(uuid4()).encode()
        )
    )
    assert (await client.response()).body == existing.body
    assert environment.directory.calls["workspace"] == 0


async def test_the_name_without_its_slash_is_redirected(environment: ProxyEnvironment) -> None:
    client = await environment.client()
    await client.send(environment.request(b""))
    answer = await client.response()
    assert (answer.status, answer.values(b"location")) == (308, [environment.base + b"/"])
    await client.send(environment.request(b"?x=1"))
    assert (await client.response()).values(b"location") == [environment.base + b"/?x=1"]


async def test_many_requests_cost_one_look_at_the_directory(environment: ProxyEnvironment) -> None:
    environment.directory.gate = asyncio.Event()
    pending = [asyncio.create_task(environment.get()) for _ in range(20)]
    await until(lambda: environment.server.metrics.requests_total == 20)
    environment.directory.gate.set()
    assert {(await task).status for task in pending} == {200}
    for _ in range(20):
        await environment.get()
    assert environment.directory.calls == {"resolve": 1, "workspace": 1}


async def test_what_is_remembered_ends_with_a_change(environment: ProxyEnvironment) -> None:
    client = await environment.client()

    async def status() -> int:
        await client.send(environment.request())
        return (await client.response()).status

    assert await status() == 200
    environment.directory.change(environment.workspace.id, phase=Phase.ASLEEP, status="standby")
    assert await status() == 503
    environment.directory.change(environment.workspace.id, phase=Phase.RUNNING, status="running")
    assert await status() == 200
    environment.directory.credentials.clear()
    assert await status() == 200, "nobody said so yet"
    for listener in environment.directory.listeners:
        listener.user_changed(environment.directory.owner.user_id)
    assert await status() == 401


async def test_a_change_during_a_lookup_is_not_lost(environment: ProxyEnvironment) -> None:
    """The lookup under way may have read the old state: whoever asks after the change gets the new one."""
    environment.directory.gate = asyncio.Event()
    environment.directory.change(environment.workspace.id, phase=Phase.ASLEEP, status="standby")
    first = asyncio.create_task(environment.get())
    await until(lambda: environment.directory.calls["resolve"] == 1)
    gate, environment.directory.gate = environment.directory.gate, None
    gate.set()
    await first
    slow = environment.directory.gate = asyncio.Event()
    for listener in environment.directory.listeners:
        listener.everything_changed()
    old = asyncio.create_task(environment.get())
    await until(lambda: environment.directory.calls["resolve"] == 2)
    slow.set()
    await until(lambda: environment.directory.calls["workspace"] == 2)
    environment.directory.gate = None
    environment.directory.change(environment.workspace.id, phase=Phase.RUNNING, status="running")
    await old
    assert (await environment.get()).status == 200


async def test_two_tabs_wake_once(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(target=STANDBY)
    await asyncio.gather(*(environment.get(b"/", *NAVIGATE) for _ in range(2)))
    assert 1 <= len(environment.directory.wakes) <= 2
    assert set(environment.directory.wakes) == {
        (environment.workspace.id, environment.directory.owner.user_id)
    }


async def test_ready_says_when_the_workspace_answers(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(target=STANDBY)

    async def ready(session: str | None = SESSION) -> int:
        client = await environment.client()
        cookie = f"Cookie: codehub_session={session}\r\n".encode() if session else b""
        path = f"/_codehub/ready/{environment.workspace.id}".encode()
        await client.send(b"GET %b HTTP/1.1\r\nHost: x\r\n%b\r\n" % (path, cookie))
        return (await client.response()).status

    assert await ready() == 503
    environment.directory.change(environment.workspace.id, phase=Phase.RUNNING, status="running")
    assert await ready() == 204
    await environment.upstream.stop()
    assert await ready() == 503
    assert await ready(STRANGER_SESSION) == 404
    assert await ready(None) == 401
    assert environment.directory.wakes == [], "asking is not waking"


async def test_the_pages_script_is_served_to_anybody(environment: ProxyEnvironment) -> None:
    client = await environment.client()
    await client.send(b"GET /_codehub/page.js?v=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await client.response()
    assert answer.status == 200
    assert answer.values(b"content-type") == [b"text/javascript; charset=utf-8"]
    assert b"EventSource" in answer.body


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 204),
        (b"HTTP/1.1 302 Found\r\nLocation: /lab\r\nContent-Length: 0\r\n\r\n", 204),
        (b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n", 204),
        (b"HTTP/1.1 503 Soon\r\nContent-Length: 0\r\n\r\n", 503),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", 503),
        (b"SSH-2.0-OpenSSH_9.2\r\n", 503),
        (b"", 503),  # accepts, and says nothing
    ],
)
async def test_ready_waits_for_an_answer_not_for_an_open_port(
    make_environment: MakeEnvironment, answer: bytes, status: int
) -> None:
    environment = await make_environment(replies(answer), probe_timeout=0.5)
    client = await environment.client()
    fields = f"Host: h\r\nCookie: codehub_session={SESSION}"
    await client.send(f"GET /_codehub/ready/{environment.workspace.id} HTTP/1.1\r\n{fields}\r\n\r\n".encode())
    assert (await client.response()).status == status
    assert environment.upstream.requests[0].line == b"GET / HTTP/1.1"
    assert environment.upstream.requests[0].values(b"cookie") == []
    assert not environment.activity.touches, "a probe is no activity"
    await until(lambda: environment.kept() == 0, what="the probe's connection to be dropped")
