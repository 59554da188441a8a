"""Who is let in to a shared port, as one table: share × who asks × where × what kind of request."""

from dataclasses import replace
from itertools import product
from uuid import UUID

import pytest

from codehub.domain.port_shares import ShareLevel
from codehub.domain.states import Role
from codehub.domain.waking import Phase
from codehub.proxy.access.policy import AccessDecision, decide
from codehub.proxy.http1.request import RequestHead, parse_request
from codehub.proxy.interfaces import Principal, SharedPort, WorkspaceTarget
from codehub.proxy.routing import Router
from codehub.proxy.settings import ProxySettings, TcpAddress, UnixAddress

ID = UUID("0123abcd-0000-4000-8000-0123456789ab")
OWNER = Principal(UUID(int=1), Role.USER)
NOW = 1000.0
SETTINGS = ProxySettings(
    api=UnixAddress("/"), internal_secret=b"", public_url="https://hub.example", base_domain="ws.example"
)
ROUTER = Router(SETTINGS)
SHARES = {
    "none": {},
    "private": {3000: SharedPort(ShareLevel.PRIVATE)},
    "signed in": {3000: SharedPort(ShareLevel.SIGNED_IN)},
    "signed in, over": {3000: SharedPort(ShareLevel.SIGNED_IN, expires_at=NOW)},
    "public": {3000: SharedPort(ShareLevel.PUBLIC, expires_at=NOW + 1, key="k3y")},
    "public, over": {3000: SharedPort(ShareLevel.PUBLIC, expires_at=NOW, key="k3y")},
    "another port": {3001: SharedPort(ShareLevel.SIGNED_IN)},
}
WHO: dict[str, tuple[Principal | None, bytes | None]] = {
    "nobody": (None, None),
    "owner": (OWNER, None),
    "owner with the link": (OWNER, b"k3y"),
    "admin": (Principal(UUID(int=2), Role.ADMIN), None),
    "colleague": (Principal(UUID(int=3), Role.USER), None),
    "colleague with the link": (Principal(UUID(int=3), Role.USER), b"k3y"),
    "link": (None, b"k3y"),
    "wrong link": (None, b"k3z"),
    "odd link": (None, b"\xff"),
}
MINE = {"owner", "owner with the link", "admin"}
LET_IN = {
    ("signed in", "colleague"),
    ("signed in", "colleague with the link"),
    ("public", "link"),
    ("public", "colleague with the link"),
}


def target(share: str, phase: Phase = Phase.RUNNING) -> WorkspaceTarget:
    at = TcpAddress("10.0.0.9", 8888)
    return WorkspaceTarget(ID, OWNER.user_id, "w", phase, "running", at, shares=SHARES[share])


def request(host: str, path: str = "/", *lines: str, method: str = "GET") -> RequestHead:
    fields = "\r\n".join([f"Host: {host}", *lines])
    return parse_request(f"{method} {path} HTTP/1.1\r\n{fields}\r\n\r\n".encode())


def verdict(asked: RequestHead, who: str, to: WorkspaceTarget | None, *, now: float = NOW) -> AccessDecision:
    principal, link_key = WHO[who]
    return decide(
        asked,
        ROUTER.match(asked.host, asked.target),
        principal=principal,
        target=to,
        scheme=b"https",
        workspace_hosts=True,
        link_key=link_key,
        now=now,
    )


PORT_HOST = f"3000--{ID}.ws.example"
NAVIGATION = ("Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")


@pytest.mark.parametrize(("share", "who"), list(product(SHARES, WHO)), ids=lambda value: value)
def test_who_is_let_in(share: str, who: str) -> None:
    asked = request(PORT_HOST, "/", *NAVIGATION)
    if who in MINE:
        expected = AccessDecision.RELAY
    elif (share, who) in LET_IN:
        expected = AccessDecision.RELAY_VISITOR
    elif WHO[who][0] is None:
        expected = AccessDecision.SIGN_IN
    else:
        expected = AccessDecision.NOT_FOUND
    assert verdict(asked, who, target(share)) is expected
    if expected is AccessDecision.SIGN_IN:  # and nothing tells whether there is such a workspace
        assert verdict(asked, who, None) is expected


@pytest.mark.parametrize("share_who", sorted(LET_IN), ids=str)
@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.RUNNING])
def test_a_visitor_never_wakes(share_who: tuple[str, str], phase: Phase) -> None:
    share, who = share_who
    assert (
        verdict(request(PORT_HOST, "/", *NAVIGATION), who, target(share, phase))
        is AccessDecision.VISITOR_WAITS
    )


@pytest.mark.parametrize("share_who", sorted(LET_IN), ids=str)
@pytest.mark.parametrize(
    ("host", "path"),
    [
        (f"{ID}.ws.example", "/"),  # the IDE
        (f"3002--{ID}.ws.example", "/"),
        ("hub.example", f"/w/{ID}/port/3000/"),
        ("hub.example", f"/w/{ID}/"),
    ],
)
def test_a_share_opens_its_own_origin_alone(share_who: tuple[str, str], host: str, path: str) -> None:
    share, who = share_who
    refused = {AccessDecision.SIGN_IN, AccessDecision.NOT_FOUND}
    assert verdict(request(host, path, *NAVIGATION), who, target(share)) in refused


@pytest.mark.parametrize("who", ["colleague", "link"])
def test_the_port_of_the_ide_is_not_shared_whatever_the_row_says(who: str) -> None:
    share = {"colleague": "signed in", "link": "public"}[who]
    at = replace(target(share), address=TcpAddress("10.0.0.9", 3000))
    refused = {AccessDecision.SIGN_IN, AccessDecision.NOT_FOUND}
    assert verdict(request(PORT_HOST, "/", *NAVIGATION), who, at) in refused


@pytest.mark.parametrize("share_who", sorted(LET_IN), ids=str)
def test_pages_of_other_origins_act_on_no_shared_port(share_who: tuple[str, str]) -> None:
    share, who = share_who
    sibling = ("Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors", f"Origin: https://3001--{ID}.ws.example")
    assert verdict(request(PORT_HOST, "/", *sibling), who, target(share)) is AccessDecision.FOREIGN_PAGE
    form = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
    posted = request(PORT_HOST, "/", *form, method="POST")
    assert verdict(posted, who, target(share)) is AccessDecision.FOREIGN_PAGE
    link = request(PORT_HOST, "/", *form)
    assert verdict(link, who, target(share)) is AccessDecision.RELAY_VISITOR
    handshake = (
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: eA==",
    )
    foreign = request(PORT_HOST, "/hot", *handshake, "Origin: https://evil.example")
    assert verdict(foreign, who, target(share)) is AccessDecision.BAD_ORIGIN
    own = request(PORT_HOST, "/hot", *handshake, f"Origin: https://{PORT_HOST}")
    assert verdict(own, who, target(share)) is AccessDecision.RELAY_VISITOR


def test_a_share_ends_by_the_clock() -> None:
    asked = request(PORT_HOST, "/", *NAVIGATION)
    assert verdict(asked, "link", target("public"), now=NOW + 0.9) is AccessDecision.RELAY_VISITOR
    assert verdict(asked, "link", target("public"), now=NOW + 1.0) is AccessDecision.SIGN_IN
