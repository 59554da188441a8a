"""``codehub ssh`` and the system's own ssh reach workspaces, wake them on intent, and are cut with their rights."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from codehub.domain.states import Role
from codehub.signals.activity import ActivityLog
from tests.integration.cli.environment import CliEnvironment, Person
from tests.integration.cli.test_workspaces import create, parsed
from tests.support.instance import COMMAND, process_variables
from tests.support.requirements import require_inside, require_program
from tests.support.waiting import until

SECONDS = 120.0

pytestmark = pytest.mark.timeout(600)  # each command is a process that imports much


@pytest.fixture
async def environment(quiet_environment: CliEnvironment) -> AsyncIterator[CliEnvironment]:
    """With the local runtime: ``inside`` runs beside the workspace's own process."""
    require_program("ssh", package="openssh-client")
    require_inside()
    quiet_environment.with_ssh = True
    async with quiet_environment.serving(), quiet_environment.controlled():
        yield quiet_environment


async def status_of(person: Person, name: str) -> str:
    return str(parsed(await person.run("ws", "list", "--json", "-s", name))[0]["status"])


async def settle(person: Person, name: str, status: str) -> None:
    async def settled() -> bool:
        return await status_of(person, name) == status

    await until(settled, seconds=SECONDS, what=status, every=0.2)


async def program(person: Person, *command: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command,
        env=process_variables(**person.environment.variables_of(person.username)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def run(person: Person, *command: str) -> tuple[int | None, str, str]:
    process = await program(person, *command)
    async with asyncio.timeout(SECONDS):
        out, errors = await process.communicate(b"")
    return process.returncode, out.decode(), errors.decode()


async def session(person: Person, name: str, *flags: str) -> asyncio.subprocess.Process:
    """A session that runs until something ends it."""
    process = await program(person, *COMMAND, "ssh", *flags, name, "echo ready; exec sleep 600")
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        assert await process.stdout.readline() == b"ready\n"
    return process


async def end_of(process: asyncio.subprocess.Process) -> str:
    async with asyncio.timeout(SECONDS):
        _, errors = await process.communicate()
    return errors.decode()


async def test_ssh_wakes_a_workspace_and_runs_a_command_there(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    made = await create(ann, "thesis")
    code, out, errors = await run(ann, *COMMAND, "ssh", "thesis", "echo in $PWD; exit 7")
    assert code == 7, errors
    assert made["id"] in out  # its home
    assert "the workspace is starting" in errors
    assert await status_of(ann, "thesis") == "running"
    code, _, errors = await run(ann, *COMMAND, "ssh", "no-such-workspace")
    assert (code, "There is no workspace" in errors) == (4, True)


async def test_a_session_that_its_person_ended_is_not_held_against_them(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    await create(ann, "thesis")
    for _ in range(2):
        code, out, errors = await run(ann, *COMMAND, "ssh", "thesis", "echo hello")
        assert (code, out) == (0, "hello\n"), errors
        assert (await ann.run("ws", "stop", "thesis", "--wait")).code == 0


async def test_the_system_s_ssh_and_scp_reach_it_by_name(environment: CliEnvironment, tmp_path: Path) -> None:
    ann = await environment.signed_in("ann")
    made = await create(ann, "Thesis")
    config = tmp_path / "ssh-config"
    config.write_text("Host other\n  User kim")
    for _ in range(2):  # the second changes nothing
        assert (await ann.run("config-ssh", "--yes", "--file", str(config))).code == 0
    assert config.read_text().count("Host *.codehub") == 1
    ssh = ("-F", str(config))
    code, out, errors = await run(ann, "ssh", *ssh, "Thesis.codehub", "echo hello")
    assert (code, out) == (0, "hello\n"), errors
    code, out, errors = await run(ann, "ssh", *ssh, f"{made['id']}.codehub", "echo hello")
    assert (code, out) == (0, "hello\n"), errors
    code, _, errors = await run(ann, "scp", *ssh, str(config), "Thesis.codehub:copied")
    assert code == 0, errors
    code, out, errors = await run(ann, "ssh", *ssh, "Thesis.codehub", "cat copied")
    assert (code, out) == (0, config.read_text()), errors
    assert (await ann.run("config-ssh", "--yes", "--remove", "--file", str(config))).code == 0
    assert config.read_text().rstrip() == "Host other\n  User kim"


async def test_nothing_is_written_unasked(environment: CliEnvironment, tmp_path: Path) -> None:
    ann = await environment.signed_in("ann")
    config = tmp_path / "config"
    refused = await ann.run("config-ssh", "--file", str(config))
    assert refused.code == 2
    code, seen = await ann.at_terminal("config-ssh", "--file", str(config), typed="n\r")
    assert (code, "Host *.codehub" in seen) == (1, True)
    assert not config.exists()


async def test_a_session_is_a_lease(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    workspace_id = UUID((await create(ann, "thesis"))["id"])
    process = await session(ann, "thesis")
    activity = ActivityLog(environment.link)

    async def connections() -> int:
        return (await activity.read_many([workspace_id]))[workspace_id].connections

    async def is_open() -> bool:
        return await connections() == 1

    async def is_closed() -> bool:
        return await connections() == 0

    await until(is_open, seconds=SECONDS)
    process.terminate()
    await process.communicate()
    await until(is_closed, seconds=SECONDS)


async def test_a_client_that_was_put_to_sleep_does_not_wake_by_itself(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    await create(ann, "thesis")
    process = await session(ann, "thesis")
    assert (await ann.run("ws", "stop", "thesis", "--wait")).code == 0
    assert "put to sleep" in await end_of(process)
    await settle(ann, "thesis", "standby")
    for _ in range(5):  # as an editor does
        code, _, errors = await run(ann, *COMMAND, "ssh", "thesis", "true")
        assert code != 0
        assert "codehub ssh --wake thesis" in errors
    assert await status_of(ann, "thesis") == "standby"

    other_machine = environment.directory / "other-machine"
    await asyncio.to_thread(shutil.copytree, environment.config_dir("ann"), other_machine)
    (other_machine / "codehub/ssh-client-id").unlink()
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, "ssh", "thesis", "echo woken"),
        env=process_variables(**environment.variables_of("ann") | {"XDG_CONFIG_HOME": str(other_machine)}),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(), SECONDS)
    assert out == b"woken\n"

    assert (await ann.run("ws", "stop", "thesis", "--wait")).code == 0
    code, out_text, errors = await run(ann, *COMMAND, "ssh", "--wake", "thesis", "echo woken")
    assert (code, out_text) == (0, "woken\n"), errors


async def test_sessions_end_with_the_rights_of_their_person(environment: CliEnvironment) -> None:
    admin = await environment.signed_in("root", Role.ADMIN)
    ann = await environment.signed_in("ann")
    await create(ann, "thesis")
    of_ann, of_admin = await session(ann, "thesis"), await session(admin, "thesis")
    assert (await ann.run("logout")).code == 0  # revokes the token
    assert "signed out" in await end_of(of_ann)
    code, _, errors = await run(ann, *COMMAND, "ssh", "thesis", "true")
    assert (code, "not signed in" in errors) == (3, True)

    assert (await admin.run("ws", "rm", "thesis", "--yes")).code == 0
    assert "deleted" in await end_of(of_admin)


async def test_somebody_else_s_workspace_does_not_exist(environment: CliEnvironment) -> None:
    made = await create(await environment.signed_in("ann"), "thesis")
    bob = await environment.signed_in("bob")
    code, _, errors = await run(bob, *COMMAND, "ssh", made["id"], "true")
    assert (code, "There is no workspace" in errors) == (4, True)
