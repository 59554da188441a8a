"""SSH into workspaces of the local runtime, beside OpenSSH's own sshd on the same machine, as the same user."""

# ruff: noqa: T201 - a program that prints
import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from uuid import uuid4

from tests.support.ports import free_port
from websockets.asyncio.client import connect

from bench.codehub_side import CodeHub, codehub, events
from bench.processes import command_line, cpu_seconds, memory_mib
from bench.runner import Bar, Measure, Report, take_turns
from bench.ssh_side import HOST, Openssh, over_socket, plain_sshd, through_command, through_gateway

COMMAND = (sys.executable, "-m", "codehub.cli.main")
MEBIBYTES = int(os.environ.get("SSH_MEBIBYTES", "256"))
IDLE = int(os.environ.get("SSH_IDLE", "500"))
IDLE_SECONDS = 60.0
KEYS = 300


async def connecting(directory: Path, *, rounds: int) -> Report:
    """Banner of a running workspace, and one whole ``ssh … true``."""
    report = Report(
        "ssh-connect",
        "SSH: connect to a running workspace (seconds)",
        bars=[
            Bar("seconds", "banner, gateway", at_most=0.15),
            Bar("seconds", "banner, WebSocket", at_most=0.15),
        ],
        notes=["`ssh … true`: OpenSSH's client to its end, sign-in and a process in the workspace included."],
    )
    async with (
        _workspace(directory) as (hub, workspace_id),
        plain_sshd(directory / "sshd", directory) as sshd,
    ):
        jump = await through_gateway(hub, directory / "jump", "one")
        command = await through_command(hub, directory / "command", workspace_id, COMMAND)
        by_jump, by_command = await _proxy_command(jump), await _proxy_command(command)
        sides: dict[str, Measure] = {
            "banner, gateway": lambda: _timed(lambda: _first_line(by_jump)),
            "banner, WebSocket": lambda: _timed(lambda: _socket_banner(hub, workspace_id)),
            "banner, codehub ssh --stdio": lambda: _timed(lambda: _first_line(by_command)),
            "ssh true, gateway": lambda: _timed(lambda: jump.run("ssh", HOST, "true")),
            "ssh true, codehub ssh": lambda: _timed(lambda: command.run("ssh", HOST, "true")),
            "ssh true, sshd": lambda: _timed(lambda: sshd.run("ssh", HOST, "true")),
        }
        for side in sides.values():
            await side()
        await take_turns(report, sides, rounds=rounds)
    return report


async def throughput(directory: Path, *, rounds: int) -> Report:
    """One large file there and back, over a connection that is open."""
    report = Report(
        "ssh-throughput",
        f"SSH: one file of {MEBIBYTES} MiB (MiB/s)",
        bars=[
            Bar(metric, "codehub ssh", "sshd", at_least=0.7)
            for metric in ("scp there", "scp back", "sftp there", "sftp back")
        ],
    )
    source, back = directory / "source", directory / "back"
    block = os.urandom(2**20)
    with source.open("wb") as file:
        for number in range(MEBIBYTES):
            file.write(number.to_bytes(8, "big") + block[8:])
    async with (
        _workspace(directory) as (hub, workspace_id),
        plain_sshd(directory / "sshd", directory) as sshd,
    ):
        clients = {
            "codehub ssh": await through_command(hub, directory / "command", workspace_id, COMMAND),
            "gateway": await through_gateway(hub, directory / "jump", "one"),
            "sshd": sshd,
        }

        async def copy(name: str) -> Mapping[str, float]:
            async with clients[name].connected() as client:
                return await copies(client, there=str(directory / "copy") if name == "sshd" else "copy")

        async def copies(client: Openssh, *, there: str) -> Mapping[str, float]:
            put, get = f"put {source} {there}\n".encode(), f"get {there} {back}\n".encode()
            took = {
                "scp there": await _seconds(lambda: client.run("scp", str(source), f"{HOST}:{there}")),
                "scp back": await _seconds(lambda: client.run("scp", f"{HOST}:{there}", str(back))),
                "sftp there": await _seconds(lambda: client.run("sftp", "-b", "-", HOST, stdin=put)),
                "sftp back": await _seconds(lambda: client.run("sftp", "-b", "-", HOST, stdin=get)),
            }
            same = await asyncio.create_subprocess_exec("cmp", str(source), str(back))
            assert await same.wait() == 0, "not the same bytes"
            await client.run("ssh", HOST, f"rm {there}")
            return {metric: MEBIBYTES / seconds for metric, seconds in took.items()}

        await take_turns(report, {name: partial(copy, name) for name in clients}, rounds=rounds)
    return report


async def echo(directory: Path, *, rounds: int) -> Report:
    """From a key to its echo, in the dashboard's terminal and over SSH, one after another."""
    report = Report(
        "ssh-echo",
        f"Keystroke to echo, {KEYS} keys (milliseconds)",
        bars=[Bar("p99 ms", "terminal", at_most=10), Bar("p99 ms", "codehub ssh", at_most=10)],
    )
    async with _workspace(directory) as (hub, workspace_id):
        sides: dict[str, Measure] = {
            "terminal": lambda: _terminal_echo(hub, workspace_id),
            "codehub ssh": lambda: _ssh_echo(hub, workspace_id),
        }
        await take_turns(report, sides, rounds=rounds)
    return report


