"""Which documents get the tab's script, where in them, and what their policy says afterwards."""

from collections.abc import Iterator

import pytest

from codehub.proxy.documents.content_policy import extend_policies
from codehub.proxy.documents.insertion import MAX_PIECES, DocumentBody, Insertion, TabScript, wants_script
from codehub.proxy.documents.prologue import MAX_PROLOGUE, find_place
from codehub.proxy.http1.request import parse_request
from codehub.proxy.http1.response import ResponseHead, parse_response

SCRIPT = TabScript(b"/_codehub/tab.js?v=1", b"https")
TAG = SCRIPT.tag(b"")
ADDRESS = b"https://hub.example/_codehub/tab.js"
HERE = b"|"  # where the script goes, in the tables below
NAVIGATION = (b"Sec-Fetch-Dest: document", b"Sec-Fetch-Mode: navigate")


def asked(*lines: bytes, method: bytes = b"GET", version: bytes = b"1.1") -> bool:
    fields = b"\r\n".join((b"Host: hub.example", *lines))
    return wants_script(parse_request(b"%b / HTTP/%b\r\n%b\r\n\r\n" % (method, version, fields)))


@pytest.mark.parametrize(
    ("case", "wanted", "got"),
    [
        ("a person opens it", True, asked(*NAVIGATION)),
        ("a frame", False, asked(b"Sec-Fetch-Dest: iframe", b"Sec-Fetch-Mode: navigate")),
        ("fetch", False, asked(b"Sec-Fetch-Dest: empty", b"Sec-Fetch-Mode: cors", b"Accept: text/html")),
        ("a script", False, asked(b"Sec-Fetch-Dest: script", b"Sec-Fetch-Mode: no-cors")),
        ("a program, an old browser", False, asked(b"Accept: text/html")),
        ("a prefetch", False, asked(*NAVIGATION, b"Sec-Purpose: prefetch")),
        ("a form", False, asked(*NAVIGATION, b"Content-Length: 0", method=b"POST")),
        ("HEAD", False, asked(*NAVIGATION, method=b"HEAD")),
        ("a range", False, asked(*NAVIGATION, b"Range: bytes=0-99")),
        ("HTTP/1.0", False, asked(*NAVIGATION, version=b"1.0")),
    ],
)
def test_only_a_person_who_opens_a_tab_gets_it(case: str, wanted: bool, got: bool) -> None:
    assert got is wanted, case


def begin(head: bytes, method: bytes = b"GET") -> DocumentBody | None:
    response = parse_response(b"HTTP/1.1 " + head.replace(b"\n", b"\r\n") + b"\r\n\r\n")
    return Insertion(SCRIPT, b"hub.example").begin(response, response.body(method, decode=False))


HTML = b"200 OK\nContent-Length: 9\nContent-Type: text/html"


@pytest.mark.parametrize(
    ("inserts", "head"),
    [
        (True, HTML),
        (True, b"200 OK\nTransfer-Encoding: chunked\nContent-Type: TEXT/HTML ;charset=UTF-8"),
        (True, HTML + b"; charset=euc-kr"),
        (True, HTML + b"\nContent-Encoding: identity"),
        (True, HTML + b"\nContent-Disposition: inline"),
        (True, HTML + b"\nCache-Control: no-cache"),
        (True, HTML + b"\nContent-Security-Policy: frame-ancestors 'self'"),
        (False, HTML + b"; charset=utf-16"),
        (False, HTML + b'; charset="utf-7"'),
        (False, HTML + b"\nContent-Encoding: gzip"),
        (False, HTML + b'\nContent-Disposition: attachment; filename="a.html"'),
        (False, HTML + b"\nCache-Control: no-store, no-transform"),
        (False, HTML + b"\nContent-Digest: sha-256=:AA==:"),
        (False, HTML + b"\nContent-Security-Policy: sandbox allow-scripts"),
        (False, b"200 OK\nContent-Type: text/html"),  # ends with the connection
        (False, b"200 OK\nContent-Length: 0\nContent-Type: text/html"),
        (False, b"200 OK\nContent-Length: 9"),
        (False, b"200 OK\nContent-Length: 9\nContent-Type: application/json"),
        (False, b"200 OK\nContent-Length: 9\nContent-Type: application/xhtml+xml"),
        (False, b"200 OK\nContent-Length: 9\nContent-Type: text/html-sandboxed"),
        (False, b"206 Partial Content\nContent-Length: 9\nContent-Type: text/html"),
        (False, b"304 Not Modified\nContent-Type: text/html"),
        (False, b"404 Not Found\nContent-Length: 9\nContent-Type: text/html"),
        (False, b"500 Oops\nContent-Length: 9\nContent-Type: text/html"),
    ],
)
def test_only_whole_html_documents_are_touched(inserts: bool, head: bytes) -> None:
    assert (begin(head) is not None) is inserts


