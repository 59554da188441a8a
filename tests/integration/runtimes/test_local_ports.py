"""A port is a workspace's own only while its own processes listen there."""

import shlex
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import pytest

from codehub.runtimes.base import Address, FencingToken, ResourceLimits
from codehub.runtimes.local import LocalRuntime
from codehub.runtimes.local.sandbox import find_bubblewrap
from tests.support.waiting import until

SERVER = Path(__file__).parents[2] / "support" / "echo_server.py"
TOKEN = FencingToken(1, 1)


def can_bind(host: str) -> bool:
    try:
        with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            return True
    except OSError:
        return False


# What this machine has: a kernel without IPv6 or user namespaces runs workspaces too.
HOSTS = [host for host in ("127.0.0.1", "0.0.0.0", "::1", "::") if can_bind(host)]
SANDBOXES = [False, True] if find_bubblewrap() else [False]


@pytest.fixture(params=SANDBOXES, ids=lambda used: "bubblewrap" if used else "plain")
async def runtime(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalRuntime]:
    runtime = LocalRuntime(
        tmp_path,
        "one",
        {"echo": f"{shlex.quote(sys.executable)} {shlex.quote(str(SERVER))} {{port}}"},
        job_command=["false"],
        archive_url=f"file://{tmp_path}/archives",
        stop_grace_seconds=2,
        settle_seconds=30,
        use_bubblewrap=request.param,
    )
    await runtime.prepare()
    yield runtime
    await runtime.stop_all()
    await runtime.close()


async def bring_up(runtime: LocalRuntime) -> tuple[UUID, Address]:
    workspace_id = uuid4()
    await runtime.provision(workspace_id, token=TOKEN)
    await runtime.start(workspace_id, token=TOKEN, image_ref="echo", env={}, limits=ResourceLimits())
    address = await runtime.address(workspace_id)
    assert isinstance(address, Address)
    return workspace_id, address


async def listen(
    address: Address, *, host: str = "127.0.0.1", child: bool = False, shared: bool = False
) -> int:
    async with httpx.AsyncClient(trust_env=False) as client:
        query = f"host={host}" + ("&child=1" if child else "") + ("&shared=1" if shared else "")
        return int((await client.get(f"http://{address.host}:{address.port}/listen?{query}")).text)


@pytest.mark.parametrize("host", HOSTS)
async def test_a_second_server_of_a_workspace_is_its_own(runtime: LocalRuntime, host: str) -> None:
    mine, my_address = await bring_up(runtime)
    other, _ = await bring_up(runtime)
    port = await listen(my_address, host=host)
    address = await runtime.port_address(mine, port)
    assert address == Address("::1" if host == "::1" else "127.0.0.1", port)
    assert await runtime.port_address(other, port) is None
    assert await runtime.port_address(other, my_address.port) is None
    assert await runtime.port_address(uuid4(), port) is None


async def test_a_program_started_in_a_terminal_belongs_to_its_workspace(runtime: LocalRuntime) -> None:
    mine, address = await bring_up(runtime)
    other, _ = await bring_up(runtime)
    port = await listen(address, child=True)
    assert await runtime.port_address(mine, port) == Address("127.0.0.1", port)
    assert await runtime.port_address(other, port) is None


async def test_what_others_listen_on_belongs_to_no_workspace(runtime: LocalRuntime) -> None:
    mine, _ = await bring_up(runtime)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        assert await runtime.port_address(mine, stranger.getsockname()[1]) is None


async def test_a_closed_port_and_one_of_a_sleeping_workspace_are_nobodys(runtime: LocalRuntime) -> None:
    mine, address = await bring_up(runtime)
    port = await listen(address)
    async with httpx.AsyncClient(trust_env=False) as client:
        await client.get(f"http://{address.host}:{address.port}/close")

    async def closed() -> bool:
        return await runtime.port_address(mine, port) is None

    await until(closed)
    again = await listen(address)
    assert await runtime.port_address(mine, again) is not None
    await runtime.stop(mine, token=TOKEN)
    assert await runtime.port_address(mine, again) is None
    assert await runtime.port_address(mine, address.port) is None


async def test_the_ides_own_port_is_its_own_only_while_it_listens_there(runtime: LocalRuntime) -> None:
    mine, address = await bring_up(runtime)
    other, _ = await bring_up(runtime)
    socket_of_ide = await runtime.listener(mine, address)
    assert socket_of_ide is not None
    assert await runtime.listener(mine, address) == socket_of_ide
    assert await runtime.listener(other, address) is None
    async with httpx.AsyncClient(trust_env=False) as client:
        await client.get(f"http://{address.host}:{address.port}/leave")

    async def left() -> bool:
        return await runtime.listener(mine, address) is None

    await until(left)
    with socket.create_server((address.host, address.port)):
        assert await runtime.listener(mine, address) is None, "a stranger is there, the workspace runs on"
    assert await runtime.address(mine) == address


async def test_a_stranger_beside_the_ide_on_the_same_port_makes_it_nobodys(runtime: LocalRuntime) -> None:
    mine, address = await bring_up(runtime)
    other, _ = await bring_up(runtime)
    port = await listen(address, host="127.0.0.1", shared=True)
    there = Address("127.0.0.1", port)
    assert await runtime.listener(mine, there) is not None
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        stranger.bind(("127.0.0.1", port))
        stranger.listen()
        assert await runtime.listener(mine, there) is None
        assert await runtime.listener(other, there) is None
