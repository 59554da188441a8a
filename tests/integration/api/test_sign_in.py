"""Sessions and tokens: how they begin, what ends them, and what a forged one is worth."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from io import StringIO

import httpx
import pytest
import structlog
from sqlalchemy import Interval, Text, text

from codehub.domain.states import Role
from codehub.kit import logs
from codehub.kit.addresses import AddressSet
from codehub.services.identity import CACHE_SECONDS
from codehub.store.accounts.secrets import hash_secret
from codehub.store.db.typed_text import typed_text
from tests.integration.api.environment import BASE_URL, ApiEnvironment, create_workspace, user_id
from tests.support.accounts import PASSWORD
from tests.support.waiting import until

LOGIN = "/api/v1/auth/login"
SESSION = "/api/v1/auth/session"


async def attempt(client: httpx.AsyncClient, username: str, password: str) -> httpx.Response:
    return await client.post(LOGIN, json={"username": username, "password": password})


async def status(client: httpx.AsyncClient) -> int:
    return (await client.get(SESSION)).status_code


async def execute(environment: ApiEnvironment, statement: str, **values: object) -> None:
    async with environment.sessions.begin() as session:
        await session.exec(text(statement), values)


async def eventually_refused(client: httpx.AsyncClient) -> None:
    """Within the two seconds a replica may believe what it knew."""

    async def refused() -> bool:
        return await status(client) == 401

    await until(refused, seconds=CACHE_SECONDS + 10, what="401")


async def test_the_cookie_is_for_this_host_and_out_of_reach_of_scripts(environment: ApiEnvironment) -> None:
    await environment.add_user("ann")
    answer = await attempt(environment.client(), "ann", PASSWORD)
    assert answer.json()["user"]["username"] == "ann"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("codehub_session=")
    for part in ("HttpOnly", "SameSite=lax", "Path=/", "Max-Age=7776000"):
        assert part in cookie
    assert "Secure" not in cookie
    assert "Domain" not in cookie


async def test_over_https_the_cookie_is_secure_and_bound_to_the_host(environment: ApiEnvironment) -> None:
    await environment.add_user("ann")
    site = "https://codehub.test"
    app = environment.with_settings(base_url=site)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url=site, headers={"Origin": site}
    ) as client:
        answer = await attempt(client, "ann", PASSWORD)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-codehub_session=")
        assert "Secure" in cookie
        assert answer.headers["strict-transport-security"]
        assert await status(client) == 200
        plain = cookie.partition("=")[2].partition(";")[0]
        client.cookies.clear()
        # The name without the prefix could have been set by a sibling domain.
        assert (await client.get(SESSION, headers={"Cookie": f"codehub_session={plain}"})).status_code == 401


async def test_only_hashes_are_stored(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    secret = ann.cookies["codehub_session"]
    token = (await ann.post("/api/v1/tokens", json={"name": "ci"})).json()["token"]
    assert token.startswith("chp_")
    async with environment.sessions() as session:
        sessions = (await session.exec(typed_text("SELECT secret_hash FROM sessions", Text()))).all()
        tokens = (await session.exec(typed_text("SELECT secret_hash FROM api_tokens", Text()))).all()
    assert sessions == [hash_secret(secret)]
    assert tokens == [hash_secret(token)]
    listed = (await ann.get("/api/v1/tokens")).text
    assert token not in listed


async def test_wrong_name_and_wrong_password_look_the_same(environment: ApiEnvironment) -> None:
    await environment.add_user("ann")
    await environment.add_user("eve")
    await execute(environment, "UPDATE users SET disabled_at = now() WHERE username = 'eve'")
    answers = [
        await attempt(environment.client(), "ann", "wrong password"),
        await attempt(environment.client(), "nobody", "wrong password"),
        await attempt(environment.client(), "eve", PASSWORD),
    ]
    assert [answer.status_code for answer in answers] == [401] * 3
    assert len({answer.text for answer in answers}) == 1
    assert all("set-cookie" not in answer.headers for answer in answers)


async def test_the_sixth_failure_of_an_account_in_a_minute_waits(environment: ApiEnvironment) -> None:
    await environment.add_user("ann")
    for _ in range(5):
        assert (await attempt(environment.client(), "ann", "wrong password")).status_code == 401
    refused = await attempt(
        environment.client(), "Ann", PASSWORD
    )  # the right one, and the name spelt otherwise
    assert refused.status_code == 429
    assert refused.json()["code"] == "rate_limited"
    assert 1 <= int(refused.headers["retry-after"]) <= 60


async def test_attempts_at_once_are_counted_before_they_are_checked(environment: ApiEnvironment) -> None:
    await environment.add_user("ann")
    answers = await asyncio.gather(
        *(attempt(environment.client(), "ann", "wrong password") for _ in range(20))
    )
    assert sorted(answer.status_code for answer in answers) == [401] * 5 + [429] * 15


async def test_an_address_has_twenty_failures_and_right_passwords_cost_none(
    environment: ApiEnvironment,
) -> None:
    await environment.add_user("ann")
    for _ in range(25):
        assert (await attempt(environment.client(), "ann", PASSWORD)).status_code == 200
    for number in range(20):
        assert (await attempt(environment.client(), f"user{number}", "wrong password")).status_code == 401
    assert (await attempt(environment.client(), "ann", PASSWORD)).status_code == 429


async def test_signing_in_ends_the_session_the_browser_showed(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    before = ann.cookies["codehub_session"]
    assert (await attempt(ann, "ann", PASSWORD)).status_code == 200
    assert ann.cookies["codehub_session"] != before
    assert await status(ann) == 200
    old = environment.client(Cookie=f"codehub_session={before}")
    assert await status(old) == 401


async def test_signing_out_ends_this_session_at_once_and_no_other(environment: ApiEnvironment) -> None:
    here, there = await environment.sign_in("ann"), await environment.sign_in("ann")
    secret = here.cookies["codehub_session"]
    assert (await here.post("/api/v1/auth/logout")).status_code == 204
    assert "codehub_session" not in here.cookies
    assert await status(environment.client(Cookie=f"codehub_session={secret}")) == 401
    assert await status(there) == 200


@pytest.mark.parametrize("column", ["idle_expires_at", "expires_at"])
async def test_an_expired_session_counts_no_more(environment: ApiEnvironment, column: str) -> None:
    ann = await environment.sign_in("ann")
    await execute(environment, f"UPDATE sessions SET {column} = now() - interval '1 second'")
    await eventually_refused(ann)


async def test_sessions_last_14_days_idle_and_90_in_all(environment: ApiEnvironment) -> None:
    await environment.sign_in("ann")
    async with environment.sessions() as session:
        idle, absolute = (
            await session.exec(
                typed_text(
                    "SELECT idle_expires_at - created_at, expires_at - created_at FROM sessions",
                    Interval(),
                    Interval(),
                )
            )
        ).one()
    assert (round(idle.total_seconds() / 86400), round(absolute.total_seconds() / 86400)) == (14, 90)


@pytest.mark.parametrize(
    "headers",
    [
        {"Cookie": "codehub_session=forged"},
        {"Cookie": "codehub_session="},
        {"Cookie": "codehub_session=\xe4\xf6"},
        {"Cookie": "codehub_session=" + "x" * 4000},
        {"Authorization": "Bearer chp_forged"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic YW5uOnB3"},
        {"Authorization": "Bearer " + "chp_" + "x" * 4000},
        {"X-CodeHub-Principal": "00000000-0000-0000-0000-000000000000 admin 9999999999 00"},
    ],
    ids=lambda headers: next(iter(headers.values()))[:24],
)
async def test_forged_proofs_are_worth_nothing(environment: ApiEnvironment, headers: dict[str, str]) -> None:
    raw = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    assert (await environment.client().get(SESSION, headers=raw)).status_code == 401


async def test_a_planted_second_cookie_makes_both_worthless(environment: ApiEnvironment) -> None:
    ann, eve = await environment.sign_in("ann"), await environment.sign_in("eve")
    both = "; ".join(f"codehub_session={each.cookies['codehub_session']}" for each in (eve, ann))
    assert await status(environment.client(Cookie=both)) == 401


async def test_a_token_works_until_it_is_revoked(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    tokened = await environment.token_client(ann)
    assert await status(tokened) == 200
    token_id = (await ann.get("/api/v1/tokens")).json()["items"][0]["id"]
    bob = await environment.sign_in("bob")
    assert (await bob.delete(f"/api/v1/tokens/{token_id}")).status_code == 404
    assert (await ann.delete(f"/api/v1/tokens/{token_id}")).status_code == 204
    assert await status(tokened) == 401
    assert (await ann.delete(f"/api/v1/tokens/{token_id}")).status_code == 404


async def test_an_expired_token_counts_no_more(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    made = (await ann.post("/api/v1/tokens", json={"name": "ci", "expires_in_days": 1})).json()
    tokened = environment.client(Authorization=f"Bearer {made['token']}")
    assert await status(tokened) == 200
    await execute(environment, "UPDATE api_tokens SET expires_at = now() - interval '1 second'")
    await eventually_refused(tokened)


async def test_disabling_somebody_ends_everything_of_theirs_at_once(environment: ApiEnvironment) -> None:
    admin, eve = await environment.sign_in("admin"), await environment.sign_in("eve")
    tokened = await environment.token_client(eve)
    assert (await status(eve), await status(tokened)) == (200, 200)
    answer = await admin.patch(f"/api/v1/users/{await user_id(eve)}", json={"disabled": True})
    assert answer.json()["disabled_at"] is not None
    assert (await status(eve), await status(tokened)) == (401, 401)
    assert (await attempt(environment.client(), "eve", PASSWORD)).status_code == 401
    enabled = await admin.patch(f"/api/v1/users/{answer.json()['id']}", json={"disabled": False})
    assert enabled.json()["disabled_at"] is None
    assert (await attempt(environment.client(), "eve", PASSWORD)).status_code == 200
    assert await status(tokened) == 401


async def test_a_change_is_never_made_on_what_a_replica_remembers(environment: ApiEnvironment) -> None:
    eve = await environment.sign_in("eve")
    assert await status(eve) == 200
    await execute(environment, "UPDATE users SET disabled_at = now()")  # another replica did it
    assert (await eve.post("/api/v1/workspaces", json={"name": "late"})).status_code == 401


async def test_changing_the_password_ends_the_other_sessions(environment: ApiEnvironment) -> None:
    here, there = await environment.sign_in("ann"), await environment.sign_in("ann")
    wrong = await here.post("/api/v1/auth/password", json={"current": "no", "new": "a new password"})
    assert (wrong.status_code, wrong.json()["code"]) == (403, "wrong_password")
    right = await here.post("/api/v1/auth/password", json={"current": PASSWORD, "new": "a new password"})
    assert right.status_code == 204
    assert await status(here) == 200
    assert await status(there) == 401
    assert (await attempt(environment.client(), "ann", PASSWORD)).status_code == 401
    assert (await attempt(environment.client(), "ann", "a new password")).status_code == 200


async def test_the_last_admin_stays(environment: ApiEnvironment) -> None:
    admin = await environment.sign_in("admin")
    me = await user_id(admin)
    for change in ({"disabled": True}, {"role": "user"}):
        answer = await admin.patch(f"/api/v1/users/{me}", json=change)
        assert (answer.status_code, answer.json()["code"]) == (409, "last_admin")
    await environment.add_user("second", Role.ADMIN)
    assert (await admin.patch(f"/api/v1/users/{me}", json={"role": "user"})).status_code == 200
    assert (await admin.get("/api/v1/users")).status_code == 403


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Origin": BASE_URL}, 201),
        ({"Sec-Fetch-Site": "same-origin"}, 201),
        ({"Sec-Fetch-Site": "none"}, 201),
        ({}, 403),
        ({"Origin": "http://evil.test"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://codehub.test"}, 403),
        ({"Origin": "http://codehub.test.evil.test"}, 403),
        ({"Origin": BASE_URL, "Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": BASE_URL, "Sec-Fetch-Site": "cross-site"}, 403),
    ],
    ids=str,
)
async def test_a_cookie_alone_changes_nothing_from_elsewhere(
    environment: ApiEnvironment, headers: dict[str, str], expected: int
) -> None:
    ann = await environment.sign_in("ann")
    del ann.headers["Origin"]
    answer = await ann.post("/api/v1/workspaces", json={"name": "one"}, headers=headers)
    assert answer.status_code == expected
    if expected == 403:
        assert answer.json()["code"] == "csrf"
        assert (await ann.get("/api/v1/workspaces")).json()["items"] == []


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("codehub.test", 201),
        ("codehub.test:8000", 201),  # a forwarded port
        ("localhost:8000", 201),
        ("127.0.0.1:8000", 201),
        ("[::1]:8000", 201),
        ("192.0.2.7", 201),  # an address has no name that somebody else could point here
        (socket.gethostname().lower(), 201),
        ("evil.test", 403),
        ("evil.test:80", 403),
        ("codehub.test.evil.test", 403),
        ("127.0.0.1.evil.test", 403),
        ("localhost.evil.test", 403),
        ("0123abcd-0000-4000-8000-0123456789ab.localhost", 403),  # a workspace's own origin
    ],
)
@pytest.mark.parametrize("more", [{}, {"Sec-Fetch-Site": "same-origin"}], ids=["old browser", "new browser"])
async def test_origin_and_host_agree_on_one_of_our_names(
    environment: ApiEnvironment, host: str, expected: int, more: dict[str, str]
) -> None:
    """A foreign name may be pointed at this machine: its pages then ask the host they come from."""
    ann = await environment.sign_in("ann")
    headers = {"Origin": f"http://{host}", "Host": host, **more}
    answer = await ann.post("/api/v1/workspaces", json={"name": "one"}, headers=headers)
    assert answer.status_code == expected
    credentials = {"username": "ann", "password": PASSWORD}
    signed_in = await environment.client().post(LOGIN, json=credentials, headers=headers)
    assert signed_in.status_code == (200 if expected == 201 else 403)
    if expected == 403:
        assert "CODEHUB_BASE_URL" in answer.json()["detail"]


async def test_a_name_that_only_looks_like_the_cookies_is_another_cookie(environment: ApiEnvironment) -> None:
    """The proxy lets a workspace set it: it must not count here, nor make the real one count twice."""
    ann = await environment.sign_in("ann")
    real = ann.cookies["codehub_session"]
    for space in ("\xa0", "\x85", "\x1f", "\x0b"):
        cookie = f"{space}codehub_session=evil; codehub_session={real}".encode("latin-1")
        answer = await environment.client().get(SESSION, headers={b"Cookie": cookie})
        assert answer.status_code == 200


async def test_another_site_cannot_sign_somebody_in(environment: ApiEnvironment) -> None:
    await environment.add_user("ann")
    client = environment.client(**{"Sec-Fetch-Site": "cross-site"})
    assert (await attempt(client, "ann", PASSWORD)).status_code == 403


async def test_the_forwarded_address_counts_only_from_whom_it_may(environment: ApiEnvironment) -> None:
    await environment.add_user("ann")

    async def address_seen(app: httpx.ASGITransport, chain: str = "198.51.100.9, 203.0.113.7") -> str:
        async with httpx.AsyncClient(transport=app, base_url=BASE_URL) as client:
            body = {"username": "ann", "password": PASSWORD}
            headers = {"X-Forwarded-For": chain}
            assert (await client.post(LOGIN, json=body, headers=headers)).status_code == 200
        async with environment.sessions() as session:
            seen = typed_text("SELECT detail->>'address' FROM audit_log ORDER BY seq DESC LIMIT 1", Text())
            return (await session.exec(seen)).one()

    assert await address_seen(httpx.ASGITransport(environment.app, client=("192.0.2.1", 5))) == "192.0.2.1"
    assert await address_seen(httpx.ASGITransport(environment.app, client=("", 0))) == "203.0.113.7"
    trusting = environment.with_settings(trusted_peers=AddressSet(["192.0.2.0/24", "10.1.2.3"]))
    assert await address_seen(httpx.ASGITransport(trusting, client=("192.0.2.1", 5))) == "203.0.113.7"
    # CodeHub's own proxy adds the front proxy's address: the client is the last one nobody vouches for.
    through_front = "6.6.6.6, 203.0.113.9, 10.1.2.3"
    assert await address_seen(httpx.ASGITransport(trusting, client=("", 0)), through_front) == "203.0.113.9"
    two_fronts = "203.0.113.9, 192.0.2.77, 10.1.2.3"
    assert (
        await address_seen(httpx.ASGITransport(trusting, client=("192.0.2.1", 5)), two_fronts)
        == "203.0.113.9"
    )
    assert await address_seen(httpx.ASGITransport(trusting, client=("", 0)), "10.1.2.3") == "10.1.2.3"


async def test_everything_is_audited_with_its_doer(environment: ApiEnvironment) -> None:
    admin = await environment.sign_in("admin")
    ann = await environment.sign_in("ann")
    await attempt(environment.client(), "ann", "wrong password")
    await attempt(environment.client(), "my-password-in-the-wrong-field", "x")
    workspace = await create_workspace(ann)
    await ann.post(f"/api/v1/workspaces/{workspace['id']}/start")
    made = (await ann.post("/api/v1/tokens", json={"name": "ci"})).json()
    await ann.delete(f"/api/v1/tokens/{made['id']}")
    await ann.post("/api/v1/auth/logout")
    entries = (await admin.get("/api/v1/admin/audit?limit=200")).json()["items"]
    told = [(each["actor"], each["action"]) for each in reversed(entries)]
    assert told == [
        ("test", "user.create"),
        ("user:admin", "session.begin"),
        ("test", "user.create"),
        ("user:ann", "session.begin"),
        ("anonymous", "session.refuse"),
        ("anonymous", "session.refuse"),
        ("user:ann", "workspace.create"),
        ("user:ann", "workspace.desired.running"),
        ("user:ann", "token.create"),
        ("user:ann", "token.revoke"),
        ("user:ann", "session.end"),
    ]
    assert "wrong-field" not in str(entries)


@pytest.fixture
def log_output() -> Iterator[StringIO]:
    stream = StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    logs.configure(json=True, level="debug", stream=stream)
    yield stream
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


async def test_no_secret_reaches_a_log(environment: ApiEnvironment, log_output: StringIO) -> None:
    ann = await environment.sign_in("ann")
    await attempt(environment.client(), "ann", "wrong but secret")
    made = await ann.post("/api/v1/tokens", json={"name": "ci"})
    tokened = environment.client(Authorization=f"Bearer {made.json()['token']}")
    await tokened.get("/api/v1/workspaces", headers={"X-Request-ID": "ask-me-later"})
    await ann.post("/api/v1/auth/password", json={"current": PASSWORD, "new": "another secret"})
    written = log_output.getvalue()
    assert '"request_id": "ask-me-later"' in written
    assert '"user_id"' in written
    for secret in (
        PASSWORD,
        "wrong but secret",
        "another secret",
        ann.cookies["codehub_session"],
        made.json()["token"],
    ):
        assert secret not in written
