"""Decide from Fetch Metadata whether a request comes from its own origin's pages.

Pure.

A browser sends a workspace's cookie with every request to its host, including those that a page of another
origin causes. ``SameSite`` does not help between workspaces: ``{v}.base`` and ``{w}.base`` are one site.
So each request that authenticates by cookie is checked by fields that browsers set and pages cannot forge:
``Sec-Fetch-Site``, and ``Origin`` where that is missing (browsers from before 2023, plain HTTP).

A request with neither field is admitted if its method is safe: a GET of an old browser, a program. See
``docs/understand/proxy.md`` for what that leaves open.
"""

from typing import Final

from codehub.proxy.http1.request import RequestHead

_OWN_SITES: Final = frozenset({b"same-origin", b"none"})
_SAFE_METHODS: Final = frozenset({b"GET", b"HEAD", b"OPTIONS"})
# None: Chrome 76 to 79, which marked frames in Sec-Fetch-Mode.
_TOP_LEVEL: Final = frozenset({None, b"document"})


def may_enter(request: RequestHead, scheme: bytes) -> bool:
    """Whether the request comes from its own origin, or is a plain link from another."""
    return is_from_own_page(request, scheme) or is_link_from_elsewhere(request)


def is_from_own_page(request: RequestHead, scheme: bytes) -> bool:
    """Whether a page of the same origin sent it, or none: a typed address, a bookmark."""
    fields = request.fields
    site, origin = fields.get(b"sec-fetch-site"), fields.get(b"origin")
    if site is None:
        return names_own_origin(request, scheme) if origin is not None else request.method in _SAFE_METHODS
    # ``null``: the page hides its origin (Referrer-Policy: no-referrer).
    return site in _OWN_SITES and (origin in (None, b"null") or names_own_origin(request, scheme))


def is_link_from_elsewhere(request: RequestHead) -> bool:
    """Whether it is a GET navigation of a whole tab, from any page.

    Such are links in mail and chat, and the redirects of the dashboard and the sign-in.
    """
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
    """Whether ``Origin`` is exactly the origin the request is sent to."""
    return request.fields.get(b"origin") == b"%b://%b" % (scheme, request.host)
