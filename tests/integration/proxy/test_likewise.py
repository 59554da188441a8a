"""The short way: a request on a connection that was let in a moment ago.

Such a request is compared with the one before instead of being read anew. Whatever it is, the outcome has to
be the one it would have had on a connection of its own: the same answer, and the same bytes upstream.
"""

import asyncio
from collections.abc import Callable

import pytest

from codehub.domain.waking import Phase
from tests.integration.proxy.conftest import MakeEnvironment, ProxyEnvironment
from tests.integration.proxy.fakes import SESSION, STRANGER_SESSION
from tests.integration.proxy.raw import RawClient, Received, ok, replies
from tests.support.waiting import until

SECOND: dict[str, Callable[[ProxyEnvironment], bytes]] = {
    "the same again": lambda environment: environment.request(b"/a"),
    "another path": lambda environment: environment.request(b"/b/c?d=e&f=%2e%2e"),
    "the root": lambda environment: environment.request(b"/"),
    "two slashes": lambda environment: environment.request(b"//evil.example/"),
    "no slash": lambda environment: environment.request(b""),
    "a query without a path": lambda environment: environment.request(b"?q"),
    "a longer name": lambda environment: environment.request(b"0/a"),
    "a closed port": lambda environment: environment.request(b"/port/4444/x"),
    "a port that is none": lambda environment: environment.request(b"/port/99999/x"),
    "only like a port": lambda environment: environment.request(b"/portrait/1"),
    "HEAD": lambda environment: environment.request(b"/a", method=b"HEAD"),
    "OPTIONS": lambda environment: environment.request(b"/a", method=b"OPTIONS"),
    "POST without a body": lambda environment: environment.request(b"/a", method=b"POST"),
    "POST": lambda environment: environment.request(b"/a", method=b"POST", body=b"12345"),
    "DELETE": lambda environment: environment.request(b"/a", method=b"DELETE"),
    "CONNECT": lambda environment: environment.request(b"/a", method=b"CONNECT"),
    "a method in small letters": lambda environment: environment.request(b"/a", method=b"get"),
    "a stranger": lambda environment: environment.request(b"/a", session=STRANGER_SESSION),
    "nobody": lambda environment: environment.request(b"/a", session=None),
    "HTTP/1.0": lambda environment: environment.request(b"/a", version=b"1.0"),
    "HTTP/2.0": lambda environment: environment.request(b"/a", version=b"2.0"),
    "a field more": lambda environment: environment.request(b"/a", b"X-More: 1"),
    "an end of the connection": lambda environment: environment.request(b"/a", b"Connection: close"),
    "two lengths": lambda environment: environment.request(
        b"/a", b"Content-Length: 0", b"Content-Length: 5", method=b"GET"
    ),
    "a fragment": lambda environment: environment.request(b"/a#b"),
    "raw bytes": lambda environment: environment.request(b"/\xff"),
    "a control character": lambda environment: environment.request(b"/a\x01"),
    "a space": lambda environment: environment.request(b"/a b"),
    "a tab": lambda environment: environment.request(b"/a\tb"),
    "a bare LF": lambda environment: environment.request(b"/a HTTP/1.1\nX: y"),
    "a head in the first line": lambda environment: environment.request(
        b"/a HTTP/1.1\r\nX-Smuggled: yes\r\nY:"
    ),
    "a second request in the first line": lambda environment: environment.request(
        b"/a HTTP/1.1\r\n\r\nGET /w"
    ),
    "an empty line before": lambda environment: b"\r\n" + environment.request(b"/a"),
    "the API": lambda environment: environment.request(b"/a").replace(environment.base, b"/api"),
    "another workspace": lambda environment: environment.request(b"/a").replace(
        environment.base[-4:], b"0000", 1
    ),
    "an absolute target": lambda environment: environment.request(b"/a").replace(
        environment.base, b"http://127.0.0.1:%d" % environment.server.port + environment.base
    ),
    "too long": lambda environment: environment.request(b"/" + b"a" * 33_000),
    "as long as may be": lambda environment: environment.request(
        b"/" + b"a" * (32 * 1024 - len(environment.request(b"/")))
    ),
}


