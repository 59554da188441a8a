"""A workspace under an origin of its own: sign-in by a one-time code, nothing shared with the dashboard."""

import asyncio
from urllib.parse import parse_qs, urlsplit

import pytest

from codehub.domain.waking import Phase, RunningWorkspace, WakeOutcome, WakeResult
from codehub.proxy.identity import verify_principal
from tests.integration.proxy.conftest import MakeEnvironment, ProxyEnvironment
from tests.integration.proxy.fakes import SESSION, STRANGER_SESSION, TOKEN
from tests.integration.proxy.raw import RawUpstream, Received, Response, ok, replies

HUB = "http://hub.localhost:8000"
NAVIGATE = (b"Sec-Fetch-Mode: navigate",)


@pytest.fixture
async def environment(make_environment: MakeEnvironment) -> ProxyEnvironment:
    return await make_environment(public_url=HUB, base_domain="localhost")


def host_of(environment: ProxyEnvironment, port: int | None = None) -> bytes:
    label = f"{port}--{environment.workspace.id}" if port else str(environment.workspace.id)
    return f"{label}.localhost:8000".encode()


async def ask(
    environment: ProxyEnvironment, host: bytes, path: str, *lines: bytes, cookie: str = ""
) -> Response:
    client = await environment.client()
    fields = [b"Host: " + host, *lines, *([b"Cookie: " + cookie.encode()] if cookie else [])]
    await client.send(b"GET %b HTTP/1.1\r\n%b\r\n\r\n" % (path.encode(), b"\r\n".join(fields)))
    return await client.response()


async def follow(
    environment: ProxyEnvironment, answer: Response, *, cookie: str = ""
) -> tuple[Response, str]:
    url = urlsplit(answer.values(b"location")[0].decode())
    path = url.path + (f"?{url.query}" if url.query else "")
    return await ask(environment, url.netloc.encode(), path, *NAVIGATE, cookie=cookie), url.netloc


async def sign_in(environment: ProxyEnvironment, path: str = "/lab?x=1") -> str:
    """Walk the redirects as a browser signed in to the dashboard would; gives the cookie."""
    first = await ask(environment, host_of(environment), path, *NAVIGATE)
    assert first.status == 303
    second, host = await follow(environment, first, cookie=f"codehub_session={SESSION}")
    assert host == "hub.localhost:8000"
    assert second.status == 303
    third, host = await follow(environment, second)
    assert host.encode() == host_of(environment)
    assert third.values(b"location") == [path.encode()]
    cookie = third.values(b"set-cookie")[0].decode()
    assert "HttpOnly" in cookie
    assert "Domain" not in cookie
    return cookie.partition(";")[0]


async def test_signing_in_and_working(environment: ProxyEnvironment) -> None:
    cookie = await sign_in(environment)
    answer = await ask(environment, host_of(environment), "/lab?x=1", cookie=cookie + "; own=1")
    assert answer.body == b"hello"
    received = environment.upstream.requests[0]
    assert received.line == b"GET /lab?x=1 HTTP/1.1"
    assert received.values(b"cookie") == [b"own=1"]
    assert received.values(b"x-forwarded-prefix") == []
    assert received.values(b"host") == [host_of(environment)]


async def test_the_cookie_opens_one_workspace_only(environment: ProxyEnvironment) -> None:
    cookie = await sign_in(environment)
    other = environment.directory.add(address=("127.0.0.1", environment.upstream.port))
    answer = await ask(environment, f"{other.id}.localhost:8000".encode(), "/", cookie=cookie)
    assert answer.status == 401
    assert (
        await ask(environment, b"hub.localhost:8000", f"/w/{environment.workspace.id}/", cookie=cookie)
    ).status == 401


async def test_the_dashboards_cookie_counts_for_nothing_there(environment: ProxyEnvironment) -> None:
    assert (
        await ask(environment, host_of(environment), "/", cookie=f"codehub_session={SESSION}")
    ).status == 401
    with_token = await ask(environment, host_of(environment), "/", b"Authorization: Bearer " + TOKEN.encode())
    assert with_token.status == 200


