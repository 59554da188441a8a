"""What a workspace may learn about the person at the other end: nothing that opens a door."""

import pytest

from codehub.kit.addresses import AddressSet
from tests.integration.proxy.conftest import MakeEnvironment, ProxyEnvironment
from tests.integration.proxy.fakes import SESSION, TOKEN
from tests.integration.proxy.raw import ok, replies

SECRETS = (SESSION.encode(), TOKEN.encode(), b"codehub", b"CodeHub")


@pytest.mark.parametrize(
    ("cookie", "left"),
    [
        (b"codehub_session=" + SESSION.encode(), []),
        (b"a=1; codehub_session=" + SESSION.encode() + b"; b=2", [b"a=1; b=2"]),
        (b"a=1;codehub_session=" + SESSION.encode() + b";b=2", [b"a=1; b=2"]),
        (b"codehub_session=" + SESSION.encode() + b"; codehub_ws=x; codehub_lang=ko; z=9", [b"z=9"]),
        (b"__Host-codehub_session=x; CODEHUB_WS_2=y; codehub_session=" + SESSION.encode() + b"; q=", [b"q="]),
    ],
)
async def test_own_cookies_are_cut_out_and_others_stay(
    environment: ProxyEnvironment, cookie: bytes, left: list[bytes]
) -> None:
    assert (await environment.get(b"/", b"Cookie: " + cookie, session=None)).status == 200
    assert environment.upstream.requests[0].values(b"cookie") == left
    assert not any(secret in environment.upstream.requests[0].head for secret in SECRETS)


async def test_cookies_in_two_fields_are_one(environment: ProxyEnvironment) -> None:
    assert (await environment.get(b"/", b"Cookie: a=1", b"cookie: b=2")).status == 200
    assert environment.upstream.requests[0].values(b"cookie") == [b"a=1; b=2"]


async def test_a_planted_second_session_cookie_makes_neither_count(environment: ProxyEnvironment) -> None:
    assert (await environment.get(b"/", b"Cookie: codehub_session=evil")).status == 401


async def test_tokens_stay_with_the_proxy(environment: ProxyEnvironment) -> None:
    answer = await environment.get(b"/", b"authorization: bearer " + TOKEN.encode(), session=None)
    assert answer.status == 200
    assert environment.upstream.requests[0].values(b"authorization") == []
    assert not any(secret in environment.upstream.requests[0].head for secret in SECRETS)


async def test_other_authorization_passes(environment: ProxyEnvironment) -> None:
    await environment.get(b"/", b"Authorization: token jupyter")
    assert environment.upstream.requests[0].values(b"authorization") == [b"token jupyter"]


async def test_hop_by_hop_fields_end_here(environment: ProxyEnvironment) -> None:
    await environment.get(
        b"/",
        b"Connection: keep-alive, X-Secret, Cookie, X-Forwarded-For",
        b"X-Secret: 1",
        b"Keep-Alive: timeout=5",
        b"Proxy-Authorization: Basic eA==",
        b"TE: trailers",
        b"Upgrade: h2c",
        b"HTTP2-Settings: AAMAAABkAAQ",
        b"X-Kept: yes",
    )
    received = environment.upstream.requests[0]
    gone = {
        b"connection",
        b"x-secret",
        b"keep-alive",
        b"proxy-authorization",
        b"te",
        b"upgrade",
        b"http2-settings",
    }
    assert not gone & received.names()
    assert received.values(b"x-kept") == [b"yes"]
    assert received.values(b"x-forwarded-for") == [b"127.0.0.1"], (
        "naming it in Connection does not remove ours"
    )


async def test_forwarded_fields_are_ours(environment: ProxyEnvironment) -> None:
    await environment.get(
        b"/",
        b"X-Forwarded-For: 6.6.6.6",
        b"X-Forwarded-Proto: https",
        b"X-Forwarded-Host: evil.example",
        b"X-Forwarded-Prefix: /evil",
        b"X_Forwarded_For: 6.6.6.6",
        b"X-Real-IP: 6.6.6.6",
        b"Forwarded: for=6.6.6.6",
        b"X-CodeHub-Principal: root",
        b"X_CodeHub_Principal: root",
    )
    received = environment.upstream.requests[0]
    host = b"127.0.0.1:%d" % environment.server.port
    assert received.values(b"x-forwarded-for") == [b"127.0.0.1"]
    assert received.values(b"x-forwarded-proto") == [b"http"]
    assert received.values(b"x-forwarded-host") == [host]
    assert received.values(b"x-forwarded-prefix") == [environment.base]
    assert received.values(b"forwarded") == [b'for="127.0.0.1";proto=http']
    assert b"6.6.6.6" not in received.head
    assert b"root" not in received.head