def test_an_answer_to_head_has_no_body_to_touch() -> None:
    assert begin(HTML, method=b"HEAD") is None


PLACES = [
    b"<!doctype html><html><head>|<title>x</title></head><body>",
    b"<!DOCTYPE html>\n<html lang='a>b'>\n<HEAD data-x=\"</head>\">\n|<link>",
    b'<head><meta charset="utf-8">|<title>x</title>',
    b"<head><meta charset=utf-8 />\n <!-- <script> -->|<script>",
    b'<head>|<meta http-equiv="Content-Security-Policy" content="script-src \'none\'; charset=1"><title>',
    b'<head>|<meta name="viewport"><meta charset="utf-8">',
    b"\xef\xbb\xbf<!doctype html><head>|<title>x",
    b"<?xml version='1.0'?><!doctype html><html><head>|<title>x",
    b"<!-- saved --><!doctype html><html>|<body>",
    b"<!--> <head> |-->text",  # "<!-->" is a whole comment
    b"<!doctype html>\n|<header>a</header>",
    b"|<p>no head at all",
    b"|only text",
    b"  \n|&amp; text",
    b"<html>|<\xec\x95\x88",
    b"|</head><title>",
]


@pytest.mark.parametrize("case", PLACES)
def test_it_goes_to_the_start_of_the_head(case: bytes) -> None:
    expected = case.index(HERE)
    content = case.replace(HERE, b"")
    assert find_place(content, is_whole=False) == expected
    for size in range(expected):
        early = find_place(content[:size], is_whole=False)
        assert early in (None, expected), f"decided too early, at {content[:size]!r}"


@pytest.mark.parametrize(
    "content", [b"\xff\xfe<\0h\0", b"\xfe\xff\0<\0h", b"<!-- never closed " + b"x" * MAX_PROLOGUE]
)
def test_some_documents_have_no_place_for_it(content: bytes) -> None:
    assert find_place(content, is_whole=False) == -1


@pytest.mark.parametrize("content", [b"", b"   ", b"<!doctype html>", b"<html", b"<hea", b'<html a="'])
def test_a_document_that_ends_early_stays_as_it_is(content: bytes) -> None:
    assert find_place(content, is_whole=False) is None
    assert find_place(content, is_whole=True) == -1


def pieces_of(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def relayed(document: DocumentBody, pieces: list[bytes]) -> tuple[list[ResponseHead], bytes, bytes]:
    heads: list[ResponseHead] = []

    def write_head(response: ResponseHead) -> bytes:
        heads.append(response)
        return b""

    document.write_head = write_head
    out, behind = b"", b""
    for piece in pieces:
        forward, rest = document.feed(piece) if not document.done else (b"", piece)
        out, behind = out + forward, behind + rest
    return heads, out, behind


def unchunked(data: bytes) -> bytes:
    content = b""
    while True:
        size, _, data = data.partition(b"\r\n")
        if int(size, 16) == 0:
            assert data == b"\r\n"
            return content
        length = int(size, 16)
        content, data = content + data[:length], data[length + 2 :]


PAGE = b"<!doctype html><html><head><title>x</title></head></html>"
CHANGED = PAGE.replace(b"<head>", b"<head>" + TAG)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 1000])
def test_a_body_with_a_length_grows_by_the_tag(size: int) -> None:
    document = begin(
        b'200 OK\nContent-Length: %d\nContent-Type: text/html\nETag: "1"\nAccept-Ranges: bytes' % len(PAGE)
    )
    assert document is not None
    heads, out, behind = relayed(document, list(pieces_of(PAGE + b"next", size)))
    assert (out, behind, document.done) == (CHANGED, b"next", True)
    assert [head.length for head in heads] == [len(CHANGED)]
    assert heads[0].kept == [b"Content-Type: text/html", b'ETag: W/"1"']


