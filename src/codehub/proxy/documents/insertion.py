"""Insert the tab's script into a document on its way to the browser.

Only what a person opens in a tab of its own is touched: a navigation (``wants_script``) that the IDE's own port
answers with an HTML document (``begin``). Everything else passes byte for byte. Nothing is buffered but the
document's prologue (``prologue.MAX_PROLOGUE``): the head is held back with it, because its length depends on
whether the script finds a place.
"""

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from codehub.proxy.documents.content_policy import extend_policies
from codehub.proxy.documents.prologue import find_place
from codehub.proxy.http1.framing import Body, ChunkedBody, UntilClose
from codehub.proxy.http1.request import RequestHead
from codehub.proxy.http1.response import ResponseHead

# Encodings in which ASCII bytes mean ASCII: the tag is readable in all of them.
_CHARSETS: Final = re.compile(
    rb"(?:utf-?8|us-ascii|ascii|latin1|iso-8859-\d+|windows-\d+|euc-(?:kr|jp)|ks_c_5601-1987|shift_jis|gbk|gb18030|big5)",
    re.IGNORECASE,
)
MAX_PIECES: Final = 64  # in which a prologue may arrive: each is searched anew
_CHARSET: Final = re.compile(rb";\s*charset\s*=\s*\"?([^\s;\"]*)", re.IGNORECASE)
# The sender vouches for these bytes: do not change them.
_DIGESTS: Final = frozenset({b"content-digest", b"repr-digest", b"digest", b"content-md5"})


@dataclass(frozen=True, slots=True)
class TabScript:
    """The script's path, and the origin's scheme."""

    path: bytes
    scheme: bytes

    def tag(self, nonce: bytes) -> bytes:
        extra = b' nonce="%b"' % nonce if nonce else b""
        return b'<script src="%b"%b async></script>' % (self.path, extra)


def wants_script(request: RequestHead) -> bool:
    """Whether a browser loads a whole tab, so that an HTML answer gets the script.

    Asks for what browsers say and pages cannot forge; who does not say it gets the document as it is.
    """
    fields = request.fields
    return (
        fields.get(b"sec-fetch-dest") == b"document"
        and fields.get(b"sec-fetch-mode") == b"navigate"
        and request.method == b"GET"
        and request.minor
        and not request.has_body
        and not request.is_speculative
        and not any(line[:6].lower() == b"range:" for line in request.block.kept)
    )


class Insertion:
    """What is inserted into the answer to one request."""

    __slots__ = ("_host", "_script")

    def __init__(self, script: TabScript, host: bytes) -> None:
        self._script = script
        self._host = host

    def begin(self, response: ResponseHead, body: Body) -> "DocumentBody | None":
        """Return the body that inserts the script; None: the response passes as it is."""
        if response.status != 200 or isinstance(body, UntilClose) or body.done:
            return None
        if not _is_document(response):
            return None
        policies, nonce = _policies(response), b""
        if policies:
            nonce = secrets.token_urlsafe(16).encode()
            address = b"%b://%b%b" % (self._script.scheme, self._host, self._script.path.partition(b"?")[0])
            extended = extend_policies(
                b", ".join(policies), script=address, scheme=self._script.scheme, nonce=nonce
            )
            if extended is None:
                return None
            policies, nonce = [extended[0]], nonce if extended[1] else b""
        return DocumentBody(response, body, tag=self._script.tag(nonce), policies=policies)


HeadWriter = Callable[[ResponseHead], bytes]


class DocumentBody:
    """A body with the script inserted.

    Forwards the response's head with the first bytes: ``feed`` returns both once the place is known.
    """

    __slots__ = ("_body", "_chunked", "_held", "_pieces", "_policies", "_response", "_tag", "write_head")

    def __init__(self, response: ResponseHead, body: Body, *, tag: bytes, policies: list[bytes]) -> None:
        self._response = response
        self._chunked = isinstance(body, ChunkedBody)
        self._body = ChunkedBody(decode=True) if self._chunked else body
        self._tag = tag
        self._policies = policies
        self._held = b""
        self._pieces = 0
        self.write_head: HeadWriter | None = None  # None once it is written

    @property
    def done(self) -> bool:
        return self._body.done

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Take bytes of the upstream; return what to forward, and what lies behind the end."""
        content, rest = self._body.feed(data)
        done = self._body.done
        if self.write_head is None:
            return self._frame(content, done=done), rest
        self._held += content
        self._pieces += 1
        place = find_place(self._held, is_whole=done or self._pieces >= MAX_PIECES)
        if place is None:
            return b"", rest
        held, self._held = self._held, b""
        response = self._response
        if place >= 0:
            held = held[:place] + self._tag + held[place:]
            response = _revised(response, longer_by=len(self._tag), policies=self._policies)
        head, self.write_head = self.write_head(response), None
        return head + self._frame(held, done=done), rest

    def _frame(self, content: bytes, *, done: bool) -> bytes:
        if not self._chunked:
            return content
        chunk = b"%x\r\n%b\r\n" % (len(content), content) if content else b""
        return chunk + b"0\r\n\r\n" if done else chunk


def _is_document(response: ResponseHead) -> bool:
    media_type, _, parameters = response.fields.get(b"content-type", b"").partition(b";")
    if media_type.strip().lower() != b"text/html":
        return False
    charset = _CHARSET.search(b";" + parameters)
    if charset is not None and _CHARSETS.fullmatch(charset[1]) is None:
        return False
    for line in response.kept:
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip().lower()
        if name in _DIGESTS or (name == b"content-encoding" and value not in (b"", b"identity")):
            return False
        if name == b"content-disposition" and not value.startswith(b"inline"):
            return False  # a download
        if name == b"cache-control" and b"no-transform" in value:
            return False  # the image's own word: nobody on the way may change it
    return True


def _policies(response: ResponseHead) -> list[bytes]:
    pairs = (line.partition(b":") for line in response.kept)
    return [value.strip() for name, _, value in pairs if name.lower() == b"content-security-policy"]


def _revised(response: ResponseHead, *, longer_by: int, policies: list[bytes]) -> ResponseHead:
    """Copy a head for a document that got the script. Heads are shared, so the original stays as it is."""
    head = ResponseHead(response.start, response.minor, response.status)
    head.fields, head.restricted = response.fields, response.restricted
    head.length = None if response.length is None else response.length + longer_by
    for line in response.kept:
        name, _, value = line.partition(b":")
        match name.lower():
            case b"content-security-policy" | b"accept-ranges":
                pass  # written below; ranges of the original would not fit
            case b"etag" if value.strip().startswith(b'"'):
                head.kept.append(b"ETag: W/" + value.strip())  # no longer byte for byte
            case _:
                head.kept.append(line)
    head.kept.extend(b"Content-Security-Policy: " + policy for policy in policies)
    return head