async def test_a_code_is_good_once_and_for_its_workspace(environment: ProxyEnvironment) -> None:
    code = await environment.sign_in.issue_code(environment.directory.owner, environment.workspace.id)
    other = environment.directory.add()
    wrong = await ask(
        environment, f"{other.id}.localhost:8000".encode(), f"/_codehub/auth?code={code}&next=/"
    )
    assert wrong.values(b"set-cookie") == []
    code = await environment.sign_in.issue_code(environment.directory.owner, environment.workspace.id)
    first = await ask(environment, host_of(environment), f"/_codehub/auth?code={code}&next=/")
    again = await ask(environment, host_of(environment), f"/_codehub/auth?code={code}&next=/")
    assert (len(first.values(b"set-cookie")), again.values(b"set-cookie")) == (1, [])


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "https://evil.example", "/\\evil.example", "/%0d%0aSet-Cookie:x", "javascript:1", ""],
)
async def test_next_leads_nowhere_else(environment: ProxyEnvironment, target: str) -> None:
    code = await environment.sign_in.issue_code(environment.directory.owner, environment.workspace.id)
    answer = await ask(environment, host_of(environment), f"/_codehub/auth?code={code}&next={target}")
    assert answer.values(b"location") == [b"/"]
    assert len(answer.values(b"set-cookie")) == 1


async def test_signing_in_needs_the_right_to_the_workspace(environment: ProxyEnvironment) -> None:
    path = f"/_codehub/signin?workspace={environment.workspace.id}&next=/"
    unknown = await ask(environment, b"hub.localhost:8000", path, *NAVIGATE)
    assert unknown.status == 303
    query = parse_qs(urlsplit(unknown.values(b"location")[0].decode()).query)
    assert query["next"] == [path]
    stranger = await ask(
        environment, b"hub.localhost:8000", path, *NAVIGATE, cookie=f"codehub_session={STRANGER_SESSION}"
    )
    assert stranger.status == 404
    assert environment.sign_in.codes == {}