@pytest.mark.parametrize("chunk", [1, 5, 1000])
@pytest.mark.parametrize("size", [2, 9, 1000])
def test_chunks_may_end_anywhere(chunk: int, size: int) -> None:
    document = begin(b"200 OK\nTransfer-Encoding: chunked\nContent-Type: text/html")
    assert document is not None
    sent = b"".join(b"%x;a=b\r\n%b\r\n" % (len(part), part) for part in pieces_of(PAGE, chunk))
    sent += b"0\r\nX-Trailer: 1\r\n\r\nnext"
    size = max(size, len(sent) // MAX_PIECES + 1)
    _, out, behind = relayed(document, list(pieces_of(sent, size)))
    assert (unchunked(out), behind, document.done) == (CHANGED, b"next", True)


def test_a_document_without_a_place_passes_as_it_came() -> None:
    content = b"<!-- " + b"x" * MAX_PROLOGUE + b" --><head>"
    document = begin(b'200 OK\nContent-Length: %d\nContent-Type: text/html\nETag: "1"' % len(content))
    assert document is not None
    heads, out, _ = relayed(document, [content[:100], content[100:]])
    assert out == content
    assert heads[0].length == len(content)
    assert b'ETag: "1"' in heads[0].kept


def test_a_prologue_in_countless_pieces_is_not_searched_for_ever() -> None:
    content = b"<!--" + b"x" * 100 + b"--><head>"
    document = begin(b"200 OK\nContent-Length: %d\nContent-Type: text/html" % len(content))
    assert document is not None
    _, out, _ = relayed(document, [bytes([byte]) for byte in content])
    assert out == content


@pytest.mark.parametrize(
    ("policy", "extended"),
    [
        (b"frame-ancestors 'self'", b"frame-ancestors 'self'"),
        (b"script-src 'self' 'unsafe-inline'", b"script-src 'self' 'unsafe-inline'"),
        (b"default-src https:", b"default-src https:"),
        (b"script-src *; connect-src 'self'", b"script-src *; connect-src 'self'"),
        (b"script-src 'nonce-a'", b"script-src 'nonce-a'; script-src-elem 'nonce-a' " + ADDRESS),
        (
            b"default-src 'self'; script-src cdn.example 'unsafe-inline';",
            b"default-src 'self'; script-src cdn.example 'unsafe-inline'; "
            b"script-src-elem cdn.example 'unsafe-inline' " + ADDRESS,
        ),
        (
            b"script-src 'none'; Script-Src-Elem 'sha256-x'; img-src *",
            b"script-src 'none'; script-src-elem 'sha256-x' " + ADDRESS + b"; img-src *",
        ),
        (
            b"script-src 'strict-dynamic' 'nonce-a' 'self'",
            b"script-src 'strict-dynamic' 'nonce-a' 'self'; "
            b"script-src-elem 'strict-dynamic' 'nonce-a' 'self' 'nonce-OURS'",
        ),
        (
            b"img-src *, script-src 'nonce-a'",
            b"img-src *, script-src 'nonce-a'; script-src-elem 'nonce-a' " + ADDRESS,
        ),
        (b"sandbox allow-scripts allow-same-origin", b"sandbox allow-scripts allow-same-origin"),
        (b"script-src 'none'", None),
        (b"script-src", None),
        (b"default-src 'none'", None),
        (b"script-src 'self'; connect-src 'none'", None),
        (b"script-src 'self'; connect-src api.example", None),
        (b"script-src 'self', script-src 'none'", None),
        (b"sandbox allow-scripts", None),
        (b"sandbox", None),
        (b"default-src http:", None),
    ],
)
def test_a_policy_is_extended_by_this_script_alone_or_respected(
    policy: bytes, extended: bytes | None
) -> None:
    found = extend_policies(policy, script=ADDRESS, scheme=b"https", nonce=b"OURS")
    assert (found[0] if found else None) == extended
    if found is not None:
        assert found[1] is (b"nonce-OURS" in found[0]), "the tag has the nonce where the policy asks for it"


def test_every_document_has_a_nonce_of_its_own() -> None:
    head = HTML + b"\nContent-Security-Policy: script-src 'strict-dynamic' 'nonce-a'"
    tags = set()
    for _ in range(2):
        document = begin(head)
        assert document is not None
        heads, out, _ = relayed(document, [b"<head>abc"])
        policy = next(line for line in heads[0].kept if line.startswith(b"Content-Security-Policy:"))
        nonce = out.partition(b'nonce="')[2].partition(b'"')[0]
        assert nonce
        assert b"'nonce-%b'" % nonce in policy
        tags.add(nonce)
    assert len(tags) == 2
