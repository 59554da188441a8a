"""Who may call what, as one table: every route × everybody. A route that is not in it fails the test.

Everybody is: nobody at all, the owner of a workspace, another person, an administrator, the owner by a
token, and somebody disabled who still has a cookie.
"""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import text

from tests.integration.api.environment import ApiEnvironment, create_workspace, user_id
from tests.support.archive_forgery import member, plant_tar, tar_of
from tests.unit.domain.test_ssh_keys import written

WHO = ("nobody", "owner", "other", "admin", "token", "disabled")


@dataclass(frozen=True)
class Call:
    """One route, and what nobody, owner, other, admin, token and disabled get."""

    method: str
    path: str
    expected: tuple[int, int, int, int, int, int]
    body: Any = None


def everyone(status: int) -> tuple[int, int, int, int, int, int]:
    """Everybody who is signed in."""
    return (401, status, status, status, status, 401)


def mine(status: int) -> tuple[int, int, int, int, int, int]:
    """Of the owner and administrators; to others it does not exist."""
    return (401, status, 404, status, status, 401)


def admins(status: int) -> tuple[int, int, int, int, int, int]:
    return (401, 403, 403, status, 403, 401)


OPEN = (200,) * 6
WS = "/api/v1/workspaces/{workspace_id}"
IN_ARCHIVE = WS + "/archives/{op_id}/{attempt}/files"
NO_ARCHIVE = {"op_id": str(UUID(int=7)), "attempt": "0" * 32}
TABLE = [
    Call("GET", "/api/v1/auth/session", everyone(200)),
    Call("POST", "/api/v1/auth/login", (401,) * 6),
    Call("POST", "/api/v1/auth/logout", everyone(204)),
    Call("POST", "/api/v1/auth/password", everyone(403), {"current": "wrong", "new": "new password"}),
    Call("GET", "/api/v1/tokens", everyone(200)),
    Call("POST", "/api/v1/tokens", everyone(201), {"name": "ci"}),
    Call("DELETE", "/api/v1/tokens/{token_id}", (401, 404, 404, 404, 404, 401)),
    Call("GET", "/api/v1/ssh-keys", everyone(200)),
    Call("POST", "/api/v1/ssh-keys", everyone(201), {"name": "laptop"}),
    Call("DELETE", "/api/v1/ssh-keys/{key_id}", (401, 204, 404, 404, 204, 401)),  # ann's
    Call("GET", "/api/v1/workspaces", everyone(200)),
    Call("POST", "/api/v1/workspaces", everyone(201), {"name": "new"}),
    Call("GET", WS, mine(200)),
    Call("PATCH", WS, mine(200), {"memo": "hello"}),
    Call("DELETE", WS, mine(202)),
    Call("POST", WS + "/start", mine(202)),
    Call("POST", WS + "/stop", mine(409)),
    Call("POST", WS + "/archive", mine(202)),
    Call("POST", WS + "/keep-awake", mine(202), {"hours": 1}),
    Call("POST", WS + "/recover", mine(202)),  # without an error; with one: test_who_may_lift_an_error
    Call("POST", WS + "/return-to-archive", mine(409), {"archive_key": "one"}),  # test_return_to_archive
    Call("POST", WS + "/restore", mine(404), NO_ARCHIVE),  # there is none; where there is: test_restore
    Call("DELETE", WS + "/restore", mine(202)),
    Call("POST", WS + "/snapshots", mine(409), {"name": "kept"}),  # nothing to keep yet: test_snapshots
    Call("PATCH", WS + "/snapshots/{snapshot_id}", mine(404), {"name": "kept"}),
    Call("DELETE", WS + "/snapshots/{snapshot_id}", mine(202)),
    Call("POST", WS + "/copies", mine(409), {"name": "a copy"}),
    Call("GET", WS + "/history", mine(200)),
    Call("GET", WS + "/archives", mine(200)),
    Call("GET", WS + "/archives/{op_id}/{attempt}/home.tar.zst", mine(200)),
    Call("GET", IN_ARCHIVE, mine(200)),
    Call("GET", IN_ARCHIVE + "/stat", mine(200)),
    Call("GET", IN_ARCHIVE + "/content", mine(409)),
    Call("GET", IN_ARCHIVE + "/archive", mine(200)),
    Call("POST", IN_ARCHIVE + "/put-back", mine(409), {"path": "file"}),  # it sleeps
    Call("GET", WS + "/logs", mine(200)),
    Call("GET", WS + "/ssh", mine(200)),
    Call("POST", WS + "/exec", mine(409), {"argv": ["true"]}),  # it sleeps; one that runs: test_inside
    Call("GET", WS + "/processes", mine(409)),  # it sleeps; one that runs: test_processes
    Call("POST", WS + "/processes", mine(409), {"argv": ["true"]}),
    Call("GET", WS + "/processes/{process_id}/logs", mine(409)),
    Call("POST", WS + "/processes/{process_id}/kill", mine(409), {}),
    Call("GET", WS + "/files", mine(409)),
    Call("DELETE", WS + "/files", mine(409)),
    Call("GET", WS + "/files/stat", mine(409)),
    Call("GET", WS + "/files/content", mine(409)),
    Call("PUT", WS + "/files/content", mine(409)),
    Call("POST", WS + "/files/directory", mine(409), {"path": "notes"}),
    Call("POST", WS + "/files/move", mine(409), {"path": "notes", "target": "old"}),
    Call("GET", WS + "/files/archive", mine(409)),
    Call("PUT", WS + "/files/archive", mine(409)),
    Call("GET", WS + "/ports", mine(409)),  # it sleeps; one that runs: test_ports
    Call("GET", WS + "/shares", mine(200)),
    Call("PUT", WS + "/shares/{port}", mine(200), {"level": "private", "label": "web"}),
    Call("DELETE", WS + "/shares/{port}", mine(404)),  # it has none; one that has: test_port_shares
    Call("GET", "/api/v1/images", everyone(200)),
    Call("GET", "/api/v1/limits", everyone(200)),
    Call("GET", "/api/v1/savings", everyone(200)),
    Call("GET", "/api/v1/users", admins(200)),
    Call("POST", "/api/v1/users", admins(201), {"username": "newcomer", "password": "a password"}),
    Call("PATCH", "/api/v1/users/{user_id}", admins(404), {"disabled": True}),
    Call("GET", "/api/v1/admin/overview", admins(200)),
    Call("GET", "/api/v1/admin/savings", admins(200)),
    Call("GET", "/api/v1/admin/orphans", admins(200)),
    Call("GET", "/api/v1/admin/findings", admins(200)),
    Call("GET", "/api/v1/admin/settings", admins(200)),
    Call("POST", "/api/v1/admin/findings/{workspace_id}/repair", admins(202), {"repair": "return_to_newest"}),
    Call("GET", "/api/v1/admin/audit", admins(200)),
    Call("GET", "/health/live", OPEN),
    Call("GET", "/health/ready", OPEN),
    Call("GET", "/health/coordinator", OPEN),
    Call("GET", "/metrics", OPEN),
]
STREAMS = {WS + "/events", "/api/v1/events"}  # endless; asked below