async def test_ports_have_origins_too(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(public_url=HUB, base_domain="localhost")
    app = RawUpstream(replies(ok(b"app")))
    await app.start()
    environment.directory.ports.add((environment.workspace.id, app.port))
    first = await ask(environment, host_of(environment, app.port), "/x", *NAVIGATE)
    second, _ = await follow(environment, first, cookie=f"codehub_session={SESSION}")
    third, host = await follow(environment, second)
    assert host.encode() == host_of(environment, app.port)
    cookie = third.values(b"set-cookie")[0].decode().partition(";")[0]
    assert (await ask(environment, host_of(environment, app.port), "/x", cookie=cookie)).body == b"app"
    await app.stop()


async def test_an_image_with_a_base_path_is_entered_there(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(
        public_url=HUB, base_domain="localhost", target={"strip_prefix": False}
    )
    cookie = await sign_in(environment, "/")
    answer = await ask(environment, host_of(environment), "/?x=1", cookie=cookie)
    assert answer.values(b"location") == [environment.base + b"/?x=1"]
    await ask(environment, host_of(environment), f"/w/{environment.workspace.id}/lab", cookie=cookie)
    assert environment.upstream.requests[0].line == b"GET %b/lab HTTP/1.1" % environment.base


async def test_the_events_of_this_workspace_come_with_an_identity_the_api_can_check(
    environment: ProxyEnvironment,
) -> None:
    cookie = await sign_in(environment)
    answer = await ask(
        environment, host_of(environment), "/_codehub/events", b"X-CodeHub-Principal: forged", cookie=cookie
    )
    assert answer.body == b"api"
    received = environment.api.requests[0]
    assert received.line == f"GET /api/v1/workspaces/{environment.workspace.id}/events HTTP/1.1".encode()
    (claim,) = received.values(b"x-codehub-principal")
    now = asyncio.get_running_loop().time() * 0  # any time before the claim ends
    assert verify_principal(claim.decode(), secret=b"shared", now=now) == environment.directory.owner
    assert verify_principal(claim.decode(), secret=b"other", now=now) is None
    assert verify_principal(claim.decode(), secret=b"shared", now=1e12) is None
    assert verify_principal("forged", secret=b"shared", now=now) is None
    assert (await ask(environment, host_of(environment), "/_codehub/events")).status == 401


async def test_the_api_is_not_reachable_from_a_workspaces_origin(environment: ProxyEnvironment) -> None:
    cookie = await sign_in(environment)
    await ask(environment, host_of(environment), "/api/v1/workspaces", cookie=cookie)
    assert environment.api.requests == []
    assert environment.upstream.requests[0].line == b"GET /api/v1/workspaces HTTP/1.1"


async def test_names_below_the_base_domain_that_are_no_workspace(environment: ProxyEnvironment) -> None:
    answer = await ask(environment, b"evil.localhost:8000", "/", cookie=f"codehub_session={SESSION}")
    assert answer.status == 401
    assert environment.api.requests == []


async def test_the_limit_page_there_cannot_stop_anything_itself(environment: ProxyEnvironment) -> None:
    cookie = await sign_in(environment)
    environment.directory.change(environment.workspace.id, phase=Phase.ASLEEP, status="standby")
    running = RunningWorkspace(environment.directory.add().id, "beta")
    environment.directory.outcome = WakeOutcome(WakeResult.LIMIT, (running,), allowed=1)
    there = await ask(environment, host_of(environment), "/", *NAVIGATE, cookie=cookie)
    assert there.status == 502
    assert b"data-instead" not in there.body
    here = f"/_codehub/limit/{environment.workspace.id}"
    assert f"{HUB}{here}".encode() in there.body
    hub = await ask(environment, b"hub.localhost:8000", here, *NAVIGATE, cookie=f"codehub_session={SESSION}")
    assert hub.status == 502
    assert f'data-instead="{running.id}"'.encode() in hub.body
    environment.directory.outcome = WakeOutcome(WakeResult.WAKING)
    woken = await ask(
        environment, b"hub.localhost:8000", here, *NAVIGATE, cookie=f"codehub_session={SESSION}"
    )
    assert woken.values(b"location") == [b"http://" + host_of(environment) + b"/"]


async def test_secure_names_over_https(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(public_url="https://hub.example", base_domain="ws.example")
    code = await environment.sign_in.issue_code(environment.directory.owner, environment.workspace.id)
    host = f"{environment.workspace.id}.ws.example".encode()
    answer = await ask(environment, host, f"/_codehub/auth?code={code}&next=/")
    cookie = answer.values(b"set-cookie")[0].decode()
    assert cookie.startswith("__Host-codehub_ws=")
    assert "; Secure" in cookie
    assert (await ask(environment, host, "/", cookie=cookie.partition(";")[0])).status == 200
    plain = cookie.partition(";")[0].removeprefix("__Host-")
    assert (await ask(environment, host, "/", cookie=plain)).status == 401, (
        "a sibling could have planted that one"
    )
    hub = await ask(
        environment, b"hub.example", environment.base.decode() + "/", cookie=f"codehub_session={SESSION}"
    )
    assert hub.status == 401


async def test_a_cookie_for_the_parent_domain_is_dropped(make_environment: MakeEnvironment) -> None:
    async def plant(received: Received, _: object, writer: asyncio.StreamWriter) -> None:
        host = received.values(b"host")[0].partition(b":")[0]
        writer.write(ok(b"x", b"Set-Cookie: a=1; Domain=localhost", b"Set-Cookie: b=2; Domain=" + host))

    environment = await make_environment(plant, public_url=HUB, base_domain="localhost")
    cookie = await sign_in(environment)
    answer = await ask(environment, host_of(environment), "/", cookie=cookie)
    assert answer.values(b"set-cookie") == [b"b=2; Domain=" + host_of(environment).partition(b":")[0]]


async def test_the_path_on_the_dashboards_host_is_closed_to_browsers(environment: ProxyEnvironment) -> None:
    """A page of a workspace could lead its person there, and would then be a page of the dashboard's."""
    hub, cookie = b"hub.localhost:8000", f"codehub_session={SESSION}"
    here = environment.base.decode()
    page = await ask(environment, hub, f"{here}/evil?x=1", *NAVIGATE, cookie=cookie)
    assert page.status == 302
    assert page.values(b"location") == [b"http://" + host_of(environment) + b"/evil?x=1"]
    without_slash = await ask(environment, hub, here, *NAVIGATE, cookie=cookie)
    assert without_slash.values(b"location") == [b"http://" + host_of(environment) + b"/"]
    port = await ask(environment, hub, f"{here}/port/3000/app", *NAVIGATE, cookie=cookie)
    assert port.values(b"location") == [b"http://" + host_of(environment, 3000) + b"/app"]
    for _ in range(2):  # with and without what the proxy remembers
        assert (await ask(environment, hub, f"{here}/evil.js", cookie=cookie)).status == 403
    upgrade = (b"Connection: Upgrade", b"Upgrade: websocket", b"Origin: " + HUB.encode())
    key = (b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==")
    assert (await ask(environment, hub, f"{here}/socket", *upgrade, *key, cookie=cookie)).status == 403
    assert environment.upstream.requests == []
    stranger = await ask(
        environment, hub, f"{here}/", *NAVIGATE, cookie=f"codehub_session={STRANGER_SESSION}"
    )
    assert stranger.status == 404
    by_token = await ask(environment, hub, f"{here}/evil.js", f"Authorization: Bearer {TOKEN}".encode())
    assert by_token.body == b"hello"


async def test_an_image_with_a_base_path_keeps_it_on_the_way_to_its_origin(
    make_environment: MakeEnvironment,
) -> None:
    environment = await make_environment(
        public_url=HUB, base_domain="localhost", target={"strip_prefix": False}
    )
    page = await ask(
        environment,
        b"hub.localhost:8000",
        f"{environment.base.decode()}/lab",
        *NAVIGATE,
        cookie=f"codehub_session={SESSION}",
    )
    assert page.values(b"location") == [b"http://" + host_of(environment) + environment.base + b"/lab"]


async def test_a_base_domain_may_name_its_port(make_environment: MakeEnvironment) -> None:
    environment = await make_environment(public_url=HUB, base_domain="localhost:8000")
    cookie = await sign_in(environment)
    assert (await ask(environment, host_of(environment), "/", cookie=cookie)).body == b"hello"


async def test_its_own_addresses_are_closed_to_foreign_pages_too(environment: ProxyEnvironment) -> None:
    """Signing somebody in unseen, by a frame of a hostile page, is as little wanted as using the cookie."""
    frame = (b"Sec-Fetch-Site: same-site", b"Sec-Fetch-Mode: navigate", b"Sec-Fetch-Dest: iframe")
    hub, cookie = b"hub.localhost:8000", f"codehub_session={SESSION}"
    sign_in_path = f"/_codehub/signin?workspace={environment.workspace.id}&next=/"
    assert (await ask(environment, hub, sign_in_path, *frame, cookie=cookie)).status == 403
    assert environment.sign_in.codes == {}
    code = await environment.sign_in.issue_code(environment.directory.owner, environment.workspace.id)
    framed = await ask(environment, host_of(environment), f"/_codehub/auth?code={code}&next=/", *frame)
    assert (framed.status, framed.values(b"set-cookie")) == (403, [])
    environment.directory.change(environment.workspace.id, phase=Phase.ASLEEP, status="standby")
    assert (
        await ask(environment, hub, f"/_codehub/limit/{environment.workspace.id}", *frame, cookie=cookie)
    ).status == 403
    own_frame = (b"Sec-Fetch-Site: same-origin", *frame[1:])
    limit = await ask(
        environment, hub, f"/_codehub/limit/{environment.workspace.id}", *own_frame, cookie=cookie
    )
    assert limit.status == 303
    assert environment.directory.wakes == []


async def test_a_change_says_where_it_comes_from(environment: ProxyEnvironment) -> None:
    cookie = await sign_in(environment)
    own = b"http://" + host_of(environment)

    async def post(*lines: bytes) -> int:
        client = await environment.client()
        fields = b"\r\n".join([b"Host: " + host_of(environment), b"Cookie: " + cookie.encode(), *lines])
        await client.send(b"POST /x HTTP/1.1\r\n%b\r\n\r\n" % fields)
        return (await client.response()).status

    assert await post(b"Sec-Fetch-Site: same-origin", b"Origin: " + own) == 200
    assert await post(b"Origin: " + own) == 200
    assert await post() == 403
    assert await post(b"Origin: " + own.replace(b"http://", b"http://3000--")) == 403
    assert await post(b"Sec-Fetch-Site: same-site") == 403
    assert await post(b"Authorization: Bearer " + TOKEN.encode()) == 200
    assert len(environment.upstream.requests) == 3
