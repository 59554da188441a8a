"""The SSH gateway as strangers meet it: who signs in, with which algorithms, what garbage does, what is too much."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import asyncssh
import httpx
import pytest
from asyncssh.public_key import SSHKey

from codehub.api.dependencies import SshGatewayAddress
from codehub.api.inside import session
from codehub.api.ssh.gateway.connection import VERSION
from codehub.api.ssh.gateway.limits import MAX_TRIES, Maxima
from codehub.api.ssh.session import IDENTIFICATION
from codehub.services.ssh_host_keys import gateway_key_seed, host_key_seed
from tests.integration.api.environment import ApiEnvironment, create_workspace, user_id
from tests.support.gateway import address_of_gateway, gateway_socket, serve_gateway
from tests.support.waiting import until

SECONDS = 60.0


@dataclass(frozen=True)
class Door:
    """The gateway of an environment."""

    environment: ApiEnvironment
    address: SshGatewayAddress

    async def person(self, username: str = "ann") -> tuple[httpx.AsyncClient, SSHKey]:
        """Somebody with a registered key."""
        client = await self.environment.sign_in(username)
        key = asyncssh.generate_private_key("ssh-ed25519")
        await self.register(client, key)
        return client, key

    async def register(self, client: httpx.AsyncClient, key: SSHKey) -> str:
        text = key.export_public_key().decode()
        answer = await client.post("/api/v1/ssh-keys", json={"name": "key", "public_key": text})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def connect(self, username: str, *keys: SSHKey, **options: object) -> asyncssh.SSHClientConnection:
        async with asyncio.timeout(SECONDS):
            return await asyncssh.connect(
                self.address.host,
                self.address.port,
                username=username,
                known_hosts=asyncssh.import_known_hosts(
                    f"[{self.address.host}]:{self.address.port} {self.address.host_key}"
                ),
                agent_path=None,
                config=None,
                **{"client_keys": list(keys), **options},
            )

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(SECONDS):
            return await asyncio.open_connection(self.address.host, self.address.port)


@asynccontextmanager
async def gateway_of(environment: ApiEnvironment, maxima: Maxima | None = None) -> AsyncIterator[Door]:
    with gateway_socket() as taken:
        async with serve_gateway(environment.app, taken, maxima):
            yield Door(environment, address_of_gateway(taken))


@pytest.fixture
async def door(environment: ApiEnvironment) -> AsyncIterator[Door]:
    async with gateway_of(environment) as door:
        yield door


async def gone(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the other side ends the connection."""
    async with asyncio.timeout(SECONDS):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def test_who_signs_in(door: Door) -> None:
    _, key = await door.person("ann")
    bob, of_bob = await door.person("bob")
    unknown = asyncssh.generate_private_key("ssh-ed25519")
    for username in ("ann", "Ann", "ann+wake"):
        async with await door.connect(username, unknown, key):
            pass
    for username, wrong in (("ann", of_bob), ("ann", unknown), ("bob", key), ("nobody", key), ("", key)):
        with pytest.raises(asyncssh.PermissionDenied):
            await door.connect(username, wrong)
    with pytest.raises(asyncssh.PermissionDenied):
        await door.connect("ann", password="a password", kbdint_auth=True)
    admin = await door.environment.sign_in("admin")
    disabled = await admin.patch(f"/api/v1/users/{await user_id(bob)}", json={"disabled": True})
    assert disabled.status_code == 200
    with pytest.raises(asyncssh.PermissionDenied):
        await door.connect("bob", of_bob)


async def test_a_registered_key_certifies_no_other(door: Door) -> None:
    _, key = await door.person("ann")
    other = asyncssh.generate_private_key("ssh-ed25519")
    certificate = key.generate_user_certificate(other, "ann", principals=["ann"])
    with pytest.raises(asyncssh.PermissionDenied):
        await door.connect("ann", client_keys=[(other, certificate)])


@pytest.mark.parametrize("kind", ["ecdsa-sha2-nistp256", "ecdsa-sha2-nistp521", "ssh-rsa"])
async def test_other_types_of_keys(door: Door, kind: str) -> None:
    ann = await door.environment.sign_in("ann")
    key = (
        asyncssh.generate_private_key(kind, key_size=3072)
        if kind == "ssh-rsa"
        else asyncssh.generate_private_key(kind)
    )
    await door.register(ann, key)
    async with await door.connect("ann", key):
        pass


