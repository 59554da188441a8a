"""Match HTTP/1.1 heads strictly against the grammar of RFC 9110 and RFC 9112.

Request smuggling needs two parsers that read the same bytes differently, so everything outside the grammar is
refused: bare CR or LF, folded lines, a space before the colon, control characters, NUL. A head that matches
has one reading. The expressions use possessive quantifiers: no backtracking, time linear in the size of the
head.
"""

import re
from typing import Final

_TCHAR: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_FIELD: Final = _TCHAR + rb"++:[\t\x20-\x7e\x80-\xff]*+\r\n"

REQUEST_LINE: Final = re.compile(rb"([A-Z\-]{1,32}+) ([\x21\x22\x24-\x7e]++) HTTP/1\.([01])")
STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*+)?+")
FIELD_LINE: Final = re.compile(rb"(" + _TCHAR + rb"++):[ \t]*+([\t\x20-\x7e\x80-\xff]*+)")
FIELD_BLOCK: Final = re.compile(rb"(?:" + _FIELD + rb")*+\r\n")
CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15}+)(?:[ \t]*+;[\t\x20-\x7e\x80-\xff]*+)?+\r\n")
HOST: Final = re.compile(rb"(?:[A-Za-z0-9._\-]{1,253}+|\[[0-9A-Fa-f:.]{2,45}+\])(?::[0-9]{1,5})?+")
ABSOLUTE: Final = re.compile(rb"https?+://([^/?#@]++)(/[^#]*+|\?[^#]*+)?+", re.IGNORECASE)
LENGTH: Final = re.compile(rb"[0-9]{1,18}")

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-authentication-info",
        b"proxy-connection",
        b"te",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    }
)

NEVER_IN_TRAILERS: Final = HOP_BY_HOP | {
    b"content-length",
    b"content-encoding",
    b"content-type",
    b"content-range",
    b"host",
    b"cookie",
    b"set-cookie",
    b"authorization",
    b"trailer",
    b"location",
    b"cache-control",
    b"expect",
    b"forwarded",
}
"""Fields for framing, routing, authentication or caching: in trailers they are an attack."""

CLOSE: Final = b"close"


def tokens(value: bytes) -> list[bytes]:
    """Split a comma-separated list: lower case, without empty members."""
    return [token for part in value.lower().split(b",") if (token := part.strip(b" \t"))]


def is_forbidden_trailer(name: bytes) -> bool:
    """Whether a message with this field in its trailers is refused.

    ``name`` is lower case.
    """
    return name in NEVER_IN_TRAILERS or name.startswith((b"x-forwarded-", b"x-codehub-"))