async def everybody(environment: ApiEnvironment) -> dict[str, httpx.AsyncClient]:
    owner = await environment.sign_in("ann")
    disabled = await environment.sign_in("eve")
    admin = await environment.sign_in("admin")
    answer = await admin.patch(f"/api/v1/users/{await user_id(disabled)}", json={"disabled": True})
    assert answer.status_code == 200
    return {
        "nobody": environment.client(),
        "owner": owner,
        "other": await environment.sign_in("bob"),
        "admin": admin,
        "token": await environment.token_client(owner),
        "disabled": disabled,
    }


def new_key(who: str) -> dict[str, str]:
    """A public key for each: it belongs to one person."""
    return {"name": who, "public_key": written("ssh-ed25519", who.encode().ljust(32))}


async def added_key(client: httpx.AsyncClient, who: str) -> str:
    """The id of a new key of this person's."""
    answer = await client.post("/api/v1/ssh-keys", json=new_key(who))
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_every_route_is_in_the_table(environment: ApiEnvironment) -> None:
    routes = {
        (method.upper(), path)
        for path, operations in environment.app.openapi()["paths"].items()
        if path not in STREAMS
        for method in operations
    }
    assert routes == {(call.method, call.path) for call in TABLE}


@pytest.mark.parametrize("call", TABLE, ids=lambda call: f"{call.method} {call.path}")
async def test_who_may_call_what(environment: ApiEnvironment, call: Call) -> None:
    people = await everybody(environment)
    for who, expected in zip(WHO, call.expected, strict=True):
        # A fresh workspace each: what one person did must not answer for the next.
        workspace = await create_workspace(people["token"], f"of ann for {who}")
        archive = plant_tar(environment.archives, UUID(workspace["id"]), tar_of(member("file", size=4)))
        path = call.path.format(
            workspace_id=workspace["id"],
            token_id=uuid4(),
            process_id="5f0c2a9d1b7e",
            key_id=await added_key(people["token"], who) if "{key_id}" in call.path else None,
            user_id=uuid4(),
            port=3000,
            snapshot_id=uuid4(),
            op_id=archive.op_id,
            attempt=archive.attempt,
        )
        body = call.body
        if call.path == "/api/v1/workspaces" and call.method == "POST":
            body = {"name": f"new for {who}"}
        if call.path == "/api/v1/auth/login":
            body = {"username": f"no-{who}", "password": "wrong password"}
        if call.path == "/api/v1/ssh-keys" and call.method == "POST":
            body = new_key(who)
        answer = await people[who].request(call.method, path, json=body)
        assert answer.status_code == expected, (who, answer.text)
        if call.path == WS + "/start":
            await people["token"].post(f"/api/v1/workspaces/{workspace['id']}/archive")
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["status"] == expected


