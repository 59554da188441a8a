"""The gate's decision for every combination of what browsers say about a request."""

from collections.abc import Callable
from itertools import product
from uuid import UUID

import pytest

from codehub.domain.states import Role
from codehub.domain.waking import Phase
from codehub.proxy.access.policy import AccessDecision, decide
from codehub.proxy.http1.request import InvalidRequest, RequestHead, parse_request
from codehub.proxy.interfaces import Principal, WorkspaceTarget
from codehub.proxy.routing import Router
from codehub.proxy.settings import ProxySettings, TcpAddress, UnixAddress

ID = UUID("0123abcd-0000-4000-8000-0123456789ab")
OTHER_ID = UUID("0123abcd-0000-4000-8000-ba9876543210")
PERSON = Principal(UUID(int=1), Role.USER)
AWAKE = WorkspaceTarget(ID, PERSON.user_id, "w", Phase.RUNNING, "running", TcpAddress("127.0.0.1", 1))
ASLEEP = WorkspaceTarget(ID, PERSON.user_id, "w", Phase.ASLEEP, "standby")

OWN_ORIGIN, PATH = "own origin", "path"
HOSTS = {OWN_ORIGIN: f"{ID}.ws.example", PATH: "hub.example"}
SETTINGS = {
    OWN_ORIGIN: ProxySettings(
        api=UnixAddress("/"), internal_secret=b"", public_url="https://hub.example", base_domain="ws.example"
    ),
    PATH: ProxySettings(api=UnixAddress("/"), internal_secret=b"", public_url="https://hub.example"),
}
ORIGINS: dict[str, Callable[[str], str | None]] = {
    "no origin": lambda mode: None,
    "own": lambda mode: f"https://{HOSTS[mode]}",
    "opaque": lambda mode: "null",
    "sibling": lambda mode: f"https://{OTHER_ID}.ws.example",
    "port of the same workspace": lambda mode: f"https://3000--{ID}.ws.example",
    "own name over HTTP": lambda mode: f"http://{HOSTS[mode]}",
    "own name, other port": lambda mode: f"https://{HOSTS[mode]}:8443",
    "other site": lambda mode: "https://evil.example.org",
}
MODES = (OWN_ORIGIN, PATH)
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
SITES = ("same-origin", "none", "same-site", "cross-site", "something new")
FETCH_MODES = (None, "navigate", "nested-navigate", "cors", "no-cors", "same-origin")
DESTS = (None, "document", "iframe", "frame", "embed", "object", "fencedframe", "empty", "script", "image")
SPECULATION = (
    "Sec-Purpose: prefetch",
    "Sec-Purpose: prefetch;prerender",
    "Purpose: prefetch",
    "Purpose: preview",
    "X-Purpose: preview",
    "X-Moz: prefetch",
)


def request_to(mode: str, method: str, *lines: str) -> RequestHead:
    path = "/x" if mode == OWN_ORIGIN else f"/w/{ID}/x"
    head = "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {HOSTS[mode]}", *lines, "", ""])
    return parse_request(head.encode())


def decision(
    mode: str, method: str, *lines: str, target: WorkspaceTarget | None = AWAKE, by_token: bool = False
) -> AccessDecision:
    request, settings = request_to(mode, method, *lines), SETTINGS[mode]
    route = Router(settings).match(request.host, request.target)
    assert route.workspace_id == ID
    return decide(
        request,
        route,
        principal=PERSON,
        target=target,
        scheme=b"https",
        by_token=by_token,
        workspace_hosts=settings.base_domain is not None,
    )


def said(
    *, site: str | None = None, mode: str | None = None, dest: str | None = None, origin: str | None = None
) -> list[str]:
    values = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest, "Origin": origin}
    return [f"{name}: {value}" for name, value in values.items() if value is not None]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("site", SITES)
def test_sec_fetch_site_decides_where_it_is_sent(mode: str, site: str) -> None:
    for method, fetch_mode, dest, name in product(METHODS, FETCH_MODES, DESTS, ORIGINS):
        origin = ORIGINS[name](mode)
        lines = said(site=site, mode=fetch_mode, dest=dest, origin=origin)
        from_own_page = site in ("same-origin", "none") and name in ("no origin", "own", "opaque")
        is_link = method == "GET" and fetch_mode == "navigate" and dest in (None, "document")
        expected = AccessDecision.RELAY if from_own_page or is_link else AccessDecision.FOREIGN_PAGE
        assert decision(mode, method, *lines) is expected, (method, lines)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ORIGINS)
