"""Requests made to be read in two ways: refused, and never seen by any upstream."""

import pytest

from codehub.domain.waking import Phase
from tests.integration.proxy.conftest import MakeEnvironment, ProxyEnvironment
from tests.integration.proxy.fakes import SESSION
from tests.integration.proxy.raw import ok, replies

HOST = b"Host: hub.example\r\n"
COOKIE = b"Cookie: codehub_session=s3ss10n\r\n"


def spell(raw: bytes, environment: ProxyEnvironment) -> bytes:
    raw = raw.replace(b"{get}", b"GET {p} HTTP/1.1\r\n{h}").replace(b"{post}", b"POST {p} HTTP/1.1\r\n{h}")
    fields = HOST if b"{h}{h}" in raw else HOST + COOKIE
    return raw.replace(b"{p}", environment.base + b"/").replace(b"{h}", fields)


REFUSED: list[tuple[str, bytes, int]] = [
    ("length and chunked", b"{post}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("two lengths", b"{post}Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", 400),
    ("the same length twice", b"{post}Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", 400),
    ("length list", b"{post}Content-Length: 4, 4\r\n\r\nabcd", 400),
    ("signed length", b"{post}Content-Length: +4\r\n\r\nabcd", 400),
    ("negative length", b"{post}Content-Length: -1\r\n\r\n", 400),
    ("hex length", b"{post}Content-Length: 0x4\r\n\r\nabcd", 400),
    ("huge length", b"{post}Content-Length: 99999999999999999999\r\n\r\n", 400),
    ("empty length", b"{post}Content-Length: \r\n\r\n", 400),
    ("coding in two fields", b"{post}Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n", 400),
    ("unknown coding", b"{post}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    ("chunked and more", b"{post}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 501),
    ("tab before chunked", b"{post}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    ("quoted coding", b'{post}Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n', 501),
    ("chunked in 1.0", b"POST {p} HTTP/1.0\r\n{h}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("space before the colon", b"{get}Transfer-Encoding : chunked\r\n\r\n", 400),
    ("space before the name", b"GET {p} HTTP/1.1\r\n Host: a\r\n{h}\r\n", 400),
    ("folded line", b"{get}X-A: b\r\n c\r\n\r\n", 400),
    ("bare LF between fields", b"{get}X-A: b\nX-B: c\r\n\r\n", 400),
    ("bare LF everywhere", b"GET {p} HTTP/1.1\nHost: x\n\n", 400),
    ("bare CR in a value", b"{get}X-A: b\rX-B: c\r\n\r\n", 400),
    ("CR CR LF", b"{get}X-A: b\r\r\n\r\n", 400),
    ("NUL in a value", b"{get}X-A: b\0c\r\n\r\n", 400),
    ("NUL in a name", b"{get}X-\0A: b\r\n\r\n", 400),
    ("control character", b"{get}X-A: b\x08c\r\n\r\n", 400),
    ("no colon", b"{get}X-A\r\n\r\n", 400),
    ("empty name", b"{get}: b\r\n\r\n", 400),
    ("no host", b"GET {p} HTTP/1.1\r\nX-A: b\r\n\r\n", 400),
    ("two hosts", b"{get}{h}\r\n", 400),
    ("host with a path", b"GET {p} HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    ("host with a user", b"GET {p} HTTP/1.1\r\nHost: u@hub.example\r\n\r\n", 400),
    ("empty host", b"GET {p} HTTP/1.1\r\nHost: \r\n\r\n", 400),
    ("another authority", b"GET http://evil.example{p} HTTP/1.1\r\n{h}\r\n", 400),
    ("absolute with a user", b"GET http://u@hub.example{p} HTTP/1.1\r\n{h}\r\n", 400),
    ("another scheme", b"GET gopher://hub.example{p} HTTP/1.1\r\n{h}\r\n", 400),
    ("no slash", b"GET w/x HTTP/1.1\r\n{h}\r\n", 400),
    ("space in the target", b"GET {p} /x HTTP/1.1\r\n{h}\r\n", 400),
    ("raw bytes in the target", b"GET {p}\xff HTTP/1.1\r\n{h}\r\n", 400),
    ("fragment", b"GET {p}#x HTTP/1.1\r\n{h}\r\n", 400),
    ("two spaces", b"GET  {p} HTTP/1.1\r\n{h}\r\n", 400),
    ("HTTP/0.9", b"GET {p}\r\n\r\n", 400),
    ("HTTP/2.0", b"GET {p} HTTP/2.0\r\n{h}\r\n", 400),
    ("HTTP/1.2", b"GET {p} HTTP/1.2\r\n{h}\r\n", 400),
    ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    ("lower-case method", b"get {p} HTTP/1.1\r\n{h}\r\n", 400),
    ("CONNECT", b"CONNECT hub.example:443 HTTP/1.1\r\n{h}\r\n", 405),
    ("TRACE", b"TRACE {p} HTTP/1.1\r\n{h}\r\n", 405),
    ("other expectation", b"{get}Expect: magic\r\n\r\n", 417),
    ("two authorizations", b"{get}Authorization: a\r\nAuthorization: b\r\n\r\n", 400),
    ("head too large", b"{get}X-A: " + b"a" * 33_000 + b"\r\n\r\n", 431),
    ("head without end", b"{get}" + b"X-A: aaaaaaaaaaaaaaaaa\r\n" * 2000, 431),
    ("target too large", b"GET {p}" + b"a" * 40_000 + b" HTTP/1.1\r\n{h}\r\n", 431),
    ("TLS on the plain port", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\r\n\r\n", 400),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "status"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
async def test_refused_before_anyone_sees_it(environment: ProxyEnvironment, raw: bytes, status: int) -> None:
    client = await environment.client()
    await client.send(spell(raw, environment))
    answer = await client.response()
    assert answer.status == status
    assert answer.values(b"connection") == [b"close"]
    assert await client.rest() == b"", "nothing behind it is read as a request"
    assert environment.upstream.requests == []
    assert environment.api.requests == []
    assert sum(environment.server.metrics.refusals.values()) == 1


BAD_BODIES: list[tuple[str, bytes]] = [
    ("size is no number", b"xyz\r\nabc\r\n0\r\n\r\n"),
    ("negative size", b"-1\r\n\r\n"),
    ("0x size", b"0x3\r\nabc\r\n0\r\n\r\n"),
    ("size with a space before it", b" 3\r\nabc\r\n0\r\n\r\n"),
    ("bare LF behind the size", b"3\nabc\r\n0\r\n\r\n"),
    ("bare LF in an extension", b"3;a\nb\r\nabc\r\n0\r\n\r\n"),
    ("bare CR in an extension", b"3;a\rb\r\nabc\r\n0\r\n\r\n"),
    ("chunk longer than it says", b"3\r\nabcd\r\n0\r\n\r\n"),
    ("no CRLF behind a chunk", b"3\r\nabc0\r\n\r\n"),
    ("huge size", b"FFFFFFFFFFFFFFFFF\r\n"),
    ("endless size line", b"1;" + b"a" * 5000),
    ("length as a trailer", b"0\r\nContent-Length: 4\r\n\r\n"),
    ("host as a trailer", b"0\r\nHost: evil\r\n\r\n"),
    ("identity as a trailer", b"0\r\nX-CodeHub-Principal: root\r\n\r\n"),
    ("folded trailer", b"0\r\nX-A: b\r\n c\r\n\r\n"),
    ("endless trailers", b"0\r\n" + b"X-A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n" * 400),
]


@pytest.mark.parametrize("body", [row[1] for row in BAD_BODIES], ids=[row[0] for row in BAD_BODIES])
async def test_a_malformed_body_ends_the_request_on_both_sides(
    environment: ProxyEnvironment, body: bytes
) -> None:
    client = await environment.client()
    await client.send(environment.request(b"/", b"Transfer-Encoding: chunked", method=b"POST"))
    await client.send(body + environment.request(b"/smuggled"))
    # The upstream here answers as soon as it has the head; whichever was first, the client is closed.
    data = await client.rest()
    assert data.count(b"HTTP/1.1 ") <= 1
    assert [request.line.split(b" ")[1] for request in environment.upstream.requests] in ([], [b"/"])


async def test_the_second_opinion_agrees_with_everything_ordinary(environment: ProxyEnvironment) -> None:
    ordinary = (
        b"Accept: text/html,application/xhtml+xml,*/*;q=0.8",
        b'Sec-Ch-Ua: "Chromium";v="130", "Not?A_Brand";v="99"',
        b"User-Agent: Mozilla/5.0 (X11; Linux x86_64) \xe2\x9c\x93",
        b"X-Empty:",
        b"X-Tab:\tvalue\t",
        b'If-None-Match: W/"abc"',
    )
    assert (await environment.get(b"/", *ordinary)).status == 200
    received = environment.upstream.requests[0]
    assert received.values(b"x-tab") == [b"value"]
    assert received.values(b"x-empty") == [b""]


BAD_ANSWERS: list[tuple[str, bytes]] = [
    ("not HTTP", b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    (
        "length and chunked",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    ("two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
    ("unknown coding", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc"),
    ("folded line", b"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n"),
    ("bare LF", b"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n"),
    ("NUL", b"HTTP/1.1 200 OK\r\nX-A: \0\r\nContent-Length: 0\r\n\r\n"),
    ("an upgrade nobody asked for", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"),
    ("endless head", b"HTTP/1.1 200 OK\r\n" + b"X-A: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n" * 2500),
    ("malformed chunk", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
]


@pytest.mark.parametrize("response", [row[1] for row in BAD_ANSWERS], ids=[row[0] for row in BAD_ANSWERS])
async def test_a_hostile_upstream_gets_a_502_in_its_place(
    make_environment: MakeEnvironment, response: bytes
) -> None:
    environment = await make_environment(replies(response, ok()))
    client = await environment.client()
    await client.send(environment.request())
    answer = await client.response()
    assert answer.status == 502
    assert b"X-A" not in answer.head
    assert (await environment.get()).status == 200, "the connection it came over is not used again"


async def test_a_refused_method_is_told_others(environment: ProxyEnvironment) -> None:
    client = await environment.client()
    await client.send(environment.request(b"/", method=b"TRACE"))
    assert (await client.response()).values(b"allow") == [b"GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE"]
    client = await environment.client()
    await client.send(b"POST /_codehub/page.js HTTP/1.1\r\nHost: x\r\nOrigin: http://x\r\n\r\n")
    answer = await client.response()
    assert (answer.status, answer.values(b"allow")) == (405, [b"GET, HEAD"])


async def test_over_https_every_answer_of_the_proxys_own_says_so(make_environment: MakeEnvironment) -> None:
    sleeping = {"phase": Phase.ASLEEP, "status": "standby"}
    requests = {
        "waiting page": (b"GET {base}/", b"Accept: text/html", 200),
        "asleep": (b"GET {base}/", b"Accept: */*", 503),
        "not found": (b"GET /w/nothing/", b"Accept: text/html", 404),
        "script": (b"GET /_codehub/page.js", b"Accept: */*", 200),
        "redirect": (b"GET {base}", b"Accept: */*", 308),
        "malformed": (b"GET {base}/", b"Accept : */*", 400),
    }
    for secure in (True, False):
        scheme, cookie = ("https", b"__Host-codehub_session") if secure else ("http", b"codehub_session")
        environment = await make_environment(public_url=f"{scheme}://hub.example", target=sleeping)
        for name, (line, field, status) in requests.items():
            client = await environment.client()
            start = line.replace(b"{base}", environment.base)
            fields = b"Host: hub.example\r\n%b\r\nCookie: %b=%b" % (field, cookie, SESSION.encode())
            await client.send(b"%b HTTP/1.1\r\n%b\r\n\r\n" % (start, fields))
            answer = await client.response()
            assert answer.status == status, name
            said = [b"max-age=31536000"] if secure else []
            assert answer.values(b"strict-transport-security") == said, name
