"""The short way: a request on a connection that was let in a moment ago.

Such a request is compared with the one before instead of being read anew. Whatever it is, the outcome has to
be the one it would have had on a connection of its own: the same answer, and the same bytes upstream.
"""

import asyncio
from collections.abc import Callable

import pytest

from codehub.proxy.interfaces import Phase
from tests.integration.proxy.conftest import House, MakeHouse
from tests.integration.proxy.fakes import SESSION, STRANGER_SESSION
from tests.integration.proxy.raw import RawClient, Received, ok, replies, until

SECOND: dict[str, Callable[[House], bytes]] = {
    "the same again": lambda house: house.request(b"/a"),
    "another path": lambda house: house.request(b"/b/c?d=e&f=%2e%2e"),
    "the root": lambda house: house.request(b"/"),
    "two slashes": lambda house: house.request(b"//evil.example/"),
    "no slash": lambda house: house.request(b""),
    "a query without a path": lambda house: house.request(b"?q"),
    "a longer name": lambda house: house.request(b"0/a"),
    "a closed port": lambda house: house.request(b"/port/4444/x"),
    "a port that is none": lambda house: house.request(b"/port/99999/x"),
    "only like a port": lambda house: house.request(b"/portrait/1"),
    "HEAD": lambda house: house.request(b"/a", method=b"HEAD"),
    "OPTIONS": lambda house: house.request(b"/a", method=b"OPTIONS"),
    "POST without a body": lambda house: house.request(b"/a", method=b"POST"),
    "POST": lambda house: house.request(b"/a", method=b"POST", body=b"12345"),
    "DELETE": lambda house: house.request(b"/a", method=b"DELETE"),
    "CONNECT": lambda house: house.request(b"/a", method=b"CONNECT"),
    "a method in small letters": lambda house: house.request(b"/a", method=b"get"),
    "a stranger": lambda house: house.request(b"/a", session=STRANGER_SESSION),
    "nobody": lambda house: house.request(b"/a", session=None),
    "HTTP/1.0": lambda house: house.request(b"/a", version=b"1.0"),
    "HTTP/2.0": lambda house: house.request(b"/a", version=b"2.0"),
    "a field more": lambda house: house.request(b"/a", b"X-More: 1"),
    "an end of the connection": lambda house: house.request(b"/a", b"Connection: close"),
    "two lengths": lambda house: house.request(
        b"/a", b"Content-Length: 0", b"Content-Length: 5", method=b"GET"
    ),
    "a fragment": lambda house: house.request(b"/a#b"),
    "raw bytes": lambda house: house.request(b"/\xff"),
    "a control character": lambda house: house.request(b"/a\x01"),
    "a space": lambda house: house.request(b"/a b"),
    "a tab": lambda house: house.request(b"/a\tb"),
    "a bare LF": lambda house: house.request(b"/a HTTP/1.1\nX: y"),
    "a head in the first line": lambda house: house.request(b"/a HTTP/1.1\r\nX-Smuggled: yes\r\nY:"),
    "a second request in the first line": lambda house: house.request(b"/a HTTP/1.1\r\n\r\nGET /w"),
    "an empty line before": lambda house: b"\r\n" + house.request(b"/a"),
    "the API": lambda house: house.request(b"/a").replace(house.base, b"/api"),
    "another workspace": lambda house: house.request(b"/a").replace(house.base[-4:], b"0000", 1),
    "an absolute target": lambda house: house.request(b"/a").replace(
        house.base, b"http://127.0.0.1:%d" % house.server.port + house.base
    ),
    "too long": lambda house: house.request(b"/" + b"a" * 33_000),
    "as long as may be": lambda house: house.request(b"/" + b"a" * (32 * 1024 - len(house.request(b"/")))),
}


@pytest.mark.parametrize("strip", [True, False], ids=["stripped", "as it is"])
@pytest.mark.parametrize("second", SECOND.values(), ids=SECOND)
async def test_ends_as_on_a_connection_of_its_own(
    make_house: MakeHouse, second: Callable[[House], bytes], strip: bool
) -> None:
    house = await make_house(target={"strip_prefix": strip})
    request = second(house)
    fresh = await outcome(house, await house.client(), request)
    warm = await house.client()
    for _ in range(2):  # the first is let in, the second already goes the short way
        await warm.send(house.request(b"/a"))
        assert (await warm.response()).status == 200
    assert await outcome(house, warm, request) == fresh