def test_origin_decides_where_browsers_say_nothing_of_the_site(mode: str, name: str) -> None:
    for method, accept in product(METHODS, ("text/html", "*/*")):
        origin = ORIGINS[name](mode)
        safe = method in ("GET", "HEAD", "OPTIONS")
        enters = name == "own" or (name == "no origin" and safe)
        expected = AccessDecision.RELAY if enters else AccessDecision.FOREIGN_PAGE
        assert decision(mode, method, f"Accept: {accept}", *said(origin=origin)) is expected, method


@pytest.mark.parametrize("mode", MODES)
def test_a_token_is_never_sent_by_a_page_that_does_not_have_it(mode: str) -> None:
    for method, site, name in product(METHODS, (None, *SITES), ORIGINS):
        lines = said(site=site, origin=ORIGINS[name](mode))
        assert decision(mode, method, *lines, by_token=True) is AccessDecision.RELAY


@pytest.mark.parametrize("target", [AWAKE, ASLEEP, None], ids=["awake", "asleep", "no such workspace"])
def test_a_foreign_page_cannot_tell_what_exists(target: WorkspaceTarget | None) -> None:
    for mode in MODES:
        lines = said(site="same-site", mode="no-cors", dest="image")
        assert decision(mode, "GET", *lines, target=target) is AccessDecision.FOREIGN_PAGE


@pytest.mark.parametrize("speculation", SPECULATION)
def test_a_guess_of_the_browser_is_no_link(speculation: str) -> None:
    for mode, site in product(MODES, ("same-site", "cross-site")):
        lines = said(site=site, mode="navigate", dest="document")
        assert decision(mode, "GET", *lines) is AccessDecision.RELAY
        assert decision(mode, "GET", *lines, speculation) is AccessDecision.FOREIGN_PAGE


@pytest.mark.parametrize("mode", MODES)
def test_only_a_persons_top_level_get_wakes(mode: str) -> None:
    wakes = set()
    for method, site, fetch_mode, dest in product(METHODS, (None, *SITES[:4]), FETCH_MODES, DESTS):
        lines = [*said(site=site, mode=fetch_mode, dest=dest), f"Origin: https://{HOSTS[mode]}"]
        lines = lines[:-1] if site in ("same-site", "cross-site") or method == "GET" else lines
        decided = decision(mode, method, *lines, target=ASLEEP)
        assert decided in (AccessDecision.WAKE, AccessDecision.ASLEEP, AccessDecision.FOREIGN_PAGE)
        if decided is AccessDecision.WAKE:
            wakes.add((method, site, fetch_mode, dest))
    own = {("GET", site, "navigate", dest) for site, dest in product(
        (None, "same-origin", "none"), (None, "document", "empty")
    )}  # fmt: skip
    foreign = {("GET", site, "navigate", dest) for site, dest in product(
        ("same-site", "cross-site"), (None, "document")
    )}  # fmt: skip
    assert wakes == own | foreign


@pytest.mark.parametrize("speculation", SPECULATION)
def test_no_guess_of_the_browser_wakes(speculation: str) -> None:
    for mode in MODES:
        modern = said(site="none", mode="navigate", dest="document")
        for lines in (modern, ["Accept: text/html"]):
            assert decision(mode, "GET", *lines, target=ASLEEP) is AccessDecision.WAKE
            assert decision(mode, "GET", *lines, speculation, target=ASLEEP) is AccessDecision.ASLEEP


@pytest.mark.parametrize("method", METHODS)
def test_an_old_browser_wakes_by_a_get_that_accepts_html(method: str) -> None:
    for mode, accept in product(MODES, ("text/html", "*/*")):
        lines = [f"Accept: {accept}", f"Origin: https://{HOSTS[mode]}"]
        expected = AccessDecision.WAKE if (method, accept) == ("GET", "text/html") else AccessDecision.ASLEEP
        assert decision(mode, method, *lines, target=ASLEEP) is expected


@pytest.mark.parametrize("name", ["Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Origin"])
def test_a_field_that_decides_comes_once(name: str) -> None:
    with pytest.raises(InvalidRequest):
        request_to(PATH, "GET", f"{name}: same-origin", f"{name}: cross-site")