async def test_streams_are_closed_to_strangers(environment: ApiEnvironment) -> None:
    people = await everybody(environment)
    workspace = await create_workspace(people["owner"])
    one = f"/api/v1/workspaces/{workspace['id']}/events"
    assert (await people["nobody"].get(one)).status_code == 401
    assert (await people["disabled"].get(one)).status_code == 401
    assert (await people["other"].get(one)).status_code == 404
    assert (await people["nobody"].get("/api/v1/events")).status_code == 401
    assert (await people["other"].get("/api/v1/events?owner=all")).status_code == 403
    owner_id = await user_id(people["owner"])
    assert (await people["other"].get(f"/api/v1/events?owner={owner_id}")).status_code == 403


async def test_another_workspace_is_the_same_404_as_none(environment: ApiEnvironment) -> None:
    owner, other = await environment.sign_in("ann"), await environment.sign_in("bob")
    workspace = await create_workspace(owner)
    hidden = await other.get(f"/api/v1/workspaces/{workspace['id']}")
    missing = await other.get(f"/api/v1/workspaces/{uuid4()}")
    assert hidden.status_code == missing.status_code == 404
    assert hidden.json() == missing.json()


async def test_others_workspaces_are_listed_for_admins_alone(environment: ApiEnvironment) -> None:
    owner, other, admin = [await environment.sign_in(name) for name in ("ann", "bob", "admin")]
    workspace = await create_workspace(owner)
    owner_id = await user_id(owner)

    async def listed(client: httpx.AsyncClient, query: str = "") -> list[str]:
        answer = await client.get(f"/api/v1/workspaces{query}")
        assert answer.status_code == 200, answer.text
        return [each["id"] for each in answer.json()["items"]]

    assert await listed(owner) == [workspace["id"]]
    assert await listed(owner, f"?owner={owner_id}") == [workspace["id"]]
    assert await listed(other) == []
    assert await listed(admin) == []
    assert await listed(admin, "?owner=all") == [workspace["id"]]
    assert await listed(admin, f"?owner={owner_id}") == [workspace["id"]]
    assert (await other.get("/api/v1/workspaces?owner=all")).status_code == 403
    assert (await other.get(f"/api/v1/workspaces?owner={owner_id}")).status_code == 403


