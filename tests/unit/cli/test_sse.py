"""Events out of bytes, however the network cut them."""

import pytest

from codehub.cli.sse import Event, parse_events

STREAM = (
    'retry: 2000\n\n: a comment\n\nevent: state_changed\nid: a:1\ndata: {"memo": "a\u2028b\x85c"}\n\n'
    "event: two\r\ndata: first\r\ndata:second\r\n\r\nevent: cr\rdata: x\r\rdata: named by nobody\n\n"
    "event: without data\n\nevent: cut\ndata: off"
).encode()
EVENTS = [
    Event("state_changed", '{"memo": "a\u2028b\x85c"}', "a:1"),
    Event("two", "first\nsecond"),
    Event("cr", "x"),
    Event("message", "named by nobody"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(STREAM)])
def test_events_do_not_depend_on_where_the_bytes_were_cut(size: int) -> None:
    pieces = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    assert list(parse_events(pieces)) == EVENTS
