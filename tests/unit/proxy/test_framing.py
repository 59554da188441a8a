"""Where bodies end, however the bytes are cut into reads."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.proxy.http1.framing import Body, ChunkedBody, FramingError, LengthBody

FIELD_NAMES = st.sampled_from([b"X-Sum", b"ETag", b"Server-Timing"])


def feed_in_pieces(body: Body, data: bytes, cuts: list[int]) -> tuple[bytes, bytes]:
    """Feed ``data`` cut at the given places; gives what was forwarded and what was left over."""
    out, rest = b"", b""
    edges = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    for start, end in itertools.pairwise(edges):
        if body.done:
            rest += data[start:end]
            continue
        forward, left = body.feed(data[start:end])
        out += forward
        rest += left
    return out, rest


@st.composite
def chunked_messages(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A chunked body and its content."""
    chunks = draw(st.lists(st.binary(min_size=1, max_size=300), max_size=6))
    extension = draw(st.sampled_from([b"", b";a=b", b' ; q="x y"']))
    trailers = b"".join(b"%b: v\r\n" % name for name in draw(st.lists(FIELD_NAMES, max_size=3)))
    encoded = b"".join(b"%x%b\r\n%b\r\n" % (len(chunk), extension, chunk) for chunk in chunks)
    return encoded + b"0\r\n" + trailers + b"\r\n", b"".join(chunks)


@given(chunked_messages(), st.lists(st.integers(0, 5000)), st.binary(max_size=50))
def test_chunked_bodies_pass_unchanged_and_end_exactly(
    message: tuple[bytes, bytes], cuts: list[int], behind: bytes
) -> None:
    encoded, content = message
    body = ChunkedBody()
    assert feed_in_pieces(body, encoded + behind, cuts) == (encoded, behind)
    assert body.done
    decoding = ChunkedBody(decode=True)
    assert feed_in_pieces(decoding, encoded + behind, cuts) == (content, behind)


@given(chunked_messages(), st.integers(0, 5000))
def test_a_truncated_chunked_body_is_never_done(message: tuple[bytes, bytes], cut: int) -> None:
    encoded, _ = message
    body = ChunkedBody()
    short = encoded[: cut % len(encoded)]
    if short:
        body.feed(short)
    assert not body.done


@given(st.binary(max_size=200), st.integers(0, 200), st.lists(st.integers(0, 200)))
def test_counted_bodies(data: bytes, length: int, cuts: list[int]) -> None:
    body = LengthBody(length)
    assert feed_in_pieces(body, data, cuts) == (data[:length], data[length:])
    assert body.done is (len(data) >= length)


@given(st.binary(max_size=400))
def test_garbage_is_refused_or_awaited_never_misread(data: bytes) -> None:
    body = ChunkedBody()
    try:
        forward, rest = body.feed(data)
    except FramingError:
        return
    assert data.startswith(forward)
    assert not body.done or data == forward + rest


@pytest.mark.parametrize("line", [b"\n", b"3\n", b"g\r\n", b"+3\r\n", b"3 3\r\n", b"\r\n", b"3;\x00\r\n"])
def test_bad_chunk_lines(line: bytes) -> None:
    with pytest.raises(FramingError):
        ChunkedBody().feed(line)