async def test_a_trusted_proxy_in_front_is_believed(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(trusted_proxies=AddressSet(["127.0.0.0/8"]))
    await environment.get(b"/", b"X-Forwarded-For: 203.0.113.9")
    assert environment.upstream.requests[0].values(b"x-forwarded-for") == [b"203.0.113.9, 127.0.0.1"]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (b"Set-Cookie: theme=dark; Path=/", True),
        (b"Set-Cookie: theme=dark; Domain=", True),
        (b"Set-Cookie: theme=dark; Domain=127.0.0.1", False),
        (b"Set-Cookie: theme=dark; domain = .example.com", False),
        (b"Set-Cookie: codehub_session=evil; Path=/", False),
        (b"Set-Cookie:codehub_ws=evil", False),
        (b"Set-Cookie: __Host-codehub_session=evil; Secure; Path=/", False),
        (b"Set-Cookie: CodeHub_Session=evil", False),
        (b"Set-Cookie: =codehub_session=evil", False),  # without a name: sent back as codehub_session=evil
        (b"Set-Cookie: = codehub_session=evil; Path=/", False),
        (b"Set-Cookie: =__Host-codehub_session=evil; Secure; Path=/", False),
        (b"Set-Cookie: =nameless", False),
        (b"Set-Cookie: nameless; Path=/", False),
        (b"Set-Cookie: ; Path=/", False),
        (b"Set-Cookie: ", False),
        (b'Set-Cookie: "codehub_session"=evil', False),
        (b"Set-Cookie: \xa0codehub_session=evil", False),  # white space to some
        (b"Set-Cookie: \x85codehub_session\xa0=evil", False),
        (b"Set-Cookie: codehub%5Fsession=evil", False),
        (b"Set-Cookie: %63odehub_session=evil", False),
        (b"Set-Cookie: codehub.session=evil", False),
        (b"Set-Cookie: $codehub_session=evil", False),
        (b"Set-Cookie: a=b, codehub_session=evil", False),  # two cookies to some
        (b"Set-Cookie: a=b,__Secure-codehub_ws=evil; Path=/", False),
        (b"Set-Cookie: codehubby=1", True),
        (b"Set-Cookie: my_codehub_theme=1", True),
        (b"Set-Cookie: csv=a,b,c; Path=/", True),
        (b"Set-Cookie: when=Thu, 01 Jan 2026 00:00:00 GMT", True),
        (b"Set-Cookie: empty=", True),
        (b"Set-Cookie: mail=codehub_session", True),
        (b"Set-Cookie2: codehub_session=evil", False),
        (b'Alt-Svc: h3="evil.example:443"', False),
        (b'Clear-Site-Data: "cookies"', False),
    ],
)
async def test_what_a_workspace_may_do_to_the_browser(
    make_environment: MakeEnvironment, line: bytes, kept: bool
) -> None:
    environment = await make_environment(replies(ok(b"x", line, b"Set-Cookie: other=1")))
    answer = await environment.get()
    name = line.partition(b":")[0]
    mine = [value for value in answer.values(name) if value != b"other=1"]
    assert bool(mine) is kept
    assert b"other=1" in answer.values(b"set-cookie")


async def test_a_service_worker_stays_inside_its_workspace(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(replies(ok(b"x", b"Service-Worker-Allowed: /")))
    assert (await environment.get()).values(b"service-worker-allowed") == [environment.base + b"/"]


@pytest.mark.parametrize(
    ("location", "rewritten"),
    [
        (b"/lab?x=1", b"{base}/lab?x=1"),
        (b"./lab", b"./lab"),
        (b"{base}/lab", b"{base}/lab"),
        (b"https://elsewhere.example/x", b"https://elsewhere.example/x"),
        (b"//elsewhere.example/x", b"//elsewhere.example/x"),
    ],
)
async def test_redirects_of_an_upstream_that_does_not_know_its_prefix(
    make_environment: MakeEnvironment, location: bytes, rewritten: bytes
) -> None:
    environment = await make_environment()
    target = location.replace(b"{base}", environment.base)
    environment.upstream.behave = replies(
        b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %b\r\n\r\n" % target
    )
    assert (await environment.get()).values(b"location") == [rewritten.replace(b"{base}", environment.base)]