@pytest.mark.parametrize("strip", [True, False], ids=["stripped", "as it is"])
@pytest.mark.parametrize("second", SECOND.values(), ids=SECOND)
async def test_ends_as_on_a_connection_of_its_own(
    make_environment: MakeEnvironment, second: Callable[[ProxyEnvironment], bytes], strip: bool
) -> None:
    environment = await make_environment(target={"strip_prefix": strip})
    request = second(environment)
    fresh = await outcome(environment, await environment.client(), request)
    warm = await environment.client()
    for _ in range(2):  # the first is let in, the second already goes the short way
        await warm.send(environment.request(b"/a"))
        assert (await warm.response()).status == 200
    assert await outcome(environment, warm, request) == fresh


LINKED = (b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Mode: navigate", b"Sec-Fetch-Dest: document")


@pytest.mark.parametrize("method", [b"HEAD", b"OPTIONS", b"POST"])
async def test_a_link_from_elsewhere_opens_no_short_way(environment: ProxyEnvironment, method: bytes) -> None:
    """Another site's page may lead here by a GET. The same fields with another method are no link."""
    client = await environment.client()
    for _ in range(2):
        await client.send(environment.request(b"/a", *LINKED))
        assert (await client.response()).status == 200
    await client.send(environment.request(b"/a", *LINKED, method=method))
    assert (await client.response(head_only=True)).status == 403
    assert {each.line for each in environment.upstream.requests} == {b"GET /a HTTP/1.1"}


async def outcome(
    environment: ProxyEnvironment, client: RawClient, request: bytes
) -> tuple[bytes, list[bytes]]:
    """All that comes back (the connection is closed by a last request), and all that went upstream."""
    seen = len(environment.upstream.requests)
    await client.send(request)
    first = await client.reader.readexactly(1)  # it came alone, not in one piece with the last one
    await client.send(environment.request(b"/last", b"Connection: close"))
    back = first + await client.rest()
    return back, [each.head + each.body for each in environment.upstream.requests[seen:]]


async def test_requests_in_one_piece_are_answered_in_order(make_environment: MakeEnvironment) -> None:
    async def say_path(received: Received, _: object, writer: asyncio.StreamWriter) -> None:
        writer.write(ok(received.line.split(b" ")[1]))

    environment = await make_environment(say_path)
    client = await environment.client()
    paths = [b"/%d" % (n % 3) for n in range(200)]
    await client.send(b"".join(environment.request(path) for path in paths))
    assert [(await client.response()).body for _ in paths] == paths


async def test_different_fields_in_turns(environment: ProxyEnvironment) -> None:
    """More kinds than a connection remembers; each request goes up with its own."""
    client = await environment.client()
    kinds = [(n * n) % 6 for n in range(60)]
    for kind in kinds:
        await client.send(environment.request(b"/%d" % kind, b"Accept: kind/%d" % kind))
        assert (await client.response()).status == 200
    seen = [(each.line, each.values(b"accept")) for each in environment.upstream.requests]
    assert seen == [(b"GET /%d HTTP/1.1" % kind, [b"kind/%d" % kind]) for kind in kinds]


async def test_in_pieces_of_one_byte(environment: ProxyEnvironment) -> None:
    client = await environment.client()
    for path in (b"/a", b"/a", b"/b"):
        for byte in environment.request(path):
            await client.send(bytes((byte,)))
        assert (await client.response()).status == 200
    assert [each.line for each in environment.upstream.requests] == [
        b"GET /a HTTP/1.1",
        b"GET /a HTTP/1.1",
        b"GET /b HTTP/1.1",
    ]


@pytest.mark.parametrize("path", [b"/a", b"/b"], ids=["the same", "another"])
async def test_ends_with_the_first_word_of_a_change(environment: ProxyEnvironment, path: bytes) -> None:
    client = await _let_in(environment)
    environment.directory.change(environment.workspace.id, phase=Phase.ASLEEP)
    await client.send(environment.request(path))
    assert (await client.response()).status == 503


async def test_ends_with_the_session(environment: ProxyEnvironment) -> None:
    client = await _let_in(environment)
    (kind, secret), principal = next(
        (key, who) for key, who in environment.directory.credentials.items() if key[1] == SESSION
    )
    del environment.directory.credentials[kind, secret]
    for listener in environment.directory.listeners:
        listener.user_changed(principal.user_id)
    await client.send(environment.request(b"/a"))
    assert (await client.response()).status == 401


async def test_ends_with_its_time(make_environment: MakeEnvironment) -> None:
    """Also where no change is ever reported."""
    environment = await make_environment(cache_ttl=0.05)
    client = await _let_in(environment)
    looked_up = environment.directory.calls["resolve"]
    environment.directory.credentials.clear()

    async def refused() -> bool:
        await client.send(environment.request(b"/a"))
        return (await client.response()).status == 401

    async with asyncio.timeout(10):
        while not await refused():
            await asyncio.sleep(0.01)
    assert environment.directory.calls["resolve"] > looked_up


async def test_a_kept_connection_that_died_is_replaced(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(replies(ok(), ok(), ok()))
    client = await _let_in(environment)
    port = environment.upstream.port
    await environment.upstream.stop()
    await until(lambda: environment.upstream.closed == environment.upstream.connections)
    environment.upstream.port = port
    await environment.upstream.start()
    for _ in range(2):
        await client.send(environment.request(b"/a"))
        assert (await client.response()).status == 200


@pytest.mark.parametrize(
    "answers",
    [
        [ok(), ok(b"another"), ok()],
        [ok(), b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", ok()],
        [ok(), b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", ok()],
        [ok(), b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok(), ok()],
        [ok(), ok(b"hello", b"Connection: close"), ok()],
        [ok(), ok(b"hello", b"Set-Cookie: a=b"), ok()],
        [ok(), ok(b""), ok()],
    ],
    ids=["longer", "304", "chunked", "interim", "closing", "cookie", "empty"],
)
async def test_each_answer_is_its_own(make_environment: MakeEnvironment, answers: list[bytes]) -> None:
    """The exchange is taken over from one request to the next; nothing of an answer may be."""
    fresh = await make_environment(replies(*answers, *answers))
    expected = [await _ask(fresh, await fresh.client()) for _ in answers * 2]
    warm = await make_environment(replies(*answers, *answers))
    client = await warm.client()
    assert [await _ask(warm, client) for _ in answers * 2] == expected


async def test_an_answer_with_more_behind_it_ends_the_upstream_connection(
    make_environment: MakeEnvironment,
) -> None:
    environment = await make_environment(replies(ok(), ok(), ok() + ok(b"smuggled"), ok()))
    client = await environment.client()
    bodies = [(await _ask(environment, client))[-5:] for _ in range(5)]
    assert bodies == [b"hello"] * 5
    assert environment.upstream.connections == 2


async def test_an_upstream_that_says_it_closes_is_not_asked_again(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(replies(ok(b"hello", b"Connection: close")))
    client = await environment.client()
    for _ in range(4):
        await _ask(environment, client)
    assert environment.upstream.connections == 4


async def _ask(environment: ProxyEnvironment, client: RawClient) -> bytes:
    await client.send(environment.request(b"/a"))
    answer = await client.response()
    while answer.status < 200:
        answer = await client.response()
    return answer.head + answer.body


async def _let_in(environment: ProxyEnvironment) -> RawClient:
    client = await environment.client()
    for _ in range(3):
        await client.send(environment.request(b"/a"))
        assert (await client.response()).status == 200
    return client
