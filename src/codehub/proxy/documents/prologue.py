"""Find where a script goes into an HTML document: at the start of its head.

Pure, on bytes in any encoding that extends ASCII. What may stand before the head's content is skipped (byte order
mark, comments, doctype, ``<html>``, ``<head>``, a declaration of the charset); everything else is content, and the
script goes right before it. Browsers put a script that stands there into the head, whether or not the tags are
written out. The charset stays in front: browsers look for it in the first 1024 bytes only.
"""

import re
from typing import Final

MAX_PROLOGUE: Final = 16 * 1024  # bytes held back at most; a longer prologue gets no script

_UTF8_BOM: Final = b"\xef\xbb\xbf"
_OTHER_BOMS: Final = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")  # UTF-16 and UTF-32: not ASCII
_SPACE: Final = b" \t\r\n\f"
# A tag with its attributes: quoted values may contain ">".
_ATTRIBUTES: Final = rb"""(?:[\s/](?:[^>"']|"[^"]*+"|'[^']*+')*+)?>"""
_SKIPPED: Final = (
    re.compile(rb"<!--(?:>|->|.*?(?:-->|--!>))", re.DOTALL),
    re.compile(rb"<[!?](?!--)[^>]*+>"),  # doctype; <?xml …?>, which HTML reads as a comment
    re.compile(rb"<(?:html|head)" + _ATTRIBUTES, re.IGNORECASE | re.DOTALL),
)
_META: Final = re.compile(rb"<meta" + _ATTRIBUTES, re.IGNORECASE | re.DOTALL)
_CHARSET: Final = re.compile(rb"[\s/]charset\s*=", re.IGNORECASE)
_UNFINISHED: Final = re.compile(rb"<(?:[!?]|(?:html|head|meta)[\s/>])", re.IGNORECASE)
_BEGINNINGS: Final = (b"<!", b"<html>", b"<head>", b"<meta>")


def find_place(content: bytes, *, is_whole: bool) -> int | None:
    """Return the offset for the script; -1: none fits; None: more bytes are needed.

    ``is_whole``: nothing follows.
    """
    if content.startswith(_OTHER_BOMS):
        return -1
    if not is_whole and any(mark.startswith(content) for mark in (_UTF8_BOM, *_OTHER_BOMS)):
        return None
    at = len(_UTF8_BOM) if content.startswith(_UTF8_BOM) else 0
    while True:
        while at < len(content) and content[at] in _SPACE:
            at += 1
        end = _end_of_skipped(content, at)
        if end is None:
            break
        at = end
    if at < len(content) and not _may_continue(content[at:]):
        return at
    if is_whole or len(content) >= MAX_PROLOGUE:
        return -1
    return None


def _end_of_skipped(content: bytes, at: int) -> int | None:
    for pattern in _SKIPPED:
        match = pattern.match(content, at)
        if match is not None:
            return match.end()
    meta = _META.match(content, at)
    # A meta that stands for a header field may be a policy for everything behind it: the script goes before it.
    if meta is not None and _CHARSET.search(meta[0]) and b"http-equiv" not in meta[0].lower():
        return meta.end()
    return None


def _may_continue(rest: bytes) -> bool:
    """Whether ``rest`` may be the beginning of something that is skipped."""
    if _META.match(rest) is not None:
        return False
    if _UNFINISHED.match(rest) is not None:
        return True
    lowered = rest.lower()
    return any(len(lowered) < len(word) and word.startswith(lowered) for word in _BEGINNINGS)