LINKED = (b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Mode: navigate", b"Sec-Fetch-Dest: document")


@pytest.mark.parametrize("method", [b"HEAD", b"OPTIONS", b"POST"])
async def test_a_link_from_elsewhere_opens_no_short_way(house: House, method: bytes) -> None:
    """Another site's page may lead here by a GET. The same fields with another method are no link."""
    client = await house.client()
    for _ in range(2):
        await client.send(house.request(b"/a", *LINKED))
        assert (await client.response()).status == 200
    await client.send(house.request(b"/a", *LINKED, method=method))
    assert (await client.response(head_only=True)).status == 403
    assert {each.line for each in house.upstream.requests} == {b"GET /a HTTP/1.1"}


async def outcome(house: House, client: RawClient, request: bytes) -> tuple[bytes, list[bytes]]:
    """All that comes back (the connection is closed by a last request), and all that went upstream."""
    seen = len(house.upstream.requests)
    await client.send(request)
    first = await client.reader.readexactly(1)  # it came alone, not in one piece with the last one
    await client.send(house.request(b"/last", b"Connection: close"))
    back = first + await client.rest()
    return back, [each.head + each.body for each in house.upstream.requests[seen:]]


async def test_requests_in_one_piece_are_answered_in_order(make_house: MakeHouse) -> None:
    async def say_path(received: Received, _: object, writer: asyncio.StreamWriter) -> None:
        writer.write(ok(received.line.split(b" ")[1]))

    house = await make_house(say_path)
    client = await house.client()
    paths = [b"/%d" % (n % 3) for n in range(200)]
    await client.send(b"".join(house.request(path) for path in paths))
    assert [(await client.response()).body for _ in paths] == paths


async def test_different_fields_in_turns(house: House) -> None:
    """More kinds than a connection remembers; each request goes up with its own."""
    client = await house.client()
    kinds = [(n * n) % 6 for n in range(60)]
    for kind in kinds:
        await client.send(house.request(b"/%d" % kind, b"Accept: kind/%d" % kind))
        assert (await client.response()).status == 200
    seen = [(each.line, each.values(b"accept")) for each in house.upstream.requests]
    assert seen == [(b"GET /%d HTTP/1.1" % kind, [b"kind/%d" % kind]) for kind in kinds]


async def test_in_pieces_of_one_byte(house: House) -> None:
    client = await house.client()
    for path in (b"/a", b"/a", b"/b"):
        for byte in house.request(path):
            await client.send(bytes((byte,)))
        assert (await client.response()).status == 200
    assert [each.line for each in house.upstream.requests] == [
        b"GET /a HTTP/1.1",
        b"GET /a HTTP/1.1",
        b"GET /b HTTP/1.1",
    ]


@pytest.mark.parametrize("path", [b"/a", b"/b"], ids=["the same", "another"])
async def test_ends_with_the_first_word_of_a_change(house: House, path: bytes) -> None:
    client = await _let_in(house)
    house.directory.change(house.workspace.id, phase=Phase.ASLEEP)
    await client.send(house.request(path))
    assert (await client.response()).status == 503


async def test_ends_with_the_session(house: House) -> None:
    client = await _let_in(house)
    (kind, secret), principal = next(
        (key, who) for key, who in house.directory.credentials.items() if key[1] == SESSION
    )
    del house.directory.credentials[kind, secret]
    for listener in house.directory.listeners:
        listener.user_changed(principal.user_id)
    await client.send(house.request(b"/a"))
    assert (await client.response()).status == 401


async def test_ends_with_its_time(make_house: MakeHouse) -> None:
    """Also where no change is ever reported."""
    house = await make_house(cache_ttl=0.05)
    client = await _let_in(house)
    looked_up = house.directory.calls["resolve"]
    house.directory.credentials.clear()

    async def refused() -> bool:
        await client.send(house.request(b"/a"))
        return (await client.response()).status == 401

    async with asyncio.timeout(10):
        while not await refused():
            await asyncio.sleep(0.01)
    assert house.directory.calls["resolve"] > looked_up


async def test_a_kept_connection_that_died_is_replaced(make_house: MakeHouse) -> None:
    house = await make_house(replies(ok(), ok(), ok()))
    client = await _let_in(house)
    port = house.upstream.port
    await house.upstream.stop()
    await until(lambda: house.upstream.closed == house.upstream.connections)
    house.upstream.port = port
    await house.upstream.start()
    for _ in range(2):
        await client.send(house.request(b"/a"))
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
async def test_each_answer_is_its_own(make_house: MakeHouse, answers: list[bytes]) -> None:
    """The exchange is taken over from one request to the next; nothing of an answer may be."""
    fresh = await make_house(replies(*answers, *answers))
    expected = [await _ask(fresh, await fresh.client()) for _ in answers * 2]
    warm = await make_house(replies(*answers, *answers))
    client = await warm.client()
    assert [await _ask(warm, client) for _ in answers * 2] == expected


async def test_an_answer_with_more_behind_it_ends_the_upstream_connection(make_house: MakeHouse) -> None:
    house = await make_house(replies(ok(), ok(), ok() + ok(b"smuggled"), ok()))
    client = await house.client()
    bodies = [(await _ask(house, client))[-5:] for _ in range(5)]
    assert bodies == [b"hello"] * 5
    assert house.upstream.connections == 2


async def test_an_upstream_that_says_it_closes_is_not_asked_again(make_house: MakeHouse) -> None:
    house = await make_house(replies(ok(b"hello", b"Connection: close")))
    client = await house.client()
    for _ in range(4):
        await _ask(house, client)
    assert house.upstream.connections == 4


async def _ask(house: House, client: RawClient) -> bytes:
    await client.send(house.request(b"/a"))
    answer = await client.response()
    while answer.status < 200:
        answer = await client.response()
    return answer.head + answer.body


async def _let_in(house: House) -> RawClient:
    client = await house.client()
    for _ in range(3):
        await client.send(house.request(b"/a"))
        assert (await client.response()).status == 200
    return client
