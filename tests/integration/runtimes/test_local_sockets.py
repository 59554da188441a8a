"""An IDE on a Unix socket: reached by CodeHub, by nobody else, and in its place after an upgrade too."""

import errno
import os
import shlex
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.unix_sockets import connect_without_links
from codehub.runtimes.base import Address, FencingToken, ResourceLimits, UnixSocket
from codehub.runtimes.local import LocalRuntime
from codehub.runtimes.local.layout import Layout
from codehub.runtimes.local.processes import ProcessIdentity, boot_id, members
from codehub.runtimes.local.sandbox import find_bubblewrap
from codehub.runtimes.local.spawn import WORKSPACE_VARIABLE
from tests.support.local_environment import server_command
from tests.support.requirements import require_bubblewrap

TOKEN = FencingToken(1, 1)
SANDBOXES = [False, True] if find_bubblewrap() else [False]
NOBODY = ProcessIdentity(pid=0, start_ticks=0, boot_id=boot_id())
ON_SOCKET, ON_PORT = server_command(where="{socket}"), server_command()


@pytest.fixture(params=["run", "long" * 30], ids=["short", "long"])
def data_dir(request: pytest.FixtureRequest) -> Iterator[Path]:
    """In a directory with a short path; and one with a path too long for the name of a socket."""
    with tempfile.TemporaryDirectory(prefix="ch") as short:
        yield Path(short) / request.param


@pytest.fixture
def sockets(data_dir: Path) -> Path:
    return Layout(data_dir, "one").sockets


@pytest.fixture(params=SANDBOXES, ids=lambda used: "bubblewrap" if used else "plain")
async def runtime(data_dir: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalRuntime]:
    runtime = await opened(data_dir, ON_SOCKET, use_bubblewrap=request.param)
    yield runtime
    await runtime.stop_all()
    await runtime.close()


async def opened(data_dir: Path, image: str, *, use_bubblewrap: bool = False) -> LocalRuntime:
    runtime = LocalRuntime(
        *(data_dir, "one", {"tiny": image}),
        job_command=["false"],
        archive_url="file:///nowhere",
        stop_grace_seconds=2,
        settle_seconds=30,
        use_bubblewrap=use_bubblewrap,
    )
    await runtime.prepare()
    return runtime


async def bring_up(runtime: LocalRuntime, *, op_seq: int = 1) -> UUID:
    workspace_id = uuid4()
    await runtime.provision(workspace_id, token=FencingToken(op_seq, 1))
    await start(runtime, workspace_id, op_seq=op_seq)
    return workspace_id


async def start(runtime: LocalRuntime, workspace_id: UUID, *, op_seq: int = 1) -> None:
    await runtime.start(
        workspace_id, token=FencingToken(op_seq, 1), image_ref="tiny", env={}, limits=ResourceLimits()
    )


async def socket_of(runtime: LocalRuntime, workspace_id: UUID) -> str:
    endpoint = await runtime.address(workspace_id)
    assert isinstance(endpoint, UnixSocket)
    return endpoint.path


def ask(path: str) -> str:
    with connect_without_links(path) as connection:
        connection.settimeout(10)
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer.decode()


async def test_it_is_started_when_it_listens_and_answers_there(runtime: LocalRuntime) -> None:
    mine, other = await bring_up(runtime), await bring_up(runtime)
    path = await socket_of(runtime, mine)
    assert path != await socket_of(runtime, other)
    said = ask(path)
    assert f"{WORKSPACE_VARIABLE}={mine}" in said
    assert f"CODEHUB_SOCKET={path}" in said
    assert "CODEHUB_PORT" not in said, "it has one reserved, and must not be led to listen there"


async def test_nobody_but_codehubs_user_may_enter_its_directory(runtime: LocalRuntime, sockets: Path) -> None:
    path = Path(await socket_of(runtime, await bring_up(runtime)))
    for directory in (sockets, path.parent):
        found = directory.stat()
        assert (found.st_mode & 0o777, found.st_uid) == (0o700, os.geteuid())
    if os.geteuid() == 0:  # then another user can be had
        assert errno_of_connecting_as(65534, path) == errno.EACCES


