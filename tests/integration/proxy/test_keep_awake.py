"""The button of a workspace's tab, on its own host: one hour, asked for by a page of that very host."""

import time

import pytest

from codehub.proxy.identity import verify_principal
from tests.integration.proxy.conftest import MakeEnvironment, ProxyEnvironment
from tests.integration.proxy.raw import ok, replies
from tests.integration.proxy.test_start_logs import OWN, SIBLING, ask

PATH = b"/_codehub/keep-awake"
EMPTY = b"Content-Length: 0"


@pytest.fixture
async def environment(make_environment: MakeEnvironment) -> ProxyEnvironment:
    environment = await make_environment(
        api=replies(ok(b"{}", b"Content-Type: application/json")),
        public_url="http://hub.localhost:8000",
        base_domain="localhost",
    )
    directory = environment.directory
    directory.workspace_cookies[environment.workspace.id, "mine"] = directory.owner
    directory.workspace_cookies[environment.workspace.id, "other"] = directory.stranger
    return environment


def origin_of(environment: ProxyEnvironment) -> bytes:
    return f"Origin: http://{environment.workspace.id}.localhost:8000".encode()


async def test_the_owners_page_keeps_its_workspace_awake(environment: ProxyEnvironment) -> None:
    own = (*OWN, origin_of(environment), EMPTY)
    answer = await ask(environment, "mine", *own, method=b"POST", path=PATH + b"?hours=24")
    assert answer.status == 200
    (asked,) = environment.api.requests
    assert asked.line == f"POST /api/v1/workspaces/{environment.workspace.id}/keep-awake HTTP/1.1".encode()
    (signed,) = asked.values(b"x-codehub-principal")
    assert verify_principal(signed.decode(), secret=b"shared", now=time.time()) == environment.directory.owner
    assert asked.body == b""


async def test_nobody_elses_page_does(environment: ProxyEnvironment) -> None:
    origin = origin_of(environment)
    sibling = environment.directory.add()
    elsewhere = f"Origin: http://{sibling.id}.localhost:8000".encode()
    for secret, lines, host, status in (
        (None, (*OWN, origin), None, 401),
        ("wrong", (*OWN, origin), None, 401),
        ("other", (*OWN, origin), None, 404),
        ("mine", (*SIBLING, elsewhere), None, 403),  # the page of another workspace
        ("mine", (elsewhere,), None, 403),  # in an old browser
        ("mine", (), None, 403),  # nobody says where it comes from
        ("mine", (*OWN, elsewhere), str(sibling.id), 401),  # the cookie of one opens no other
        ("mine", (*OWN, origin), "hub", 403),
    ):
        answer = await ask(environment, secret, *lines, EMPTY, method=b"POST", path=PATH, host=host)
        assert answer.status == status, (secret, lines, host)
    assert environment.api.requests == []


async def test_it_is_one_hour_and_a_post(environment: ProxyEnvironment) -> None:
    own = (*OWN, origin_of(environment))
    assert (await ask(environment, "mine", *own, path=PATH)).status == 405
    client = await environment.client()
    fields = b"\r\n".join(
        (f"Host: {environment.workspace.id}.localhost:8000".encode(), b"Cookie: codehub_ws=mine", *own)
    )
    body = b'{"hours": 24}'
    await client.send(
        b"POST %b HTTP/1.1\r\n%b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (PATH, fields, len(body), body)
    )
    assert (await client.response()).status == 400
    assert environment.api.requests == []