async def test_signatures_with_sha1_are_refused(door: Door) -> None:
    ann = await door.environment.sign_in("ann")
    key = asyncssh.generate_private_key("ssh-rsa", key_size=3072)
    await door.register(ann, key)
    with pytest.raises(asyncssh.PermissionDenied):
        await door.connect("ann", key, signature_algs=["ssh-rsa", "ssh-ed25519"])


@pytest.mark.parametrize(
    "old",
    [
        {"kex_algs": ["diffie-hellman-group14-sha1", "diffie-hellman-group14-sha256", "ecdh-sha2-nistp256"]},
        {"encryption_algs": ["aes256-cbc", "3des-cbc", "aes256-ctr"]},
        {"server_host_key_algs": ["ssh-rsa", "rsa-sha2-512", "ecdsa-sha2-nistp256"]},
    ],
    ids=["key exchange", "cipher", "host key"],
)
async def test_old_algorithms_are_refused(door: Door, old: dict[str, object]) -> None:
    _, key = await door.person("ann")
    with pytest.raises(asyncssh.KeyExchangeFailed):
        await door.connect("ann", key, **old)


async def test_too_many_keys_end_the_connection(door: Door) -> None:
    _, key = await door.person("ann")
    others = [asyncssh.generate_private_key("ssh-ed25519") for _ in range(MAX_TRIES)]
    with pytest.raises(asyncssh.DisconnectError, match="Too many keys were tried"):
        await door.connect("ann", *others, key)


