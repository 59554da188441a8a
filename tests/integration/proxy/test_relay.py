"""Bytes in, bytes out: framing by the book, in both directions."""

import asyncio

import pytest

from tests.integration.proxy.conftest import MakeEnvironment, ProxyEnvironment
from tests.integration.proxy.raw import RawUpstream, Received, ok, replies
from tests.support.waiting import until


async def test_a_request_reaches_the_workspace_without_its_prefix(environment: ProxyEnvironment) -> None:
    answer = await environment.get(b"/lab/tree?x=1&y=%2F")
    assert (answer.status, answer.body) == (200, b"hello")
    assert environment.upstream.requests[0].line == b"GET /lab/tree?x=1&y=%2F HTTP/1.1"


async def test_an_image_that_knows_its_base_path_sees_the_whole_path(
    make_environment: MakeEnvironment,
) -> None:
    environment = await make_environment(target={"strip_prefix": False})
    await environment.get(b"/lab")
    assert environment.upstream.requests[0].line == b"GET %b/lab HTTP/1.1" % environment.base


async def test_one_connection_carries_many_requests_over_one_upstream_connection(
    environment: ProxyEnvironment,
) -> None:
    client = await environment.client()
    for n in range(50):
        await client.send(environment.request(b"/%d" % n))
        assert (await client.response()).body == b"hello"
    assert environment.upstream.connections == 1
    assert [request.line.split(b" ")[1] for request in environment.upstream.requests] == [
        b"/%d" % n for n in range(50)
    ]


async def test_pipelined_requests_are_answered_in_order(make_environment: MakeEnvironment) -> None:
    async def echo_path(received: Received, _: object, writer: asyncio.StreamWriter) -> None:
        writer.write(ok(received.line.split(b" ")[1]))

    environment = await make_environment(echo_path)
    client = await environment.client()
    await client.send(b"".join(environment.request(b"/%d" % n) for n in range(300)))
    for n in range(300):
        assert (await client.response()).body == b"/%d" % n


async def test_a_pipelined_request_behind_a_body_is_found(make_environment: MakeEnvironment) -> None:
    async def echo_body(received: Received, _: object, writer: asyncio.StreamWriter) -> None:
        writer.write(ok(received.body))

    environment = await make_environment(echo_body)
    client = await environment.client()
    first = environment.request(b"/a", method=b"POST", body=b"GET /evil HTTP/1.1\r\n\r\n")
    await client.send(first + environment.request(b"/b", method=b"POST", body=b"two"))
    assert (await client.response()).body == b"GET /evil HTTP/1.1\r\n\r\n"
    assert (await client.response()).body == b"two"
    assert len(environment.upstream.requests) == 2


async def test_a_head_in_single_bytes_is_read(environment: ProxyEnvironment) -> None:
    client = await environment.client()
    for byte in environment.request():
        await client.send(bytes([byte]))
    assert (await client.response()).body == b"hello"


CHUNKED = b"5\r\nhello\r\n6;note=x\r\n world\r\n0\r\nX-Sum: abc\r\n\r\n"


