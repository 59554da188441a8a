"""The output of a start, on a workspace's own host: for its owner's waiting page, and for nobody else."""

import time

import pytest

from codehub.domain.waking import Phase
from codehub.proxy.identity import verify_principal
from tests.integration.proxy.conftest import MakeEnvironment, ProxyEnvironment
from tests.integration.proxy.raw import Response, ok, replies

PATH = b"/_codehub/logs"
OWN = (b"Sec-Fetch-Site: same-origin", b"Sec-Fetch-Mode: cors", b"Sec-Fetch-Dest: empty")
SIBLING = (b"Sec-Fetch-Site: same-site", b"Sec-Fetch-Mode: cors", b"Sec-Fetch-Dest: empty")


@pytest.fixture
async def environment(make_environment: MakeEnvironment) -> ProxyEnvironment:
    """One workspace that starts, opened by its owner, whose cookie is ``mine``; a colleague's is ``other``."""
    environment = await make_environment(
        api=replies(ok(b"pip: collecting", b"Content-Type: text/plain")),
        public_url="http://hub.localhost:8000",
        base_domain="localhost",
        target={"phase": Phase.WAKING, "status": "starting"},
    )
    directory = environment.directory
    directory.workspace_cookies[environment.workspace.id, "mine"] = directory.owner
    directory.workspace_cookies[environment.workspace.id, "other"] = directory.stranger
    return environment


async def ask(
    environment: ProxyEnvironment,
    secret: str | None,
    *lines: bytes,
    method: bytes = b"GET",
    host: str | None = None,
    path: bytes = PATH,
) -> Response:
    client = await environment.client()
    fields = [f"Host: {host or environment.workspace.id}.localhost:8000".encode(), *lines]
    if secret is not None:
        fields.append(f"Cookie: codehub_ws={secret}".encode())
    await client.send(b"%b %b HTTP/1.1\r\n%b\r\n\r\n" % (method, path, b"\r\n".join(fields)))
    return await client.response()


async def test_the_owner_reads_them_by_a_name_the_api_can_check(environment: ProxyEnvironment) -> None:
    answer = await ask(environment, "mine", *OWN, b"X-CodeHub-Principal: forged", path=PATH + b"?follow=1")
    assert answer.body == b"pip: collecting"
    (asked,) = environment.api.requests
    assert asked.line == f"GET /api/v1/workspaces/{environment.workspace.id}/logs HTTP/1.1".encode()
    (signed,) = asked.values(b"x-codehub-principal")
    reader = verify_principal(signed.decode(), secret=b"shared", now=time.time())
    assert reader == environment.directory.owner
    assert asked.values(b"cookie") == [], "the workspace's cookie does not go along"
    assert environment.directory.wakes == [], "reading wakes nothing"
    assert not environment.activity.touches, "reading is no activity"


async def test_nobody_else_reads_them(environment: ProxyEnvironment) -> None:
    sibling = environment.directory.add(phase=Phase.WAKING, status="starting")
    assert (await ask(environment, None, *OWN)).status == 401
    assert (await ask(environment, "wrong", *OWN)).status == 401
    assert (await ask(environment, "other", *OWN)).status == 404
    # The cookie of one workspace opens no other, and the page of one reads no other's.
    assert (await ask(environment, "mine", *OWN, host=str(sibling.id))).status == 401
    assert (await ask(environment, "mine", *SIBLING)).status == 403
    assert (await ask(environment, "mine", *OWN, host="hub")).status == 404
    assert environment.api.requests == []


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"DELETE"])
async def test_they_are_read_only(environment: ProxyEnvironment, method: bytes) -> None:
    origin = f"Origin: http://{environment.workspace.id}.localhost:8000".encode()
    answer = await ask(environment, "mine", *OWN, origin, b"Content-Length: 0", method=method)
    assert answer.status == 405
    assert answer.values(b"allow") == [b"GET, HEAD"]
    assert environment.api.requests == []


async def test_pages_of_the_workspace_that_runs_do_not_read_them(environment: ProxyEnvironment) -> None:
    environment.directory.change(environment.workspace.id, phase=Phase.RUNNING, status="running")
    assert (await ask(environment, "mine", *OWN)).status == 404
    assert environment.api.requests == []
