"""OpenSSH's own client reaches workspaces through the gateway, wakes them on intent, and is cut with its rights."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from codehub.domain.states import Role
from codehub.services import accounts
from codehub.signals.activity import ActivityLog
from codehub.signals.live import LivePublisher
from tests.integration.cli.environment import CliEnvironment, Person
from tests.integration.cli.test_ssh import settle, status_of
from tests.integration.cli.test_workspaces import create, parsed
from tests.support.gateway import SECONDS, PlainSsh, end_of
from tests.support.requirements import require_inside, require_program
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(600)  # each command is a process that imports much


@pytest.fixture
async def environment(quiet_environment: CliEnvironment) -> AsyncIterator[CliEnvironment]:
    require_program("ssh", package="openssh-client")
    require_inside()
    quiet_environment.with_ssh = True
    async with quiet_environment.serving(), quiet_environment.controlled():
        yield quiet_environment


async def plain_ssh(person: Person, name: str = "ssh") -> PlainSsh:
    """This person's OpenSSH, whose key is registered."""
    environment = person.environment
    assert environment.gateway is not None
    directory = environment.directory / f"{name}-{person.username}"
    ssh = await asyncio.to_thread(PlainSsh.create, directory, person.username, environment.gateway)
    added = await person.run("keys", "add", str(directory / "key.pub"), "--name", name)
    assert added.code == 0, added.errors
    return ssh


