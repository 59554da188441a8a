"""Terminals: who may open one, from which page, and what a hostile workspace can say."""

import pytest
from websockets.exceptions import InvalidStatus

from tests.integration.api.environment import BASE_URL, ApiEnvironment, create_workspace, serve
from tests.integration.api.test_inside import frame, running, saying
from tests.integration.api.test_roles import WHO, everybody
from tests.integration.api.test_ssh import UPGRADED, headers_of, status_of
from tests.support.fake_exec import FakeProcess
from tests.support.terminal_client import terminal

STOPPED, NO_TUNNEL, TOO_MANY, NO_SHELL, NOT_AVAILABLE = 4001, 4006, 4009, 4010, 4011


async def test_who_may_open_one(environment: ApiEnvironment) -> None:
    people = await everybody(environment)
    expected = dict(zip(WHO, (401, UPGRADED, 404, UPGRADED, UPGRADED, 401), strict=True))
    path = await running(environment, people["owner"], saying(frame(b"f")))
    async with serve(environment.app) as url:
        for who, client in people.items():
            assert await status_of(url, f"{path}/terminal", headers_of(client)) == expected[who], who
        audit = (await people["admin"].get("/api/v1/admin/audit")).json()["items"]
    entered = [each["actor"] for each in audit if each["action"] == "workspace.terminal"]
    assert set(entered) <= {"user:admin", "user:ann"}, "and nobody who was refused"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", None])
async def test_a_browser_opens_it_from_our_own_pages_only(
    environment: ApiEnvironment, origin: str | None
) -> None:
    owner = await environment.sign_in("ann")
    path = await running(environment, owner, saying(frame(b"f")))
    async with serve(environment.app) as url:
        sent = headers_of(owner)
        assert sent.pop("Origin") == BASE_URL
        if origin is not None:
            sent["Origin"] = origin
        assert await status_of(url, f"{path}/terminal", sent) == 403


async def test_one_that_sleeps_is_told_and_not_woken(environment: ApiEnvironment) -> None:
    owner = await environment.sign_in("ann")
    made = await create_workspace(owner)
    async with serve(environment.app) as url:
        async with terminal(url, made["id"], headers_of(owner)) as shell:
            assert await shell.closed() == STOPPED
        with pytest.raises(InvalidStatus):
            async with terminal(url, made["id"], headers_of(owner), id="../x"):
                pass
    seen = (await owner.get(f"/api/v1/workspaces/{made['id']}")).json()
    assert seen["desired_state"] == "PENDING"
    audit = (await (await environment.sign_in("admin")).get("/api/v1/admin/audit")).json()["items"]
    assert "workspace.terminal" not in {each["action"] for each in audit}


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"", NO_TUNNEL),  # a program that does not know the verb
        (b"usage: inside ssh", NO_TUNNEL),
        (frame(b"?"), NO_TUNNEL),
        (b"o\xff\xff\xff", NO_TUNNEL),
        (frame(b"f"), TOO_MANY),
        (frame(b"e", b"no shell" * 1000), NO_SHELL),
    ],
)
async def test_what_a_workspace_says_is_checked(environment: ApiEnvironment, said: bytes, code: int) -> None:
    owner = await environment.sign_in("ann")
    path = await running(environment, owner, saying(said))
    async with (
        serve(environment.app) as url,
        terminal(url, path.rpartition("/")[2], headers_of(owner)) as shell,
    ):
        assert await shell.closed() == code
        assert all(len(str(each)) < 600 for each in shell.told)


async def test_frames_in_pieces_are_put_together(environment: ApiEnvironment) -> None:
    async def program(process: FakeProcess) -> int:
        line = await process.read()
        assert b'"columns": 80' in line
        for byte in frame(b"a", b"\1") + frame(b"l") + frame(b"o", "한국어".encode()) + frame(b"x", b"\7"):
            await process.say(bytes([byte]))
        return 0

    owner = await environment.sign_in("ann")
    path = await running(environment, owner, program)
    async with (
        serve(environment.app) as url,
        terminal(url, path.rpartition("/")[2], headers_of(owner)) as shell,
    ):
        assert await shell.closed() == 4008
        assert (shell.shown, shell.told) == (
            "한국어",
            [{"attached": {"new": True}}, {"live": True}, {"exit": 7}],
        )
