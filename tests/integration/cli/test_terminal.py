"""Terminals of the dashboard with the real program in a real workspace: shells that stay when a browser leaves."""

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from uuid import UUID

import pytest

from codehub.api.terminal.session import OUTPUT_WINDOW_BYTES
from codehub.domain.states import Role
from codehub.signals.activity import ActivityLog
from codehub.store.accounts import audit
from tests.integration.cli.environment import CliEnvironment, Person
from tests.integration.cli.test_ssh import settle, status_of
from tests.integration.cli.test_workspaces import create
from tests.support.requirements import require_inside
from tests.support.terminal_client import SECONDS, TerminalClient, terminal
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(600)

STOPPED, REVOKED, DELETED, TAKEN_OVER, SHELL_ENDED = 4001, 4002, 4003, 4007, 4008


@dataclass
class Desk:
    """Somebody in front of one workspace, which runs."""

    person: Person
    workspace_id: str

    def open(self, **query: object) -> AbstractAsyncContextManager[TerminalClient]:
        login = json.loads(self.person.environment.login_file(self.person.username).read_text())
        headers = {"Authorization": f"Bearer {login['token']}"}
        return terminal(self.person.environment.url, self.workspace_id, headers, **query)


@pytest.fixture
async def environment(quiet_environment: CliEnvironment) -> AsyncIterator[CliEnvironment]:
    require_inside()
    quiet_environment.with_ssh = True
    async with quiet_environment.serving(), quiet_environment.controlled():
        yield quiet_environment


@pytest.fixture
async def desk(environment: CliEnvironment) -> Desk:
    ann = await environment.signed_in("ann")
    made = await create(ann, "thesis")
    assert (await ann.run("ws", "start", "thesis", "--wait")).code == 0
    return Desk(ann, made["id"])


async def test_a_command_is_typed_and_the_window_is_as_large_as_the_browser_s(desk: Desk) -> None:
    async with desk.open(columns=91, rows=31) as shell:
        assert await shell.told_of("attached") == {"new": True}
        await shell.told_of("live")
        await shell.type("echo in-$((40+2)) $PWD $TERM\n")
        found = await shell.until(r"in-42 (\S+) xterm-256color")
        assert desk.workspace_id in found[1]  # its home
        await shell.type("stty size\n")
        await shell.until(r"31 91\b")
        await shell.control(resize=[101, 41])
        await shell.type("stty size\n")
        await shell.until(r"41 101\b")
        await shell.type("exit 7\n")
        assert await shell.closed() == SHELL_ENDED
        assert {"exit": 7} in shell.told
    async with desk.person.environment.control.sessions() as session:
        page = await audit.list_page(session)
    assert [each.actor for each in page.items if each.action == "workspace.terminal"] == ["user:ann"]


async def test_the_same_shell_is_found_after_a_lost_connection(desk: Desk) -> None:
    async with desk.open(client="page") as shell:
        pid = await shell.shell_pid()
        await shell.type("kept=4711; echo said-$((1+1))\n")
        await shell.until("said-2")
        shell.socket.transport.abort()  # no goodbye
    async with desk.open(client="page", resume="true") as shell:
        assert await shell.told_of("attached") == {"new": False}
        await shell.told_of("live")
        assert "said-2" in shell.shown  # told again
        assert await shell.shell_pid() == pid
        await shell.type("echo still-$kept\n")
        await shell.until("still-4711")
    async with desk.open(id="other") as other:
        assert await other.told_of("attached") == {"new": True}
        assert await other.shell_pid() != pid


async def test_the_same_shell_is_found_through_another_api(environment: CliEnvironment, desk: Desk) -> None:
    """The process that started the connection is gone: here its server, and every stream it had."""
    async with desk.open() as shell:
        pid = await shell.shell_pid()
    async with environment.serving():  # a second one, at the same address
        for _ in range(4):  # the kernel chooses which answers
            async with desk.open() as shell:
                assert await shell.shell_pid() == pid


async def test_the_first_of_two_pages_is_told_and_does_not_take_it_back(desk: Desk) -> None:
    async with desk.open(client="first") as first:
        pid = await first.shell_pid()
        async with desk.open(client="second") as second:
            await second.told_of("live")
            assert await first.closed() == TAKEN_OVER
            async with desk.open(client="first", resume="true") as back:
                assert await back.closed() == TAKEN_OVER
            assert await second.shell_pid() == pid