async def test_chunks_and_trailers_pass_in_both_directions(make_environment: MakeEnvironment) -> None:
    seen = b""

    async def echo_raw(_: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen = await reader.readexactly(len(CHUNKED))
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n" + CHUNKED)

    environment = await make_environment(echo_raw)
    client = await environment.client()
    await client.send(environment.request(b"/", b"Transfer-Encoding: chunked", method=b"POST"))
    for byte in CHUNKED:
        await client.send(bytes([byte]))
    answer = await client.response()
    assert seen == CHUNKED
    assert answer.body == CHUNKED
    assert answer.values(b"trailer") == [b"X-Sum"]
    await client.send(environment.request(b"/", b"Transfer-Encoding: chunked", method=b"POST") + CHUNKED)
    assert (await client.response()).status == 200, "both connections stay in step"


@pytest.mark.parametrize(
    ("method", "response"),
    [
        (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"),
        (b"HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (b"GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (b"GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n"),
        (b"GET", b'HTTP/1.1 304 Not Modified\r\nContent-Length: 5000\r\nETag: "x"\r\n\r\n'),
    ],
)
async def test_answers_without_body_do_not_wait_for_one(
    make_environment: MakeEnvironment, method: bytes, response: bytes
) -> None:
    environment = await make_environment(replies(response, ok()))
    client = await environment.client()
    await client.send(environment.request(method=method))
    answer = await client.response(head_only=True)
    assert answer.status == int(response.split(b" ")[1])
    if answer.status == 204:
        assert not answer.values(b"content-length")
    await client.send(environment.request())
    assert (await client.response()).body == b"hello"
    assert environment.upstream.connections == 1


async def test_ranges_pass_through(make_environment: MakeEnvironment) -> None:
    partial = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 2-4/10\r\nContent-Length: 3\r\n\r\ncde"
    environment = await make_environment(replies(partial))
    answer = await environment.get(b"/file", b"Range: bytes=2-4")
    assert (answer.status, answer.body) == (206, b"cde")
    assert answer.values(b"content-range") == [b"bytes 2-4/10"]
    assert environment.upstream.requests[0].values(b"range") == [b"bytes=2-4"]


async def test_100_continue_is_relayed_before_the_body_is_sent(make_environment: MakeEnvironment) -> None:
    async def ask_first(
        received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        assert received.values(b"expect") == [b"100-continue"]
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        writer.write(ok(await reader.readexactly(4)))

    environment = await make_environment(ask_first)
    client = await environment.client()
    await client.send(environment.request(b"/", b"Expect: 100-continue", b"Content-Length: 4", method=b"PUT"))
    assert (await client.response()).status == 100
    await client.send(b"data")
    assert (await client.response()).body == b"data"


async def test_early_hints_are_relayed_and_bounded(make_environment: MakeEnvironment) -> None:
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </x.css>; rel=preload\r\n\r\n"
    environment = await make_environment(replies(hint + ok(), hint * 40 + ok()))
    client = await environment.client()
    await client.send(environment.request())
    assert (await client.response()).status == 103
    assert (await client.response()).status == 200
    await client.send(environment.request())
    statuses = [(await client.response()).status for _ in range(33)]
    assert statuses[-1] == 502


async def test_an_old_client_gets_a_plain_body_and_a_closed_connection(
    make_environment: MakeEnvironment,
) -> None:
    environment = await make_environment(
        replies(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED)
    )
    client = await environment.client()
    await client.send(environment.request(version=b"1.0"))
    head, _, body = (await client.rest()).partition(b"\r\n\r\n")
    assert body == b"hello world"
    assert b"transfer-encoding" not in head.lower()
    assert b"connection: close" in head.lower()


async def test_a_body_that_ends_with_the_connection_ends_the_clients(
    make_environment: MakeEnvironment,
) -> None:
    environment = await make_environment(replies(b"HTTP/1.0 200 OK\r\n\r\nall of it", close=True))
    client = await environment.client()
    await client.send(environment.request())
    data = await client.rest()
    assert data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert data.endswith(b"all of it")
    assert b"Connection: close" in data


async def test_connection_close_is_honoured(environment: ProxyEnvironment) -> None:
    client = await environment.client()
    await client.send(environment.request(b"/", b"Connection: close"))
    data = await client.rest()
    assert data.endswith(b"hello")
    assert b"Connection: close" in data


async def test_a_client_that_closed_its_side_still_gets_the_answer(make_environment: MakeEnvironment) -> None:
    go = asyncio.Event()

    async def wait(_: Received, __: object, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        writer.write(ok())

    environment = await make_environment(wait)
    client = await environment.client()
    await client.send(environment.request())
    client.writer.write_eof()
    await until(lambda: len(environment.upstream.requests) == 1)
    go.set()
    assert (await client.rest()).endswith(b"hello")


async def test_what_is_not_a_workspace_goes_to_the_api_untouched(environment: ProxyEnvironment) -> None:
    client = await environment.client()
    await client.send(
        b"POST /api/v1/auth/login HTTP/1.1\r\nHost: hub.example\r\nCookie: codehub_session=x\r\n"
        b"Authorization: Bearer chp_abc\r\nX-CodeHub-Principal: me\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert (await client.response()).body == b"api"
    received = environment.api.requests[0]
    assert received.line == b"POST /api/v1/auth/login HTTP/1.1"
    assert received.body == b"{}"
    assert received.values(b"cookie") == [b"codehub_session=x"]
    assert received.values(b"authorization") == [b"Bearer chp_abc"]
    assert received.values(b"x-codehub-principal") == []
    assert received.values(b"x-forwarded-for") == [b"127.0.0.1"]
    assert received.values(b"host") == [b"hub.example"]


async def test_event_streams_flow_and_end_with_the_client(make_environment: MakeEnvironment) -> None:
    more = asyncio.Event()

    async def stream(_: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        writer.write(b"9\r\ndata: 1\n\n\r\n")
        await more.wait()
        writer.write(b"9\r\ndata: 2\n\n\r\n")
        await reader.read()

    environment = await make_environment(api=stream)
    client = await environment.client()
    await client.send(b"GET /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"data: 1" in await client.reader.readuntil(b"data: 1\n\n\r\n")
    more.set()
    assert b"data: 2" in await client.reader.readuntil(b"data: 2\n\n\r\n")
    client.close()
    await until(lambda: environment.api.closed == 1)


async def test_a_kept_connection_the_upstream_gave_up_is_replaced_unseen(
    make_environment: MakeEnvironment,
) -> None:
    """The upstream closes the moment the next request arrives on the kept connection."""
    served: list[int] = []

    async def once(received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if writer.get_extra_info("peername")[1] in served:
            writer.transport.abort()
            return
        served.append(writer.get_extra_info("peername")[1])
        writer.write(ok())

    environment = await make_environment(once)
    client = await environment.client()
    for _ in range(4):
        await client.send(environment.request())
        assert (await client.response()).body == b"hello"


async def test_a_request_with_an_effect_is_never_sent_twice(make_environment: MakeEnvironment) -> None:
    async def die(received: Received, _: object, writer: asyncio.StreamWriter) -> None:
        if received.line.startswith(b"POST"):
            writer.transport.abort()
        else:
            writer.write(ok())

    environment = await make_environment(die)
    client = await environment.client()
    await client.send(environment.request())
    await client.response()
    await client.send(environment.request(method=b"POST", body=b"pay"))
    assert (await client.response()).status == 502
    assert sum(request.line.startswith(b"POST") for request in environment.upstream.requests) == 1


async def test_an_early_answer_to_an_upload_reaches_the_client(make_environment: MakeEnvironment) -> None:
    async def refuse(_: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await writer.drain()

    environment = await make_environment(refuse)
    client = await environment.client()
    await client.send(
        environment.request(b"/", b"Transfer-Encoding: chunked", method=b"POST") + b"5\r\nhello\r\n"
    )
    answer = await client.response()
    assert (answer.status, answer.body) == (413, b"big")
    assert answer.values(b"connection") == [b"close"]
    assert await client.rest() == b""


async def test_connections_of_one_workspace_are_not_inherited_with_its_address(
    make_environment: MakeEnvironment,
) -> None:
    environment = await make_environment()
    client = await environment.client()
    await client.send(environment.request())
    await client.response()
    other = environment.directory.add(address=("127.0.0.1", environment.upstream.port))
    await client.send(
        environment.request().replace(str(environment.workspace.id).encode(), str(other.id).encode())
    )
    await client.response()
    assert environment.upstream.connections == 2


async def test_bytes_behind_an_answer_never_become_the_next_one(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(replies(ok() + ok(b"forged"), ok(b"real")))
    client = await environment.client()
    await client.send(environment.request())
    assert (await client.response()).body == b"hello"
    await client.send(environment.request())
    assert (await client.response()).body == b"real"


async def test_ports_a_workspace_listens_on_are_reached(environment: ProxyEnvironment) -> None:
    other = RawUpstream(replies(ok(b"port")))
    await other.start()
    environment.directory.ports.add((environment.workspace.id, other.port))
    answer = await environment.get(b"/port/%d/app?x" % other.port)
    assert answer.body == b"port"
    assert other.requests[0].line == b"GET /app?x HTTP/1.1"
    assert other.requests[0].values(b"x-forwarded-prefix") == [b"%b/port/%d" % (environment.base, other.port)]
    await other.stop()
    closed = await environment.get(b"/port/%d/" % other.port)
    assert closed.status == 502
    assert environment.directory.hints == [], "a closed port says nothing about the workspace"


async def test_ports_of_somebody_else_are_nobodys(environment: ProxyEnvironment) -> None:
    """They would be the database's, or another workspace's."""
    assert (await environment.get(b"/port/%d/" % environment.upstream.port)).status == 404
    page = await environment.get(b"/port/%d/" % environment.upstream.port, b"Sec-Fetch-Mode: navigate")
    assert page.status == 404
    assert b"Nothing listens on port" in page.body


async def test_a_port_is_asked_about_once_and_again_after_a_change(environment: ProxyEnvironment) -> None:
    environment.directory.ports.add((environment.workspace.id, environment.upstream.port))
    for _ in range(3):
        assert (await environment.get(b"/port/%d/" % environment.upstream.port)).status == 200
    assert environment.directory.calls["port_address"] == 1
    environment.directory.ports.clear()
    environment.directory.change(environment.workspace.id, version=2)
    assert (await environment.get(b"/port/%d/" % environment.upstream.port)).status == 404