async def idle(directory: Path, *, rounds: int) -> Report:
    """What open sessions cost that nobody uses, above the same CodeHub without any."""
    report = Report(
        "ssh-idle",
        f"{IDLE} idle SSH sessions, above none (CPU in % of one processor; memory of CodeHub a session)",
        bars=[Bar("CPU %", "sessions", at_most=1), Bar("MiB each", "sessions", at_most=0.5)],
    )
    async with _workspace(directory) as (hub, workspace_id):
        await asyncio.sleep(15)
        without = await _rest(hub)
        print(f"  none: {without}", flush=True)
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(IDLE):
                await stack.enter_async_context(over_socket(hub, workspace_id))
            print(f"  {IDLE} are open", flush=True)
            await asyncio.sleep(30)
            for _ in range(rounds):
                found = await _rest(hub)
                cpu, memory = (found[key] - without[key] for key in ("CPU %", "memory MiB"))
                report.add("sessions", {"CPU %": cpu, "MiB each": memory / IDLE})
                print(f"  {found}", flush=True)
    return report


@contextlib.asynccontextmanager
async def _workspace(directory: Path) -> AsyncIterator[tuple[CodeHub, str]]:
    """One CodeHub with a gateway, and one workspace that runs, ``one``."""
    bind = f"127.0.0.1:{free_port()}"
    async with codehub(directory, CODEHUB_SSH_BIND=bind) as hub, events(hub) as seen:
        workspace_id = await hub.create("one")
        await seen.until(workspace_id, "running")
        yield hub, workspace_id
        await hub.delete(workspace_id)


async def _seconds(call: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began


async def _timed(call: Callable[[], Awaitable[object]]) -> Mapping[str, float]:
    return {"seconds": await _seconds(call)}


async def _proxy_command(client: Openssh) -> str:
    """The ProxyCommand of a configuration, as a shell is given it."""
    parsed = dict(line.split(" ", 1) for line in (await client.run("ssh", "-G", HOST)).decode().splitlines())
    return "exec " + parsed["proxycommand"].replace("%h", parsed["hostname"]).replace("%p", "22")


async def _first_line(command: str) -> None:
    """Until it has said the server's identification."""
    process = await asyncio.create_subprocess_shell(
        command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert (await process.stdout.readline()).startswith(b"SSH-2.0-")
    process.terminate()
    await process.communicate()


async def _socket_banner(hub: CodeHub, workspace_id: str) -> None:
    url = hub.url.replace("http", "ws", 1) + f"/api/v1/workspaces/{workspace_id}/ssh?client=bench"
    async with connect(url, additional_headers={"Authorization": f"Bearer {hub.token}"}, proxy=None) as ws:
        assert str(await ws.recv(decode=False), "ascii").startswith("SSH-2.0-")


async def _terminal_echo(hub: CodeHub, workspace_id: str) -> Mapping[str, float]:
    url = hub.url.replace("http", "ws", 1) + f"/api/v1/workspaces/{workspace_id}/terminal?id={uuid4().hex}"
    async with connect(
        url, additional_headers={"Authorization": f"Bearer {hub.token}"}, proxy=None, compression=None
    ) as ws:
        await ws.send(b"stty -icanon; echo rea''dy; cat > /dev/null; exit\r")
        seen = b""

        async def until(wanted: bytes) -> None:
            nonlocal seen
            while wanted not in seen:
                message = await ws.recv()
                if isinstance(message, bytes):
                    seen += message
                    await ws.send(f'{{"ack": {len(message)}}}')

        await until(b"ready\r\n")

        async def press() -> None:
            nonlocal seen
            seen = b""
            await ws.send(b"x")
            await until(b"x")

        figures = await _presses(press)
        await ws.send(b"\x04")  # its end
    return figures


async def _ssh_echo(hub: CodeHub, workspace_id: str) -> Mapping[str, float]:
    async with over_socket(hub, workspace_id) as connection:
        process = await connection.create_process(
            "stty -icanon; exec cat > /dev/null", term_type="xterm", encoding=None
        )

        async def press() -> None:
            process.stdin.write(b"x")
            await process.stdout.readexactly(1)

        return await _presses(press)


async def _presses(press: Callable[[], Awaitable[None]]) -> Mapping[str, float]:
    for _ in range(20):
        await press()
    took = []
    for _ in range(KEYS):
        took.append(await _seconds(press) * 1000)
        await asyncio.sleep(0.01)  # as fast as nobody types
    took.sort()
    return {"p50 ms": took[len(took) // 2], "p99 ms": took[int(len(took) * 0.99)]}


async def _rest(hub: CodeHub) -> dict[str, float]:
    """CPU and memory of CodeHub alone, while nothing happens."""
    pids = [pid for pid in hub.pids() if " ssh" not in command_line(pid)]
    before, began = cpu_seconds(pids), time.perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    took = time.perf_counter() - began
    return {"CPU %": (cpu_seconds(pids) - before) / took * 100, "memory MiB": memory_mib(pids)}