async def test_a_command_and_its_exit_code_from_standby(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    made = await create(ann, "Thesis")
    ssh = await plain_ssh(ann)
    code, out, errors = await ssh.run(*ssh.jump(), "thesis", "echo in $PWD; exit 7")
    assert code == 7, errors
    assert made["id"] in out  # its home
    assert await status_of(ann, "Thesis") == "running"
    for host in (made["id"], "Thesis.codehub"):
        code, out, errors = await ssh.run(*ssh.jump(), host, "cat", stdin=b"hello")
        assert (code, out) == (0, "hello"), errors

    async def is_recorded() -> bool:
        (key,) = parsed(await ann.run("keys", "list", "--json"))
        return key["last_used_at"] is not None

    await until(is_recorded, seconds=SECONDS, every=0.2)


async def test_a_session_that_its_person_ended_is_not_held_against_them(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    await create(ann, "thesis")
    ssh = await plain_ssh(ann)
    for _ in range(2):
        code, out, errors = await ssh.run(*ssh.jump(), "thesis", "echo hello")
        assert (code, out) == (0, "hello\n"), errors
        assert (await ann.run("ws", "stop", "thesis", "--wait")).code == 0


async def test_files_go_both_ways(environment: CliEnvironment, tmp_path: Path) -> None:
    ann = await environment.signed_in("ann")
    await create(ann, "thesis")
    ssh = await plain_ssh(ann)
    content = bytes(range(256)) * 4096 * 8  # 8 MiB: more than any window
    sent, returned = tmp_path / "sent", tmp_path / "returned"
    sent.write_bytes(content)
    code, _, errors = await ssh.run(*ssh.jump(), str(sent), "thesis:copied", program="scp")
    assert code == 0, errors
    batch = f"get copied {returned}\n".encode()
    code, _, errors = await ssh.run(*ssh.jump(), "-b", "-", "thesis", program="sftp", stdin=batch)
    assert code == 0, errors
    assert returned.read_bytes() == content


async def test_host_keys_stay_through_sleep_and_archive(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    ssh = await plain_ssh(ann)
    for name in ("one", "two"):
        await create(ann, name)
        code, _, errors = await ssh.run(*ssh.jump(), name, "true")
        assert code == 0, errors
    known = {line.split()[0]: line.split()[2] for line in ssh.known_hosts.splitlines()}
    assert len({*known.values()}) == 3, "two workspaces and the gateway"
    for name, verb in (("one", "stop"), ("two", "archive")):
        assert (await ann.run("ws", verb, name, "--wait")).code == 0
        code, out, errors = await ssh.run("-o", "StrictHostKeyChecking=yes", *ssh.jump(), name, "echo same")
        assert (code, out) == (0, "same\n"), errors


async def test_a_session_is_a_lease(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    workspace_id = UUID((await create(ann, "thesis"))["id"])
    ssh = await plain_ssh(ann)
    process = await ssh.session("thesis")
    activity = ActivityLog(environment.link)

    async def connections() -> int:
        return (await activity.read_many([workspace_id]))[workspace_id].connections

    async def is_open() -> bool:
        return await connections() == 1

    async def is_closed() -> bool:
        return await connections() == 0

    await until(is_open, seconds=SECONDS)
    used = (await activity.read_many([workspace_id]))[workspace_id]
    assert used.input_age is not None, "or it would count as untouched after a tab that was touched before"
    process.terminate()
    await process.communicate()
    await until(is_closed, seconds=SECONDS)


async def test_a_client_that_was_put_to_sleep_wakes_only_if_a_person_asks(
    environment: CliEnvironment,
) -> None:
    ann = await environment.signed_in("ann")
    await create(ann, "thesis")
    ssh = await plain_ssh(ann)
    process = await ssh.session("thesis")
    assert (await ann.run("ws", "stop", "thesis", "--wait")).code == 0
    assert "put to sleep" in await end_of(process)
    await settle(ann, "thesis", "standby")
    for _ in range(5):  # as an editor does
        code, _, errors = await ssh.run(*ssh.jump(), "thesis", "true")
        assert code == 255
        assert "ssh -J ann+wake@127.0.0.1" in errors
    assert await status_of(ann, "thesis") == "standby"
    code, out, errors = await ssh.run(*ssh.jump("ann+wake"), "thesis", "echo woken")
    assert (code, out) == (0, "woken\n"), errors


async def test_another_person_s_workspace_and_name_are_refused(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    made = await create(ann, "thesis")
    root = await environment.signed_in("root", Role.ADMIN)
    for person in (await environment.signed_in("bob"), root):
        ssh = await plain_ssh(person)
        for host in ("thesis", made["id"]):
            code, _, errors = await ssh.run(*ssh.jump(), host, "true")
            assert code == 255
            assert "You have no such workspace" in errors
        code, _, errors = await ssh.run(*ssh.jump("ann"), "thesis", "true")
        assert code == 255
        assert "Permission denied (publickey)" in errors
    assert await status_of(ann, "thesis") == "new"


async def test_nothing_else_is_reached(environment: CliEnvironment) -> None:
    """Neither the server's loopback, nor other ports, shells, commands, sockets or listeners."""
    ann = await environment.signed_in("ann")
    await create(ann, "thesis")
    ssh = await plain_ssh(ann)
    port = environment.url.rpartition(":")[2]
    for target in (
        f"127.0.0.1:{port}",
        "127.0.0.1:22",
        "localhost:5432",
        "thesis:5432",
        "169.254.169.254:80",
    ):
        code, out, errors = await ssh.run("-W", target, *ssh.direct(), stdin=b"GET / HTTP/1.0\r\n\r\n")
        assert (code, out) == (255, "")
        assert "Only workspaces are reached from here, at port 22" in errors
    for more in ((), ("true",)):
        code, out, errors = await ssh.run(*ssh.direct(), *more)
        assert (code, out) == (255, "")
        assert f"ssh -J ann@127.0.0.1:{ssh.gateway.port} NAME" in errors
    code, _, errors = await ssh.run(
        "-N", "-o", "ExitOnForwardFailure=yes", "-R", "0:127.0.0.1:22", *ssh.direct()
    )
    assert code == 255
    assert "remote port forwarding failed" in errors
    assert await status_of(ann, "thesis") == "new"


async def test_sessions_end_with_the_rights_of_their_person(environment: CliEnvironment) -> None:
    ann = await environment.signed_in("ann")
    await create(ann, "thesis")
    home, work = await plain_ssh(ann, "home"), await plain_ssh(ann, "work")
    at_home, at_work = await home.session("thesis"), await work.session("thesis")
    assert (await ann.run("keys", "rm", "home")).code == 0
    assert "revoked" in await end_of(at_home)
    code, _, errors = await home.run(*home.jump(), "thesis", "true")
    assert (code, "Permission denied (publickey)" in errors) == (255, True)
    assert at_work.returncode is None, "the other key still holds"

    code, out, errors = await work.run(*work.jump(), "thesis", "echo here")
    assert (code, out) == (0, "here\n"), errors
    async with environment.control.sessions.begin() as session:
        await accounts.set_disabled(session, username="ann", disabled=True, actor="test")
        user = await accounts.get_user(session, "ann")
    await LivePublisher(environment.link).publish_person(user.id)
    assert "revoked" in await end_of(at_work)
    code, _, errors = await work.run(*work.jump(), "thesis", "true")
    assert (code, "Permission denied (publickey)" in errors) == (255, True)
