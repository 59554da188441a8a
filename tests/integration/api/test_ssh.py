"""Who may connect by SSH, and from which page: the WebSocket ``/workspaces/{id}/ssh``."""

import asyncio
from uuid import UUID, uuid4

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from codehub.api.app import end_streams
from codehub.api.inside import session
from codehub.api.inside.endings import ENDING
from codehub.api.ssh.session import IDENTIFICATION, SESSIONS
from codehub.services.ssh_host_keys import host_key_seed
from tests.integration.api.environment import BASE_URL, ApiEnvironment, create_workspace, serve, user_id
from tests.integration.api.test_roles import WHO, everybody
from tests.support.waiting import until

UPGRADED = 101


def headers_of(client: httpx.AsyncClient) -> dict[str, str]:
    """What this person's program, or browser, sends with a WebSocket."""
    sent = {name: client.headers[name] for name in ("Authorization", "Origin") if name in client.headers}
    if client.cookies:
        sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    return sent


async def status_of(url: str, path: str, headers: dict[str, str]) -> int:
    """The HTTP status that a WebSocket is answered with."""
    try:
        async with connect(url.replace("http", "ws") + path, additional_headers=headers, proxy=None):
            return UPGRADED
    except InvalidStatus as refused:
        return refused.response.status_code


async def test_who_may_connect(environment: ApiEnvironment) -> None:
    people = await everybody(environment)
    expected = dict(zip(WHO, (401, UPGRADED, 404, UPGRADED, UPGRADED, 401), strict=True))
    async with serve(environment.app) as url:
        workspace = await create_workspace(people["owner"], start=True)
        path = f"/api/v1/workspaces/{workspace['id']}/ssh"
        for who, client in people.items():
            assert await status_of(url, path, headers_of(client)) == expected[who], who
        audit = (await people["admin"].get("/api/v1/admin/audit")).json()["items"]
        entered = [each["actor"] for each in audit if each["action"] == "workspace.ssh"]
        assert sorted(entered) == ["user:admin", "user:ann", "user:ann"], "and nobody who was refused"
        unknown = f"/api/v1/workspaces/{uuid4()}/ssh"
        assert await status_of(url, unknown, headers_of(people["owner"])) == 404
        assert await status_of(url, "/api/v1/workspaces", headers_of(people["owner"])) == 403


@pytest.mark.parametrize("origin", ["https://evil.example", "null", None])
async def test_a_browser_connects_from_our_own_pages_only(
    environment: ApiEnvironment, origin: str | None
) -> None:
    owner = await environment.sign_in("ann")
    async with serve(environment.app) as url:
        workspace = await create_workspace(owner, start=True)
        path = f"/api/v1/workspaces/{workspace['id']}/ssh"
        sent = headers_of(owner)
        assert sent.pop("Origin") == BASE_URL
        if origin is not None:
            sent["Origin"] = origin
        assert await status_of(url, path, sent) == 403


async def test_the_identification_line_comes_before_the_workspace_runs(
    environment: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LOOK_SECONDS", 0.2)  # nobody sends news here
    token = await environment.token_client(await environment.sign_in("ann"))
    workspace = await create_workspace(token)
    async with serve(environment.app) as url:
        address = f"{url.replace('http', 'ws')}/api/v1/workspaces/{workspace['id']}/ssh?wake=true"
        async with connect(address, additional_headers=headers_of(token), proxy=None) as socket:
            async with asyncio.timeout(30):
                assert await socket.recv() == IDENTIFICATION
            now = (await token.get(f"/api/v1/workspaces/{workspace['id']}")).json()
            assert (now["desired_state"], now["observed_status"]) == ("RUNNING", "PENDING")
            assert (await token.delete(f"/api/v1/workspaces/{workspace['id']}")).status_code == 202
            async with asyncio.timeout(60):
                await socket.wait_closed()
        assert socket.close_code == 4003


async def test_only_who_asks_for_it_wakes(environment: ApiEnvironment) -> None:
    owner = await environment.sign_in("ann")
    token = await environment.token_client(owner)
    workspace = await create_workspace(token)
    path = f"/api/v1/workspaces/{workspace['id']}/ssh"
    ended = environment.app.state.codehub.ended_clients
    async with serve(environment.app) as url:
        assert await status_of(url, path, headers_of(token)) == 409
        await ended.remember(UUID(workspace["id"]), f"{await user_id(owner)} laptop")
        for _ in range(20):
            assert await status_of(url, path + "?wake=true&client=laptop", headers_of(token)) == 409
        seen = (await token.get(f"/api/v1/workspaces/{workspace['id']}")).json()
        assert seen["desired_state"] == "PENDING"  # what comes back by itself wakes nothing
        assert await status_of(url, path + "?wake=true&client=desktop", headers_of(token)) == UPGRADED


async def test_a_process_that_ends_says_so_and_nobody_was_signed_out(environment: ApiEnvironment) -> None:
    owner = await environment.sign_in("ann")
    token = await environment.token_client(owner)
    workspace = await create_workspace(token)
    path = f"/api/v1/workspaces/{workspace['id']}/ssh?wake=true&client=laptop"
    async with serve(environment.app) as url:
        address = url.replace("http", "ws") + path
        async with connect(address, additional_headers=headers_of(token), proxy=None) as socket:
            assert await socket.recv() == IDENTIFICATION
            end_streams(environment.app)
            async with asyncio.timeout(30):
                await socket.wait_closed()
        assert (socket.close_code, socket.close_reason) == (ENDING.code, ENDING.reason)
        ended = environment.app.state.codehub.ended_clients
        assert await ended.comes_back(UUID(workspace["id"]), f"{await user_id(owner)} laptop")


@pytest.mark.parametrize(("code", "remembered"), [(1000, False), (1001, True)])
async def test_only_a_client_that_closes_by_itself_is_done(
    environment: ApiEnvironment, code: int, remembered: bool
) -> None:
    """A proxy that ends closes with 1001 for its clients, and these may come back by themselves."""
    owner = await environment.sign_in("ann")
    token = await environment.token_client(owner)
    workspace = await create_workspace(token)
    path = f"/api/v1/workspaces/{workspace['id']}/ssh?wake=true&client=laptop"
    async with serve(environment.app) as url:
        address = url.replace("http", "ws") + path
        async with connect(address, additional_headers=headers_of(token), proxy=None) as socket:
            assert await socket.recv() == IDENTIFICATION
            before = SESSIONS._value.get()
            await socket.close(code)
        await until(lambda: SESSIONS._value.get() == before - 1)
    ended = environment.app.state.codehub.ended_clients  # served to the end: the route has returned
    assert await ended.comes_back(UUID(workspace["id"]), f"{await user_id(owner)} laptop") == remembered


def test_host_keys_are_per_workspace_and_stay() -> None:
    one, two = uuid4(), uuid4()
    assert host_key_seed(b"secret", one) == host_key_seed(b"secret", one)
    assert host_key_seed(b"secret", one) != host_key_seed(b"secret", two)
    assert host_key_seed(b"secret", one) != host_key_seed(b"other", one)
    assert len(host_key_seed(b"secret", one)) == 32
