"""Reading heads: what is set aside, what passes, what counts as a person."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.proxy.http1.request import InvalidRequest, RequestHead, parse_request
from codehub.proxy.http1.response import BadResponse, parse_response


def parse(*lines: bytes, start: bytes = b"GET /x HTTP/1.1", host: bytes = b"Host: h\r\n") -> RequestHead:
    fields = b"".join(line + b"\r\n" for line in lines)
    return parse_request(start + b"\r\n" + host + fields + b"\r\n")


@pytest.mark.parametrize(
    ("lines", "start", "person"),
    [
        ((b"Sec-Fetch-Mode: navigate",), b"GET / HTTP/1.1", True),
        ((b"Sec-Fetch-Mode: navigate",), b"POST / HTTP/1.1", True),
        ((b"Sec-Fetch-Mode: navigate", b"Sec-Purpose: prefetch"), b"GET / HTTP/1.1", False),
        ((b"Sec-Fetch-Mode: navigate", b"Purpose: prefetch"), b"GET / HTTP/1.1", False),
        ((b"Sec-Fetch-Mode: cors", b"Accept: text/html"), b"GET / HTTP/1.1", False),
        ((b"Sec-Fetch-Mode: no-cors",), b"GET / HTTP/1.1", False),
        ((b"Accept: text/html",), b"GET / HTTP/1.1", True),
        ((b"Accept: application/xml, Text/HTML;q=0.9",), b"GET / HTTP/1.0", True),
        ((b"Accept: text/html",), b"HEAD / HTTP/1.1", False),
        ((b"Accept: text/html",), b"POST / HTTP/1.1", False),
        ((b"Accept: */*",), b"GET / HTTP/1.1", False),
        ((), b"GET / HTTP/1.1", False),
    ],
)
def test_who_counts_as_a_person_navigating(lines: tuple[bytes, ...], start: bytes, person: bool) -> None:
    assert parse(*lines, start=start).is_navigation is person


@pytest.mark.parametrize(
    ("lines", "start", "websocket"),
    [
        ((b"Connection: Upgrade", b"Upgrade: websocket"), b"GET / HTTP/1.1", True),
        ((b"Connection: keep-alive, upgrade", b"Upgrade: WebSocket"), b"GET / HTTP/1.1", True),
        ((b"Connection: keep-alive", b"Upgrade: websocket"), b"GET / HTTP/1.1", False),
        ((b"Connection: Upgrade", b"Upgrade: h2c"), b"GET / HTTP/1.1", False),
        ((b"Connection: Upgrade", b"Upgrade: websocket"), b"GET / HTTP/1.0", False),
        ((b"Connection: Upgrade", b"Upgrade: websocket"), b"POST / HTTP/1.1", False),
        ((b"Connection: Upgrade", b"Upgrade: websocket", b"Content-Length: 3"), b"GET / HTTP/1.1", False),
    ],
)
def test_what_counts_as_a_websocket(lines: tuple[bytes, ...], start: bytes, websocket: bool) -> None:
    assert parse(*lines, start=start).websocket is websocket


def test_an_absolute_target_that_agrees_with_host_is_a_path() -> None:
    assert parse(start=b"GET http://H/a?b HTTP/1.1").target == b"/a?b"
    assert parse(start=b"GET http://h HTTP/1.1").target == b"/"
    assert parse(start=b"GET http://h?x HTTP/1.1").target == b"/?x"


def test_a_block_is_judged_with_its_request_line() -> None:
    block = b"Host: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert parse_request(b"POST / HTTP/1.1\r\n" + block).has_body
    with pytest.raises(InvalidRequest):
        parse_request(b"POST / HTTP/1.0\r\n" + block)
    with pytest.raises(InvalidRequest):
        parse_request(b"CONNECT h:1 HTTP/1.1\r\n" + block)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_or_refused(raw: bytes) -> None:
    try:
        request = parse_request(raw + b"\r\n\r\n")
    except InvalidRequest:
        return
    assert request.target[:1] in (b"/", b"*")


@given(st.binary(max_size=300))
def test_any_bytes_are_a_response_or_refused(raw: bytes) -> None:
    try:
        response = parse_response(b"HTTP/1.1 200 OK\r\n" + raw + b"\r\n\r\n")
    except BadResponse:
        return
    assert all(b"\r" not in line and b"\n" not in line and b"\0" not in line for line in response.kept)


def test_fields_named_in_connection_end_here_in_responses_too() -> None:
    response = parse_response(b"HTTP/1.1 200 OK\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nX-Kept: 2\r\n\r\n")
    assert response.kept == [b"X-Kept: 2"]
    assert response.upstream_closes