def errno_of_connecting_as(uid: int, path: Path) -> int:
    """What another user of this machine is told; 0: it could connect."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os._exit(socket.socket(socket.AF_UNIX).connect_ex(str(path)))
        finally:
            os._exit(255)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


async def test_it_comes_back_on_the_same_socket_whatever_it_left_there(runtime: LocalRuntime) -> None:
    mine = await bring_up(runtime)
    path = await socket_of(runtime, mine)
    closed = Path(path).parent / "closed"
    closed.mkdir()
    (closed / "file").write_text("debris")
    closed.chmod(0)
    await runtime.stop(mine, token=TOKEN)
    os.mkdir(os.path.dirname(path))
    os.mkfifo(path)  # and what a killed one left
    await start(runtime, mine)
    assert await socket_of(runtime, mine) == path
    assert "200 OK" in ask(path)
    assert not closed.exists()


async def test_the_end_of_a_workspace_is_the_end_of_its_place(runtime: LocalRuntime) -> None:
    mine = await bring_up(runtime)
    path = Path(await socket_of(runtime, mine))
    await runtime.stop(mine, token=TOKEN)
    await runtime.delete_volume(mine, token=TOKEN)
    assert not path.parent.exists()


async def test_in_a_sandbox_only_the_own_place_is_seen(data_dir: Path, sockets: Path) -> None:
    require_bubblewrap()
    runtime = await opened(data_dir, ON_SOCKET, use_bubblewrap=True)
    try:
        mine, other = await bring_up(runtime), await bring_up(runtime)
        path, their_path = await socket_of(runtime, mine), await socket_of(runtime, other)
        inside = max(stat.pid for stat in members(NOBODY, f"{WORKSPACE_VARIABLE}={mine}"))
        seen = Path(f"/proc/{inside}/root{sockets}")
        assert os.listdir(seen) == [Path(path).parent.name]
        assert "200 OK" in ask(their_path), "the other one runs"
    finally:
        await runtime.stop_all()
        await runtime.close()


async def test_one_that_runs_on_a_port_since_before_an_upgrade_goes_on(data_dir: Path, sockets: Path) -> None:
    before = await opened(data_dir, ON_PORT)
    workspace_id = await bring_up(before)
    endpoint = await before.address(workspace_id)
    await before.close()
    after = await opened(data_dir, ON_SOCKET)
    try:
        assert await after.address(workspace_id) == endpoint
        assert isinstance(endpoint, Address)
        assert (await after.observe()).sightings[workspace_id].address == endpoint
        assert await after.listener(workspace_id, endpoint) is not None
        await start(after, workspace_id, op_seq=2)  # it runs: nothing to do
        assert await after.address(workspace_id) == endpoint
        await after.stop(workspace_id, token=FencingToken(3, 1))
        await start(after, workspace_id, op_seq=4)
        assert "200 OK" in ask(await socket_of(after, workspace_id))
    finally:
        await after.stop_all()
        await after.close()


async def test_nothing_stays_outside_the_data_directory(data_dir: Path, sockets: Path) -> None:
    runtime = await opened(data_dir, ON_SOCKET)
    await bring_up(runtime)
    await runtime.stop_all()
    await runtime.close()
    left = os.listdir(sockets.parent) if sockets.parent == Path("/tmp") else []
    assert sockets.name not in left


@pytest.mark.parametrize("mode", [0o755, 0o770])
async def test_a_directory_others_may_enter_is_not_used(data_dir: Path, sockets: Path, mode: int) -> None:
    runtime = await opened(data_dir, ON_SOCKET)
    os.mkdir(sockets)
    os.chmod(sockets, mode)
    try:
        with pytest.raises(EffectError, match="others may enter it") as caught:
            await bring_up(runtime)
        assert caught.value.failure is FailureCode.CONTAINER_START_FAILED
    finally:
        os.rmdir(sockets)
        await runtime.close()


async def test_a_command_that_never_listens_is_given_its_time(data_dir: Path, sockets: Path) -> None:
    silent = f"{shlex.quote(sys.executable)} -I -S -c 'import time; time.sleep(1000)' {{socket}}"
    runtime = LocalRuntime(
        *(data_dir, "one", {"tiny": silent}),
        job_command=["false"],
        archive_url="file:///nowhere",
        stop_grace_seconds=0,
        settle_seconds=0.2,
    )
    await runtime.prepare()
    workspace_id = await bring_up(runtime)
    with pytest.raises(FileNotFoundError):
        connect_without_links(await socket_of(runtime, workspace_id))
    await runtime.stop_all()
    await runtime.close()


def test_a_link_in_its_place_is_not_followed(tmp_path_factory: pytest.TempPathFactory) -> None:
    sockets = tmp_path_factory.mktemp("s")
    with socket.socket(socket.AF_UNIX) as hidden:
        hidden.bind(str(sockets / "hidden"))
        hidden.listen()
        (sockets / "s").symlink_to(sockets / "hidden")
        with pytest.raises(OSError, match="not a socket"):
            connect_without_links(str(sockets / "s"))
        connect_without_links(str(sockets / "hidden")).close()
