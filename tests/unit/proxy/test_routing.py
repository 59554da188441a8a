"""Which door a host and a target lead to."""

from uuid import UUID

import pytest

from codehub.proxy.access.internal_endpoints import safe_next
from codehub.proxy.routing import RouteKind, Router
from codehub.proxy.settings import ProxySettings, UnixAddress

ID = UUID("0197a3c2-1111-7abc-8def-0123456789ab")
W = f"/w/{ID}".encode()
SETTINGS = ProxySettings(
    api=UnixAddress("/x"),
    internal_secret=b"",
    public_url="https://hub.example.com",
    base_domain="example.com",
)


@pytest.mark.parametrize(
    ("target", "kind", "known", "port", "path"),
    [
        (b"/", RouteKind.API, False, None, b"/"),
        (b"/api/v1/workspaces", RouteKind.API, False, None, b"/api/v1/workspaces"),
        (b"/w", RouteKind.API, False, None, b"/w"),
        (b"/%77/" + W[3:], RouteKind.API, False, None, b"/%77/" + W[3:]),
        (b"/_codehub/page.js", RouteKind.INTERNAL, False, None, b"/_codehub/page.js"),
        (W + b"/", RouteKind.WORKSPACE, True, None, b"/"),
        (W + b"/a/../b?c", RouteKind.WORKSPACE, True, None, b"/a/../b?c"),
        (W, RouteKind.WORKSPACE, True, None, b""),
        (W + b"?q", RouteKind.WORKSPACE, True, None, b"?q"),
        (W + b"x/", RouteKind.WORKSPACE, False, None, None),
        (W.upper().replace(b"/W/", b"/w/") + b"/", RouteKind.WORKSPACE, False, None, None),
        (b"/w/nonsense/", RouteKind.WORKSPACE, False, None, None),
        (b"/w/", RouteKind.WORKSPACE, False, None, None),
        (W + b"/port/3000/x", RouteKind.WORKSPACE, True, 3000, b"/x"),
        (W + b"/port/3000", RouteKind.WORKSPACE, True, 3000, b""),
        (W + b"/port/3000?x", RouteKind.WORKSPACE, True, 3000, b"?x"),
        (W + b"/port/99999/", RouteKind.WORKSPACE, False, None, None),
        (W + b"/port/0/", RouteKind.WORKSPACE, True, None, b"/port/0/"),
        (W + b"/port/x/", RouteKind.WORKSPACE, True, None, b"/port/x/"),
        (W + b"/port/", RouteKind.WORKSPACE, True, None, b"/port/"),
    ],
)
def test_path_mode(target: bytes, kind: RouteKind, known: bool, port: int | None, path: bytes | None) -> None:
    route = Router(SETTINGS).match(b"hub.example.com", target)
    assert (route.kind, route.workspace_id == ID, route.port) == (kind, known, port)
    assert path is None or route.path == path
    assert not known or route.prefix + route.path == target


@pytest.mark.parametrize(
    ("host", "on_workspace_host", "known", "port"),
    [
        (f"{ID}.example.com", True, True, None),
        (f"{ID}.example.com:8443", True, True, None),
        (f"3000--{ID}.example.com", True, True, 3000),
        (f"70000--{ID}.example.com", True, False, 70000),
        (f"x.{ID}.example.com", True, False, None),
        ("other.example.com", True, False, None),
        ("hub.example.com", False, False, None),
        ("hub.example.com:8443", False, False, None),
        ("example.com", False, False, None),
        (f"{ID}.example.com.evil.org", False, False, None),
        (f"{ID}.evilexample.com", False, False, None),
        ("[::1]:8000", False, False, None),
    ],
)
def test_own_origins(host: str, on_workspace_host: bool, known: bool, port: int | None) -> None:
    route = Router(SETTINGS).match(host.encode(), b"/x")
    assert (route.on_workspace_host, route.workspace_id == ID, route.port) == (on_workspace_host, known, port)


@pytest.mark.parametrize(
    "path", ["", "x", "//x", "/\\x", "/a\\b", "/a\nb", "/ä", "https://x", "/a b", "/\x7f"]
)
def test_next_is_a_local_path_or_the_root(path: str) -> None:
    assert safe_next(path) == "/"


def test_an_ordinary_next_stays() -> None:
    assert safe_next("/w/x/lab?y=%2F&z=//") == "/w/x/lab?y=%2F&z=//"
