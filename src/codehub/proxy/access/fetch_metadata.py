"""Where a browser's request comes from, and whether a person is behind it. Pure.

A browser sends a workspace's cookie with every request to its host, also with those that a page of somebody
else made it send. ``SameSite`` does not help between workspaces: ``{v}.base`` and ``{w}.base`` are one site.
So each request that is known by its cookie is judged by what browsers say and pages cannot forge:
``Sec-Fetch-Site``, and ``Origin`` where that is missing (browsers from before 2023, plain HTTP).

What neither field tells is let in if it changes nothing: a GET of an old browser, a program. See
``docs/understand/proxy.md`` for what that leaves open there.
"""

from typing import Final

from codehub.proxy.http1.request import RequestHead

_OWN_SITES: Final = frozenset({b"same-origin", b"none"})
_SAFE_METHODS: Final = frozenset({b"GET", b"HEAD", b"OPTIONS"})
_TOP_LEVEL: Final = frozenset({None, b"document"})  # None: Chrome 76 to 79, which told frames by the mode


def may_enter(request: RequestHead, scheme: bytes) -> bool:
    """From a page of the very origin that is asked, or an ordinary link of any other."""
    return is_from_own_page(request, scheme) or is_link_from_elsewhere(request)


def is_from_own_page(request: RequestHead, scheme: bytes) -> bool:
    """Also what no page asked for: a typed address, a bookmark (``none``)."""
    fields = request.fields
    site, origin = fields.get(b"sec-fetch-site"), fields.get(b"origin")
    if site is None:
        return names_own_origin(request, scheme) if origin is not None else request.method in _SAFE_METHODS
    # ``null``: the page keeps its address to itself (Referrer-Policy: no-referrer).
    return site in _OWN_SITES and (origin in (None, b"null") or names_own_origin(request, scheme))


def is_link_from_elsewhere(request: RequestHead) -> bool:
    """A whole tab that was led here: what mail, chat, the dashboard and the sign-in do."""
    fields = request.fields
    return (
        b"sec-fetch-site" in fields
        and request.method == b"GET"
        and fields.get(b"sec-fetch-mode") == b"navigate"
        and fields.get(b"sec-fetch-dest") in _TOP_LEVEL
        and not request.websocket
        and not request.is_speculative
    )


def names_own_origin(request: RequestHead, scheme: bytes) -> bool:
    return request.fields.get(b"origin") == b"%b://%b" % (scheme, request.host)
