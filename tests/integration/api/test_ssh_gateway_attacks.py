"""The SSH gateway under attack: what ssh-audit finds, messages that lie, clients that come back a thousand times.

``FUZZ_SECONDS`` fuzzes for longer, ``FUZZ_SEED`` repeats a run.
"""

import asyncio
import contextlib
import json
import os
import random
import sys
import time
from base64 import b64encode
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncssh
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from codehub.api.ssh.gateway.limits import Maxima
from codehub.api.ssh.gateway.port import CONNECTIONS
from tests.integration.api.environment import ApiEnvironment, create_workspace, serve, user_id
from tests.integration.api.test_ssh import headers_of
from tests.integration.api.test_ssh_gateway import SECONDS, Door, gateway_of
from tests.support.openssh import SEED
from tests.support.requirements import require_inside
from tests.support.waiting import until

SSH_AUDIT = Path(sys.executable).with_name("ssh-audit")
FUZZ_SECONDS = float(os.environ.get("FUZZ_SECONDS", "5"))
FUZZ_SEED = int(os.environ.get("FUZZ_SEED", "20"))
UNPACED = Maxima(strangers_of_address=1000, strangers=1000, at_once=100_000)
OLD_CLIENTS = {"curve25519-sha256", "curve25519-sha256@libssh.org"}
"""All that OpenSSH before 9.9 has in common with us. Modern, and noted for not withstanding a quantum computer."""


