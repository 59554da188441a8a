"""A pass lets nothing through that a full reading would not have sent to the same place in the same words."""

from typing import cast
from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st

from codehub.proxy.access.admission_cache import CachedAdmission
from codehub.proxy.client_connection import ClientConnection
from codehub.proxy.http1.request import InvalidRequest, RequestHead, parse_request
from codehub.proxy.routing import Route, Router
from codehub.proxy.settings import ProxySettings, TcpAddress, UnixAddress
from codehub.proxy.upstream.destinations import Destination
from codehub.proxy.upstream.headers import HeaderPolicy
from codehub.proxy.upstream.pool import IdleConnections

WORKSPACE = UUID("0123abcd-0000-4000-8000-0123456789ab")
PREFIX = f"/w/{WORKSPACE}".encode()
BLOCK = b"Host: hub.example\r\nCookie: codehub_session=s\r\nAccept: */*\r\n\r\n"
REST = b"Host: hub.example\r\nAccept: */*\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n"
LONGEST = 32 * 1024
ROUTER = Router(ProxySettings(api=UnixAddress("/nowhere"), internal_secret=b""))
CLIENT = cast(ClientConnection, None)  # an exchange that is never started asks nothing of it


def pass_for(path: bytes, *, strips: bool) -> CachedAdmission:
    request, route = read(b"GET %b%b HTTP/1.1\r\n%b" % (PREFIX, path, BLOCK))
    policy = HeaderPolicy(to_workspace=True, prefix=route.prefix, strips=strips)
    to = Destination(IdleConnections(), TcpAddress("127.0.0.1", 1), policy, port=route.port)
    assert CachedAdmission.may_be_kept(request, route, scheme=b"http")
    return CachedAdmission(request, route, to, rest=REST, until=1.0, generation=0, longest=LONGEST)


def read(head: bytes) -> tuple[RequestHead, Route]:
    request = parse_request(head)
    return request, ROUTER.match(request.host, request.target)


METHODS = [b"GET", b"HEAD", b"OPTIONS", b"POST", b"get", b"CONNECT"]
PLACES = [PREFIX, PREFIX[:-1] + b"0", b"/w/", b"/port/", b"/port/8080", b"/port/80800", b"http://hub.example"]
MARKS = [b"/", b"//", b"?", b"#", b"/../", b"%2f", b"a", b" ", b"\t", b"\r", b"\n", b"\0", b"\xff", b":"]
ENDS = [
    b"\r\n",
    b"\r\n\r\n",
    b"X: y",
    b" HTTP/1.1",
    b" HTTP/1.0",
    b" HTTP/1.1\r\n",
    b" HTTP/1.1\r\n" + BLOCK,
    BLOCK,
]
PIECES = st.sampled_from([*METHODS, *PLACES, *MARKS, *ENDS])
HEADS = st.builds(
    lambda method, place, more, version, block: method + b" " + place + b"".join(more) + version + block,
    st.sampled_from([b"GET", b"HEAD", b"OPTIONS", b"POST", b"GET "]),
    st.sampled_from([PREFIX + b"/", PREFIX, PREFIX + b"/port/8080/", PREFIX + b"/port/8080", b"/"]),
    st.lists(PIECES, max_size=4),
    st.sampled_from([b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", b"  HTTP/1.1\r\n"]),
    st.sampled_from([BLOCK, BLOCK, BLOCK, BLOCK[:-2], BLOCK + b"\r\n", b"X: y\r\n" + BLOCK, BLOCK + BLOCK]),
)


@given(
    HEADS | st.lists(PIECES, max_size=8).map(b"".join), st.sampled_from([b"/", b"/port/8080/"]), st.booleans()
)
@example(b"GET %b/port/8080/x HTTP/1.1\r\n%b" % (PREFIX, BLOCK), b"/", True)
@example(b"GET %b/port/8080 HTTP/1.1\r\n%b" % (PREFIX, BLOCK), b"/port/8080/", True)
def test_whatever_it_lets_through_would_have_gone_the_same_way(
    head: bytes, path: bytes, strips: bool
) -> None:
    known = pass_for(path, strips=strips)
    exchange = known.exchange_for(head, CLIENT)
    if exchange is None:
        return
    assert head.find(b"\r\n\r\n") == len(head) - 4  # one head, all of it
    request, route = read(head)
    first = read(b"GET %b%b HTTP/1.1\r\n%b" % (PREFIX, path, BLOCK))[1]
    assert (route.workspace_id, route.port, route.prefix) == (WORKSPACE, first.port, first.prefix)
    assert CachedAdmission.may_be_kept(request, route, scheme=b"http")
    assert request.is_replayable
    assert request.minor
    assert not request.wants_close
    line = b"%b %b HTTP/1.1\r\n" % (request.method, known.destination.path(route))
    assert exchange.head == line + REST
    mine = exchange.request
    assert (mine.method, mine.target, mine.host) == (request.method, request.target, request.host)


@given(st.text(alphabet="abc/?&=.%0123456789-~", max_size=40), st.booleans())
def test_ordinary_paths_are_let_through(path: str, strips: bool) -> None:
    """Or the test above would hold of a pass that refuses everything."""
    head = b"GET %b/x%b HTTP/1.1\r\n%b" % (PREFIX, path.encode(), BLOCK)
    assert pass_for(b"/", strips=strips).exchange_for(head, CLIENT) is not None


@given(st.binary(max_size=200))
def test_what_it_lets_through_is_never_malformed(line: bytes) -> None:
    head = b"GET %b/%b HTTP/1.1\r\n%b" % (PREFIX, line, BLOCK)
    try:
        parse_request(head[: head.find(b"\r\n\r\n") + 4])
        malformed = False
    except InvalidRequest:
        malformed = True
    if malformed:
        assert pass_for(b"/", strips=True).exchange_for(head, CLIENT) is None


def test_a_head_that_is_too_long_is_left_to_the_full_reading() -> None:
    whole = len(b"GET %b/ HTTP/1.1\r\n%b" % (PREFIX, BLOCK))
    for size, fits in ((LONGEST, True), (LONGEST + 1, False)):
        head = b"GET %b/%b HTTP/1.1\r\n%b" % (PREFIX, b"a" * (size - whole), BLOCK)
        assert len(head) == size
        assert (pass_for(b"/", strips=True).exchange_for(head, CLIENT) is not None) is fits
