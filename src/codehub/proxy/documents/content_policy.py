"""Decide whether a document's Content-Security-Policy admits the tab's script.

Pure. All policies of a response apply at once, so each has to admit the script. A policy that names where scripts
may come from is extended by exactly one source: the script's own address, or a nonce under ``'strict-dynamic'``,
which ignores addresses. One that forbids scripts, sandboxes the page or closes its own origin to ``fetch`` is left
alone, and the document gets no script.
"""

from typing import Final

_Directives = dict[bytes, list[bytes]]

_SCRIPT_ELEMENTS: Final = (b"script-src-elem", b"script-src", b"default-src")  # the first present counts
_CONNECTIONS: Final = (b"connect-src", b"default-src")
_SANDBOX_NEEDS: Final = frozenset({b"allow-scripts", b"allow-same-origin"})


def extend_policies(value: bytes, *, script: bytes, scheme: bytes, nonce: bytes) -> tuple[bytes, bool] | None:
    """Return the field's value with ``script`` admitted, and whether the script needs ``nonce``.

    ``value`` may hold several policies, separated by commas. None: the document must stay as it is.
    """
    extended: list[bytes] = []
    needs_nonce = False
    for policy in value.split(b","):
        if not policy.strip():
            continue
        found = _extend(policy, script=script, scheme=scheme, nonce=nonce)
        if found is None:
            return None
        extended.append(found[0])
        needs_nonce = needs_nonce or found[1]
    return b", ".join(extended), needs_nonce


def _extend(policy: bytes, *, script: bytes, scheme: bytes, nonce: bytes) -> tuple[bytes, bool] | None:
    directives = _parse(policy)
    sandbox = directives.get(b"sandbox")
    if sandbox is not None and not _SANDBOX_NEEDS.issubset(word.lower() for word in sandbox):
        return None
    if not _admits_own_origin(_effective(directives, _CONNECTIONS), scheme):
        return None  # the script could not ask how the workspace is
    sources = _effective(directives, _SCRIPT_ELEMENTS)
    if sources is None:
        return policy.strip(), False
    words = [word.lower() for word in sources]
    if not words or words == [b"'none'"]:
        return None
    if b"'strict-dynamic'" in words:
        return _with_source(policy, directives, sources, b"'nonce-%b'" % nonce), True
    if _admits_own_origin(sources, scheme):
        return policy.strip(), False
    return _with_source(policy, directives, sources, script), False


def _parse(policy: bytes) -> _Directives:
    """Read directives. Of two with one name the first counts, as in browsers."""
    directives: _Directives = {}
    for part in policy.split(b";"):
        name, *words = part.split() or [b""]
        if name:
            directives.setdefault(name.lower(), words)
    return directives


def _effective(directives: _Directives, names: tuple[bytes, ...]) -> list[bytes] | None:
    return next((directives[name] for name in names if name in directives), None)


def _admits_own_origin(sources: list[bytes] | None, scheme: bytes) -> bool:
    if sources is None:
        return True
    words = {word.lower() for word in sources}
    return not words.isdisjoint({b"'self'", b"*", scheme + b":"})


def _with_source(policy: bytes, directives: _Directives, sources: list[bytes], source: bytes) -> bytes:
    """Add ``source`` for script elements alone.

    ``script-src-elem`` repeats the list that applied to them so far: handlers in attributes, workers and ``eval``
    are judged by the other directives, as before.
    """
    added = b"script-src-elem %b %b" % (b" ".join(sources), source)
    if b"script-src-elem" not in directives:
        return b"%b; %b" % (policy.strip().rstrip(b"; "), added)
    parts = [part.strip() for part in policy.split(b";") if part.strip()]
    return b"; ".join(added if part.split()[0].lower() == b"script-src-elem" else part for part in parts)