async def weaknesses(port: int) -> list[tuple[str, str, str]]:
    """What ssh-audit warns of: algorithm, level and words, of everything but the notes for information."""
    process = await asyncio.create_subprocess_exec(
        *(str(SSH_AUDIT), "--json", "--port", str(port), "127.0.0.1"), stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(SECONDS):
        output, _ = await process.communicate()
    report = json.loads(output)
    assert report["cves"] == []
    throttling = [note for note in report["additional_notes"] if "throttling" in note]
    found = [("throttling", "note", note) for note in throttling]
    for kind in ("kex", "key", "enc", "mac"):
        assert report[kind], kind
        for each in report[kind]:
            for level, notes in each["notes"].items():
                found += [(each["algorithm"], level, note) for note in notes if level != "info"]
    return found


def is_of_old_clients(weakness: tuple[str, str, str]) -> bool:
    algorithm, level, words = weakness
    return algorithm in OLD_CLIENTS and level == "warn" and "post-quantum" in words


async def test_ssh_audit_finds_nothing_at_the_gateway(environment: ApiEnvironment) -> None:
    async with gateway_of(environment) as door:
        assert [each for each in await weaknesses(door.address.port) if not is_of_old_clients(each)] == []


async def test_ssh_audit_finds_nothing_in_a_workspace() -> None:
    """``inside ssh`` has no port; here it is given one. Who comes how fast is the gateway's business."""
    opening = json.dumps({"host_key": b64encode(SEED).decode()}).encode() + b"\n"
    inside = str(require_inside())

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        process = await asyncio.create_subprocess_exec(
            inside, "ssh", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(opening)

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(65536):
                    target.write(data)
                    await target.drain()
            except OSError:
                pass
            target.close()

        await asyncio.gather(pump(reader, process.stdin), pump(process.stdout, writer))
        await process.wait()

    async with await asyncio.start_server(serve_one, "127.0.0.1", 0) as server:
        found = await weaknesses(server.sockets[0].getsockname()[1])
    assert [each for each in found if not is_of_old_clients(each) and each[0] != "throttling"] == []


class LyingClient(asyncssh.SSHClientConnection):
    """Sends what a client sends, some of it changed: other types, lengths, bytes and ends; repeated; out of order."""

    seeds = count(FUZZ_SEED)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.chance = random.Random(next(self.seeds))
        self.share = self.chance.choice([0.02, 0.1, 0.3])

    def send_packet(self, pkttype: int, *args: bytes, **options: Any) -> None:
        if self.chance.random() < self.share:
            pkttype, args = self._changed(pkttype, b"".join(args))
            options.pop("handler", None)
        super().send_packet(pkttype, *args, **options)
        if self.chance.random() < self.share / 4:
            super().send_packet(pkttype, *args)

    def _changed(self, pkttype: int, body: bytes) -> tuple[int, tuple[bytes, ...]]:
        chance = self.chance
        match chance.randrange(6):
            case 0:  # another type, known or not
                return chance.choice([*range(1, 8), *range(20, 32), *range(50, 67), *range(80, 101)]), (body,)
            case 1:  # cut short
                return pkttype, (body[: chance.randrange(len(body) + 1)],)
            case 2:  # a length that lies
                at = chance.randrange(max(1, len(body) - 4))
                return pkttype, (body[:at] + chance.choice([b"\xff" * 4, b"\x00" * 4]) + body[at + 4 :],)
            case 3:  # one byte
                at = chance.randrange(max(1, len(body)))
                return pkttype, (body[:at] + chance.randbytes(1) + body[at + 1 :],)
            case 4:  # more than it says
                return pkttype, (body + chance.randbytes(chance.randrange(1, 4000)),)
            case _:
                return pkttype, (chance.randbytes(chance.randrange(200)),)


async def attack(door: Door, key: Any) -> None:
    """Sign in, open channels to a workspace and elsewhere, send and close, as far as the lies allow."""
    async with asyncio.timeout(3), await door.connect("ann", key) as connection:
        for host, port in (("thesis", 22), ("127.0.0.1", 5432), ("thesis", 22)):
            try:
                reader, writer = await connection.open_connection(host, port)
            except asyncssh.ChannelOpenError:
                continue
            writer.write(b"SSH-2.0-x\r\n" + bytes(2000))
            await asyncio.wait_for(reader.read(1), 1)
            writer.close()


async def test_messages_that_lie_harm_nobody(
    environment: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway_of(environment, UNPACED) as door:
        ann, key = await door.person("ann")
        await create_workspace(ann, "thesis")
        honest = asyncssh.SSHClientConnection
        monkeypatch.setattr("asyncssh.connection.SSHClientConnection", LyingClient)
        until_then, attacks = time.monotonic() + FUZZ_SECONDS, 0

        async def attacker() -> None:
            nonlocal attacks
            while time.monotonic() < until_then:
                with contextlib.suppress(OSError, TimeoutError, asyncssh.Error):
                    await attack(door, key)  # refused, cut off, or never answered
                attacks += 1

        await asyncio.gather(*(attacker() for _ in range(16)))
        monkeypatch.setattr("asyncssh.connection.SSHClientConnection", honest)
        assert attacks > 4 * FUZZ_SECONDS

        async def all_gone() -> bool:
            return bool(CONNECTIONS._value.get() == 0)

        await until(all_gone, seconds=SECONDS, what="the end of every connection")
        async with await door.connect("ann", key) as connection:
            with pytest.raises(asyncssh.ChannelOpenError, match="Only workspaces"):
                await connection.open_connection("127.0.0.1", 5432)


async def test_a_thousand_clients_that_come_back_wake_nothing(environment: ApiEnvironment) -> None:
    """Most of them through the gateway, others by the WebSocket of ``codehub ssh``."""
    async with gateway_of(environment, UNPACED) as door, serve(environment.app) as url:
        ann, key = await door.person("ann")
        workspace = await create_workspace(ann, "thesis")
        path = f"/api/v1/workspaces/{workspace['id']}"
        (registered,) = (await ann.get("/api/v1/ssh-keys")).json()["items"]
        ended = environment.app.state.codehub.ended_clients
        await ended.remember(UUID(workspace["id"]), f"{await user_id(ann)} key {registered['id']}")
        await ended.remember(UUID(workspace["id"]), f"{await user_id(ann)} editor")
        socket = url.replace("http", "ws") + f"{path}/ssh?wake=true&client=editor"

        async def by_gateway() -> None:
            async with await door.connect("ann", key) as connection:
                for _ in range(80):
                    with pytest.raises(asyncssh.ChannelOpenError, match="does not wake it"):
                        await connection.open_connection("thesis", 22)

        async def by_socket() -> None:
            for _ in range(20):
                with pytest.raises(InvalidStatus) as refused:
                    await connect(socket, additional_headers=headers_of(ann), proxy=None)
                assert refused.value.response.status_code == 409

        await asyncio.gather(*(by_gateway() for _ in range(10)), *(by_socket() for _ in range(10)))
        now = (await ann.get(path)).json()
        assert (now["desired_state"], now["version"]) == ("PENDING", workspace["version"])