async def test_the_identification_line_comes_before_the_workspace_runs(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LOOK_SECONDS", 0.2)  # nobody sends news here
    ann, key = await door.person("ann")
    workspace = await create_workspace(ann, "thesis")
    async with await door.connect("ann", key) as connection, asyncio.timeout(SECONDS):
        reader, _ = await connection.open_connection("thesis", 22)
        assert await reader.readuntil(b"\n") == IDENTIFICATION
        now = (await ann.get(f"/api/v1/workspaces/{workspace['id']}")).json()
        assert (now["desired_state"], now["observed_status"]) == ("RUNNING", "PENDING")
        admin = await door.environment.sign_in("admin")
        audit = (await admin.get("/api/v1/admin/audit")).json()["items"]
        entered = [each for each in audit if each["action"] == "workspace.ssh"]
        assert [(each["actor"], set(each["detail"])) for each in entered] == [("user:ann", {"ssh_key"})]
        assert (await ann.delete(f"/api/v1/workspaces/{workspace['id']}")).status_code == 202
        await connection.wait_closed()


async def test_only_who_asks_for_it_wakes_what_was_put_to_sleep(door: Door) -> None:
    ann, key = await door.person("ann")
    workspace = await create_workspace(ann, "thesis")
    (registered,) = (await ann.get("/api/v1/ssh-keys")).json()["items"]
    ended = door.environment.app.state.codehub.ended_clients
    await ended.remember(UUID(workspace["id"]), f"{await user_id(ann)} key {registered['id']}")
    async with await door.connect("ann", key) as connection:
        for _ in range(20):
            with pytest.raises(asyncssh.ChannelOpenError, match=r"ssh -J ann\+wake@"):
                await connection.open_connection("thesis", 22)
    seen = (await ann.get(f"/api/v1/workspaces/{workspace['id']}")).json()
    assert seen["desired_state"] == "PENDING"
    async with await door.connect("ann+wake", key) as connection, asyncio.timeout(SECONDS):
        reader, _ = await connection.open_connection("thesis", 22)
        assert await reader.readuntil(b"\n") == IDENTIFICATION


async def test_a_workspace_in_trash_and_strange_names_are_refused(door: Door) -> None:
    ann, key = await door.person("ann")
    workspace = await create_workspace(ann, "thesis")
    assert (await ann.delete(f"/api/v1/workspaces/{workspace['id']}")).status_code == 202
    async with await door.connect("ann", key) as connection:
        for name in ("thesis", "", "\x00", "no such", "x" * 5000, "127.0.0.1", "*", "%"):
            with pytest.raises(asyncssh.ChannelOpenError, match="no such workspace"):
                await connection.open_connection(name, 22)
        with pytest.raises(asyncssh.ChannelOpenError, match="Deleted workspaces"):
            await connection.open_connection(workspace["id"], 22)


async def test_nothing_but_workspaces_is_opened(door: Door) -> None:
    _, key = await door.person("ann")
    async with await door.connect("ann", key) as connection:
        with pytest.raises(asyncssh.ChannelOpenError, match="ssh -J ann@"):
            await connection.create_process("true")
        with pytest.raises(asyncssh.ChannelOpenError, match="ssh -J ann@"):
            await connection.start_sftp_client()
        with pytest.raises(asyncssh.ChannelOpenError, match="forwards nothing"):
            await connection.open_unix_connection("/var/run/docker.sock")
        with pytest.raises(asyncssh.ChannelListenError):
            await connection.forward_remote_port("", 0, "127.0.0.1", 22)
        with pytest.raises(asyncssh.ChannelListenError):
            await connection.forward_remote_path("/tmp/socket", "/tmp/other")


async def test_a_removed_key_ends_its_connection(door: Door) -> None:
    """Also one on which nothing is open."""
    ann, key = await door.person("ann")
    (registered,) = (await ann.get("/api/v1/ssh-keys")).json()["items"]
    connection = await door.connect("ann", key)
    assert (await ann.delete(f"/api/v1/ssh-keys/{registered['id']}")).status_code == 204
    async with asyncio.timeout(SECONDS):
        await connection.wait_closed()
    with pytest.raises(asyncssh.PermissionDenied):
        await door.connect("ann", key)


async def test_strangers_are_limited(environment: ApiEnvironment) -> None:
    async with gateway_of(environment, Maxima(strangers_of_address=3)) as door:
        _, key = await door.person("ann")
        waiting = [await door.raw() for _ in range(3)]
        for reader, _ in waiting:
            assert (await reader.readline()).startswith(b"SSH-2.0-" + VERSION.encode())
        reader, _ = await door.raw()
        assert await gone(reader) == b""
        for _, writer in waiting:
            writer.close()

        async def is_let_in() -> bool:
            try:
                (await door.connect("ann", key)).close()
            except (asyncssh.DisconnectError, OSError):
                return False
            return True

        await until(is_let_in, seconds=SECONDS)
        people = [await door.connect("ann", key) for _ in range(5)]
        for connection in people:
            connection.close()


def garbage(chance: random.Random) -> bytes:
    """What no client sends: lines without an end, lengths that lie, messages out of order."""
    version = b"SSH-2.0-x\r\n"
    match chance.randrange(7):
        case 0:
            return chance.randbytes(chance.randrange(1, 20_000))
        case 1:
            return b"A" * chance.randrange(8192, 100_000)
        case 2:
            return b"GET / HTTP/1.1\r\nHost: hub\r\n\r\n"
        case 3:
            return version + b"\xff\xff\xff\xff" + chance.randbytes(5000)
        case 4:
            return version + chance.randbytes(chance.randrange(1, 5000))
        case 5:  # a packet of a random type, before any key exchange
            body = bytes([4, chance.randrange(256)]) + chance.randbytes(chance.randrange(20, 1000))
            return version + len(body).to_bytes(4, "big") + body
        case _:  # many small messages to ignore
            return version + (b"\x00\x00\x00\x0c\x06\x02\x00\x00\x00\x00" + bytes(6)) * 20_000


async def test_garbage_harms_nobody(door: Door) -> None:
    _, key = await door.person("ann")
    chance = random.Random(44)
    for _ in range(60):
        reader, writer = await door.raw()
        try:
            writer.write(garbage(chance))
            writer.write_eof()
        except OSError:
            pass  # it has been cut off already
        await gone(reader)
        writer.close()
    async with await door.connect("ann", key):
        pass


def test_the_gateway_has_a_key_of_its_own() -> None:
    assert gateway_key_seed(b"secret") == gateway_key_seed(b"secret")
    assert gateway_key_seed(b"secret") != gateway_key_seed(b"other")
    assert gateway_key_seed(b"secret") != host_key_seed(b"secret", UUID(int=0))
    assert len(gateway_key_seed(b"secret")) == 32