async def test_each_person_has_terminals_of_their_own(environment: CliEnvironment, desk: Desk) -> None:
    admin = Desk(await environment.signed_in("root", Role.ADMIN), desk.workspace_id)
    async with desk.open() as of_ann, admin.open() as of_admin:
        assert await of_ann.shell_pid() != await of_admin.shell_pid()


async def test_a_browser_that_shows_nothing_stops_the_program(desk: Desk) -> None:
    async with desk.open() as shell:
        await shell.told_of("live")
        await shell.type("yes 0123456789 | head -c 20000000; echo end-$((1+1)) | tee finished\n")
        seen = 0
        while seen < OUTPUT_WINDOW_BYTES:  # and never says that it was shown
            message = await shell.socket.recv()
            seen += len(message) if isinstance(message, bytes) else 0
        async with desk.open(id="other") as other:
            await other.type("ls finished || echo not-$((1+1))\n")
            await other.until("not-2")  # all of it has no room anywhere
        await shell.control(ack=seen)
        await shell.until("end-2")


async def test_much_input_arrives_while_there_is_output(desk: Desk) -> None:
    sent = b"0123456789abcdef" * 20_000
    async with desk.open() as shell:
        await shell.type("stty raw -echo; echo ready-$((1+1)); head -c 320000 | tee /dev/tty | sha256sum\n")
        await shell.until("ready-2")
        for begin in range(0, len(sent), 8000):
            while begin - sum(each.get("took", 0) for each in shell.told) > 64 * 1024:
                await shell.take()
            await shell.socket.send(sent[begin : begin + 8000])
        await shell.until(hashlib.sha256(sent).hexdigest())


async def test_messages_a_terminal_does_not_send_end_it(desk: Desk) -> None:
    for message in (
        b"x" * 70_000,
        "no JSON",
        '{"resize": [0, 10]}',
        '{"resize": [9, "x"]}',
        '{"ack": 1}',
        "[" * 200,
    ):
        async with desk.open() as shell:
            await shell.told_of("attached")
            await shell.socket.send(message)
            assert await shell.closed() == 1008, message[:20]


async def test_above_the_limit_the_one_left_longest_ago_makes_place(desk: Desk) -> None:
    first = await _visit(desk, id="t-0")
    for number in range(1, 9):
        await _visit(desk, id=f"t-{number}")
    assert await _visit(desk, id="t-0") != first


async def _visit(desk: Desk, **query: object) -> str:
    async with desk.open(**query) as shell:
        await shell.told_of("live")
        return await shell.shell_pid()


async def test_a_terminal_ends_with_the_rights_of_its_person(environment: CliEnvironment, desk: Desk) -> None:
    admin = Desk(await environment.signed_in("root", Role.ADMIN), desk.workspace_id)
    async with desk.open() as of_ann, admin.open() as of_admin:
        await of_ann.shell_pid()
        await of_admin.shell_pid()
        assert (await desk.person.run("logout")).code == 0  # revokes the token
        assert await of_ann.closed() == REVOKED
        assert (await admin.person.run("ws", "rm", "thesis", "--yes")).code == 0
        assert await of_admin.closed() == DELETED


async def test_one_that_sleeps_is_not_woken_and_a_new_shell_begins_when_it_is(desk: Desk) -> None:
    activity = ActivityLog(desk.person.environment.link)

    async def connections() -> int:
        workspace_id = UUID(desk.workspace_id)
        return (await activity.read_many([workspace_id]))[workspace_id].connections

    async def is_open() -> bool:
        return await connections() == 1

    async with desk.open(client="page") as shell:
        await shell.shell_pid()
        await until(is_open, seconds=SECONDS)
        read = (await activity.read_many([UUID(desk.workspace_id)]))[UUID(desk.workspace_id)]
        assert read.input_age is not None  # somebody opened it
        assert (await desk.person.run("ws", "stop", "thesis", "--wait")).code == 0
        assert await shell.closed() == STOPPED
    await settle(desk.person, "thesis", "standby")
    for _ in range(3):
        async with desk.open(client="page", resume="true") as shell:
            assert await shell.closed() == STOPPED
    assert await status_of(desk.person, "thesis") == "standby"
    assert (await desk.person.run("ws", "start", "thesis", "--wait")).code == 0
    async with desk.open(client="page", resume="true") as shell:
        assert await shell.told_of("attached") == {"new": True}