async def execute(environment: ApiEnvironment, statement: str, **values: Any) -> None:
    async with environment.sessions.begin() as session:
        await session.exec(text(statement), values)


def an_error(operation: str, reason: str, *, terminal: bool) -> str:
    info = {
        "reason": reason,
        "message": "words",
        "is_terminal": terminal,
        "operation": operation,
        "context": {},
    }
    return json.dumps(info | {"error_count": 1, "occurred_at": "2026-01-01T00:00:00+00:00"})


GIVEN_UP = json.dumps(
    {"volume": True, "archive_failures": 1, "archive_retry_at": "2099-01-01T00:00:00+00:00"}
)


@pytest.mark.parametrize(
    ("operation", "reason", "terminal", "expected"),
    [
        ("ARCHIVING", "ActionFailed", False, mine(202)),  # given up for a while
        ("ARCHIVING", "RetryExceeded", True, mine(202)),  # by an older release
        ("ARCHIVING", "Mismatch", True, admins(202)),
        ("RESTORING", "DataLost", True, admins(202)),
        ("STARTING", "RetryExceeded", True, admins(202)),
    ],
)
async def test_who_may_lift_an_error(
    environment: ApiEnvironment, operation: str, reason: str, terminal: bool, expected: tuple[int, ...]
) -> None:
    people = await everybody(environment)
    for who, status in zip(WHO, expected, strict=True):
        workspace = await create_workspace(people["token"], f"for {who}")
        await execute(
            environment,
            "UPDATE workspaces SET error_info = cast(:info as jsonb), home_ctx = cast(:home as jsonb), "
            "observed_status = 'STANDBY' WHERE id = cast(:id as uuid)",
            info=an_error(operation, reason, terminal=terminal),
            home="{}" if terminal else GIVEN_UP,
            id=workspace["id"],
        )
        answer = await people[who].post(f"/api/v1/workspaces/{workspace['id']}/recover")
        if who == "other":
            status = 404  # to others it does not exist, whatever is wrong with it
        assert answer.status_code == status, (who, answer.text)
        left = (await people["admin"].get(f"/api/v1/workspaces/{workspace['id']}")).json()["error_info"]
        assert (left is None) == (status == 202)


async def test_a_start_lifts_an_archiving_error_of_an_older_release(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    info = an_error("ARCHIVING", "RetryExceeded", terminal=True)
    await execute(
        environment,
        "UPDATE workspaces SET error_info = cast(:info as jsonb), observed_status = 'STANDBY'",
        info=info,
    )
    started = (await ann.post(f"/api/v1/workspaces/{workspace['id']}/start")).json()
    assert (started["error_info"], started["desired_state"]) == (None, "RUNNING")


async def test_what_is_broken_and_does_not_run_holds_no_place(environment: ApiEnvironment) -> None:
    ann, admin = await environment.sign_in("ann"), await environment.sign_in("admin")
    broken = [await create_workspace(ann, name, start=True) for name in ("one", "two")]
    info = an_error("RESTORING", "DataLost", terminal=True)
    await execute(environment, "UPDATE workspaces SET error_info = cast(:info as jsonb)", info=info)
    assert (await ann.get("/api/v1/limits")).json()["user"]["used"] == 0
    for name in ("three", "four"):
        await create_workspace(ann, name, start=True)
    answer = await admin.post(f"/api/v1/workspaces/{broken[0]['id']}/recover")
    assert (answer.status_code, answer.json()["code"]) == (429, "limit_user")  # it takes a place again
