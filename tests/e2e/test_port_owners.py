"""Ports of the local runtime are the whole machine's: only the workspace itself gets its requests."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.instance import codehub_up
from tests.support.people import ECHO_ON_PORT, QUICK, Person
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(180)

SETTINGS: dict[str, Any] = {
    **QUICK,
    "LOCAL_IMAGES": json.dumps({"echo": ECHO_ON_PORT, "silent": "sh -c 'exec sleep 1000' {port}"}),
}


class Squatter:
    """A program of somebody else on this machine, on a port that is not its own."""

    def __init__(self) -> None:
        self.received = b""

    @contextlib.asynccontextmanager
    async def on(self, port: int) -> AsyncIterator[None]:
        async with await self._bind(port):
            yield

    async def _bind(self, port: int) -> asyncio.Server:
        """As soon as it can: a connection that is just ending may still have the port."""
        for _ in range(100):
            try:
                return await asyncio.start_server(self._serve, "127.0.0.1", port, reuse_address=True)
            except OSError:
                await asyncio.sleep(0.1)
        raise AssertionError(f"port {port} stays taken")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            if data := await reader.read(65536):
                self.received += data
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nhah")
        writer.close()


def port_of(data_dir: Path, workspace_id: str) -> int:
    """The port reserved for it."""
    ports = data_dir / "run" / "ports"
    return next(int(name) for name in os.listdir(ports) if os.readlink(ports / name) == workspace_id)


async def test_whoever_takes_the_port_of_a_silent_ide_gets_no_request(tmp_path: Path) -> None:
    async with (
        codehub_up(tmp_path / "data", **SETTINGS) as instance,
        Person.admin(instance.url) as person,
    ):
        workspace_id = await person.create("silent", image="silent")
        await person.until_status(workspace_id, "running")
        squatter = Squatter()
        async with squatter.on(port_of(tmp_path / "data", workspace_id)):
            ready = await person.background(f"/_codehub/ready/{workspace_id}")
            page = await person.navigate(f"/w/{workspace_id}/")
            asked = await person.background(f"/w/{workspace_id}/secret")
            posted = await person.client.post(f"/w/{workspace_id}/form", json={"secret": 1})
        assert squatter.received == b""
        assert ready.status_code == 503
        assert "hah" not in page.text
        assert [asked.status_code, posted.status_code] == [502, 502]


async def test_whoever_takes_another_port_after_its_server_gets_no_request(tmp_path: Path) -> None:
    """The proxy remembers for two seconds whose a port is; connections are judged when they are made."""
    async with (
        codehub_up(tmp_path / "data", **SETTINGS) as instance,
        Person.admin(instance.url) as person,
    ):
        workspace_id = await person.running("busy")
        port = int((await person.background(f"/w/{workspace_id}/listen")).text)
        squatter = Squatter()

        async def is_known() -> bool:
            answer = await person.background(f"/w/{workspace_id}/port/{port}/")
            return bool(answer.status_code == 200)

        await until(is_known, what="the second server to answer")
        await person.background(f"/w/{workspace_id}/close")
        async with squatter.on(port):
            posted = await person.client.post(f"/w/{workspace_id}/port/{port}/form", json={"secret": 1})
        assert squatter.received == b""
        assert posted.status_code in {404, 502}
